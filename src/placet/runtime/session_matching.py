"""Which run belongs to a session: never one that only shares its id.

Runs of older versions, and runs on sessions that do not say where they are kept, are known by the id alone. What they
read can show that a session is another one. It can never show that it is the same: two conversations may begin alike.
So such a run is not touched by a new message; its sender reads why.
"""

from __future__ import annotations

from placet.core.log import Log, read_line
from placet.core.state import RunFold
from placet.facts.codec import JsonObject
from placet.facts.errors import SessionBusy, UserError
from placet.facts.events import RunStarted
from placet.facts.ids import OBJECT_PLACE, session_key
from placet.ports import Session, Store
from placet.runtime.session_place import is_in_memory, is_lost, place_of
from placet.runtime.session_writing import likeness, read_session


def key_of(session: Session) -> str:
    """By what runs of this session are found in a store, and the session itself is leased."""
    return session_key(session.session_id, place_of(session))


async def find_waiting(store: Store, session: Session) -> str | None:
    """The run that waits for people on this very session. One that may be another's is SessionBusy."""
    name, place, key = session.session_id, place_of(session), key_of(session)
    items: list[JsonObject] | None = None
    for candidate in dict.fromkeys((key, name)):
        for run_id in await store.waiting_on(candidate):
            stored = await store.load(run_id)
            if stored is None or stored.log is None:
                continue
            began = _beginning(stored.log)
            if began.session == name and began.session_place == place and place is not None:
                return run_id
            if began.session != name or names_a_place(began.session_place):
                continue  # its key looks like ours, and it is another's
            if items is None:
                items, _ = await read_session(session)
            if _may_have_read(began, items):
                raise _place_unknown(name, run_id, place)
    return None


def names_a_place(place: str | None) -> bool:
    return place is not None and not place.startswith(f"{OBJECT_PLACE}_")


def _beginning(log: Log) -> RunStarted:
    first = read_line(log.lines[0]).facts[0]
    assert isinstance(first, RunStarted), "a log begins so"
    return first


def _may_have_read(began: RunStarted, items: list[JsonObject]) -> bool:
    """Whether the session begins with what the run read from it when it began."""
    read = began.input[: began.session_length] if isinstance(began.input, list) else []
    return [likeness(item) for item in read] == [likeness(item) for item in items[: len(read)]]


def _place_unknown(name: str, run_id: str, place: str | None) -> SessionBusy:
    hint = (
        "Decide what it asks and resume it, or cancel it."
        if names_a_place(place)
        else "Use the same session object, or give its class a property `kept_in` that says where it is kept."
    )
    return SessionBusy(
        f"Run {run_id} waits for people on a session '{name}', and it is not recorded where that one is kept: it "
        f"may be another one than this. {hint}",
        run_id,
    )


def check_session(run: RunFold, session: Session | None) -> None:
    """Refuse to continue with a run on another session than the one that it was begun with."""
    given = session.session_id if session is not None else None
    if run.session != given:
        wanted = f"session '{run.session}'" if run.session is not None else "no session"
        raise UserError(f"The run was begun with {wanted}, and was given {given!r}: pass the same session=….")
    if session is None or not names_a_place(run.session_place):
        return
    place = place_of(session)
    if place == run.session_place or (place is not None and _takes_the_place(run, place)):
        return
    raise UserError(
        f"The run was begun with session '{run.session}' that is kept in '{run.session_place}', and was given one that "
        f"is kept in '{place if names_a_place(place) else 'no place that it names'}': pass the same session=…."
    )


def _takes_the_place(run: RunFold, place: str) -> bool:
    """A session in memory is lost with its object, and the run must not be: a new one under its id takes its place."""
    assert run.session_place is not None
    return is_in_memory(place) and is_lost(run.session_place)
