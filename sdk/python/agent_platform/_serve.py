"""Programs that answer one input after another."""

from __future__ import annotations

import json
import os
import sys
import threading

from . import _environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, BinaryIO

    Handler = Callable[[Any], Any]


def serve(handler: Handler) -> None:
    """Answers the inputs of the agent's runs with what ``handler`` returns; an exception fails that run alone.

    With ``"reuse": "process"`` in the manifest the program stays for further inputs, so that what it has imported and
    connected serves them, too; otherwise it answers one and ends. What it prints to stdout goes to the log. The handler
    may be a coroutine function. With ``concurrency``, other handlers are called in threads.

    Call it once, as the last line of the program. Clients of this package use the rights of the current run: make them in
    the handler.
    """
    sys.stdout.flush()
    # Only answers are printed to stdout, so that what a library prints cannot be taken for one.
    output = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    # Otherwise what is printed comes after all errors.
    sys.stdout.reconfigure(line_buffering=True)
    if os.environ.get("PLATFORM_REUSE") != "process":
        sys.exit(_answer_one(handler, output))
    at_once = int(os.environ.get("PLATFORM_CONCURRENCY", "1"))
    if at_once == 1:
        _answer_in_turn(handler, output)
    elif _is_async(handler):
        _answer_in_tasks(handler, output)
    else:
        _answer_in_threads(handler, output, at_once)


def _answer_one(handler: Handler, output: BinaryIO) -> int:
    given = json.loads(sys.stdin.buffer.read() or b"{}")
    answer = _outcome(lambda: _run(handler, given))
    output.write(json.dumps(answer if "error" in answer else answer["output"]).encode() + b"\n")
    return 1 if "error" in answer else 0


def _answer_in_turn(handler: Handler, output: BinaryIO) -> None:
    for given in _inputs():
        before = {name: os.environ.get(name) for name in given["environment"]}
        os.environ.update(given["environment"])
        try:
            _write(output, given["call"], _outcome(lambda: _run(handler, given["input"])))
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _answer_in_threads(handler: Handler, output: BinaryIO, at_once: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    own = _own_variables()

    def answer(given: Mapping[str, Any]) -> None:
        own.set(given["environment"])
        _write(output, given["call"], _outcome(lambda: handler(given["input"])))

    with ThreadPoolExecutor(at_once) as pool:
        for given in _inputs():
            if "cancel" not in given:
                pool.submit(answer, given)


def _answer_in_tasks(handler: Handler, output: BinaryIO) -> None:
    import asyncio

    own = _own_variables()

    async def answer(given: Mapping[str, Any]) -> None:
        own.set(given["environment"])
        try:
            result: Mapping[str, Any] = {"output": await handler(given["input"])}
        except asyncio.CancelledError:
            result = {"error": "cancelled"}
        except Exception as error:
            result = _failure(error)
        _write(output, given["call"], result)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks: dict[str, asyncio.Task[None]] = {}
        inputs = _inputs()
        while (given := await loop.run_in_executor(None, next, inputs, None)) is not None:
            if "cancel" in given:
                task = tasks.get(given["cancel"])
                if task is not None:
                    task.cancel()
                continue
            call = given["call"]
            tasks[call] = loop.create_task(answer(given))
            tasks[call].add_done_callback(lambda _, call=call: tasks.pop(call, None))
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    asyncio.run(main())


_lock = threading.Lock()
_loop: Any = None


def _inputs() -> Iterator[Mapping[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def _run(handler: Handler, given: Any) -> Any:
    """Calls the handler; one event loop serves all calls, so that what belongs to it can be kept."""
    global _loop
    if not _is_async(handler):
        return handler(given)
    import asyncio

    if _loop is None:
        _loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_loop)
    return _loop.run_until_complete(handler(given))


def _is_async(handler: Handler) -> bool:
    # inspect takes longer to import than a call to answer. The flag is that of coroutine functions.
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def _outcome(work: Callable[[], Any]) -> Mapping[str, Any]:
    try:
        return {"output": work()}
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> Mapping[str, Any]:
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    return {"error": str(error) or type(error).__name__}


def _write(output: BinaryIO, call: str, answer: Mapping[str, Any]) -> None:
    try:
        line = json.dumps({"call": call, **answer}, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        line = json.dumps({"call": call, **_failure(error)})
    # What was printed during the call belongs to its log, which ends with the answer.
    sys.stdout.flush()
    sys.stderr.flush()
    with _lock:
        output.write(b"\n" + line.encode() + b"\n")


def _own_variables() -> Any:
    from contextvars import ContextVar

    _environment.own = own = ContextVar("platform_variables", default=None)
    return own
