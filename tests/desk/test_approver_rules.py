"""Rules of the desk about approvers: for questions from now on, and before a call begins; and their ladders."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from placet import AccessDenied, Needs, UserError
from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.facts.errors import GateError
from placet.facts.voting_settings import ApproverRule, Rotation, Rung
from placet.gate import Gate
from placet.service.audit import verify
from placet.service.outbox_events import Event, events_of
from placet.service.records import records
from placet.testing.desk_contracts import until
from tests.desk.scenes import PATIENCE, Witness, support
from tests.desk.test_votes import STAFF, vote, voting

pytestmark = pytest.mark.promise("P24")
TWO = ApproverRule("Support", "refund", Needs(2, group="finance").requirement)


async def staffed(desk: Desk) -> None:
    accounts = Accounts(desk.store)
    for name, groups in STAFF.items():
        await accounts.add_user(name, "reviewer", groups=groups, by="root")


async def told(desk: Desk) -> list[Event]:
    return [event for entry in await desk.store.feed(0) for event in await events_of(desk.store, entry)]


async def test_a_rule_of_the_desk_says_who_approves_a_tool_that_says_nothing(any_url: str, witness: Witness) -> None:
    async with Desk(any_url, agents=[support(witness)]) as desk:
        await staffed(desk)
        await desk.set_approvers(TWO, by="root", reason="the auditors asked")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await desk.pending(run_id=run.id)
        with pytest.raises(AccessDenied, match="not in finance"):
            await vote(desk, request, "dan")
        await vote(desk, request, "ana")
        done = await vote(desk, request, "ben")
        await desk.wait(run.id, timeout=PATIENCE)
        acts = [entry async for entry in records(desk.store, run_id="operators")]
        verdicts = [each async for each in verify(desk.store)]

    assert request.needs == "2 of finance"
    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]
    [act] = [entry for entry in acts if entry.what == "approvers set"]
    assert (act.by, act.subject, act.why) == ("root", "Support:refund: 2 of finance", "the auditors asked")
    assert [each for each in verdicts if not each.is_whole] == []


async def test_a_rule_stands_beside_what_the_tool_says(any_url: str, witness: Witness) -> None:
    async with Desk(any_url, agents=[support(witness, approvers=Needs(1, group="board"))]) as desk:
        await staffed(desk)
        await desk.set_approvers(TWO, by="root")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await desk.pending(run_id=run.id)
        await vote(desk, request, "ana")
        second = await vote(desk, request, "ben")
        done = await vote(desk, request, "dan")
        await desk.wait(run.id, timeout=PATIENCE)

    assert second.status == "pending"
    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P19")
@pytest.mark.parametrize("edit", [False, True])
async def test_a_rule_that_comes_after_the_decision_is_heeded_before_the_call_begins(
    any_url: str, witness: Witness, edit: bool
) -> None:
    async with voting(any_url, witness, None, runs=False) as (desk, run, request):
        more: dict[str, Any] = {"verdict": "edit", "arguments": {"order": 8}} if edit else {}
        await vote(desk, request, "flo", **more)
        await desk.set_approvers(TWO, by="root")
        await desk.release_hold("run", run.id, by="root")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [asked] = await desk.pending(run_id=run.id)
        before = witness.lines()
        await vote(desk, asked, "ana")
        done = await vote(desk, asked, "ben")
        await desk.wait(run.id, timeout=PATIENCE)

    assert before == []
    assert (asked.number, asked.needs) == (2, "2 of finance")
    assert done.status == "approved"
    assert witness.lines() == ["refund 8" if edit else "refund 7"]


async def test_an_edit_keeps_what_the_rule_asks_for(any_url: str, witness: Witness) -> None:
    async with Desk(any_url, agents=[support(witness, approvers=lambda _c, _p, _i: Needs(1, group="board"))]) as desk:
        await staffed(desk)
        await desk.set_approvers(TWO, by="root")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await desk.pending(run_id=run.id)
        asked = await vote(desk, request, "cleo", "edit", arguments={"order": 8})
        await vote(desk, asked, "ana")
        await desk.wait(run.id, timeout=PATIENCE)

    assert asked.needs == "1 of board; and 2 of finance"
    assert witness.lines() == ["refund 8"]


async def test_a_guests_call_needs_the_same_and_a_later_rule_too(any_url: str) -> None:
    async with Desk(any_url) as desk:
        await staffed(desk)
        await desk.set_approvers(ApproverRule("*", "refund", Needs(2, group="finance").requirement), by="root")
        gate = Gate(desk.store, guest="nightly", source="tests")
        call = await gate.propose("refund", {"order": 7}, session="s", call_id="c1")
        [request] = await desk.pending()
        await vote(desk, request, "ana")
        still = await gate.look(call)
        await vote(desk, request, "ben")
        await desk.set_approvers(ApproverRule("*", "refund", Needs(1, group="board").requirement), by="root")
        with pytest.raises(GateError):
            await gate.claim(call)
        [asked] = await desk.pending()
        await vote(desk, asked, "ana")
        await vote(desk, asked, "ben")
        await vote(desk, asked, "dan")
        permit = await gate.claim(call)

    assert request.needs == "2 of finance"
    assert still.status == "waiting"
    assert asked.needs == "2 of finance; and 1 of board"
    assert permit.arguments == {"order": 7}


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (ApproverRule("*", "*", Needs(1, group="nobody-is-there").requirement), "not enough people"),
        (ApproverRule("*", "*", Needs(3, group="board").requirement), "not enough people"),
        (ApproverRule("*", "*", Needs(1, predicate="reviewer.age > 18").requirement), "reviewer.age"),
        (ApproverRule("*", "*"), "says nothing"),
        (ApproverRule("*", "*", None, (Rung("on_call", 60.0, "payments"),)), "no such rotation"),
        (ApproverRule("*", "*", None, (Rung("remind", -1.0),)), "some seconds after"),
    ],
)
async def test_a_rule_that_nobody_could_fulfil_is_refused_where_it_is_written(
    any_url: str, rule: ApproverRule, says: str
) -> None:
    async with Desk(any_url, run=False) as desk:
        await staffed(desk)
        with pytest.raises(UserError, match=says):
            await desk.set_approvers(rule, by="root")

        assert (await desk.voting_settings()).rules == ()


# -- the ladder -------------------------------------------------------------------------------------------------------

LADDER = (Rung("remind", 0.3), Rung("on_call", 0.6, "payments"), Rung("escalate", 0.9, "board"))
CLIMBED = ["request.reminded", "request.on_call", "request.escalated"]


async def is_told(desk: Desk, event: str) -> bool:
    return event in [each.type for each in await told(desk)]


async def climbed(desk: Desk) -> list[Event]:
    """The events of the ladder, when all of it was climbed and the question has ended."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await told(desk)
            if found and found[-1].type in ("request.closed", "run.ended"):
                return [event for event in found if event.type in CLIMBED]
            await asyncio.sleep(0.05)


