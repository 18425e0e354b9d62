"""One run (or nested run) being driven: what its steps share while they work. Nothing here outlives the drive."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any, TypeVar

import msgspec

from placet.core.approvals import Ledger
from placet.core.state import Call, RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.lifecycle import AsRunHooks, RunHooks
from placet.declare.run_config import RunConfig
from placet.declare.tool import Tool, if_of_kind
from placet.declare.tool_values import ValidatedArguments
from placet.facts.codec import fresh
from placet.facts.events import PlainFact
from placet.facts.ids import call_id, call_key
from placet.facts.items import RawItem
from placet.ports import Model, Session, SpeaksAnotherProtocol, Toolset
from placet.runtime.defaults import model_named
from placet.runtime.journal import Journal
from placet.runtime.observers import DriveObservers
from placet.runtime.stream import StreamQueue

V = TypeVar("V")


class Job(msgspec.Struct, frozen=True, gc=False):
    """A call that may run, with its tool and the arguments that run."""

    call: Call
    tool: Tool
    arguments: str
    bound: Any = None  # Any: what the tool's own function takes
    """What validation made of the arguments, if it was done in this drive."""
    receipt: str | None = None
    """Shows the service that performs the effect that the call was approved."""


async def awaited(value: V | Awaitable[V]) -> V:
    """What user code gave, whether it was a coroutine function or not."""
    return await value if inspect.isawaitable(value) else value


_NONE: Mapping[str, Any] = {}  # what most runs have none of is not made for each of them


async def _not_yet(_frame: Frame) -> None:
    raise AssertionError("the code that makes a frame gives it the loop")


class Frame:
    """What the steps of one drive share."""

    __slots__ = (
        "agent",
        "all_hooks",
        "at_work",
        "by_hand",
        "config",
        "context",
        "drive",
        "error_handlers",
        "failures",
        "feed",
        "found_tools",
        "graph",
        "has_news",
        "hooks",
        "is_outermost",
        "is_stopping",
        "journal",
        "judged",
        "news",
        "path",
        "queue",
        "ready",
        "resend",
        "run",
        "run_id",
        "saves_context",
        "session",
        "set_aside",
        "should_leave",
        "stop_after_turn",
        "tasks",
        "was_left",
        "watch",
    )

    def __init__(
        self,
        journal: Journal,
        path: str,
        graph: AgentGraph,
        context: RunContextWrapper[Any],
        config: RunConfig,
        hooks: RunHooks[Any] | None,
        feed: StreamQueue | None,
        resend: bool | None = None,
        by_hand: Ledger | None = None,
        session: Session | None = None,
    ) -> None:
        self.journal = journal
        self.run_id = journal.log.run_id
        self.path = path
        self.graph = graph
        self.hooks = hooks
        self.look_again()
        self.context = context
        self.config = config
        self.feed = feed
        self.resend = resend
        """What a person said about a request that may or may not have been taken: send it again, or not."""
        self.session = session
        self.is_outermost = False
        """Nothing but saving the context comes after the step with which this drive rests."""
        self.saves_context = False
        self.error_handlers: Mapping[str, Any] = _NONE
        """Functions that answer in the place of an error, by its kind."""
        self.drive: Callable[[Frame], Awaitable[None]] = _not_yet
        """The loop itself, for runs nested in this one."""
        self.by_hand = by_hand
        """Decisions that were made before the run began, on a wrapper that belonged to no run."""
        self.at_work: set[str] = set()
        """The calls whose tool functions run now, or wait for a place to run."""
        self.watch: DriveObservers | None = None
        self.judged: set[str] = set()
        """Calls that the rules of this drive let pass."""
        self.ready: dict[str, ValidatedArguments] = {}
        """Calls whose arguments were validated in this drive, and that have not begun."""
        self.set_aside: set[str] = set()
        """Calls that an operator holds back."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.queue: deque[str] = deque()
        """Calls that wait for a place. They are claimed, and looked at for the last time, when they get one."""
        self.found_tools: Mapping[str, list[Tool]] = _NONE
        """The tools of agents' servers, by the agent's address, as they were when this drive last looked."""
        self.is_stopping = False
        self.stop_after_turn = False
        self.should_leave: Callable[[], bool] | None = None
        """Whether the driver wants to stop where nothing is in the air: a worker that is to end does."""
        self.was_left = False
        """The drive stopped for that, and there is more to do."""
        self.news = asyncio.Event()
        """A tool function has ended, or a decision was made."""
        self.failures: tuple[BaseException, ...] = ()
        """Errors of tool functions and hooks that end the drive, once the siblings are done."""

    @property
    def ends_at_rest(self) -> bool:
        """Whether the lease can go with the facts with which this drive rests: nothing comes behind them."""
        is_saved = not self.saves_context or self.context.context is None
        return self.is_outermost and is_saved and not self.set_aside and not self.was_left

    def look_again(self, *, has_news: bool = False) -> None:
        """Find the run, and the agent that is at work in it: when the frame is made, after a handoff, and when the log
        was folded again. There, a nested run whose beginning was not durable yet has been begun again, as another
        object; all others are the ones that they were."""
        self.has_news = has_news
        """Others have appended something: a standing decision may be among it."""
        run = self.journal.run.find(self.path)
        assert run is not None, "a frame is made for a run that is in the log"
        self.run: RunFold = run
        self.agent: Agent[Any] = self.graph.at(run.agent)
        self.all_hooks: tuple[RunHooks[Any], ...] = (self.hooks,) if self.hooks is not None else ()
        """The run's hooks and those of the agent at work."""
        if self.agent.hooks is not None:
            self.all_hooks += (AsRunHooks(self.agent.hooks),)

    @property
    def may_leave(self) -> bool:
        """Nothing is in the air, and the driver wants to go."""
        return self.is_leaving and not self.at_work

    @property
    def is_leaving(self) -> bool:
        """The driver wants to go: nothing more is begun."""
        return self.should_leave is not None and self.should_leave()

    def note(self, fact: PlainFact) -> None:
        self.journal.note(self.path, fact)

    def tool_of(self, call: Call) -> Tool | None:
        """The tool that a call means. One that a person was asked about is found by its identity, whatever the model
        calls it by now; any other by its name."""
        found = self.found_tools.get(self.run.agent)
        if call.server is not None or not found:
            return self.agent.tool_of(call)
        entry = self.run.ledger.entry(call.id)
        asked = next((tool for tool in found if entry is not None and tool.identity == entry.tool), None)
        if asked is not None:
            return asked
        named = next((tool for tool in found if tool.name == call.name), None)
        return if_of_kind(self.agent.tool_named(call.name) or named, call.native_kind)

    async def look_for_tools(self, *, again: bool = False) -> None:
        """Ask the agent's servers for their tools, if this drive has not done so (or is to do so `again`)."""
        address, agent = self.run.agent, self.agent
        if agent.mcp_servers and (again or address not in self.found_tools):
            await self.journal.commit()  # a server may take its time: what happened is safe first
            self.found_tools = {**self.found_tools, address: await find_tools(agent, self.context)}

    async def enabled_tools(self, *, look_again: bool = False) -> list[Tool]:
        agent = self.agent
        if agent.mcp_servers:
            await self.look_for_tools(again=look_again)
        tools = agent.function_tools
        if [tool for tool in tools if tool.is_enabled is not True]:
            await self.journal.commit()  # rules are user code: what happened is safe before they are asked
            tools = [tool for tool in tools if await self.is_enabled(tool)]
        return tools + self.found_tools[self.run.agent] if agent.mcp_servers else tools

    async def is_enabled(self, tool: Tool) -> bool:
        """Whether the tool is there for the model at this moment."""
        rule = tool.is_enabled
        return rule if isinstance(rule, bool) else await awaited(rule(self.context, self.agent)) is True

    @property
    def model(self) -> Model:
        """The model that is asked: an object, or what a name means, to the run's provider or to all."""
        found = self.config.model or self.agent.model
        if found is None or isinstance(found, str):
            provider = self.config.model_provider
            found = model_named(found) if provider is None else provider.get_model(found)
        # Asked of the class: `isinstance` with a protocol looks through all of it, once a turn.
        if hasattr(type(found), "as_placet_model") and isinstance(found, SpeaksAnotherProtocol):
            return found.as_placet_model()
        return found


