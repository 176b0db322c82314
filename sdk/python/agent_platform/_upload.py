"""Bodies of calls. Large ones are uploaded ahead of the request."""

from __future__ import annotations

import json
import mimetypes
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ._http import Failure, send
from .errors import PlatformError

#: Every gateway accepts 4 MB, but escapes quotes and backslashes of a text, which doubles them.
MAX_DIRECT_BYTES = 2 * 1024 * 1024
#: Media type of a body that names an upload as the input.
_UPLOADED_JSON = "application/vnd.platform.upload+json"
_UPLOADS_AT_ONCE = 4


class Access(NamedTuple):
    """The platform's address, and the headers with the key."""

    url: str
    headers: Mapping[str, str]
    #: Deadline, in the time of ``time.monotonic()``.
    end: float
    failure: Failure = PlatformError

    def left(self) -> float:
        """Seconds that are left; never 0, so that the next request itself raises the timeout."""
        return max(self.end - time.monotonic(), 0.001)


def json_body(access: Access, input: Any) -> tuple[str, bytes]:
    """Content type and body of a call with this input."""
    content = json.dumps(input).encode()
    if len(content) <= MAX_DIRECT_BYTES:
        return "application/json", content
    return _UPLOADED_JSON, json.dumps({"upload_id": _upload(access, content)}).encode()


def form_body(access: Access, files: list[tuple[str, bytes]], metadata: Mapping[str, Any] | None) -> tuple[str, bytes]:
    """Content type and body of a call with these files."""
    parts = []
    if sum(len(content) for _, content in files) <= MAX_DIRECT_BYTES:
        parts = [("files[]", name, _content_type(name), content) for name, content in files]
    else:
        # Slow to import, and not every program needs it.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
            ids = list(pool.map(lambda file: _upload(access, file[1]), files))
        uploads = [
            {"upload_id": upload_id, "name": name, "content_type": _content_type(name)}
            for upload_id, (name, _) in zip(ids, files)
        ]
        parts = [("uploads", None, "application/json", json.dumps(uploads).encode())]
    if metadata is not None:
        parts.append(("metadata", None, "application/json", json.dumps(metadata).encode()))
    return _multipart(parts)


def _upload(access: Access, content: bytes) -> str:
    """Uploads a file and returns its upload_id."""
    headers = {**access.headers, "Content-Type": "application/json"}
    url = f"{access.url}/uploads"
    form, _ = send("POST", url, headers, b'{"purpose":"call"}', access.left(), access.failure)
    if len(content) > form["max_bytes"]:
        message = f"{len(content)} bytes are more than a call takes, {form['max_bytes']}"
        raise access.failure(message, code="DOCUMENT_TOO_LARGE", status=413)
    parts = [(name, None, None, value.encode()) for name, value in form["fields"].items()]
    content_type, body = _multipart([*parts, ("file", "file", "application/octet-stream", content)])
    # The form needs no key, so the platform's key is not sent.
    send("POST", form["url"], {"Content-Type": content_type}, body, access.left(), access.failure)
    return str(form["upload_id"])


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
