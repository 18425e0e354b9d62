"""The gate for agents of the OpenAI Agents SDK: their function tools run when somebody has said yes.

`GatedAgents(gate, session=…).agent(agent)` is the agent with gated tools. A call waits inline, or, with `pauses=True`,
ends the run with an interruption that `settle` decides by what was said at the desk.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from agents import Agent, FunctionTool, RunState, ToolApprovalItem
from agents.tool import maybe_invoke_function_tool_failure_error_function
from agents.tool_context import ToolContext

from placet.core.guest import GateCall, Permit
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.gate.hosting import Asks, Host, Words, check_host, slips_past
from placet.gate.port import Gate

Session: TypeAlias = str | Callable[[Any], str]
"""The conversation, or a function of the run's context object that names it. Call ids are unique within it."""


_NO_OBJECT = "'{}' was not run: its arguments are not a JSON object."


class GatedAgents:
    """Agents behind a gate.

    `session` names the conversation: the same in every process that goes on with it. `needs_approval` is True, False or
    a function of the tool's name and arguments. `pauses`: a call ends the run with an interruption instead of waiting.
    `timeout`: seconds to wait for a decision, after which the call is taken back and the model reads so. `passes`:
    names of tools, MCP servers and handoffs that may go past the gate.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        session: Session,
        needs_approval: Asks = True,
        pauses: bool = False,
        timeout: float | None = None,
        lease: float | None = None,
        passes: Collection[str] = (),
    ) -> None:
        check_host("GatedAgents", gate)
        self._host = Host(gate=gate, needs_approval=needs_approval, timeout=timeout, lease=lease)
        self._session = session
        self._pauses = pauses
        self._passes = frozenset(passes)

    # -- installing ---------------------------------------------------------------------------------------------------

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """The agent, and those that it hands over to, with gated tools. UserError, by name, where calls slip past."""
        found: list[str] = []
        gated = self._gated(agent, {}, found)
        if found:
            raise slips_past(f"Agent '{agent.name}'", found)
        return gated

    def _gated(self, agent: Agent[Any], done: dict[int, Agent[Any]], found: list[str]) -> Agent[Any]:
        if id(agent) in done:
            return done[id(agent)]
        gated = done[id(agent)] = agent.clone(tools=[], handoffs=[])
        gated.tools = [self._installed(tool, found) for tool in agent.tools]
        found += [
            f"MCP server '{server.name}' (its tools are fetched when the agent runs)"
            for server in agent.mcp_servers
            if server.name not in self._passes
        ]
        for target in agent.handoffs:
            if isinstance(target, Agent):
                gated.handoffs.append(self._gated(target, done, found))
                continue
            gated.handoffs.append(target)
            if not {target.agent_name, target.tool_name} & self._passes:
                found.append(f"handoff '{target.tool_name}' (to an agent that cannot be seen from here)")
        return gated

    def _installed(self, tool: Any, found: list[str]) -> Any:
        if tool.name in self._passes:
            return tool
        if not isinstance(tool, FunctionTool):
            found.append(f"tool '{tool.name}' (a {type(tool).__name__}, which the SDK or the provider executes)")
        elif tool._is_agent_tool or tool._is_codex_tool:
            found.append(f"tool '{tool.name}' (an agent with tools of its own)")
        else:
            return self.tool(tool)
        return tool

    def tool(self, tool: FunctionTool) -> FunctionTool:
        """The tool, whose every invocation is proposed, decided, claimed and reported."""
        if tool.timeout_seconds is not None:
            raise UserError(
                f"Tool '{tool.name}' has timeout_seconds, which would count the time until somebody decides. Limit the "
                "work inside the function."
            )
        # Without the tool's own words for errors, so that an error is seen here and reported as a failure.
        bare = dataclasses.replace(tool, _failure_error_function=None, _use_default_failure_error_function=False)

        async def invoke(ctx: ToolContext[Any], text: str) -> Any:
            arguments = _parsed(text)
            if arguments is None:
                return _NO_OBJECT.format(tool.name)
            permit = await self._host.ask(
                tool.qualified_name, arguments, **self._identity(tool, ctx.tool_call_id, ctx.context, ctx.agent)
            )
            if isinstance(permit, Words):
                return permit.output
            return await self._execute(permit, tool, bare, ctx)

        invoke.gated_by = self  # type: ignore[attr-defined]  # `settle` decides about its own tools only
        return dataclasses.replace(tool, on_invoke_tool=invoke, needs_approval=self._pauses)

    # -- a call -------------------------------------------------------------------------------------------------------

    def _identity(self, tool: FunctionTool, call_id: str, context: object, agent: Any) -> JsonObject:
        return {
            "session": self._session if isinstance(self._session, str) else self._session(context),
            "call_id": call_id,
            "schema": tool.params_json_schema,
            "description": tool.description,
            "context": None if agent is None else f"Called by agent '{agent.name}'.",
        }

    async def _execute(self, permit: Permit, tool: FunctionTool, bare: FunctionTool, ctx: ToolContext[Any]) -> Any:
        decided = copy.copy(ctx)
        decided.tool_arguments = json.dumps(permit.arguments, ensure_ascii=False)
        try:
            async with self._host.gate.executing(permit):
                permit.output = await bare.on_invoke_tool(decided, decided.tool_arguments)
                return permit.output
        except Exception as error:
            words = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=ctx, error=error
            )
            if words is None:
                raise
            return words

    # -- a run that paused --------------------------------------------------------------------------------------------

    async def settle(self, state: RunState[Any, Any], timeout: float | None = None) -> RunState[Any, Any]:  # noqa: ASYNC109
        """Wait until every interruption is decided, and tell the state; run it on after that.

        GateTimeout, or GateUnavailable, leaves the state as it was: it can be kept, and settled later. An approved call
        is claimed when the SDK invokes it; so what is told to the state opens nothing by itself.
        """
        items = state.get_interruptions()
        tools = [self._tool_of(item) for item in items]
        context = None if state._context is None else state._context.context
        calls = [await self._proposed(tool, item, context) for tool, item in zip(tools, items, strict=True)]
        for item, words in zip(items, await self._host.verdicts(calls, timeout), strict=True):
            if words is not None and words.is_refusal:
                state.reject(item, rejection_message=words.text)
            else:
                state.approve(item)
        return state

    async def _proposed(self, tool: FunctionTool, item: ToolApprovalItem, context: object) -> GateCall | Words:
        arguments = _parsed(item.arguments or "")
        if arguments is None:
            return Words(_NO_OBJECT.format(tool.name))
        identity = self._identity(tool, item.call_id or "", context, item.agent)
        return await self._host.propose(tool.qualified_name, arguments, **identity)

    def _tool_of(self, item: ToolApprovalItem) -> FunctionTool:
        for tool in item.agent.tools:
            is_ours = getattr(getattr(tool, "on_invoke_tool", None), "gated_by", None) is self
            if is_ours and tool.qualified_name in (item.qualified_name, item.tool_name):
                gated: FunctionTool = tool
                return gated
        raise UserError(f"'{item.tool_name}' of agent '{item.agent.name}' is no tool of this gate: nothing is decided.")


def _parsed(text: str) -> JsonObject | None:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
