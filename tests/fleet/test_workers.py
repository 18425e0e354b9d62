"""Workers: many on one database, stopped, killed, with other code, and with runs that take them down."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, FunctionTool, ToolContext, UserError, function_tool
from placet.cli.main import main
from placet.facts.codec import JsonObject
from placet.fleet.code_digest import code_digest
from placet.fleet.worker import Worker
from placet.fleet.workers import list_workers
from placet.stores.postgres import PostgresStore
from placet.testing import function_call
from tests.desk.scenes import Planned, Witness, outputs, support
from tests.fleet import crew, poison
from tests.fleet.scenes import PATIENCE, desk, rows, sooner_or_later, worker
from tests.fleet.workers import WorkerProcess
from tests.support.postgres import PostgresServer


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.fleet_database()


def tool(name: str, body: Any, **options: Any) -> FunctionTool:
    async def run(ctx: ToolContext[Any]) -> str:
        return str(await body(ctx) or "done")

    return function_tool(name_override=name, **options)(run)


def agent(name: str, tools: Sequence[FunctionTool], *turns: Sequence[JsonObject]) -> Agent[Any]:
    return Agent(name, tools=list(tools), model=Planned(*turns))


def call(name: str, label: str = "c") -> JsonObject:
    return function_call(name, {}, call_id=label)


# -- the command ------------------------------------------------------------------------------------------------------


async def test_the_command_drives_runs_and_ends_with_0_when_it_is_told_to(url: str, tmp_path: Path) -> None:
    witness = Witness(tmp_path / "witness")
    env = {"PLACET_SOAK_WITNESS": str(witness.path)}
    with WorkerProcess(url, "--grace", "5", **env) as process:
        await process.is_ready()
        async with desk(url, *crew.agents) as made:
            run = await made.start("Crew", "note|pay")
            await made.wait(run.id, until="paused", timeout=PATIENCE)
            (asked,) = await made.pending(run_id=run.id)
            await made.decide(asked.id, "approve", by="ana")
            ended = await made.wait(run.id, timeout=PATIENCE)
            process.signal(signal.SIGTERM)
            code = await process.ended()
            left = await list_workers(made.store)  # type: ignore[arg-type]  # it is one on PostgreSQL

        assert (ended.status, code, left) == ("ended", 0, []), process.said()
        assert "ready for runs of Crew, Night shift" in process.said()
        assert [line.split()[0] for line in witness.lines()] == ["note", "pay"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--store", "sqlite:///x.db"], "workers share a PostgreSQL"),
        (["--concurrency", "0"], "Invalid value for '--concurrency'"),
        (["--lease", "0"], "Invalid value for '--lease'"),
        (["--queues", "Nobody"], "no agent 'Nobody' here"),
        (["--run-config", "tests.fleet.crew:agents"], "not a RunConfig"),
        (["--context-factory", "tests.fleet.crew:WITNESS"], "is not a function"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_begins(
    url: str, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = [] if "--store" in arguments else ["--store", url]
    code = main(["worker", "tests.fleet.crew:agents", *store, *arguments])

    assert code in (1, 2)
    assert complaint in capsys.readouterr().err


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_a_worker_that_stops_finishes_the_body_and_leaves_the_rest_to_others(url: str) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    bodies: list[str] = []

    async def slow(_ctx: ToolContext[Any]) -> str:
        bodies.append("slow")
        began.set()
        await go_on.wait()
        return "finished in peace"

    async def quick(_ctx: ToolContext[Any]) -> str:
        bodies.append("quick")
        return "done elsewhere"

    first = agent("Support", [tool("slow", slow), tool("quick", quick)], [call("slow")], [call("quick", "d")])
    async with desk(url, first) as made:
        async with worker(url, first, grace=PATIENCE) as stopping:
            run = await made.start("Support", "x")
            await began.wait()
            stopping.stop()
            await sooner_or_later(lambda: stopping.engine.registration.is_stopping)
            go_on.set()
        between = await outputs(made, run.id)
        ((owner, lease_until),) = await rows(made, "SELECT owner, lease_until FROM placet_runs")
        async with worker(url, first):
            ended = await made.wait(run.id, timeout=PATIENCE)
            texts = await outputs(made, run.id)

    assert between == ["finished in peace"]
    assert (owner, lease_until) == (None, 0), "others need not wait"
    assert ended.status == "ended"
    assert texts == ["finished in peace", "done elsewhere"]
    assert bodies == ["slow", "quick"]


async def test_what_does_not_end_within_the_grace_is_broken_off_and_asked_about(url: str) -> None:
    began = asyncio.Event()

    async def endless(_ctx: ToolContext[Any]) -> None:
        began.set()
        await asyncio.Event().wait()

    one = agent("Support", [tool("endless", endless)], [call("endless")])
    async with desk(url, one) as made:
        async with worker(url, one, grace=0.1):
            run = await made.start("Support", "x")
            await began.wait()
        async with worker(url, one):
            await made.wait(run.id, until="paused", timeout=PATIENCE)
            (asked,) = await made.pending(run_id=run.id)

    assert asked.kind == "in_doubt"


async def test_two_workers_share_the_runs_and_a_stopped_one_gets_no_more(url: str, witness: Witness) -> None:
    one = support(witness)
    async with desk(url, one) as made, worker(url, one) as first:
        async with worker(url, one) as second:
            runs = [await made.start("Support", "x") for _ in range(12)]
            for run in runs:
                await made.wait(run.id, until="paused", timeout=PATIENCE)
        driven = second.engine.registration.driven
        run = await made.start("Support", "x")
        await made.wait(run.id, until="paused", timeout=PATIENCE)

    assert first.engine.registration.driven + driven >= 13
    assert second.engine.registration.driven == driven


# -- which runs -------------------------------------------------------------------------------------------------------


async def test_a_worker_drives_only_the_queues_that_it_was_given(url: str) -> None:
    day, night = agent("Day", []), agent("Night", [])
    async with desk(url, day, night) as made, worker(url, day, night, queues=["Day"]):
        theirs, ours = await made.start("Night", "x"), await made.start("Day", "x")
        ended = await made.wait(ours.id, timeout=PATIENCE)
        left = await made.get(theirs.id)
        async with worker(url, night):
            later = await made.wait(theirs.id, timeout=PATIENCE)

    assert (ended.status, left.status, later.status) == ("ended", "running", "ended")


def test_a_queue_of_an_agent_that_is_not_here_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="no agent 'Dya' here"):
        Worker(PostgresStore(url), [agent("Day", [])], queues=["Dya"])


async def test_what_is_worth_more_is_driven_first(url: str) -> None:
    order: list[str] = []

    def write(name: str) -> Agent[Any]:
        async def body(ctx: ToolContext[Any]) -> None:
            order.append(ctx.idempotency_key.partition(":")[0])

        return agent(name, [tool("write", body)], [call("write")])

    one = write("Support")
    async with desk(url, one) as made:
        async with worker(url, one):
            pass  # the schema is there, and nobody drives
        runs = [await made.start("Support", "x", priority=number) for number in (0, 5, -1, 9)]
        async with worker(url, one, concurrency=1):
            for run in runs:
                await made.wait(run.id, timeout=PATIENCE)

    assert order == [runs[3].id, runs[1].id, runs[0].id, runs[2].id]


async def test_a_question_whose_time_is_over_ends_by_itself_in_any_worker(url: str, witness: Witness) -> None:
    one = support(witness, decide_within=1.0)
    async with desk(url, one) as made, worker(url, one):
        run = await made.start("Support", "x")
        ended = await made.wait(run.id, timeout=PATIENCE)
        texts = await outputs(made, run.id)

    assert (ended.status, witness.lines()) == ("ended", [])
    assert "it was not decided in time" in str(texts)


# -- other code -------------------------------------------------------------------------------------------------------


async def test_old_and_new_code_side_by_side_each_run_goes_on_where_its_tools_are(url: str, witness: Witness) -> None:
    async def body(_ctx: ToolContext[Any]) -> str:
        witness.write("wired")
        return "wired"

    old = support(witness)
    new = agent("Support", [witness.refund(), tool("wire", body, needs_approval=True)], [call("wire")])
    async with desk(url, new) as made:
        async with worker(url, new):
            run = await made.start("Support", "x")
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        (asked,) = await made.pending(run_id=run.id)
        async with worker(url, old) as first:
            await made.decide(asked.id, "approve", by="ana")
            await sooner_or_later(lambda: first.engine.registration.driven > 0)
            tried = await made.get(run.id)
            async with worker(url, new):
                ended = await made.wait(run.id, timeout=PATIENCE)

    assert (tried.status, ended.status) == ("running", "ended")
    assert witness.lines() == ["wired"]


async def test_a_run_is_passed_on_at_once_to_a_worker_that_has_its_tool(url: str, witness: Witness) -> None:
    async def body(_ctx: ToolContext[Any]) -> str:
        return "wired"

    old = support(witness)
    new = agent("Support", [witness.refund(), tool("wire", body, needs_approval=True)], [call("wire")])
    async with desk(url, new) as made, worker(url, new, concurrency=1), worker(url, old, concurrency=8):
        runs = [await made.start("Support", "x") for _ in range(8)]
        for run in runs:
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        for asked in await made.pending(limit=50):
            await made.decide(asked.id, "approve", by="ana")
        ended = [await made.wait(run.id, timeout=PATIENCE) for run in runs]
        texts = [text for run in runs for text in await outputs(made, run.id)]

    assert {run.status for run in ended} == {"ended"}
    assert "not found" not in " ".join(map(str, texts))


async def test_a_worker_without_the_tool_rings_for_one_with_other_code_alone(url: str, witness: Witness) -> None:
    new = agent("Support", [tool("wire", None, needs_approval=True)], [call("wire")])
    old = support(witness)
    async with desk(url, new) as made:
        async with worker(url, new):
            run = await made.start("Support", "x")
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        await rows(
            made,
            "INSERT INTO placet_workers (name, code, library, agents, capacity, started_at, seen_at) "
            "VALUES ('deaf', 'other', '3', '{Support}', 1, 0, placet_now() + 3600)",
        )
        ((other,),) = await rows(made, "SELECT id FROM placet_workers")
        (asked,) = await made.pending(run_id=run.id)
        async with worker(url, old):
            await made.decide(asked.id, "approve", by="ana")

            async def is_passed_on() -> bool:
                found = await rows(
                    made, "SELECT queue_name, args FROM procrastinate_jobs WHERE queueing_lock LIKE '%@%'"
                )
                given = {"run": run.id, "tried": [code_digest([old])]}
                return found == [(f"placet:@{other}", given)]

            await sooner_or_later(is_passed_on)


async def test_a_run_with_a_fact_that_no_worker_knows_is_left_alone_and_does_not_wear_them_out(url: str) -> None:
    one = agent("Support", [])
    async with desk(url, one) as made:
        async with worker(url, one):
            pass
        run = await made.start("Support", "x")
        text = b'[1.0,[["unheard",1]]]'
        assert isinstance(made.store, PostgresStore)
        await made.store.query(
            b"UPDATE placet_lines SET text = %(text)s, checksum = %(sum)s", {"text": text, "sum": zlib.crc32(text)}
        )
        async with worker(url, one) as reading:
            other = await made.start("Support", "x")
            ended = await made.wait(other.id, timeout=PATIENCE)
            await sooner_or_later(lambda: reading.engine.registration.driven >= 2)
            driven = reading.engine.registration.driven
            await asyncio.sleep(1.5)
            more = reading.engine.registration.driven - driven
        left = await made.get(run.id)

    assert (ended.status, left.status) == ("ended", "running")
    assert more <= 1


def test_code_with_another_tool_schema_or_handoff_is_other_code(witness: Witness) -> None:
    one = support(witness)
    same = support(witness)
    with_tool = agent("Support", [witness.refund(), tool("wire", None)])
    with_version = Agent("Support", tools=[witness.refund(version="2")], model=Planned())
    with_handoff = Agent("Support", tools=[witness.refund()], handoffs=[agent("Other", [])], model=Planned())

    digests = [code_digest([each]) for each in (one, same, with_tool, with_version, with_handoff)]
    assert digests[0] == digests[1]
    assert len(set(digests[1:])) == 4


# -- death ------------------------------------------------------------------------------------------------------------


async def test_a_tool_that_blocks_the_loop_for_longer_than_the_lease_is_not_taken_for_dead(url: str) -> None:
    ran: list[int] = []

    async def block(_ctx: ToolContext[Any]) -> None:
        ran.append(threading.get_ident())
        time.sleep(4.0)  # noqa: ASYNC251  # that is what is tested

    one = agent("Support", [tool("block", block)], [call("block")])
    async with desk(url, one) as made, worker(url, one, ttl=2.0):
        run = await made.start("Support", "x")
        ended = await made.wait(run.id, timeout=PATIENCE)
        ((takeovers,),) = await rows(made, "SELECT takeovers FROM placet_runs")

    assert (ended.status, len(ran), takeovers) == ("ended", 1, 0)


async def test_a_run_that_takes_its_workers_down_is_parked_and_shown_and_can_be_given_another_chance(
    url: str, tmp_path: Path
) -> None:
    bottle = tmp_path / "poison"
    bottle.touch()
    options = ["--lease", "0.5", "--max-takeovers", "2"]
    env = {"PLACET_POISON": str(bottle)}

    async with desk(url, *poison.agents) as made:
        run = (await made.start("Poison", "x")).id

        async def is_parked() -> bool:
            return (await made.get(run)).is_parked

        deaths = 0
        while not await is_parked():
            with WorkerProcess(url, *options, agents="tests.fleet.poison:agents", **env) as process:
                await sooner_or_later(lambda process=process: not process.is_alive or is_parked())
                deaths += process.process.returncode == 9
            assert deaths < 8, "nobody parked it"
        ((takeovers,),) = await rows(made, "SELECT takeovers FROM placet_runs")
        bottle.unlink()
        with WorkerProcess(url, *options, agents="tests.fleet.poison:agents", **env) as process:
            await process.is_ready()
            await asyncio.sleep(1.2)
            still = await made.get(run)
            await made.resume(run, by="operator")
            ended = await made.wait(run, timeout=PATIENCE)

    assert deaths == 3
    assert takeovers == 2
    assert (still.status, ended.status) == ("running", "ended")


async def test_a_run_that_outlived_its_workers_starts_counting_anew_when_a_drive_ends_well(
    url: str, witness: Witness
) -> None:
    one = support(witness)
    async with desk(url, one) as made:
        async with worker(url, one):
            run = await made.start("Support", "x")
            await made.wait(run.id, until="paused", timeout=PATIENCE)
        await rows(made, "UPDATE placet_runs SET takeovers = 9")
        (asked,) = await made.pending()
        async with worker(url, one):
            await made.decide(asked.id, "approve", by="ana")
            await made.wait(run.id, timeout=PATIENCE)

        async def is_forgiven() -> bool:
            return await rows(made, "SELECT takeovers FROM placet_runs") == [(0,)]

        await sooner_or_later(is_forgiven)


async def test_workers_are_listed_while_they_live_and_for_a_while_as_lost(url: str, witness: Witness) -> None:
    one = support(witness)
    async with desk(url, one) as made, worker(url, one, name="host-1", concurrency=3):
        assert isinstance(made.store, PostgresStore)
        (alive,) = await list_workers(made.store)
        await rows(made, "UPDATE placet_workers SET seen_at = seen_at - 100")
        (lost,) = await list_workers(made.store)

    assert (alive.name, alive.capacity, alive.agents, alive.is_alive) == ("host-1", 3, ["Support"], True)
    assert not lost.is_alive


async def test_a_database_that_cannot_be_used_is_said_in_words_and_the_worker_does_not_begin(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_database()
    async with PostgresStore(url) as store:
        await store.query(b"CREATE TABLE procrastinate_jobs (id integer)")
    env = {crew.WITNESS: str(tmp_path / "witness")}
    with WorkerProcess(url, **env) as process:
        code = await process.ended()

        assert code == 1
        assert "tables of Procrastinate that Placet did not make" in process.said()
        assert "Traceback" not in process.said()


@pytest.mark.promise("P15")
async def test_a_run_whose_agent_no_worker_has_any_more_is_cancelled(url: str) -> None:
    before = agent("Old", [tool("pay", _never, needs_approval=True)], [call("pay")])
    async with desk(url, before) as made, worker(url, before):
        run = await made.start("Old", "go")
        await made.wait(run.id, until="paused", timeout=PATIENCE)

    async with worker(url, agent("New", [], [])), desk(url) as made:
        await made.cancel(run.id, by="ana")
        ended = await made.wait(run.id, timeout=PATIENCE)

        assert (ended.status, await made.pending()) == ("ended", [])


async def _never(_ctx: ToolContext[Any]) -> None:
    raise AssertionError("nobody approved it")
