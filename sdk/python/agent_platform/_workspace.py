"""Requests about the workspace of the key in the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ._environment import variable
from ._http import DEFAULT_RETRIES, send
from .errors import error_of

if TYPE_CHECKING:
    from ._http import Failure

_TIMEOUT_SECONDS = 30.0


def request(
    method: str,
    *path: str,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    failure: Failure = error_of,
    retries: int | None = None,
) -> Any:
    """The parsed answer. Members of ``query`` that are ``None`` are left out; so is a ``body`` that is ``None``.

    Without ``retries``, only what may be sent twice is sent again.
    """
    key = variable("PLATFORM_SERVICE_KEY") or os.environ.get("PLATFORM_API_KEY")
    base = variable("PLATFORM_GATEWAY_URL") or os.environ.get("PLATFORM_API_URL")
    if not key or not base:
        missing = "PLATFORM_GATEWAY_URL" if key else "PLATFORM_SERVICE_KEY"
        raise failure(f"{missing} is not set: this works in runs on the platform", code="UNAUTHORIZED")
    url = base.rstrip("/") + "".join(f"/{quote(part, safe='')}" for part in path)
    given = {name: value for name, value in (query or {}).items() if value is not None}
    if given:
        url += f"?{urlencode(given)}"
    content = None if body is None else json.dumps(body).encode()
    all_headers = {"Authorization": f"Bearer {key}", **(headers or {})}
    if content is not None:
        all_headers["Content-Type"] = "application/json"
    # A condition that the lost first attempt met would fail the second one.
    seconds = _TIMEOUT_SECONDS if retries is None else 2 * _TIMEOUT_SECONDS
    if retries is None:
        retries = DEFAULT_RETRIES if method in ("GET", "PUT", "DELETE") and "If-Match" not in all_headers else 0
    answer, _, _ = send(method, url, all_headers, content, seconds, failure, retries)
    return answer
