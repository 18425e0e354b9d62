"""The numbers of a fleet: in the terminal, as JSON, and for Prometheus, all of them the same."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.cli.commands.top import duration, picture
from placet.desk import Desk
from placet.fleet.figures import FleetNumbers, WorkerNumbers, fleet_numbers
from placet.fleet.metrics import metrics_server, metrics_text
from placet.ports import OldestRequest, StoreNumbers
from placet.stores.opening import open_store
from placet.testing.desk_contracts import Driver
from tests.cli.running import placet
from tests.cli.screens import screen_of
from tests.desk.scenes import Witness, support
from tests.fleet import crew
from tests.fleet.scenes import PATIENCE, desk, rows, sooner_or_later, worker
from tests.fleet.workers import WorkerProcess
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "placet-fleet.json"
STORE = StoreNumbers(
    at=1000.0, driven=3, due=2, oldest_due=990.0, waiting=100_000, running=5, stopped=1, parked=1, ended=9_000,
    ended_last_minute=120, pending=100_002,
    oldest_request=OldestRequest(id="run_1:1.0#1", agent="Support", tool="refund", seconds=90_000.0),
)  # fmt: skip
WORKER = WorkerNumbers(
    id=7, name="host-1:42", state="working", agents=["Support"], driving=3, capacity=16, driven=1234, seconds=1.5,
    up=7200.0, code="abcdef0123456789",
)  # fmt: skip
NUMBERS = FleetNumbers(store=STORE, workers=[WORKER], rings=4)


@pytest.fixture(params=["sqlite", "postgresql"])
async def any_desk(request: pytest.FixtureRequest, tmp_path: Path, witness: Witness) -> AsyncIterator[Desk]:
    url = f"sqlite:///{tmp_path / 'p.db'}"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.store_database()
    async with open_store(url) as store:
        yield Desk(store, agents=[support(witness)], run=False)


async def test_every_run_is_counted_for_what_it_is(any_desk: Desk) -> None:
    driver = Driver()
    first = await fleet_numbers(any_desk.store)
    runs = [(await any_desk.start("Support", "x")).id for _ in range(4)]
    await any_desk.store.lease(runs[0], driver)
    await any_desk.store.park(runs[1], parked=True)
    found = await fleet_numbers(any_desk.store)

    assert (first.store.running, first.store.due, first.store.due_seconds, first.store.oldest_request) == (
        0,
        0,
        0.0,
        None,
    )
    assert (found.store.driven, found.store.due, found.store.parked, found.store.running) == (1, 2, 1, 4)
    assert (found.store.waiting, found.store.ended, found.store.pending) == (0, 0, 0)
    assert (found.workers, found.rings) == ([], 0)
    assert driver is not None


async def test_what_waits_and_what_has_ended_is_counted_too(postgres: PostgresServer, witness: Witness) -> None:
    url, one = postgres.fleet_database(), support(witness)
    async with desk(url, one) as made, worker(url, one, name="w"):
        runs = [await made.start("Support", "x") for _ in range(3)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        first, *_ = asked = await made.pending()
        await made.decide(asked[1].id, "approve", by="ana")
        await made.wait(asked[1].run_id, timeout=PATIENCE)
        found = await fleet_numbers(made.store)

    assert (found.store.waiting, found.store.pending, found.store.ended) == (2, 2, 1)
    assert found.store.ended_last_minute == 1
    assert found.store.oldest_request is not None
    assert (found.store.oldest_request.id, found.store.oldest_request.tool) == (first.id, "refund")
    assert [each.name for each in found.workers] == ["w"]


# -- the terminal -----------------------------------------------------------------------------------------------------


def test_the_picture_shows_everything_on_lines_that_fit() -> None:
    screen, out = screen_of(100, "utf-8")
    screen.show(picture(screen, NUMBERS, [0.0, 5.0, 10.0]))
    text = "\n".join(out.lines)

    assert max(map(len, out.lines)) <= 100
    for words in ("3 driven", "2 due", "100,000 waiting for people", "1 stopped", "1 parked", "120 runs ended",
                  "10.0 drives/s", "▁▅█", "waited 10s", "4 rings", "the oldest for 25h: refund (Support)",
                  "workers: 1", "host-1:42", "3/16", "1,234", "2h", "abcdef01"):  # fmt: skip
        assert words in text


def test_a_terminal_without_signs_gets_plain_ones_and_nothing_that_moves_the_cursor() -> None:
    hostile = OldestRequest(id="x", agent="a\033[2J", tool="t\n", seconds=1.0)
    bad = FleetNumbers(store=msgspec.structs.replace(STORE, oldest_request=hostile), workers=[], rings=0)
    screen, out = screen_of(80, "ascii")
    screen.show(picture(screen, bad, [1.0]))
    text = "\n".join(out.lines)

    assert text.isascii()
    assert "\033" not in text
    assert "placet worker starts one" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "120m"), (7200, "2h"), (200_000, "2d")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


async def test_the_command_looks_once_for_people_and_for_programs(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.fleet_database()
    async with desk(url, *crew.agents) as made, worker(url, *crew.agents, name="w-1"):
        await made.start("Crew", "pay")
        await sooner_or_later(lambda: _pending(made))
        shown = await asyncio.to_thread(placet, "top", "--once", "--store", url, cwd=tmp_path)
        told = await asyncio.to_thread(placet, "top", "--once", "--json", "--store", url, cwd=tmp_path)
        refused = await asyncio.to_thread(placet, "top", "--every", "0", "--store", url, cwd=tmp_path)
    numbers = json.loads(told.stdout)

    assert shown.returncode == told.returncode == 0, shown.stderr + told.stderr
    assert "1 waiting for people" in shown.stdout
    assert "w-1" in shown.stdout
    assert (numbers["store"]["waiting"], numbers["workers"][0]["name"]) == (1, "w-1")
    assert refused.returncode == 2


async def _pending(made: Desk) -> bool:
    return bool(await made.pending())


async def test_the_command_works_on_a_store_without_a_fleet(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'p.db'}"
    async with open_store(url):
        pass
    found = await asyncio.to_thread(placet, "top", "--store", url, cwd=tmp_path)

    assert found.returncode == 0, found.stderr
    assert "nobody is asked anything" in found.stdout


# -- Prometheus -------------------------------------------------------------------------------------------------------


def samples(text: str) -> dict[str, float]:
    """As Prometheus reads it: every line is a comment or a sample."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)*\})?) ([-+0-9.e]+)', line)
        assert match, line
        assert match[1] not in found, "one value each"
        found[match[1]] = float(match[2])
    return found


