"""Functions behind a gate: what is asked, what runs, and what becomes of a call whose process died."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from placet import CannotTell, DidNotHappen, Happened, ToolError, UserError
from placet.desk import Desk
from placet.gate import CallAnswered, CallRejected, Gate, GateTimeout, InvalidProposal, SyncGate, gated
from tests.gate.scenes import Scene, embedded_scene

pytestmark = pytest.mark.promise("P23")

PATIENCE = 90.0


class Item(BaseModel):
    name: str
    tags: list[str] = []


class Account(BaseModel):
    keys: list[SecretStr]


async def decide(scene: Scene, verdict: Any, count: int = 1, **more: Any) -> list[Any]:
    """Say this about the next so many calls that wait; the questions."""
    decided: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE):
        while len(decided) < count:
            latest = await scene.store.latest_sequence()
            for request in await scene.desk.pending():
                if request.id not in decided:
                    decided[request.id] = request
                    await scene.decide(request.id, verdict, **more)
            if len(decided) < count:
                await scene.store.wait_for_news(latest, 1.0)
    return list(decided.values())


async def test_an_approved_function_runs_once_with_what_was_shown() -> None:
    ran: list[tuple[str, int]] = []
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def refund(order: str, cents: int = 100) -> str:
            """Pay money back."""
            ran.append((order, cents))
            return f"paid {cents}"

        (asked,), paid = await asyncio.gather(decide(scene, "approve"), refund("7"))

        assert paid == "paid 100"
        assert ran == [("7", 100)]
        assert (asked.agent, asked.tool, asked.arguments) == ("python/jobs", "refund", {"order": "7", "cents": 100})


async def test_a_rejected_function_does_not_run_and_an_answer_is_returned_in_its_place() -> None:
    ran: list[str] = []
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def look_up(order: str) -> dict[str, int]:
            ran.append(order)
            return {"cents": 1}

        with pytest.raises(CallRejected, match="Not now"):
            await asyncio.gather(decide(scene, "reject", message="Not now."), look_up("7"))
        _, answer = await asyncio.gather(decide(scene, "respond", output='{"cents": 5}'), look_up("7"))

        assert answer == {"cents": 5}
        assert ran == []


async def test_an_edited_function_runs_with_the_reviewers_arguments() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def refund(order: str, cents: int = 100) -> str:
            return f"paid {cents} for {order}"

        edit = decide(scene, "edit", arguments={"order": "8"})
        _, paid = await asyncio.gather(edit, refund("7"))

        assert paid == "paid 100 for 8"


async def test_two_equal_calls_ask_twice_and_one_key_asks_once() -> None:
    ran: list[str] = []
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def refund(order: str) -> dict[str, str]:
            ran.append(order)
            return {"paid": order}

        await asyncio.gather(decide(scene, "approve", count=2), refund("7"), refund("7"))
        asked, *found = await asyncio.gather(
            decide(scene, "approve"), *(refund.keyed("order-8", "8") for _ in range(5))
        )
        again = await refund.keyed("order-8", "8")

        assert ran == ["7", "7", "8"]
        assert len(asked) == 1
        assert [*found, again] == [{"paid": "8"}] * 6


async def test_what_the_caller_changes_while_a_call_waits_does_not_reach_the_function() -> None:
    ran: list[Any] = []
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def ship(items: list[Item]) -> None:
            ran.append(items)

        given = [Item(name="lamp")]
        shipping = asyncio.create_task(ship(given))
        await asyncio.sleep(0)
        given[0].name = "safe"
        given.append(Item(name="bomb"))
        await asyncio.gather(decide(scene, "approve"), shipping)

        assert ran == [[Item(name="lamp")]]


async def test_what_json_cannot_show_is_refused_and_nothing_runs() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def log_in(password: SecretStr) -> None:
            raise AssertionError

        @gated(gate)
        async def open_account(account: Account) -> None:
            raise AssertionError

        @gated(gate)
        async def count(number: int) -> None:
            raise AssertionError

        with pytest.raises(InvalidProposal, match="password"):
            await log_in(SecretStr("hunter2"))
        with pytest.raises(InvalidProposal, match="account"):
            await open_account(Account(keys=[SecretStr("hunter2")]))
        with pytest.raises(InvalidProposal, match="number"):
            await count("many")  # type: ignore[arg-type]
        assert await scene.desk.pending() == []


@pytest.mark.parametrize("rule", [lambda _: None, lambda _: 0, lambda _: 1 / 0, lambda _: "no", True])
@pytest.mark.promise("P8")
async def test_whatever_a_rule_answers_but_false_asks(rule: Any) -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate, needs_approval=rule, timeout=0.05)
        async def refund(order: str) -> str:
            raise AssertionError

        with pytest.raises(GateTimeout):
            await refund("7")
        # nobody could find a call without a key again: it does not stay behind
        assert await scene.desk.pending() == []


async def test_a_rule_that_says_false_lets_the_call_pass_and_it_is_recorded() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate, needs_approval=lambda arguments: arguments["cents"] > 10)
        async def refund(cents: int) -> str:
            return f"paid {cents}"

        assert await refund(10) == "paid 10"
        runs = await scene.desk.runs()
        assert [run.agent for run in runs.rows] == ["python/jobs"]


async def test_an_exception_is_reported_and_raised_and_is_told_to_who_comes_later() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def refund(order: str) -> str:
            raise ValueError(f"no order {order}")

        with pytest.raises(ValueError, match="no order 7"):
            await asyncio.gather(decide(scene, "approve"), refund.keyed("k", "7"))
        with pytest.raises(ToolError, match="no order 7"):
            await refund.keyed("k", "7")


async def test_a_function_that_is_broken_off_is_asked_about_at_once() -> None:
    begun = asyncio.Event()
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate)
        async def refund(order: str) -> str:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(refund("7"))
        await decide(scene, "approve")
        await asyncio.wait_for(begun.wait(), PATIENCE)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert [request.kind for request in await scene.desk.pending()] == ["in_doubt"]


async def test_a_call_that_is_no_longer_waited_for_is_withdrawn_unless_it_has_a_key() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:
        block = asyncio.create_task(_enter(gate))
        async with asyncio.timeout(PATIENCE):
            while not await scene.desk.pending():
                await scene.store.wait_for_news(await scene.store.latest_sequence(), 1.0)
        block.cancel()
        await asyncio.gather(block, return_exceptions=True)

        assert await scene.desk.pending() == []


async def _enter(gate: Gate) -> None:
    async with gate.call("delete", {"path": "/"}):
        raise AssertionError


async def test_a_block_runs_with_what_was_decided_and_is_reported() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        async def block() -> None:
            async with gate.call("delete", {"path": "/a"}, session="s", call_id="c") as permit:
                permit.output = f"deleted {permit.arguments['path']}"

        await asyncio.gather(decide(scene, "edit", arguments={"path": "/b"}), block())
        found = await gate.propose("delete", {"path": "/a"}, session="s", call_id="c")

        assert (found.status, found.output) == ("finished", "deleted /b")


async def test_a_block_whose_call_was_answered_is_not_entered() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:
        with pytest.raises(CallAnswered) as caught:
            await asyncio.gather(decide(scene, "respond", output="done by hand"), _enter(gate))

        assert caught.value.output == "done by hand"


@pytest.mark.parametrize(
    ("found", "ran", "outcome"),
    [(Happened("paid before"), 0, "paid before"), (DidNotHappen(), 1, "paid"), (CannotTell(), 0, None)],
)
async def test_a_function_that_finds_out_settles_a_call_whose_process_is_gone(
    found: Any, ran: int, outcome: str | None
) -> None:
    times: list[str] = []
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate, recovery=lambda _: found)
        async def refund(order: str) -> str:
            times.append(order)
            return "paid"

        await _claim_and_die(scene, gate, refund, "function")
        task = asyncio.create_task(refund.keyed("k", "7"))
        if outcome is None:
            (asked,) = await decide(scene, "respond", output="by hand")
            assert asked.kind == "in_doubt"

        assert await asyncio.wait_for(task, PATIENCE) == (outcome or "by hand")
        assert len(times) == ran


async def _claim_and_die(scene: Scene, gate: Gate, function: Any, recovery: Any) -> None:
    """What a process leaves behind that was killed after its claim."""
    given = function._proposal("k", {"order": "7"}, asks=True)
    call = await gate.propose("refund", {"order": "7"}, **given)
    await scene.decide(call.request_id, "approve")
    await gate.claim(call, lease=10)
    scene.clock.advance(11)


async def test_what_may_be_repeated_is_run_again_by_whoever_comes_next() -> None:
    async with embedded_scene("sqlite://:memory:") as scene, scene.gate() as gate:

        @gated(gate, recovery="retry")
        async def refund(order: str) -> str:
            return "paid"

        await _claim_and_die(scene, gate, refund, "retry")

        assert await asyncio.wait_for(refund.keyed("k", "7"), PATIENCE) == "paid"


# -- plain functions ---------------------------------------------------------------------------------------------------


def _decider(url: str, verdict: Any, stop: threading.Event, **more: Any) -> threading.Thread:
    """A person in another thread who says the same about everything that waits."""

    async def work() -> None:
        async with Desk(url, run=False) as desk:
            while not stop.is_set():
                for request in await desk.pending():
                    await desk.decide(request.id, verdict, by="ops", **more)
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    return thread


def test_a_plain_function_is_gated_without_an_event_loop(tmp_path: Path) -> None:
    url, stop = f"sqlite:///{tmp_path / 'placet.db'}", threading.Event()
    with SyncGate(url, guest="jobs") as gate:

        @gated(gate)
        def refund(order: str, cents: int = 100) -> str:
            """Pay money back."""
            return f"paid {cents} in {threading.current_thread().name}"

        here = threading.current_thread().name
        person = _decider(url, "edit", stop, arguments={"order": "7", "cents": 5})
        try:
            assert refund("7") == f"paid 5 in {here}"
            with gate.call("delete", {"order": "7", "cents": 1}) as permit:
                assert permit.arguments == {"order": "7", "cents": 5}
        finally:
            stop.set()
            person.join(PATIENCE)


async def test_a_plain_function_is_gated_inside_a_running_loop(tmp_path: Path) -> None:
    url, stop = f"sqlite:///{tmp_path / 'placet.db'}", threading.Event()
    person = _decider(url, "reject", stop, message="Not now.")
    try:
        with SyncGate(url, guest="jobs") as gate:

            @gated(gate)
            def refund(order: str) -> str:
                raise AssertionError

            with pytest.raises(CallRejected, match="Not now"):
                refund("7")
    finally:
        stop.set()
        person.join(PATIENCE)


def test_a_plain_exception_is_reported_and_raised(tmp_path: Path) -> None:
    with SyncGate(f"sqlite:///{tmp_path / 'placet.db'}", guest="jobs") as gate:

        @gated(gate, needs_approval=False)
        def refund(order: str) -> str:
            raise ValueError("no such order")

        with pytest.raises(ValueError, match="no such order"):
            refund.keyed("k", "7")
        with pytest.raises(ToolError, match="no such order"):
            refund.keyed("k", "7")


def test_mistakes_in_the_program_are_told_where_they_are_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"

    async def function() -> None: ...

    with SyncGate(url, guest="jobs") as gate:
        with pytest.raises(UserError, match="gated by a Gate"):
            gated(gate)(function)
        with pytest.raises(UserError, match="recovery"):
            gated(gate, recovery="sometimes")  # type: ignore[arg-type]
        with pytest.raises(UserError, match="needs_approval"):
            gated(gate, needs_approval="no")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="closed"):
        gate.look("run_x:1.0")
    with pytest.raises(UserError, match="says who executes"):
        Gate(url)
    with pytest.raises(UserError, match="is no name"):
        Gate(url, guest="a/b")
    with pytest.raises(UserError, match="token is for a desk"):
        Gate(url, guest="jobs", token="placet_x")
    with pytest.raises(UserError, match="not the address"):
        Gate("https://")
