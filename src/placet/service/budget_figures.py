"""What is left of budgets, for pages and commands. Figures for people: what counts is taken with the claim."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.clock import zone_of
from placet.core.amounts import amount_of, text_of_amount
from placet.core.budget import TakenShare, identity_of, period_of, text_of
from placet.facts.budgets import Limit
from placet.ports import Store

MOST_GROUPS = 20
"""Of a limit that counts apart for each customer, those who took most are told of."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """How a limit stands, for one group and its present period."""

    limit: str
    """In words: «500 cents a day for each customer»."""
    most: str
    taken: str
    left: str
    share: float
    """How much of it is taken, from 0 to 1."""
    calls: int
    group: str
    """A digest of the values by which it is counted apart; empty: it is not."""


async def left_of(store: Store, budget: str, limits: Sequence[Limit], now: float) -> list[Left]:
    """Each limit as it stands, those of which most is taken first."""
    shares = await store.shares(budget, now) if limits else []
    found = [each for limit in limits for each in _of_limit(limit, shares, now)]
    return sorted(found, key=lambda each: -each.share)


def _of_limit(limit: Limit, shares: Sequence[TakenShare], now: float) -> list[Left]:
    mine = [each for each in shares if each.limit == identity_of(limit)]
    if limit.every is not None:
        period = period_of(limit.every, now, zone_of(limit.zone))[0]
        mine = [each for each in mine if each.period == period]
    if not mine:
        return [_left(limit, "", 0, 0)]
    return [_left(limit, each.group, each.amount, each.calls) for each in mine[:MOST_GROUPS]]


def _left(limit: Limit, group: str, taken: int, calls: int) -> Left:
    most = amount_of(limit.most)
    return Left(
        limit=text_of(limit),
        most=limit.most,
        taken=text_of_amount(taken),
        left=text_of_amount(max(0, most - taken)),
        share=min(1.0, taken / most) if most else 1.0,
        calls=calls,
        group=group,
    )
