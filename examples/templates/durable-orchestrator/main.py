"""Calls another agent for each name. It asks a person first if they are many, and goes on after an interruption."""

import asyncio
import json
import sys

from agent_platform import AgentClient, durable

GREETER = "main/hello-python@v1"  # also in agent.json, which allows the call
MANY = 5


async def greet(client, name):
    answer = await client.call(GREETER, {"name": name})
    return answer["greeting"]


async def main(names):
    # The program ends while it waits. It is started again from its top, and gets the answer here.
    if len(names) > MANY and await durable.ask_human_async(f"Greet {len(names)} people?", ["yes", "no"]) == "no":
        return {"greetings": []}
    client = AgentClient()
    # What a step has returned is kept: it is not called again.
    steps = [durable.step_async(f"greet {name}", lambda name=name: greet(client, name)) for name in names]
    return {"greetings": await asyncio.gather(*steps)}


json.dump(asyncio.run(main(json.load(sys.stdin)["names"])), sys.stdout)
