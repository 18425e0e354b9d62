"""Budgets at work: what calls would take is looked up before it is promised, and written down with the claim.

Rule of this file: what is asked here only spares a vain try. Whether a claim takes one too many is decided by the
store, in the transaction that writes it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from placet.clock import zone_of
from placet.core.amounts import Uncountable
from placet.core.budget import RULE, Bound, Cover, Taking, takes
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.facts.budgets import BudgetTaken
from placet.facts.events import GrantMade
from placet.facts.ids import call_key
from placet.ports import Store

NO_BUDGETS = "its store keeps no budgets, so nobody knows what is left"


def bound_of_grant(grant: GrantMade) -> Bound | None:
    if grant.terms is None or not grant.terms.budget:
        return None
    return Bound(grant.id, tuple(grant.terms.budget), f"the budget of the standing decision {grant.id}")


class Shares:
    """What one call would take of its budgets."""

    __slots__ = ("bounds", "call", "facts", "takings", "uncountable")

    def __init__(self, run_id: str, call: Call, bounds: Sequence[Bound], at: float) -> None:
        self.call = call.id
        self.bounds = bounds
        self.facts: list[BudgetTaken] = []
        self.takings: list[list[Taking]] = []
        self.uncountable: str | None = None
        key = call_key(run_id, call.id)
        for bound in bounds:
            try:
                fact = takes(bound, call.id, call.effective, at, zone_of)
            except Uncountable as error:
                self.uncountable = f"{bound.name} cannot count it: {error}"
                return
            self.facts.append(fact)
            self.takings.append([Taking(bound.id, part, key, at) for part in fact.parts])


class Covered:
    """Of calls that are about to begin, those that their budgets cover: the others with why not."""

    def __init__(
        self, facts: Mapping[str, Sequence[BudgetTaken]], why_not: Mapping[str, str], by: Mapping[str, str]
    ) -> None:
        self.facts = facts
        self.why_not = why_not
        self.by = by
        """The budget that does not cover a call."""

    def without(self, calls: Container[str]) -> Covered:
        return Covered({call: facts for call, facts in self.facts.items() if call not in calls}, self.why_not, self.by)

    def __or__(self, other: Covered) -> Covered:
        facts = {
            call: [*self.facts.get(call, ()), *other.facts.get(call, ())]
            for call in dict.fromkeys((*self.facts, *other.facts))
        }
        return Covered(facts, {**self.why_not, **other.why_not}, {**self.by, **other.by})


NOTHING_BOUND = Covered({}, {}, {})


async def look(
    store: Store,
    run_id: str,
    bounds: Iterable[tuple[Call, Sequence[Bound]]],
    at: float,
    promised: Iterable[tuple[Call, Sequence[Bound]]] = (),
) -> Covered:
    """What is left for these calls, one after the other. `promised`: calls that come first, since they were let through
    before and have not begun."""
    wanted = [Shares(run_id, call, each, at) for call, each in bounds if each]
    if not wanted:
        return NOTHING_BOUND
    first = [Shares(run_id, call, each, at) for call, each in promised if each]
    spent = getattr(store, "spent", None)
    if spent is None:  # a store of somebody's own, from before there were budgets: nothing is covered by what it says
        why = {shares.call: f"{shares.bounds[0].name} cannot be looked at: {NO_BUDGETS}" for shares in wanted}
        return Covered({}, why, {shares.call: shares.bounds[0].id for shares in wanted})
    cover = Cover(await spent([taking for shares in (*first, *wanted) for each in shares.takings for taking in each]))
    for shares in first:
        why_not(cover, shares)
    refused: dict[str, str] = {}
    by: dict[str, str] = {}
    facts: dict[str, Sequence[BudgetTaken]] = {}
    for shares in wanted:
        no = why_not(cover, shares)
        if no is not None:
            by[shares.call], refused[shares.call] = no
        else:
            facts[shares.call] = shares.facts
    return Covered(facts, refused, by)


def why_not(cover: Cover, shares: Shares) -> tuple[str, str] | None:
    """Which budget does not cover a call, and why; None: all do, and its shares are taken."""
    if shares.uncountable is not None:
        return shares.bounds[len(shares.takings)].id, shares.uncountable
    for bound, takings in zip(shares.bounds, shares.takings, strict=True):
        why = cover.why_not(bound, takings)
        if why is not None:
            return bound.id, why
    return None


def promised_by(root: RunFold, grant: GrantMade) -> list[Call]:
    """The calls that a standing decision let through in this run, and that have not begun."""
    return [
        call
        for run in root.family()
        for call in run.calls.values()
        if call.status is Status.APPROVED and call.decision is not None and call.decision.grant == grant.id
    ]


def promised_by_rules(
    root: RunFold, bounds: Iterable[Bound], but: Container[str]
) -> list[tuple[Call, Sequence[Bound]]]:
    """The calls that rules with these budgets let through in this run, and that have not begun. `but`: not these."""
    by_name = {bound.id.removeprefix(RULE): bound for bound in bounds}
    found: list[tuple[Call, Sequence[Bound]]] = []
    for run in root.family() if by_name else ():
        for call in run.calls.values():
            if call.status is not Status.ALLOWED or call.policy is None or call.id in but:
                continue
            said = [each.name for each in call.policy.rules if each.verdict == "allow" and each.mode == "enforce"]
            found.append((call, [by_name[name] for name in said if name in by_name]))
    return found
