"""One budget, many processes, and kills between a claim and its end: `python -m tests.budgets.torture --store
postgresql`.

Guests propose calls of different sizes under one rule with a budget, all at once, and claim what it lets through. Some
die right behind a claim, some right before it. An outside witness writes down every effect. Afterwards the logs alone
have to explain, to the unit, what the store says is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from placet.clock import SYSTEM_CLOCK
from placet.core.budget import rule_budget
from placet.core.log import read_lines
from placet.facts.budgets import BudgetGivenBack, BudgetTaken
from placet.facts.errors import GateError
from placet.facts.events import CallsProposed
from placet.gate import Gate
from placet.policy import parse_policy
from placet.ports import DeskStore, RunQuery
from placet.service.guest_limits import GuestLimits
from placet.stores.opening import open_store
from placet.stores.postgres import PostgresStore
from tests.desk.scenes import Witness
from tests.kills.processes import start
from tests.kills.sweep import a_store

LARGEST = 9
LIMITS = GuestLimits(max_waiting=10_000, asks_per_second=1e6, burst=1_000_000)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How large it is. Half of what all calls ask for is there."""

    calls: int
    processes: int
    kills: int
    """So many processes die in the middle of a call."""
    seed: int

    def cents(self, process: int, call: int) -> int:
        return random.Random(f"{self.seed} {process} {call}").randint(1, LARGEST)

    @property
    def each(self) -> int:
        return self.calls // self.processes

    @property
    def most(self) -> int:
        return sum(self.cents(p, c) for p in range(self.processes) for c in range(self.each)) // 2

    @property
    def policy(self) -> str:
        return (
            '[[rule]]\nname = "small"\ntool = "pay"\nallow = true\nrelax = true\n'
            f'budget = [{{ sum = "cents", most = {self.most} }}, {{ uses = {self.calls * 2 // 3} }}]\n'
        )


# -- a process ---------------------------------------------------------------------------------------------------------


def live(url: str, witness: Path, plan: Plan, process: int, dies_at: int) -> None:
    """Make the calls of one process, all at once; kill it at its n-th claim. Those that a life before made are found by
    their identity."""
    asyncio.run(_live(url, Witness(witness), plan, process, dies_at))


