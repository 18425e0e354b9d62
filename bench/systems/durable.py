"""Durable runs beside what people use for them: processor time, statements, bytes, from a word to its effect, and what
a kill does twice. On PostgreSQL with fsync, and on SQLite with a commit on the disk for each durable point."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psycopg

import dev
from bench.bars import bars
from bench.durable.processes import Cost, Failed, FileMeter, PostgresMeter, Program, running
from bench.durable.script import EFFECTS, LINGER, calls_of, name
from bench.environments import LOCKS, PLACES
from bench.systems.report import options_of, write_part
from bench.table import as_markdown, as_text
from bench.work import ROOT
from tests.support.postgres import PostgresServer

KINDS = ("PostgreSQL", "SQLite")
TURNS, SHORT = 10, 5
"""Requests to the model of a long run, in which nobody is asked, and of one with an approval."""


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    python: str
    lock: str | None = None


def _peer(label: str, lock: str, module: str) -> Contender:
    return Contender(label, f"bench.durable.{module}", str(PLACES / "durable" / lock / "bin" / "python"), lock)


PLACET = Contender("placet", "bench.durable.on_placet", sys.executable)
PEERS = (
    _peer("RunState in a column", "openai-agents", "on_run_state"),
    _peer("LangGraph and its saver", "langgraph", "on_langgraph"),
    _peer("DBOS", "dbos", "on_dbos"),
)


@dataclass(frozen=True)
class Sizes:
    rounds: int
    alone: int
    crowd: int
    workers: int
    paced: int
    killed: int
    linger: float


WHOLE = Sizes(rounds=3, alone=60, crowd=200, workers=4, paced=64, killed=50, linger=1.5)
QUICK = Sizes(rounds=1, alone=2, crowd=4, workers=1, paced=2, killed=2, linger=1.0)


@dataclass
class Found:
    """What one contender cost on one database: milliseconds, bytes and counts of one run."""

    contender: str
    kind: str
    values: dict[str, float] = field(default_factory=dict)

    def least(self, **seen: float) -> None:
        for key, value in seen.items():
            self.values[key] = min(value, self.values.get(key, value))


# -- one contender on one database ------------------------------------------------------------------------------------


class Scene:
    """An empty database of a contender, its meter and its witness."""

    def __init__(self, contender: Contender, kind: str, server: PostgresServer, folder: Path) -> None:
        self.contender = contender
        self.kind = kind
        self.effects = folder / "effects"
        files = folder / "files"
        files.mkdir()
        if kind == "SQLite":
            self.database = f"sqlite:///{files / 'runs.db'}"
            self.meter: PostgresMeter | FileMeter = FileMeter(files)
        else:
            self.database = server.new_database()
            self.meter = PostgresMeter(self.database, server.folder)
        self.folder = server.folder
        prepare = self.program("prepare")
        with running([prepare]):
            pass

    def program(self, role: str, *more: str, **env: str) -> Program:
        env = {EFFECTS: str(self.effects)} | env
        return Program(self.contender.python, self.contender.module, role, self.database, *more, **env)

    def workers(self, count: int, **env: str) -> list[Program]:
        count = count if self.kind == "PostgreSQL" else 1  # one process holds the file
        return [self.program("work", "16", PLACET_BENCH_WORKER=f"w{number}", **env) for number in range(count)]

    def check(self, runs: Sequence[str], *, at_least: bool = False) -> int:
        """Every effect was seen, once; with `at_least`, how many came twice."""
        seen = Counter(line.split()[0] for line in self.effects.read_text().splitlines())
        wanted = {f"{run}.{number}" for run in runs for number in range(calls_of(run))}
        twice = sum(seen[each] > 1 for each in wanted)
        if any(not seen[each] for each in wanted) or (twice and not at_least):
            lost = sorted(each for each in wanted if seen[each] != 1)
            raise Failed(f"{self.contender.name}, {self.kind}: the witness saw {lost[:5]} not once.")
        return twice


def alone(scene: Scene, sizes: Sizes, found: Found) -> None:
    """Runs of ten requests, one after the other, in one process."""
    warm = [name(f"w{number}", TURNS, gated=False) for number in range(max(2, sizes.alone // 4))]
    runs = [name(number, TURNS, gated=False) for number in range(sizes.alone)]
    with running([scene.program("alone")]) as programs:
        programs[0].ask(runs=warm)
        before = scene.meter.read(programs)
        programs[0].ask(runs=runs)
        cost = scene.meter.read(programs).minus(before)
    scene.check(runs)
    _note(found, "alone", cost, len(runs))


def crowd(scene: Scene, sizes: Sizes, found: Found) -> None:
    """Runs of five requests with one approval, by some workers, and a front that begins and decides."""
    warm = [name(f"w{number}", SHORT, gated=True) for number in range(max(2, sizes.crowd // 5))]
    runs = [name(number, SHORT, gated=True) for number in range(sizes.crowd)]
    with running([scene.program("front"), *scene.workers(sizes.workers)]) as programs:
        programs[0].ask(runs=warm)
        before, began = scene.meter.read(programs), time.perf_counter()
        programs[0].ask(runs=runs)
        seconds = time.perf_counter() - began
        cost = scene.meter.read(programs).minus(before)
        _note(found, "crowd", cost, len(runs))
        found.least(crowd_seconds=seconds / len(runs))
        paced = [name(f"p{number}", SHORT, gated=True) for number in range(sizes.paced)]
        decided: dict[str, float] = programs[0].ask(runs=paced, rate=16)
    scene.check([*runs, *paced])
    acted = {line.split()[0]: float(line.split()[1]) for line in scene.effects.read_text().splitlines()}
    waits = sorted(1000 * (acted[order] - at) for order, at in decided.items())
    found.least(effect_p50=statistics.median(waits), effect_p95=waits[round(0.95 * (len(waits) - 1))])


def _note(found: Found, work: str, cost: Cost, runs: int) -> None:
    found.least(
        **{
            f"{work}_cpu": 1000 * (cost.program + cost.server) / runs,
            f"{work}_server": 1000 * cost.server / runs,
            f"{work}_wal": cost.wal / runs,
            f"{work}_kept": cost.kept / runs,
        }
    )


def kill(scene: Scene, sizes: Sizes, found: Found) -> None:
    """Kill all workers with -9 while tools are between their effect and their end; new ones go on."""
    runs = [name(f"k{number}", 2, gated=False) for number in range(sizes.killed)]
    victims = scene.workers(sizes.workers, **{LINGER: str(sizes.linger)})
    with running([scene.program("front")]) as programs:
        front = programs[0]
        front.tell(runs=runs)
        with running(victims):
            give_up = time.monotonic() + 60
            while _seen(scene.effects) < len(runs) and time.monotonic() < give_up:
                time.sleep(0.02)
            for each in victims:
                each.kill()
        with running(scene.workers(sizes.workers)):
            front.answer()
    found.least(twice=scene.check(runs, at_least=True))


def _seen(effects: Path) -> int:
    return len(effects.read_text().splitlines()) if effects.exists() else 0


# -- statements -------------------------------------------------------------------------------------------------------


def statements(contender: Contender, server: PostgresServer, sizes: Sizes, found: Found) -> None:
    """Counted in the server's own log of statements, in a pass of its own, since writing it takes time, too."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(contender, "PostgreSQL", server, Path(folder))
        count = max(2, sizes.crowd // 5)
        warm = [name(f"w{number}", SHORT, gated=True) for number in range(count)]
        runs = [name(number, SHORT, gated=True) for number in range(count)]
        with running([scene.program("front"), *scene.workers(sizes.workers)]) as programs:
            programs[0].ask(runs=warm)
            with _logged(server) as log:
                before = log.stat().st_size
                programs[0].ask(runs=runs)
        with log.open("rb") as file:
            file.seek(before)
            executed = sum(b"execute " in line or b"statement: " in line for line in file if b"duration: " in line)
    found.least(crowd_statements=executed / count)


@contextmanager
def _logged(server: PostgresServer) -> Iterator[Path]:
    with psycopg.connect(server.url(), autocommit=True) as db:
        try:
            db.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
            db.execute("SELECT pg_reload_conf()")
            time.sleep(0.3)  # each connection reads it when it is idle
            yield Path(server.folder) / "server.log"
        finally:
            db.execute("ALTER SYSTEM RESET log_min_duration_statement")
            db.execute("SELECT pg_reload_conf()")


# -- the whole --------------------------------------------------------------------------------------------------------


def measure(contenders: Sequence[Contender], kinds: Sequence[str], sizes: Sizes, only: Sequence[str]) -> list[Found]:
    """Contenders take turns within a round, so that all see the same weather; the least of all rounds counts."""
    server = PostgresServer(
        fsync="on", full_page_writes="on", shared_buffers="256MB", max_connections="300", log_min_messages="log"
    )
    found = {(each.name, kind): Found(each.name, kind) for kind in kinds for each in contenders}
    works = {"alone": alone, "crowd": crowd, "kill": kill}
    try:
        for number in range(sizes.rounds):
            for kind in kinds:
                for title, work in works.items():
                    if only and title not in only:
                        continue
                    if title == "kill" and number:
                        continue  # it is not timed
                    for each in contenders:
                        _tell(f"round {number + 1}: {kind}, {title}, {each.name}")
                        with tempfile.TemporaryDirectory() as folder:
                            work(Scene(each, kind, server, Path(folder)), sizes, found[each.name, kind])
        if "PostgreSQL" in kinds and (not only or "statements" in only):
            for each in contenders:
                _tell(f"statements, {each.name}")
                statements(each, server, sizes, found[each.name, "PostgreSQL"])
    finally:
        server.close()
    return list(found.values())


def _tell(text: str) -> None:
    if sys.stderr.isatty() or os.environ.get("PLACET_BENCH_TELL"):
        print(text, file=sys.stderr, flush=True)


ROWS: tuple[tuple[str, str, str], ...] = (
    ("alone_cpu", "10 requests, nobody is asked: processor time of a run", "{:.1f} ms"),
    ("alone_server", "… of it in the server", "{:.1f} ms"),
    ("alone_wal", "… written ahead (WAL)", "{:,.0f} bytes"),
    ("alone_kept", "… kept", "{:,.0f} bytes"),
    ("crowd_cpu", "5 requests, one approval, many at once: processor time of a run", "{:.1f} ms"),
    ("crowd_server", "… of it in the server", "{:.1f} ms"),
    ("crowd_statements", "… statements", "{:.1f}"),
    ("crowd_wal", "… written ahead (WAL)", "{:,.0f} bytes"),
    ("crowd_seconds", "… runs per second on these cores, shared", "{:.1f}"),
    ("effect_p50", "from a decision to its effect, 16 a second: median", "{:.1f} ms"),
    ("effect_p95", "… 95 of 100 within", "{:.1f} ms"),
    ("twice", "all workers killed with 50 tools between effect and end: effects done twice", "{:.0f}"),
)
ONLY_POSTGRES = ("alone_server", "alone_wal", "crowd_server", "crowd_statements", "crowd_wal")


def table(found: Sequence[Found], kind: str) -> list[list[str]]:
    columns = [each for each in found if each.kind == kind]
    lines = [[kind, *(each.contender for each in columns), "best other / placet"]]
    for key, label, shape in ROWS:
        if kind != "PostgreSQL" and key in ONLY_POSTGRES:
            continue
        values = [each.values.get(key) for each in columns]
        shown = [1 / value if key == "crowd_seconds" and value else value for value in values]
        cells = ["–" if value is None else shape.format(value) for value in shown]
        lines.append([label, *cells, _ratio(key, values)])
    return lines


def _ratio(key: str, values: Sequence[float | None]) -> str:
    mine, *others = values
    known = [each for each in others if each is not None]
    return "" if key == "twice" or not mine or not known else f"{min(known) / mine:.2f}"


def circumstances() -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"{today} · {os.cpu_count()} cores shared with other work, {platform.machine()}, {platform.system()} · Python "
        f"{platform.python_version()} · PostgreSQL 18, fsync on · {', '.join(_versions())}"
    )


