"""The soak: a fleet on a real PostgreSQL, to which everything happens that can, for as long as it is given.

    python3 dev.py soak [--minutes 10] [--seed N] [--workers 4] [--open 150]

Runs are begun without a pause; a crowd of reviewers decides what they ask, sometimes two of them at the same moment
and in contradiction; workers are killed, frozen, thawed and stopped; the queue is emptied, and filled twice; the
database is restarted. At the end the logs are compared with two witnesses that lie outside of Placet: the file to
which tools wrote what they did, and the reviewers' own notes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":  # as a script, only the folder of this file is searched
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psycopg

from placet import PlacetError, StoreError
from placet.core.log import read_line
from placet.desk import Desk, DeskRequest
from placet.facts.events import CallEnded, CallInDoubt, CallsStarted, DecisionMade, PlainFact, Verdict
from placet.facts.ids import key_of_request
from placet.stores.postgres import PostgresStore
from tests.desk.scenes import Witness
from tests.fleet.crew import WITNESS, agents, happened
from tests.fleet.workers import WorkerProcess
from tests.support.postgres import PostgresServer

LEASE = 3.0
TURNS = ("pay", "mail", "note", "look", "pay look", "pay mail", "note mail", "pay pay", "look note pay", "mail mail")


@dataclass
class Plan:
    """How long and how hard."""

    seconds: float
    seed: int
    workers: int = 4
    open_runs: int = 150
    """How many runs are unfinished at any time."""
    reviewers: int = 6
    patience: float = 120.0
    """Seconds that everything gets to come to its end when no more runs are begun."""


@dataclass
class Tally:
    """What was done, by whom, outside of Placet."""

    runs: list[str] = field(default_factory=list)
    said: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The verdicts about a request that the desk accepted."""
    doubts_run_again: Counter[str] = field(default_factory=Counter)
    """How often a person said «run it again» of a call in doubt."""
    refused: int = 0
    resumed: Counter[str] = field(default_factory=Counter)
    """What an operator had gone on with, by what had stopped it."""
    done: Counter[str] = field(default_factory=Counter)
    """What happened to workers, queue and database."""


