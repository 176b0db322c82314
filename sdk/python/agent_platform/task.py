"""Tasks of the workspace.

A task is a dictionary with ``id``, ``title``, ``description``, ``status`` (open, in_progress, done, cancelled),
``priority`` (low, normal, high, urgent), ``due_date`` (YYYY-MM-DD), ``project``, ``created_by``, ``created_at`` and
``completed_at``. Every function raises :class:`PlatformError`.
"""

from __future__ import annotations

import builtins
from typing import Any

from . import _workspace

Task = dict[str, Any]


def create(
    title: str,
    description: str | None = None,
    due_date: str | None = None,
    project: str | None = None,
    priority: str | None = None,
    status: str | None = None,
) -> Task:
    task = {
        "title": title,
        "description": description,
        "due_date": due_date,
        "project": project,
        "priority": priority,
        "status": status,
    }
    given = {name: value for name, value in task.items() if value is not None}
    return _workspace.request("POST", "tasks", body=given)  # type: ignore[no-any-return]


def list(
    limit: int = 50,
    offset: int = 0,
    status: str | None = None,
    project: str | None = None,
    priority: str | None = None,
    overdue: bool | None = None,
) -> builtins.list[Task]:
    """One page of at most ``limit`` tasks, 200 at most. ``overdue``: only open ones whose due date has passed."""
    query = {
        "limit": limit,
        "offset": offset,
        "status": status,
        "project": project,
        "priority": priority,
        "overdue": None if overdue is None else str(overdue).lower(),
    }
    return _workspace.request("GET", "tasks", query=query)["tasks"]  # type: ignore[no-any-return]


def get(task_id: str) -> Task:
    return _workspace.request("GET", "tasks", task_id)  # type: ignore[no-any-return]


def update(task_id: str, **members: Any) -> Task:
    """Changes any of title, description, due_date, project, status and priority; ``None`` clears one."""
    return _workspace.request("PATCH", "tasks", task_id, body=members)  # type: ignore[no-any-return]


def complete(task_id: str) -> Task:
    return update(task_id, status="done")


def delete(task_id: str) -> None:
    _workspace.request("DELETE", "tasks", task_id)
