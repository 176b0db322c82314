from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping

from . import _context
from ._access import Access
from ._body import json_body
from ._environment import variable
from ._http import send
from .errors import CallChainCycleError, DependencyCallError, MaxHopsExceededError, TimeoutExceededError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from .call_context import CallContext

DEFAULT_TIMEOUT_SECONDS = 30.0
_REFERENCE = re.compile(r"([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9._-]*)@(v\d+(?:\.\d+){0,2})")


# Number of equal calls that a tool has made.
_made: dict[str, int] = {}


def _key_of_call(agent: str, endpoint: str | None, input: Mapping[str, Any]) -> str | None:
    """The key by which the platform recognizes the call of a tool that is run again after an interruption."""
    tool_call = variable("PLATFORM_TOOL_CALL_ID")
    if not tool_call:
        return None
    import hashlib
    import json

    text = json.dumps([agent, endpoint, input], sort_keys=True, default=str)
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    _made[mark] = _made.get(mark, 0) + 1
    return f"{tool_call}:{mark}:{_made[mark]}"


class AgentClient:
    """Calls other agents from within an agent.

    The defaults come from the run's environment: ``PLATFORM_SERVICE_KEY``, ``PLATFORM_GATEWAY_URL`` and the
    variables of :class:`CallContext`.
    """

    def __init__(
        self,
        service_key: str | None = None,
        gateway_url: str | None = None,
        *,
        context: CallContext | None = None,
    ) -> None:
        self._service_key = service_key or variable("PLATFORM_SERVICE_KEY")
        self._gateway_url = (gateway_url or variable("PLATFORM_GATEWAY_URL") or "").rstrip("/")
        self._context = _context.from_environment() if context is None else _context.given(vars(context))

    @classmethod
    def from_request(
        cls, request: Any, *, service_key: str | None = None, gateway_url: str | None = None
    ) -> AgentClient:
        """A client that continues the chain of an incoming call.

        ``request`` has ``headers``, as those of Flask, Django and Starlette do.
        """
        client = cls(service_key, gateway_url)
        client._context = _context.from_headers(request.headers)
        return client

    async def call(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str | None = None,
        timeout: float | None = None,
        max_retries: int = 0,
    ) -> Any:
        """Calls ``org/agent@v1`` and returns its data. Any number of calls may run at once.

        If the platform answers before the run has ended, the run is followed until it ends or the time is over.

        ``timeout`` is in seconds, 30 by default; the deadline of the run limits it. ``endpoint`` is ``run`` by default.
        ``max_retries`` is 0 by default: retries at each level of a chain would multiply.

        Raises :class:`DependencyCallError`, :class:`TimeoutExceededError`, :class:`CallChainCycleError`,
        :class:`MaxHopsExceededError`; ``ValueError`` for a reference of another form.
        """
        # Only programs that use asyncio call this: the others need not wait for its import.
        from ._threads import in_thread

        return await in_thread(lambda: self.call_sync(agent, input, endpoint=endpoint, timeout=timeout, max_retries=max_retries))

    def call_all(
        self,
        calls: Iterable[tuple[str, Mapping[str, Any] | None]],
        *,
        endpoint: str | None = None,
        timeout: float | None = None,
        max_retries: int = 0,
    ) -> list[Any]:
        """Makes calls at once, each an agent and its input, and returns their data in the same order.

        For programs without an event loop: asyncio, which :meth:`call` needs, takes longer to import than many agents
        to run. Waits for all of them; then raises the error of the first one, in this order, that failed.
        """
        from ._threads import at_once

        works = [
            lambda agent=agent, input=input: self.call_sync(agent, input, endpoint=endpoint, timeout=timeout, max_retries=max_retries)
            for agent, input in calls
        ]
        return at_once(works)

    def call_sync(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str | None = None,
        timeout: float | None = None,
        max_retries: int = 0,
    ) -> Any:
        """Like :meth:`call`, for programs without an event loop."""
        match = _REFERENCE.fullmatch(agent)
        if not match:
            raise ValueError(f'"{agent}" is no agent with a version, such as "acme/summarize@v1"')
        hops = self._check_chain(agent)
        seconds = self._remaining(DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)
        if os.environ.get("PLATFORM_LOCAL_EXECUTION"):
            from ._local import run_locally

            return run_locally(match[1], match[2], match[3], input or {}, self._context.get("call_chain"), hops, seconds)

        gateway_url = self._gateway()
        authorization = {"Authorization": f"Bearer {self._service_key}"}
        access = Access(gateway_url, authorization, time.monotonic() + seconds, DependencyCallError, max_retries)
        content_type, content = json_body(access, input or {})
        headers = {**_context.to_headers(self._context), **authorization, "Content-Type": content_type}
        if hops is not None:
            headers["X-Platform-Max-Hops"] = str(hops)
        key = _key_of_call(agent, endpoint, input or {})
        if key is None and max_retries > 0:
            import uuid

            key = str(uuid.uuid4())
        if key is not None:
            headers["Idempotency-Key"] = key
        url = f"{gateway_url}/{match[1]}/{match[2]}/{match[3]}/{_quoted(endpoint or 'run')}"
        body, _, status = send("POST", url, headers, content, access.left(), DependencyCallError, max_retries)
        if status == 202:
            # The run goes on without this request: its key may read the runs that it started.
            from ._follow import FOLLOW_RETRIES, answer_of

            if not str(body["url"]).startswith("/"):
                raise DependencyCallError(f"The run has no address: {body['url']}", code="NETWORK_ERROR")
            following = Access(gateway_url, authorization, access.end, DependencyCallError, FOLLOW_RETRIES)
            return answer_of(body["run_id"], gateway_url + body["url"], following)[0]
        return body["data"] if isinstance(body, dict) and "data" in body and "metadata" in body else body

    async def later(
        self,
        input: Mapping[str, Any],
        *,
        run_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """Runs this agent again later, with another input, and returns the ID of that run at once.

        It is no part of this run. Give ``run_at``, a time with an offset at most 30 days ahead, or ``delay_seconds``. Only
        for agents of the workspace in which they run.

        Raises :class:`DependencyCallError`.
        """
        from ._threads import in_thread

        return await in_thread(
            lambda: self.later_sync(input, run_at=run_at, delay_seconds=delay_seconds, timeout=timeout)
        )

    def later_sync(
        self,
        input: Mapping[str, Any],
        *,
        run_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """Like :meth:`later`, for programs without an event loop."""
        gateway_url = self._gateway()
        own = self._context.get("call_chain", "").split(",")[-1].strip()
        match = _REFERENCE.fullmatch(own)
        if not match:
            raise DependencyCallError("only a run of a version can run itself later", code="FORBIDDEN")
        time_text = run_at if run_at is None or isinstance(run_at, str) else run_at.isoformat()
        seconds = self._remaining(DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)
        authorization = {"Authorization": f"Bearer {self._service_key}"}
        access = Access(gateway_url, authorization, time.monotonic() + seconds, DependencyCallError, 0)
        content_type, content = json_body(access, input)
        headers = {**authorization, "Content-Type": content_type, "Prefer": "respond-async"}
        if time_text is not None:
            headers["X-Platform-Run-At"] = time_text
        if delay_seconds is not None:
            headers["X-Platform-Delay-Seconds"] = str(delay_seconds)
        key = _key_of_call(own, "later", {"input": input, "at": time_text or delay_seconds})
        if key is not None:
            headers["Idempotency-Key"] = key
        url = f"{gateway_url}/{match[1]}/{match[2]}/{match[3]}/run"
        return send("POST", url, headers, content, access.left(), DependencyCallError, 0)[0]["run_id"]

    def _gateway(self) -> str:
        if not self._service_key or not self._gateway_url:
            missing = "PLATFORM_GATEWAY_URL" if self._service_key else "PLATFORM_SERVICE_KEY"
            raise DependencyCallError(
                f"{missing} is not set: only runs on the platform call other agents", code="UNAUTHORIZED"
            )
        return self._gateway_url

    def _check_chain(self, agent: str) -> int | None:
        """The hops that remain for the called agent."""
        chain = [ref.strip() for ref in (self._context.get("call_chain", "")).split(",")]
        if agent in chain:
            raise CallChainCycleError(
                f"{agent} waits for this agent already: {' -> '.join(chain)}", code="DEPENDENCY_CYCLE"
            )
        if "max_hops" not in self._context:
            return None
        hops = int(self._context["max_hops"]) - 1
        if hops < 0:
            raise MaxHopsExceededError(f"{agent} would make the chain of calls too long", code="MAX_HOPS_EXCEEDED")
        return hops

    def _remaining(self, timeout: float) -> float:
        if "deadline_ms" not in self._context:
            return timeout
        remaining = int(self._context["deadline_ms"]) / 1000 - time.time()
        if remaining <= 0:
            raise TimeoutExceededError("The deadline of this run has passed", code="TIMEOUT")
        return min(timeout, remaining)


def _quoted(segment: str) -> str:
    if segment.isascii() and segment.isalnum():
        return segment
    from urllib.parse import quote

    return quote(segment, safe="")
