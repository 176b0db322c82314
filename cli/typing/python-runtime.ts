/**
 * What every client for Python consists of, besides its types and endpoints: Python 3.9 or later, with its standard
 * library. `URL_TEXT` is a string literal.
 */
export const PYTHON_RUNTIME = String.raw`#: The platform from which this file was made.
PLATFORM_URL = URL_TEXT

_In = TypeVar("_In")
_Data = TypeVar("_Data")


class AgentError(Exception):
    """A call that was refused or failed."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: Optional[int] = None,
        request_id: Optional[str] = None,
        run_id: Optional[str] = None,
        hint: Optional[str] = None,
        is_retryable: bool = False,
        suggested_wait_time: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        #: Such as INVALID_INPUT; NETWORK_ERROR without an answer.
        self.code = code
        #: HTTP status; None without an answer.
        self.status = status
        self.request_id = request_id
        self.run_id = run_id
        #: How to fix it.
        self.hint = hint
        self.is_retryable = is_retryable
        #: Seconds.
        self.suggested_wait_time = suggested_wait_time


@dataclasses.dataclass(frozen=True)
class Answer(Generic[_Data]):
    data: _Data
    warnings: List[Dict[str, Any]]
    request_id: Optional[str]
    run_id: Optional[str]
    session_id: Optional[str]
    #: Version of the agent, such as v3.
    version: Optional[str]


@dataclasses.dataclass(frozen=True)
class Progress:
    """Something that happens in a run."""

    type: str
    data: Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Access:
    key: Optional[str]
    url: Optional[str]
    workspace: Optional[str]
    tenant: Optional[str]
    session: Optional[str]
    idempotency_key: Optional[str]
    timeout: float


class Job(Generic[_Data]):
    """A run that nobody waits for."""

    def __init__(self, accepted: Dict[str, Any], access: _Access) -> None:
        self._path = _text(accepted.get("url")) or ""
        self._access = access
        self._session_id = _text(_object(accepted.get("metadata")).get("session_id"))
        self.run_id = _text(accepted.get("run_id")) or ""

    def result(self, *, timeout: float = 86400.0) -> Answer[_Data]:
        """Waits for the end of the run, at most timeout seconds."""
        end = _time.monotonic() + timeout
        wait = 0.5
        # Input and output may be large.
        while self._read("?body=false").get("status") not in ("completed", "failed", "timeout", "cancelled"):
            if _time.monotonic() + wait > end:
                raise AgentError("The run did not end in time", code="TIMEOUT", run_id=self.run_id, is_retryable=True)
            _time.sleep(wait)
            wait = min(wait * 1.5, 5.0)
        record = self._read("")
        request_id = "req_" + self.run_id.replace("-", "")
        if record.get("status") == "completed":
            data: Any = record.get("output_data")
            version = _text(record.get("agent_version"))
            return Answer(data, [], request_id, self.run_id, self._session_id, version)
        status = _text(record.get("status")) or ""
        code = {"timeout": "TIMEOUT", "cancelled": "RUN_CANCELLED"}.get(status, "INTERNAL_ERROR")
        message = _text(record.get("error_message")) or "The run ended as " + status
        raise AgentError(
            message, code=_text(record.get("error_code")) or code, request_id=request_id, run_id=self.run_id
        )

    def cancel(self) -> None:
        _request(self._path, self._access, None, {}, "DELETE").close()

    def _read(self, query: str) -> Dict[str, Any]:
        with _request(self._path + query, self._access, None, {}, "GET") as response:
            return _json_of(response)


class Endpoint(Generic[_In, _Data]):
    """
    An endpoint of the agent. The options of its calls:

    key: an API key; by default the variable PLATFORM_API_KEY
    url: address of the platform; by default the variable PLATFORM_API_URL, else PLATFORM_URL
    workspace: id of the workspace to act in
    tenant: your customer, whose sessions and memory are apart from those of others
    session: session that the call continues: its id, or a name of yours, which opens it
    idempotency_key: a call that is repeated with the same key gets the first answer, and runs nothing
    timeout: seconds without a byte after which the call ends; the run continues
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(
        self,
        input: _In,
        *,
        key: Optional[str] = None,
        url: Optional[str] = None,
        workspace: Optional[str] = None,
        tenant: Optional[str] = None,
        session: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        timeout: float = 300.0,
    ) -> Answer[_Data]:
        """Calls the agent and waits for its answer."""
        access = _Access(key, url, workspace, tenant, session, idempotency_key, timeout)
        with _request(self._path, access, input, {}, "POST") as response:
            status, headers, body = response.status, response.headers, _json_of(response)
        if status == 202:
            return Job[_Data](body, access).result(timeout=timeout)
        return _answer_of(body, headers)

    def stream(
        self,
        input: _In,
        *,
        key: Optional[str] = None,
        url: Optional[str] = None,
        workspace: Optional[str] = None,
        tenant: Optional[str] = None,
        session: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        timeout: float = 300.0,
    ) -> Iterator[Union[Progress, Answer[_Data]]]:
        """Calls the agent and shows what happens: progress as it comes, and the answer at the end."""
        access = _Access(key, url, workspace, tenant, session, idempotency_key, timeout)
        with _request(self._path, access, input, {"Accept": "text/event-stream"}, "POST") as response:
            for name, body in _events_of(response):
                if name == "progress":
                    yield Progress(_text(body.get("type")) or "unknown", body)
                elif name == "error":
                    raise _error_of(None, body, response.headers)
                elif name == "result":
                    yield _answer_of(body, response.headers)
                    return
                elif name == "continues":
                    path = (_text(body.get("url")) or "")[: -len("/events")]
                    yield Job[_Data]({**body, "url": path}, access).result()
                    return
            run_id = response.headers.get("x-run-id")
        raise AgentError("The stream ended before the run", code="NETWORK_ERROR", run_id=run_id, is_retryable=True)

    def background(
        self,
        input: _In,
        *,
        key: Optional[str] = None,
        url: Optional[str] = None,
        workspace: Optional[str] = None,
        tenant: Optional[str] = None,
        session: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        timeout: float = 300.0,
    ) -> Job[_Data]:
        """Calls the agent without waiting for it."""
        access = _Access(key, url, workspace, tenant, session, idempotency_key, timeout)
        with _request(self._path, access, input, {"Prefer": "respond-async"}, "POST") as response:
            return Job[_Data](_json_of(response), access)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another server must not get the key."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def _request(path: str, access: _Access, input: Any, more: Dict[str, str], method: str) -> Any:
    key = access.key or os.environ.get("PLATFORM_API_KEY")
    url = (access.url or os.environ.get("PLATFORM_API_URL") or PLATFORM_URL).rstrip("/")
    if not key:
        raise AgentError(
            "There is no API key", code="UNAUTHORIZED", hint="Set PLATFORM_API_KEY, or pass the argument key."
        )
    # Other addresses could be files. That of a run comes from an answer: the key goes to the platform alone.
    if not url.startswith(("http://", "https://")) or not path.startswith("/") or path.startswith("//"):
        raise AgentError("This is no address: " + url + path, code="NETWORK_ERROR")
    headers = {"Authorization": "Bearer " + key, **more}
    if access.workspace is not None:
        headers["X-Workspace-Id"] = access.workspace
    data = None
    if method == "POST":
        data = json.dumps(input).encode()
        headers["Content-Type"] = "application/json"
        if access.tenant is not None:
            headers["X-Platform-Tenant"] = access.tenant
        if access.session is not None:
            headers["X-Platform-Session"] = access.session
        if access.idempotency_key is not None:
            headers["Idempotency-Key"] = access.idempotency_key
    request = urllib.request.Request(url + path, data=data, headers=headers, method=method)
    try:
        return _opener.open(request, timeout=access.timeout)
    except urllib.error.HTTPError as error:
        with error:
            try:
                body = _object(json.loads(error.read()))
            except (ValueError, OSError, http.client.HTTPException):
                body = {}
        raise _error_of(error.code, body, error.headers) from None
    except (OSError, http.client.HTTPException) as error:
        message = method + " " + url + path + " failed: " + str(error)
        raise AgentError(message, code="NETWORK_ERROR", is_retryable=True) from error


def _json_of(response: Any) -> Dict[str, Any]:
    try:
        return _object(json.loads(response.read()))
    except (ValueError, OSError, http.client.HTTPException) as error:
        raise AgentError("The answer cannot be read", code="NETWORK_ERROR", is_retryable=True) from error


def _events_of(response: Any) -> Iterator[Tuple[str, Dict[str, Any]]]:
    name, data = "", []
    try:
        for line in response:
            text = line.decode().rstrip("\r\n")
            if text.startswith("event:"):
                name = text[6:].strip()
            elif text.startswith("data:"):
                data.append(text[5:].strip())
            elif not text and data:
                yield name, _object(json.loads("\n".join(data)))
                name, data = "", []
    except (ValueError, OSError, http.client.HTTPException) as error:
        raise AgentError("The stream broke", code="NETWORK_ERROR", is_retryable=True) from error


def _error_of(status: Optional[int], body: Dict[str, Any], headers: Any) -> AgentError:
    error = _object(body.get("error"))
    wait = error.get("suggested_wait_time")
    return AgentError(
        _text(error.get("message")) or "The platform answered with the status " + str(status),
        code=_text(error.get("code")) or "UNKNOWN",
        status=status,
        request_id=_text(_object(body.get("metadata")).get("request_id")) or headers.get("x-request-id"),
        run_id=headers.get("x-run-id"),
        hint=_text(error.get("hint")),
        is_retryable=error.get("is_retryable") is True,
        suggested_wait_time=wait if isinstance(wait, (int, float)) else None,
    )


def _answer_of(body: Dict[str, Any], headers: Any) -> Answer[Any]:
    metadata = _object(body.get("metadata"))
    warnings = body.get("warnings")
    return Answer(
        body.get("data"),
        warnings if isinstance(warnings, list) else [],
        _text(metadata.get("request_id")),
        headers.get("x-run-id"),
        _text(metadata.get("session_id")),
        _text(metadata.get("version")),
    )


def _object(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None
`;
