"""JSON documents of the workspace, in namespaces.

A document is a dictionary with ``namespace``, ``key``, ``value``, ``version``, ``size_bytes``, ``created_at``,
``updated_at`` and ``updated_by``. Every function raises :class:`StorageError` or one of its kinds.
"""

from __future__ import annotations

import builtins
from typing import Any, Callable

from . import _workspace
from .errors import StorageConflictError, StorageError, StorageNotFoundError, StorageQuotaError

Document = dict[str, Any]

_KINDS = {404: StorageNotFoundError, 409: StorageConflictError, 413: StorageQuotaError, 429: StorageQuotaError}


def _failure(message: str, **more: Any) -> StorageError:
    return _KINDS.get(more.get("status") or 0, StorageError)(message, **more)


def _request(method: str, *path: str, **more: Any) -> Any:
    return _workspace.request(method, "storage", *path, failure=_failure, **more)


def get(namespace: str, key: str) -> Document | None:
    """The document, or ``None``."""
    try:
        return _request("GET", namespace, key)  # type: ignore[no-any-return]
    except StorageNotFoundError:
        return None


def set(namespace: str, key: str, value: Any, version: int | None = None) -> Document:
    """Writes an object or an array, and returns the document.

    With ``version``, raises :class:`StorageConflictError` unless the document has that version; a missing document has
    version 0.
    """
    headers = None if version is None else {"If-Match": str(version)}
    return _request("PUT", namespace, key, body=value, headers=headers)  # type: ignore[no-any-return]


def update(namespace: str, key: str, change: Callable[[Any], Any], retries: int = 5) -> Document:
    """Writes ``change(value)``; the value is ``None`` without a document.

    If another process writes in between, ``change`` is called again with the new value.
    """
    for left in range(retries, -1, -1):
        document = get(namespace, key)
        value = change(document["value"] if document else None)
        try:
            return set(namespace, key, value, version=document["version"] if document else 0)
        except StorageConflictError:
            if left == 0:
                raise
    raise ValueError(f"retries must be at least 0, but is {retries}")


def patch(namespace: str, key: str, members: dict[str, Any]) -> Document:
    """Sets these members of the document's object and keeps the others."""
    return _request("PATCH", namespace, key, body=members)  # type: ignore[no-any-return]


def list(namespace: str) -> builtins.list[str]:
    """All keys of a namespace."""
    keys: builtins.list[str] = []
    cursor: str | None = None
    while True:
        page = _request("GET", namespace, query={"cursor": cursor})
        keys.extend(page["keys"])
        cursor = page.get("cursor")
        if not page["has_more"] or not cursor:
            return keys


def namespaces() -> builtins.list[str]:
    return _request("GET")["namespaces"]  # type: ignore[no-any-return]


def delete(namespace: str, key: str) -> bool:
    """Returns whether there was such a document."""
    try:
        return _request("DELETE", namespace, key)["deleted"] is not False
    except StorageNotFoundError:
        return False


def delete_namespace(namespace: str) -> int:
    """Returns the number of deleted documents."""
    try:
        return int(_request("DELETE", namespace)["documents_deleted"])
    except StorageNotFoundError:
        return 0


__all__ = [
    "Document",
    "delete",
    "delete_namespace",
    "get",
    "list",
    "namespaces",
    "patch",
    "set",
    "update",
]
