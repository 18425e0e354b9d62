"""The gateway as a server of the SDK: every message of a client comes through `Gateway.handle`, as it was sent.

Calls of tools go to the gate. What the gateway itself can (tasks, `placet_check`) it answers. All else passes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.context import CallNext, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from placet.facts.codec import canonical
from placet.facts.errors import PlacetError, UserError
from placet.gate.mcp.answers import CHECK, CHECK_TOOL, STATE, Answers, Pulse
from placet.gate.mcp.asking import Asking, Tool
from placet.gate.mcp.calls import Calls, Pending, why_no_call
from placet.gate.mcp.config import GatewayConfig, Loaded
from placet.gate.mcp.inputs import NEEDS
from placet.gate.mcp.line import Line
from placet.gate.mcp.listening import listen
from placet.gate.mcp.passing import asked_of, listed, merged_capabilities, merged_instructions, pass_on
from placet.gate.mcp.pins import Pins, read_pins
from placet.gate.mcp.raw import TASKS, Params, invalid, is_modern
from placet.gate.mcp.session import Exchange, Session
from placet.gate.mcp.tasks import Tasks, wants_task
from placet.gate.mcp.upstream import Greeting
from placet.gate.port import Gate

logger = logging.getLogger("placet.gate.mcp")

GREETING_PATIENCE = 10.0
"""Seconds that a client's greeting waits for slow servers. They join later, and the client is told of their tools."""
INSTRUCTIONS = (
    f"Some tools here run only when a person has approved the call. If an answer says that a person is asked, do not "
    f"repeat the call: give its handle to the tool {CHECK}."
)
MAX_KINDS = 8
"""Of one guest's clients that speak today's protocol, by what they say that they can be asked."""
GateOf = Callable[[str], Gate]
"""The gate of a guest, by its name, or by its token at a desk."""


