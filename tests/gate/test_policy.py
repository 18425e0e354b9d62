"""A policy over guests' calls: judged when they are proposed, and again before they are claimed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet import UserError
from placet.core.policy import Policy
from placet.desk import Desk
from placet.facts.ids import split_call_id
from placet.gate import CallNotClaimable, CallRejected, Gate
from placet.policy import parse_policy
from placet.service.audit import verify
from placet.service.guest_limits import GuestLimits
from placet.service.records import records
from placet.stores.opening import open_store
from placet.testing import ManualClock
from tests.gate.scenes import LIMITS, serving
from tests.support.desk_server import FAST

ORDER = {"type": "object", "properties": {"cents": {"type": "integer"}}, "additionalProperties": False}


class Changing:
    """A policy that a test replaces."""

    def __init__(self, text: str) -> None:
        self.policy = parse_policy(text)

    def become(self, text: str) -> None:
        self.policy = parse_policy(text)

    def current(self) -> Policy:
        return self.policy


class Scene:
    def __init__(self, desk: Desk, gate: Gate, policy: Changing, clock: ManualClock) -> None:
        self.desk, self.gate, self.policy, self.clock = desk, gate, policy, clock
        self._n = 0

    async def propose(self, cents: int = 100, tool: str = "refund", *, needs_approval: bool = True):  # type: ignore[no-untyped-def]  # GateCall
        self._n += 1
        return await self.gate.propose(
            tool,
            {"cents": cents},
            session="s",
            call_id=f"c{self._n}",
            schema=ORDER,
            needs_approval=needs_approval,
        )


@contextlib.asynccontextmanager
async def scene(text: str, url: str = "sqlite://", limits: GuestLimits = LIMITS) -> AsyncIterator[Scene]:
    clock, policy = ManualClock(), Changing(text)
    store = open_store(url, clock=clock)
    async with (
        store,
        Desk(store, run=False, clock=clock, guest_limits=limits, policy=policy) as desk,
        Gate(store, guest="jobs", clock=clock, limits=limits, policy=policy) as gate,
    ):
        yield Scene(desk, gate, policy, clock)


def rule(body: str, name: str = "one") -> str:
    return f'[[rule]]\nname = "{name}"\n{body}\n'


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'placet.db'}"


async def test_what_a_rule_denies_ends_at_once_and_the_guest_reads_why_although_it_said_that_nobody_need_be_asked(
    url: str,
) -> None:
    async with scene(rule("tool = 'refund'\ndeny = 'No refunds today.'"), url) as at:
        found = await at.propose(needs_approval=False)

        with pytest.raises(CallRejected, match="No refunds today"):
            await at.gate.claim(found)

    assert (found.status, found.message) == ("denied", "No refunds today.")


async def test_a_rule_that_allows_and_relaxes_lets_a_guest_go_ahead_without_a_question(url: str) -> None:
    text = rule("args.cents = { at_most = 500 }\nallow = true\nrelax = true", "small")
    async with scene(text, url) as at:
        small, large = await at.propose(500), await at.propose(501)
        permit = await at.gate.claim(small)
        await at.gate.report(permit, "finished", "paid")
        told = [entry async for entry in records(at.desk.store, split_call_id(small.id)[0])]
        broken = [each async for each in verify(at.desk.store) if not each.is_whole]

    assert (small.status, large.status) == ("claimable", "waiting")
    assert [entry.detail for entry in told if entry.what == "policy judged"] == [
        f"refund, rule «small» (line 1) says allow; policy {at.policy.policy.version}"
    ]
    assert broken == []


async def test_an_asking_rule_brings_its_reason_its_deadline_and_the_people_it_needs(url: str) -> None:
    text = rule("ask = { approve = 2, within = '10m', because = 'Money leaves.' }", "money")
    async with scene(text, url) as at:
        found = await at.propose(needs_approval=False)
        first = await at.desk.decide(found.request_id or "", "approve", by="ana")
        between = await at.gate.look(found)
        await at.desk.decide(first.id, "approve", by="ben")
        permit = await at.gate.claim(found)

    assert found.message == "rule «money» (policy.toml, line 1) asks: Money leaves."
    assert found.expires_at == at.clock.now() + 600
    assert (first.status, between.status) == ("pending", "waiting")
    assert permit.arguments == {"cents": 100}


async def test_an_approved_call_that_the_policy_denies_by_now_is_not_claimed(url: str) -> None:
    async with scene("", url) as at:
        found = await at.propose()
        await at.desk.decide(found.request_id or "", "approve", by="ana")
        at.policy.become(rule("deny = 'Not any more.'"))

        with pytest.raises(CallNotClaimable, match="Not any more"):
            await at.gate.claim(found)
        after = await at.gate.look(found)

    assert after.status == "denied"


async def test_a_call_that_was_let_through_is_asked_about_when_the_policy_wants_people_by_now(url: str) -> None:
    async with scene("", url) as at:
        found = await at.propose(needs_approval=False)
        at.policy.become(rule("ask = { approve = 2 }", "money"))
        with pytest.raises(CallNotClaimable, match="money"):
            await at.gate.claim(found)
        asked = await at.gate.look(found)
        await at.desk.decide(asked.request_id or "", "approve", by="ana")
        one = await at.gate.look(found)
        await at.desk.decide(asked.request_id or "", "approve", by="ben")
        permit = await at.gate.claim(found)

    assert (found.status, asked.status, one.status) == ("claimable", "waiting", "waiting")
    assert permit.call.tool == "refund"


async def test_an_edit_is_judged_with_its_own_arguments_before_the_claim(url: str) -> None:
    text = rule("args.cents = { above = 1000 }\ndeny = 'Too much.'")
    async with scene(text, url) as at:
        found = await at.propose(100)
        await at.desk.decide(found.request_id or "", "edit", by="ana", arguments={"cents": 5000})

        with pytest.raises(CallNotClaimable, match="Too much"):
            await at.gate.claim(found)
        after = await at.gate.look(found)

    assert (after.status, after.arguments) == ("waiting", {"cents": 100})


async def test_a_call_that_a_rule_lifted_is_asked_about_when_that_rule_is_gone(url: str) -> None:
    async with scene(rule("allow = true\nrelax = true"), url) as at:
        found = await at.propose()
        at.policy.become("")

        with pytest.raises(CallNotClaimable):
            await at.gate.claim(found)

        assert (await at.gate.look(found)).status == "waiting"


async def test_a_desk_lets_named_calls_pass_recorded_and_what_the_policy_denies_is_denied(url: str) -> None:
    limits = GuestLimits(passes=False, pass_through=(("python/*", "read_*"),))
    async with scene(rule("tool = 'read_secrets'\ndeny = 'Not these.'"), url, limits) as at:
        passes = await at.propose(tool="read_file")
        denied = await at.propose(tool="read_secrets")
        asks = await at.propose(tool="write_file", needs_approval=False)

    assert [each.status for each in (passes, denied, asks)] == ["claimable", "denied", "waiting"]


async def test_a_rule_knows_the_source_and_the_guest_and_judges_by_what_the_guest_declared(url: str) -> None:
    text = rule("source = 'python'\nagent = '*/jobs'\nif = 'args.cents > 50'\ndeny = 'No.'")
    async with scene(text, url) as at:
        found = await at.propose(51)
        of_another_kind = await at.gate.propose(
            "refund",
            {"sum": 1},
            session="s",
            call_id="x",
            schema={
                "type": "object",
                "properties": {"sum": {"type": "integer"}},
            },
        )

    assert found.status == "denied"
    assert "about another tool" in (of_another_kind.message or "")


async def test_guests_over_http_are_under_the_policy_of_the_desk(url: str) -> None:
    from placet.desk.app import create_app

    clock, policy = ManualClock(), Changing(rule("args.cents = { above = 500 }\ndeny = 'Too much.'"))
    store = open_store(url, clock=clock)
    async with store, Desk(store, run=False, clock=clock, policy=policy) as desk:
        app = create_app(desk, FAST, clock=clock)
        async with serving(app) as address:
            accounts = app.state.web.accounts
            await accounts.add_user("jobs", "guest")
            token, _ = await accounts.add_token("jobs", "a test")
            async with Gate(address, token=token, guest="jobs") as gate:
                denied = await gate.propose("refund", {"cents": 900}, session="s", call_id="a")
                asked = await gate.propose("refund", {"cents": 9}, session="s", call_id="b")

    assert (denied.status, denied.message, asked.status) == ("denied", "Too much.", "waiting")


async def test_proposals_that_race_are_each_judged_once(url: str) -> None:
    async with scene(rule("ask = { approve = 2 }"), url, GuestLimits()) as at:
        found = await asyncio.gather(*(at.propose(n) for n in range(20)))
        told = [entry async for entry in records(at.desk.store, split_call_id(found[0].id)[0])]

    assert {each.status for each in found} == {"waiting"}
    assert len([entry for entry in told if entry.what == "policy judged"]) == 20
    assert len([entry for entry in told if entry.what == "approvers required"]) == 20


async def test_a_gate_to_a_desk_takes_no_policy_of_its_own() -> None:
    with pytest.raises(UserError, match="has a policy of its own"):
        Gate("http://127.0.0.1:1", token="t", guest="jobs", policy=parse_policy(""))
