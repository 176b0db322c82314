"""Variables of the run that the running code belongs to."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import ContextVar

#: Set by a program that answers several inputs at once (``_serve.py``).
own: ContextVar[Mapping[str, str] | None] | None = None


def variable(name: str) -> str | None:
    """Returns the variable, or None if it is not set."""
    variables = own.get() if own is not None else None
    return variables[name] if variables and name in variables else os.environ.get(name)
