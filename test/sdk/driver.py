"""Does one job with the Python SDK: JSON on stdin, JSON on stdout. driver.js is the same for JavaScript."""

import asyncio
import dataclasses
import json
import re
import sys
from types import SimpleNamespace

import agent_platform as sdk


def snake(name):
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def plain(value):
    if isinstance(value, sdk.Answer):
        named = dataclasses.asdict(value)
        named["runId"] = named.pop("run_id")
        return named
    return value


def work(module, method, args=(), options=None, headers=None):
    given = {snake(name): value for name, value in (options or {}).items()}
    if "files" in given:
        given["files"] = [
            file if isinstance(file, str) else (file["name"], file["content"].encode()) for file in given["files"]
        ]
    if module == "agent":
        client = sdk.AgentClient.from_request(SimpleNamespace(headers=headers)) if headers else sdk.AgentClient()
        if method != "callAll":
            return asyncio.run(client.call(*args, **given))

        async def call_all():
            return await asyncio.gather(*(client.call(ref, **given) for ref in args[0]))

        return asyncio.run(call_all())
    if module == "platform":
        platform = sdk.Platform()
        if method == "stream":
            *progress, answer = platform.stream(*args, **given)
            return [*progress, {"type": "result", **plain(answer)}]
        if method == "startAndWait":
            return plain(platform.wait(platform.start(*args), **given))
        if method == "startAndCancel":
            return platform.cancel(platform.start(*args))
        return plain(getattr(platform, method)(*args, **given))
    if (module, method) == ("storage", "update"):
        return sdk.storage.update(*args, lambda value: {"count": (value or {"count": 0})["count"] + 1}, **given)
    return getattr(getattr(sdk, module), snake(method))(*args, **given)


try:
    outcome = {"value": work(**json.load(sys.stdin))}
except Exception as error:
    names = ["code", "status", "isRetryable", "suggestedWaitTime", "requestId", "responseBody", "exitCode"]
    members = {name: getattr(error, snake(name), None) for name in names}
    outcome = {"error": {"type": type(error).__name__, "message": str(error), **members}}
print(json.dumps(outcome))
