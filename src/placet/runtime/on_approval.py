"""Callbacks that decide about a call in a person's place. They say yes or no explicitly; whatever else they do
leaves the question to a person.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from placet.core.casting import as_vote
from placet.core.state import Call
from placet.core.transitions import Status
from placet.declare.decisions import DecisionInput, facts_of_decision
from placet.declare.tool import OnApproval, Tool
from placet.runtime.casting import cast_in_code
from placet.runtime.frame import Frame, awaited
from placet.states.run_state import approval_item

logger = logging.getLogger("placet.runtime")


async def decide_in_code(frame: Frame, held: Sequence[tuple[Call, Tool | None]]) -> None:
    """Ask the callbacks of the tools whose calls have just been put before a person."""
    asked = [(call, callback) for call, tool in held if (callback := _callback(tool)) is not None]
    if not asked:
        return
    await frame.journal.commit()  # callbacks are user code, and may take forever: the questions are safe first
    for call, callback in asked:
        entry = frame.run.ledger.entry(call.id)
        now = frame.run.calls.get(call.id)
        if entry is None or now is None or now.status is not Status.HELD:
            continue  # a grant, or a person, was quicker
        given = await _asked_in_code(frame, call, callback)
        if given is not None:
            decision, _ = facts_of_decision(entry, given, frame.journal.now())
            if entry.decide_by is not None and decision.at >= entry.decide_by:
                continue  # it took too long: the question has ended
            if entry.open_ballot is not None:
                await cast_in_code(frame, [as_vote(decision, entry.open_ballot, via="on_approval")])
            else:
                frame.note(decision)


def _callback(tool: Tool | None) -> OnApproval | None:
    return tool.on_approval if tool is not None else None


async def _asked_in_code(frame: Frame, call: Call, callback: OnApproval) -> DecisionInput | None:
    """What the callback decided, or None: it decided nothing."""
    item = approval_item(frame.run, frame.run.calls[call.id], frame.run_id, frame.graph, frame.journal.run)
    try:
        answer = await awaited(callback(frame.context, item))
    except Exception as error:  # noqa: BLE001  # a callback that fails has not decided
        logger.warning(
            "on_approval failed",
            extra={"action": "on_approval_failed", "run_id": frame.run_id, "call_id": call.id, "error": repr(error)},
        )
        return None
    return decision_of(answer)


def decision_of(answer: Any) -> DecisionInput | None:
    """`{"approve": True}`, `{"approve": False, "reason": "…"}`; anything else decides nothing."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("approve"), bool):
        return None
    reason = answer.get("reason")
    text = reason if isinstance(reason, str) else None
    if answer["approve"]:
        return DecisionInput(verdict="approve", by="on_approval", reason=text)
    return DecisionInput(verdict="reject", by="on_approval", reason=text, message=text)
