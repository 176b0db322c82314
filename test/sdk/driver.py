"""Does jobs with the Python SDK: a line of JSON on stdin, a line on stdout. driver.js is the same for JavaScript."""

import asyncio
import dataclasses
import json
import os
import re
import sys
import threading
import time
from types import SimpleNamespace

import agent_platform as sdk


def snake(name):
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def plain(value):
    if isinstance(value, sdk.Answer):
        named = dataclasses.asdict(value)
        named["runId"] = named.pop("run_id")
        return named
    if isinstance(value, sdk.Run):
        return dataclasses.asdict(value)
    return value


async def work_async(method, args, given):
    platform = sdk.AsyncPlatform()
    if method == "stream":
        *progress, answer = [event async for event in platform.stream(*args, **given)]
        return [*progress, {"type": "result", **plain(answer)}]
    if method in ("watch", "list", "runs", "shares", "scores"):
        return [row async for row in getattr(platform, method)(*args, **given)]
    if method == "streamFirst":
        async with platform.stream(*args, **given) as stream:
            async for event in stream:
                return [event, stream.run_id]
    if method == "streamClosed":
        stream = platform.stream(*args, **given)
        events = []
        async for event in stream:
            events.append(event)
            asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(stream.close()))
        return events
    if method == "callAborted":
        try:
            await asyncio.wait_for(platform.call(*args), 3)
        except asyncio.TimeoutError:
            await asyncio.sleep(0.1)
            return "ended"
    if method == "startAndWait":
        return plain(await platform.wait(await platform.start(*args), **given))
    if method == "startAndCancel":
        return await platform.cancel(await platform.start(*args))
    if method == "uploadTwice":
        upload = await platform.upload((args[0]["name"], args[0]["content"].encode()))
        return [(await platform.call(args[1], {}, files=[upload])).data for _ in range(2)]
    return plain(await getattr(platform, snake(method))(*args, **given))


def converse(session, steps):
    values = []
    for step, *args in steps:
        made = getattr(session, step)(*args)
        if step == "stream":
            *progress, answer = made
            values.append([*progress, {"type": "result", **plain(answer)}])
        elif step == "messages":
            values.append(list(made))
        elif step == "fork":
            session = made
            values.append(session.id())
        else:
            values.append(plain(made))
    return values


async def converse_async(session, steps):
    values = []
    for step, *args in steps:
        made = getattr(session, step)(*args)
        if step == "stream":
            *progress, answer = [event async for event in made]
            values.append([*progress, {"type": "result", **plain(answer)}])
        elif step == "messages":
            values.append([row async for row in made])
        elif step == "fork":
            session = await made
            values.append(await session.id())
        else:
            values.append(plain(await made))
    return values


def work(module, method, args=(), options=None, headers=None, steps=()):
    given = {snake(name): value for name, value in (options or {}).items()}
    if module == "session" and os.environ.get("SDK_ASYNC"):
        return asyncio.run(converse_async(sdk.AsyncPlatform().session(*args, **given), steps))
    if module == "session":
        return converse(sdk.Platform().session(*args, **given), steps)
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
    if module == "platform" and os.environ.get("SDK_ASYNC"):
        return asyncio.run(work_async(method, args, given))
    if module == "platform":
        platform = sdk.Platform()
        if method in ("watch", "list", "runs", "shares", "scores"):
            return list(getattr(platform, method)(*args, **given))
        if method == "streamFirst":
            stream = platform.stream(*args, **given)
            for event in stream:
                return [event, stream.run_id]
        if method == "streamClosed":
            stream = platform.stream(*args, **given)
            events = []
            for event in stream:
                events.append(event)
                threading.Timer(0.1, stream.close).start()
            return events
        if method == "uploadTwice":
            upload = platform.upload((args[0]["name"], args[0]["content"].encode()))
            return [platform.call(args[1], {}, files=[upload]).data for _ in range(2)]
        if method == "stream":
            *progress, answer = platform.stream(*args, **given)
            return [*progress, {"type": "result", **plain(answer)}]
        if method == "startAndWait":
            return plain(platform.wait(platform.start(*args), **given))
        if method == "startAndCancel":
            return platform.cancel(platform.start(*args))
        return plain(getattr(platform, snake(method))(*args, **given))
    if (module, method) == ("storage", "update"):
        return sdk.storage.update(*args, lambda value: {"count": (value or {"count": 0})["count"] + 1}, **given)
    return getattr(getattr(sdk, module), snake(method))(*args, **given)


names = ["code", "status", "isRetryable", "suggestedWaitTime", "requestId", "runId", "hint", "docsUrl", "responseBody", "exitCode"]
own_environment = dict(os.environ)
for line in sys.stdin:
    job = json.loads(line)
    os.environ.clear()
    os.environ.update({**own_environment, **job.pop("env")})
    if "deadlineIn" in job:
        os.environ["PLATFORM_DEADLINE_MS"] = str(int((time.time() + job.pop("deadlineIn")) * 1000))
    try:
        outcome = {"value": work(**job)}
    except Exception as error:
        members = {name: getattr(error, snake(name), None) for name in names}
        outcome = {"error": {"type": type(error).__name__, "message": str(error), **members}}
    print(json.dumps(outcome), flush=True)
