"""What every adapter must do with the calls of its host. Run with the host's own packages, in its own environment.

An adapter's file inherits `HostScenarios` and says how a conversation of its host goes. A file outside of Placet and of
the host is the witness of what was executed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

from placet.desk import Desk
from placet.gate import Gate, SyncGate
from placet.runtime.journal import load_recent
from placet.stores.opening import open_store

PATIENCE = 90.0
LEASE = 1.0
"""Seconds after which a guest that was killed is given up: short, because a test waits for it."""
DIED = 9

Calls = Sequence[tuple[str, Mapping[str, object]]]
"""What the model of the conversation calls in one response: call ids, and arguments of `refund`."""


class Bank:
    """The tool's effect: a line in a file for every time that it happened."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.folder = file.parent

    def refund(self, order: str, cents: int) -> str:
        with self._file.open("a") as out:
            out.write(f"{order} {cents}\n")
        if order == "dies":
            os._exit(DIED)
        if order == "fails":
            raise ValueError("the bank is closed")
        return f"paid {cents} for {order}"

    def payments(self) -> list[str]:
        return sorted(self._file.read_text().splitlines()) if self._file.exists() else []


STEPS = ("before propose", "proposed", "decided", "claimed", "done", "reported")
"""At which a guest can be killed; `done` is after the effect and before the report."""


class Steps(Gate):
    """A gate whose process can be killed at any step, and which can be made again for plain programs."""

    def __init__(
        self, at: Any, dies_at: str | None = None, proposing: Mapping[str, Any] | None = None, **given: Any
    ) -> None:
        """`proposing`: more keywords for each proposal, which an adapter does not give."""
        assert dies_at is None or dies_at in STEPS
        super().__init__(at, **given)
        self.at, self.dies_at, self.proposing, self.given = at, dies_at, proposing or {}, given

    def reach(self, step: str) -> None:
        if self.dies_at == step:
            os._exit(DIED)

    async def propose(self, *what: Any, **more: Any) -> Any:
        self.reach("before propose")
        call = await super().propose(*what, **more, **self.proposing)
        self.reach("proposed")
        return call

    async def wait(self, *what: Any, **more: Any) -> Any:
        call = await super().wait(*what, **more)
        self.reach("decided")
        return call

    async def claim(self, *what: Any, **more: Any) -> Any:
        permit = await super().claim(*what, **more)
        self.reach("claimed")
        return permit

    async def report(self, *what: Any, **more: Any) -> Any:
        self.reach("done")
        call = await super().report(*what, **more)
        self.reach("reported")
        return call


def plain_gate(gate: Gate, bank: Bank) -> SyncGate:
    """The same gate for a program without a loop: on the scene's store, if it does not say where it is."""
    if not isinstance(gate, Steps):
        return SyncGate(f"sqlite:///{bank.folder / 'calls.db'}", guest="bot", source="host")
    plain = SyncGate(gate.at, **gate.given)
    plain.gate = Steps(gate.at, gate.dies_at, gate.proposing, **gate.given)
    return plain


class Scene:
    def __init__(self, url: str, desk: Desk, gate: Gate, bank: Bank) -> None:
        self.url = url
        self.desk = desk
        self.gate = gate
        self.bank = bank

    async def asked(self, count: int = 1) -> list[Any]:
        """The next so many questions."""
        async with asyncio.timeout(PATIENCE):
            latest = await self.desk.store.latest_sequence()
            while len(waiting := await self.desk.pending()) < count:
                await self.desk.store.wait_for_news(latest, 1.0)
                latest = await self.desk.store.latest_sequence()
        return sorted(waiting, key=lambda request: str(request.arguments))

    async def decide(self, verdict: Any, count: int = 1, **more: Any) -> list[Any]:
        waiting = await self.asked(count)
        for request in waiting:
            await self.desk.decide(request.id, verdict, by="ops", **more)
        return waiting