class Soak:
    def __init__(self, plan: Plan, server: PostgresServer, folder: Path) -> None:
        self.plan = plan
        self.server = server
        self.url = server.new_database()
        self.witness = Witness(folder / "witness")
        os.environ[WITNESS] = str(self.witness.path)
        self.chance = random.Random(plan.seed)
        self.tally = Tally()
        self.workers: list[WorkerProcess] = []
        self.over = asyncio.Event()
        """No more runs are begun, and nothing more happens to anybody."""

    def worker(self) -> WorkerProcess:
        return WorkerProcess(self.url, "--lease", str(LEASE), "--grace", "2", "--concurrency", "8")

    # -- the whole ----------------------------------------------------------------------------------------------------

    async def run(self) -> Tally:
        self.workers = [self.worker() for _ in range(self.plan.workers)]
        async with AsyncExitStack() as stack:
            stack.callback(self._end_workers)
            await asyncio.gather(*(worker.is_ready() for worker in self.workers))
            stores = [PostgresStore(self.url, lease_ttl=LEASE) for _ in range(3)]
            desks = [Desk(await stack.enter_async_context(store), agents=agents, run=False) for store in stores]
            tasks = [
                asyncio.create_task(work)
                for work in (
                    self._begin_runs(desks[0]),
                    self._trouble(),
                    self._operate(desks[0]),
                    *(self._review(desks[1 + n % 2], n) for n in range(self.plan.reviewers)),
                )
            ]
            stack.push_async_callback(self._end, tasks)
            await asyncio.sleep(self.plan.seconds)
            self.over.set()
            await tasks[0]
            await tasks[1]
            await self._all_ended(desks[0], tasks)
        return self.tally

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _end_workers(self) -> None:
        for worker in self.workers:
            worker.end()

    async def _all_ended(self, desk: Desk, tasks: list[asyncio.Task[None]]) -> None:
        give_up = time.monotonic() + self.plan.patience
        while left := await self._open(desk):
            for task in tasks:
                if task.done() and task.exception() is not None:
                    raise AssertionError(f"seed {self.plan.seed}: somebody of the scene failed") from task.exception()
            assert time.monotonic() < give_up, f"seed {self.plan.seed}: {left} runs never ended"
            await asyncio.sleep(0.2)

    async def _open(self, desk: Desk) -> int:
        count = b"SELECT count(*) FROM placet_runs WHERE status <> 'ended' AND length > 0"
        assert isinstance(desk.store, PostgresStore)
        ((left,),) = await desk.store.query(count)
        return int(left)

    # -- those who begin and decide -----------------------------------------------------------------------------------

    async def _begin_runs(self, desk: Desk) -> None:
        while not self.over.is_set():
            room = self.plan.open_runs - await self._open(desk)
            for _ in range(max(0, room)):
                turns = "|".join(self.chance.choice(TURNS) for _ in range(self.chance.randint(1, 3)))
                name = self.chance.choice(["Crew", "Crew", "Night shift"])
                run = await desk.start(name, turns, by="soak")
                self.tally.runs.append(run.id)
            await asyncio.sleep(0.05)

    async def _review(self, desk: Desk, number: int) -> None:
        chance = random.Random(f"{self.plan.seed} {number}")
        while True:
            with suppress(StoreError):  # the database is away: it comes back
                asked = await desk.pending(limit=100)
                for request in chance.sample(asked, min(len(asked), 25)):
                    await self._decide(desk, request, chance, f"reviewer {number}")
                    if chance.random() < 0.1:  # another one, at the same moment, who may see it differently
                        await self._decide(desk, request, chance, f"reviewer {number}, again")
            await asyncio.sleep(chance.uniform(0, 0.1))

    async def _decide(self, desk: Desk, request: DeskRequest, chance: random.Random, by: str) -> None:
        verdict, more = self._verdict(request, chance)
        while True:
            try:
                await desk.decide(request.id, verdict, by=by, **more)  # type: ignore[arg-type]
            except StoreError:
                await asyncio.sleep(0.2)  # nobody knows whether it was taken: say the same again
                continue
            except PlacetError:
                self.tally.refused += 1  # somebody else was first, or the question is gone
                return
            self.tally.said[key_of_request(request.id)].add(verdict)
            if request.kind == "in_doubt" and verdict == "approve":
                self.tally.doubts_run_again[key_of_request(request.id).partition("#")[0]] += 1
            return

    def _verdict(self, request: DeskRequest, chance: random.Random) -> tuple[Verdict, dict[str, object]]:
        if request.kind == "in_doubt":
            known = happened(key_of_request(request.id).partition("#")[0])
            return ("respond", {"output": "it happened"}) if known else ("approve", {})
        drawn = chance.random()
        if drawn < 0.7:
            return "approve", {}
        if drawn < 0.8:
            return "reject", {}
        if drawn < 0.9:
            return "respond", {"output": "no need"}
        return "edit", {"arguments": {"amount": 1000}}

    async def _operate(self, desk: Desk) -> None:
        """What an operator does: have runs gone on with that an error stopped."""
        stopped = (
            b"SELECT id, coalesce(stopped, 'parked') FROM placet_runs "
            b"WHERE status <> 'ended' AND (stopped IS NOT NULL OR parked)"
        )
        assert isinstance(desk.store, PostgresStore)
        while True:
            with suppress(StoreError):
                for run_id, why in await desk.store.query(stopped):
                    await desk.resume(run_id, by="operator")
                    self.tally.resumed[why] += 1
            await asyncio.sleep(1.0)

    # -- what happens to them -----------------------------------------------------------------------------------------

    async def _trouble(self) -> None:
        """One thing after another, the database once in the middle. At the end all workers live."""
        half = time.monotonic() + self.plan.seconds / 2
        kinds: list[Callable[[], Awaitable[None]]] = [
            self._kill, self._kill, self._freeze, self._freeze, self._stop, self._empty_queue, self._ring_twice,
        ]  # fmt: skip
        first = list(kinds)  # each kind at least once, in an order that the seed draws
        self.chance.shuffle(first)
        while not self.over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), self.chance.uniform(0.5, 2.5))
                return
            if time.monotonic() > half and not self.tally.done["database restarted"]:
                await self._restart_database()
            await (first.pop() if first else self.chance.choice(kinds))()

    def _anyone(self) -> int:
        return self.chance.randrange(len(self.workers))

    async def _replace(self, place: int) -> None:
        self.workers[place].end()
        self.workers[place] = self.worker()

    async def _kill(self) -> None:
        place = self._anyone()
        self.workers[place].signal(signal.SIGKILL)
        await self._replace(place)
        self.tally.done["killed"] += 1

    async def _freeze(self) -> None:
        worker = self.workers[self._anyone()]
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(self.chance.uniform(0.1, 1.8 * LEASE))
        worker.signal(signal.SIGCONT)
        self.tally.done["frozen and thawed"] += 1

    async def _stop(self) -> None:
        place = self._anyone()
        await self.workers[place].is_ready()  # one that only begins is ended by the signal itself
        self.workers[place].signal(signal.SIGTERM)
        assert await self.workers[place].ended() == 0, self.workers[place].said()
        await self._replace(place)
        self.tally.done["stopped"] += 1

    async def _empty_queue(self) -> None:
        await asyncio.to_thread(self._sql, b"DELETE FROM procrastinate_jobs")
        self.tally.done["queue emptied"] += 1

    async def _ring_twice(self) -> None:
        """Every job that waits, once more."""
        again = (
            b"INSERT INTO procrastinate_jobs (queue_name, task_name, args) "
            b"SELECT queue_name, task_name, args FROM procrastinate_jobs"
        )
        await asyncio.to_thread(self._sql, again)
        self.tally.done["rung twice"] += 1

    def _sql(self, statement: bytes) -> None:
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute(statement)

    async def _restart_database(self) -> None:
        await asyncio.to_thread(self.server.stop)
        await asyncio.sleep(self.chance.uniform(0, 1))
        await asyncio.to_thread(self.server.start)
        self.tally.done["database restarted"] += 1


