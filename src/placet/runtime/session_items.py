"""Sessions at work: what a run reads of one, and what it writes into it.

Whole turns are written, once and in pairs, and a write that failed half-way is found out about.

The intention to write is a fact before the write, its success one after it. Between the two nobody knows: then the end
of the session itself is compared with what should be there, and only the rest is written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from placet.core.state import RunFold
from placet.declare.run_config import RunConfig, SessionSettings
from placet.facts.codec import JsonObject, NotPlain, canonical, fresh, plain_item
from placet.facts.errors import UserError
from placet.facts.events import SessionWriting, SessionWritten
from placet.facts.items import text_of
from placet.ports import Session
from placet.runtime.frame import Frame, awaited
from placet.runtime.handoffs import paired

logger = logging.getLogger("placet.sessions")


async def read_session(session: Session) -> tuple[list[JsonObject], int]:
    """What was said before, without calls or outputs that lost the other half; and how many items there are in all."""
    found = await _all_items(session)
    return paired(found), len(found)


async def _all_items(session: Session) -> list[JsonObject]:
    found: object = await session.get_items()
    if not isinstance(found, list):
        raise UserError(f"Session '{session.session_id}' gave a {type(found).__name__} instead of a list of items.")
    try:
        items = [plain_item(item, f"session item {index}") for index, item in enumerate(found)]
    except (NotPlain, TypeError) as error:
        raise UserError(f"Session '{session.session_id}' holds what is no item: {error}.") from error
    for index, item in enumerate(items):
        if not isinstance(item.get("call_id", ""), str):
            raise UserError(f"Session '{session.session_id}' holds what is no item: item {index} has an odd call_id.")
    return items


async def write_session(frame: Frame) -> None:
    """Write the turns that are over and not in the session yet. What a guardrail stopped is not written."""
    run, session = frame.run, frame.session
    if session is None or run.session is None or not run.responses or run.tripped is not None:
        return
    if run.session_writing is not None:
        await _finish_earlier_write(frame, session)
    end = frame.run.closed_length
    items = _unwritten(frame.run, end)
    if items:
        frame.note(SessionWriting(end))
        await frame.journal.commit()
        await session.add_items(fresh(items))
        frame.note(SessionWritten(end, len(items) - len(_kept(session, items))))


def _kept(session: Session, items: list[JsonObject]) -> list[JsonObject]:
    """The items that this session can keep: some services take not all kinds, and say so by a method `keeps`."""
    keeps = getattr(session, "keeps", None)
    return items if keeps is None else [item for item in items if keeps(item)]


def _unwritten(run: RunFold, end: int) -> list[JsonObject]:
    return [*run.session_backlog, *run.history[run.session_written : end]]


async def _finish_earlier_write(frame: Frame, session: Session) -> None:
    """A write was begun, and nobody noted its end: look how much of it is there, and write the rest."""
    run = frame.run
    assert run.session_writing is not None
    unwritten = _unwritten(run, run.session_writing)
    meant = _kept(session, unwritten)
    there = _written_of(await _all_items(session), meant, run.session_total)
    if there < len(meant):
        await session.add_items(fresh(meant[there:]))
    frame.note(SessionWritten(run.session_writing, len(unwritten) - len(meant)))
    await frame.journal.commit()


def _written_of(stored: Sequence[JsonObject], meant: Sequence[JsonObject], before: int) -> int:
    """How many of the items that were meant to be written are there: by count, where nobody else wrote meanwhile."""
    kept, wanted = [likeness(item) for item in stored], [likeness(item) for item in meant]
    surplus = len(kept) - before
    if 0 <= surplus <= len(wanted) and kept[before:] == wanted[:surplus]:
        return surplus
    for length in range(len(wanted), 0, -1):  # another process wrote too: what stands at the end decides
        if kept[-length:] == wanted[:length]:
            return length
    return 0


def likeness(item: JsonObject) -> bytes:
    """What of an item a session certainly gives back: services add ids and defaults of their own."""
    kind = item.get("type") or "message"
    return canonical(
        [kind, item.get("role"), item.get("call_id"), item.get("output"), text_of(item), item.get("arguments")]
    )


async def compact_session(frame: Frame, session: Session | None) -> None:
    """Let a session compact itself. It is not told while calls wait: their turn is not in the session yet. If it fails,
    the run has ended all the same, and the session is as long as it was."""
    compact = getattr(session, "run_compaction", None)
    if session is None or compact is None or not frame.run.has_ended:
        return
    settings = frame.agent.model_settings.resolve(frame.config.model_settings)
    told: dict[str, object] = {"force": False}
    if frame.run.last_response_id is not None:
        told["response_id"] = frame.run.last_response_id
    if settings.store is not None:
        told["store"] = settings.store
    try:
        await compact(told)
    except Exception:
        logger.warning(
            "session not compacted",
            extra={"action": "session_not_compacted", "session": session.session_id},
            exc_info=True,
        )


# -- the input of a run -----------------------------------------------------------------------------------------------


async def joined(
    session: Session, before: list[JsonObject], new: list[JsonObject], config: RunConfig
) -> tuple[list[JsonObject], int]:
    """The input of a run on this session, and how many of its items, at the beginning, are in the session already."""
    limit = _limit(session, config)
    if limit is not None:
        before = paired(before[max(0, len(before) - limit) :])
    if config.session_input_callback is None:
        return [*before, *new], len(before)
    made: object = await awaited(config.session_input_callback(list(before), list(new)))
    if not isinstance(made, list):
        raise UserError(f"session_input_callback gives back a list of items, not a {type(made).__name__}.")
    try:
        items = [plain_item(item, f"item {place} of session_input_callback") for place, item in enumerate(made)]
    except (NotPlain, TypeError) as error:
        raise UserError(f"session_input_callback gave back what is no item: {error}.") from error
    return items, _length_of_old(items, before)


def _limit(session: Session, config: RunConfig) -> int | None:
    """The run's settings, or else the session's own."""
    own: object = getattr(session, "session_settings", None)
    found = SessionSettings.of(own) if isinstance(own, SessionSettings | Mapping) else None
    resolved = (found or SessionSettings()).resolve(config.session_settings)
    return resolved.limit


def _length_of_old(items: list[JsonObject], before: list[JsonObject]) -> int:
    """How many items there are up to the last one that came out of the session: what stands behind it is new, and is
    written. What a function put between old items is not: the session has its own order."""
    left = list(before)
    length = 0
    for place, item in enumerate(items):
        if item in left:
            left.remove(item)
            length = place + 1
    return length
