from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import _context


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
        return cls(**_context.from_environment())

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> CallContext:
        """Reads the headers of an incoming call, such as ``X-Platform-Call-Chain``."""
        return cls(**_context.from_headers(headers))

    def to_headers(self) -> dict[str, str]:
        return _context.to_headers(_context.given(vars(self)))