def tool_context(frame: Frame, job: Job) -> ToolContext[Any]:
    """What a tool function is given. Written out: its fifteen arguments, by their names, cost more than the rest of a
    claim."""
    shared, call = frame.context, job.call
    ctx: ToolContext[Any] = ToolContext.__new__(ToolContext)
    ctx.context, ctx.usage = shared.context, shared.usage
    ctx._ledger, ctx._run_ids, ctx._clock = shared._ledger, shared._run_ids, shared._clock
    ctx.tool_name, ctx.tool_arguments, ctx.tool_call = job.tool.name, job.arguments, RawItem(fresh(call.item))
    ctx.tool_call_id = call.label or call.sent_label
    ctx.call = call_id(frame.run_id, call.id)
    ctx.idempotency_key = call_key(call.started_in or frame.run_id, call.id)
    ctx.receipt = job.receipt
    ctx.attempt = call.attempts or 1
    ctx.agent = frame.agent
    ctx.answers = call.answers if call.answers is None else fresh(call.answers)
    ctx.asked_state = call.asked_state
    ctx._bound = None if job.bound is None else (job.arguments, job.bound)
    ctx.turn_input, ctx.tool_input = shared.turn_input, shared.tool_input
    ctx.run_config, ctx.tool_namespace = frame.config, None
    return ctx


# -- the servers of its agents ----------------------------------------------------------------------------------------


def servers_in_use(graph: AgentGraph) -> AbstractAsyncContextManager[None]:
    """While this is entered, what the servers of these agents hold open stays open."""
    servers = {id(server): server for agent in graph.agents() for server in agent.mcp_servers}
    return _in_use(list(servers.values())) if servers else nullcontext()


@asynccontextmanager
async def _in_use(servers: Sequence[Toolset[Tool]]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server.in_use())
        yield


async def find_tools(agent: Agent[Any], context: RunContextWrapper[Any]) -> list[Tool]:
    """The tools of the agent's servers as they are now, under the names by which its model knows them."""
    listings = await asyncio.gather(*(server.tools_for(context, agent) for server in agent.mcp_servers))
    return agent.name_apart(list(zip(agent.mcp_servers, listings, strict=True)))
