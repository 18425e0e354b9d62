"""A bridge for LangChain's own `HumanInTheLoopMiddleware`: its requests go to the desk, its four decisions come back.

The middleware stays as it is. What it says in an interrupt is proposed; when all of it is decided, what may run is
claimed, and the graph is resumed with approve, edit, reject and respond. Nobody tells the bridge what became of a call.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.types import Command, Interrupt

from placet.core.guest import GateCall, Permit
from placet.facts.codec import JsonObject
from placet.facts.errors import GateError, UserError
from placet.gate.hosting import Host, Words, refusal
from placet.gate.port import Gate
from placet.gate.sync import SyncGate

FOUR = frozenset({"approve", "edit", "reject", "respond"})
_TYPE = re.compile(r'"const": "(approve|edit|reject|respond)"')


class _Asked(NamedTuple):
    """One call that the middleware asks about."""

    call_id: str
    name: str
    arguments: JsonObject
    description: str | None
    allowed: frozenset[str]


class ReviewBridge:
    """Answers the interrupts of `HumanInTheLoopMiddleware` from the desk.

    `gate`: a `Gate`, or a `SyncGate` for `settle_plainly`, with `reports=False`: its calls end as released.
    `tools`: the agent's tools, whose schemas and descriptions stand on the cards, and check what people change.
    """

    def __init__(self, gate: Gate | SyncGate, *, tools: Sequence[Any] = ()) -> None:
        if not isinstance(gate, Gate | SyncGate):
            raise UserError(f"ReviewBridge works with a Gate or a SyncGate, not with a {type(gate).__name__}.")
        self._sync = gate if isinstance(gate, SyncGate) else None
        inner = gate.gate if isinstance(gate, SyncGate) else gate
        if inner.reports:
            raise UserError("Nobody tells the bridge what became of a call: it needs a Gate(…, reports=False).")
        self._host = Host(gate=inner)
        self._tools = {tool.name: tool for tool in tools}

    def settle_plainly(
        self, interrupts: Sequence[Interrupt], *, session: str, timeout: float | None = None
    ) -> Command[Any]:
        """`settle` for programs that call `invoke`."""
        if self._sync is None:
            raise UserError("settle_plainly is for a SyncGate.")
        return self._sync.run(self.settle(interrupts, session=session, timeout=timeout))

    async def settle(
        self,
        interrupts: Sequence[Interrupt],
        *,
        session: str,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Command[Any]:
        """Wait until all that these interrupts (`result["__interrupt__"]`) ask is decided: what the graph is resumed
        with. `session`: the conversation, say its thread id. GateTimeout while somebody still has to decide; nothing is
        claimed then, and it can be called again, in another process too. Interrupts of others are left alone."""
        asked = {each.id: found for each in interrupts if (found := _asked(each))}
        flat = [one for each in asked.values() for one in each]
        for one in flat:
            if "reject" not in one.allowed:
                raise UserError(
                    f"allowed_decisions of '{one.name}' lack «reject»: a no could not be told to the graph."
                )
        calls = await asyncio.gather(*(self._propose(one, session) for one in flat))
        await self._host.verdicts(calls, timeout)
        decisions = iter([await self._decision(one, call) for one, call in zip(flat, calls, strict=True)])
        told = {name: [next(decisions) for _ in each] for name, each in asked.items()}
        batched = {each.id for each in interrupts if isinstance(each.value, dict) and "action_requests" in each.value}
        return Command(
            resume={name: {"decisions": each} if name in batched else each[0] for name, each in told.items()}
        )

    async def _propose(self, one: _Asked, session: str) -> GateCall | Words:
        tool = self._tools.get(one.name)
        schema = None if tool is None else tool.tool_call_schema
        return await self._host.propose(
            one.name,
            one.arguments,
            session=session,
            call_id=one.call_id,
            schema=schema if schema is None or isinstance(schema, dict) else schema.model_json_schema(),
            description=None if tool is None else tool.description,
            context=one.description,
        )

    async def _decision(self, one: _Asked, call: GateCall | Words) -> JsonObject:
        """Decided: what the middleware is told. What it would not take is a no, before anything is claimed."""
        try:
            if isinstance(call, GateCall):
                call = await self._host.gate.wait(call)
                needed = "edit" if call.is_edited else "approve"
                if call.status == "claimable" and needed not in one.allowed:
                    call = Words(f"«{needed}» is not among the allowed_decisions of '{one.name}': it was not run.")
            step = await self._host.permit(call)
        except GateError as error:
            step = refusal(one.name, error)
        match step:
            case Permit() if not step.call.is_edited:
                return {"type": "approve"}
            case Permit():
                return {"type": "edit", "edited_action": {"name": one.name, "args": step.arguments}}
            case Words(is_refusal=False) if "respond" in one.allowed:
                return {"type": "respond", "message": step.text}
            case _:
                return {"type": "reject", "message": step.text}


def _asked(interrupt: Interrupt) -> list[_Asked]:
    """What an interrupt of the middleware asks, in either of its modes; nothing for interrupts of others."""
    match interrupt.value:
        case {"action_requests": [*requests], "review_configs": [*configs]}:
            allowed = {each["action_name"]: frozenset(each["allowed_decisions"]) for each in configs}
            return [
                _one(each, f"{interrupt.id}/{number}", allowed[each["name"]]) for number, each in enumerate(requests)
            ]
        case {"type": "tool_approval", **given}:
            schema = interrupt.response_schema
            allowed_here = frozenset(_TYPE.findall(json.dumps(schema))) if isinstance(schema, dict) else FOUR
            return [_one(given, interrupt.id, allowed_here)]
        case _:
            return []


def _one(given: Mapping[Any, Any], call_id: str, allowed: frozenset[str]) -> _Asked:
    return _Asked(call_id, given["name"], given["args"], given.get("description"), allowed)
