"""Conversations with agents: each message is a call, and the agent gets the earlier ones with it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import quote

if TYPE_CHECKING:
    from .async_platform import AsyncPlatform, AsyncStream
    from .platform import Answer, Platform, Stream

#: The platform's own ids of sessions.
_ID = re.compile(r"ses_[0-9a-f]{32}")
_SESSIONS = "/workspaces/{workspace_id}/sessions"
#: A text, which fills the agent's text of the input, or the whole input.
Message = Union[str, Mapping[str, Any]]


class _Opening:
    """What a session is opened with, and what all requests for it have in common."""

    def __init__(
        self,
        agent: str,
        name: str | None = None,
        *,
        tenant: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
        ttl_days: int | None = None,
        busy: str | None = None,
    ) -> None:
        reference, _, version = agent.partition("@")
        members = {
            "agent": reference,
            "external_id": name,
            "title": title,
            "metadata": metadata,
            "ttl_days": ttl_days,
            "busy": busy,
            "pin_version": version if version != "latest" else "",
        }
        self.agent = agent
        self.body = {member: value for member, value in members.items() if value not in (None, "")}
        self.tenant = tenant
        self.id = name if name and _ID.fullmatch(name) else None

    def forked(self, id: str) -> _Opening:
        return _Opening(self.agent, id, tenant=self.tenant)

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        own = {} if self.tenant is None else {"X-Platform-Tenant": self.tenant}
        return {**given, "headers": {**own, **(given.get("headers") or {})}}


def _path_of(id: str, *more: str) -> str:
    return "/".join((_SESSIONS, quote(id, safe=""), *more))


def _body_of(message: Message) -> dict[str, Any]:
    return {"text": message} if isinstance(message, str) else {"input": dict(message)}


class Session:
    """A conversation with an agent, which :meth:`Platform.session` returns.

    It is opened by its first message, or found by the name that the program gave it. Each method takes ``timeout`` and
    ``max_retries``, as those of the platform do.
    """

    def __init__(self, platform: Platform, opening: _Opening) -> None:
        self._platform = platform
        self._opening = opening

    def id(self, **options: Any) -> str:
        """The platform's id of the session, which is opened if it is not yet."""
        if self._opening.id is None:
            made = self._platform.request(
                "POST", _SESSIONS, body=self._opening.body, **self._opening.options(_limits(options))
            )
            self._opening.id = made["id"]
        return str(self._opening.id)

    def send(self, message: Message, **options: Any) -> Answer:
        """Sends a message and waits for its answer; ``options`` are those of :meth:`Platform.call`."""
        path = _path_of(self.id(**_limits(options)), "messages")
        return self._platform._call(path, _body_of(message), **self._opening.options(options))

    def stream(self, message: Message, **options: Any) -> Stream[Any]:
        """Sends a message and yields its events, and last the answer; see :meth:`Platform.stream`."""

        def path(platform: Platform) -> str:
            return _path_of(Session(platform, self._opening).id(**_limits(options)), "messages")

        return self._platform._stream(self._opening.agent, path, _body_of(message), **self._opening.options(options))

    def messages(self, query: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Any]:
        """The messages of the session with their answers, from the first one on. ``order`` is ``asc`` or ``desc``."""
        path = _path_of(self.id(**_limits(options)), "messages")
        yield from self._platform.list(path, {"order": "asc", **(query or {})}, **self._opening.options(options))

    def fork(self, after: int, *, title: str | None = None, **options: Any) -> Session:
        """A new session that begins with the first ``after`` messages of this one."""
        body = {"after": after} if title is None else {"after": after, "title": title}
        made = self._request("POST", "fork", body=body, **options)
        return Session(self._platform, self._opening.forked(made["id"]))

    def interrupt(self, **options: Any) -> str | None:
        """Cancels the run that answers a message now, and returns its id; ``None`` if there is none."""
        return (self._request("POST", "interrupt", **options) or {}).get("run_id")

    def delete(self, **options: Any) -> None:
        """Erases the session with all that was said in it."""
        self._request("DELETE", **options)

    def _request(self, method: str, *path: str, **options: Any) -> Any:
        address = _path_of(self.id(**_limits(options)), *path)
        return self._platform.request(method, address, **self._opening.options(options))


class AsyncSession:
    """:class:`Session` with the same methods and options, for programs with an event loop."""

    def __init__(self, platform: AsyncPlatform, opening: _Opening) -> None:
        self._async_platform = platform
        self._session = Session(platform._platform, opening)

    async def id(self, **options: Any) -> str:
        return await self._do(lambda session: session.id(**options))

    async def send(self, message: Message, **options: Any) -> Answer:
        return await self._do(lambda session: session.send(message, **options))

    def stream(self, message: Message, **options: Any) -> AsyncStream[Any]:
        from .async_platform import AsyncStream

        return AsyncStream(self._session.stream(message, **options))

    async def messages(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        opening = self._session._opening
        path = _path_of(await self.id(**_limits(options)), "messages")
        async for row in self._async_platform.list(path, {"order": "asc", **(query or {})}, **opening.options(options)):
            yield row

    async def fork(self, after: int, **options: Any) -> AsyncSession:
        forked = await self._do(lambda session: session.fork(after, **options))
        return AsyncSession(self._async_platform, forked._opening)

    async def interrupt(self, **options: Any) -> str | None:
        return await self._do(lambda session: session.interrupt(**options))

    async def delete(self, **options: Any) -> None:
        await self._do(lambda session: session.delete(**options))

    async def _do(self, work: Any) -> Any:
        opening = self._session._opening
        return await self._async_platform._do(lambda platform: work(Session(platform, opening)))


def _limits(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("timeout", "max_retries")}