# -- the comparison ---------------------------------------------------------------------------------------------------


@dataclass
class CallStory:
    """What the log says of one call."""

    starts: int = 0
    doubts: int = 0
    decisions: dict[int, list[DecisionMade]] = field(default_factory=lambda: defaultdict(list))
    ends: list[CallEnded] = field(default_factory=list)


async def contradictions(soak: Soak) -> list[str]:
    """Everything in which the logs and the witnesses disagree, in words."""
    effects: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in soak.witness.lines():
        kind, key, amount = line.split()
        effects[key].append((kind, int(amount)))
    found: list[str] = []
    known: set[str] = set()
    async with PostgresStore(soak.url) as store:
        for run_id in soak.tally.runs:
            stored = await store.load(run_id)
            assert stored is not None
            assert stored.log is not None
            row = await store.run(run_id)
            if row is None or row.status != "ended":
                found.append(f"{run_id} has not ended")
            for call, story in _calls([fact for line in stored.log.lines for fact in read_line(line).facts]).items():
                key = f"{run_id}:{call}"
                known.add(key)
                found += _judge(key, story, effects[key], soak.tally)
    found += [f"{key}: an effect that no log knows" for key in set(effects) - known]
    return found


def _calls(facts: list[PlainFact]) -> dict[str, CallStory]:
    calls: dict[str, CallStory] = defaultdict(CallStory)
    for fact in facts:
        match fact:
            case CallsStarted(started):
                for call in started:
                    calls[call].starts += 1
            case CallInDoubt(call):
                calls[call].doubts += 1
            case DecisionMade(call, request):
                calls[call].decisions[request].append(fact)
            case CallEnded(call):
                calls[call].ends.append(fact)
            case _:
                pass
    return calls