def test_the_metrics_are_the_numbers() -> None:
    found = samples(metrics_text(NUMBERS))

    assert found["placet_runs_driven"] == 3
    assert found["placet_runs_due_seconds"] == 10
    assert found["placet_runs_waiting"] == 100_000
    assert found["placet_requests_pending"] == 100_002
    assert found["placet_requests_oldest_seconds"] == 90_000
    assert found['placet_workers{state="working"}'] == 1
    assert found['placet_worker_driven_total{id="7",worker="host-1:42"}'] == 1234


def test_large_numbers_are_not_rounded_and_names_cannot_break_out_of_their_quotes() -> None:
    worker_named = WorkerNumbers(
        id=1, name='a"b\\c\nd', state="lost", agents=[], driving=0, capacity=1, driven=123_456_789, seconds=0, up=0,
        code="",
    )  # fmt: skip
    found = samples(metrics_text(FleetNumbers(store=STORE, workers=[worker_named], rings=0)))

    assert found[r'placet_worker_driven_total{id="1",worker="a\"b\\c\nd"}'] == 123_456_789


def test_every_number_of_the_dashboard_is_one_that_is_told() -> None:
    told = set(re.findall(r"^# TYPE (\w+)", metrics_text(NUMBERS), re.MULTILINE))
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    used = {name for expression in asked for name in re.findall(r"placet_\w+", expression)}

    assert used <= told
    not_shown = {"placet_worker_silent_seconds", "placet_runs_ended"}  # the rate of ended runs is shown instead
    assert used >= told - not_shown


async def get(port: int, request: str) -> tuple[str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return head, body


async def test_a_worker_tells_its_numbers_over_http(postgres: PostgresServer, tmp_path: Path) -> None:
    url, port = postgres.fleet_database(), free_port()
    env: dict[str, Any] = {crew.WITNESS: str(tmp_path / "witness")}
    with WorkerProcess(url, "--metrics-port", str(port), "--name", "w", **env) as process:
        await process.is_ready()
        head, body = await get(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        health = await get(port, "GET /health HTTP/1.1\r\n\r\n")
        process.signal(signal.SIGTERM)
        code = await process.ended()

    assert head.startswith("HTTP/1.1 200 OK")
    assert samples(body)['placet_workers{state="working"}'] == 1
    assert (health[1], code) == ("ok\n", 0)


async def test_what_is_no_question_for_numbers_is_refused() -> None:
    async def numbers() -> FleetNumbers:
        return NUMBERS

    async with metrics_server("127.0.0.1", 0, numbers) as server:
        port = server.sockets[0].getsockname()[1]
        answers = [
            (await get(port, f"{line} HTTP/1.1\r\n\r\n"))[0].split("\r\n")[0]
            for line in ("GET /", "POST /metrics", "HEAD /metrics", "GET /metrics?x=1")
        ]

    assert [answer.split(" ", 2)[1] for answer in answers] == ["404", "405", "200", "200"]


async def test_a_store_that_is_away_is_said_to_be_away(witness: Witness, postgres: PostgresServer) -> None:
    async with desk(postgres.fleet_database(), support(witness)) as made:
        store = made.store
        await rows(made, "SELECT 1")

    async def numbers() -> FleetNumbers:
        return await fleet_numbers(store)

    async with metrics_server("127.0.0.1", 0, numbers) as server:
        port = server.sockets[0].getsockname()[1]
        head, _ = await get(port, "GET /health HTTP/1.1\r\n\r\n")

    assert head.startswith("HTTP/1.1 503")
