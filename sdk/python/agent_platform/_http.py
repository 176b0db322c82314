"""Requests to the platform, with nothing but the standard library."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead

from .errors import PlatformError, TimeoutExceededError, describe_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    #: Makes an error: a class, or a function that chooses one. Takes the arguments of PlatformError.
    Failure = Callable[..., PlatformError]

#: Before Python 3.10 the timeout of a socket is another class.
TIMEOUTS = (TimeoutError, socket.timeout)
_CHUNK_BYTES = 65536


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


class _PatientTls(_Patient, HTTPSConnection):
    pass


class _PatientHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Patient, req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_PatientTls, req)


def open_response(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout: float,
    failure: Failure,
) -> HTTPResponse:
    """Opens a response. ``timeout`` is in seconds. Raises ``failure`` or :class:`TimeoutExceededError`."""
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    try:
        # A new opener for each request: it reads the proxies of the environment.
        response: HTTPResponse = urllib.request.build_opener(_NoRedirect, _PatientHandler).open(request, timeout=timeout)
        return response
    except urllib.error.HTTPError as error:
        with error:
            raise failure(**describe_failure(error.code, _parse(_read(error, time.monotonic() + timeout)))) from None
    except (OSError, HTTPException) as error:
        raise _as_platform_error(error, method, url, timeout, failure) from error


def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout: float,
    failure: Failure = PlatformError,
) -> tuple[Any, Mapping[str, str]]:
    """The parsed answer and its headers, by lower-case name."""
    end = time.monotonic() + timeout
    try:
        with open_response(method, url, headers, body, timeout, failure) as response:
            text = _read(response, end)
            return _parse(text), {name.lower(): value for name, value in response.headers.items()}
    except (OSError, HTTPException) as error:
        raise _as_platform_error(error, method, url, timeout, failure) from error


def _read(response: Any, end: float) -> bytes:
    """Reads the whole answer. The timeout of a socket applies to one read: a slow answer needs a limit of its own."""
    chunks = []
    while chunk := response.read1(_CHUNK_BYTES) if hasattr(response, "read1") else response.read():
        chunks.append(chunk)
        if time.monotonic() > end:
            raise TimeoutError("it answers too slowly")
    # Reads of a part do not check it.
    if getattr(response, "length", None):
        raise IncompleteRead(b"", response.length)
    return b"".join(chunks)


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")


def _as_platform_error(error: Exception, method: str, url: str, timeout: float, failure: Failure) -> PlatformError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TIMEOUTS):
        return TimeoutExceededError(
            f"{method} {url} was not answered within {timeout:.3g} s", code="TIMEOUT", is_retryable=True
        )
    return failure(f"{method} {url} failed: {reason}", code="NETWORK_ERROR", is_retryable=True)
