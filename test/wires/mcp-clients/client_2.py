"""Uses the client of MCP's SDK 2 for Python, in both revisions, and prints what it got as JSON."""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

URL, MODE = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {os.environ['MCP_KEY']}"}


async def answer(_context, params):
    """Answers a question of an agent, and approves its calls."""
    properties = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={"approve": True} if "approve" in properties else {"answer": "blue"})


async def main():
    found = {"progress": []}

    async def on_progress(progress, _total, _message):
        found["progress"].append(progress)

    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
        transport = streamable_http_client(URL, http_client=http)
        async with Client(transport, mode=MODE, elicitation_callback=answer) as client:
            found["version"] = client.protocol_version
            found["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            greeting = await client.call_tool("acme__greeter", {"name": "Ada"})
            found["greeting"] = [greeting.content[0].text, greeting.structured_content]
            failed = await client.call_tool("acme__failing", {})
            found["failed"] = [failed.is_error, failed.content[0].text]
            try:
                await client.call_tool("acme__nobody", {})
            except Exception as error:
                found["unknown"] = [type(error).__name__, getattr(getattr(error, "error", None), "code", None)]
            await client.call_tool("acme__worker", {}, progress_callback=on_progress)
            if MODE != "legacy":
                asked = await client.call_tool("acme__asker", {})
                found["asked"] = asked.content[0].text
            with anyio.move_on_after(2) as scope:
                await client.call_tool("acme__slow", {})
            found["cancelled"] = scope.cancelled_caught
    print(json.dumps(found))


anyio.run(main)
