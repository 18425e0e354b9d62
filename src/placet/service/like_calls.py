"""What people decided about calls like one, newest first, and what a standing decision would have made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from placet.clock import zone_of
from placet.core.amounts import Uncountable
from placet.core.budget import Bound, Cover, Spent, Taking, takes
from placet.core.grant_width import wider_than
from placet.core.terms import fits
from placet.facts.budgets import GrantTerms
from placet.facts.codec import Json, JsonObject, canonical
from placet.policy.backtest import Case
from placet.ports import DeskStore, RequestQuery
from placet.service.decided import SAID, case_of

LAST = 50
"""So many of the newest decisions are gone through again."""
MOST_READ = 2000
PAGE = 200


async def like_calls(store: DeskStore, agent: str, tool: str, most: int = PAGE) -> list[Case]:
    """Calls of this tool by this agent that people decided themselves, newest first. What was erased is none."""
    found: list[Case] = []
    cursor: str | None = None
    for _ in range(MOST_READ // PAGE):
        query = RequestQuery(status=None, agent=agent, tool=tool, newest_first=True, cursor=cursor, limit=PAGE)
        page = await store.requests(query)
        for row in page.rows:
            if row.kind == "approval" and row.grant is None and row.status in SAID:
                case = case_of(row)
                if case.cannot is None and case.subject.arguments is not None:
                    found.append(case)
        cursor = page.cursor
        if cursor is None or len(found) >= most:
            break
    return found[:most]


def approved_in(cases: Sequence[Case]) -> list[JsonObject]:
    """The arguments that people approved as they were."""
    return [case.subject.arguments for case in cases if case.said == "yes" and case.subject.arguments is not None]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a standing decision would have decided so far, and what is wide about it."""

    tried: int
    """So many of the newest calls like it were gone through."""
    decided: int
    """So many of them it would have decided."""
    calls: list[str]
    """Their requests, newest first."""
    contradicts: list[str]
    """Those about which a person said otherwise."""
    over_budget: int
    """Calls within its bounds that its budget would not have covered: they would have been asked about."""
    wider: list[str]
    """What it lets through that nobody approved, in words; empty: nothing."""

    @property
    def line(self) -> str:
        """In one sentence, for people."""
        if not self.tried:
            return "No call like it was decided yet, so it could not be tried."
        calls = "call" if self.tried == 1 else f"{self.tried} calls"
        said = f"Of the last {calls} like it, it would have decided {self.decided}"
        said += f", {len(self.contradicts)} of them against what a person said" if self.contradicts else ""
        return said + (f"; its budget would not have covered {self.over_budget}." if self.over_budget else ".")


def trial(
    cases: Sequence[Case],
    verdict: Literal["approve", "reject"],
    arguments: JsonObject | None,
    terms: GrantTerms | None,
    uses: int | None = None,
    also_approved: JsonObject | None = None,
) -> Trial:
    """Try bounds on calls that people decided. `also_approved`: the call that is approved together with it."""
    last = cases[:LAST]
    inside = [case for case in last if _is_within(case.subject.arguments, arguments, terms)]
    covered = _covered(inside, terms) if verdict == "approve" else inside
    if uses is not None:
        covered = covered[-uses:]
    approved = approved_in(cases) + ([] if also_approved is None else [also_approved])
    wide = wider_than(approved, arguments, terms.matching if terms is not None else ()) if verdict == "approve" else []
    against = [case.request_id for case in covered if (case.said == "yes") is not (verdict == "approve")]
    return Trial(
        tried=len(last),
        decided=len(covered),
        calls=[case.request_id for case in covered],
        contradicts=against,
        over_budget=len(inside) - len(covered),
        wider=wide,
    )


def _is_within(given: JsonObject | None, arguments: JsonObject | None, terms: GrantTerms | None) -> bool:
    values = given or {}
    pinned: dict[str, Json] = arguments or {}
    if any(name not in values or canonical(values[name]) != canonical(value) for name, value in pinned.items()):
        return False
    return terms is None or fits(terms, given)


def _covered(inside: Sequence[Case], terms: GrantTerms | None) -> list[Case]:
    """Those that the budget would have covered, had it begun empty with the oldest of them. Newest first."""
    if terms is None or not terms.budget:
        return list(inside)
    bound = Bound("trial", tuple(terms.budget), "the budget")
    taken: list[Taking] = []
    found: list[Case] = []
    for case in reversed(inside):
        try:
            fact = takes(bound, case.request_id, case.subject.arguments, case.at, zone_of)
        except Uncountable:
            continue
        takings = [Taking(bound.id, part, case.request_id, case.at) for part in fact.parts]
        known = {each: Spent(_sum(taken, each), has_taken=False) for each in takings}
        if Cover(known).why_not(bound, takings) is None:
            taken += takings
            found.append(case)
    return found[::-1]


def _sum(taken: Sequence[Taking], one: Taking) -> int:
    since = one.since
    return sum(each.part.amount for each in taken if each.key == one.key and (since is None or each.at > since))
