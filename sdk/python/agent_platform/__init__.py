"""Call agents of the agent platform: :class:`AgentClient` within an agent, :class:`Platform` and :class:`AsyncPlatform` from outside."""

from importlib import import_module

from .errors import (
    AuthenticationError,
    CallChainCycleError,
    ConflictError,
    DependencyCallError,
    InvalidRequestError,
    LocalExecutionError,
    MaxHopsExceededError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    PlatformError,
    RateLimitError,
    RunFailedError,
    ServerError,
    StepOrderError,
    StorageConflictError,
    StorageError,
    StorageNotFoundError,
    StorageQuotaError,
    TimeoutExceededError,
)

# What type checkers take for true. Importing typing for it would take longer than the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import durable, message, storage, task
    from .agent_client import AgentClient
    from .call_context import CallContext
    from ._upload import Upload
    from .async_platform import AsyncPlatform, AsyncStream
    from .platform import Answer, Platform, Run, Stream
    from .session import AsyncSession, Session
    from ._serve import serve

__all__ = [
    "AgentClient",
    "Answer",
    "AsyncPlatform",
    "AsyncSession",
    "AsyncStream",
    "AuthenticationError",
    "CallChainCycleError",
    "CallContext",
    "ConflictError",
    "DependencyCallError",
    "InvalidRequestError",
    "LocalExecutionError",
    "MaxHopsExceededError",
    "NetworkError",
    "NotFoundError",
    "PermissionDeniedError",
    "Platform",
    "PlatformError",
    "RateLimitError",
    "Run",
    "RunFailedError",
    "ServerError",
    "Session",
    "StepOrderError",
    "StorageConflictError",
    "StorageError",
    "StorageNotFoundError",
    "StorageQuotaError",
    "Stream",
    "TimeoutExceededError",
    "Upload",
    "durable",
    "message",
    "serve",
    "storage",
    "task",
]

_MODULES = ("agent_client", "async_platform", "call_context", "durable", "message", "platform", "session", "storage", "task")
_HOMES = {
    "AgentClient": "agent_client",
    "Answer": "platform",
    "AsyncPlatform": "async_platform",
    "AsyncSession": "session",
    "AsyncStream": "async_platform",
    "CallContext": "call_context",
    "Platform": "platform",
    "Run": "platform",
    "Session": "session",
    "Stream": "platform",
    "Upload": "_upload",
    "serve": "_serve",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        """Imports what is used, when it is first used: each run of an agent waits for its imports."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__, *_MODULES})
