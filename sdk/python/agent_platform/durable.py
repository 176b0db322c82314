"""Programs that go on after an interruption, and that wait for people and times without a process.

A program with ``"durable": {"steps": true}`` in its manifest is started again from its top. What it has done in steps is
not done again: their values are kept. Use the functions without ``_async`` in programs that do one thing at a time, and
those with it in programs with asyncio, but not both in one program.
"""

from __future__ import annotations

import os
import time as _time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ._steps import Ledger, Tasks, do_now
from .errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Callable

T = TypeVar("T")

#: A shorter sleep does not end the program: to start it again takes about as long.
_SHORT_SECONDS = 30.0

_ledger: Ledger | None = None
_tasks: Tasks | None = None


def _of_run() -> Ledger | None:
    """``None`` outside of runs."""
    global _ledger
    run_id = os.environ.get("PLATFORM_RUN_ID")
    if not run_id:
        if not os.environ.get("PLATFORM_SERVICE_KEY"):
            return None
        raise PlatformError(
            "This agent does no steps",
            code="UNPROCESSABLE",
            hint='Write "durable": {"steps": true} into its agent.json, and publish it again.',
        )
    if _ledger is None:
        _ledger = Ledger(run_id)
    return _ledger


def _of_run_only() -> Ledger:
    ledger = _of_run()
    if ledger is None:
        raise PlatformError("PLATFORM_RUN_ID is not set: this works in runs on the platform", code="UNAUTHORIZED")
    return ledger


def _tasks_of(ledger: Ledger) -> Tasks:
    global _tasks
    if _tasks is None:
        _tasks = Tasks(ledger)
    return _tasks


def step(name: str, work: Callable[[], T]) -> T:
    """Does something once in a run, and returns its value.

    When the program is started again, ``work`` is not called again. A step that raises is not kept. The value is JSON of
    at most 1 MB. Outside of runs, ``work`` is only called.

    Raises :class:`StepOrderError`; :class:`PlatformError` if the value cannot be kept.
    """
    ledger = _of_run()
    return work() if ledger is None else do_now(ledger, "step", name, work, None)  # type: ignore[no-any-return]


async def step_async(name: str, work: Callable[[], Awaitable[T]]) -> T:
    """Like :func:`step`, for programs with asyncio: any number of steps may be in progress at once."""
    ledger = _of_run()
    if ledger is None:
        return await work()
    return await _tasks_of(ledger).do("step", name, work, None)  # type: ignore[no-any-return]


def sleep(time: float | datetime | str) -> None:
    """Lets time pass: a number of seconds, or until a time with an offset.

    For more than 30 seconds the program ends, and is started again from its top when the time has come: meanwhile it uses
    nothing.
    """
    seconds, wait = _wait_of(time)
    ledger = _of_run()
    if ledger is None:
        _time.sleep(seconds)
    elif seconds <= _SHORT_SECONDS:
        do_now(ledger, "sleep", "", lambda: _time.sleep(seconds), None)
    else:
        do_now(ledger, "sleep", "", None, wait)


async def sleep_async(time: float | datetime | str) -> None:
    """Like :func:`sleep`, for programs with asyncio."""
    import asyncio

    seconds, wait = _wait_of(time)
    ledger = _of_run()
    if ledger is None:
        await asyncio.sleep(seconds)
    elif seconds <= _SHORT_SECONDS:
        await _tasks_of(ledger).do("sleep", "", lambda: asyncio.sleep(seconds), None)
    else:
        await _tasks_of(ledger).do("sleep", "", None, wait)


def ask_human(
    question: str,
    options: Sequence[str] | None = None,
    *,
    schema: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> Any:
    """Asks a person, and returns the answer: a text, unless there is a JSON ``schema``.

    The question must be the same whenever the program is started: it names the question. The program ends while it waits,
    and is started again from its top. ``timeout`` is in seconds; by default as long as the run may wait.

    Raises :class:`TimeoutExceededError` if nobody answers in time.
    """
    return do_now(_of_run_only(), "ask_human", question, None, _question(options, schema, timeout))


async def ask_human_async(
    question: str,
    options: Sequence[str] | None = None,
    *,
    schema: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> Any:
    """Like :func:`ask_human`, for programs with asyncio: several questions may wait at once."""
    return await _tasks_of(_of_run_only()).do("ask_human", question, None, _question(options, schema, timeout))


def event_url(name: str) -> str:
    """The address at which somebody can say that an event of this run has happened, by a POST request with JSON.

    It is the same for the same name (1 to 64 of ``a-z``, ``0-9``, ``-`` and ``_``), and the only credential: give it to
    nobody else.
    """
    return do_now(_of_run_only(), "event_url", name, None, None)  # type: ignore[no-any-return]


async def event_url_async(name: str) -> str:
    """Like :func:`event_url`, for programs with asyncio."""
    return await _tasks_of(_of_run_only()).do("event_url", name, None, None)  # type: ignore[no-any-return]


def wait_for_event(name: str, *, timeout: float | None = None) -> Any:
    """Waits until an event happens that has an address, and returns the JSON that came with it.

    The program ends while it waits, and is started again from its top. An event that has happened before is kept.
    ``timeout`` is in seconds; by default as long as the run may wait.

    Raises :class:`TimeoutExceededError` if it does not happen in time.
    """
    return do_now(_of_run_only(), "wait_for_event", name, None, _question(None, None, timeout))


async def wait_for_event_async(name: str, *, timeout: float | None = None) -> Any:
    """Like :func:`wait_for_event`, for programs with asyncio."""
    return await _tasks_of(_of_run_only()).do("wait_for_event", name, None, _question(None, None, timeout))


def _question(
    options: Sequence[str] | None, schema: Mapping[str, Any] | None, timeout: float | None
) -> dict[str, Any]:
    wait = {
        "options": None if options is None else list(options),
        "schema": schema,
        "seconds": None if timeout is None else _whole(timeout),
    }
    return {name: value for name, value in wait.items() if value is not None}


def _wait_of(time: float | datetime | str) -> tuple[float, dict[str, Any]]:
    if isinstance(time, (int, float)):
        return max(0.0, time), {"seconds": _whole(time)}
    moment = time if isinstance(time, datetime) else datetime.fromisoformat(time.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{time} has no offset")
    return max(0.0, moment.timestamp() - _time.time()), {"until": moment.isoformat()}


def _whole(seconds: float) -> int:
    return int(seconds) + (seconds > int(seconds))


__all__ = [
    "ask_human",
    "ask_human_async",
    "event_url",
    "event_url_async",
    "sleep",
    "sleep_async",
    "step",
    "step_async",
    "wait_for_event",
    "wait_for_event_async",
]
