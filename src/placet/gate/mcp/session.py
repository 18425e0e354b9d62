"""One client's session: what it declared, its line to the servers, and the requests that are being answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.types import RequestId

from placet.facts.ids import mint
from placet.gate.mcp.calls import Calls, Pending
from placet.gate.mcp.desk_forms import asked_at_desk
from placet.gate.mcp.line import Line
from placet.gate.mcp.raw import Params, RawNotification, RawRequest, RawResult, is_modern
from placet.gate.mcp.upstream import Greeting

logger = logging.getLogger("placet.gate.mcp")

Context = ServerRequestContext[Any, Any]


class Exchange:
    """One request of a client while it is answered: the way back to whoever sent it."""

    def __init__(self, ctx: Context, session: Session) -> None:
        self.ctx = ctx
        self.session = session
        self.version = session.greeting.version

    @property
    def params(self) -> Params:
        return self.ctx.params or {}

    @property
    def progress_token(self) -> str | int | None:
        meta = self.params.get("_meta")
        found = meta.get("progressToken") if isinstance(meta, Mapping) else None
        return found if isinstance(found, str | int) and not isinstance(found, bool) else None

    @property
    def is_modern(self) -> bool:
        return self.session.is_modern

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self.session.capabilities_of(self.params)

    async def notify(self, method: str, params: Params | None) -> None:
        note = RawNotification(method=method, params=dict(params) if params is not None else None)
        with contextlib.suppress(MCPError):
            await self.ctx.session.send_notification(note, self.ctx.request_id)  # type: ignore[arg-type]  # a method of any name

    async def ask(self, method: str, params: Params | None) -> dict[str, Any]:
        """Ask the client, as part of this request. The client's own words, or its error."""
        request = RawRequest(method=method, params=dict(params) if params is not None else None)
        from mcp.shared.message import ServerMessageMetadata

        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        try:
            found = await self.ctx.session.send_request(request, RawResult, metadata=related)  # type: ignore[arg-type]  # as above
        except NoBackChannelError as error:
            raise MCPError(types.METHOD_NOT_FOUND, _NO_WAY.format(method)) from error
        return found.root

    async def progress(self, number: float, message: str) -> None:
        token = self.progress_token
        if token is not None:
            await self.notify(
                "notifications/progress", {"progressToken": token, "progress": number, "message": message}
            )


_NO_WAY = "The client cannot be asked {} in the middle of a call: its protocol has no way for it."


class Session:
    """A client as the gateway knows it. One of an older protocol is one connection; those of today's share one, since
    each of their requests says all that there is to know."""

    def __init__(self, greeting: Greeting, calls: Calls, guest: str) -> None:
        self.id = mint("mcp")
        self.greeting = greeting
        self.calls = calls
        self.guest = guest
        self.requests: dict[RequestId, Pending] = {}
        """The calls behind the requests of this connection: a cancellation names the request."""
        self.line: Line | None = None
        self.listeners: list[Callable[[str, Params | None], None]] = []
        self.on_close: list[Callable[[], None]] = []
        self._outbound: Any = None  # Any: the SDK's connection

    @property
    def is_modern(self) -> bool:
        return is_modern(self.greeting.version)

    @property
    def client(self) -> str:
        info = self.greeting.client_info
        name = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
        return name[:100] or "an MCP client"

    def capabilities_of(self, params: Params) -> Mapping[str, Any]:
        """What the client declared: once, or with each request."""
        if not self.is_modern:
            return self.greeting.capabilities
        meta = params.get("_meta")
        found = meta.get(types.CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def connect(self, outbound: Any) -> None:
        self._outbound = outbound

    async def tell(self, method: str, params: Params | None) -> None:
        """What belongs to no request: on the connection, or to whoever listens."""
        if self.is_modern:
            for listener in list(self.listeners):
                listener(method, params)
        elif self._outbound is not None:
            await self._outbound.notify(method, params)

    async def ask_desk(self, server: str, params: Params | None, seconds: float) -> dict[str, Any]:
        """A server's elicitation, where its configuration says that the desk answers those."""
        return await asked_at_desk(self.calls.gate, server, params, self.id, seconds)

    async def ask(self, _server: str, method: str, params: Params | None) -> dict[str, Any]:
        if self._outbound is None or self.is_modern:
            raise MCPError(types.METHOD_NOT_FOUND, _NO_WAY.format(method))
        result: dict[str, Any] = await self._outbound.send_raw_request(method, dict(params) if params else None)
        return result

    async def close(self, grace: float) -> None:
        """The client is gone: what waits goes on waiting, and what runs gets some time."""
        line, self.line = self.line, None
        self._outbound = None
        for told in self.on_close:
            told()
        if line is None:
            return
        busy = self.calls.busy(line)
        self.calls.leave(line)
        if busy:
            await asyncio.wait(busy, timeout=grace)
        await line.close()