async def with_ladder(desk: Desk) -> None:
    await staffed(desk)
    await desk.set_rotation("payments", Rotation(("cleo",), "2026-01-05T09:00"), by="root")
    await desk.set_approvers(ApproverRule("*", "refund", None, LADDER, 1.2), by="root")


@pytest.mark.parametrize("has_code", [True, False])
async def test_the_ladder_of_an_own_run_is_climbed_to_its_end(any_url: str, witness: Witness, has_code: bool) -> None:
    async with Desk(any_url, agents=[support(witness)]) as desk:
        await with_ladder(desk)
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
    async with Desk(any_url, agents=[support(witness)] if has_code else []) as desk:
        found = await climbed(desk)
        [request] = (await desk.requests(status=None, run_id=run.id)).rows

    assert [event.type for event in found] == CLIMBED
    assert [event.groups for event in found] == [[], ["on-call.payments"], ["board"]]
    assert found[1].data["on_call"] == "cleo"
    assert request.status == "closed"
    assert witness.lines() == []


async def test_the_ladder_of_a_guests_call_is_climbed_to_its_end(any_url: str) -> None:
    async with Desk(any_url) as desk:
        await with_ladder(desk)
        gate = Gate(desk.store, guest="nightly", source="tests")
        call = await gate.propose("refund", {"order": 7}, session="s", call_id="c1")
        found = await climbed(desk)
        ended = await gate.look(call)

    assert [event.type for event in found] == CLIMBED
    assert ended.status == "expired"


async def test_who_decides_in_time_ends_the_ladder(any_url: str, witness: Witness) -> None:
    async with Desk(any_url, agents=[support(witness)]) as desk:
        await staffed(desk)
        await desk.set_approvers(ApproverRule("*", "refund", None, (Rung("remind", 3600.0),)), by="root")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await desk.pending(run_id=run.id)
        waiting = await desk.get(run.id)
        await vote(desk, request, "ana")
        done = await desk.wait(run.id, timeout=PATIENCE)

    assert waiting.wake_at is not None
    assert 3500 < waiting.wake_at - request.created_at < 3700
    assert done.wake_at is None
    assert witness.lines() == ["refund 7"]


# -- neighbours -------------------------------------------------------------------------------------------------------


async def test_a_standing_decision_of_one_person_does_not_cover_what_a_rule_asks_two_for(
    url: str, witness: Witness
) -> None:
    async with Desk(url, agents=[support(witness)]) as desk:
        await staffed(desk)
        await desk.grant("Support", "refund", "approve", by="ana", assurance="password")
        await desk.set_approvers(TWO, by="root")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await desk.pending(run_id=run.id)

    assert request.needs == "2 of finance"
    assert witness.lines() == []


async def test_a_ladder_goes_on_behind_an_approval_that_was_taken_back(url: str, witness: Witness) -> None:
    rule = ApproverRule("*", "refund", None, (Rung("remind", 0.6),))
    async with Desk(url, agents=[support(witness)]) as desk:
        await staffed(desk)
        await desk.set_approvers(rule, by="root")
        await desk.hold("tool", "refund", by="root")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [request] = await desk.pending(run_id=run.id)
        await vote(desk, request, "ana")
        await desk.revoke(request.id, by="ana")
        await until(lambda: is_told(desk, "request.reminded"))
        [asked] = await desk.pending(run_id=run.id)
        reminded = [event for event in await told(desk) if event.type == "request.reminded"]

    assert asked.number == 2
    assert [event.data["request_id"] for event in reminded] == [asked.id]


async def test_a_restart_tells_nobody_twice_and_the_next_rung_is_due_at_its_time(url: str, witness: Witness) -> None:
    rule = ApproverRule("*", "refund", None, (Rung("remind", 0.2), Rung("escalate", 3600.0, "board")))
    async with Desk(url, agents=[support(witness)]) as desk:
        await staffed(desk)
        await desk.set_approvers(rule, by="root")
        run = await desk.start("Support", "Refund.", by="flo")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        await until(lambda: is_told(desk, "request.reminded"))
    async with Desk(url, agents=[support(witness)], run=False) as desk:
        due_now = await desk.store.runnable(time.time(), 10)
        due_then = await desk.store.runnable(time.time() + 3700, 10)
        found = [event.type for event in await told(desk) if event.type in CLIMBED]

    assert found == ["request.reminded"]
    assert (due_now, due_then) == ([], [run.id])