class _Fate:
    """When this process dies: behind its n-th claim, or, of every other one, in the middle of writing it."""

    def __init__(self, dies_at: int) -> None:
        self.left = dies_at

    def passes(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def _live(url: str, witness: Witness, plan: Plan, process: int, dies_at: int) -> None:
    fate = _Fate(dies_at)
    # twenty processes with ten connections each are more than a server takes
    opened = PostgresStore(url, connections=3) if url.startswith("postgresql") else open_store(url)
    async with opened as store:
        gate = Gate(store, guest=f"guest-{process}", limits=LIMITS, policy=parse_policy(plan.policy))
        async with gate:
            await asyncio.gather(
                *(
                    _call(gate, witness, fate, f"p{process}c{call}", plan.cents(process, call))
                    for call in range(plan.each)
                )
            )


async def _call(gate: Gate, witness: Witness, fate: _Fate, name: str, cents: int) -> None:
    call = await gate.propose("pay", {"cents": cents, "name": name}, session=name, call_id=name)
    if call.status != "claimable":
        return
    claiming = asyncio.ensure_future(gate.claim(call, lease=3600))
    if cents % 2:
        await asyncio.sleep(0)  # the claim is on its way
        fate.passes()
    try:
        permit = await claiming
    except GateError:  # what is left does not cover it any more, or a life before claimed it
        return
    witness.write(f"{name} {cents}")
    fate.passes()
    await gate.report(permit, "failed" if cents == LARGEST else "finished", "paid")


# -- all of them -------------------------------------------------------------------------------------------------------


async def torture(url: str, witness: Path, plan: Plan, patience: float = 600.0) -> list[str]:
    """What went wrong; nothing, if nothing did."""
    async with open_store(url):
        pass  # its tables are made once
    chance = random.Random(plan.seed)
    lives = [chance.randint(1, max(1, plan.each // 4)) if n < plan.kills else 0 for n in range(plan.processes)]
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(plan.processes) as pool:
        all_lives = [
            loop.run_in_executor(pool, _until_done, url, witness, plan, number, dies, patience)
            for number, dies in enumerate(lives)
        ]
        deaths = sum(await asyncio.gather(*all_lives))
    seen = Witness(witness)
    async with open_store(url) as store:
        found = await problems(store, seen, plan)
        if not found:
            found = await give_back_what_nobody_saw(store, seen, plan)
    if deaths * 3 < plan.kills * 2:  # a process that was let claim little may have lived to its end
        found.append(f"only {deaths} processes died")
    return found


def _until_done(url: str, witness: Path, plan: Plan, number: int, dies_at: int, patience: float) -> int:
    """Start a process until it gets to its end; how often it died."""
    until = time.monotonic() + patience
    for deaths in (0, 1):
        process = start(live, url, witness, plan, number, 0 if deaths else dies_at)
        process.join(until - time.monotonic())
        if process.exitcode == 0:
            return deaths
        if process.exitcode != -signal.SIGKILL:
            process.kill()
            raise AssertionError(f"process {number} ended with {process.exitcode}")
    raise AssertionError(f"process {number} died twice")


class Took(msgspec.Struct, frozen=True):
    """A call that took a share, by its log."""

    run: str
    call: str
    name: str
    cents: int


async def problems(store: DeskStore, seen: Witness, plan: Plan) -> list[str]:
    """What the logs, the store's sums and the witness say, side by side."""
    took = await taken_by_logs(store)
    cents = sum(each.cents for each in took)
    by_logs = {"sum": cents, "uses": len(took)}
    by_store = await _sums(store)
    effects = Counter(line.split()[0] for line in seen.lines())
    spent = sum(int(line.split()[1]) for line in seen.lines())
    paid_for = {each.name for each in took}
    return [
        *([f"{cents} of {plan.most} cents are taken"] if cents > plan.most else []),
        *([f"{spent} of {plan.most} cents were spent"] if spent > plan.most else []),
        *([f"only {cents} of {plan.most} cents are taken"] if cents <= plan.most - LARGEST else []),
        *([f"the logs say {by_logs}, the store says {by_store}"] if by_logs != by_store else []),
        *(f"{name} was executed {times} times" for name, times in effects.items() if times > 1),
        *(f"{name} was executed and took nothing" for name in effects if name not in paid_for),
    ]


async def give_back_what_nobody_saw(store: DeskStore, seen: Witness, plan: Plan) -> list[str]:
    """A person looks what did not happen, and gives that back: as much is left then as was not spent."""
    happened = {line.split()[0] for line in seen.lines()}
    for each in await taken_by_logs(store):
        if each.name not in happened:
            await store.give_back(each.run, each.call, by="ann", reason="nothing was paid")
    spent = sum(int(line.split()[1]) for line in seen.lines())
    found = await problems(store, seen, plan)
    sums = await _sums(store)
    too_few = [each for each in found if each.startswith("only")]
    return [
        *(each for each in found if each not in too_few),
        *([f"{spent} cents were spent, and {sums} count"] if sums != {"sum": spent, "uses": len(happened)} else []),
    ]


async def _sums(store: DeskStore) -> dict[str, int]:
    shares = await store.shares(rule_budget("small"), SYSTEM_CLOCK.now())
    return {"sum" if "cents" in share.limit else "uses": share.amount // 10**6 for share in shares}


async def taken_by_logs(store: DeskStore) -> list[Took]:
    """What was taken and not given back, by the logs alone."""
    operators = read_lines((await store.operators_log()).lines)
    back = {(fact.run, fact.call) for record in operators for fact in record.facts if isinstance(fact, BudgetGivenBack)}
    found: list[Took] = []
    cursor: str | None = None
    while True:
        page = await store.runs(RunQuery(cursor=cursor, limit=1000))
        for row in page.rows:
            stored = await store.load(row.id)
            assert stored is not None
            assert stored.log is not None
            facts = [fact for record in read_lines(stored.log.lines) for fact in record.facts]
            (name,) = _names(facts)  # each call has a session of its own
            found += [
                Took(row.id, fact.call, name, _cents(fact))
                for fact in facts
                if isinstance(fact, BudgetTaken) and (row.id, fact.call) not in back
            ]
        cursor = page.cursor
        if cursor is None:
            return found


def _names(facts: Iterable[object]) -> list[str]:
    """What calls are called: their guest put it into the arguments."""
    proposed = [call for fact in facts if isinstance(fact, CallsProposed) for call in fact.calls]
    return [json.loads(str(call.item["arguments"]))["name"] for call in proposed]


def _cents(fact: BudgetTaken) -> int:
    return next(part.amount for part in fact.parts if "cents" in part.limit) // 10**6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    plan = Plan(calls=given.calls, processes=given.processes, kills=given.kills, seed=given.seed)
    with tempfile.TemporaryDirectory() as folder, a_store(given.store, Path(folder)) as url:
        found = asyncio.run(torture(url, Path(folder) / "witness", plan))
    sys.stdout.write("\n".join(found) or f"never overspent, and the logs explain what is left (seed {plan.seed})")
    sys.stdout.write("\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
