"""Counts and sums over time that rules look at: «from the 21st refund of a day on».

Every call about which such a rule could speak takes its share with its claim, whoever let it through. So what is
counted are calls that began, in all runs, processes and guests. Where the rule lets the last ones through, the store
holds their claims to the figure: of two that begin at once, one is judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from placet.clock import zone_of
from placet.core.amounts import MAX_WHOLE, MILLION, Uncountable
from placet.core.budget import Bound, Spent, Taking, takes
from placet.core.state import Call
from placet.facts.budgets import BudgetTaken
from placet.facts.ids import call_key
from placet.ports import Store
from placet.runtime.budgets import NO_BUDGETS

UNLIMITED = MAX_WHOLE * MILLION
Over = Mapping[str, bool | str]
"""By the id of a count: whether a call would go beyond it; a text: why that is unknown."""


class Counts(msgspec.Struct, frozen=True):
    """What was counted for some calls."""

    over: Mapping[str, Over] = {}
    facts: Mapping[str, Sequence[BudgetTaken]] = {}
    """What each of them takes if it begins."""


NOTHING_COUNTED = Counts()


async def counted(store: Store, run_id: str, wanted: Sequence[tuple[Call, Sequence[Bound]]], at: float) -> Counts:
    """How the counts stand for these calls, each behind those before it."""
    looked = [(call, bound, _taken(call, bound, at)) for call, bounds in wanted for bound in bounds]
    if not looked:
        return NOTHING_COUNTED
    known = await _spent(store, [each for call, _, fact in looked for each in _takings(run_id, call, fact)])
    added: Counter[tuple[str, str, str, str]] = Counter()
    over: dict[str, dict[str, bool | str]] = {}
    facts: dict[str, list[BudgetTaken]] = {}
    for call, bound, fact in looked:
        found = over.setdefault(call.id, {})
        if isinstance(fact, str) or known is None:
            found[bound.id] = fact if isinstance(fact, str) else f"{bound.name} cannot be looked at: {NO_BUDGETS}"
            continue
        takings = _takings(run_id, call, fact)
        is_over = any(_is_over(each, known[each], added[each.key]) for each in takings)
        added.update({each.key: each.part.amount for each in takings if not known[each].has_taken})
        found[bound.id] = is_over
        facts.setdefault(call.id, []).append(_unlimited(fact) if is_over or not bound.holds else fact)
    return Counts(over, facts)


def _taken(call: Call, bound: Bound, at: float) -> BudgetTaken | str:
    try:
        return takes(bound, call.id, call.effective, at, zone_of)
    except Uncountable as error:
        return f"{bound.name} cannot be told: {error}"


def _takings(run_id: str, call: Call, fact: BudgetTaken | str) -> list[Taking]:
    if isinstance(fact, str):
        return []
    key = call_key(run_id, call.id)
    return [Taking(fact.budget, part, key, fact.at) for part in fact.parts]


async def _spent(store: Store, takings: Sequence[Taking]) -> Mapping[Taking, Spent] | None:
    """None: a store of somebody's own, from before there were budgets."""
    look = getattr(store, "spent", None)
    return None if look is None else dict(await look(takings))


def _is_over(taking: Taking, known: Spent, added: int) -> bool:
    mine = 0 if known.has_taken else taking.part.amount
    return known.amount + added + mine > taking.part.most


def _unlimited(fact: BudgetTaken) -> BudgetTaken:
    """It is counted, and never refused: somebody else says whether it may begin."""
    parts = [msgspec.structs.replace(part, most=UNLIMITED) for part in fact.parts]
    return msgspec.structs.replace(fact, parts=parts)
