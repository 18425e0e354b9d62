"""Where four eyes are demanded: a setting of the store, which every desk, worker and command on it obeys.

Each change is a fact of the operators' log, written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placet.facts.checks import TEXT, check, optional
from placet.facts.codec import encode
from placet.facts.errors import UserError
from placet.facts.events import FourEyesSet, Pattern
from placet.ports import DeskStore, RecordStep, StoredRecord
from placet.stores.sql.operators import FOUR_EYES, SETTING, read_patterns

MAX_PATTERNS = 100


async def set_four_eyes(
    store: DeskStore, patterns: Sequence[Pattern], *, by: str | None, at: float, reason: str | None = None
) -> list[Pattern]:
    """These patterns and no others from now on; none: four eyes are demanded nowhere."""
    return await _change(store, lambda _: list(patterns), by, at, reason)


async def demand_four_eyes(
    store: DeskStore, patterns: Sequence[Pattern], *, by: str | None, at: float, reason: str | None = None
) -> list[Pattern]:
    """These patterns from now on, besides those that stand: nothing that is demanded is given up."""
    return await _change(
        store, lambda known: [*known, *(each for each in patterns if each not in known)], by, at, reason
    )


async def _change(
    store: DeskStore,
    changed: Callable[[list[Pattern]], list[Pattern]],
    by: str | None,
    at: float,
    reason: str | None,
) -> list[Pattern]:
    check("Four eyes: ", by=(by, optional(TEXT)), reason=(reason, optional(TEXT)))
    while True:
        record = await store.record(SETTING, FOUR_EYES)
        known = read_patterns(record)
        wanted = _checked(changed(known))
        if wanted == known:
            return known
        now = StoredRecord(kind=SETTING, id=FOUR_EYES, data=encode(wanted).decode()) if wanted else None
        step = RecordStep(kind=SETTING, id=FOUR_EYES, was=None if record is None else record.data, now=now)
        if await store.change_records([step], [FourEyesSet(wanted, by, at, reason)], at=at):
            return wanted


def _checked(patterns: list[Pattern]) -> list[Pattern]:
    unique = list(dict.fromkeys(patterns))
    if len(unique) > MAX_PATTERNS:
        raise UserError(f"Four eyes are demanded by at most {MAX_PATTERNS} patterns: use wider ones.")
    strange: list[object] = [each for each in unique if not _is_pattern(each)]
    if strange:
        raise UserError(f"A pattern is an agent and a tool, as in ('Support*', 'refund'), not {strange[0]!r}.")
    return unique


def _is_pattern(each: object) -> bool:
    """Programs may give anything, and what fits no call would be a rule that never holds."""
    return isinstance(each, tuple) and len(each) == 2 and all(isinstance(part, str) and part for part in each)
