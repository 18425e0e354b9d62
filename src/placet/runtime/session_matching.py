"""Where a session is kept, and which run belongs to it: never one that only shares its id.

Two files may both hold a session «1», of two customers. A session says its place by `kept_in`. One that does not is
known by its object alone: another object with the same id may be the same conversation, or another's, and it cannot be
known.

Runs of older versions, and runs on sessions that do not say where they are kept, are known by the id alone. What they
read can show that a session is another one. It can never show that it is the same: two conversations may begin alike.
So such a run is not touched by a new message; its sender reads why.
"""

from __future__ import annotations

import hashlib
import weakref

from placet.core.log import Log, read_line
from placet.core.state import RunFold
from placet.facts.codec import JsonObject
from placet.facts.errors import SessionBusy, UserError
from placet.facts.events import RunStarted
from placet.facts.ids import OBJECT_PLACE, mint, session_key
from placet.ports import Session, Store
from placet.runtime.session_items import likeness, read_session


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


# -- where it is kept -------------------------------------------------------------------------------------------------

_MEMORY = "memory"


class MemoryPlace:
    """The place of a session that lives in its object: no other object has it."""

    __slots__ = ("__weakref__", "name")

    def __init__(self) -> None:
        self.name = mint(_MEMORY)
        _alive[self.name] = self


_alive: weakref.WeakValueDictionary[str, MemoryPlace] = weakref.WeakValueDictionary()
_objects: dict[int, tuple[weakref.ref[object], str]] = {}
"""The names of sessions that do not say where they are kept, by the address of the object."""


def digest_of_place(kind: str, place: str) -> str:
    """A name for a place that does not give the place away: states travel, and paths are nobody else's business."""
    return f"{kind}_{hashlib.blake2b(place.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def place_of(session: Session) -> str | None:
    """Where the session says that it is kept; otherwise a name for the object; None where not even that can be made."""
    given: object = getattr(session, "kept_in", None)
    if given is None:
        return _object_place(session)
    if not isinstance(given, str) or not given or given.startswith(f"{OBJECT_PLACE}_"):
        raise UserError(f"A session's kept_in is a text that names where it is kept, not {given!r}.")
    return str(given)


def _object_place(session: Session) -> str | None:
    known = _objects.get(id(session))
    if known is not None and known[0]() is session:
        return known[1]
    address = id(session)
    try:
        reference: weakref.ref[object] = weakref.ref(session, lambda reference_lost: _forget(address, reference_lost))
    except TypeError:  # a class with slots: such an object cannot be told from one that comes after it
        return None
    name = mint(OBJECT_PLACE)
    _objects[address] = (reference, name)
    return name


def _forget(address: int, reference_lost: weakref.ref[object]) -> None:
    known = _objects.get(address)
    if known is not None and known[0] is reference_lost:
        del _objects[address]


def is_lost(place: str) -> bool:
    """Whether the place was in the memory of an object that is not here any more: nobody can bring that session."""
    return place.startswith(f"{_MEMORY}_") and place not in _alive


def is_in_memory(place: str) -> bool:
    return place.startswith(f"{_MEMORY}_")
