"""Where a session is kept. Its id alone does not name it: two files may both hold a session «1», of two customers.

A session says its place by `kept_in`. One that does not is known by its object alone: another object with the same id
may be the same conversation, or another's, and it cannot be known.
"""

from __future__ import annotations

import hashlib
import weakref

from placet.facts.errors import UserError
from placet.facts.ids import OBJECT_PLACE, mint
from placet.ports import Session

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
