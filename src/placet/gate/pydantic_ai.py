"""The gate for Pydantic AI: a toolset whose tools run when somebody has said yes.

`Agent(…, toolsets=[GatedToolset(toolset, gate)])`. A call waits inline, or, with `pauses=True`, ends the run as a
deferred tool call; `results` gives the run's continuation what was said at the desk.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pydantic_core
from pydantic_ai import Agent, ApprovalRequired, CallDeferred, RunContext
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from placet.core.guest import GateCall, Permit
from placet.facts.codec import JsonObject
from placet.facts.errors import GateError, TooManyWaiting, UserError
from placet.gate.hosting import Asks, Host, Words, bubbled, bubbling, check_host, refusal, slips_past
from placet.gate.port import Gate
from placet.service.guest_answers import UNSETTLED

KEY = "placet_call"  # in the metadata of a deferred call


@dataclass
class GatedToolset(WrapperToolset[Any]):
    """A toolset behind a gate.

    `session` names the conversation, by default by Pydantic AI's conversation id. `needs_approval` is True, False or a
    function of the tool's name and arguments. `pauses`: a call ends the run as a deferred tool call instead of waiting.
    `timeout`: seconds to wait for a decision, after which the call is taken back and the model reads so. `passes`:
    names of tools that may go past the gate.
    """

    gate: Gate
    _: KW_ONLY
    session: str | Callable[[RunContext[Any]], str] | None = None
    needs_approval: Asks = True
    pauses: bool = False
    timeout: float | None = None
    lease: float | None = None
    passes: Collection[str] = ()

    def __post_init__(self) -> None:
        check_host("GatedToolset", self.gate)
        self._host = Host(gate=self.gate, needs_approval=self.needs_approval, timeout=self.timeout, lease=self.lease)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools; UserError, by name, for tools that are executed elsewhere."""
        tools: dict[str, ToolsetTool[Any]] = await super().get_tools(ctx)
        found = [
            f"tool '{name}' (it is executed outside of the run)"
            for name, tool in tools.items()
            if tool.tool_def.kind == "external" and name not in self.passes
        ]
        if found:
            raise slips_past("This toolset", found)
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        if name in self.passes:
            return await super().call_tool(name, tool_args, ctx, tool)
        permit = await self._permit(name, tool_args, ctx, tool)
        if isinstance(permit, Words):
            return permit.output
        with bubbled():
            async with self.gate.executing(permit):
                with bubbling(ApprovalRequired, CallDeferred):
                    decided = await _validated(permit.arguments, ctx, tool)
                    permit.output = await super().call_tool(name, decided, ctx, tool)
        return permit.output

    async def _permit(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Permit | Words:
        try:
            arguments = pydantic_core.to_jsonable_python(tool_args)
            call = await self._host.propose(name, arguments, **self._identity(ctx, tool))
            # An approval that a program gives opens nothing: such a call is waited for here.
            if self.pauses and not ctx.tool_call_approved and isinstance(call, GateCall) and call.status in UNSETTLED:
                raise ApprovalRequired({KEY: call.id})
            return await self._host.permit(call)
        except (GateError, TooManyWaiting, pydantic_core.PydanticSerializationError) as error:
            return refusal(name, error)

    def _identity(self, ctx: RunContext[Any], tool: ToolsetTool[Any]) -> JsonObject:
        session = self.session(ctx) if callable(self.session) else self.session or ctx.conversation_id
        if not session:
            raise UserError(
                "The gate needs to know the conversation: a conversation_id, or GatedToolset(…, session=…)."
            )
        return {
            "session": session,
            "call_id": ctx.tool_call_id or "",
            "occurrence": _answered(ctx),
            "schema": tool.tool_def.parameters_json_schema,
            "description": tool.tool_def.description,
        }

    # -- a run that paused --------------------------------------------------------------------------------------------

    async def results(self, requests: DeferredToolRequests, timeout: float | None = None) -> DeferredToolResults:  # noqa: ASYNC109
        """Wait until the calls that need approval are decided: what the run is continued with.

        GateTimeout while one waits, and GateUnavailable: ask again later. An approved call is claimed when it is
        executed, with the arguments that were decided; so these results open nothing by themselves.
        """
        found = DeferredToolResults()
        calls = [await self.gate.look(_call_of(requests, each.tool_call_id)) for each in requests.approvals]
        verdicts = await self._host.verdicts(calls, timeout)
        for each, words in zip(requests.approvals, verdicts, strict=True):
            is_refused = words is not None and words.is_refusal
            found.approvals[each.tool_call_id] = ToolDenied(words.text) if is_refused and words else ToolApproved()
        return found


def check_agent(agent: Agent[Any, Any], passes: Collection[str] = ()) -> None:
    """UserError, by name, for tools of the agent that go past the gate."""
    found = []
    for toolset in agent.toolsets:
        if isinstance(toolset, FunctionToolset):
            found += [f"tool '{name}' (of the agent itself)" for name in toolset.tools if name not in passes]
        elif not isinstance(toolset, GatedToolset) and toolset.label not in passes:
            found.append(f"toolset '{toolset.label}'")
    for native in getattr(agent, "_cap_native_tools", ()):
        name = getattr(native, "kind", None) or repr(native)
        if name not in passes and name != "tool_search":  # it only finds tools
            found.append(f"tool '{name}' (the provider executes it)")
    if found:
        raise slips_past(f"Agent '{agent.name or 'agent'}'", found)


def _call_of(requests: DeferredToolRequests, tool_call_id: str) -> str:
    found = requests.metadata.get(tool_call_id, {}).get(KEY)
    if found is None:
        raise UserError(f"Call '{tool_call_id}' was not deferred by the gate: nothing is decided.")
    return str(found)


async def _validated(arguments: JsonObject, ctx: RunContext[Any], tool: ToolsetTool[Any]) -> dict[str, Any]:
    """The tool's own values, made from what was decided."""
    values: dict[str, Any] = tool.args_validator.validate_json(json.dumps(arguments), context=ctx.validation_context)
    if tool.args_validator_func is not None:
        checked = tool.args_validator_func(ctx, **values)
        if inspect.isawaitable(checked):
            await checked
    return values


def _answered(ctx: RunContext[Any]) -> int:
    """How often this id was answered before in the conversation: a model that repeats its ids makes another call."""
    parts = [part for message in ctx.messages for part in message.parts]
    return sum(isinstance(part, ToolReturnPart) and part.tool_call_id == ctx.tool_call_id for part in parts)
