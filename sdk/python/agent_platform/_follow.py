"""Waiting for a run that goes on after the answer to its call."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ._http import pause, send
from .errors import TimeoutExceededError, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._access import Access

#: A run is followed over so many failed connections in a row: a platform that starts again takes some seconds.
FOLLOW_RETRIES = 10
_FIRST_POLL_SECONDS = 0.5
_MAX_POLL_SECONDS = 5.0
_ENDED = ("completed", "failed", "timeout", "cancelled")
_ENDED_CODES = {"timeout": "TIMEOUT", "cancelled": "RUN_CANCELLED"}
#: Codes whose runs may succeed if they are called again.
_RETRYABLE_CODES = ("RATE_LIMITED", "LLM_RATE_LIMITED", "INTERNAL_ERROR", "LLM_ERROR", "TIMEOUT")


def answer_of(run_id: str, url: str, access: Access) -> tuple[Any, dict[str, Any]]:
    """The data and metadata of a run, once it has ended, as far as its record says them.

    Raises the error that a call of it would.
    """
    try:
        record = _record_of(url, access)
    except TimeoutExceededError:
        raise late(run_id) from None
    if record["status"] != "completed":
        raise _failure_of(run_id, record, access)
    return record.get("output_data"), _metadata_of(run_id, record)


def late(run_id: str) -> TimeoutExceededError:
    message = f"The run {run_id} did not end in time"
    return TimeoutExceededError(message, code="TIMEOUT", is_retryable=True, run_id=run_id)


def _record_of(url: str, access: Access) -> Mapping[str, Any]:
    wait = _FIRST_POLL_SECONDS
    while True:
        # Input and output may be large.
        if _read(f"{url}?body=false", access)["status"] in _ENDED:
            return _read(url, access)
        if time.monotonic() + wait > access.end:
            raise TimeoutExceededError("The time is over", code="TIMEOUT")
        pause(wait, access.connection)
        wait = min(wait * 1.5, _MAX_POLL_SECONDS)


def _read(url: str, access: Access) -> Any:
    # A socket has no timeout of weeks.
    left = min(access.left(), 300.0)
    return send("GET", url, access.headers, None, left, access.failure, access.retries, access.connection)[0]


def _metadata_of(run_id: str, record: Mapping[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "request_id": _request_id_of(run_id),
        "processing_time_ms": record.get("duration_ms"),
        "version": record.get("agent_version"),
    }
    if record.get("input_tokens") is not None:
        always, cached = ("input_tokens", "output_tokens"), ("cache_read_tokens", "cache_write_tokens")
        metadata["usage"] = {name: record.get(name) for name in always + cached if name in always or record.get(name)}
    return metadata


def _failure_of(run_id: str, record: Mapping[str, Any], access: Access) -> Exception:
    status = record["status"]
    code = record.get("error_code") or _ENDED_CODES.get(status, "INTERNAL_ERROR")
    return access.failure(
        record.get("error_message") or f"The run {status}",
        code=code,
        status=status_of(code),
        is_retryable=code in _RETRYABLE_CODES,
        request_id=_request_id_of(run_id),
        run_id=run_id,
        response_body=record,
    )


def _request_id_of(run_id: str) -> str:
    return f"req_{run_id.replace('-', '')}"
