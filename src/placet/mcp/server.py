"""A server as an agent's source of tools: connected when needed, listed, asked, filtered, and judged by its policy."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack

from placet.core.json_schema import problem_with_schema, problems
from placet.declare.agent import Agent, MCPConfig
from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import ApprovalRule, Recovery, Tool, default_tool_error_function
from placet.declare.tool_schema import strict_schema
from placet.declare.tool_values import InvalidArguments
from placet.facts.addresses import without_credentials
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import ToolsetUnavailable, UserError
from placet.facts.items import Named
from placet.mcp.calling import Calling, NotTaken, is_of_a_dead_connection
from placet.mcp.connection import Connection, make_client
from placet.mcp.filters import ToolFilter, ToolFilterContext, check_filter, passes
from placet.mcp.policy import Policy, RequireApproval
from placet.mcp.tools import MCPTool, as_parameters

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext, ElicitationFnT
    from mcp.types import CallToolResult, ElicitRequestParams, ErrorData
    from mcp.types import Tool as ServerTool

logger = logging.getLogger("placet.mcp")
V = TypeVar("V")

MAX_PAGES = 1000
"""Of a listing: a server whose pages never end is not waited for."""


class ServerOptions(TypedDict, total=False):
    """What all kinds of servers can be told."""

    cache_tools_list: bool
    """Keep the listing until the server says that it changed (or `invalidate_tools_cache()` does); without it the
    server is asked for its tools each turn."""
    name: str | None
    """Part of what is approved: a grant for this server's tools is for a server of this name."""
    client_session_timeout_seconds: float | None
    """How long one request may take; None: forever. A call that takes longer is reported to the model as such."""
    connect_timeout_seconds: float | None
    """How long starting the server and greeting it may take."""
    tool_filter: ToolFilter | None
    require_approval: RequireApproval | None
    """Which tools wait for a person. Not given: none, but those of which the server says that they are destructive."""
    heed_hints: bool | None
    """Whether a server's word that a tool is destructive asks a person: True, also against a «never»; False, not at
    all; None, where `require_approval` is not given. Its word that a tool is harmless never counts."""
    recovery: Recovery | Literal["by_hints"]
    """What becomes of a call when the server or the worker died in the middle. `by_hints`: tools of which the server
    says that they only read, or that repeating changes nothing, are repeated; for all others a person is asked."""
    elicitation_callback: ElicitationFnT | None
    """Answers servers of older protocols, which wait for the answer inside the call. Today's need none: what they ask
    becomes a question like any other."""
    protocol: str
    """«auto» (the newest that both know), «legacy» (with a handshake), or a version."""
    message_handler: Callable[[Any], Awaitable[None]] | None
    use_structured_content: bool
    """Let the model read structured results instead of the texts that stand for them."""
    max_retry_attempts: int
    """How often connecting and listing are tried again. Calls never are."""
    retry_backoff_seconds_base: float
    decide_within: float | None
    at_deadline: Literal["reject", "escalate"]
    approval_valid_for: float | None
    version: str | None
    """Of the server, if you want to say it: a new one asks again."""


_DEFAULT_TIMEOUT = 60.0


class _Line:
    """What one event loop has of a server: its connection, and how many use it."""

    __slots__ = ("connection", "listing", "lock", "users", "version")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.lock = asyncio.Lock()
        self.users = 0
        self.listing: list[ServerTool] | None = None
        self.version = 0
        """Goes up whenever the tools may have changed."""

    def forget_listing(self) -> None:
        self.listing = None
        self.version += 1


