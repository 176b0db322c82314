"""Bodies of calls. What is large is uploaded ahead of the request."""

from __future__ import annotations

import json
import mimetypes
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ._http import Failure, send
from .errors import PlatformError

#: Gateways take 4 MB at the least, and write the quotes and backslashes of a text twice.
MAX_DIRECT_BYTES = 2 * 1024 * 1024
#: The media type of a body that names an upload, which is the input.
_UPLOADED_JSON = "application/vnd.platform.upload+json"
_UPLOADS_AT_ONCE = 4


class Access(NamedTuple):
    """The platform's address, and the headers with the key."""

    url: str
    headers: Mapping[str, str]
    #: When it must be done, as ``time.monotonic()`` says it.
    end: float
    failure: Failure = PlatformError

    def left(self) -> float:
        """Seconds; never none, so that the next request says itself that it is too late."""
        return max(self.end - time.monotonic(), 0.001)


def json_body(access: Access, input: Any) -> tuple[str, bytes]:
    """Content type and body of a call whose input is this."""
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
        # Not every program needs it, and it takes time to import.
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
    """Its upload_id."""
    headers = {**access.headers, "Content-Type": "application/json"}
    url = f"{access.url}/uploads"
    form, _ = send("POST", url, headers, b'{"purpose":"call"}', access.left(), access.failure)
    if len(content) > form["max_bytes"]:
        message = f"{len(content)} bytes are more than a call takes, {form['max_bytes']}"
        raise access.failure(message, code="DOCUMENT_TOO_LARGE", status=413)
    parts = [(name, None, None, value.encode()) for name, value in form["fields"].items()]
    content_type, body = _multipart([*parts, ("file", "file", "application/octet-stream", content)])
    # The form is its own key: the platform's stays here.
    send("POST", form["url"], {"Content-Type": content_type}, body, access.left(), access.failure)
    return str(form["upload_id"])


def _content_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _multipart(parts: Iterable[tuple[str, str | None, str | None, bytes]]) -> tuple[str, bytes]:
    """Of names, file names, types and contents."""
    boundary = secrets.token_hex(16)
    lines: list[bytes] = []
    for name, file_name, content_type, content in parts:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
        if file_name is not None:
            # As browsers write names in forms.
            safe_name = file_name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
            head += f'; filename="{safe_name}"'
        if content_type is not None:
            head += f"\r\nContent-Type: {content_type}"
        lines.extend([f"{head}\r\n\r\n".encode(), content, b"\r\n"])
    lines.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(lines)
