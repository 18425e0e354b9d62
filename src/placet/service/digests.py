"""Digests: what happened in an hour or a day, told together. Ids and links only, whatever the subscription shows."""

from __future__ import annotations

from placet.channels.words import LISTED
from placet.facts.codec import Json, JsonObject
from placet.service.outbox_events import Event, iso
from placet.service.subscriptions import DIGEST, Every

SECONDS: dict[Every, float] = {"hour": 3600.0, "day": 86400.0}
MORNING = 6 * 3600.0
"""When a day's digest goes out: seconds after midnight, UTC. It tells what happened since the one before."""


class Digest:
    """Collects events until they are due."""

    def __init__(self) -> None:
        self._began: float | None = None
        """When the first of them happened."""
        self._counts: dict[str, Json] = {}
        self._listed: list[Json] = []

    @property
    def is_empty(self) -> bool:
        return self._began is None

    def add(self, event: Event, link: str | None) -> None:
        self._began = event.at if self._began is None else min(self._began, event.at)
        count = self._counts.get(event.type, 0)
        assert isinstance(count, int)
        self._counts[event.type] = count + 1
        if len(self._listed) < LISTED:
            said: JsonObject = {"type": event.type, "timestamp": iso(event.at), **event.data}
            self._listed.append(said if link is None else {**said, "url": link})

    def due(self, every: Every | None, sequence: int, now: float) -> Event | None:
        """All that was collected, as one event, when the hour or day is over in which the first of it happened."""
        if every is None or self._began is None or now < next_time(every, self._began):
            return None
        data: JsonObject = {"counts": self._counts, "events": self._listed}
        self._began, self._counts, self._listed = None, {}, []
        return Event(
            sequence=sequence, index=0, type=DIGEST, key=DIGEST, at=now, agent="", tool=None, groups=[], data=data
        )


def next_time(every: Every, at: float) -> float:
    """When the first digest after this time goes out."""
    seconds, offset = SECONDS[every], MORNING if every == "day" else 0.0
    return ((at - offset) // seconds + 1) * seconds + offset
