from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union
from urllib.parse import quote

from ._access import Access
from ._body import json_body
from ._http import TIMEOUTS, open_response, send
from .errors import PlatformError, TimeoutExceededError, describe_failure

#: A path, or a name and its content.
File = Union[str, "os.PathLike[str]", tuple[str, bytes]]

DEFAULT_TIMEOUT_SECONDS = 300.0
_REFERENCE = re.compile(r"([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9._-]*)(?:@(v\d+|latest))?")
_POLL_SECONDS = 0.5
_ENDED_CODES = {"timeout": "TIMEOUT", "cancelled": "RUN_CANCELLED"}


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


class Platform:
    """Calls agents from outside, with a person's API key.

    ``api_key`` and ``url`` come from ``PLATFORM_API_KEY`` and ``PLATFORM_API_URL`` by default.
    Agents are named ``org/agent`` (its latest version) or ``org/agent@v1``. ``timeout`` is in seconds.

    Every method raises :class:`PlatformError`, among them :class:`TimeoutExceededError`.
    """

    def __init__(self, api_key: str | None = None, url: str | None = None, *, workspace_id: str | None = None) -> None:
        key = api_key or os.environ.get("PLATFORM_API_KEY")
        base = url or os.environ.get("PLATFORM_API_URL")
        if not key or not base:
            raise ValueError("Platform needs api_key and url, or PLATFORM_API_KEY and PLATFORM_API_URL")
        self._url = base.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        if workspace_id:
            self._headers["X-Workspace-Id"] = workspace_id

    def call(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str = "run",
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Answer:
        """Calls an agent and waits for its answer.

        With ``files``, ``input`` reaches the agent as ``metadata`` beside them. A repeated call with the same
        ``idempotency_key`` gets the answer of the first. ``headers`` are additional ones, such as ``X-Platform-Skills``.
        """
        url, sent, body, left = self._prepare(agent, input, endpoint, files, idempotency_key, headers, timeout)
        answer, received = send("POST", url, sent, body, left)
        return _as_answer(answer, received.get("x-run-id"))

    def stream(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str = "run",
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Iterator[Union[dict[str, Any], Answer]]:
        """Calls an agent and yields its events: dictionaries with a ``type``, and last the :class:`Answer`.

        The call continues if the caller stops reading.
        """
        url, sent, body, left = self._prepare(agent, input, endpoint, files, idempotency_key, headers, timeout)
        sent["Accept"] = "text/event-stream"
        end = time.monotonic() + left
        try:
            with open_response("POST", url, sent, body, left, PlatformError) as response:
                run_id = response.headers.get("x-run-id")
                if response.headers.get_content_type() != "text/event-stream":
                    yield _as_answer(json.load(response), run_id)
                    return
                for event, data in _events(response):
                    if time.monotonic() > end:
                        raise TimeoutError
                    content = json.loads(data)
                    if event == "progress":
                        yield content
                    elif event == "error":
                        raise PlatformError(**describe_failure(None, content))
                    elif event == "result":
                        yield _as_answer(content, run_id)
                        return
        except TIMEOUTS:
            raise TimeoutExceededError(f"{agent} did not answer within {timeout:.3g} s", code="TIMEOUT") from None
        except OSError as error:
            raise PlatformError(f"The stream of {agent} broke: {error}", code="NETWORK_ERROR") from error
        raise PlatformError(f"The stream of {agent} ended without a result", code="NETWORK_ERROR")

    def start(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,
        *,
        endpoint: str = "run",
        files: Iterable[File] = (),
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Run:
        """Starts a call without waiting for its answer; see :meth:`wait` and :meth:`cancel`."""
        url, sent, body, left = self._prepare(agent, input, endpoint, files, idempotency_key, headers, timeout)
        sent["Prefer"] = "respond-async"
        answer, _ = send("POST", url, sent, body, left)
        return Run(answer["run_id"], answer["url"])

    def wait(self, run: Run, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> Answer:
        """Waits for the answer of a started call."""
        end = time.monotonic() + timeout
        while True:
            record, _ = send("GET", self._address(run), self._headers, None, max(end - time.monotonic(), 1))
            status = record["status"]
            if status == "completed":
                return Answer(record.get("output_data"), [], {}, run.id)
            if status not in ("queued", "running"):
                code = record.get("error_code") or _ENDED_CODES.get(status, "INTERNAL_ERROR")
                raise PlatformError(record.get("error_message") or f"The run {status}", code=code, response_body=record)
            if time.monotonic() + _POLL_SECONDS > end:
                raise TimeoutExceededError(
                    f"The run {run.id} did not end within {timeout:.3g} s", code="TIMEOUT", is_retryable=True
                )
            time.sleep(_POLL_SECONDS)

    def cancel(self, run: Run) -> None:
        """Cancels a started call and the calls below it. Does nothing if the call has ended."""
        send("DELETE", self._address(run), self._headers, None, DEFAULT_TIMEOUT_SECONDS)

    def _address(self, run: Run) -> str:
        return self._url + run.url if run.url.startswith("/") else run.url

    def _prepare(
        self,
        agent: str,
        input: Mapping[str, Any] | None,
        endpoint: str,
        files: Iterable[File],
        idempotency_key: str | None,
        headers: Mapping[str, str] | None,
        timeout: float,
    ) -> tuple[str, dict[str, str], bytes, float]:
        match = _REFERENCE.fullmatch(agent)
        if not match:
            raise ValueError(f'"{agent}" is no agent, such as "acme/summarize" or "acme/summarize@v1"')
        url = f"{self._url}/{match[1]}/{match[2]}/{match[3] or 'latest'}/{quote(endpoint, safe='')}"
        access = Access(self._url, self._headers, time.monotonic() + timeout)
        given = [_read(file) for file in files]
        if given:
            from ._upload import form_body

            content_type, body = form_body(access, given, input)
        else:
            content_type, body = json_body(access, input or {})
        sent = {**self._headers, "Content-Type": content_type, **(headers or {})}
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        return url, sent, body, access.left()


def _as_answer(body: Any, run_id: str | None) -> Answer:
    if not isinstance(body, dict) or "data" not in body:
        raise PlatformError(**describe_failure(200, body))
    return Answer(body["data"], body.get("warnings", []), body.get("metadata", {}), run_id)


def _read(file: File) -> tuple[str, bytes]:
    return file if isinstance(file, tuple) else (Path(file).name, Path(file).read_bytes())


def _events(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """The records of a stream of server-sent events; comments and records without data are skipped."""
    event, data = "message", []
    for line in lines:
        field, _, value = line.decode("utf-8").rstrip("\r\n").partition(":")
        if field == "event":
            event = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif field == "" and value == "":
            if data:
                yield event, "\n".join(data)
            event, data = "message", []
