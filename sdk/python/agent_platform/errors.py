from __future__ import annotations

import json
import time
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
        docs_url: str | None = None,
        request_id: str | None = None,
        run_id: str | None = None,
        response_body: Any = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_retryable = is_retryable
        self.suggested_wait_time = suggested_wait_time
        self.hint = hint
        #: The page of the documentation about this error.
        self.docs_url = docs_url
        self.request_id = request_id
        #: The run that failed; ``None`` if none began.
        self.run_id = run_id
        #: The parsed JSON, or the text.
        self.response_body = response_body


class InvalidRequestError(PlatformError):
    """The request has an invalid member, or a body of the wrong type or size."""


class AuthenticationError(PlatformError):
    """There is no key, or the key is wrong or revoked."""


class PermissionDeniedError(PlatformError):
    """The key may not do this."""


class NotFoundError(PlatformError):
    pass


class ConflictError(PlatformError):
    """The request contradicts the current state, or its idempotency key belongs to another request."""


class RateLimitError(PlatformError):
    """A limit was reached. ``suggested_wait_time`` says how long to wait."""


class RunFailedError(PlatformError):
    """The agent ran and failed, or its run was cancelled. ``run_id`` names the run."""


class ServerError(PlatformError):
    """The platform failed."""


class NetworkError(PlatformError):
    """The platform could not be reached, or the connection was lost."""


class DependencyCallError(PlatformError):
    """A call of another agent that failed. ``status_code`` is ``None`` without an answer."""

    @property
    def status_code(self) -> int | None:
        return self.status


class StepOrderError(PlatformError):
    """A program does its steps in another order than an earlier start of the same run."""


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


_CLASS_OF_CODE = {
    "NETWORK_ERROR": NetworkError,
    "SANDBOX_ERROR": RunFailedError,
    "SANDBOX_TIMEOUT": RunFailedError,
    "TIMEOUT": RunFailedError,
    "RUN_CANCELLED": RunFailedError,
    "LLM_ERROR": RunFailedError,
}
_CLASS_OF_STATUS = {
    400: InvalidRequestError,
    401: AuthenticationError,
    402: PermissionDeniedError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: RateLimitError,
}
#: HTTP statuses of the platform's codes, for runs whose record says how they ended; the others have 500.
_STATUS_OF_CODE = {
    "INVALID_INPUT": 400,
    "MISSING_INPUT_FIELDS": 400,
    "MISSING_SECRETS": 400,
    "LLM_KEY_REQUIRED": 400,
    "MAX_HOPS_TOO_LOW": 400,
    "UNAUTHORIZED": 401,
    "INSUFFICIENT_CREDITS": 402,
    "FORBIDDEN": 403,
    "DOWNLOAD_DISABLED": 403,
    "PAID_AGENT_SERVER_ONLY": 403,
    "AGENT_NOT_CALLABLE": 403,
    "DEPENDENCY_NOT_ALLOWED": 403,
    "MAX_HOPS_EXCEEDED": 403,
    "MISSING_BILLING_ORG": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "CONFLICT": 409,
    "DEPENDENCY_CYCLE": 409,
    "RUN_CANCELLED": 409,
    "DOCUMENT_TOO_LARGE": 413,
    "UNSUPPORTED_TYPE": 415,
    "UNPROCESSABLE": 422,
    "RATE_LIMITED": 429,
    "LLM_RATE_LIMITED": 429,
    "BUDGET_EXCEEDED": 429,
    "STORAGE_QUOTA_EXCEEDED": 429,
    "LLM_ERROR": 502,
    "TIMEOUT": 504,
}
#: Statuses that a proxy answers for a while, if the body is no error of the platform.
_PASSING_STATUSES = (429, 502, 503, 504)


def status_of(code: str) -> int:
    return _STATUS_OF_CODE.get(code, 500)


def error_of(message: str, **failure: Any) -> PlatformError:
    """The error of the class that fits."""
    status = failure.get("status") or 0
    # An error within a stream, or in the record of a run, has no status, but its run began.
    otherwise = ServerError if status >= 500 else RunFailedError if failure.get("run_id") else PlatformError
    kind = _CLASS_OF_CODE.get(failure["code"]) or _CLASS_OF_STATUS.get(status) or otherwise
    return kind(message, **failure)


def describe_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """The arguments of a :class:`PlatformError` for an error response, whether or not it has the error envelope."""
    envelope = body if isinstance(body, dict) else {}
    error = envelope.get("error")
    is_envelope = isinstance(error, dict)
    if not is_envelope:
        text = body if isinstance(body, str) else json.dumps(body)
        error = {"message": f"The answer is no error of the platform: {text[:500]}"}
    metadata = envelope.get("metadata")
    received = headers or {}
    wait = error.get("suggested_wait_time")
    return {
        "message": str(error.get("message", "")),
        "code": str(error.get("code", f"HTTP_{status}")),
        "status": status,
        "is_retryable": error.get("is_retryable") is True if is_envelope else status in _PASSING_STATUSES,
        "suggested_wait_time": _retry_after(received.get("retry-after")) if wait is None else wait,
        "hint": error.get("hint"),
        "docs_url": error.get("docs_url"),
        "request_id": metadata.get("request_id") if isinstance(metadata, dict) else received.get("x-request-id"),
        "run_id": received.get("x-run-id"),
        "response_body": body,
    }


def _retry_after(text: str | None) -> float | None:
    """The seconds of a ``Retry-After`` header, which has a number or a date."""
    if not text:
        return None
    if text.isdigit():
        return float(text[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None
