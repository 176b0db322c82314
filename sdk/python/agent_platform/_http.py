"""Requests over HTTP/1.1, with nothing but a socket: the standard library's client takes longer to import than a small agent to run."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import sys
import time
from collections.abc import Mapping

from .errors import PlatformError, TimeoutExceededError, describe_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable

    #: Makes an error: a class, or a function that chooses one. Takes the arguments of PlatformError.
    Failure = Callable[..., PlatformError]

#: Before Python 3.10 the timeout of a socket is another class.
TIMEOUTS = (TimeoutError, socket.timeout)
_CHUNK_BYTES = 65536
_MAX_LINE_BYTES = 65536
_MAX_HEADERS = 200
_PORTS = {"http": 80, "https": 443}
_ADDRESS = re.compile(r"(https?)://(\[[0-9a-f:.%]+\]|[^\s/:@?#\[\]]+)(?::(\d{1,5}))?(/[!-~]*)?", re.IGNORECASE)
_PROXY = re.compile(r"(?:\w+://)?(?:([^\s/@]*)@)?(\[[0-9a-f:.%]+\]|[^\s/:@]+)(?::(\d{1,5}))?/?", re.IGNORECASE)
#: A name of RFC 9110, section 5.6.2, and a value that ends no line.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\r\n\0]*")


class _NoHttp(OSError):
    """What answers speaks no HTTP, or stops in the middle."""


class _Body(io.RawIOBase):
    """The bytes of an answer, without their framing (RFC 9112, section 6)."""

    def __init__(self, source: io.BufferedReader, length: int | None, is_chunked: bool) -> None:
        self._source = source
        #: Bytes that are left of the body, or of the current chunk. ``None``: until the connection ends.
        self._left = 0 if is_chunked else length
        self._is_chunked = is_chunked

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._is_chunked and self._left == 0:
            self._begin_chunk()
        if self._left == 0:
            return 0
        count = self._source.readinto1(memoryview(buffer)[: self._left])
        if self._left is not None:
            if count == 0:
                raise _NoHttp("the answer is cut off")
            self._left -= count
            if self._is_chunked and self._left == 0:
                _read_line(self._source)
        return count

    def _begin_chunk(self) -> None:
        size = _read_line(self._source).partition(";")[0].strip()
        if not re.fullmatch("[0-9a-fA-F]{1,15}", size):
            raise _NoHttp(f"{size[:40]!r} is no length of a chunk")
        self._left = int(size, 16)
        if self._left == 0:
            self._is_chunked = False
            _read_headers(self._source)


class Response:
    """An answer whose body is read from ``body`` as it arrives. The names of ``headers`` are in lower case."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._source = source = connection.makefile("rb")
        self.status = 100
        while 100 <= self.status < 200:
            line = _read_line(source)
            match = re.match(r"HTTP/1\.\d (\d{3})(?: |$)", line)
            if not match:
                raise _NoHttp(f"{line[:40]!r} is no answer over HTTP/1.1")
            self.status = int(match[1])
            self.headers = _read_headers(source)
        is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = 0 if self.status in (204, 304) else _length_of(self.headers)
        self.body = io.BufferedReader(_Body(source, length, is_chunked), _CHUNK_BYTES)

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A socket stays open as long as its file does.
        self._source.close()
        self._connection.close()


def _length_of(headers: Mapping[str, str]) -> int | None:
    length = headers.get("content-length")
    if length is None:
        return None
    if not re.fullmatch("[0-9]{1,15}", length):
        raise _NoHttp(f"{length[:40]!r} is no length of a body")
    return int(length)


