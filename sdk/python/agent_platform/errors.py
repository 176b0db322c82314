from __future__ import annotations

import json
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PlatformError(Exception):
    """A request that the platform refused or that did not reach it.

    ``code`` is one of the platform's error codes, or ``NETWORK_ERROR``, or ``HTTP_<status>`` if something other
    than the platform answered; ``status`` is ``None`` without an answer. ``suggested_wait_time`` is in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        is_retryable: bool = False,
        suggested_wait_time: float | None = None,
        hint: str | None = None,
        request_id: str | None = None,
        response_body: Any = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_retryable = is_retryable
        self.suggested_wait_time = suggested_wait_time
        self.hint = hint
        self.request_id = request_id
        #: The parsed JSON, or the text.
        self.response_body = response_body


class DependencyCallError(PlatformError):
    """A call of another agent that failed. ``status_code`` is ``None`` without an answer."""

    @property
    def status_code(self) -> int | None:
        return self.status


class TimeoutExceededError(PlatformError):
    """The deadline has passed, or the answer did not come in time."""


class CallChainCycleError(PlatformError):
    """The called agent is already in the chain of calls, waiting for this one."""


class MaxHopsExceededError(PlatformError):
    """The chain of calls has its max length."""


class LocalExecutionError(PlatformError):
    """An agent on this machine failed. ``exit_code`` is ``None`` if it could not be started."""

    def __init__(self, message: str, *, exit_code: int | None) -> None:
        super().__init__(message, code="SANDBOX_ERROR")
        self.exit_code = exit_code


class StorageError(PlatformError):
    pass


class StorageNotFoundError(StorageError):
    pass


class StorageConflictError(StorageError):
    """The document's version is not the expected one."""


class StorageQuotaError(StorageError):
    """The document is too large, or the workspace's storage is full."""


def describe_failure(status: int | None, body: Any) -> Mapping[str, Any]:
    """The arguments of a :class:`PlatformError` for an error response, whether or not it has the error envelope."""
    envelope = body if isinstance(body, dict) else {}
    error = envelope.get("error")
    if not isinstance(error, dict):
        text = body if isinstance(body, str) else json.dumps(body)
        error = {"message": f"The answer is no error of the platform: {text[:500]}"}
    metadata = envelope.get("metadata")
    return {
        "message": str(error.get("message", "")),
        "code": str(error.get("code", f"HTTP_{status}")),
        "status": status,
        "is_retryable": error.get("is_retryable") is True,
        "suggested_wait_time": error.get("suggested_wait_time"),
        "hint": error.get("hint"),
        "request_id": metadata.get("request_id") if isinstance(metadata, dict) else None,
        "response_body": body,
    }