def _versions() -> Iterator[str]:
    wanted = {"openai-agents": ("openai-agents",), "langgraph": ("langgraph", "langgraph-checkpoint-postgres")}
    for lock in ("openai-agents", "langgraph", "dbos"):
        for line in (LOCKS / "durable" / f"{lock}.lock").read_text().splitlines():
            package, _, version = line.partition("==")
            if package in wanted.get(lock, (lock,)):
                yield f"{package} {version.split()[0]}"


def set_up(contenders: Sequence[Contender]) -> None:
    for each in contenders:
        if each.lock is not None:
            place = PLACES / "durable" / each.lock
            dev.set_up_apart(place, LOCKS / "durable" / f"{each.lock}.lock", f"{each.name}, for the benchmark")


def main(arguments: Sequence[str]) -> int:
    options = options_of("durable", __doc__ or "", arguments, with_parts=True)
    contenders = (PLACET,) if options.without_peers else (PLACET, *PEERS)
    kinds = [kind for kind in KINDS if options.store in (None, kind.lower())]
    if options.docs and (options.without_peers or options.store or options.only):
        raise SystemExit("bench durable: --docs needs a whole run beside all peers")
    try:
        set_up(contenders)
        sizes = QUICK if options.quick else replace(WHOLE, rounds=options.rounds or WHOLE.rounds)
        found = measure(contenders, kinds, sizes, options.only or ())
    except (Failed, dev.Stop, subprocess.SubprocessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    tables = [table(found, kind) for kind in kinds]
    print("\n\n".join(map(as_text, tables)) + f"\n\n{circumstances()}")
    if options.out or not options.quick:
        kept = options.out or ROOT / ".dev" / "bench" / "durable.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"at": circumstances(), "found": [asdict(each) for each in found]}, indent=1))
    if options.docs:
        write_part("durable", f"{circumstances()}\n\n" + "\n\n".join(map(as_markdown, tables)))
        title = "Processor time of a run with an approval, on PostgreSQL"
        picture = bars(title, ("the program", "the server"), _picture(found), "ms")
        (ROOT / "docs" / "img" / "bench-durable.svg").write_text(picture, encoding="utf-8")
    return 0


def _picture(found: Sequence[Found]) -> list[tuple[str, float, float]]:
    """Of each contender on PostgreSQL: the program's milliseconds and the server's."""
    rows = [(each.contender, each.values) for each in found if each.kind == "PostgreSQL"]
    return [(who, got["crowd_cpu"] - got["crowd_server"], got["crowd_server"]) for who, got in rows]
