"""Break-glass: what one person did alone is owed a review, until another one gives it.

Rule of this file: that a review is owed is written down before the decision. So no crash loses it, and what was written
for a decision that never came is found out when it is looked at.
"""

from __future__ import annotations

import msgspec

from placet.core.index import RequestRecord
from placet.core.votes import identity_in
from placet.facts.codec import encode
from placet.facts.errors import AccessDenied, NotPending
from placet.facts.events import GlassReviewed
from placet.ports import DeskStore, RecordStep, StoredRecord
from placet.stores.people import people_of

GLASS = "glass_review"
"""The kind of the records of reviews that are owed, by request."""
PATIENCE = 60.0
"""Seconds in which a decision that was announced may still be written."""
_STOOD = ("approved", "edited", "answered")


class OwedReview(msgspec.Struct, frozen=True, kw_only=True):
    """One person went ahead alone, and nobody has looked at it yet."""

    request_id: str
    run_id: str
    agent: str
    tool: str
    by: str
    """Who went ahead."""
    at: float
    reason: str | None = None
    """What they gave as the reason; None where the run was erased or deleted."""


async def owe_review(store: DeskStore, row: RequestRecord, by: str, at: float) -> None:
    owed = OwedReview(request_id=row.id, run_id=row.run_id, agent=row.agent, tool=row.tool, by=by, at=at)
    record = StoredRecord(kind=GLASS, id=row.id, data=encode(owed).decode())
    if not await store.add_record(record):  # an earlier try of somebody's, which may have come to nothing
        await store.replace_record(record)


async def owed_reviews(store: DeskStore, now: float) -> list[OwedReview]:
    """Those that are owed, oldest first. What was announced and never decided, or taken back, is forgotten here."""
    found: list[OwedReview] = []
    after = ""
    while page := await store.records(GLASS, after=after):
        for record in page:
            owed = msgspec.json.decode(record.data, type=OwedReview)
            row = await store.request(owed.request_id)
            if row is None:  # the run was deleted: it happened all the same
                found.append(owed)
            elif row.status in _STOOD and row.decided_by == owed.by:
                found.append(msgspec.structs.replace(owed, reason=row.reason))
            elif owed.at + PATIENCE < now:
                await store.change_records([_step(record)], [], at=now)
        after = page[-1].id
    return sorted(found, key=lambda each: each.at)


async def give_review(
    store: DeskStore, request_id: str, *, was_right: bool, by: str, at: float, reason: str | None
) -> OwedReview:
    """Somebody else looked at it. NotPending where no review is owed, AccessDenied to who went ahead alone."""
    record = await store.record(GLASS, request_id)
    owed = next((each for each in await owed_reviews(store, at) if each.request_id == request_id), None)
    if record is None or owed is None:
        raise NotPending(f"No review of request {request_id} is owed: it was given, or nobody went ahead alone there.")
    people = await people_of(store, [by, owed.by])
    if identity_in(people, by) == identity_in(people, owed.by):
        raise AccessDenied(f"{by} went ahead alone there: another person reviews it.")
    fact = GlassReviewed(request_id, was_right, by, at, owed.by, reason)
    if not await store.change_records([_step(record)], [fact], at=at):
        raise NotPending(f"The review of request {request_id} was given by somebody else a moment ago.")
    return owed


def _step(record: StoredRecord) -> RecordStep:
    return RecordStep(kind=GLASS, id=record.id, was=record.data, now=None)
