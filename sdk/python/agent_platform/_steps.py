"""What the program of this run did before, and what it does now."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from . import _workspace
from .errors import PlatformError, StepOrderError, TimeoutExceededError, error_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable
    from typing import Callable, NoReturn

#: Exit code of a program that ends because it waits; it is started again later.
_SUSPENDED = 75
#: About a minute: what was done must be kept, and sending it twice changes nothing.
_RETRIES = 9
#: Time in which the program may do something else before it comes to the next step that it did before.
_STALL_SECONDS = 5.0
#: Time in which the program may begin something else before it ends to wait.
_IDLE_SECONDS = 0.02
#: Turns of the event loop in which a task continues, also if others wait for it.
_TURNS = 10


#: Entries that are no steps: the program ended to wait, or was started again.
_MARKS = ("suspended", "started")

#: Set in what a step does.
_in_step: ContextVar[str | None] = ContextVar("agent_platform_step", default=None)


def _failure(message: str, **more: Any) -> PlatformError:
    return StepOrderError(message, **more) if more.get("status") == 409 else error_of(message, **more)


def shown(entry: Mapping[str, Any]) -> str:
    text = f" {json.dumps(entry['text'], ensure_ascii=False)}" if entry["text"] else ""
    return f"{entry['kind']}{text} ({entry['number']})"


def order_error(other: Mapping[str, Any], known: Mapping[str, Any]) -> StepOrderError:
    return StepOrderError(
        f"The program does {shown(other)} where an earlier start of this run did {shown(known)}",
        code="CONFLICT",
        hint="Do what may differ from one start to another, such as times and random numbers, in a step.",
    )


class Ledger:
    """What the run did, in the order in which its values were known. ``passed`` counts what the program has come to."""

    def __init__(self, run_id: str) -> None:
        self._path = ("workspaces", os.environ.get("PLATFORM_BILLING_ORG_ID", ""), "runs", run_id, "steps")
        self._numbers: dict[tuple[str, str], int] = {}
        self.known: list[dict[str, Any]] = []
        self.passed = 0
        self.is_loaded = False

    def begin(self, kind: str, text: str) -> dict[str, Any]:
        parent = _in_step.get()
        if parent is not None:
            raise TypeError(f"{parent} cannot contain {kind} {json.dumps(text)}")
        number = self._numbers.get((kind, text), 0) + 1
        self._numbers[(kind, text)] = number
        return {"kind": kind, "text": text, "number": number}

    def load(self) -> None:
        while not self.is_loaded:
            query = {"after": len(self.known)}
            page = _workspace.request("GET", *self._path, query=query, retries=_RETRIES)
            self.known.extend(page["steps"])
            self.is_loaded = not page["has_more"]

    def put(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        body = {"position": len(self.known) + 1, **entry}
        kept: dict[str, Any] = _workspace.request("POST", *self._path, body=body, failure=_failure, retries=_RETRIES)
        self.known.append(kept)
        self.passed = len(self.known)
        return kept

    def suspend(self) -> NoReturn:
        """Ends the process. No ``except`` or ``finally`` of the program sees it."""
        self.put({"kind": "suspension", "text": "", "number": len(self.known) + 1})
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_SUSPENDED)


def value_of(known: Mapping[str, Any]) -> Any:
    if known["status"] == "failed":
        raise TimeoutExceededError((known.get("error") or {}).get("message", "The time is over"), code="TIMEOUT")
    return known["value"]


def checked(entry: Mapping[str, Any], value: Any) -> Any:
    """Raises ``TypeError`` or ``ValueError`` unless the value is JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{shown(entry)} returned no JSON value: {error}") from None
    return value


def do_now(ledger: Ledger, kind: str, text: str, work: Callable[[], Any] | None, wait: Mapping[str, Any] | None) -> Any:
    """For programs that do one thing at a time."""
    entry = ledger.begin(kind, text)
    ledger.load()
    is_waiting = False
    while ledger.passed < len(ledger.known):
        known = ledger.known[ledger.passed]
        is_mark = known["status"] in _MARKS
        if not is_mark and any(known[member] != value for member, value in entry.items()):
            raise order_error(entry, known)
        ledger.passed += 1
        if is_mark:
            continue
        if known["status"] != "waiting":
            return value_of(known)
        is_waiting = True
    if work is not None:
        token = _in_step.set(shown(entry))
        try:
            value = work()
        finally:
            _in_step.reset(token)
        return value_of(ledger.put({**entry, "value": checked(entry, value)}))
    if not is_waiting:
        kept = ledger.put(entry if wait is None else {**entry, "wait": wait})
        if kept["status"] != "waiting":
            return value_of(kept)
    ledger.suspend()


