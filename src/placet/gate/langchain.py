"""The gate for LangChain agents: a middleware whose tool calls run when somebody has said yes.

`create_agent(…, middleware=[…, GateMiddleware(gate)])`: last in the list, so that nothing stands between its yes and
the tool. A call waits inline, or, with `pauses=True`, interrupts the graph until `settle` says that it was decided.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Interrupt, interrupt

from placet.core.guest import GateCall, Permit
from placet.facts.codec import JsonObject
from placet.facts.errors import GateError, ToolError, TooManyWaiting, UserError
from placet.gate.hosting import Asks, Host, Words, bubbled, bubbling, refusal, slips_past, words_for
from placet.gate.port import Gate
from placet.gate.sync import SyncGate
from placet.service.guest_answers import UNSETTLED

KEY = "placet_call"  # in the value of an interrupt


class GateMiddleware(AgentMiddleware):
    """An agent's tool calls behind a gate: a `Gate` for `ainvoke` and `astream`, else a `SyncGate`.

    `session` names the conversation, by default by the thread id. `needs_approval` is True, False or a function of the
    tool's name and arguments. `pauses`: a call interrupts the graph instead of waiting. `timeout`: seconds to wait for
    a decision, after which the call is taken back and the model reads so. `passes`: tools that may go past the gate.
    """

    def __init__(
        self,
        gate: Gate | SyncGate,
        *,
        session: str | Callable[[ToolCallRequest], str] | None = None,
        needs_approval: Asks = True,
        pauses: bool = False,
        timeout: float | None = None,
        lease: float | None = None,
        passes: Collection[str] = (),
    ) -> None:
        super().__init__()
        if not isinstance(gate, Gate | SyncGate):
            raise UserError(f"GateMiddleware works with a Gate or a SyncGate, not with a {type(gate).__name__}.")
        self._sync = gate if isinstance(gate, SyncGate) else None
        inner = gate.gate if isinstance(gate, SyncGate) else gate
        self._host = Host(gate=inner, needs_approval=needs_approval, timeout=timeout, lease=lease)
        self._session = session
        self._pauses = pauses
        self._passes = frozenset(passes)

    # -- what the model is offered ------------------------------------------------------------------------------------

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        self._check_tools(request.tools)
        return handler(request)

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        self._check_tools(request.tools)
        return await handler(request)

    def _check_tools(self, tools: Sequence[Any]) -> None:
        """Tools that are no tools of this process are executed by the provider: nobody asks us."""
        names = [str(tool.get("name") or tool.get("type")) for tool in tools if isinstance(tool, dict)]
        found = [f"tool '{name}' (the provider executes it)" for name in names if name not in self._passes]
        if found:
            raise slips_past("This agent", found)

    # -- a call -------------------------------------------------------------------------------------------------------

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        if request.tool_call["name"] in self._passes:
            return await handler(request)
        if self._sync is not None:
            raise UserError("An agent that is run by ainvoke or astream is gated by a Gate, not by a SyncGate.")
        step = await self._begin(request)
        while isinstance(step, GateCall):
            _pause(step)
            step = await self._go_on(step)
        if isinstance(step, Words):
            return _message(request, step)
        try:
            with bubbled():
                async with self._host.gate.executing(step):
                    with bubbling(GraphBubbleUp):
                        return _checked(step, await handler(_as_decided(request, step)))
        except _ErrorMessage as error:
            return error.message

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        if request.tool_call["name"] in self._passes:
            return handler(request)
        if self._sync is None:
            raise UserError("An agent that is run by invoke or stream is gated by a SyncGate, not by a Gate.")
        step = self._sync.run(self._begin(request))
        while isinstance(step, GateCall):
            _pause(step)
            step = self._sync.run(self._go_on(step))
        if isinstance(step, Words):
            return _message(request, step)
        try:
            with bubbled(), self._sync.executing(step), bubbling(GraphBubbleUp):
                return _checked(step, handler(_as_decided(request, step)))
        except _ErrorMessage as error:
            return error.message

    async def _begin(self, request: ToolCallRequest) -> GateCall | Permit | Words:
        name, arguments = request.tool_call["name"], request.tool_call["args"]
        if not self._pauses:
            return await self._host.ask(name, arguments, **self._identity(request))
        try:
            call = await self._host.propose(name, arguments, **self._identity(request))
            return call if isinstance(call, Words) else await self._stands(call)
        except (GateError, TooManyWaiting) as error:
            return refusal(name, error)

    async def _go_on(self, call: GateCall) -> GateCall | Permit | Words:
        """Resumed. What the graph was resumed with opens nothing: the gate is asked."""
        try:
            return await self._stands(await self._host.gate.look(call))
        except GateError as error:
            return refusal(call.tool, error)

    async def _stands(self, call: GateCall) -> GateCall | Permit | Words:
        if call.status in UNSETTLED:
            return call
        return await self._host.permit(call) if call.status == "claimable" else words_for(call)

    def _identity(self, request: ToolCallRequest) -> JsonObject:
        call, tool = request.tool_call, request.tool
        schema = None if tool is None else tool.tool_call_schema
        return {
            "session": self._session_of(request),
            "call_id": call["id"] or "",
            "occurrence": _answered(request.state, call["id"]),
            "schema": schema if schema is None or isinstance(schema, dict) else schema.model_json_schema(),
            "description": None if tool is None else tool.description,
        }

    def _session_of(self, request: ToolCallRequest) -> str:
        if callable(self._session):
            return self._session(request)
        found = self._session or request.runtime.config.get("configurable", {}).get("thread_id")
        if not found:
            raise UserError("The gate needs to know the conversation: a thread_id, or GateMiddleware(…, session=…).")
        return str(found)

    # -- a graph that paused ------------------------------------------------------------------------------------------

    async def settle(self, interrupts: Sequence[Interrupt], timeout: float | None = None) -> Command[Any]:  # noqa: ASYNC109
        """Wait until the calls of these interrupts (`result["__interrupt__"]`) are decided: what the graph is resumed
        with. GateTimeout while one waits. Interrupts of others are left alone."""
        ours = [each for each in interrupts if isinstance(each.value, dict) and KEY in each.value]
        for each in ours:
            await self._host.gate.wait(each.value[KEY], timeout)
        return Command(resume={each.id: True for each in ours})


class _ErrorMessage(ToolError):
    """The tool's own error message: reported as a failure, and read by the model as it is."""

    def __init__(self, message: ToolMessage) -> None:
        super().__init__(str(message.content))
        self.message = message


def _checked(permit: Permit, result: Any) -> Any:
    if isinstance(result, ToolMessage) and result.status == "error":
        raise _ErrorMessage(result)
    permit.output = result.content if isinstance(result, ToolMessage) else str(result)
    return result


def _pause(call: GateCall) -> None:
    interrupt({KEY: call.id, "tool": call.tool, "arguments": call.arguments, "request": call.request_id})


def _as_decided(request: ToolCallRequest, permit: Permit) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": permit.arguments})


def _message(request: ToolCallRequest, words: Words) -> ToolMessage:
    status = "error" if words.is_refusal else "success"
    call = request.tool_call
    return ToolMessage(words.text, name=call["name"], tool_call_id=call["id"], status=status)


def _answered(state: Any, call_id: str | None) -> int:
    """How often this id was answered before in the conversation: a model that repeats its ids makes another call."""
    messages = state.get("messages", ()) if isinstance(state, dict) else getattr(state, "messages", state)
    return sum(isinstance(each, ToolMessage) and each.tool_call_id == call_id for each in messages)
