"""The processes of a contender, and what they and PostgreSQL cost: processor time, WAL, statements, bytes.

Processor time is read from /proc, for all threads of each process, and for the server with all that it started: what a
machine does beside does not count, so a busy one gives the same figures within some tenths.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.work import ROOT

TICK = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A process of a contender ended or did less than it should; the message ends with what it said."""


class Program:
    """A process that answers each line with one."""

    def __init__(self, python: str, module: str, role: str, database: str, *more: str, **env: str) -> None:
        clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        self.name = f"{module.rpartition('.')[2]} {role}"
        self.process = subprocess.Popen(  # programs of ours
            [python, "-m", "bench.durable.program", module, role, database, *more],
            cwd=ROOT, env=clean | env | {"PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ready(self) -> None:
        while (line := self.answer()) != "ready":
            assert line is not None

    def ask(self, **asked: object) -> Any:
        self.tell(**asked)
        return self.answer()

    def tell(self, **asked: object) -> None:
        """Ask, and hear the answer later."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            try:
                return json.loads(line)
            except ValueError:
                continue  # a library that prints something
        self.process.wait()
        assert self.process.stderr is not None
        raise Failed(f"{self.name} ended:\n{self.process.stderr.read()[-3000:]}")

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@contextmanager
def running(programs: Sequence[Program]) -> Iterator[Sequence[Program]]:
    try:
        for each in programs:
            each.ready()
        yield programs
    finally:
        for each in programs:
            if each.process.poll() is None:
                each.end()


def seconds_of(pid: int, *, with_reaped: bool = False) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return (ticks + (int(fields[13]) + int(fields[14]) if with_reaped else 0)) / TICK


def server_seconds(postmaster: int) -> float:
    """The server's processes; those that ended are in what their parent has reaped."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    found = seconds_of(postmaster, with_reaped=True)
    for child in children:
        try:
            found += seconds_of(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the two looks
    return found


class Cost(NamedTuple):
    """Of some work: seconds of the program's processes and of the server, bytes of WAL, bytes that are kept."""

    program: float
    server: float
    wal: int
    kept: int

    def minus(self, other: Cost) -> Cost:
        return Cost(*(mine - its for mine, its in zip(self, other, strict=True)))


class PostgresMeter:
    """What a database on a server has cost so far."""

    def __init__(self, url: str, folder: str) -> None:
        self._url = url
        self._postmaster = int((Path(folder) / "data" / "postmaster.pid").read_text().split()[0])

    def read(self, programs: Sequence[Program]) -> Cost:
        with psycopg.connect(self._url, autocommit=True) as db:
            db.execute("SELECT pg_stat_force_next_flush()")
            row = db.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,"
                " pg_database_size(current_database())"
            ).fetchone()
            assert row is not None
        return Cost(sum(seconds_of(each.process.pid) for each in programs), server_seconds(self._postmaster), *row)


class FileMeter:
    """The same of SQLite: the program does it all, and what is kept is in the files of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, programs: Sequence[Program]) -> Cost:
        kept = sum(file.stat().st_size for file in self._folder.iterdir() if not file.name.endswith(("-wal", "-shm")))
        return Cost(sum(seconds_of(each.process.pid) for each in programs), 0.0, 0, kept)
