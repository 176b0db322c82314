"""What a call needs to be sent: the platform's address and key, the deadline, and a body."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from .errors import PlatformError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._http import Failure

#: Every gateway accepts 4 MB, but escapes quotes and backslashes of a text, which doubles them.
MAX_DIRECT_BYTES = 2 * 1024 * 1024
#: Media type of a body that names an upload as the input.
_UPLOADED_JSON = "application/vnd.platform.upload+json"


class Access:
    """The platform's address, and the headers with the key. ``end`` is in the time of ``time.monotonic()``."""

    def __init__(self, url: str, headers: Mapping[str, str], end: float, failure: Failure = PlatformError) -> None:
        self.url = url
        self.headers = headers
        self.end = end
        self.failure = failure

    def left(self) -> float:
        """Seconds that are left; never 0, so that the next request itself raises the timeout."""
        return max(self.end - time.monotonic(), 0.001)


def json_body(access: Access, input: Any) -> tuple[str, bytes]:
    """Content type and body of a call with this input. A large one is uploaded ahead of the request."""
    content = json.dumps(input).encode()
    if len(content) <= MAX_DIRECT_BYTES:
        return "application/json", content
    from ._upload import upload

    return _UPLOADED_JSON, json.dumps({"upload_id": upload(access, content)}).encode()
