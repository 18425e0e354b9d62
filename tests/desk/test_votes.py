"""Votes at the desk: people and groups of the store, changed minds, edits, taking back, two desks, a changed office."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet import AccessDenied, Needs, StaleApproval
from placet.desk import Desk, DeskRequest, DeskRun
from placet.desk.access.accounts import Accounts
from placet.service.audit import verify
from placet.service.doctor import examine
from placet.service.records import records
from tests.desk.scenes import PATIENCE, Witness, paused, support

pytestmark = pytest.mark.promise("P24")
FINANCE = Needs(2, group="finance", deny=2)
STAFF = {"ana": ["finance"], "ben": ["finance"], "cleo": ["finance", "board"], "dan": ["board"], "flo": []}


@asynccontextmanager
async def voting(
    url: str, witness: Witness, approvers: Any = FINANCE, *, by: str = "flo", runs: bool = True
) -> AsyncIterator[tuple[Desk, DeskRun, DeskRequest]]:
    """A desk with people, and a call that waits for their votes."""
    desk = Desk(url, agents=[support(witness, approvers=approvers)])
    accounts = Accounts(desk.store)
    for name, groups in STAFF.items():
        await accounts.add_user(name, "reviewer", groups=groups, by="root")
    async with paused(desk, by=by) as (run, request):
        if not runs:
            await desk.hold("run", run.id, by="root")  # what is decided stays unbegun
        yield desk, run, request


async def vote(
    desk: Desk, request: DeskRequest | str, by: str | None, verdict: Any = "approve", **more: Any
) -> DeskRequest:

    return await desk.decide(request.id, verdict, by=by, **({"assurance": "password"} | more))


async def test_two_of_finance_are_two_people_of_finance(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        first = await vote(desk, request, "ana", reason="checked")
        with pytest.raises(AccessDenied, match="not in finance"):
            await vote(desk, request, "dan")
        with pytest.raises(AccessDenied, match="not a member of a group"):
            await vote(desk, request, "ben", assurance="none")
        again = await vote(desk, request, "ana")
        before = witness.lines()
        done = await vote(desk, request, "cleo")
        await desk.wait(run.id, timeout=PATIENCE)
        kept = await desk.request(request.id)
        told = [entry.what async for entry in records(desk.store, run_id=run.id)]

    assert ([each.by for each in first.votes], first.status) == (["ana"], "pending")
    assert again == first
    assert before == []
    assert (done.status, done.decided_by) == ("approved", "cleo")
    assert [each.by for each in kept.votes] == ["ana", "cleo"]
    assert witness.lines() == ["refund 7"]
    assert told[:4] == ["approvers required", "vote cast", "vote cast", "approved"]


async def test_a_changed_mind_and_denials_are_counted(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        await vote(desk, request, "ana")
        changed = await vote(desk, request, "ana", "reject")
        await vote(desk, request, "ben")
        done = await vote(desk, request, "ben", "reject", message="not this one")
        await desk.wait(run.id, timeout=PATIENCE)

    assert {each.by: each.verdict for each in changed.votes} == {"ana": "reject"}
    assert done.status == "rejected"
    assert witness.lines() == []


@pytest.mark.parametrize("change", ["switched off", "moved", "removed"])
async def test_a_vote_of_somebody_who_left_before_completion_counts_no_longer(
    any_url: str, witness: Witness, change: str
) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        await vote(desk, request, "ana")
        accounts = Accounts(desk.store)
        if change == "switched off":
            await accounts.change_user("ana", is_active=False, by="root")
        elif change == "moved":
            await accounts.change_user("ana", groups=["board"], by="root")
        else:
            await accounts.remove_user("ana", by="root")
        second = await vote(desk, request, "ben")
        before = witness.lines()
        done = await vote(desk, request, "cleo")
        await desk.wait(run.id, timeout=PATIENCE)

    assert second.status == "pending"
    assert before == []
    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P19")
async def test_a_vote_of_somebody_who_left_before_the_claim_does_not_carry_it(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, runs=False) as (desk, run, request):
        await vote(desk, request, "ana")
        await vote(desk, request, "ben")
        await Accounts(desk.store).change_user("ben", is_active=False, by="root")
        await desk.release_hold("run", run.id, by="root")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        [asked] = await desk.pending(run_id=run.id)
        before = witness.lines()
        done = await vote(desk, asked, "cleo")
        await desk.wait(run.id, timeout=PATIENCE)

    assert before == []
    assert "not carried by the votes" in (asked.why or "")
    assert asked.number == 2
    assert {each.by for each in asked.votes} == {"ana", "ben"}
    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P18")
async def test_a_vote_can_be_taken_back_until_the_decision(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        await vote(desk, request, "ana")
        with pytest.raises(AccessDenied, match="no vote"):
            await desk.revoke(request.id, by="ben")
        back = await desk.revoke(request.id, by="ana", reason="too hasty")
        second = await vote(desk, request, "ben")
        third = await vote(desk, request, "ana")
        await desk.wait(run.id, timeout=PATIENCE)

    assert (back.id, back.votes, back.status) == (request.id, (), "pending")
    assert second.status == "pending"
    assert third.status == "approved"
    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P18")
async def test_after_the_decision_any_voter_takes_theirs_back_and_the_others_stand(
    any_url: str, witness: Witness
) -> None:
    async with voting(any_url, witness, runs=False) as (desk, run, request):
        await vote(desk, request, "ana")
        await vote(desk, request, "ben")
        with pytest.raises(AccessDenied, match="no vote"):
            await desk.revoke(request.id, by="cleo")
        asked = await desk.revoke(request.id, by="ana", reason="wrong customer")
        with pytest.raises(StaleApproval):
            await vote(desk, request, "cleo", "reject")
        await desk.release_hold("run", run.id, by="root")
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        before = witness.lines()
        done = await vote(desk, asked, "cleo")
        await desk.wait(run.id, timeout=PATIENCE)

    assert (asked.number, [each.by for each in asked.votes]) == (2, ["ben"])
    assert before == []
    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]


async def test_an_edit_begins_the_next_question_with_its_authors_vote(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        await vote(desk, request, "ana")
        asked = await vote(desk, request, "ben", "edit", arguments={"order": 8})
        with pytest.raises(StaleApproval):
            await vote(desk, request, "cleo")
        first = await desk.request(request.id)
        done = await vote(desk, asked, "ana")
        await desk.wait(run.id, timeout=PATIENCE)
        verdicts = [each async for each in verify(desk.store)]

    assert (asked.number, asked.arguments, asked.status) == (2, {"order": 8}, "pending")
    assert [each.by for each in asked.votes] == ["ben"]
    assert (first.status, first.votes) == ("closed", ())
    assert done.status == "approved"
    assert witness.lines() == ["refund 8"]
    assert [each for each in verdicts if not each.is_whole] == []


async def test_an_edit_without_the_tools_code_is_asked_about_by_whoever_drives(any_url: str, witness: Witness) -> None:
    def who(_ctx: Any, params: dict[str, Any], _call_id: str) -> Needs:
        return Needs(2 if params["order"] > 100 else 1)

    async with voting(any_url, witness, who) as (desk, run, request), Desk(any_url, run=False) as other:
        decided = await vote(other, request, "ben", "edit", arguments={"order": 700})
        await desk.wait(run.id, until="paused", timeout=PATIENCE)
        asked = await desk.pending(run_id=run.id)
        before = witness.lines()
        done = await vote(desk, asked[0], "ana")
        await desk.wait(run.id, timeout=PATIENCE)

    assert decided.status == "edited"
    assert before == []
    assert asked[0].arguments == {"order": 700}
    assert [each.by for each in asked[0].votes] == ["ben"]
    assert done.status == "approved"
    assert witness.lines() == ["refund 700"]


async def test_who_started_the_run_neither_approves_it_nor_counts(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, Needs(2, distinct_from="starter"), by="ana") as (desk, run, request):
        for name in ("ana", " Ana "):
            with pytest.raises(AccessDenied, match="starter"):
                await vote(desk, request, name)
        await vote(desk, request, "ben")
        done = await vote(desk, request, "cleo")
        await desk.wait(run.id, timeout=PATIENCE)

    assert done.status == "approved"


@pytest.mark.promise("P19")
async def test_four_eyes_of_the_store_keep_the_starter_out_of_every_count(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, Needs(2), by="ana", runs=False) as (desk, _, request):
        await vote(desk, request, "ana")
        await desk.set_four_eyes([("*", "*")], by="root")
        second = await vote(desk, request, "ben")
        again = await vote(desk, request, "ana", reason="once more")
        third = await vote(desk, request, "cleo")

    assert (second.status, again.status) == ("pending", "pending")
    assert third.status == "approved"


async def test_of_votes_at_two_desks_at_once_each_counts_once(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, Needs(3)) as (desk, run, request), Desk(any_url, run=False) as other:
        names = ["ana", "ben", "cleo"]
        found = await asyncio.gather(
            *(vote(each, request, name) for name in names for each in (desk, other)), return_exceptions=True
        )
        await desk.wait(run.id, timeout=PATIENCE)
        kept = await desk.request(request.id)

    assert [each for each in found if isinstance(each, Exception)] == []
    assert sorted(str(each.by) for each in kept.votes) == names
    assert kept.status == "approved"
    assert witness.lines() == ["refund 7"]


async def test_the_doctor_shows_what_nobody_is_left_to_approve(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        before = [each async for each in examine(desk.store, desk.agents)]
        for name in ("ana", "ben"):
            await Accounts(desk.store).change_user(name, groups=["board"], by="root")
        [examined] = [each async for each in examine(desk.store, desk.agents)]

    assert [finding for each in before for finding in each.findings] == []
    [finding] = examined.findings
    assert (finding.code, finding.run_id, finding.request_id) == ("too_few_approvers", run.id, request.id)
    assert "2 of finance" in finding.message


async def test_a_late_vote_is_ignored_or_told_who_decided(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, runs=False) as (desk, _, request):
        await vote(desk, request, "ana")
        await vote(desk, request, "ben")
        same = await vote(desk, request, "cleo")
        with pytest.raises(StaleApproval, match="ben"):
            await vote(desk, request, "cleo", "reject")

    assert same.status == "approved"
    assert sorted(str(each.by) for each in same.votes) == ["ana", "ben"]
