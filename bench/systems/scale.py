"""How far one database goes: the simulation of bench/scale.py with costs that are measured here, checked against real
runs of two sizes, and asked about machines that are not here."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench.durable.processes import running
from bench.durable.script import name
from bench.scale import Costs, Machines, most_per_second, simulate
from bench.systems.durable import PLACET, SHORT, Scene
from bench.systems.report import Report, options_of
from tests.support.postgres import PostgresServer

MEASURED = (4, 200)
"""Workers and runs with which the costs are measured."""
CHECKED = ((1, 100), (2, 300))
ASKED = (Machines(4, 2), Machines(16, 8), Machines(64, 32))


class Real(NamedTuple):
    """Runs that were really done."""

    seconds: float
    program: float
    server: float
    cores: float
    """Processors that nothing else used meanwhile."""


def main(arguments: Sequence[str]) -> int:
    options = options_of("scale", __doc__ or "", arguments)
    (workers, runs), checked = (MEASURED, CHECKED) if not options.quick else ((1, 10), ((1, 6),))
    server = PostgresServer(fsync="on", shared_buffers="256MB", max_connections="300", log_min_messages="log")
    try:
        flush = measured_flush(server.new_database(), 20 if options.quick else 400)
        base = real(server, workers, runs)
        costs = Costs(1000 * base.program / runs, 1000 * base.server / runs, flush)
        found = [(size, real(server, *size)) for size in checked]
    finally:
        server.close()
    report = Report("scale", "simulated")
    for what, value in (("the program", costs.program), ("the server", costs.server), ("a flush", costs.flush)):
        report.add(f"measured with {workers} workers and {runs} runs, {what}", f"{value:.2f} ms")
    for (its_workers, its_runs), seen in found:
        cores = max(1, round(seen.cores))
        told = simulate(costs, Machines(its_workers, cores, shared=True), its_runs, thinks=25.0)
        title = f"{its_runs} runs with {its_workers} workers, on {seen.cores:.1f} of {os.cpu_count()} processors"
        seconds = told.seconds * cores / seen.cores
        report.add(title, f"{seen.seconds:.1f} s", f"{seconds:.1f} s", seen.seconds / seconds)
    for machines in ASKED[: 1 if options.quick else None]:
        _ask(report, costs, machines, 300 if options.quick else 3000)
    return report.finish(options)


def _ask(report: Report, costs: Costs, machines: Machines, runs: int) -> None:
    most = most_per_second(costs, machines, runs)
    half = simulate(costs, machines, runs, rate=most / 2)
    full = simulate(costs, machines, runs, thinks=0.0)
    title = f"{machines.workers} workers, a server of {machines.server_cores} processors"
    report.add(f"{title}: runs a second, at most", "", f"{most:.0f}")
    report.add(f"{title}: runs a day, half of that", "", f"{most / 2 * 86_400 / 1e6:.1f} million")
    report.add(
        f"{title}: decision to effect at half of it, median and 95th", "",
        f"{half.within(0.5):.1f} and {half.within(0.95):.1f} ms",
    )  # fmt: skip
    report.add(f"{title}: bends first", "", full.first_limit)


def measured_flush(url: str, commits: int) -> float:
    """Milliseconds of a commit that waits for the disk, alone: the median."""
    times = []
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE flushed (number integer)")
        for number in range(commits):
            began = time.perf_counter()
            db.execute("INSERT INTO flushed VALUES (%s)", (number,))
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def real(server: PostgresServer, workers: int, runs: int) -> Real:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(PLACET, "PostgreSQL", server, Path(folder))
        warm = [name(f"w{number}", SHORT, gated=True) for number in range(max(4, runs // 5))]
        wanted = [name(number, SHORT, gated=True) for number in range(runs)]
        with running([scene.program("front"), *scene.workers(workers)]) as programs:
            programs[0].ask(runs=warm)
            before, idle, began = scene.meter.read(programs), _idle(), time.perf_counter()
            programs[0].ask(runs=wanted)
            seconds, idle = time.perf_counter() - began, _idle() - idle
            cost = scene.meter.read(programs).minus(before)
        scene.check(wanted)
    return Real(seconds, cost.program, cost.server, (cost.program + cost.server + idle) / seconds)


def _idle() -> float:
    """Seconds in which a processor had nothing to do, all together."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
