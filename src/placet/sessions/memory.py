"""A session in this process' memory."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from placet.facts.checks import TEXT, check
from placet.facts.codec import JsonObject
from placet.runtime.session_matching import MemoryPlace


class InMemorySession:
    """A conversation that lives as long as this object."""

    def __init__(self, session_id: str) -> None:
        check("InMemorySession: ", session_id=(session_id, TEXT))
        self.session_id = session_id
        self._items: list[JsonObject] = []
        self._place = MemoryPlace()

    @property
    def kept_in(self) -> str:
        """In this object and nowhere else."""
        return self._place.name

    async def get_items(self, limit: int | None = None) -> list[JsonObject]:
        found = self._items if limit is None else self._items[max(0, len(self._items) - limit) :]
        return copy.deepcopy(found)

    async def add_items(self, items: Sequence[JsonObject]) -> None:
        self._items.extend(copy.deepcopy(list(items)))

    async def pop_item(self) -> JsonObject | None:
        return self._items.pop() if self._items else None

    async def clear_session(self) -> None:
        self._items.clear()
