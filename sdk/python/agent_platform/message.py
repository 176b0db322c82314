"""Messages to the people of the workspace."""

from __future__ import annotations

from typing import Any

from . import _workspace

Message = dict[str, Any]


def send(
    title: str,
    body: str,
    level: str = "info",
    agent_name: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Message:
    """Sends a message. ``level`` is info, success, warning or error. ``agent_name`` defaults to the running agent's.

    Returns its ``id``, ``agent_name``, ``title``, ``level`` and ``created_at``. Raises :class:`PlatformError`.
    """
    message = {"title": title, "body": body, "level": level, "agent_name": agent_name, "metadata": metadata}
    given = {name: value for name, value in message.items() if value is not None}
    return _workspace.request("POST", "messages", body=given)  # type: ignore[no-any-return]
