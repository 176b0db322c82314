"""Uploads of large inputs and files, and forms."""

from __future__ import annotations

import json
import mimetypes
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ._access import MAX_DIRECT_BYTES, Access
from ._http import send

_UPLOADS_AT_ONCE = 4


class Upload(NamedTuple):
    """A file that calls can name until it expires."""

    upload_id: str
    name: str
    content_type: str | None
    expires_at: str


def form_body(access: Access, files: list[Any], metadata: Mapping[str, Any] | None) -> tuple[str, bytes]:
    """Content type and body of a call with these files: uploads, or names and contents."""
    parts: list[tuple[str, str | None, str | None, bytes]] = []
    size = sum(0 if isinstance(file, Upload) else len(file[1]) for file in files)
    # The platform gives the agent the files of the form first: their order stays only if all go one way.
    if size <= MAX_DIRECT_BYTES and not any(isinstance(file, Upload) for file in files):
        parts = [("files[]", name, _content_type(name), content) for name, content in files]
    else:
        # Slow to import, and not every program needs it.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
            made = list(pool.map(lambda file: file if isinstance(file, Upload) else upload(access, *file), files))
        uploads = [
            {"upload_id": each.upload_id, "name": each.name, "content_type": each.content_type} for each in made
        ]
        parts = [("uploads", None, "application/json", json.dumps(uploads).encode())]
    if metadata is not None:
        parts.append(("metadata", None, "application/json", json.dumps(metadata).encode()))
    return _multipart(parts)


def upload(access: Access, name: str, content: bytes) -> Upload:
    """Uploads a file for calls."""
    headers = {**access.headers, "Content-Type": "application/json"}
    url = f"{access.url}/uploads"
    # A form that is not used costs nothing: it may be asked for twice.
    more = (access.failure, access.retries, access.connection)
    form, _, _ = send("POST", url, headers, b'{"purpose":"call"}', access.left(), *more)
    if len(content) > form["max_bytes"]:
        message = f"{len(content)} bytes are more than a call takes, {form['max_bytes']}"
        raise access.failure(message, code="DOCUMENT_TOO_LARGE", status=413)
    parts = [(field, None, None, value.encode()) for field, value in form["fields"].items()]
    content_type, body = _multipart([*parts, ("file", "file", "application/octet-stream", content)])
    # The form needs no key, so the platform's key is not sent. A second upload replaces the first.
    send("POST", form["url"], {"Content-Type": content_type}, body, access.left(), *more)
    return Upload(str(form["upload_id"]), name, _content_type(name), str(form["expires_at"]))


def _content_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _multipart(parts: Iterable[tuple[str, str | None, str | None, bytes]]) -> tuple[str, bytes]:
    """Encodes parts of a form: names, file names, types and contents."""
    boundary = secrets.token_hex(16)
    lines: list[bytes] = []
    for name, file_name, content_type, content in parts:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
        if file_name is not None:
            # Escaped as browsers do.
            safe_name = file_name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
            head += f'; filename="{safe_name}"'
        if content_type is not None:
            head += f"\r\nContent-Type: {content_type}"
        lines.extend([f"{head}\r\n\r\n".encode(), content, b"\r\n"])
    lines.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(lines)
