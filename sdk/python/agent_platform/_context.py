"""The chain of calls by the names of :class:`CallContext`, whose dataclass takes longer to import than a call to prepare."""

from __future__ import annotations

from collections.abc import Mapping

from ._environment import variable

NAMES = (
    "call_chain",
    "call_chain_sig",
    "deadline_ms",
    "max_hops",
    "downstream_remaining",
    "request_id",
    "billing_org_id",
    "billing_org_sig",
    "root_run_id",
)


def from_environment() -> dict[str, str]:
    return given({name: variable(f"PLATFORM_{name.upper()}") or None for name in NAMES})


def from_headers(headers: Mapping[str, str]) -> dict[str, str]:
    values = {name.lower(): value for name, value in headers.items()}
    return given({name: values.get(_header(name).lower()) or None for name in NAMES})


def to_headers(context: Mapping[str, str]) -> dict[str, str]:
    return {_header(name): str(value) for name, value in context.items()}


def given(members: Mapping[str, str | None]) -> dict[str, str]:
    """Without the unknown ones."""
    return {name: value for name, value in members.items() if value is not None}


def _header(name: str) -> str:
    return f"X-Platform-{name.title().replace('_', '-')}"
