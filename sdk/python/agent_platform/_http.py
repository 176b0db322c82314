"""Requests to the platform, with nothing but the standard library."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead

from .errors import PlatformError, TimeoutExceededError, describe_failure, error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    #: Makes an error: a class, or a function that chooses one. Takes the arguments of PlatformError.
    Failure = Callable[..., PlatformError]

#: Before Python 3.10 the timeout of a socket is another class.
TIMEOUTS = (TimeoutError, socket.timeout)
_CHUNK_BYTES = 65536
DEFAULT_RETRIES = 2
#: A larger answer is not read: it would fill the memory.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
#: A longer wait is left to the program, which gets the error with ``suggested_wait_time``.
_MAX_WAIT_SECONDS = 60.0
_FIRST_WAIT_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 8.0


class Closed(Exception):
    """The program ended the request."""


class Connection:
    """Lets another thread end the request of this one."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._socket: socket.socket | None = None

    def use(self, connected: Any) -> None:
        self._socket = connected
        if self.ended.is_set():
            self.end()
            raise Closed

    def end(self) -> None:
        self.ended.set()
        if self._socket is not None:
            try:
                # Wakes the thread that reads; closing the socket would not.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            except (OSError, ValueError):
                pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The platform never redirects, and urllib would send the key to another server's redirect target."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


class _Patient(HTTPConnection):
    """A server that refuses a request before it has read the body breaks the pipe, but its answer has the reason."""

    def request(self, *args: Any, **more: Any) -> None:
        try:
            super().request(*args, **more)
        except (BrokenPipeError, ConnectionResetError):
            if self.sock is None:
                raise


    connection: Connection | None = None

    def connect(self) -> None:
        super().connect()
        if self.connection is not None:
            self.connection.use(self.sock)


class _PatientTls(_Patient, HTTPSConnection):
    pass


class _PatientHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._made(_Patient, req), req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._made(_PatientTls, req), req)

    @staticmethod
    def _made(kind: type[_Patient], req: urllib.request.Request) -> Any:
        def make(*args: Any, **more: Any) -> _Patient:
            made = kind(*args, **more)
            made.connection = getattr(req, "connection", None)
            return made

        return make


def open_response(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout: float,
    failure: Failure,
    connection: Connection | None = None,
) -> HTTPResponse:
    """Opens a response. ``timeout`` is in seconds. Raises ``failure`` or :class:`TimeoutExceededError`."""
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    request.connection = connection  # type: ignore[attr-defined]
    try:
        # A new opener for each request: it reads the proxies of the environment.
        response: HTTPResponse = urllib.request.build_opener(_NoRedirect, _PatientHandler).open(request, timeout=timeout)
        return response
    except urllib.error.HTTPError as error:
        with error:
            answer = _parse(_read(error, time.monotonic() + timeout))
            raise failure(**describe_failure(error.code, answer, lower(error.headers))) from None
    except (OSError, HTTPException) as error:
        raise as_platform_error(error, method, url, timeout, failure) from error


def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout: float,
    failure: Failure = error_of,
    retries: int = 0,
    connection: Connection | None = None,
) -> tuple[Any, Mapping[str, str], int]:
    """The parsed answer, its headers, by lower-case name, and its status. ``retries`` only for requests that may be sent twice."""
    end = time.monotonic() + timeout
    attempt = 0
    while True:
        left = timeout if attempt == 0 else max(end - time.monotonic(), 0.001)
        try:
            with open_response(method, url, headers, body, left, failure, connection) as response:
                text = _read(response, end)
                return _parse(text), lower(response.headers), response.status
        except (OSError, HTTPException) as error:
            wait_for_retry(as_platform_error(error, method, url, timeout, failure), attempt, retries, end, connection)
        except PlatformError as error:
            wait_for_retry(error, attempt, retries, end, connection)
        attempt += 1


def wait_for_retry(
    error: PlatformError, attempt: int, retries: int, end: float, connection: Connection | None = None
) -> None:
    """Waits before the next attempt. Raises the error if the request may not be sent again.

    A run that began is never run a second time: only what was refused before, or whose answer was lost, is sent again.
    """
    if connection is not None and connection.ended.is_set():
        raise Closed from None
    if not error.is_retryable or isinstance(error, TimeoutExceededError):
        raise error
    if error.run_id is not None or attempt >= retries:
        raise error
    # Slow to import, and most requests succeed at once.
    import random

    asked = error.suggested_wait_time or 0.0
    backoff = min(_FIRST_WAIT_SECONDS * 2**attempt, _MAX_BACKOFF_SECONDS)
    # The jitter spreads the clients that failed together.
    wait = asked + backoff * (0.5 * random.random() if asked > 0 else 0.5 + 0.5 * random.random())
    if asked > _MAX_WAIT_SECONDS or time.monotonic() + wait >= end:
        raise error
    pause(wait, connection)


def pause(seconds: float, connection: Connection | None) -> None:
    if connection is None:
        time.sleep(seconds)
    elif connection.ended.wait(seconds):
        raise Closed


def lower(headers: Any) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _read(response: Any, end: float) -> bytes:
    """Reads the whole answer. The timeout of a socket applies to one read: a slow answer needs a limit of its own."""
    chunks = []
    size = 0
    while chunk := response.read1(_CHUNK_BYTES) if hasattr(response, "read1") else response.read():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise too_large(f"The answer has more than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > end:
            raise TimeoutError("it answers too slowly")
    # Reads of a part do not check it.
    if getattr(response, "length", None):
        raise IncompleteRead(b"", response.length)
    return b"".join(chunks)


def too_large(message: str) -> PlatformError:
    return error_of(message, code="ANSWER_TOO_LARGE")


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")


def as_platform_error(error: Exception, method: str, url: str, timeout: float, failure: Failure) -> PlatformError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TIMEOUTS):
        return TimeoutExceededError(
            f"{method} {url} was not answered within {timeout:.3g} s", code="TIMEOUT", is_retryable=True
        )
    return failure(f"{method} {url} failed: {reason}", code="NETWORK_ERROR", is_retryable=True)
