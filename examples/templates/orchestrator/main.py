"""Calls another agent for each name, all at the same time."""

import asyncio
import json
import sys

from agent_platform import AgentClient

GREETER = "main/hello-python@v1"  # also in agent.json, which allows the call


async def main(names):
    client = AgentClient()
    answers = await asyncio.gather(*(client.call(GREETER, {"name": name}) for name in names))
    return {"greetings": [answer["greeting"] for answer in answers]}


json.dump(asyncio.run(main(json.load(sys.stdin)["names"])), sys.stdout)
