"""One live connection to a server. One task owns it: it opens it and closes it; anybody's task may ask through it.

The SDK's transports live in cancel scopes that must be left by the task that entered them, in order. So code that uses
a connection never enters it: a run that is cancelled, or another task than the one that connected, cannot tear it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ElicitationFnT, IncomingMessage
    from mcp.server import MCPServer as SdkServer
    from mcp.server import Server as LowLevelServer

logger = logging.getLogger("placet.mcp")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a lost subscription is opened again."""


class Connection:
    """Open from `open()` until `close()`, or until the server is gone."""

    def __init__(self, server: str, on_tools_changed: Callable[[], None]) -> None:
        self._server = server
        self._on_tools_changed = on_tools_changed
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._is_retired = False
        self.error: BaseException | None = None
        """What ended it, if it was not closed."""

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._closing.is_set() and not self._is_retired

    @property
    def client(self) -> Client:
        assert self._client is not None, "the caller has opened it"
        return self._client

    @property
    def is_stateless(self) -> bool:
        """Whether the server speaks a protocol in which a call can wait for input without a connection."""
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def open(self, make: Callable[[Connection], Client], timeout: float | None) -> None:  # noqa: ASYNC109
        """Connect. Whatever keeps it from connecting is raised, and nothing is left behind."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(make, ready), name=f"mcp {self._server}")
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(ready)
        except BaseException:
            ready.cancel()
            await self.close()
            raise

    async def _own(self, make: Callable[[Connection], Client], ready: asyncio.Future[None]) -> None:
        import anyio

        try:
            async with make(self) as client:
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                async with anyio.create_task_group() as group:
                    group.start_soon(self._listen, client)
                    await self._closing.wait()
                    group.cancel_scope.cancel()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # who waits is told; who comes later connects
            self.error = first_cause(error)
            if not ready.done():
                ready.set_exception(self.error)
        finally:
            self._closing.set()
            self._client = None
            if not ready.done():
                ready.cancel()

    async def close(self) -> None:
        """Let the server go. What is still asked through this connection is answered with its end."""
        self._closing.set()
        task = self._task
        if task is None:
            return
        if self._client is None and not task.done():
            task.cancel()  # it is still connecting: the SDK leaves what it entered
        await asyncio.shield(asyncio.wait([task]))

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While something is asked through it, a connection that nobody should use any more is not torn."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._close_if_idle()

    def retire(self) -> None:
        """Let nobody ask through it any more, and let what is being asked come to its end."""
        self._is_retired = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._is_retired and not self._in_flight:
            self._closing.set()

    # -- what the server says by itself ----------------------------------------------------------------------------

    async def on_message(self, message: IncomingMessage) -> None:
        """A notification of an older server, which sends them unasked."""
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._on_tools_changed()

    async def _listen(self, client: Client) -> None:
        """Ask a server of today's protocol to say when its tools change. What was missed counts as a change."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError
        from mcp.types import METHOD_NOT_FOUND

        offers = client.server_capabilities.tools
        if not self.is_stateless or offers is None or not offers.list_changed:
            return
        pause = _FIRST_PAUSE
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    self._on_tools_changed()
                    pause = _FIRST_PAUSE
                    async for _ in subscription:
                        self._on_tools_changed()
            except (ListenNotSupportedError, MCPError) as error:
                if isinstance(error, ListenNotSupportedError) or error.code == METHOD_NOT_FOUND:
                    return
            except (SubscriptionLost, TimeoutError):
                pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def lost(self) -> None:
        """The server is gone: nobody should ask through this connection any more."""
        self._closing.set()


def first_cause(error: BaseException) -> BaseException:
    """The first single error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def make_client(
    connection: Connection,
    target: AbstractAsyncContextManager[Any] | SdkServer | LowLevelServer[Any],
    *,
    mode: str,
    elicitation_callback: ElicitationFnT,
    message_handler: Callable[[IncomingMessage], Any] | None,
) -> Client:
    from mcp import Client
    from mcp.types import Implementation

    is_transport = isinstance(target, AbstractAsyncContextManager)

    async def on_message(message: IncomingMessage) -> None:
        await connection.on_message(message)
        if message_handler is not None:
            await message_handler(message)

    return Client(
        _watched(target, connection.lost) if is_transport else target,  # type: ignore[arg-type]  # the SDK's Transport
        mode=mode,
        elicitation_callback=elicitation_callback,
        message_handler=on_message,
        client_info=Implementation(name="placet", version="0.1.0"),
        cache=None,  # when a listing is asked for again is said by `cache_tools_list`
    )


@asynccontextmanager
async def _watched(
    transport: AbstractAsyncContextManager[Any], on_end: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    async with transport as (read, write):
        yield _WatchedStream(read, on_end), write


class _WatchedStream:
    """What a server sends, and the moment when it ends: the SDK keeps that to itself."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        try:
            return await self._inner.receive()
        except Exception:
            self._on_end()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except (StopAsyncIteration, Exception):
            self._on_end()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        found: bool | None = await self._inner.__aexit__(kind, error, trace)
        return found
