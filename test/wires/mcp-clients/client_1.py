"""Uses the client of MCP's SDK 1 for Python, of the former revision, and prints what it got as JSON."""

import json
import os
import sys

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

HEADERS = {"Authorization": f"Bearer {os.environ['MCP_KEY']}"}


async def main():
    found = {"progress": []}

    async def on_progress(progress, _total, _message):
        found["progress"].append(progress)

    async with streamablehttp_client(sys.argv[1], headers=HEADERS) as (read, write, _):
        async with ClientSession(read, write) as session:
            found["version"] = (await session.initialize()).protocolVersion
            found["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            greeting = await session.call_tool("acme__greeter", {"name": "Ada"})
            found["greeting"] = [greeting.content[0].text, greeting.structuredContent]
            failed = await session.call_tool("acme__failing", {})
            found["failed"] = [failed.isError, failed.content[0].text]
            try:
                unknown = await session.call_tool("acme__nobody", {})
                found["unknown"] = ["result", unknown.isError]
            except McpError as error:
                found["unknown"] = ["McpError", error.error.code]
            await session.call_tool("acme__worker", {}, progress_callback=on_progress)
            with anyio.move_on_after(2) as scope:
                await session.call_tool("acme__slow", {})
            found["cancelled"] = scope.cancelled_caught
    print(json.dumps(found))


anyio.run(main)
