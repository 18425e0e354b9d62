"""Budgets in a database: what a claim takes is written in its transaction, and refused where it does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from placet.core.budget import Spent, TakenShare, Taking
from placet.core.log import Line
from placet.facts.errors import BudgetExhausted
from placet.facts.events import BudgetGivenBack
from placet.stores.sql.operators import last_line, locked_log, write_line
from placet.stores.sql.statements import Statement, Steps

MOST_SHARES = 500


def take_shares(takings: Sequence[Taking]) -> Steps[None]:
    """Take all shares; BudgetExhausted where one does not fit, and then nothing of the transaction is written.

    The sum is changed before it is looked at: from then on its row is locked, so that nobody else can change it before
    this transaction ends. To look first, and then to write, would let two claims see the same rest.
    """
    for taking in takings:
        part = taking.part
        share = _given(taking) | {"amount": part.amount, "at": taking.at, "useless_at": part.until}
        if not (yield Statement("take_share", share)):
            continue  # this call took it before: it is begun again, or the answer to the first try was lost
        most = part.most if part.within is None else 2**62  # of a window that moves, the sum of all is only the lock
        if (most < part.amount) or not (yield Statement("add_to_spent", share | {"most": most})):
            raise exhausted(taking)
        if part.within is not None:
            ((spent,),) = yield Statement("spent_since", _given(taking) | {"since": taking.since})
            if spent > part.most:
                raise exhausted(taking)


def exhausted(taking: Taking) -> BudgetExhausted:
    return BudgetExhausted(f"The budget {taking.budget} does not cover call {taking.call} any more.")


def _given(taking: Taking) -> dict[str, object]:
    part = taking.part
    return {
        "budget": taking.budget,
        "part": part.limit,
        "share_group": part.group,
        "period": part.period,
        "call": taking.call,
    }


def spent(takings: Sequence[Taking]) -> Steps[dict[Taking, Spent]]:
    found: dict[Taking, Spent] = {}
    for taking in takings:
        has_taken = bool((yield Statement("has_taken", _given(taking))))
        if taking.since is None:
            rows = yield Statement("spent", _given(taking))
        else:
            rows = yield Statement("spent_since", _given(taking) | {"since": taking.since})
        found[taking] = Spent(int(rows[0][0]) if rows else 0, has_taken)
    return found


def shares_of(budget: str, at: float) -> Steps[list[TakenShare]]:
    rows = yield Statement("shares_of", {"budget": budget, "at": at, "limit": MOST_SHARES})
    return [TakenShare(part, group, period, int(amount), count) for part, group, period, amount, count in rows]


def give_back(again: bool, fact: BudgetGivenBack, call: str) -> Steps[bool]:
    """What a call took counts no more, and the operators' log says so, both or neither."""
    log = yield from locked_log()
    line: Line = log.next_line(fact.at, [fact])
    if again and (yield from last_line()) == line.text:  # the answer to the first try was lost
        return True
    rows = yield Statement("shares_of_call", {"call": call})
    given_back = False
    for budget, part, group, period, amount in rows:
        if fact.budget not in (None, budget):
            continue
        share = {"budget": budget, "part": part, "share_group": group, "period": period, "call": call}
        if (yield Statement("give_back_share", share)):
            yield Statement("subtract_from_spent", share | {"amount": amount})
            given_back = True
    if given_back:
        yield from write_line(log, line)
    return given_back


def forget_old(_again: bool, before: float, limit: int) -> Steps[None]:
    yield Statement("forget_takes", {"before": before, "limit": limit})
    yield Statement("forget_budgets", {"before": before, "limit": limit})
