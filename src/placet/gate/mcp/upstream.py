"""One connection to one server: greeted, asked, and listened to, in messages as they are.

One task owns it, opens it and closes it. Whoever asks through it learns of each request whether it certainly did not
leave, was answered, or nobody knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, Self

import anyio
import msgspec
from mcp import types
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from placet.facts.errors import UserError
from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.raw import TASKS, Params, check_result, is_modern
from placet.gate.mcp.transports import streams_to
from placet.mcp.calling import NOT_SENT
from placet.mcp.connection import first_cause

logger = logging.getLogger("placet.gate.mcp")


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """Who the gateway says it is to a server: the client, as far as there is one."""

    version: str
    """That of the client. A server that speaks another era is spoken to in that."""
    client_info: dict[str, Any]
    capabilities: dict[str, Any]


class Hears(Protocol):
    """Who is told what a server says by itself."""

    def on_notification(self, server: str, method: str, params: Params | None) -> Awaitable[None]: ...

    def on_request(self, server: str, method: str, params: Params | None) -> Awaitable[dict[str, Any]]: ...


class Upstream:
    """Open from `open()` until `close()`, or until the server is gone."""

    def __init__(self, name: str, config: ServerConfig, greeting: Greeting, hears: Hears) -> None:
        self.name = name
        self.config = config
        self._greeting = greeting
        self._hears = hears
        self._dispatcher: JSONRPCDispatcher[Any] | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._sent: set[int | str] = set()
        self._param_headers: dict[str, dict[tuple[str, ...], str]] = {}
        self.version = greeting.version
        self.capabilities: dict[str, Any] = {}
        self.instructions: str | None = None
        self.info: dict[str, Any] = {}

    @property
    def is_open(self) -> bool:
        return self._dispatcher is not None and not self._closing.is_set()

    @property
    def is_modern(self) -> bool:
        return is_modern(self.version)

    async def open(self) -> None:
        """Connect and greet. Whatever keeps it from that is raised, and nothing is left behind."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(ready), name=f"mcp gateway: {self.name}")
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                await asyncio.shield(ready)
        except BaseException as error:
            ready.cancel()
            await self.close()
            if isinstance(error, TimeoutError):
                raise MCPError(
                    NOT_SENT, f"The server '{self.name}' did not answer within {self.config.connect_timeout:g} s."
                ) from error
            raise

    async def _own(self, ready: asyncio.Future[None]) -> None:
        try:
            async with streams_to(self.name, self.config) as (read, write), anyio.create_task_group() as group:
                dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(read, _Watched(write, self._sent))
                await group.start(self._listen, dispatcher)
                await self._greet(dispatcher)
                self._dispatcher = dispatcher
                if not ready.done():
                    ready.set_result(None)
                await self._closing.wait()
                group.cancel_scope.cancel()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # who waits is told; who comes later connects
            cause = first_cause(error)
            if not ready.done():
                ready.set_exception(cause if isinstance(cause, MCPError | UserError) else self._lost(cause))
            logger.info("server lost", extra={"action": "mcp_server_lost", "server": self.name, "error": str(cause)})
        finally:
            self._closing.set()
            self._dispatcher = None
            if not ready.done():
                ready.cancel()

    def _lost(self, cause: BaseException) -> MCPError:
        why = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return MCPError(NOT_SENT, f"The server '{self.name}' cannot be reached: {why}"[:400])

    async def _listen(self, dispatcher: JSONRPCDispatcher[Any], *, task_status: Any) -> None:
        try:
            await dispatcher.run(self._on_request, self._on_notify, task_status=task_status)
        finally:
            self._closing.set()  # it is gone, whoever ended it

    async def close(self) -> None:
        self._closing.set()
        task = self._task
        if task is None or task.done():
            return
        if self._dispatcher is None:
            task.cancel()  # it is still connecting
        await asyncio.shield(asyncio.wait([task]))

    # -- greeting -----------------------------------------------------------------------------------------------------

    async def _greet(self, dispatcher: JSONRPCDispatcher[Any]) -> None:
        tries = [self._shake_hands, self._discover]
        wants_modern = self.config.protocol == "modern" or (
            self.config.protocol == "auto" and is_modern(self._greeting.version)
        )
        if wants_modern:
            tries.reverse()
        if self.config.protocol != "auto":
            tries = tries[:1]
        for is_last, attempt in enumerate(tries, start=2 - len(tries)):
            try:
                await attempt(dispatcher)
                return
            except MCPError as error:
                if is_last or error.code in (types.CONNECTION_CLOSED, NOT_SENT):
                    raise

    async def _shake_hands(self, dispatcher: JSONRPCDispatcher[Any]) -> None:
        wanted = self._greeting.version if not is_modern(self._greeting.version) else LATEST_HANDSHAKE_VERSION
        params = {
            "protocolVersion": wanted,
            "capabilities": declared(self._greeting.capabilities, self.config),
            "clientInfo": self._greeting.client_info,
        }
        found = await dispatcher.send_raw_request("initialize", params, {"cancel_on_abandon": False})
        check_result("initialize", wanted, found, self.name)
        if found.get("protocolVersion") not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise MCPError(
                types.INTERNAL_ERROR,
                f"The server '{self.name}' speaks protocol {found.get('protocolVersion')!r}, which is not known here.",
            )
        self._adopt(str(found["protocolVersion"]), found, found.get("serverInfo"))
        headers = {"headers": {MCP_PROTOCOL_VERSION_HEADER: self.version}}
        await dispatcher.notify("notifications/initialized", None, headers)  # type: ignore[arg-type]

    async def _discover(self, dispatcher: JSONRPCDispatcher[Any]) -> None:
        version = LATEST_MODERN_VERSION
        params = self._stamped({}, version)
        options: CallOptions = {
            "cancel_on_abandon": False,
            "headers": {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: "server/discover"},
        }
        found = await dispatcher.send_raw_request("server/discover", params, options)
        check_result("server/discover", version, found, self.name)
        if version not in (found.get("supportedVersions") or ()):
            raise MCPError(
                types.UNSUPPORTED_PROTOCOL_VERSION, f"The server '{self.name}' does not speak protocol {version}."
            )
        meta = found.get("_meta") or {}
        self._adopt(version, found, meta.get(types.SERVER_INFO_META_KEY))

    def _adopt(self, version: str, found: Mapping[str, Any], info: Any) -> None:
        self.version = version
        capabilities, instructions = found.get("capabilities"), found.get("instructions")
        self.capabilities = dict(capabilities) if isinstance(capabilities, Mapping) else {}
        self.instructions = instructions if isinstance(instructions, str) else None
        self.info = dict(info) if isinstance(info, Mapping) else {}

    # -- asking -------------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # of the other side: it is told that nobody waits any more
        request_id: str | None = None,
    ) -> dict[str, Any]:
        """The server's answer. MCPError with NOT_SENT where the request certainly did not leave."""
        dispatcher = self._dispatcher
        if dispatcher is None or not self.is_open:
            raise MCPError(NOT_SENT, f"The server '{self.name}' is gone.")
        given = dict(params) if params is not None else {}
        number: int | str = next(self._numbers) if request_id is None else request_id
        options: CallOptions = {"request_id": number, "headers": self._headers(method, given)}
        if timeout is not None:
            options["timeout"] = timeout
        given = self._stamped(given, self.version) if self.is_modern else _without_envelope(given)
        try:
            found = await dispatcher.send_raw_request(method, given or None, options)
        except MCPError as error:
            if number not in self._sent:
                self._closing.set()  # the connection takes nothing more: whoever comes next connects anew
                raise MCPError(NOT_SENT, f"The server '{self.name}' is gone: {error.message}") from error
            raise
        finally:
            self._sent.discard(number)
        return self._checked(method, found)

    def _checked(self, method: str, found: object) -> dict[str, Any]:
        result = check_result(method, self.version, found, self.name)
        size = len(msgspec.json.encode(result))
        if size > self.config.max_answer:
            raise MCPError(
                types.INTERNAL_ERROR,
                f"The server '{self.name}' answered {method} with {size} bytes; up to {self.config.max_answer} are "
                "passed on (max_answer).",
            )
        return result

    async def notify(self, method: str, params: Params | None) -> None:
        dispatcher = self._dispatcher
        if dispatcher is None or self.is_modern:  # today's protocol has none from the client
            return
        await dispatcher.notify(method, params, {"headers": {MCP_PROTOCOL_VERSION_HEADER: self.version}})

    def know_tools(self, tools: list[dict[str, Any]]) -> None:
        """Which of their arguments today's protocol wants to see in headers, too."""
        self._param_headers = {
            str(tool.get("name")): found for tool in tools if (found := x_mcp_header_map(tool.get("inputSchema")))
        }

    def _headers(self, method: str, params: Params) -> dict[str, str]:
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.version}
        if not self.is_modern:
            return headers
        headers[MCP_METHOD_HEADER] = method
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and name in self._param_headers:
                headers.update(mcp_param_headers(self._param_headers[name], params.get("arguments") or {}))
        return headers

    def _stamped(self, params: Params, version: str) -> dict[str, Any]:
        """With what today's protocol wants to know in each request: as the client said it, where it did."""
        meta = {
            types.CLIENT_INFO_META_KEY: self._greeting.client_info,
            types.CLIENT_CAPABILITIES_META_KEY: self._greeting.capabilities,
            **(params.get("_meta") or {}),
            types.PROTOCOL_VERSION_META_KEY: version,
        }
        meta[types.CLIENT_CAPABILITIES_META_KEY] = declared(meta[types.CLIENT_CAPABILITIES_META_KEY], self.config)
        return {**params, "_meta": meta}

    # -- being told ---------------------------------------------------------------------------------------------------

    async def _on_notify(self, _ctx: DispatchContext[Any], method: str, params: Params | None) -> None:
        await self._hears.on_notification(self.name, method, params)

    async def _on_request(self, _ctx: DispatchContext[Any], method: str, params: Params | None) -> dict[str, Any]:
        if method == "ping":
            return {}
        return await self._hears.on_request(self.name, method, params)