def _judge(key: str, story: CallStory, effects: list[tuple[str, int]], tally: Tally) -> list[str]:
    found = []
    if len(story.ends) != 1:
        found.append(f"{key} has {len(story.ends)} ends")
    for number, decisions in story.decisions.items():
        said = tally.said[f"{key}#{number}"]
        if len(decisions) != 1:
            found.append(f"{key}#{number} was decided {len(decisions)} times")
        elif said != {decisions[0].verdict}:
            found.append(f"{key}#{number} is {decisions[0].verdict}, and reviewers were told {said or 'nothing'}")
    kind = effects[0][0] if effects else ""
    first = story.decisions[1][0] if story.decisions.get(1) else None
    if first is not None and first.verdict in ("reject", "respond") and not story.starts and effects:
        found.append(f"{key} was not to run, and ran")
    if len(effects) > story.starts:
        found.append(f"{key} has {story.starts} claims and {len(effects)} effects")
    if kind in ("pay", "look") and story.starts > 1 + tally.doubts_run_again[key]:
        found.append(f"{key} was run again, and nobody said so")
    if story.ends and story.ends[0].outcome == "finished" and not effects:
        found.append(f"{key} is said to have finished, and nothing happened")
    wanted = {first.arguments["amount"]} if first is not None and first.arguments else None
    if wanted is not None and {amount for _, amount in effects} - wanted:
        found.append(f"{key} was to run with {wanted}, and ran with {effects}")
    return found


def report(soak: Soak, seconds: float) -> str:
    effects = Counter(line.split()[1] for line in soak.witness.lines())
    tally = soak.tally
    lines = [
        f"seed {soak.plan.seed}, {soak.plan.workers} workers, {seconds:.0f} s",
        f"runs: {len(tally.runs)}, effects: {len(effects)}, resumed by an operator: {dict(tally.resumed)}",
        f"decisions: {len(tally.said)}, late or contradicting ones refused: {tally.refused}",
        "happened: " + ", ".join(f"{count} × {what}" for what, count in sorted(tally.done.items())),
        f"calls in doubt that a person had run again: {sum(tally.doubts_run_again.values())}",
        f"effects seen more than once: {sum(count > 1 for count in effects.values())}",
    ]
    return "\n".join(lines)


async def leftovers(soak: Soak) -> dict[str, int]:
    """How many rows the queue keeps when everything has ended."""
    async with PostgresStore(soak.url) as store:
        ((jobs, events),) = await store.query(
            b"SELECT (SELECT count(*) FROM procrastinate_jobs), (SELECT count(*) FROM procrastinate_events)"
        )
    return {"jobs": jobs, "events": events}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dev.py soak", description="A fleet to which everything happens that can.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long runs are begun (default: 10)")
    parser.add_argument("--seed", type=int, default=None, help="repeat what this seed drew")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--open", type=int, default=150, help="unfinished runs at any time (default: 150)")
    asked = parser.parse_args(arguments)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    server = PostgresServer(max_connections="200")
    try:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(_main(Plan(60 * asked.minutes, seed, asked.workers, asked.open), server, Path(folder)))
    finally:
        server.close()


async def _main(plan: Plan, server: PostgresServer, folder: Path) -> int:
    began = time.monotonic()
    soak = Soak(plan, server, folder)
    await soak.run()
    found = await contradictions(soak)
    print(report(soak, time.monotonic() - began))
    print(f"left in the queue: {await leftovers(soak)}")
    for sentence in found:
        print(f"CONTRADICTION {sentence}")
    print("the logs and the witnesses agree" if not found else f"{len(found)} contradictions")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
