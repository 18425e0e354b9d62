"""The contract of what every store does with budgets: a claim takes its share in its own append, or is not written."""

from __future__ import annotations

import asyncio

import msgspec

from placet.core.budget import Taking
from placet.core.log import read_line
from placet.facts.budgets import BudgetTaken, Part
from placet.facts.errors import BudgetExhausted, PositionConflict
from placet.facts.events import AnyFact, CallsStarted, RunForked, TurnLimitSet
from placet.facts.ids import call_key
from placet.ports import Store
from placet.testing.contracts import AT, Run, refused


def part(amount: int, *, most: int, limit: str = "sum", group: str = "", period: str = "") -> Part:
    """A share of a limit, in whole units."""
    return Part(limit, group, period, amount * 1_000_000, most * 1_000_000)


def looking_back(amount: int, *, most: int, seconds: float, at: float = AT) -> Part:
    return msgspec.structs.replace(part(amount, most=most, limit="window"), within=seconds, until=at + seconds)


def claim(*parts: Part, budget: str = "grant_1", at: float = AT) -> list[AnyFact]:
    return [BudgetTaken("1.0", budget, at, list(parts)), CallsStarted(["1.0"])]


async def ready(store: Store) -> Run:
    """A run whose call is approved and has not begun."""
    run = await Run().pause_in(store)
    await run.append(store, None, run.is_decided)
    return run


async def spent(store: Store, share: Part, *, budget: str = "grant_1", at: float = AT) -> int:
    """What is taken of a limit, in whole units, as a call sees it that took nothing."""
    taking = Taking(budget, share, "nobody", at)
    return (await store.spent([taking]))[taking].amount // 1_000_000


class BudgetContract:
    """Inherit, and say with `make_store` how an empty store is made."""

    async def make_store(self) -> Store:
        raise NotImplementedError("make_store gives a new, empty store")

    async def test_a_claim_takes_its_share_and_one_too_many_is_not_written_at_all(self) -> None:
        store = await self.make_store()
        first, second, third = [await ready(store) for _ in range(3)]
        share = part(40, most=100)
        await first.append(store, None, claim(share))
        await second.append(store, None, claim(share))
        before = await store.load(third.id)

        await refused(BudgetExhausted, third.append(store, None, claim(share)))

        after = await store.load(third.id)
        assert before is not None
        assert after is not None
        assert (after.length, after.head) == (before.length, before.head)
        assert await spent(store, share) == 80
        await third.append(store, None, claim(part(20, most=100)))
        assert await spent(store, share) == 100

    async def test_a_call_takes_its_share_once_however_often_it_is_begun(self) -> None:
        store = await self.make_store()
        run = await ready(store)
        share = part(60, most=100)

        await run.append(store, None, claim(share))
        await run.append(store, None, [BudgetTaken("1.0", "grant_1", AT + 5, [share]), CallsStarted(["1.0"])])

        taking = Taking("grant_1", share, call_key(run.id, "1.0"), AT)
        (found,) = (await store.spent([taking])).values()
        assert (found.amount, found.has_taken) == (60_000_000, True)

    async def test_groups_periods_limits_and_budgets_are_counted_apart(self) -> None:
        store = await self.make_store()
        runs = [await ready(store) for _ in range(5)]
        shares = [
            part(90, most=100),
            part(90, most=100, group="c7"),
            part(90, most=100, period="2026-11-19"),
            part(90, most=100, limit="uses"),
        ]

        for run, share in zip(runs, shares, strict=False):
            await run.append(store, None, claim(share))
        await runs[-1].append(store, None, claim(shares[0], budget="grant_2"))

        assert [await spent(store, share) for share in shares] == [90] * 4

    async def test_of_several_limits_all_have_to_cover_a_claim_or_none_is_touched(self) -> None:
        store = await self.make_store()
        one, other = await ready(store), await ready(store)
        day, whole = part(50, most=100, period="2026-11-19"), part(50, most=60, limit="all")
        await one.append(store, None, claim(day, whole))

        await refused(BudgetExhausted, other.append(store, None, claim(day, whole)))

        assert await spent(store, day) == 50
        assert await spent(store, whole) == 50

    async def test_a_window_that_looks_back_forgets_what_is_older_than_it(self) -> None:
        store = await self.make_store()
        runs = [await ready(store) for _ in range(3)]
        await runs[0].append(store, None, claim(looking_back(60, most=100, seconds=60)))

        await refused(
            BudgetExhausted,
            runs[1].append(store, None, claim(looking_back(60, most=100, seconds=60, at=AT + 59), at=AT + 59)),
        )
        await runs[2].append(store, None, claim(looking_back(60, most=100, seconds=60, at=AT + 60), at=AT + 60))

        assert await spent(store, looking_back(0, most=100, seconds=60), at=AT + 60) == 60
        assert await spent(store, looking_back(0, most=100, seconds=60), at=AT + 59) == 120

    async def test_what_is_not_written_takes_nothing(self) -> None:
        store = await self.make_store()
        run = await ready(store)
        lines, fold = run.prepare(claim(part(40, most=100)))
        before = run.log.copy()
        await run.append(store, None, [TurnLimitSet(5)])

        await refused(PositionConflict, store.append(None, before, lines, fold))

        assert await spent(store, part(0, most=100)) == 0

    async def test_a_fork_takes_nothing_for_what_its_origin_took(self) -> None:
        store = await self.make_store()
        run = await ready(store)
        await run.append(store, None, claim(part(60, most=100)))
        copy = Run()
        facts = [fact for line in run.log.lines for fact in read_line(line).facts]

        await copy.append(store, None, [*facts, RunForked(run.id)])

        assert await spent(store, part(0, most=100)) == 60

    async def test_of_many_claims_at_once_no_more_are_written_than_the_budget_covers(self) -> None:
        store = await self.make_store()
        runs = [await ready(store) for _ in range(12)]
        share, other = part(10, most=45), part(1, most=1000, limit="uses")

        outcomes = await asyncio.gather(
            *(run.append(store, None, claim(share, other)) for run in runs), return_exceptions=True
        )

        assert outcomes.count(None) == 4
        assert all(isinstance(each, BudgetExhausted) for each in outcomes if each is not None)
        assert await spent(store, share) == 40
        assert await spent(store, other) == 4

    async def test_what_is_taken_is_listed_the_largest_first(self) -> None:
        store = await self.make_store()
        runs = [await ready(store) for _ in range(3)]
        for run, (amount, group) in zip(runs, [(10, "a"), (30, "b"), (5, "a")], strict=True):
            await run.append(store, None, claim(part(amount, most=100, group=group)))

        found = await store.shares("grant_1", AT)

        assert [(each.group, each.amount // 1_000_000, each.calls) for each in found] == [("b", 30, 1), ("a", 15, 2)]