def declared(capabilities: object, config: ServerConfig) -> dict[str, Any]:
    """What a server is told of the client: nothing of tasks, which are the gateway's, and that there is somebody who
    answers what it asks where the desk does."""
    found = dict(capabilities) if isinstance(capabilities, Mapping) else {}
    extensions = found.get("extensions")
    if isinstance(extensions, Mapping) and TASKS in extensions:
        found["extensions"] = {name: each for name, each in extensions.items() if name != TASKS}
    found.pop("tasks", None)
    if config.elicitation == "desk":
        found["elicitation"] = {"form": {}, "url": {}}
    return found


_ENVELOPE = (types.PROTOCOL_VERSION_META_KEY, types.CLIENT_INFO_META_KEY, types.CLIENT_CAPABILITIES_META_KEY)


def _without_envelope(params: dict[str, Any]) -> dict[str, Any]:
    """A server of the older era refuses requests that carry the newer one's envelope."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping) or not any(key in meta for key in _ENVELOPE):
        return params
    kept = {key: value for key, value in meta.items() if key not in _ENVELOPE}
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


class _Watched:
    """The stream to a server: it remembers which requests may have got through to the transport."""

    def __init__(self, inner: Any, sent: set[int | str]) -> None:  # Any: the SDK's stream
        self._inner = inner
        self._sent = sent

    async def send(self, item: Any) -> None:
        number = getattr(item.message, "id", None) if hasattr(item.message, "method") else None
        if number is not None:
            self._sent.add(number)
        try:
            await self._inner.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._sent.discard(number)
            raise

    async def aclose(self) -> None:
        with contextlib.suppress(anyio.ClosedResourceError):
            await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


OpenUpstream = Callable[[str], Awaitable[Upstream]]