@contextlib.asynccontextmanager
async def scene_in(folder: Path) -> AsyncIterator[Scene]:
    url = f"sqlite:///{folder / 'calls.db'}"
    async with (
        open_store(url) as store,
        Desk(store, run=False) as desk,
        Gate(store, guest="bot", source="host") as gate,
    ):
        yield Scene(url, desk, gate, Bank(folder / "payments"))


async def together(deciding: Awaitable[Any], conversation: Awaitable[Any]) -> tuple[Any, Any]:
    """Somebody decides while the conversation waits; nobody waits for questions of one that has failed."""
    person = asyncio.ensure_future(deciding)
    try:
        read = await conversation
    except BaseException:
        person.cancel()
        raise
    return await person, read


class HostScenarios:
    FAILED = "ValueError: the bank is closed"
    """What is reported of a tool that failed so: some hosts tell the text of an error alone."""

    TOOL = "refund"
    """By which name the host calls it."""

    async def converse(self, gate: Gate, bank: Bank, calls: Calls, session: str, **options: Any) -> dict[str, str]:
        """Have the host's agent make these calls at once, and the conversation end: what the model read, by call id.
        `options`: needs_approval, timeout and lease of the adapter."""
        raise NotImplementedError

    async def one(self, scene: Scene, order: str = "7", session: str = "chat", **options: Any) -> str:
        read = await self.converse(scene.gate, scene.bank, [("c1", {"order": order})], session, **options)
        return read["c1"]

    # -- decisions ----------------------------------------------------------------------------------------------------

    async def test_an_approved_call_runs_once_and_is_reported(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            (asked,), read = await together(scene.decide("approve"), self.one(scene))

            assert read == "paid 100 for 7"
            assert scene.bank.payments() == ["7 100"]
            assert (asked.agent, asked.tool) == ("host/bot", self.TOOL)
            assert asked.arguments == {"order": "7", "cents": 100}
            assert await ended(scene) == [("finished", "paid 100 for 7")]

    async def test_a_rejected_call_does_not_run_and_the_model_reads_why(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            _, read = await together(scene.decide("reject", message="Ask them first."), self.one(scene))

            assert "Ask them first." in read
            assert scene.bank.payments() == []

    async def test_an_edited_call_runs_with_what_was_decided(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            edited = {"order": "8", "cents": 5}
            _, read = await together(scene.decide("edit", arguments=edited), self.one(scene))

            assert read == "paid 5 for 8"
            assert scene.bank.payments() == ["8 5"]

    async def test_an_answer_takes_the_place_of_the_call(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            _, read = await together(scene.decide("respond", output="paid on Monday"), self.one(scene))

            assert read == "paid on Monday"
            assert scene.bank.payments() == []

    async def test_a_call_that_needs_nobody_runs_and_is_written_down(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            read = await self.one(scene, needs_approval=lambda tool, arguments: arguments["cents"] > 100)

            assert read == "paid 100 for 7"
            assert await ended(scene) == [("finished", "paid 100 for 7")]

    async def test_a_tool_that_fails_is_reported_as_failed(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            with contextlib.suppress(ValueError):  # where the host's own way is to end the run
                _, read = await together(scene.decide("approve"), self.one(scene, "fails"))
                assert "paid" not in read

            assert await ended(scene) == [("failed", self.FAILED)]
            assert scene.bank.payments() == ["fails 100"]

    # -- which call is which ------------------------------------------------------------------------------------------

    async def test_two_equal_calls_are_asked_about_twice(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            calls = [("c1", {"order": "7"}), ("c2", {"order": "7"})]
            asked, read = await together(
                scene.decide("approve", 2), self.converse(scene.gate, scene.bank, calls, "chat")
            )

            assert len(asked) == 2
            assert scene.bank.payments() == ["7 100", "7 100"]
            assert set(read) == {"c1", "c2"}

    async def test_a_call_that_is_made_again_is_neither_asked_nor_executed_twice(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            await together(scene.decide("approve"), self.one(scene))
            read = await asyncio.wait_for(self.one(scene), PATIENCE)

            assert read == "paid 100 for 7"
            assert scene.bank.payments() == ["7 100"]

    async def test_the_same_id_with_other_arguments_or_in_another_session_is_asked_anew(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            await together(scene.decide("approve"), self.one(scene))
            for order, session in (("8", "chat"), ("7", "another chat")):
                _, read = await together(scene.decide("reject"), self.one(scene, order, session))
                assert "paid" not in read

            assert scene.bank.payments() == ["7 100"]

    async def test_parallel_calls_get_a_decision_each(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            calls = [("c1", {"order": "1"}), ("c2", {"order": "2"}), ("c3", {"order": "3"}), ("c4", {"order": "4"})]

            async def decide() -> None:
                first, second, third, fourth = await scene.asked(4)
                await scene.desk.decide(fourth.id, "respond", output="later", by="ops")
                await scene.desk.decide(second.id, "reject", message="Not this one.", by="ops")
                await scene.desk.decide(third.id, "edit", arguments={"order": "3", "cents": 1}, by="ops")
                await scene.desk.decide(first.id, "approve", by="ops")

            _, read = await together(decide(), self.converse(scene.gate, scene.bank, calls, "chat"))

            assert scene.bank.payments() == ["1 100", "3 1"]
            assert (read["c1"], read["c3"], read["c4"]) == ("paid 100 for 1", "paid 1 for 3", "later")
            assert "Not this one." in read["c2"]

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    async def test_arguments_that_do_not_fit_are_not_run_and_nobody_is_asked(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            calls = [("c1", {"order": "7", "cents": "many"})]
            read = await self.converse(scene.gate, scene.bank, calls, "chat")

            assert "cents" in read["c1"]
            assert scene.bank.payments() == []
            assert await scene.desk.pending() == []

    async def test_a_guest_that_is_killed_while_it_executes_is_asked_about(self, tmp_path: Path) -> None:
        """Killed after the claim and the effect, before the report; then the conversation is gone on with."""
        async with scene_in(tmp_path) as scene:
            here = Path(sys.modules[type(self).__module__].__file__ or "")
            command = [sys.executable, "-m", "tests.gate.hosts.die", str(here), type(self).__name__, str(tmp_path)]
            guest = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
            await scene.decide("approve")
            async with asyncio.timeout(PATIENCE):
                _, errors = await guest.communicate()
            assert guest.returncode == DIED, errors.decode()

            (asked,), read = await together(
                scene.decide("respond", output="the bank says: paid"), self.one(scene, "dies", lease=LEASE)
            )

            assert asked.kind == "in_doubt"
            assert read == "the bank says: paid"
            assert scene.bank.payments() == ["dies 100"]


class WaitingScenarios(HostScenarios):
    """Of conversations whose calls wait where they are made."""

    async def test_with_the_desk_away_the_call_is_refused_in_words(self, tmp_path: Path) -> None:
        bank = Bank(tmp_path / "payments")
        async with Steps("http://127.0.0.1:9", token="placet_none", patience=0.2) as gate:
            read = await self.converse(gate, bank, [("c1", {"order": "7"})], "chat")

        assert f"'{self.TOOL}' was not run" in read["c1"]
        assert bank.payments() == []

    async def test_a_call_that_nobody_decides_in_time_is_taken_back(self, tmp_path: Path) -> None:
        async with scene_in(tmp_path) as scene:
            read = await self.one(scene, timeout=0.05)

            assert f"'{self.TOOL}' was not run" in read
            assert await scene.desk.pending() == []
            assert scene.bank.payments() == []


async def ended(scene: Scene) -> list[tuple[str | None, object]]:
    """What the log says about the outcome of the calls."""
    found: list[tuple[str | None, object]] = []
    for row in (await scene.desk.runs()).rows:
        loaded = await load_recent(scene.desk.store, row.id)
        assert loaded is not None
        found += [(call.outcome, call.output) for call in loaded[2].calls.values()]
    return found
