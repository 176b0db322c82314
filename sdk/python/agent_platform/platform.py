from __future__ import annotations

import builtins
import copy
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, Callable, Generic, TypeVar, Union
from urllib.parse import quote, urlencode

from ._access import Access
from ._body import json_body
from ._follow import FOLLOW_RETRIES, answer_of, late
from ._http import (
    DEFAULT_RETRIES,
    MAX_ANSWER_BYTES,
    Closed,
    Connection,
    as_platform_error,
    lower,
    open_response,
    send,
    too_large,
    wait_for_retry,
)
from ._upload import Upload
from .errors import PlatformError, TimeoutExceededError, describe_failure, error_of

#: A path, a name and its content, or an upload.
File = Union[str, "os.PathLike[str]", tuple[str, Union[bytes, BinaryIO]], Upload]
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")

DEFAULT_TIMEOUT_SECONDS = 300.0
_REFERENCE = re.compile(r"([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9._-]*)(?:@([a-z][a-z0-9-]{0,31}))?")
#: A watched run may take hours; each of its connections ends within 4.5 minutes.
_MAX_WATCH_SECONDS = 300.0
#: A connection that ends sooner counts as one that failed.
_MIN_WATCH_SECONDS = 5.0
#: How long a run is followed if the program gives no timeout.
_WITHOUT_LIMIT = float("inf")
_CHUNK_BYTES = 65536
#: Methods whose requests may be sent twice.
_REPEATABLE = ("GET", "HEAD", "PUT", "DELETE")


@dataclass(frozen=True)
class Answer:
    """The result of a call. ``run_id`` names the run in the workspace's logs."""

    data: Any
    warnings: list[dict[str, Any]]
    metadata: dict[str, Any]
    run_id: str | None


@dataclass(frozen=True)
class Run:
    """A call that continues without its caller."""

    id: str
    url: str


class _Begun:
    """The run of a stream, which its events fill in."""

    run_id: str | None = None


