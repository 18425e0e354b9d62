"""The benchmark of the fleet: python3 dev.py bench fleet [--quick] [--docs] [--out FILE].

Placet's workers beside workers of Procrastinate whose jobs do nothing, on the same real PostgreSQL, in one run: how
much gets done with 1, 2 and 4 workers, how long it takes from a person's word to its effect, and both with 100,000
runs that wait in the same tables. Figures are times of the clock on the wall: a fleet is many processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

if __name__ == "__main__":  # as a script, only the folder of this file is searched
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.fleet_agents import EFFECTS, agents
from bench.fleet_limit import CONCURRENCY, make_app
from bench.results import place
from placet.desk import Desk
from placet.fleet.schema import migrate
from placet.stores.postgres import PostgresStore
from tests.support.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "fleet.md"
BEGIN, END = "<!-- figures: written by `python3 dev.py bench fleet --docs` -->", "<!-- end of the figures -->"
PATIENCE = 600.0


@dataclass(frozen=True)
class Sizes:
    runs: int
    jobs: int
    decisions: int
    waiting: int
    workers: tuple[int, ...]


WHOLE = Sizes(runs=500, jobs=1500, decisions=150, waiting=100_000, workers=(1, 2, 4))
QUICK = Sizes(runs=20, jobs=50, decisions=5, waiting=200, workers=(1, 2))


@dataclass(frozen=True)
class Figures:
    """One row: with so many workers, and so many runs waiting in the tables."""

    workers: int
    waiting: int
    runs_per_second: float
    jobs_per_second: float
    effect_median: float
    effect_p99: float
    job_median: float
    job_p99: float


# -- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def processes(count: int, command: list[str]) -> Iterator[None]:
    """So many of them, until the end of the block."""
    started = [subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def placet_workers(count: int, url: str) -> list[str]:
    return ["-m", "placet.cli.main", "worker", "bench.fleet_agents:agents", "--store", url, "--concurrency",
            str(CONCURRENCY), "--grace", "1"]  # fmt: skip


# -- Placet -----------------------------------------------------------------------------------------------------------


async def runs_per_second(desk: Desk, store: PostgresStore, count: int, runs: int) -> float:
    """Runs that only answer, all begun before the first worker: how many end in a second, first to last."""
    for _ in range(runs):
        await desk.start("Talker", "hello")
    ended = (
        b"SELECT count(*), max(ended_at) - min(ended_at) FROM placet_runs WHERE agent = 'Talker' AND ended_at > %(t)s"
    )
    began = time.time()
    with processes(count, placet_workers(count, store.url)):
        while True:
            ((done, seconds),) = await store.query(ended, {"t": began})
            if done == runs:
                return float((runs - 1) / seconds)
            _check(began)
            await asyncio.sleep(0.1)


async def effect_latencies(desk: Desk, store: PostgresStore, count: int, decisions: int, file: Path) -> list[float]:
    """From the moment in which somebody decides to the moment in which the tool acts, one after the other."""
    with processes(count, placet_workers(count, store.url)):
        runs = [(await desk.start("Support", "x")).id for _ in range(decisions)]
        for run in runs:
            await desk.wait(run, until="paused", timeout=PATIENCE)
        found = []
        for run in runs:
            (asked,) = await desk.pending(run_id=run)
            began = time.time()
            await desk.decide(asked.id, "approve", by="bench")
            found.append(await _moment(asked.id.partition("#")[0], file) - began)
            await desk.wait(run, timeout=PATIENCE)
        return found


# -- the limit --------------------------------------------------------------------------------------------------------


async def jobs_per_second(url: str, store: PostgresStore, count: int, jobs: int) -> float:
    app = make_app(url)
    async with app.open_async():
        await app.configure_task("bench:nothing").batch_defer_async(*({"number": number} for number in range(jobs)))
    done = (
        b"SELECT count(*), extract(epoch FROM max(at) - min(at))::float8 FROM procrastinate_events e "
        b"JOIN procrastinate_jobs j ON j.id = e.job_id WHERE e.type = 'succeeded' AND j.task_name = 'bench:nothing'"
    )
    began = time.time()
    with processes(count, ["-m", "bench.fleet_limit", url]):
        while True:
            ((ended, seconds),) = await store.query(done)
            if ended == jobs:
                break
            _check(began)
            await asyncio.sleep(0.1)
    await store.query(b"DELETE FROM procrastinate_jobs")
    return float((jobs - 1) / seconds)


async def job_latencies(url: str, store: PostgresStore, count: int, jobs: int, file: Path) -> list[float]:
    """From the moment in which a job is deferred to the moment in which it runs."""
    app = make_app(url)
    found = []
    async with app.open_async():
        with processes(count, ["-m", "bench.fleet_limit", url]):
            for number in range(-5, jobs):  # the first ones wait for the workers to begin
                began = time.time()
                await app.configure_task("bench:note").defer_async(key=f"job{number}")
                found.append(await _moment(f"job{number}", file) - began)
                await asyncio.sleep(0.02)
    await store.query(b"DELETE FROM procrastinate_jobs")
    return found[5:]


async def _moment(key: str, file: Path) -> float:
    """When the effect with this key happened: it writes so itself, and this only waits for it."""
    start = time.time()
    while (found := _newest(file)) is None or found[0] != key:
        _check(start)
        await asyncio.sleep(0.005)
    return found[1]


def _newest(file: Path) -> tuple[str, float] | None:
    lines = file.read_text().splitlines() if file.exists() else []
    key, _, moment = lines[-1].partition(" ") if lines else ("", "", "")
    return (key, float(moment)) if moment else None


def _check(began: float) -> None:
    if time.time() - began > PATIENCE:
        raise SystemExit("bench: the fleet did not get done in time; nothing was measured.")


# -- many runs that wait ----------------------------------------------------------------------------------------------


async def fill(desk: Desk, store: PostgresStore, waiting: int) -> None:
    """Have so many runs wait: one really pauses, and its rows are copied, log and question and all."""
    with processes(1, placet_workers(1, store.url)):
        run = await desk.start("Support", "x")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
    for statement in COPIES:
        await store.query(statement, {"id": run.id, "count": waiting - 1})
    await store.query(b"ANALYZE")


COPIES = (
    b"""INSERT INTO placet_runs (id, agent, status, length, head, key, created_at, updated_at, turn)
        SELECT r.id || 'x' || n, agent, status, length, head, key, created_at, updated_at, turn
        FROM placet_runs r, generate_series(1, %(count)s) n WHERE r.id = %(id)s""",
    b"""INSERT INTO placet_lines (sequence, run, position, text, checksum)
        SELECT -(c.number * 1000 + l.position), c.number, l.position, l.text, l.checksum
        FROM placet_runs r JOIN placet_lines l ON l.run = r.number, placet_runs c
        WHERE r.id = %(id)s AND c.id LIKE r.id || 'x%%' AND %(count)s > 0""",
    b"""INSERT INTO placet_requests (id, run, call, number, status, agent, tool, data)
        SELECT c.id || ':1.0#1', c.number, q.call, q.number, q.status, q.agent, q.tool, q.data
        FROM placet_runs r JOIN placet_requests q ON q.run = r.number, placet_runs c
        WHERE r.id = %(id)s AND c.id LIKE r.id || 'x%%' AND %(count)s > 0""",
)


# -- the whole --------------------------------------------------------------------------------------------------------


async def measure(server: PostgresServer, sizes: Sizes, folder: Path) -> list[Figures]:
    found = [await one(server, sizes, count, 0, folder) for count in sizes.workers]
    return [*found, await one(server, sizes, sizes.workers[-1], sizes.waiting, folder)]


async def one(server: PostgresServer, sizes: Sizes, count: int, waiting: int, folder: Path) -> Figures:
    url = server.new_database()
    file = folder / f"effects-{count}-{waiting}"
    os.environ[EFFECTS] = str(file)
    async with PostgresStore(url) as store:
        desk = Desk(store, agents=agents, run=False)
        await migrate(store)
        if waiting:
            await fill(desk, store, waiting)
        jobs = await jobs_per_second(url, store, count, sizes.jobs)
        runs = await runs_per_second(desk, store, count, sizes.runs)
        of_jobs = await job_latencies(url, store, count, sizes.decisions, file)
        of_effects = await effect_latencies(desk, store, count, sizes.decisions, file)
    figures = Figures(
        count,
        waiting,
        runs,
        jobs,
        statistics.median(of_effects),
        p99(of_effects),
        statistics.median(of_jobs),
        p99(of_jobs),
    )
    print(figures, file=sys.stderr, flush=True)
    return figures


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.99 * len(values)))]


COLUMNS = (
    "workers",
    "runs that wait",
    "runs/s",
    "empty jobs/s",
    "jobs per run",
    "decision to effect: median",
    "99th",
    "job to its function: median",
    "99th",
)


def table(found: list[Figures]) -> str:
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---:|' * len(COLUMNS)}",
    ]
    for each in found:
        cells = [
            f"{each.workers}",
            f"{each.waiting:,}",
            f"{each.runs_per_second:.0f}",
            f"{each.jobs_per_second:.0f}",
            f"{each.jobs_per_second / each.runs_per_second:.1f}",
            f"{1000 * each.effect_median:.0f} ms",
            f"{1000 * each.effect_p99:.0f} ms",
            f"{1000 * each.job_median:.0f} ms",
            f"{1000 * each.job_p99:.0f} ms",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def circumstances() -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("placet", "procrastinate", "psycopg"))
    cores = f"{os.cpu_count()} cores shared by the database, the workers and other programs"
    return f"{datetime.now(UTC):%Y-%m-%d} · {cores}, {platform.machine()} · {versions} · PostgreSQL 18, fsync on"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dev.py bench fleet", description="The fleet beside empty jobs, in one run.")
    parser.add_argument("--quick", action="store_true", help="very small: does it work?")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/fleet.md")
    parser.add_argument("--out", type=place, metavar="FILE", help="write the figures as JSON")
    asked = parser.parse_args(arguments)
    if asked.docs and asked.quick:
        parser.error("--docs needs a whole run, without --quick")
    server = PostgresServer(fsync="on", full_page_writes="on", shared_buffers="256MB", max_connections="200")
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(server, QUICK if asked.quick else WHOLE, Path(folder)))
    finally:
        server.close()
    print(table(found))
    print(f"\n{circumstances()}")
    if asked.out:
        asked.out.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    if asked.docs:
        write_docs(found)
    return 0


def write_docs(found: list[Figures]) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{circumstances()}\n\n{table(found)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
