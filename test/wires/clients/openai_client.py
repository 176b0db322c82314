"""Uses the client of OpenAI, with the address and the key of its environment, and prints what it got as JSON."""

import json

import openai

client = openai.OpenAI(max_retries=0)
MODEL = "acme/helper"
TEXT = 'hello [[llm {"text": "One two three."}]]'
MESSAGES = [{"role": "user", "content": TEXT}]

found = {"models": sorted(model.id for model in client.models.list())}
found["chat"] = client.chat.completions.create(model=MODEL, messages=MESSAGES).choices[0].message.content
with client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
    stream.until_done()
    found["chat_stream"] = stream.get_final_completion().choices[0].message.content

found["response"] = client.responses.create(model=MODEL, input=TEXT).output_text
with client.responses.stream(model=MODEL, input=TEXT) as stream:
    stream.until_done()
    final = stream.get_final_response()
    found["response_stream"] = final.output_text
with client.responses.stream(response_id=final.id, starting_after=4) as stream:
    stream.until_done()
    found["resumed"] = stream.get_final_response().output_text

SLOW = 'think [[llm {"text": "Never.", "delayMs": 60000}]]'
begun = client.responses.create(model=MODEL, input=SLOW, background=True)
found["cancelled"] = client.responses.cancel(begun.id).status

try:
    client.chat.completions.create(model="acme/nobody", messages=MESSAGES)
except openai.OpenAIError as error:
    found["error"] = [type(error).__name__, error.code]
print(json.dumps(found))