def _read_line(source: io.BufferedReader) -> str:
    line = source.readline(_MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise _NoHttp("the answer is cut off" if len(line) < _MAX_LINE_BYTES else "a line of the answer is too long")
    return line.rstrip(b"\r\n").decode("latin-1")


def _read_headers(source: io.BufferedReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_MAX_HEADERS):
        line = _read_line(source)
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise _NoHttp("the answer has too many headers")


def open_response(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout: float,
    failure: Failure,
) -> Response:
    """Opens a response. ``timeout`` is in seconds. Raises ``failure`` or :class:`TimeoutExceededError`."""
    match = _ADDRESS.fullmatch(url)
    if not match:
        raise ValueError(f"{url!r} is no address, such as https://agents.example.org/path")
    end = time.monotonic() + timeout
    # The platform never redirects, and a redirect's target must not get the key: any other status is a failure.
    try:
        response = _exchange(method, match, headers, body, timeout)
        if 200 <= response.status < 300:
            return response
        with response:
            content = _parse(_read(response, end))
    except (OSError, UnicodeError) as error:
        raise _as_platform_error(error, method, url, timeout, failure) from error
    raise failure(**describe_failure(response.status, content))


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
    with open_response(method, url, headers, body, timeout, failure) as response:
        try:
            return _parse(_read(response, end)), response.headers
        except OSError as error:
            raise _as_platform_error(error, method, url, timeout, failure) from error


def _exchange(
    method: str, address: re.Match[str], headers: Mapping[str, str], body: bytes | None, timeout: float
) -> Response:
    scheme, host, target = address[1].lower(), address[2], address[4] or "/"
    port = int(address[3] or _PORTS[scheme])
    authority = host if port == _PORTS[scheme] else f"{host}:{port}"
    proxy = _proxy_of(scheme, host, port)
    own = {"Host": authority, "User-Agent": "agent-platform-sdk", "Accept-Encoding": "identity"}
    if proxy and scheme == "http":
        target = f"http://{authority}{target}"
        own.update(_authorization_of(proxy))
    framing = {"Connection": "close", **({} if body is None else {"Content-Length": str(len(body))})}
    head = _head_of(f"{method} {target} HTTP/1.1", {**own, **headers, **framing})
    connection = _connect(proxy[2], int(proxy[3] or 80), timeout) if proxy else _connect(host, port, timeout)
    try:
        if scheme == "https":
            if proxy:
                _open_tunnel(connection, f"{host}:{port}", proxy)
            connection = _with_tls(connection, host.strip("[]"))
        try:
            connection.sendall(head + (body or b""))
        except (BrokenPipeError, ConnectionResetError) as error:
            # A server that refuses a request before it has read the body breaks the pipe, but its answer has the reason.
            try:
                return Response(connection)
            except OSError:
                raise error from None
        return Response(connection)
    except BaseException:
        connection.close()
        raise


def _head_of(request_line: str, headers: Mapping[str, str]) -> bytes:
    # Names differ in more than case: a given header takes the place of ours.
    by_name = {name.lower(): f"{name}: {value}" for name, value in headers.items()}
    for line in by_name.values():
        if not _HEADER.fullmatch(line):
            raise ValueError(f"{line.partition(':')[0]!r} is no header, or its value has a line break")
    return "\r\n".join([request_line, *by_name.values(), "", ""]).encode("latin-1")


def _connect(host: str, port: int, timeout: float) -> socket.socket:
    connection = socket.create_connection((host.strip("[]"), port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _with_tls(connection: socket.socket, host: str) -> socket.socket:
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context.wrap_socket(connection, server_hostname=host)


def _open_tunnel(connection: socket.socket, authority: str, proxy: re.Match[str]) -> None:
    connection.sendall(_head_of(f"CONNECT {authority} HTTP/1.1", {"Host": authority, **_authorization_of(proxy)}))
    # Nothing of the tunnel itself comes before the client speaks, so nothing of it is lost in this response's buffer.
    status = Response(connection).status
    if status != 200:
        raise _NoHttp(f"the proxy answered {status}")


def _authorization_of(proxy: re.Match[str]) -> dict[str, str]:
    if not proxy[1]:
        return {}
    from base64 import b64encode
    from urllib.parse import unquote

    return {"Proxy-Authorization": f"Basic {b64encode(unquote(proxy[1]).encode()).decode()}"}


def _proxy_of(scheme: str, host: str, port: int) -> re.Match[str] | None:
    """The proxy that ``urllib`` would take."""
    if sys.platform in ("darwin", "win32"):
        # The system's settings may name one, too.
        from urllib.request import getproxies, proxy_bypass

        return None if proxy_bypass(f"{host}:{port}") else _PROXY.fullmatch(getproxies().get(scheme, ""))
    upper = None if scheme == "http" and "REQUEST_METHOD" in os.environ else os.environ.get(f"{scheme.upper()}_PROXY")
    proxy = os.environ.get(f"{scheme}_proxy", upper)
    if not proxy or _is_direct(host.lower(), port):
        return None
    match = _PROXY.fullmatch(proxy)
    if not match:
        raise _NoHttp(f"the variable {scheme}_proxy names no proxy")
    return match


def _is_direct(host: str, port: int) -> bool:
    """Whether the list in ``no_proxy`` has the host, a domain above it, or it with its port."""
    names = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    for name in names.lower().split(","):
        direct = name.strip().lstrip(".")
        if direct == "*" or direct and (direct in (host, f"{host}:{port}") or host.endswith(f".{direct}")):
            return True
    return False


def _read(response: Response, end: float) -> bytes:
    """Reads the whole answer. The timeout of a socket applies to one read: a slow answer needs a limit of its own."""
    chunks = []
    while chunk := response.body.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        if time.monotonic() > end:
            raise TimeoutError("it answers too slowly")
    return b"".join(chunks)


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")


def _as_platform_error(error: Exception, method: str, url: str, timeout: float, failure: Failure) -> PlatformError:
    if isinstance(error, TIMEOUTS):
        return TimeoutExceededError(
            f"{method} {url} was not answered within {timeout:.3g} s", code="TIMEOUT", is_retryable=True
        )
    return failure(f"{method} {url} failed: {error}", code="NETWORK_ERROR", is_retryable=True)
