"""Callbacks that decide about a call in a person's place. They say yes or no in so many words; whatever else they do
leaves the question to a person.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from placet.core.state import Call
from placet.core.table import Status
from placet.declare.decisions import Word, facts_of_word
from placet.declare.tool import OnApproval, Tool
from placet.runtime.frame import Frame, awaited
from placet.states.run_state import approval_item

logger = logging.getLogger("placet.runtime")


async def decide_in_code(frame: Frame, held: Sequence[tuple[Call, Tool | None]]) -> None:
    """Ask the callbacks of the tools whose calls have just been put before a person."""
    asked = [(call, callback) for call, tool in held if (callback := _callback(tool)) is not None]
    if not asked:
        return
    await frame.journal.commit()  # callbacks are user code, and may take for ever: the questions are safe first
    for call, callback in asked:
        entry = frame.run.ledger.entry(call.id)
        now = frame.run.calls.get(call.id)
        if entry is None or now is None or now.status is not Status.HELD:
            continue  # a grant, or a person, was quicker
        word = await _word(frame, call, callback)
        if word is not None:
            decision, _ = facts_of_word(entry, word, frame.journal.now())
            if entry.decide_by is None or decision.at < entry.decide_by:  # or it took too long: the question has ended
                frame.note(decision)


def _callback(tool: Tool | None) -> OnApproval | None:
    return tool.on_approval if tool is not None else None


async def _word(frame: Frame, call: Call, callback: OnApproval) -> Word | None:
    """What the callback decided, or None: it decided nothing."""
    item = approval_item(frame.run, frame.run.calls[call.id], frame.run_id, frame.graph)
    try:
        answer = await awaited(callback(frame.context, item))
    except Exception as error:  # noqa: BLE001  # a callback that fails has not decided
        logger.warning(
            "on_approval failed",
            extra={"action": "on_approval_failed", "run_id": frame.run_id, "call_id": call.id, "error": repr(error)},
        )
        return None
    return word_of(answer)


def word_of(answer: Any) -> Word | None:
    """`{"approve": True}`, `{"approve": False, "reason": "…"}`; anything else decides nothing."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("approve"), bool):
        return None
    reason = answer.get("reason")
    text = reason if isinstance(reason, str) else None
    if answer["approve"]:
        return Word(verdict="approve", by="on_approval", reason=text)
    return Word(verdict="reject", by="on_approval", reason=text, message=text)