class Stream(Iterator[T], Generic[T]):
    """Events of a run. Leaving the loop, or a ``with`` block, ends the request; the run continues."""

    def __init__(self, events_of: Callable[[_Begun], Iterator[T]], connection: Connection) -> None:
        self._begun = _Begun()
        self._connection = connection
        # They must not refer to the stream: only without a cycle does leaving the loop end them at once.
        self._events: Any = events_of(self._begun)

    @property
    def run_id(self) -> str | None:
        """The run, as soon as it has begun."""
        return self._begun.run_id

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        try:
            return next(self._events)  # type: ignore[no-any-return]
        except Closed:
            raise StopIteration from None

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the request, also while another thread waits for an event."""
        self._connection.end()
        try:
            self._events.close()
        except ValueError:
            pass  # The other thread is in the generator, which ends by itself.


class Platform:
    """Calls agents from outside, with a person's API key.

    ``api_key`` and ``url`` come from ``PLATFORM_API_KEY`` and ``PLATFORM_API_URL`` by default.
    Agents are named ``org/agent`` (its latest version) or ``org/agent@v1``. ``timeout`` is in seconds, for all attempts
    of a request together, 300 by default; each method takes its own ``timeout`` and ``max_retries``. Calls and streams of
    runs that go on after the platform's answer have no limit unless a timeout is given.

    Every method raises :class:`PlatformError`, among them :class:`TimeoutExceededError`.
    """

    def __init__(
        self,
        api_key: str | None = None,
        url: str | None = None,
        *,
        workspace_id: str | None = None,
        timeout: float | None = None,
        max_retries: int = DEFAULT_RETRIES,
    ) -> None:
        key = api_key or os.environ.get("PLATFORM_API_KEY")
        base = url or os.environ.get("PLATFORM_API_URL")
        if not key or not base:
            raise ValueError("Platform needs api_key and url, or PLATFORM_API_KEY and PLATFORM_API_URL")
        self._url = base.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        if workspace_id:
            self._headers["X-Workspace-Id"] = workspace_id
        self._workspace_id = [workspace_id] if workspace_id else []
        self._timeout = DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout
        self._is_limited = timeout is not None
        self._max_retries = max_retries
        self._connection: Connection | None = None

    def call(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str = "run",
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Answer:
        """Calls an agent and waits for its answer.

        If the platform answers before the run has ended, as it does for agents whose runs last, the run is followed to
        its end.

        With ``files``, ``input`` reaches the agent as ``metadata`` beside them. A repeated call with the same
        ``idempotency_key`` gets the answer of the first; by default the retries of this call share a new key.
        ``headers`` are additional ones, such as ``X-Platform-Skills``.
        """
        path = _path_of(agent, endpoint)
        return self._call(
            path,
            input or {},
            files=files,
            idempotency_key=idempotency_key,
            headers=headers,
            timeout=timeout,
            max_retries=max_retries,
        )

    def _call(
        self,
        path: str,
        input: Mapping[str, Any],
        *,
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Answer:
        access = self._access(timeout, max_retries)
        url, sent, body = self._prepare(access, path, input, files, idempotency_key, headers)
        answer, received, status = self._send("POST", url, sent, body, access)
        if status != 202:
            return _as_answer(answer, received)
        return self._answer_of(Run(answer["run_id"], answer["url"]), self._follow_end(access, timeout), max_retries)

    def stream(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str = "run",
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Stream[Union[dict[str, Any], Answer]]:
        """Calls an agent and yields its events: dictionaries with a ``type``, and last the :class:`Answer`.

        The run continues if the caller stops reading. A connection that is lost is made again: then only the events
        from there on are yielded. A run that outlasts the stream is followed to its end, without a gap.
        """
        return self._stream(
            agent,
            lambda _: _path_of(agent, endpoint),
            input or {},
            files=files,
            idempotency_key=idempotency_key,
            headers=headers,
            timeout=timeout,
            max_retries=max_retries,
        )

    def _stream(
        self,
        agent: str,
        path: Callable[[Platform], str],
        input: Mapping[str, Any],
        *,
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Stream[Union[dict[str, Any], Answer]]:
        platform = self._with(self._connection or Connection())

        def events(begun: _Begun) -> Iterator[Any]:
            access = platform._access(timeout, max_retries)
            url, sent, body = platform._prepare(access, path(platform), input, files, idempotency_key, headers)
            sent["Accept"] = "text/event-stream"
            end = platform._follow_end(access, timeout)
            return platform._events(begun, agent, url, sent, body, access, end, max_retries)

        return Stream(lambda begun: _lazily(lambda: events(begun)), platform._connection or Connection())

    def start(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str = "run",
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        webhook: str | None = None,
        run_at: datetime | str | None = None,
        delay_seconds: int | None = None,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Run:
        """Starts a call without waiting for its answer; see :meth:`wait`, :meth:`watch` and :meth:`cancel`.

        ``webhook`` is an address to which the end of the run is posted. With ``run_at`` (a time with an offset, at most 30
        days ahead) or ``delay_seconds``, the run begins later. Among runs that wait for their turn, those with a higher
        ``priority`` (-10 to 10) begin first.
        """
        access = self._access(timeout, max_retries)
        path = _path_of(agent, endpoint)
        url, sent, body = self._prepare(access, path, input or {}, files, idempotency_key, headers)
        sent["Prefer"] = "respond-async"
        if webhook is not None:
            sent["X-Platform-Webhook"] = webhook
        if run_at is not None:
            # A time without an offset means another moment on each machine.
            if isinstance(run_at, datetime) and run_at.tzinfo is None:
                raise ValueError("run_at must have an offset, such as datetime.now(timezone.utc)")
            sent["X-Platform-Run-At"] = run_at.isoformat() if isinstance(run_at, datetime) else run_at
        if delay_seconds is not None:
            sent["X-Platform-Delay-Seconds"] = str(delay_seconds)
        if priority is not None:
            sent["X-Platform-Priority"] = str(priority)
        answer, _, _ = self._send("POST", url, sent, body, access)
        return Run(answer["run_id"], answer["url"])

    def session(self, agent: str, name: str | None = None, **options: Any) -> Session:
        """A conversation with an agent. Nothing is sent before its first message.

        ``name`` is the program's own name of the session, or the platform's id of one that exists: the same name, agent and
        tenant find the same session. Without one, each object opens a session of its own. ``tenant`` is your customer, to
        whom the session belongs. With a version, such as ``acme/helper@v3``, the conversation stays with that version. A
        session is opened with ``title``, ``metadata``, ``ttl_days`` and ``busy``.
        """
        from .session import Session, _Opening

        _path_of(agent, "run")
        return Session(self, _Opening(agent, name, **options))

    def sessions(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        """The sessions of the workspace, newest first. ``query`` has filters, such as ``agent`` and ``tenant_id``."""
        return self.list("/workspaces/{workspace_id}/sessions", query, **options)

    def wait(self, run: Run | str, *, timeout: float | None = None, max_retries: int | None = None) -> Answer:
        """Waits for the answer of a run: a started call, or the ID of any run of the workspace."""
        return self._answer_of(run, self._access(timeout, max_retries).end, max_retries)

    def watch(
        self,
        run: Run | str,
        *,
        after: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Stream[dict[str, Any]]:
        """The events of a run, from its beginning to its end. A connection that is lost is made again without a gap.

        ``after`` is the ``id`` of the last event that is known. There is no ``timeout`` by default.
        """
        platform = self._with(self._connection or Connection())
        retries = self._patience(max_retries)
        return Stream(
            lambda begun: platform._watch(begun, run, after, timeout, retries), platform._connection or Connection()
        )

    def cancel(self, run: Run | str, *, timeout: float | None = None, max_retries: int | None = None) -> None:
        """Cancels a run and the calls below it. Does nothing if it has ended."""
        self.request("DELETE", _locate(run)[1], timeout=timeout, max_retries=max_retries)

    def replay(
        self,
        run: Run | str,
        *,
        input: Mapping[str, Any] | None = None,
        agent_version: str | None = None,
        from_turn: int | None = None,
        message: str | None = None,
        tool_results: Sequence[Mapping[str, Any]] | None = None,
        model: str | None = None,
        **options: Any,
    ) -> Run:
        """Runs the same version again with the same input, and returns at once.

        ``input`` replaces the recorded input, and ``agent_version`` (``v3`` or ``latest``) the version of the run. With
        ``from_turn`` the new run begins from a turn of a durable loop: with a ``message``, other ``tool_results`` (each
        with ``turn``, ``call`` and ``text``), another ``model``.
        """
        branch = {"from_turn": from_turn, "message": message, "tool_results": tool_results, "model": model}
        given = {"input": input, "agent_version": agent_version, **branch}
        body = {name: value for name, value in given.items() if value is not None}
        run_id = self.request("POST", f"{_locate(run)[1]}/replay", body=body, **options)["run_id"]
        return Run(run_id, _locate(run_id)[1])

    def share(self, run: Run | str, *, expires_in_days: int | None = None, **options: Any) -> dict[str, Any]:
        """Creates a link that shows a run, read-only, to people without an account. Only owners of the workspace may.

        ``expires_in_days`` is from 1 to 30; the default is 7. Returns ``id``, ``expires_at``, and ``url``, the link,
        which no later answer contains.
        """
        body = {} if expires_in_days is None else {"expires_in_days": expires_in_days}
        return self.request("POST", f"{_locate(run)[1]}/shares", body=body, **options)

    def shares(self, run: Run | str, **options: Any) -> Iterator[Any]:
        """The valid links to a run."""
        return self.list(f"{_locate(run)[1]}/shares", **options)

    def revoke_share(self, run: Run | str, share: str, **options: Any) -> None:
        """Revokes a link to a run at once. ``share`` is the ID of the link."""
        self.request("DELETE", f"{_locate(run)[1]}/shares/{quote(share, safe='')}", **options)

    def score(
        self,
        run: Run | str,
        name: str,
        score: float | str,
        *,
        comment: str | None = None,
        source: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Scores a run and returns the score as stored. A score with the same name and source is replaced.

        ``name`` is what is scored, such as ``helpful``, and ``score`` a number, or a label such as ``too short``.
        ``source`` is who or what scored; the default is ``api``.
        """
        given = {"label" if isinstance(score, str) else "value": score, "comment": comment, "source": source}
        body = {"name": name, **{member: value for member, value in given.items() if value is not None}}
        return self.request("POST", f"{_locate(run)[1]}/scores", body=body, **options)

    def scores(self, run: Run | str, **options: Any) -> Iterator[Any]:
        """The scores of a run, oldest first."""
        return self.list(f"{_locate(run)[1]}/scores", **options)

    def upload(self, file: File, *, timeout: float | None = None, max_retries: int | None = None) -> Upload:
        """Uploads a file once, for the ``files`` of any number of calls until it expires."""
        from ._upload import upload

        given = _read(file)
        return given if isinstance(given, Upload) else upload(self._access(timeout, max_retries), *given)

    def download(
        self,
        path: str,
        target: str | os.PathLike[str],
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> int:
        """Writes the answer of a path, such as the bundle of an agent, to a file, and returns the number of its bytes.

        ``{workspace_id}`` in the path stands for the workspace of the client. The file appears when it is complete.
        """
        access = self._access(timeout, max_retries)
        url = self._address(path, access, query)
        partial = f"{os.fspath(target)}.{uuid.uuid4()}.part"
        attempt = 0
        try:
            while True:
                try:
                    size = self._save(url, {**self._headers, **(headers or {})}, partial, access)
                    os.replace(partial, target)
                    return size
                except PlatformError as error:
                    wait_for_retry(error, attempt, access.retries, access.end, self._connection)
                attempt += 1
        finally:
            Path(partial).unlink(missing_ok=True)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Any:
        """Sends any request of the API and returns its answer, as parsed JSON.

        ``{workspace_id}`` in the path stands for the workspace of the client.
        """
        access = self._access(timeout, max_retries if method in _REPEATABLE else 0)
        content = None if body is None else json.dumps(body).encode()
        sent = {**self._headers, **({} if body is None else {"Content-Type": "application/json"}), **(headers or {})}
        return self._send(method, self._address(path, access, query), sent, content, access)[0]

    def list(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Iterator[Any]:
        """Every row of any listing of the API, page by page. ``query`` has filters; ``limit`` is the size of a page."""
        options = {"headers": headers, "timeout": timeout, "max_retries": max_retries}
        for rows in _pages(lambda page: self.request("GET", path, query=page, **options), query or {}):
            yield from rows

    def agents(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        """The agents of the workspace, each in its latest version."""
        return self.list("/agents", {"latest": True, **(query or {})}, **options)

    def runs(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        """The runs of the workspace, newest first. ``query`` has filters, such as ``agent_name`` and ``status``."""
        return self.list("/workspaces/{workspace_id}/runs", query, **options)

    def schedules(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        return self.list("/workspaces/{workspace_id}/schedules", query, **options)

    def services(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        return self.list("/workspaces/{workspace_id}/services", query, **options)

    def tasks(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        return self.list("/workspaces/{workspace_id}/tasks", query, **options)

    def messages(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        return self.list("/workspaces/{workspace_id}/messages", query, **options)

    def _with(self, connection: Connection) -> Platform:
        """This client, with requests that ``connection`` ends."""
        platform = copy.copy(self)
        platform._connection = connection
        return platform

    def _answer_of(self, run: Run | str, end: float, max_retries: int | None) -> Answer:
        run_id, path = _locate(run)
        retries = self._patience(max_retries)
        access = Access(self._url, self._headers, end, error_of, retries, self._connection)
        data, metadata = answer_of(run_id, self._address(path, access), access)
        return Answer(data, [], metadata, run_id)

    def _follow_end(self, access: Access, timeout: float | None) -> float:
        """Until when the run of a call is followed: as long as the call may take if the program gave any timeout."""
        return access.end if self._is_limited or timeout is not None else _WITHOUT_LIMIT

    def _patience(self, max_retries: int | None) -> int:
        """How often a lost connection to a run is made again. A program that wants no retries gets none."""
        retries = self._max_retries if max_retries is None else max_retries
        return 0 if retries == 0 else max(retries, FOLLOW_RETRIES)

    def _events(
        self,
        begun: _Begun,
        agent: str,
        url: str,
        sent: dict[str, str],
        body: bytes,
        access: Access,
        end: float,
        max_retries: int | None,
    ) -> Iterator[Any]:
        onward: Any = None
        attempt = 0
        while onward is None:
            try:
                for event, _, data, received in self._records("POST", url, sent, body, access):
                    begun.run_id = received.get("x-run-id")
                    if event == "continues" or (event is None and _is_accepted(data)):
                        onward = data
                        break
                    if event is None:
                        yield _as_answer(data, received)
                        return
                    if event == "progress":
                        yield data
                    elif event == "error":
                        raise error_of(**describe_failure(None, data, received))
                    elif event == "result":
                        yield _as_answer(data, received)
                        return
                if onward is None:
                    raise _lost(f"The stream of {agent} ended without a result")
            except PlatformError as error:
                # The key of the request makes the platform answer with the run that began.
                wait_for_retry(error, attempt, access.retries, access.end, self._connection)
            attempt += 1
        # The run goes on at another address.
        run = Run(onward["run_id"], onward["url"].removesuffix("/events"))
        after = None if onward.get("after") is None else str(onward["after"])
        for record in self._watch(begun, run, after, end - time.monotonic(), self._patience(max_retries)):
            if record["type"] == "progress":
                yield record["data"]
        yield self._answer_of(run, end, max_retries)

    def _watch(
        self, begun: _Begun, run: Run | str, after: str | None, timeout: float | None, retries: int
    ) -> Iterator[dict[str, Any]]:
        begun.run_id, path = _locate(run)
        end = float("inf") if timeout is None else time.monotonic() + timeout
        #: Events that share the number ``after``: they come again.
        known: list[Any] = []
        attempt = 0
        while True:
            now = time.monotonic()
            if now >= end:
                raise late(begun.run_id)
            access = Access(
                self._url, self._headers, min(end, now + _MAX_WATCH_SECONDS), error_of, retries, self._connection
            )
            try:
                url = self._address(f"{path}/events", access, {"after": after})
                headers = {**self._headers, "Accept": "text/event-stream"}
                for event, number, content, _ in self._records("GET", url, headers, None, access):
                    if event == "error" and number is None:
                        raise error_of(**describe_failure(None, content))
                    attempt = 0
                    if number != after:
                        known = []
                    if content in known:
                        continue
                    known.append(content)
                    after = number or after
                    yield content
                    if event == "end":
                        return
                # The platform ends each connection after some minutes, and when it stops.
                if time.monotonic() - now >= _MIN_WATCH_SECONDS:
                    attempt = 0
                    continue
                raise _lost(f"The events of the run {begun.run_id} ended before the run")
            except TimeoutExceededError:
                continue
            except PlatformError as error:
                wait_for_retry(error, attempt, retries, end, self._connection)
            attempt += 1

    def _records(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, access: Access
    ) -> Iterator[tuple[str | None, str | None, Any, Mapping[str, str]]]:
        """Events, their numbers and contents, and the headers. An answer that is no stream has no event."""
        try:
            with open_response(method, url, headers, body, access.left(), access.failure, access.connection) as response:
                received = lower(response.headers)
                if response.headers.get_content_type() != "text/event-stream":
                    content = response.read(MAX_ANSWER_BYTES + 1)
                    if len(content) > MAX_ANSWER_BYTES:
                        raise too_large(f"The answer has more than {MAX_ANSWER_BYTES} bytes")
                    yield None, None, _parsed(content), received
                    return
                for event, number, data in _events(_lines(response)):
                    if time.monotonic() > access.end:
                        raise TimeoutError
                    yield event, number, _parsed(data), received
        except (OSError, HTTPException) as error:
            raise as_platform_error(error, method, url, access.left(), access.failure) from error
        except (AttributeError, ValueError):
            # Another thread ended the connection in the middle of a read.
            if access.connection is None or not access.connection.ended.is_set():
                raise
            raise Closed from None

    def _save(self, url: str, headers: Mapping[str, str], path: str, access: Access) -> int:
        size = 0
        try:
            with open_response("GET", url, headers, None, access.left(), access.failure, access.connection) as response:
                with open(path, "wb") as file:
                    while chunk := response.read1(_CHUNK_BYTES):
                        size += file.write(chunk)
                        if time.monotonic() > access.end:
                            raise TimeoutError
                if getattr(response, "length", None):
                    raise _lost(f"GET {url} ended {response.length} bytes early")
        except HTTPException as error:
            raise as_platform_error(error, "GET", url, access.left(), access.failure) from error
        except OSError as error:
            if error.filename is not None:
                raise
            raise as_platform_error(error, "GET", url, access.left(), access.failure) from error
        return size

    def _access(self, timeout: float | None, max_retries: int | None) -> Access:
        return Access(
            self._url,
            self._headers,
            time.monotonic() + (self._timeout if timeout is None else timeout),
            error_of,
            self._max_retries if max_retries is None else max_retries,
            self._connection,
        )

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, access: Access
    ) -> tuple[Any, Mapping[str, str], int]:
        return send(method, url, headers, body, access.left(), access.failure, access.retries, self._connection)

    def _address(self, path: str, access: Access, query: Mapping[str, Any] | None = None) -> str:
        own = path[len(self._url) :] if path.startswith(f"{self._url}/") else path
        # The key must not reach another server.
        if not own.startswith("/"):
            raise ValueError(f'"{path}" is no path of the API: it must begin with "/"')
        if "{workspace_id}" in own:
            if not self._workspace_id:
                organization, _, _ = self._send("GET", f"{self._url}/org", self._headers, None, access)
                self._workspace_id.append(organization["id"])
            own = own.replace("{workspace_id}", quote(str(self._workspace_id[0]), safe=""))
        given = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in (query or {}).items()
            if value is not None
        }
        return self._url + own + (f"?{urlencode(given)}" if given else "")

    def _prepare(
        self,
        access: Access,
        path: str,
        input: Mapping[str, Any],
        files: Iterable[File],
        idempotency_key: str | None,
        headers: Mapping[str, str] | None,
    ) -> tuple[str, dict[str, str], bytes]:
        url = self._address(path, access)
        given = [_read(file) for file in files]
        if given:
            from ._upload import form_body

            content_type, body = form_body(access, given, input)
        else:
            content_type, body = json_body(access, input)
        sent = {**self._headers, "Content-Type": content_type, **(headers or {})}
        # Without retries a key would be of no use.
        if idempotency_key is None and access.retries > 0:
            idempotency_key = str(uuid.uuid4())
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        return url, sent, body


def _lazily(make: Callable[[], Iterator[T]]) -> Iterator[T]:
    yield from make()


def _path_of(agent: str, endpoint: str) -> str:
    match = _REFERENCE.fullmatch(agent)
    if not match:
        raise ValueError(f'"{agent}" is no agent, such as "acme/summarize" or "acme/summarize@v1"')
    return f"/{match[1]}/{match[2]}/{match[3] or 'latest'}/{quote(endpoint, safe='')}"


def _locate(run: Run | str) -> tuple[str, str]:
    if isinstance(run, Run):
        return run.id, run.url
    return run, f"/workspaces/{{workspace_id}}/runs/{quote(run, safe='')}"


def _as_answer(body: Any, received: Mapping[str, str]) -> Answer:
    if not isinstance(body, dict) or "data" not in body:
        raise error_of(**describe_failure(200, body, received))
    return Answer(body["data"], body.get("warnings", []), body.get("metadata", {}), received.get("x-run-id"))


def _is_accepted(body: Any) -> bool:
    """Whether an answer says that the run goes on."""
    return isinstance(body, dict) and "data" not in body and {"run_id", "url"} <= body.keys()


def _read(file: File) -> Any:
    if isinstance(file, Upload):
        return file
    if not isinstance(file, tuple):
        return Path(file).name, Path(file).read_bytes()
    name, content = file
    return name, content if isinstance(content, bytes) else content.read()


def _lost(message: str) -> PlatformError:
    return error_of(message, code="NETWORK_ERROR", is_retryable=True)


def _parsed(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise _lost(f"The stream has a record that is not JSON: {data[:200]!r}") from None


def _pages(get_page: Callable[[dict[str, Any]], Any], query: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Listings continue by a cursor, in the answer or in the last row, or by an offset."""
    offset = int(query.get("offset", 0))
    position: dict[str, Any] = {}
    previous: list[Any] = []
    while True:
        page = get_page({**query, **position})
        members = page.values() if isinstance(page, dict) else [page]
        rows: list[Any] = next((member for member in members if isinstance(member, builtins.list)), [])
        # An address without pages answers the same rows again.
        if not rows or rows == previous:
            return
        previous = rows
        yield rows
        holder: Any = page if isinstance(page, dict) else rows[-1]
        holder = holder if isinstance(holder, dict) else {}
        cursor = holder.get("next_cursor") or (holder.get("cursor") if holder.get("has_more") else None)
        offset += len(rows)
        if cursor:
            position = {"cursor": cursor, "offset": None}
        elif "next_cursor" in holder or "has_more" in holder:
            return
        elif isinstance(page, dict) and offset >= page.get("total", float("inf")):
            return
        else:
            position = {"offset": offset}


def _lines(response: Any) -> Iterator[bytes]:
    while line := response.readline(MAX_ANSWER_BYTES):
        if len(line) >= MAX_ANSWER_BYTES:
            raise too_large(f"An event of the stream has more than {MAX_ANSWER_BYTES} bytes")
        yield line


def _events(lines: Iterable[bytes]) -> Iterator[tuple[str, str | None, str]]:
    """The records of a stream of server-sent events; comments and records without data are skipped."""
    event, number, data = "message", None, []
    for line in lines:
        field, _, value = line.decode("utf-8").rstrip("\r\n").partition(":")
        if field == "event":
            event = value.strip()
        elif field == "id":
            number = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif field == "" and value == "":
            if data:
                yield event, number, "\n".join(data)
            event, number, data = "message", None, []
