"""Delegation, on-call, predicates and break-glass at the desk: who may vote, what it counts, and what is owed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from placet import AccessDenied, Needs, UserError
from placet.desk import Desk
from placet.desk.access.accounts import Accounts
from placet.facts.errors import NotPending
from placet.facts.voting_settings import Rotation
from placet.service.audit import verify
from placet.service.outbox_events import events_of
from placet.service.records import records
from tests.desk.scenes import PATIENCE, Witness
from tests.desk.test_votes import vote, voting

pytestmark = pytest.mark.promise("P24")
ALONE = Needs(2, group="finance", distinct_from="starter", break_glass="board")


def soon(hours: float = 1.0) -> float:
    return time.time() + 3600 * hours


async def told(desk: Desk, run_id: str) -> list[Any]:
    return [entry async for entry in records(desk.store, run_id=run_id)]


# -- delegation -------------------------------------------------------------------------------------------------------


async def test_a_delegate_votes_as_their_principal_and_the_log_names_both(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, run, request):
        with pytest.raises(AccessDenied, match="has not given their vote"):
            await vote(desk, request, "flo", on_behalf_of="ana")
        await desk.delegate("ana", "flo", until=soon(), by="ana", reason="on holiday")
        first = await vote(desk, request, "flo", on_behalf_of="ana")
        with pytest.raises(AccessDenied, match="voted on this as ana"):
            await vote(desk, request, "flo")
        done = await vote(desk, request, "ben")
        await desk.wait(run.id, timeout=PATIENCE)
        entries = await told(desk, run.id)
        operators = [entry.what async for entry in records(desk.store, run_id="operators")]
        verdicts = [each async for each in verify(desk.store)]

    assert [(each.by, each.on_behalf_of) for each in first.votes] == [("flo", "ana")]
    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]
    assert next(entry.detail for entry in entries if entry.what == "vote cast") == "refund, approve, for ana"
    assert "vote delegated" in operators
    assert [each for each in verdicts if not each.is_whole] == []


async def test_a_delegation_ends_by_its_time_and_by_word_and_its_votes_stand(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, _run, request):
        made = await desk.delegate("ana", "flo", until=soon(), by="ana")
        await desk.delegate("ben", "flo", begins=soon(1), until=soon(2), by="ben")
        await vote(desk, request, "flo", on_behalf_of="ana")
        assert await desk.end_delegation(made.id, by="ana")
        assert not await desk.end_delegation(made.id, by="ana")
        with pytest.raises(AccessDenied, match="ben has not given their vote to flo at this moment"):
            await vote(desk, request, "flo", on_behalf_of="ben")
        done = await vote(desk, request, "cleo")

    assert done.status == "approved"


async def test_the_starter_keeps_out_of_it_as_a_delegate_and_as_a_principal(any_url: str, witness: Witness) -> None:
    needs = Needs(1, group="finance", distinct_from="starter")
    async with voting(any_url, witness, needs, by="ana") as (desk, _run, request):
        await desk.delegate("ana", "ben", until=soon(), by="ana")
        await desk.delegate("ben", "ana", until=soon(), by="ben")
        for by, principal in (("ben", "ana"), ("ana", "ben")):
            with pytest.raises(AccessDenied, match="is the starter"):
                await vote(desk, request, by, on_behalf_of=principal)
        done = await vote(desk, request, "ben")

    assert done.status == "approved"


async def test_a_principal_takes_back_what_their_delegate_said(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, _run, request):
        await desk.delegate("ana", "flo", until=soon(), by="ana")
        await vote(desk, request, "flo", on_behalf_of="ana")
        back = await desk.revoke(request.id, by="ana")
        await vote(desk, request, "flo", on_behalf_of="ana")
        again = await desk.revoke(request.id, by="flo")
        after = await vote(desk, request, "ben")

    assert (back.votes, again.votes) == ((), ())
    assert after.status == "pending"


@pytest.mark.promise("P18")
async def test_a_delegate_does_not_take_back_what_their_principal_said_since(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness) as (desk, _run, request):
        await desk.delegate("ana", "flo", until=soon(), by="ana")
        await vote(desk, request, "flo", on_behalf_of="ana")
        changed = await vote(desk, request, "ana", "reject")
        with pytest.raises(AccessDenied, match="flo has no vote"):
            await desk.revoke(request.id, by="flo")

    assert [(each.by, each.verdict) for each in changed.votes] == [("ana", "reject")]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"principal": "ana", "to": "nobody"}, "no user"),
        ({"principal": "ana", "to": "ana"}, "nobody votes twice"),
        ({"principal": "ana", "to": "ana2"}, "nobody votes twice"),
        ({"principal": "ana", "to": "ben", "until": 5.0}, "in the future"),
        ({"principal": "ana", "to": "ben", "until": soon(24 * 400)}, "a year at most"),
    ],
)
async def test_a_delegation_that_means_nothing_is_refused(
    any_url: str, witness: Witness, given: dict[str, Any], says: str
) -> None:
    async with voting(any_url, witness) as (desk, _run, _request):
        await Accounts(desk.store).add_user("ana2", "reviewer", same_as="ana", by="root")
        with pytest.raises(UserError, match=says):
            await desk.delegate(**({"until": soon()} | given))

        assert await desk.delegations() == []


# -- on call ----------------------------------------------------------------------------------------------------------


async def test_who_is_on_call_is_in_the_group_of_the_rotation(any_url: str, witness: Witness) -> None:
    needs = Needs(1, group="on-call.payments")
    async with voting(any_url, witness, needs) as (desk, run, request):
        with pytest.raises(AccessDenied, match=r"not in on-call\.payments"):
            await vote(desk, request, "ana")
        await desk.set_rotation("payments", Rotation(("ana", "ben"), "2026-01-05T09:00", days=36), by="root")
        on_duty = await desk.on_call("payments")
        off_duty = "ben" if on_duty == "ana" else "ana"
        with pytest.raises(AccessDenied, match=r"not in on-call\.payments"):
            await vote(desk, request, off_duty)
        done = await vote(desk, request, on_duty)
        await desk.wait(run.id, timeout=PATIENCE)
        with pytest.raises(UserError, match="group of a rotation"):
            await Accounts(desk.store).change_user("dan", groups=["on-call.payments"], by="root")

    assert (done.status, done.decided_by) == ("approved", on_duty)
    assert witness.lines() == ["refund 7"]


@pytest.mark.promise("P19")
async def test_a_shift_that_ended_since_the_vote_does_not_void_it(any_url: str, witness: Witness) -> None:
    """What counts is who was on call when they voted, also at the claim, minutes or days later."""
    async with voting(any_url, witness, Needs(1, group="on-call.payments"), runs=False) as (desk, run, request):
        await desk.set_rotation("payments", Rotation(("ana",), "2026-01-05T09:00"), by="root")
        await vote(desk, request, "ana")
        await desk.release_hold("run", run.id, by="root")
        await desk.wait(run.id, timeout=PATIENCE)

    assert witness.lines() == ["refund 7"]


# -- predicates -------------------------------------------------------------------------------------------------------


async def test_a_predicate_sees_reviewer_call_and_reason(any_url: str, witness: Witness) -> None:
    needs = Needs(1, predicate="'board' in reviewer.groups && size(reason) > 5 && args.order == 7")
    async with voting(any_url, witness, needs) as (desk, run, request):
        with pytest.raises(AccessDenied, match="does not hold"):
            await vote(desk, request, "ana", reason="long enough")
        with pytest.raises(AccessDenied, match="does not hold"):
            await vote(desk, request, "dan", reason="no")
        done = await vote(desk, request, "dan", reason="long enough")
        await desk.wait(run.id, timeout=PATIENCE)

    assert done.status == "approved"
    assert witness.lines() == ["refund 7"]


# -- break-glass ------------------------------------------------------------------------------------------------------


async def test_one_person_goes_ahead_alone_with_a_reason_and_a_review_is_owed(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, ALONE) as (desk, run, request):
        with pytest.raises(AccessDenied, match="needs a reason"):
            await vote(desk, request, "dan", break_glass=True)
        with pytest.raises(AccessDenied, match="not in board"):
            await vote(desk, request, "ana", break_glass=True, reason="urgent")
        assert await desk.reviews_owed() == []
        done = await vote(desk, request, "dan", break_glass=True, reason="the shop is down")
        await desk.wait(run.id, timeout=PATIENCE)
        [owed] = await desk.reviews_owed()
        events = [event for entry in await desk.store.feed(0) for event in await events_of(desk.store, entry)]
        entries = await told(desk, run.id)
        with pytest.raises(AccessDenied, match="another person reviews it"):
            await desk.review(request.id, was_right=True, by="dan")
        await desk.review(request.id, was_right=False, by="cleo", reason="could have waited")
        with pytest.raises(NotPending):
            await desk.review(request.id, was_right=True, by="ana")
        operators = [entry async for entry in records(desk.store, run_id="operators")]
        left = await desk.reviews_owed()

    assert (done.status, done.decided_by) == ("approved", "dan")
    assert witness.lines() == ["refund 7"]
    assert (owed.by, owed.reason, owed.tool) == ("dan", "the shop is down", "refund")
    assert [event.data["by"] for event in events if event.type == "request.broke_glass"] == ["dan"]
    assert "refund, approve, going ahead alone" in [entry.detail for entry in entries]
    assert left == []
    [review] = [entry for entry in operators if entry.what == "break-glass reviewed"]
    assert (review.by, review.detail, review.why) == ("cleo", "wrong: dan went ahead alone", "could have waited")


async def test_the_starter_does_not_go_ahead_alone_nor_does_a_delegate(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, ALONE, by="dan") as (desk, _run, request):
        await desk.delegate("cleo", "flo", until=soon(), by="cleo")
        with pytest.raises(AccessDenied, match="is the starter"):
            await vote(desk, request, "dan", break_glass=True, reason="urgent")
        with pytest.raises(AccessDenied, match="for somebody else"):
            await vote(desk, request, "flo", break_glass=True, reason="urgent", on_behalf_of="cleo")

        assert await desk.reviews_owed() == []


async def test_what_was_taken_back_before_it_ran_is_owed_no_review(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, ALONE, runs=False) as (desk, _run, request):
        await vote(desk, request, "dan", break_glass=True, reason="urgent")
        before = await desk.reviews_owed()
        await desk.revoke(request.id, by="dan")
        after = await desk.reviews_owed()

    assert [owed.by for owed in before] == ["dan"]
    assert after == []
    assert witness.lines() == []


async def test_where_nobody_counts_votes_nobody_votes_for_others_or_alone(any_url: str, witness: Witness) -> None:
    async with voting(any_url, witness, None) as (desk, _run, request):
        for odd in ({"on_behalf_of": "ben"}, {"break_glass": True, "reason": "urgent"}):
            with pytest.raises(UserError, match="in your own name"):
                await vote(desk, request, "ana", **odd)

        assert (await desk.request(request.id)).status == "pending"