class Gateway:
    """All clients and all servers of one configuration."""

    def __init__(self, loaded: Loaded, gate_of: GateOf) -> None:
        self.config: GatewayConfig = loaded.config
        self._pins_file = loaded.pins
        self._gate_of = gate_of
        self._pulse = Pulse(self.config.progress_every)
        self._answers = Answers(self.config, self._pulse)
        self._tasks = Tasks(self.config)
        self._guests: dict[str, Calls] = {}
        self._modern: dict[tuple[str, bytes], Session] = {}
        self._sessions: set[Session] = set()
        self._asking = {name: Asking(name, server, self.config.guest) for name, server in self.config.servers.items()}
        self._pins: tuple[object, Pins] = (object(), Pins())
        self._lock = asyncio.Lock()
        self.server: Server[Any] = Server("placet")
        self.server.middleware.append(self.handle)

    # -- guests -------------------------------------------------------------------------------------------------------

    def calls_of(self, guest: str) -> Calls:
        found = self._guests.get(guest)
        if found is None:
            found = self._guests[guest] = Calls(
                self._gate_of(guest), lambda: self._elsewhere(guest), self.config.servers
            )
        return found

    async def _elsewhere(self, guest: str) -> Line:
        session = await self._shared(guest)
        assert session.line is not None, "a shared session has one until the gateway ends"
        return session.line

    def pins(self) -> Pins:
        """As they stand in the file: pinning needs no restart."""
        try:
            found = self._pins_file.stat()
            mark: object = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            mark = None
        if mark != self._pins[0]:
            try:
                text = self._pins_file.read_text(encoding="utf-8") if mark is not None else None
                self._pins = (mark, read_pins(text, str(self._pins_file)))
            except (OSError, UserError) as error:  # then every tool is new, and asks
                logger.error("no pins", extra={"action": "mcp_no_pins", "error": str(error)})
                self._pins = (mark, Pins())
        return self._pins[1]

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def _shared(self, guest: str, params: Params | None = None) -> Session:
        """The session of a guest's clients that speak today's protocol, and of calls whose client is gone. Clients that
        can be asked different things have different ones: a server of the older protocol is told of that once."""
        meta = (params or {}).get("_meta")
        declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
        given = declared if isinstance(declared, Mapping) else {}
        can = {name: given[name] for name in NEEDS.values() if isinstance(given.get(name), Mapping)}
        key = (guest, canonical(can))
        async with self._lock:
            if key not in self._modern and sum(each == guest for each, _ in self._modern) >= MAX_KINDS:
                key, can = (guest, canonical({})), {}
            found = self._modern.get(key)
            if found is None:
                info = {"name": "placet", "version": _version()}
                greeting = Greeting(version=LATEST_MODERN_VERSION, client_info=info, capabilities=can)
                found = self._modern[key] = Session(greeting, self.calls_of(guest), guest)
                await self._connect(found)
            return found

    async def _connect(self, session: Session) -> None:
        reserved = (CHECK,) if "handle" in self.config.wait else ()
        session.line = Line(self.config.servers, session.greeting, session, reserved)
        self._sessions.add(session)
        opening = asyncio.ensure_future(session.line.open())
        done, _ = await asyncio.wait([opening], timeout=GREETING_PATIENCE)
        if not done:
            opening.add_done_callback(lambda _: asyncio.ensure_future(self._joined(session)))

    async def _joined(self, session: Session) -> None:
        await session.tell("notifications/tools/list_changed", None)

    async def _end(self, session: Session) -> None:
        self._sessions.discard(session)
        await session.close(self.config.grace)

    async def close(self) -> None:
        await self._pulse.close()
        for calls in self._guests.values():
            await calls.close(self.config.grace)
        for session in [*self._sessions]:
            await session.close(0.0)
        for calls in self._guests.values():
            await calls.gate.aclose()

    async def _session_of(self, ctx: ServerRequestContext[Any, Any]) -> Session:
        guest = guest_of(ctx) or self.config.guest
        if is_modern(ctx.protocol_version):
            return await self._shared(guest, ctx.params)
        found: Session | None = connection_of(ctx).state.get("placet")
        if found is None:
            raise invalid("The session was not initialised.", types.INVALID_REQUEST)
        return found

    # -- messages -----------------------------------------------------------------------------------------------------

    async def handle(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> Any:  # Any: what a message gives
        if ctx.request_id is None:
            await self._notified(ctx, call_next)
            return None
        if ctx.method == "initialize":
            return await self._initialize(ctx)
        if ctx.method == "ping":
            return {}
        session = await self._session_of(ctx)
        exchange = Exchange(ctx, session)
        return await self._answered(exchange, session)

    async def _answered(self, exchange: Exchange, session: Session) -> dict[str, Any]:
        method, params = exchange.ctx.method, exchange.ctx.params
        line = session.line
        if line is None:
            raise invalid("The session is over.", types.INVALID_REQUEST)
        match method:
            case "tools/call":
                return _complete(session, await self._call(exchange, session, line))
            case "tools/list":
                return self._with_ours(exchange, await listed(exchange, line, method, params))
            case "subscriptions/listen" if session.is_modern:
                return await listen(exchange, session, line)
            case "server/discover":
                return self._discovered(line)
            case _ if method.startswith("tasks/"):
                return await self._tasks.answer(exchange, method)
            case _:
                return await pass_on(exchange, line, method, params)

    async def _notified(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> None:
        if ctx.method == "notifications/initialized":
            await call_next(ctx)
            return
        try:
            session = await self._session_of(ctx)
        except MCPError:
            return
        if ctx.method == "notifications/cancelled":
            number: Any = (ctx.params or {}).get("requestId")
            pending = session.requests.pop(number, None) if isinstance(number, str | int) else None
            if pending is not None:
                try:
                    await session.calls.cancel(pending)
                except PlacetError as error:
                    told = {"action": "mcp_not_cancelled", "call_id": pending.call.id, "error": str(error)}
                    logger.warning("not cancelled", extra=told)
            return
        if session.line is not None:
            for upstream in session.line.reached():
                await upstream.notify(ctx.method, ctx.params)

    # -- greeting -----------------------------------------------------------------------------------------------------

    async def _initialize(self, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        connection, params = connection_of(ctx), ctx.params or {}
        if connection.state.get("placet") is not None:
            raise invalid("The session was initialised before: once is enough.", types.INVALID_REQUEST)
        types.InitializeRequestParams.model_validate(params, by_name=False)  # what is none is told so by the SDK
        wanted = params.get("protocolVersion")
        version = str(wanted) if wanted in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        greeting = Greeting(
            version=version,
            client_info=dict(params.get("clientInfo") or {}),
            capabilities=dict(params.get("capabilities") or {}),
        )
        guest = guest_of(ctx) or self.config.guest
        session = Session(greeting, self.calls_of(guest), guest)
        connection.state["placet"] = session
        connection.exit_stack.push_async_callback(self._end, session)
        session.connect(connection)
        await self._connect(session)
        assert session.line is not None, "it was just connected"
        reached = session.line.reached()
        result = {
            "protocolVersion": version,
            "capabilities": self._capabilities(session.line, version),
            "serverInfo": _info(session.line),
        }
        instructions = self._instructions(merged_instructions(reached))
        return {**result, "instructions": instructions} if instructions else result

    def _discovered(self, line: Line) -> dict[str, Any]:
        result: dict[str, Any] = {
            "resultType": "complete",
            "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
            "capabilities": self._capabilities(line, LATEST_MODERN_VERSION),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {types.SERVER_INFO_META_KEY: _info(line)},
        }
        instructions = self._instructions(merged_instructions(line.reached()))
        return {**result, "instructions": instructions} if instructions else result

    def _capabilities(self, line: Line, version: str) -> dict[str, Any]:
        found = merged_capabilities(line.reached())
        found["tools"] = {**(found.get("tools") or {}), "listChanged": True}
        if "task" not in self.config.wait:
            return found
        if is_modern(version):
            found["extensions"] = {**(found.get("extensions") or {}), TASKS: {}}
        elif version == LATEST_HANDSHAKE_VERSION:
            found["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return found

    def _instructions(self, told: str | None) -> str | None:
        return "\n\n".join(filter(None, [told, INSTRUCTIONS if "handle" in self.config.wait else None])) or None

    def _with_ours(self, exchange: Exchange, result: dict[str, Any]) -> dict[str, Any]:
        tools = list(result["tools"])
        if "task" in self.config.wait and not exchange.session.is_modern:
            tools = [_may_be_a_task(tool) for tool in tools]
        if "handle" in self.config.wait:
            tools.append(CHECK_TOOL)
        return {**result, "tools": tools}

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _call(self, exchange: Exchange, session: Session, line: Line) -> dict[str, Any]:
        params = exchange.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise invalid("A call names a tool, and its arguments are an object.")
        if name == CHECK and "handle" in self.config.wait:
            return await self._answers.check(exchange, arguments or {})
        state = params.get("requestState")
        if isinstance(state, str) and state.startswith(STATE):
            return await self._answers.come_back(exchange, state)
        tool = await self._tool(line, name)
        verdict = await self._asking[tool.server].judge(tool, self.pins())
        if verdict.passes and self._judges_alone(session.calls) and not wants_task(exchange):
            given = {**params, "name": tool.name}
            return await asked_of(exchange, line, tool.server, "tools/call", given)
        server = self.config.servers[tool.server]
        try:
            pending = await session.calls.propose(
                tool,
                arguments or {},
                verdict,
                session=session.id,
                context=f"Through {session.client}.",
                decide_within=server.decide_within,
                at_deadline=server.at_deadline,
                approval_valid_for=server.approval_valid_for,
            )
        except PlacetError as error:
            refused = why_no_call(error)
            if refused is None:
                raise
            return refused
        pending.line, pending.meta = line, _meta_of(params)
        return await self._answered_for(exchange, session, pending)

    async def _answered_for(self, exchange: Exchange, session: Session, pending: Pending) -> dict[str, Any]:
        number = exchange.ctx.request_id
        assert number is not None, "a request has one"
        session.requests[number] = pending
        try:
            result = await self._answers.answer(exchange, pending)
        except asyncio.CancelledError:
            # Whether the question is withdrawn is said by the client's notification, which comes after this. A client
            # of today's protocol over HTTP sends none: for it, hanging up is no word about the question.
            if exchange.is_modern and exchange.ctx.request is not None:
                session.requests.pop(number, None)
            raise
        except BaseException:
            session.requests.pop(number, None)
            raise
        session.requests.pop(number, None)
        return result

    def _judges_alone(self, calls: Calls) -> bool:
        """Whether no rules but the configuration's count. A desk's are not known here: it sees every call."""
        return self.config.policy is None and not calls.gate.is_at_desk

    async def _tool(self, line: Line, name: str) -> Tool:
        """InvalidParams where the servers, asked just now, list no such tool: a person's yes could not make it run."""
        catalog = await line.catalog("tools")
        offer = catalog.by_name.get(name)
        if offer is None:
            catalog = await line.catalog("tools", fresh=True)
            offer = catalog.by_name.get(name)
        if offer is not None:
            return Tool(server=offer.server, name=offer.name, raw=offer.raw)
        silent = [each.name for each in line.reached() if "tools" not in each.capabilities]
        if len(line.servers) == 1 and silent:  # it says nothing of tools, so it may have some: a person is asked
            return Tool(server=silent[0], name=name, raw=None)
        raise invalid(f"Unknown tool: {name[:128]}")


def connection_of(
    ctx: ServerRequestContext[Any, Any],
) -> Any:  # Any: the SDK's connection, which it hands to no middleware
    return ctx.session._connection  # the one place where a connection's own state and end can be had


def guest_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Who sent an HTTP request, as the endpoint found out; None on a connection that has one client only."""
    request = ctx.request
    found = request.scope.get("placet.guest") if request is not None else None
    return found if isinstance(found, str) else None


def _meta_of(params: Params) -> dict[str, Any]:
    """What a forwarded call keeps of the client's `_meta`: all of it."""
    meta = params.get("_meta")
    return dict(meta) if isinstance(meta, Mapping) else {}


def _complete(session: Session, result: dict[str, Any]) -> dict[str, Any]:
    """In the words of the client's era: today's says of each result what it is."""
    if session.is_modern:
        return {"resultType": "complete", **result}
    return {key: value for key, value in result.items() if key != "resultType"}


def _may_be_a_task(tool: dict[str, Any]) -> dict[str, Any]:
    """Whatever its server can: here every call can be one."""
    return {**tool, "execution": {**(tool.get("execution") or {}), "taskSupport": "optional"}}


def _info(line: Line) -> dict[str, Any]:
    reached = line.reached()
    if len(line.servers) == 1 and reached and reached[0].info:
        return reached[0].info
    return {"name": "placet", "title": "Placet gateway", "version": _version()}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("placet")
    except PackageNotFoundError:
        return "0"
