"""Call agents of the agent platform: :class:`AgentClient` within an agent, :class:`Platform` from outside."""

from . import message, storage, task
from .agent_client import AgentClient, CallContext
from .errors import (
    CallChainCycleError,
    DependencyCallError,
    LocalExecutionError,
    MaxHopsExceededError,
    PlatformError,
    StorageConflictError,
    StorageError,
    StorageNotFoundError,
    StorageQuotaError,
    TimeoutExceededError,
)
from .platform import Answer, Platform, Run

__all__ = [
    "AgentClient",
    "Answer",
    "CallChainCycleError",
    "CallContext",
    "DependencyCallError",
    "LocalExecutionError",
    "MaxHopsExceededError",
    "Platform",
    "PlatformError",
    "Run",
    "StorageConflictError",
    "StorageError",
    "StorageNotFoundError",
    "StorageQuotaError",
    "TimeoutExceededError",
    "message",
    "storage",
    "task",
]
