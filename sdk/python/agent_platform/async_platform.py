"""The same client for programs with an event loop. Each request runs in a thread, which a cancelled task ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Callable, Generic, TypeVar

from ._http import Connection
from ._threads import in_thread
from ._upload import Upload
from .platform import Answer, File, Platform, Run, Stream, _locate, _pages, _path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import AsyncSession

T = TypeVar("T")
_END: Any = object()


async def _ended_with_task(work: Callable[[], T], connection: Connection) -> T:
    try:
        return await in_thread(work)
    except BaseException:
        connection.end()
        raise


class AsyncStream(Generic[T]):
    """Events of a run. Leaving an ``async with`` block, or cancelling the task, ends the request; the run continues."""

    def __init__(self, stream: Stream[T]) -> None:
        self._stream = stream

    @property
    def run_id(self) -> str | None:
        """The run, as soon as it has begun."""
        return self._stream.run_id

    def __aiter__(self) -> AsyncStream[T]:
        return self

    async def __anext__(self) -> T:
        event = await _ended_with_task(lambda: next(self._stream, _END), self._stream._connection)
        if event is _END:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._stream.close()


class AsyncPlatform:
    """:class:`Platform` with the same methods and options, for programs with an event loop.

    Methods that make one request are coroutines; :meth:`stream`, :meth:`watch` and the listings are for ``async for``.
    A task that is cancelled ends its request.
    """

    def __init__(self, api_key: str | None = None, url: str | None = None, **options: Any) -> None:
        self._platform = Platform(api_key, url, **options)

    async def call(self, agent: str, input: Mapping[str, Any] | None = None, **options: Any) -> Answer:
        return await self._do(lambda platform: platform.call(agent, input, **options))

    def stream(self, agent: str, input: Mapping[str, Any] | None = None, **options: Any) -> AsyncStream[Any]:
        return AsyncStream(self._platform.stream(agent, input, **options))

    async def start(self, agent: str, input: Mapping[str, Any] | None = None, **options: Any) -> Run:
        return await self._do(lambda platform: platform.start(agent, input, **options))

    def session(self, agent: str, name: str | None = None, **options: Any) -> AsyncSession:
        from .session import AsyncSession, _Opening

        _path_of(agent, "run")
        return AsyncSession(self, _Opening(agent, name, **options))

    def sessions(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/workspaces/{workspace_id}/sessions", query, **options)

    async def wait(self, run: Run | str, **options: Any) -> Answer:
        return await self._do(lambda platform: platform.wait(run, **options))

    def watch(self, run: Run | str, **options: Any) -> AsyncStream[dict[str, Any]]:
        return AsyncStream(self._platform.watch(run, **options))

    async def cancel(self, run: Run | str, **options: Any) -> None:
        await self._do(lambda platform: platform.cancel(run, **options))

    async def replay(self, run: Run | str, **options: Any) -> Run:
        return await self._do(lambda platform: platform.replay(run, **options))

    async def share(self, run: Run | str, **options: Any) -> dict[str, Any]:
        return await self._do(lambda platform: platform.share(run, **options))

    def shares(self, run: Run | str, **options: Any) -> AsyncIterator[Any]:
        return self.list(f"{_locate(run)[1]}/shares", **options)

    async def revoke_share(self, run: Run | str, share: str, **options: Any) -> None:
        await self._do(lambda platform: platform.revoke_share(run, share, **options))

    async def score(self, run: Run | str, name: str, score: float | str, **options: Any) -> dict[str, Any]:
        return await self._do(lambda platform: platform.score(run, name, score, **options))

    def scores(self, run: Run | str, **options: Any) -> AsyncIterator[Any]:
        return self.list(f"{_locate(run)[1]}/scores", **options)

    async def upload(self, file: File, **options: Any) -> Upload:
        return await self._do(lambda platform: platform.upload(file, **options))

    async def download(self, path: str, target: Any, **options: Any) -> int:
        return await self._do(lambda platform: platform.download(path, target, **options))

    async def request(self, method: str, path: str, **options: Any) -> Any:
        return await self._do(lambda platform: platform.request(method, path, **options))

    async def list(self, path: str, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        connection = Connection()
        platform = self._platform._with(connection)
        pages = _pages(lambda page: platform.request("GET", path, query=page, **options), query or {})
        while (rows := await _ended_with_task(lambda: next(pages, None), connection)) is not None:
            for row in rows:
                yield row

    def agents(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/agents", {"latest": True, **(query or {})}, **options)

    def runs(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/workspaces/{workspace_id}/runs", query, **options)

    def schedules(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/workspaces/{workspace_id}/schedules", query, **options)

    def services(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/workspaces/{workspace_id}/services", query, **options)

    def tasks(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/workspaces/{workspace_id}/tasks", query, **options)

    def messages(self, query: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
        return self.list("/workspaces/{workspace_id}/messages", query, **options)

    async def _do(self, work: Callable[[Platform], T]) -> T:
        connection = Connection()
        return await _ended_with_task(lambda: work(self._platform._with(connection)), connection)
