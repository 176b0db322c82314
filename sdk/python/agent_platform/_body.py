"""The JSON body of a call."""

from __future__ import annotations

import json

from ._access import MAX_DIRECT_BYTES, Access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Media type of a body that names an upload as the input.
_UPLOADED_JSON = "application/vnd.platform.upload+json"


def json_body(access: Access, input: Any) -> tuple[str, bytes]:
    """Content type and body of a call with this input. A large one is uploaded ahead of the request."""
    content = json.dumps(input).encode()
    if len(content) <= MAX_DIRECT_BYTES:
        return "application/json", content
    from ._upload import upload

    return _UPLOADED_JSON, json.dumps({"upload_id": upload(access, "input.json", content).upload_id}).encode()
