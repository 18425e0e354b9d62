"""Sessions at work: whole turns are written, once and in pairs, and a write that failed half-way is found out about.

The intention to write is a fact before the write, its success one after it. Between the two nobody knows: then the end
of the session itself is compared with what should be there, and only the rest is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from placet.codec import JsonObject, NotPlain, canonical, plain_item
from placet.errors import UserError
from placet.events import SessionWriting, SessionWritten
from placet.items import text_of
from placet.ports import Session
from placet.runtime.frame import Frame
from placet.runtime.handing_over import paired


async def read_session(session: Session) -> list[JsonObject]:
    """What was said before, without calls or outputs that lost the other half."""
    found: object = await session.get_items()
    if not isinstance(found, list):
        raise UserError(f"Session '{session.session_id}' gave a {type(found).__name__} instead of a list of items.")
    try:
        return paired([plain_item(item, f"session item {index}") for index, item in enumerate(found)])
    except (NotPlain, TypeError) as error:
        raise UserError(f"Session '{session.session_id}' holds what is no item: {error}.") from error


async def write_session(frame: Frame) -> None:
    """Write the turns that are over and not in the session yet."""
    run, session = frame.run, frame.session
    if session is None or run.session is None or run.open_calls:
        return
    if run.session_writing is not None:
        await _finish_earlier_write(frame, session)
    start, end = frame.run.session_written, len(frame.run.history)
    if start < end:
        frame.note(SessionWriting(end))
        await frame.journal.commit()
        await session.add_items(frame.run.history[start:end])
        frame.note(SessionWritten(end))


async def _finish_earlier_write(frame: Frame, session: Session) -> None:
    """A write was begun, and nobody noted its end: look how much of it is there, and write the rest."""
    run = frame.run
    assert run.session_writing is not None
    meant = run.history[run.session_written : run.session_writing]
    there = _length_at_end(await session.get_items(), meant)
    if there < len(meant):
        await session.add_items(meant[there:])
    frame.note(SessionWritten(run.session_writing))
    await frame.journal.commit()


def _length_at_end(stored: Sequence[JsonObject], meant: Sequence[JsonObject]) -> int:
    """How many of the items that were meant to be written stand at the end of the session."""
    kept, wanted = [_likeness(item) for item in stored], [_likeness(item) for item in meant]
    for length in range(len(wanted), 0, -1):
        if kept[-length:] == wanted[:length]:
            return length
    return 0


def _likeness(item: JsonObject) -> bytes:
    """What of an item a session certainly gives back: services add ids and defaults of their own."""
    kind = item.get("type") or "message"
    return canonical(
        [kind, item.get("role"), item.get("call_id"), item.get("output"), text_of(item), item.get("arguments")]
    )
