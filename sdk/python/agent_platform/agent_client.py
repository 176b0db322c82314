from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote

from ._http import in_thread, send
from ._local import run_locally
from ._upload import Access, json_body
from .errors import CallChainCycleError, DependencyCallError, MaxHopsExceededError, TimeoutExceededError

DEFAULT_TIMEOUT_SECONDS = 30.0
_REFERENCE = re.compile(r"([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9._-]*)@(v\d+(?:\.\d+){0,2})")


@dataclass(frozen=True)
class CallContext:
    """The agent's position in a chain of calls. The platform signs it and refuses a changed one."""

    #: References, separated by commas; the last one is the running agent's own.
    call_chain: str | None = None
    call_chain_sig: str | None = None
    #: Epoch milliseconds.
    deadline_ms: str | None = None
    #: Max levels of calls below this agent.
    max_hops: str | None = None
    downstream_remaining: str | None = None
    request_id: str | None = None
    billing_org_id: str | None = None
    billing_org_sig: str | None = None
    root_run_id: str | None = None

    @classmethod
    def from_environment(cls) -> CallContext:
        """Reads the variables that the platform gives to a run, such as ``PLATFORM_CALL_CHAIN``."""
        return cls(**{name: os.environ.get(f"PLATFORM_{name.upper()}") or None for name in _context_names()})

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> CallContext:
        """Reads the headers of an incoming call, such as ``X-Platform-Call-Chain``."""
        given = {name.lower(): value for name, value in headers.items()}
        return cls(**{name: given.get(_header(name).lower()) or None for name in _context_names()})

    def to_headers(self) -> dict[str, str]:
        given = {name: getattr(self, name) for name in _context_names()}
        return {_header(name): str(value) for name, value in given.items() if value is not None}


def _context_names() -> list[str]:
    return [field.name for field in fields(CallContext)]


def _header(name: str) -> str:
    return f"X-Platform-{name.title().replace('_', '-')}"


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
        self._service_key = service_key or os.environ.get("PLATFORM_SERVICE_KEY")
        self._gateway_url = (gateway_url or os.environ.get("PLATFORM_GATEWAY_URL") or "").rstrip("/")
        self._context = context or CallContext.from_environment()

    @classmethod
    def from_request(
        cls, request: Any, *, service_key: str | None = None, gateway_url: str | None = None
    ) -> AgentClient:
        """A client that continues the chain of an incoming call.

        ``request`` has ``headers``, as those of Flask, Django and Starlette do.
        """
        return cls(service_key, gateway_url, context=CallContext.from_headers(request.headers))

    async def call(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Calls ``org/agent@v1`` and returns its data. Any number of calls may run at once.

        ``timeout`` is in seconds, 30 by default; the deadline of the run limits it. ``endpoint`` is ``run`` by default.

        Raises :class:`DependencyCallError`, :class:`TimeoutExceededError`, :class:`CallChainCycleError`,
        :class:`MaxHopsExceededError`; ``ValueError`` for a reference of another form.
        """
        return await in_thread(lambda: self.call_sync(agent, input, endpoint=endpoint, timeout=timeout))

    def call_sync(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Like :meth:`call`, for programs without an event loop."""
        match = _REFERENCE.fullmatch(agent)
        if not match:
            raise ValueError(f'"{agent}" is no agent with a version, such as "acme/summarize@v1"')
        hops = self._check_chain(agent)
        seconds = self._remaining(DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)
        if os.environ.get("PLATFORM_LOCAL_EXECUTION"):
            return run_locally(match[1], match[2], match[3], input or {}, self._context.call_chain, hops, seconds)

        if not self._service_key or not self._gateway_url:
            missing = "PLATFORM_GATEWAY_URL" if self._service_key else "PLATFORM_SERVICE_KEY"
            raise DependencyCallError(
                f"{missing} is not set: only runs on the platform call other agents", code="UNAUTHORIZED"
            )
        authorization = {"Authorization": f"Bearer {self._service_key}"}
        access = Access(self._gateway_url, authorization, time.monotonic() + seconds, DependencyCallError)
        content_type, content = json_body(access, input or {})
        headers = {**self._context.to_headers(), **authorization, "Content-Type": content_type}
        if hops is not None:
            headers["X-Platform-Max-Hops"] = str(hops)
        url = f"{self._gateway_url}/{match[1]}/{match[2]}/{match[3]}/{quote(endpoint or 'run', safe='')}"
        body, _ = send("POST", url, headers, content, access.left(), DependencyCallError)
        return body["data"] if isinstance(body, dict) and "data" in body and "metadata" in body else body

    def _check_chain(self, agent: str) -> int | None:
        """The hops that remain for the called agent."""
        chain = [ref.strip() for ref in (self._context.call_chain or "").split(",")]
        if agent in chain:
            raise CallChainCycleError(
                f"{agent} waits for this agent already: {' -> '.join(chain)}", code="DEPENDENCY_CYCLE"
            )
        if self._context.max_hops is None:
            return None
        hops = int(self._context.max_hops) - 1
        if hops < 0:
            raise MaxHopsExceededError(f"{agent} would make the chain of calls too long", code="MAX_HOPS_EXCEEDED")
        return hops

    def _remaining(self, timeout: float) -> float:
        if self._context.deadline_ms is None:
            return timeout
        remaining = int(self._context.deadline_ms) / 1000 - time.time()
        if remaining <= 0:
            raise TimeoutExceededError("The deadline of this run has passed", code="TIMEOUT")
        return min(timeout, remaining)
