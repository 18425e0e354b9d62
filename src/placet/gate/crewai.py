"""The gate for CrewAI: hooks around its tool calls, which run when somebody has said yes.

`with GateHooks(gate, crew, session="order-7"): crew.kickoff()`. CrewAI swallows whatever a hook raises but its own
`HookAborted`, and lets the call run. So every way out of our hook is a permit or that error.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Any, Self

from crewai import Agent, Crew
from crewai.hooks.dispatch import (
    HookAborted,
    InterceptionPoint,
    get_hooks,
    get_scoped_hooks,
    register,
    unregister,
)
from crewai.hooks.tool_hooks import ToolCallHookContext

from placet.core.guest import Permit
from placet.facts.codec import JsonObject, canonical
from placet.facts.errors import UserError
from placet.facts.ids import mint
from placet.gate.hosting import Asks, Host, Underway, Words, refusal, slips_past
from placet.gate.sync import SyncGate

BEFORE, AFTER = InterceptionPoint.PRE_TOOL_CALL, InterceptionPoint.POST_TOOL_CALL
FAILED = "Error executing tool: "
"""With this CrewAI begins what the model reads of a tool that raised. It tells hooks in no other way."""
READS_TEXT = frozenset({"execute_tool_and_check_finality", "aexecute_tool_and_check_finality"})
"""Functions of CrewAI that run calls which a model wrote as text. They call a tool that raised again, under one yes."""

_entered = threading.Lock()
"""Hooks are the process's: one gate at a time, or a call would be asked about twice."""


class GateHooks:
    """While it is entered, all tool calls of this process, of whatever crew or agent, are behind the gate.

    `crew` is looked through for what would slip past. `session` names the conversation: the same in every process that
    runs it again; without it each entering is one of its own. `needs_approval` is True, False or a function of the
    tool's name and arguments. `timeout`: seconds to wait for a decision, after which the call is taken back and the
    model reads so. `passes`: names of tools, and roles of agents, that may go past the gate.
    """

    def __init__(
        self,
        gate: SyncGate,
        crew: Crew | None = None,
        *,
        session: str | None = None,
        needs_approval: Asks = True,
        timeout: float | None = None,
        lease: float | None = None,
        passes: Collection[str] = (),
    ) -> None:
        if not isinstance(gate, SyncGate):
            raise UserError(f"GateHooks works with a SyncGate, not with a {type(gate).__name__}.")
        self._passes = frozenset(passes)
        if crew is not None:
            check_crew(crew, self._passes)
        self._gate = gate
        self._host = Host(gate=gate.gate, needs_approval=needs_approval, timeout=timeout, lease=lease)
        self._underway = Underway(gate.gate)
        self._given = session
        self._session = ""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._words: dict[int, tuple[JsonObject, str]] = {}

    def __enter__(self) -> Self:
        if not _entered.acquire(blocking=False):
            raise UserError("A gate's hooks are entered in this process already: CrewAI has one list of hooks for all.")
        self._session = self._given or mint("crew")
        self._counts.clear()
        register(BEFORE, self._before)
        register(AFTER, self._after)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_there = unregister(BEFORE, self._before)
        unregister(AFTER, self._after)
        try:
            self._gate.run(self._underway.lost())
        finally:
            _entered.release()
        if not was_there and error is None:
            raise UserError("The gate's hook was taken out while it was entered: calls may have gone past it.")

    # -- a call -------------------------------------------------------------------------------------------------------

    def _before(self, context: ToolCallHookContext) -> None:
        if context.tool_name in self._passes or _role(context) in self._passes:
            return
        try:
            step = self._step(context)
        except Exception as error:
            self._blocked(context, refusal(context.tool_name, error))
            raise HookAborted(str(error), source="placet") from error
        if isinstance(step, Words):
            self._blocked(context, step)
            raise HookAborted(step.text, source="placet")

    def _step(self, context: ToolCallHookContext) -> Permit | Words:
        name, given = context.tool_name, context.tool_input
        if why := _why_not(self._before):
            return Words(f"'{name}' was not run: {why}")
        if context.tool is None:
            return Words(f"'{name}' was not run: there is no such tool.")
        step = self._gate.run(self._host.ask(name, given, **self._identity(context)))
        if isinstance(step, Permit):
            self._gate.run(self._underway.begin(id(given), step))
            given.clear()  # in place: with these CrewAI calls the tool
            given.update(step.arguments)
        return step

    def _blocked(self, context: ToolCallHookContext, words: Words) -> None:
        with self._lock:
            self._words[id(context.tool_input)] = (context.tool_input, words.text)  # kept, so that its id stays its own

    def _after(self, context: ToolCallHookContext) -> str | None:
        """CrewAI calls it after a call that was blocked, too: what it returns is what the model reads."""
        key, result = id(context.tool_input), context.tool_result
        with self._lock:
            _, words = self._words.pop(key, (None, None))
        if words is None:
            failed = isinstance(result, str) and result.startswith(FAILED) and context.raw_tool_result == result
            error = RuntimeError(result) if failed else None
            output = result[len(FAILED) :] if failed and isinstance(result, str) else context.raw_tool_result
            self._gate.run(self._underway.ended(key, output, error))
        return words

    def _identity(self, context: ToolCallHookContext) -> JsonObject:
        """CrewAI tells no call id. Equal calls of a conversation are told apart by their order in it."""
        name = context.tool_name
        with self._lock:
            equal = f"{name} {canonical(context.tool_input).decode()}"
            occurrence = self._counts[equal]
            self._counts[equal] += 1
        schema = getattr(context.tool, "args_schema", None)
        role = _role(context)
        return {
            "session": self._session,
            "call_id": name,
            "occurrence": occurrence,
            "schema": None if schema is None else schema.model_json_schema(),
            "description": context.tool.description or None,
            "context": f"Called by agent '{role}'." if role else None,
        }


def check_crew(crew: Crew, passes: Collection[str] = ()) -> None:
    """UserError that names what this crew would execute past the gate."""
    agents = [*crew.agents, *(task.agent for task in crew.tasks), crew.manager_agent]
    unique = {id(agent): agent for agent in agents if agent is not None}
    found = [what for agent in unique.values() if agent.role not in passes for what in _past(agent, crew)]
    if found:
        raise slips_past("This crew", found)


def _past(agent: Any, crew: Crew) -> Iterator[str]:
    name = f"agent '{agent.role}'"
    if not isinstance(agent, Agent):
        yield f"{name} (a {type(agent).__name__}, whose tools another framework runs)"
        return
    if agent.a2a:
        yield f"{name} (it hands work to agents elsewhere: a2a)"
    if built_in := getattr(agent.llm, "builtin_tools", None):
        yield f"{name} (the provider executes {', '.join(map(str, built_in))})"
    if (agent.tools_handler and agent.tools_handler.cache) or (crew.cache and agent.cache):
        yield f"{name} (its cache answers a call in the place of its tool: cache=False)"


def _why_not(ours: object) -> str | None:
    """What makes a yes worth nothing here."""
    if [*get_hooks(BEFORE), *get_scoped_hooks(BEFORE)][-1:] != [ours]:
        return "a hook that stands after the gate could change the call. Register it before the gate is entered."
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        frame = sys._getframe()
        while frame := frame.f_back:  # type: ignore[assignment]  # the outermost has none
            if frame.f_code.co_name in READS_TEXT:
                return "the model writes its calls as text, and CrewAI runs a tool that raises again, under one yes."
        return None
    return "waiting for it would block the event loop of this thread. Use kickoff, or kickoff_async."


def _role(context: ToolCallHookContext) -> str | None:
    return getattr(context.agent, "role", None)
