"""A policy that people vote on: proposed as a question, in force when it was approved, by whom its `[change]` asks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet import Grant
from placet.cli.main import main
from placet.core.policy import Subject
from placet.desk import Desk
from placet.facts.errors import AccessDenied, InvalidProposal, UserError
from placet.gate import Gate
from placet.policy import parse_policy
from placet.ports import DeskStore
from placet.service.managed_policy import Asked, ManagedPolicy, PolicyChanges
from placet.service.policy_keeping import PolicyKeeper, note_in_force
from placet.service.policy_state import policy_state
from placet.service.records import records
from placet.stores.opening import open_store
from placet.testing import ManualClock

CHANGE = '[change]\ndistinct_from = "starter"\n'


def rules(cents: int, change: str = CHANGE) -> str:
    return f'{change}\n[[rule]]\nname = "small"\nargs.cents = {{ at_most = {cents} }}\nallow = true\nrelax = true\n'


class Scene:
    def __init__(self, store: DeskStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.desk = Desk(store, run=False, clock=clock)
        self.changes = PolicyChanges(store, clock)
        self.source = ManagedPolicy()
        self.keeper = PolicyKeeper(store, self.source, clock)

    async def propose(self, text: str, by: str = "ana") -> Asked:
        return await self.changes.propose(parse_policy(text), by=by, reason="less to ask")

    async def approve(self, asked: Asked, by: str = "ben") -> None:
        await self.desk.decide(asked.request or "", "approve", by=by)
        await self.keeper.look()

    async def told(self) -> list[str | None]:
        return [each.detail async for each in records(self.store, "operators") if each.what == "policy changed"]


@contextlib.asynccontextmanager
async def scene(url: str) -> AsyncIterator[Scene]:
    clock = ManualClock()
    async with open_store(url, clock=clock) as store:
        yield Scene(store, clock)


async def test_a_version_is_in_force_when_it_was_approved_and_the_fact_names_its_question(any_url: str) -> None:
    async with scene(any_url) as at:
        asked = await at.propose(rules(500))
        again = await at.propose(rules(500))
        await at.keeper.look()
        before = at.source.current()
        await at.approve(asked)
        state = await policy_state(at.store)
        told = await at.told()
        left = await at.changes.proposed()

    assert (asked.is_new, again.is_new, again.request) == (True, False, asked.request)
    assert before.rules == ()
    assert at.source.current().version == asked.version
    assert state.in_force is not None
    assert (state.in_force.way, state.in_force.by, state.in_force.request) == ("managed", "ana", asked.request)
    assert len(told) == 1
    assert left == []


async def test_the_proposer_is_its_author_and_cannot_approve_where_change_keeps_them_apart(any_url: str) -> None:
    async with scene(any_url) as at:
        await at.approve(await at.propose(rules(500)))
        asked = await at.propose(rules(900, change=""))  # it may not free itself: the version in force says who
        with pytest.raises(AccessDenied, match="ana"):
            await at.desk.decide(asked.request or "", "approve", by="ana")
        await at.keeper.look()
        alone = at.source.current().version
        await at.approve(asked)

    assert alone != asked.version
    assert at.source.current().version == asked.version


async def test_of_two_that_are_approved_the_second_is_not_put_over_what_came_in_between(any_url: str) -> None:
    async with scene(any_url) as at:
        first, second = await at.propose(rules(500)), await at.propose(rules(900), by="cleo")
        await at.approve(first)
        await at.approve(second)
        told = await at.told()
        ended = await at.desk.request(second.request or "")

    assert at.source.current().version == first.version
    assert len(told) == 1
    assert ended.status == "approved"


async def test_a_process_that_dies_behind_the_change_leaves_it_in_force_once(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(any_url) as at:
        asked = await at.propose(rules(500))
        put = PolicyChanges._put_in_force

        async def dies(self: PolicyChanges, *given: object) -> bool:
            await put(self, *given)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        await at.desk.decide(asked.request or "", "approve", by="ben")
        with monkeypatch.context() as patched:
            patched.setattr(PolicyChanges, "_put_in_force", dies)
            with pytest.raises(KeyboardInterrupt):
                await at.changes.settle()
        await at.keeper.look()  # its lease is not over yet
        between = await at.changes.proposed()
        at.clock.advance(120)
        await at.keeper.look()
        told, left = await at.told(), await at.changes.proposed()

    assert len(between) == 1
    assert (len(told), left) == (1, [])
    assert at.source.current().version == asked.version


async def test_what_was_rejected_changes_nothing_and_can_be_proposed_again(any_url: str) -> None:
    async with scene(any_url) as at:
        asked = await at.propose(rules(500))
        await at.desk.decide(asked.request or "", "reject", by="ben")
        await at.keeper.look()
        again = await at.propose(rules(500))
        with pytest.raises(UserError):
            await at.desk.decide(again.request or "", "edit", by="ben", arguments={"version": "x"})

    assert at.source.current().rules == ()
    assert again.is_new
    assert again.request != asked.request


async def test_no_standing_decision_and_no_guest_puts_a_policy_in_force(any_url: str) -> None:
    async with scene(any_url) as at:
        first = await at.propose(rules(500, change=""))
        await at.desk.decide(first.request or "", "approve", by="ben", always=Grant(scope="agent"))
        await at.keeper.look()
        second = await at.propose(rules(900, change=""))
        waits = await at.desk.request(second.request or "")
        with pytest.raises(InvalidProposal):
            Gate(at.store, guest="ana", source="policy", clock=at.clock)

    assert at.source.current().version == first.version
    assert waits.status == "pending"


async def test_where_it_cannot_be_read_everything_is_asked_about_and_a_version_that_does_not_load_leaves_the_one_before(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(any_url) as at:
        unread = at.source.current().judge(Subject(tool="look_up", agent="Support", arguments={}))
        await at.approve(await at.propose(rules(500)))
        asked = await at.propose(rules(900))
        monkeypatch.setattr("placet.policy.loading.MOST_RULES", 0)  # as code that knows less
        await at.approve(asked)
        kept, refused = at.source.current(), (await policy_state(at.store)).refused
        fresh = ManagedPolicy()
        await PolicyKeeper(at.store, fresh, at.clock).begin()

    assert unread.verdict == "ask"
    assert kept.text == rules(500)
    assert len(refused) == 1
    assert fresh.current().judge(Subject(tool="x", agent="y", arguments={})).verdict == "ask"


async def test_a_process_with_a_file_does_not_change_what_people_voted_on(any_url: str) -> None:
    async with scene(any_url) as at:
        asked = await at.propose(rules(500))
        await at.approve(asked)
        await note_in_force(at.store, parse_policy(rules(7)), at.clock.now())
        other = ManagedPolicy()
        await PolicyKeeper(at.store, other, at.clock).begin()

    assert other.current().version == asked.version


def test_placet_policy_apply_proposes_and_a_desk_that_is_managed_puts_it_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, file = f"sqlite:///{tmp_path / 'placet.db'}", tmp_path / "policy.toml"
    file.write_text(rules(500, change=""))
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[change]\naprove = 2\n")

    async def served() -> str:
        async with open_store(url) as store, Desk(store, policy="managed") as desk:
            (asked,) = await desk.pending()
            await desk.decide(asked.id, "approve", by="ben")
            assert desk.policy is not None
            async with asyncio.timeout(60):
                while desk.policy.current().text != rules(500, change=""):
                    await desk.store.wait_for_news(await desk.store.latest_sequence(), 0.1)
        return asked.id

    refused = main(["policy", "apply", str(wrong), "--store", url])
    said = capsys.readouterr().err
    code = main(["policy", "apply", str(file), "--store", url, "--reason", "less to ask", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert refused != 0
    assert "wrong.toml:2:1: 'aprove' is unknown here. Did you mean 'approve'?" in said
    assert code == 0
    assert found["request"] == asyncio.run(served())