class _Begun:
    def __init__(
        self,
        entry: dict[str, Any],
        work: Callable[[], Awaitable[Any]] | None,
        wait: Mapping[str, Any] | None,
        future: asyncio.Future[Any],
    ) -> None:
        self.entry = entry
        self.work = work
        self.wait = wait
        self.future = future
        self.state = "begun"


class Tasks:
    """For programs that do several things at once, with asyncio.

    Values that are known are delivered in the order in which they were first known, so a program that only waits for its
    steps does the same again.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: What the program waits for, in the order in which it began.
        self._begun: list[_Begun] = []
        self._is_pumping = False
        self._has_news = False
        self._stall: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Future[Any]] = set()
        self._sending: asyncio.Future[Any] | None = None

    async def do(
        self, kind: str, text: str, work: Callable[[], Awaitable[Any]] | None, wait: Mapping[str, Any] | None
    ) -> Any:
        import asyncio

        begun = _Begun(self._ledger.begin(kind, text), work, wait, asyncio.get_running_loop().create_future())
        self._begun.append(begun)
        self._pump()
        return await begun.future

    def _run(self, work: Any) -> None:
        import asyncio

        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _pump(self) -> None:
        self._has_news = True
        if not self._is_pumping:
            self._is_pumping = True
            self._run(self._work())

    async def _work(self) -> None:
        from ._threads import in_thread

        try:
            if not self._ledger.is_loaded:
                await in_thread(self._ledger.load)
            while self._has_news:
                self._has_news = False
                await self._turn()
                if await self._pass_known():
                    for begun in list(self._begun):
                        if begun.state == "begun":
                            begun.state = "working"
                            self._run(self._start(begun))
                await self._suspend_if_idle()
        except Exception as error:
            for begun in list(self._begun):
                self._fail(begun, error)
        finally:
            self._is_pumping = False

    async def _turn(self) -> None:
        import asyncio

        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def _pass_known(self) -> bool:
        """Delivers values that are known. Returns whether the program has passed all that it did before."""
        ledger = self._ledger
        while ledger.passed < len(ledger.known):
            known = ledger.known[ledger.passed]
            begun = next((each for each in self._begun if all(known[m] == v for m, v in each.entry.items())), None)
            if begun is None and known["status"] not in _MARKS:
                self._watch(known)
                return False
            ledger.passed += 1
            if self._stall is not None:
                self._stall.cancel()
                self._stall = None
            if begun is None:
                continue
            if known["status"] == "waiting":
                begun.state = "waiting"
            else:
                self._deliver(begun, known)
            await self._turn()
        return True

    def _watch(self, known: Mapping[str, Any]) -> None:
        """Fails what the program began in another order than before, if it does not come to the next step soon."""
        import asyncio

        def fail() -> None:
            self._stall = None
            other = next((each for each in self._begun if each.state == "begun"), None)
            if other is not None:
                self._fail(other, order_error(other.entry, known))

        if self._stall is None:
            self._stall = asyncio.get_running_loop().call_later(_STALL_SECONDS, fail)

    async def _start(self, begun: _Begun) -> None:
        try:
            if begun.work is None:
                wait = {} if begun.wait is None else {"wait": begun.wait}
                await self._put({**begun.entry, **wait}, begun)
            else:
                # Each task has its own context.
                _in_step.set(shown(begun.entry))
                value = checked(begun.entry, await begun.work())
                await self._put({**begun.entry, "value": value}, begun)
        except BaseException as error:
            self._fail(begun, error)
        finally:
            self._pump()

    async def _put(self, entry: Mapping[str, Any], begun: _Begun) -> None:
        """Sends one after another, so that values are delivered in the order in which they are kept."""
        import asyncio

        from ._threads import in_thread

        before = self._sending
        own: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._sending = own
        try:
            if before is not None:
                await before
            kept = await in_thread(lambda: self._ledger.put(entry))
            if kept["status"] == "waiting":
                begun.state = "waiting"
            else:
                self._deliver(begun, kept)
        finally:
            own.set_result(None)

    def _deliver(self, begun: _Begun, known: Mapping[str, Any]) -> None:
        try:
            value = value_of(known)
        except TimeoutExceededError as error:
            self._fail(begun, error)
            return
        self._begun.remove(begun)
        if not begun.future.done():
            begun.future.set_result(value)

    def _fail(self, begun: _Begun, error: BaseException) -> None:
        if begun in self._begun:
            self._begun.remove(begun)
        if not begun.future.done():
            begun.future.set_exception(error)

    async def _suspend_if_idle(self) -> None:
        """Ends the process when the program only waits."""
        import asyncio

        if not self._is_idle():
            return
        await asyncio.sleep(_IDLE_SECONDS)
        if self._is_idle():
            self._ledger.suspend()

    def _is_idle(self) -> bool:
        return not self._has_news and bool(self._begun) and all(each.state == "waiting" for each in self._begun)
