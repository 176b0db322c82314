"""What a call needs to be sent: the platform's address and key, and the deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping

from .errors import error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._http import Connection, Failure

#: Every gateway accepts 4 MB, but escapes quotes and backslashes of a text, which doubles them.
MAX_DIRECT_BYTES = 2 * 1024 * 1024


class Access:
    """The platform's address, and the headers with the key. ``end`` is in the time of ``time.monotonic()``."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        end: float,
        failure: Failure = error_of,
        retries: int = 0,
        connection: Connection | None = None,
    ) -> None:
        self.url = url
        self.headers = headers
        self.end = end
        self.failure = failure
        self.retries = retries
        self.connection = connection

    def left(self) -> float:
        """Seconds that are left; never 0, so that the next request itself raises the timeout."""
        return max(self.end - time.monotonic(), 0.001)
