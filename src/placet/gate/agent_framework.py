"""The gate for Microsoft Agent Framework: a function middleware whose calls run when somebody has said yes.

`Agent(…, middleware=[…, GateMiddleware(gate)])`: last in the list, so that nothing stands between its yes and the tool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionMiddleware, FunctionTool, MiddlewareFailure

from placet.core.guest import Permit
from placet.facts.codec import JsonObject
from placet.gate.hosting import Asks, Host, Words, check_host, slips_past
from placet.gate.port import Gate

ANSWERED = "placet_answered"  # in the state of a session: how often each call id was answered


class GateMiddleware(FunctionMiddleware):
    """An agent's function calls behind a gate.

    `session` names the conversation, by default by the id of its `AgentSession`. `needs_approval` is True, False or a
    function of the tool's name and arguments. `timeout`: seconds to wait for a decision, after which the call is taken
    back and the model reads so. `passes`: tools that may go past the gate.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        session: str | None = None,
        needs_approval: Asks = True,
        timeout: float | None = None,
        lease: float | None = None,
        passes: Collection[str] = (),
    ) -> None:
        check_host("GateMiddleware", gate)
        self._host = Host(gate=gate, needs_approval=needs_approval, timeout=timeout, lease=lease)
        self._session = session
        self.passes = frozenset(passes)

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        tool = context.function
        if tool.name in self.passes:
            await call_next()
            return
        session, call_id = self._session_of(context), str(context.metadata.get("call_id") or "")
        step = await self._host.ask(
            tool.name,
            _mapping(context.arguments),
            session=session,
            call_id=call_id,
            occurrence=_answered(context).get(call_id, 0),
            schema=tool.parameters(),
            description=tool.description or None,
        )
        if isinstance(step, Words):
            context.result = step.text
        else:
            await self._execute(context, call_next, step)
        answered = _answered(context)
        answered[call_id] = answered.get(call_id, 0) + 1

    async def _execute(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]], permit: Permit
    ) -> None:
        context.arguments = permit.arguments
        try:
            async with self._host.gate.executing(permit):
                await call_next()
                permit.output = _text(context.result)
        except Exception:
            answered = _answered(context)  # the model reads of the failure: that is an answer too
            answered[permit.call.call_id] = answered.get(permit.call.call_id, 0) + 1
            raise

    def _session_of(self, context: FunctionInvocationContext) -> str:
        found = self._session or (context.session and context.session.session_id)
        if not found:
            # Another error would be told to the model, which could do nothing about it.
            raise MiddlewareFailure(
                "The gate needs to know the conversation: run the agent with session=…, or say "
                "GateMiddleware(…, session=…)."
            )
        return str(found)


def check_agent(agent: Any) -> None:
    """UserError that names what this agent would execute past the gate. Any: an `Agent`."""
    installed = [each for each in agent.middleware or () if isinstance(each, GateMiddleware)]
    passes = frozenset[str]().union(*(each.passes for each in installed))
    found = [] if installed else ["all tools (there is no GateMiddleware)"]
    for tool in _tools(agent):
        if not isinstance(tool, FunctionTool):
            name = _name(tool)
            found += [] if name in passes else [f"tool '{name}' (the provider executes it)"]
        elif tool.declaration_only and tool.name not in passes:
            found.append(f"tool '{tool.name}' (your program executes it)")
    if found:
        raise slips_past("This agent", found)


def _tools(agent: Any) -> Iterable[Any]:
    return (agent.default_options or {}).get("tools") or ()


def _name(tool: Any) -> str:
    if isinstance(tool, Mapping):
        return str(tool.get("name") or tool.get("type") or type(tool).__name__)
    return str(getattr(tool, "name", None) or type(tool).__name__)


def _mapping(arguments: Any) -> JsonObject:
    return dict(arguments) if isinstance(arguments, Mapping) else arguments.model_dump(mode="json")


def _answered(context: FunctionInvocationContext) -> dict[str, int]:
    """A model that repeats its ids in a conversation makes another call. The count is kept with the conversation: one
    that goes on from an older state finds its calls again."""
    if context.session is None:
        return {}
    counts: dict[str, int] = context.session.state.setdefault(ANSWERED, {})
    return counts


def _text(result: Any) -> Any:
    """What the tool gave: the framework has made a list of contents of it."""
    if isinstance(result, list):
        return "\n".join(str(getattr(each, "text", None) or each) for each in result)
    return result