class MCPServer:
    """The base of all kinds of servers. `async with server: …` keeps it connected; a run connects it by itself."""

    def __init__(self, default_name: str, **options: Unpack[ServerOptions]) -> None:
        unknown = set(options) - set(ServerOptions.__annotations__)
        if unknown:
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument '{unknown.pop()}'")
        if find_spec("mcp") is None:
            raise UserError('MCP servers need the package mcp: pip install "placet[mcp]".')
        self._name = options.get("name") or default_name
        self._options = options
        self._caches = options.get("cache_tools_list", False)
        self._filter = options.get("tool_filter")
        check_filter(self._name, self._filter)
        self._policy = Policy(self._name, options.get("require_approval"), heed_hints=options.get("heed_hints"))
        recovery = options.get("recovery", "ask")
        if recovery not in ("ask", "retry", "by_hints") and not callable(recovery):
            raise UserError(
                f"MCP server '{self._name}': recovery is 'ask', 'retry', 'by_hints' or a function, not {recovery!r}."
            )
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = weakref.WeakKeyDictionary()
        self._seen: list[ServerTool] = []
        self._has_warned = False
        self._left_out: set[str] = set()
        """The tools of which a warning said so."""

    # -- for each kind of server ------------------------------------------------------------------------------------

    def _target(self) -> Any:
        """The SDK's transport to the server, or the server itself; made again for each connection."""
        raise NotImplementedError

    def _mode(self) -> str:
        return self._options.get("protocol", "auto")

    # -- connecting ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    async def connect(self) -> None:
        """Connect now, and stay connected until `cleanup()`."""
        line = self._line()
        line.users += 1
        try:
            await self._connected()
        except BaseException:
            await self._release(line)
            raise

    async def cleanup(self) -> None:
        await self._release(self._line())

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """Entered while it may be used: it connects when it is first asked, and is let go with its last user."""
        return self._used()

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        line = self._line()
        line.users += 1
        try:
            yield
        finally:
            await self._release(line)

    def _line(self) -> _Line:
        return self._lines.setdefault(asyncio.get_running_loop(), _Line())

    async def _release(self, line: _Line) -> None:
        line.users = max(0, line.users - 1)
        if line.users == 0 and line.connection is not None:
            connection, line.connection = line.connection, None
            line.forget_listing()
            await connection.close()

    async def _connected(self) -> Connection:
        line = self._line()
        async with line.lock:
            if line.connection is not None and line.connection.is_open:
                return line.connection
            if line.connection is not None:  # it died, or does not lead to the server any more
                line.connection.retire()
                logger.warning("server lost", extra={"action": "mcp_server_lost", "server": self._name})
            line.connection = None
            line.forget_listing()
            line.connection = await self._retrying(lambda: self._open(line), "cannot be reached")
            return line.connection

    async def _open(self, line: _Line) -> Connection:
        connection = Connection(self._name, line.forget_listing)

        def make(opened: Connection) -> Any:
            return make_client(
                opened,
                self._target(),
                mode=self._mode(),
                elicitation_callback=self._options.get("elicitation_callback") or refuse_elicitation,
                message_handler=self._options.get("message_handler"),
            )

        await connection.open(make, self._options.get("connect_timeout_seconds", _DEFAULT_TIMEOUT))
        return connection

    @property
    def _timeout(self) -> float | None:
        return self._options.get("client_session_timeout_seconds", _DEFAULT_TIMEOUT)

    async def _retrying(self, attempt: Callable[[], Awaitable[V]], what: str) -> V:
        """Try what can be repeated without harm. What cannot be done is said in words that name the server."""
        tries = self._options.get("max_retry_attempts", 0)
        pause = self._options.get("retry_backoff_seconds_base", 1.0)
        while True:
            try:
                return await attempt()
            except ToolsetUnavailable:
                raise
            except Exception as error:
                if tries != 0:
                    tries -= 1
                    await asyncio.sleep(pause)
                    pause *= 2
                    continue
                text = without_credentials(str(error)) or type(error).__name__
                raise ToolsetUnavailable(
                    f"MCP server '{self._name}' {what}: {text}. Nothing was run. Start it, or mend what is wrong "
                    "with it, and resume the run."
                ) from error

    # -- listing ------------------------------------------------------------------------------------------------------

    def invalidate_tools_cache(self) -> None:
        """Ask the server for its tools again at the next opportunity."""
        for line in list(self._lines.values()):
            line.forget_listing()

    async def list_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: Named | None = None
    ) -> list[ServerTool]:
        """The server's own descriptions of its tools, filtered for this run and agent if both are given."""
        found = await self._listed()
        if run_context is None or agent is None:
            return found if self._filter is None or callable(self._filter) else await self._filtered(found, None, None)
        return await self._filtered(found, run_context, agent)

    async def _listed(self) -> list[ServerTool]:
        async with self._used():
            return await self._retrying(self._listed_once, "does not list its tools")

    async def _listed_once(self) -> list[ServerTool]:
        connection = await self._connected()
        line = self._line()
        if self._caches and line.listing is not None:
            return line.listing
        version = line.version
        async with asyncio.timeout(self._timeout):
            try:
                found = await _all_pages(connection)
            except Exception as error:
                if not is_of_a_dead_connection(error):
                    raise
                connection.retire()  # asking for a listing again harms nobody
                found = await _all_pages(await self._connected())
                version = line.version
        if self._caches and line.version == version:  # what changed while it was read is read again
            line.listing = found
        self._seen = found
        self._warn_of_unknown_names(found)
        return found

    async def _filtered(self, found: list[ServerTool], run_context: Any, agent: Any) -> list[ServerTool]:
        context = ToolFilterContext(run_context, agent, self._name)
        return [tool for tool in found if await passes(self._filter, context, tool)]

    def _warn_of_unknown_names(self, found: list[ServerTool]) -> None:
        missing = self._policy.names - {tool.name for tool in found}
        if missing and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "require_approval names tools that MCP server '%s' does not have: %s",
                self._name,
                ", ".join(sorted(missing)),
                extra={"action": "unknown_tools_in_policy", "server": self._name},
            )

    # -- as a toolset -------------------------------------------------------------------------------------------------

    async def tools_for(self, context: Any, agent: Named) -> Sequence[Tool]:
        config = agent.mcp_config if isinstance(agent, Agent) else MCPConfig()
        return [
            self._as_tool(tool, config, self._policy.rule_for(tool, agent))
            for tool in await self.list_tools(context, agent)
            if self._can_be_checked(tool)
        ]

    def last_listed(self) -> Sequence[Tool]:
        return [self._as_tool(tool, MCPConfig(), True) for tool in self._seen if self._can_be_checked(tool)]

    def _can_be_checked(self, tool: ServerTool) -> bool:
        """Whether its schema is one. A tool without is left out, and the server's others stay: with it, nobody could
        say what a person approves."""
        problem = problem_with_schema(as_parameters(tool.input_schema))
        if problem is not None and tool.name not in self._left_out:
            self._left_out.add(tool.name)
            logger.warning(
                "MCP server '%s': the tool '%s' is left out, because its schema cannot be used: %s",
                self._name,
                tool.name,
                problem,
                extra={"action": "tool_left_out", "server": self._name, "tool": tool.name},
            )
        return problem is None

    def _as_tool(self, tool: ServerTool, config: MCPConfig, rule: ApprovalRule) -> MCPTool:
        schema, is_strict = as_parameters(tool.input_schema), False
        if config.get("convert_schemas_to_strict", False):
            schema, is_strict = _strict_if_possible(schema, tool.name)
        hints = {} if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
        hints.pop("title", None)
        return MCPTool(
            name=tool.name,
            description=tool.description or tool.title or "",
            params_json_schema=schema,
            on_invoke_tool=self._tool_function(tool.name, schema),
            strict_json_schema=is_strict,
            needs_approval=rule,
            failure_error_function=config.get("failure_error_function", default_tool_error_function),
            recovery=self._recovery_of(tool),
            version=self._options.get("version"),
            decide_within=self._options.get("decide_within"),
            at_deadline=self._options.get("at_deadline", "reject"),
            approval_valid_for=self._options.get("approval_valid_for"),
            server_name=self._name,
            tool_name=tool.name,
            hints=hints,
        )

    def _recovery_of(self, tool: ServerTool) -> Recovery:
        chosen = self._options.get("recovery", "ask")
        if chosen != "by_hints":
            return chosen
        hints = tool.annotations
        is_safe = hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
        return "retry" if is_safe else "ask"

    # -- calling ------------------------------------------------------------------------------------------------------

    def _tool_function(
        self, tool_name: str, schema: Mapping[str, Any]
    ) -> Callable[[ToolContext[Any], str], Awaitable[object]]:
        async def tool_function(ctx: ToolContext[Any], text: str) -> object:
            arguments = parse_arguments(text)
            if arguments is None:
                raise InvalidArguments("the arguments are not one JSON object")
            found = problems(schema, arguments)
            if found:
                raise InvalidArguments("\n".join(found))
            calling = self._calling(tool_name, arguments, ctx.receipt_meta)
            return await self._taken(lambda connection: calling.ask(connection, ctx.answers, ctx.asked_state))

        return tool_function

    async def call_tool(
        self, tool_name: str, arguments: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> CallToolResult:
        """Call a tool outside of any run: nothing is recorded, nobody is asked, and what the server asks is refused."""
        calling = self._calling(tool_name, dict(arguments or {}), meta)
        return await self._taken(calling.ask_plainly)

    def _calling(self, tool_name: str, arguments: JsonObject, meta: Mapping[str, Any] | None = None) -> Calling:
        return Calling(
            self._name,
            tool_name,
            arguments,
            dict(meta) if meta is not None else None,
            timeout=self._timeout,
            use_structured_content=self._options.get("use_structured_content", False),
        )

    async def _taken(self, ask: Callable[[Connection], Awaitable[V]]) -> V:
        """Ask through the connection; once more through a new one, if the server certainly did not take the call."""
        async with self._used():
            connection = await self._connected()
            try:
                return await ask(connection)
            except NotTaken:
                connection.retire()
                return await ask(await self._connected())

    async def list_prompts(self) -> Any:
        async with self._used():
            return await (await self._connected()).client.list_prompts()

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        async with self._used():
            return await (await self._connected()).client.get_prompt(name, arguments)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self._name!r})"


async def _all_pages(connection: Connection) -> list[ServerTool]:
    found: list[ServerTool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        with connection.asking():
            page = await connection.client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return list({tool.name: tool for tool in reversed(found)}.values())[::-1]  # of two alike the first counts
    raise ToolsetUnavailable(f"MCP server lists its tools on more than {MAX_PAGES} pages: it does not come to an end.")


def _strict_if_possible(schema: JsonObject, tool: str) -> tuple[JsonObject, bool]:
    try:
        return strict_schema(schema, tool), True
    except UserError:
        return schema, False


async def refuse_elicitation(context: ClientRequestContext, params: ElicitRequestParams) -> ErrorData:
    """A server of an older protocol asks inside the call, which cannot wait for people: it is told so."""
    from mcp.types import INVALID_REQUEST, ErrorData

    return ErrorData(
        code=INVALID_REQUEST,
        message=(
            "This server asks for input in the middle of the call, over a protocol in which the call cannot wait for a "
            "person. Give it an elicitation_callback that answers at once, or a server that speaks 2026-07-28."
        ),
    )
