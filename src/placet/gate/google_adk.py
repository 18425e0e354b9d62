"""The gate for Google's Agent Development Kit: a plugin whose tool calls run when somebody has said yes.

`App(…, plugins=[…, GatePlugin(gate)])`: last in the list, so that no other plugin stands between its yes and the
tool. A call waits inline, or, with `pauses=True`, asks for ADK's confirmation, which `settle` answers from the desk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.tools import AgentTool, BaseTool, ToolContext
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.genai.types import Content, FunctionResponse, Part

from placet.core.guest import GateCall, Permit
from placet.facts.codec import JsonObject
from placet.facts.errors import GateError, TooManyWaiting
from placet.gate.hosting import Asks, Bubbled, Host, Underway, Words, check_host, refusal, slips_past
from placet.gate.port import Gate
from placet.service.guest_answers import UNSETTLED

KEY = "placet_call"  # in the payload of a confirmation
CONFIRMATION = "adk_request_confirmation"
FLOW = (TransferToAgentTool, SetModelResponseTool)
"""Tools by which ADK itself goes on: they touch nothing outside of the conversation."""


class GatePlugin(BasePlugin):
    """All tool calls of a runner behind a gate.

    `session` names the conversation, by default by app, user and session of ADK. `needs_approval` is True, False or a
    function of the tool's name and arguments. `pauses`: a call asks for a confirmation instead of waiting. `timeout`:
    seconds to wait for a decision, after which the call is taken back and the model reads so. `passes`: names of tools
    and agents that may go past the gate.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        name: str = "placet_gate",
        session: str | Callable[[ToolContext], str] | None = None,
        needs_approval: Asks = True,
        pauses: bool = False,
        timeout: float | None = None,
        lease: float | None = None,
        passes: Collection[str] = (),
    ) -> None:
        super().__init__(name)
        check_host("GatePlugin", gate)
        self._host = Host(gate=gate, needs_approval=needs_approval, timeout=timeout, lease=lease)
        self._underway = Underway(gate)
        self._session = session
        self._pauses = pauses
        self.passes = frozenset(passes)

    # -- a call -------------------------------------------------------------------------------------------------------

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        # ADK puts a bare BaseTool in the place of a tool that it did not find: there is nothing that could run.
        if tool.name in self.passes or isinstance(tool, FLOW) or type(tool) is BaseTool:
            return None
        step = await self._step(tool, tool_args, tool_context)
        if isinstance(step, Words):
            return _response(step)
        if isinstance(step, GateCall):
            tool_context.request_confirmation(hint=f"'{tool.name}' waits for a decision.", payload={KEY: step.id})
            tool_context.actions.skip_summarization = True
            return {"error": f"'{tool.name}' waits for a decision."}
        tool_args.clear()  # in place: with these ADK calls the tool
        tool_args.update(step.arguments)
        tool_context.tool_confirmation = ToolConfirmation(confirmed=True)  # ADK's own question is answered by it
        await self._underway.begin(_key(tool_context), step)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> None:
        if tool_context.function_call_id in tool_context.actions.requested_tool_confirmations:
            signal = Bubbled(RuntimeError("the tool asks for a confirmation itself"))
            await self._underway.ended(_key(tool_context), error=signal)
        await self._underway.ended(_key(tool_context), result)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> None:
        await self._underway.ended(_key(tool_context), error=error)  # cancelled: unknown how far it got

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        await self._underway.lost(lambda key: key[0] == invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        await self._underway.lost(lambda key: key[0] == invocation_context.invocation_id)

    async def _step(self, tool: BaseTool, tool_args: JsonObject, context: ToolContext) -> GateCall | Permit | Words:
        try:
            call = await self._host.propose(tool.name, tool_args, **self._identity(tool, context))
            if self._pauses and isinstance(call, GateCall) and call.status in UNSETTLED:
                return call
            return await self._host.permit(call)
        except (GateError, TooManyWaiting) as error:
            return refusal(tool.name, error)

    def _identity(self, tool: BaseTool, context: ToolContext) -> JsonObject:
        session, where = self._session(context) if callable(self._session) else self._session, context.session
        return {
            "session": session or f"{where.app_name}/{where.user_id}/{where.id}",
            "call_id": context.function_call_id or "",
            "occurrence": _answered(where.events, context.function_call_id),
            "schema": _schema(tool),
            "description": tool.description or None,
            "context": f"Called by agent '{context.agent_name}'.",
        }

    # -- a run that paused --------------------------------------------------------------------------------------------

    async def settle(self, events: Sequence[Event], timeout: float | None = None) -> Content:  # noqa: ASYNC109
        """Wait until the calls that these events ask about are decided: the message with which the run goes on.

        GateTimeout while one waits. What is confirmed opens nothing by itself: the plugin asks the gate. Confirmations
        that others ask for are left alone."""
        parts = []
        for each in (call for event in events for call in event.get_function_calls() if call.name == CONFIRMATION):
            payload = ((each.args or {}).get("toolConfirmation") or {}).get("payload")
            if isinstance(payload, dict) and KEY in payload:
                await self._host.gate.wait(str(payload[KEY]), timeout)
                answer = FunctionResponse(id=each.id, name=CONFIRMATION, response={"confirmed": True})
                parts.append(Part(function_response=answer))
        return Content(role="user", parts=parts)


def check_runner(runner: Runner) -> None:
    """UserError that names what this runner would execute past the gate."""
    plugins = list(runner.plugin_manager.plugins)
    ours = plugins[-1] if plugins and isinstance(plugins[-1], GatePlugin) else None
    found = [] if ours else ["all tools (the last plugin is no GatePlugin)"]
    passes = ours.passes if ours else frozenset()
    found += [what for name, what in _past(runner.agent) if name not in passes]
    if found:
        raise slips_past("This runner", found)


def _past(agent: Any) -> Iterator[tuple[str, str]]:
    """By name and in words, what an agent and those below it do that no plugin is asked about."""
    name = getattr(agent, "name", type(agent).__name__)
    if not isinstance(agent, LlmAgent | LoopAgent | ParallelAgent | SequentialAgent):
        yield name, f"agent '{name}' (a {type(agent).__name__}, whose calls cannot be seen from here)"
        return
    if isinstance(agent, LlmAgent):
        if agent.code_executor is not None:
            yield name, f"agent '{name}' (its code executor runs what the model writes)"
        if agent.canonical_before_tool_callbacks:
            yield name, f"agent '{name}' (its before_tool_callback can change a call after the yes)"
        for tool in agent.tools:
            yield from _past_tool(tool)
    for child in agent.sub_agents:
        yield from _past(child)


def _past_tool(tool: Any) -> Iterator[tuple[str, str]]:
    if isinstance(tool, AgentTool):
        if not tool.include_plugins:
            yield tool.name, f"tool '{tool.name}' (its agent runs without the runner's plugins)"
        yield from _past(tool.agent)
    elif isinstance(tool, BaseTool) and type(tool).run_async is BaseTool.run_async:
        yield tool.name, f"tool '{tool.name}' (the provider executes it)"


def _key(context: ToolContext) -> tuple[str, int]:
    return context.invocation_id, id(context)  # one context per call, which lives until the call has ended


def _response(words: Words) -> dict[str, Any]:
    if words.is_refusal:
        return {"error": words.text}
    return words.output if isinstance(words.output, dict) else {"result": words.output}


def _schema(tool: BaseTool) -> JsonObject | None:
    declared = tool._get_declaration()
    if declared is None or declared.parameters is None:
        return None if declared is None else declared.parameters_json_schema
    found: JsonObject = declared.parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return found


def _answered(events: Sequence[Event], call_id: str | None) -> int:
    """How often this id was answered in the conversation: a model that repeats its ids makes another call. «It waits
    for a confirmation» is no answer."""
    answering = [each for each in events if call_id not in each.actions.requested_tool_confirmations]
    return sum(response.id == call_id for event in answering for response in event.get_function_responses())
