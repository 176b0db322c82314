"""Uses the client of A2A, with the address and the key of its environment, and prints what it got as JSON."""

import asyncio
import json
import os
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as types

URL = os.environ["A2A_URL"]
BINDING = os.environ["A2A_BINDING"]


def message(text: str, **more: str) -> types.SendMessageRequest:
    part = types.Part(text=text)
    sent = types.Message(message_id=str(uuid.uuid4()), role=types.ROLE_USER, parts=[part], **more)
    return types.SendMessageRequest(message=sent)


async def last(client, request):
    """Returns the last task, or the last state, that an answer or a stream has."""
    found = None
    async for event in client.send_message(request):
        found = event
    return found


def state(task) -> str:
    return types.TaskState.Name(task.status.state)


async def main() -> None:
    headers = {"authorization": f"Bearer {os.environ['A2A_KEY']}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:

        async def client_for(agent: str, streaming: bool):
            card = await A2ACardResolver(http, f"{URL}/{agent}").get_agent_card()
            config = ClientConfig(
                httpx_client=http,
                streaming=streaming,
                supported_protocol_bindings=[BINDING],
                use_client_preference=True,
            )
            return card, ClientFactory(config).create(card)

        found = {}
        card, client = await client_for("helper", False)
        found["card"] = [card.name, card.version]
        task = (await last(client, message("hello"))).task
        found["sent"] = [state(task), task.artifacts[0].parts[0].text]
        _, streaming = await client_for("helper", True)
        end = await last(streaming, message("again", context_id=task.context_id))
        found["streamed"] = state(end.status_update)
        got = await client.get_task(types.GetTaskRequest(id=task.id))
        found["got"] = got.artifacts[0].parts[0].text
        listed = await client.list_tasks(types.ListTasksRequest(context_id=task.context_id))
        found["listed"] = len(listed.tasks)

        _, teller = await client_for("teller", False)
        asked = (await last(teller, message("Refund"))).task
        found["asked"] = state(asked)
        answer = message("approve", task_id=asked.id, context_id=asked.context_id)
        done = (await last(teller, answer)).task
        found["answered"] = [state(done), done.artifacts[0].parts[0].text]

        try:
            await client.get_task(types.GetTaskRequest(id=str(uuid.uuid4())))
        except Exception as error:  # noqa: BLE001
            found["unknown"] = type(error).__name__
        try:
            await client.cancel_task(types.CancelTaskRequest(id=task.id))
        except Exception as error:  # noqa: BLE001
            found["ended"] = type(error).__name__
        print(json.dumps(found))


asyncio.run(main())
