"""What a store knows of its policy: the version in force, files that do not load, and what rules said."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from pathlib import Path

from placet.cli.main import main
from placet.core.index import RequestRecord
from placet.desk import Desk
from placet.gate import Gate
from placet.policy import PolicyFile, parse_policy
from placet.ports import DeskStore
from placet.service.audit import verify
from placet.service.metrics import metrics_page, policy_families
from placet.service.policy_keeping import PROBLEM_KEPT, PolicyKeeper, note_in_force
from placet.service.policy_state import PROBLEM, count_rules, policy_state, text_of
from placet.service.records import records
from placet.stores.opening import open_store
from placet.testing import ManualClock
from tests.gate.scenes import LIMITS

SHADOW = """
[[rule]]
name = "small"
args.cents = { at_most = 500 }
allow = true
relax = true

[[rule]]
name = "odd"
args.cents = { at_most = 10 }
ask = true

[rollout]
small = "shadow"
"""


class Scene:
    def __init__(self, store: DeskStore, clock: ManualClock, path: Path) -> None:
        self.store, self.clock, self.path = store, clock, path
        self.file = PolicyFile(path, look_seconds=0.0)
        self.keeper = PolicyKeeper(store, self.file, clock)

    def write(self, text: str) -> None:
        self.path.write_text(text, encoding="utf-8")
        later = self.path.stat().st_mtime_ns + 1_000_000
        os.utime(self.path, ns=(later, later))


@contextlib.asynccontextmanager
async def scene(tmp_path: Path, text: str = SHADOW) -> AsyncIterator[Scene]:
    clock, path = ManualClock(), tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    store = open_store(f"sqlite:///{tmp_path / 'placet.db'}", clock=clock)
    async with store:
        yield Scene(store, clock, path)


async def changes(store: DeskStore) -> list[tuple[str, str | None]]:
    found = [entry async for entry in records(store, "operators")]
    return [(entry.subject, entry.detail) for entry in found if entry.what == "policy changed"]


async def test_the_version_in_force_and_each_change_of_it_stand_in_the_operators_log_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        first = at.file.current().version
        await at.keeper.look()
        await PolicyKeeper(at.store, at.file, at.clock).look()  # another process with the same file
        at.write("")
        await at.keeper.look()
        second = at.file.current().version
        state = await policy_state(at.store)
        told = await changes(at.store)
        kept = [await text_of(at.store, each) for each in (first, second)]
        broken = [each async for each in verify(at.store) if not each.is_whole]

    assert told == [(first, "policy.toml, by its file"), (second, f"policy.toml, by its file, before {first}")]
    assert state.in_force is not None
    assert (state.in_force.version, state.in_force.way) == (second, "file")
    assert kept == [SHADOW, ""]
    assert broken == []


async def test_two_processes_that_bring_the_same_version_at_once_write_it_down_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        policy = parse_policy(SHADOW)
        wrote = await asyncio.gather(*(note_in_force(at.store, policy, 1.0) for _ in range(8)))

        assert sum(wrote) == 1
        assert len(await changes(at.store)) == 1


async def test_a_file_that_does_not_load_is_told_by_doctor_and_metrics_until_it_loads(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        await at.keeper.look()
        before = at.file.current().version
        at.write("[[rule]]\nname = 'x'\nalow = true\n")
        await at.keeper.look()
        (refused,) = (await policy_state(at.store)).refused
        code, said = await asyncio.to_thread(doctor, tmp_path)
        page = metrics_page(policy_families(await policy_state(at.store)))
        at.write(SHADOW + "# better\n")
        await at.keeper.look()
        after = await policy_state(at.store)
        healed, _ = await asyncio.to_thread(doctor, tmp_path)

    assert (refused.file, refused.in_force) == ("policy.toml", before)
    assert "policy.toml:3:1" in refused.message
    assert (code, healed) == (1, 0)
    assert [line["code"] for line in said] == ["policy_refused"]
    assert "placet_policy_refused 1.0" in page
    assert after.refused == []


def doctor(tmp_path: Path) -> tuple[int, list[dict[str, object]]]:
    out = io.StringIO()
    with redirect_stdout(out):
        (tmp_path / "placet.db").chmod(0o600)
        code = main(["doctor", "tests.cli.shop:agents", "--store", f"sqlite:///{tmp_path / 'placet.db'}", "--json"])
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    return code, [line for line in lines if line.get("code") != "file_open_to_others"]


async def test_a_process_that_is_gone_is_not_told_of_for_ever(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.write("nonsense")
        await at.keeper.look()
        (record,) = await at.store.records(PROBLEM)

        assert record.expires_at == at.clock.now() + PROBLEM_KEPT


async def decided(at: Scene, *said: tuple[int, str]) -> list[RequestRecord]:
    """Calls with these cents, about which people said this."""
    found: list[RequestRecord] = []
    async with (
        Desk(at.store, run=False, clock=at.clock, guest_limits=LIMITS, policy=at.file) as desk,
        Gate(at.store, guest="jobs", clock=at.clock, limits=LIMITS, policy=at.file) as gate,
    ):
        for number, (cents, verdict) in enumerate(said):
            call = await gate.propose("refund", {"cents": cents}, session="s", call_id=f"c{number}")
            found.append(await desk.decide(call.request_id or "", verdict, by="ana"))  # type: ignore[arg-type]
    return found


async def test_what_a_shadow_rule_would_have_said_stands_beside_the_decision_and_is_counted(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        rows = await decided(at, (100, "approve"), (200, "approve"), (300, "reject"), (900, "approve"), (5, "approve"))
        before = -1
        while (now := await count_rules(at.store)) != before:
            before = now
        state = await policy_state(at.store)
        page = metrics_page(policy_families(state))

    assert [[(each.name, each.mode, each.verdict) for each in row.rules] for row in rows] == [
        [("small", "shadow", "allow")],
        [("small", "shadow", "allow")],
        [("small", "shadow", "allow")],
        [],
        [("small", "shadow", "allow"), ("odd", "enforce", "ask")],
    ]
    assert [(each.name, each.line) for each in state.rules] == [
        ("odd", "asked about 1; people approved 1 and rejected 0"),
        ("small", "would have spared 3 of 4, contradicted a rejection once"),
    ]
    assert state.in_force is None or "placet_policy_rule_heard" in page


async def test_the_feed_is_counted_once_however_many_processes_count_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        await decided(at, (100, "approve"), (200, "reject"))
        for _ in range(3):
            await asyncio.gather(*(count_rules(at.store) for _ in range(5)))
        state = await policy_state(at.store)

    assert [(each.name, each.heard, each.yes, each.no) for each in state.rules] == [("small", 2, 1, 1)]


async def test_what_rules_said_is_erased_with_the_run(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        (row,) = await decided(at, (5, "reject"))
        async with (
            Desk(at.store, run=False, clock=at.clock) as desk,
            Gate(at.store, guest="jobs", clock=at.clock) as gate,
        ):
            await gate.close("s")
            await desk.erase(row.run_id, by="ops")
        blank = await at.store.request(row.id)
        broken = [each async for each in verify(at.store) if not each.is_whole]

    assert blank is not None
    assert blank.rules == ()
    assert broken == []
