"""Work in threads of its own: any number of them, and none delays the exit of the program."""

from __future__ import annotations

import threading
from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Callable, TypeVar

    T = TypeVar("T")


def _start(work: Callable[[], T], on_value: Callable[[T], Any], on_error: Callable[[BaseException], Any]) -> threading.Thread:
    def run() -> None:
        try:
            value = work()
        except BaseException as error:
            on_error(error)
        else:
            on_value(value)

    thread = threading.Thread(target=run, daemon=True, name="agent-platform-call")
    thread.start()
    return thread


def at_once(works: Iterable[Callable[[], T]]) -> list[T]:
    """The values, in order, once all have ended. Raises the error of the first one that failed."""
    values: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def start(index: int, work: Callable[[], T]) -> threading.Thread:
        return _start(work, lambda value: values.update({index: value}), lambda error: errors.update({index: error}))

    for thread in [start(index, work) for index, work in enumerate(works)]:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [values[index] for index in sorted(values)]


async def in_thread(work: Callable[[], T]) -> T:
    """Like ``asyncio.to_thread``."""
    # The program that awaits this has imported it already.
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    def hand_over(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        try:
            loop.call_soon_threadsafe(settle, set_outcome, outcome)
        except RuntimeError:
            pass  # The loop was closed: no task waits any more.

    _start(work, lambda value: hand_over(future.set_result, value), lambda error: hand_over(future.set_exception, error))
    return await future
