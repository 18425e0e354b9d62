"""All adapters with their real frameworks: guests that are killed, race, and meet a desk that goes away or comes late.

Each conversation is a process of its own, in the environment of its framework, over HTTP; a file outside of all of them
counts effects. `python3 dev.py adapters` runs all of it, and writes what passed into docs/gate.md.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dev
from placet.facts.errors import PlacetError
from placet.facts.ids import request_id
from placet.runtime.journal import load_recent
from tests.gate.hosts.driver import command_for
from tests.gate.hosts.frameworks import FRAMEWORKS
from tests.gate.hosts.scenarios import DIED, LEASE, STEPS
from tests.gate.stage import PATIENCE, ROOT, Stage, stage
from tests.support.ports import free_port

pytestmark = [pytest.mark.promise("P23"), pytest.mark.timeout(900)]

Noting = Callable[[str, object], None]
WAYS = [(each.host, way) for each in FRAMEWORKS.values() for way in each.ways]
QUICK = {(each.host, each.ways[0]) for each in FRAMEWORKS.values() if each.is_quick}
"""Of these a slice runs with every change."""
RAN = {"before propose": 1, "proposed": 1, "decided": 1, "claimed": 0, "done": 1, "reported": 1}
"""How often a call has happened when its guest was killed at a step, and came back."""


def ways(is_quick: bool = False) -> list[Any]:
    return [
        pytest.param(host, way, id=f"{host}-{way}", marks=[] if is_quick and (host, way) in QUICK else pytest.mark.long)
        for host, way in WAYS
    ]


class Guests:
    """Conversations of one framework, in one of its ways."""

    def __init__(self, scene: Stage, host: str, way: str) -> None:
        dev.set_up_apart(dev.DEV / "hosts" / host, FRAMEWORKS[host].lock, f"{host}, for its adapter")
        self.scene, self.host, self.way = scene, host, way

    async def run(self, order: str, *, dies_at: str | None = None, at: str | None = None, **more: Any) -> str:
        """What the model read of the call; empty: the process was killed, or ended with an error."""
        gate = {**self.scene.given, "source": "host", **({"at": at, "patience": 0.5} if at else {})}
        spec = {
            "host": self.host,
            "way": self.way,
            "gate": gate,
            "witness": str(self.scene.witness.path),
            "calls": [["c1", {"order": order}]],
            "session": f"chat-{order}",
            "dies_at": dies_at,
            "options": {"lease": LEASE},
            **more,
        }
        command, env = command_for(spec)
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(PATIENCE):
                out, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert at or process.returncode == (DIED if dies_at else 0), errors.decode()[-4000:]
        if process.returncode:
            return ""
        read: dict[str, str] = json.loads(out.decode().splitlines()[-1])
        return read["c1"]


def count(scene: Stage, noting: Noting) -> None:
    """Compare the outside witness with what people said: what ran unapproved, twice, or is lost."""
    ran, approved = Counter(line.split()[0] for line in scene.witness.lines()), Counter(scene.approved)
    asked_about = scene.asked.count("in_doubt")
    found = {
        "calls": len(scene.asked) - asked_about,
        "unapproved": sum(times for order, times in ran.items() if not approved[order]),
        "twice": sum(max(0, ran[order] - times) for order, times in approved.items()),
        "lost": max(0, sum(not ran[order] for order in approved) - asked_about),
    }
    for name, number in found.items():
        noting(name, number)
    assert (found["unapproved"], found["twice"], found["lost"]) == (0, 0, 0)


@pytest.mark.parametrize(("host", "way"), ways(is_quick=True))
async def test_killed_at_any_step_a_guest_runs_nothing_twice_and_leaves_nothing_unasked(
    host: str, way: str, tmp_path: Path, record_property: Noting, request: pytest.FixtureRequest
) -> None:
    steps = STEPS if request.config.getoption("--long") else ("claimed", "done")
    async with stage("http", tmp_path) as scene, scene.with_people():
        guests = Guests(scene, host, way)
        for step in steps:
            order = step.replace(" ", "-")
            killed = await guests.run(order, dies_at=step)
            back = await guests.run(order)

            assert killed == ""
            assert (scene.witness.lines().count(f"{order} 100"), back.startswith("paid")) == (
                RAN[step],
                step not in ("claimed", "done"),
            )
        assert scene.asked.count("approval") == len(steps)
        assert scene.asked.count("in_doubt") == 2
        count(scene, record_property)


@pytest.mark.parametrize(("host", "way"), ways(is_quick=True))
async def test_of_two_guests_that_race_for_one_call_one_executes_it_and_both_read_what_came_of_it(
    host: str, way: str, tmp_path: Path, record_property: Noting
) -> None:
    async with stage("http", tmp_path) as scene, scene.with_people():
        guests = Guests(scene, host, way)
        read = await asyncio.gather(guests.run("7"), guests.run("7"))

        assert scene.witness.lines() == ["7 100"]
        assert scene.asked == ["approval"]
        assert read == ["paid 100 for 7"] * 2
        count(scene, record_property)


@pytest.mark.parametrize(("host", "way"), ways())
async def test_a_desk_that_is_restarted_while_a_guest_waits_loses_nothing(
    host: str, way: str, tmp_path: Path, record_property: Noting
) -> None:
    port = free_port()
    async with stage("http", tmp_path, port) as first:
        waiting = asyncio.create_task(Guests(first, host, way).run("7"))
        async with asyncio.timeout(PATIENCE):
            while not await first.desk.pending():
                assert not waiting.done(), await waiting
                await first.desk.store.wait_for_news(await first.desk.store.latest_sequence(), 1.0)
    async with stage("http", tmp_path, port) as second, second.with_people():
        read = await asyncio.wait_for(waiting, PATIENCE)

        assert read == "paid 100 for 7"
        assert second.witness.lines() == ["7 100"]
        assert second.asked == ["approval"]
        count(second, record_property)


@pytest.mark.parametrize(("host", "way"), ways())
async def test_with_the_desk_away_nothing_runs(host: str, way: str, tmp_path: Path, record_property: Noting) -> None:
    async with stage("http", tmp_path) as scene, scene.with_people():
        read = await Guests(scene, host, way).run("7", at=f"http://127.0.0.1:{free_port()}")

        assert not read or "was not run" in read
        assert scene.asked == []
        count(scene, record_property)


@pytest.mark.parametrize(("host", "way"), ways())
async def test_a_decision_after_the_deadline_is_refused_and_runs_nothing(
    host: str, way: str, tmp_path: Path, record_property: Noting
) -> None:
    async with stage("http", tmp_path) as scene:
        read = await Guests(scene, host, way).run("7", proposing={"decide_within": 1.0})
        (request,) = await asked_ever(scene)
        with pytest.raises(PlacetError):
            await scene.desk.decide(request, "approve", by="ops")

        assert "paid" not in read
        count(scene, record_property)


@pytest.mark.parametrize(("host", "way"), ways())
async def test_a_yes_for_a_tool_that_has_changed_since_is_not_used(
    host: str, way: str, tmp_path: Path, record_property: Noting
) -> None:
    async with stage("http", tmp_path) as scene, scene.with_people():
        guests = Guests(scene, host, way)
        await guests.run("7", dies_at="decided", proposing={"version": "1"})
        scene.verdicts["approval"] = "reject"
        changed = await guests.run("7", proposing={"version": "2"})
        as_it_was = await guests.run("7", proposing={"version": "1"})

        assert "paid" not in changed
        assert as_it_was == "paid 100 for 7"
        assert scene.asked == ["approval"] * 2
        count(scene, record_property)


async def asked_ever(scene: Stage) -> list[str]:
    """The requests of all calls, also of those that are over."""
    found: list[str] = []
    for row in (await scene.desk.runs()).rows:
        loaded = await load_recent(scene.desk.store, row.id)
        assert loaded is not None
        found += [request_id(row.id, call.id, call.request) for call in loaded[2].calls.values()]
    return found
