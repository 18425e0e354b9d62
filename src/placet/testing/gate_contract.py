"""What every gate must do, over HTTP and on a store: inherit `GateContract`, say how to open one, and run it with
pytest (`asyncio_mode = "auto"`)."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from placet.core.log import read_line
from placet.facts.errors import (
    CallClaimed,
    CallNotClaimable,
    CallNotFound,
    GateError,
    GateTimeout,
    InvalidProposal,
    LimitExceeded,
    PermitRefused,
    PlacetError,
    TooManyWaiting,
)
from placet.facts.events import ReportedAfterEnd
from placet.facts.ids import call_key, split_call_id
from placet.ports import DeskStore, RequestQuery, RunQuery
from placet.testing.clock import ManualClock

SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "cents": {"type": "integer", "default": 100}},
    "required": ["order"],
    "additionalProperties": False,
}
MAX_CALLS, MAX_WAITING = 8, 150
"""Limits that the scene's gates are opened with: calls of one run, and calls of one guest that wait."""


class GateScene(Protocol):
    """A store, gates to it, and a person who decides."""

    store: DeskStore
    clock: ManualClock

    def gate(self, guest: str = "jobs", **options: Any) -> AbstractAsyncContextManager[Any]:
        """A gate of this guest, with the limits above. Any: a `placet.gate.Gate`, which this layer does not know."""
        ...

    async def decide(self, request_id: str, verdict: str, **more: Any) -> None: ...

    async def revoke(self, request_id: str) -> None: ...

    async def hold(self, tool: str) -> None: ...

    async def release(self, tool: str) -> None: ...

    async def cancel(self, run_id: str) -> None: ...

    async def sweep(self) -> None:
        """Have what is due done now."""
        ...


async def refused(kind: type[PlacetError], work: Any) -> PlacetError:
    """The error of this kind with which the work ends. Any: whatever can be awaited."""
    try:
        await work
    except kind as error:
        return error
    raise AssertionError(f"it was not refused with {kind.__name__}")


class GateContract:
    def open_scene(self) -> AbstractAsyncContextManager[GateScene]:
        """A new, empty store with a desk over it."""
        raise NotImplementedError

    async def propose(self, gate: Any, call_id: str = "c1", **more: Any) -> Any:
        given = {"session": "s1", "schema": SCHEMA, "description": "Pay money back.", **more}
        arguments = given.pop("arguments", {"order": "7"})
        return await gate.propose("refund", arguments, call_id=call_id, **given)

    async def approved(self, scene: GateScene, gate: Any, **more: Any) -> Any:
        call = await self.propose(gate, **more)
        await scene.decide(call.request_id, "approve")
        return await gate.wait(call, 30)

    # -- the way of a call --------------------------------------------------------------------------------------------

    async def test_a_proposed_call_waits_is_approved_claimed_and_reported(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            waiting = asyncio.create_task(gate.wait(call, 30))
            await scene.decide(call.request_id, "approve")
            decided = await waiting
            permit = await gate.claim(decided)
            done = await gate.report(permit, "finished", "paid")

            assert (call.status, decided.status, done.status) == ("waiting", "claimable", "finished")
            assert permit.arguments == {"order": "7", "cents": 100}
            assert permit.idempotency_key == call_key(*split_call_id(call.id))
            assert (done.output, done.decided_by, done.attempts) == ("paid", "ops", 1)
            assert await gate.look(call) == done

    async def test_only_a_declared_no_lets_a_call_pass_without_a_person(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            free = await self.propose(gate, "c1", needs_approval=False)
            asked = await self.propose(gate, "c2", needs_approval=None)

            assert (free.status, asked.status) == ("claimable", "waiting")
            assert (await gate.claim(free)).arguments == {"order": "7", "cents": 100}

    async def test_a_rejection_is_read_with_its_message_and_is_never_claimed(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            await scene.decide(call.request_id, "reject", message="Ask the customer first.")
            over = await gate.wait(call, 30)
            error = await refused(GateError, gate.claim(call))

            assert (over.status, over.message) == ("rejected", "Ask the customer first.")
            assert (error.code, error.message) == ("call_rejected", "Ask the customer first.")

    async def test_what_is_claimed_is_what_was_decided(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            await scene.decide(call.request_id, "edit", arguments={"order": "7", "cents": 5})
            decided = await gate.wait(call, 30)
            permit = await gate.claim(decided)

            assert decided.is_edited
            assert permit.arguments == {"order": "7", "cents": 5}
            assert permit.call.digest != call.digest

    async def test_an_edit_that_does_not_fit_the_guests_schema_is_refused(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            error = await refused(
                PlacetError, scene.decide(call.request_id, "edit", arguments={"order": "7", "cents": "many"})
            )

            assert "cents" in error.message
            assert (await gate.look(call)).status == "waiting"

    async def test_an_answer_takes_the_place_of_the_call(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            await scene.decide(call.request_id, "respond", output="Already paid on Monday.")
            over = await gate.wait(call, 30)
            error = await refused(GateError, gate.claim(call))

            assert (over.status, over.output) == ("answered", "Already paid on Monday.")
            assert error.code == "call_answered"

    async def test_what_a_host_cannot_carry_out_cannot_be_decided(self) -> None:
        async with self.open_scene() as scene, scene.gate(edits=False, answers=False) as gate:
            call = await self.propose(gate)
            edit = await refused(PlacetError, scene.decide(call.request_id, "edit", arguments={"order": "8"}))
            answer = await refused(PlacetError, scene.decide(call.request_id, "respond", output="no"))

            assert "other arguments" in edit.message
            assert "answer" in answer.message
            assert (await gate.look(call)).status == "waiting"

    # -- which call is which ------------------------------------------------------------------------------------------

    async def test_the_same_identity_is_the_same_call_and_anything_else_another(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate() as restarted:
            first = await self.propose(gate)
            again = await self.propose(restarted)
            others = [
                await self.propose(gate, "c2"),
                await self.propose(gate, occurrence=1),
                await self.propose(gate, arguments={"order": "8"}),
                await self.propose(gate, session="s2"),
                await self.propose(gate, schema={**SCHEMA, "additionalProperties": True}),
                await self.propose(gate, version="2"),
            ]

            assert again == first
            assert len({first.id, *(call.id for call in others)}) == 7

    async def test_of_many_who_propose_the_same_at_once_all_find_one_call(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate() as other:
            found = await asyncio.gather(*(self.propose(each) for each in (gate, other) * 10))

            assert len({call.id for call in found}) == 1
            assert len((await scene.store.requests(RequestQuery())).rows) == 1

    async def test_two_equal_calls_under_two_ids_are_asked_about_twice(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            first = await self.approved(scene, gate, call_id="c1")
            second = await self.propose(gate, "c2")

            assert (first.status, second.status) == ("claimable", "waiting")

    async def test_a_guest_finds_nothing_of_another_guests(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate("others") as other:
            call = await self.approved(scene, gate)
            permit = await gate.claim(call)
            for work in (other.look(call), other.claim(call), other.claim(call, again=True), other.withdraw(call)):
                await refused(CallNotFound, work)
            await refused(GateError, other.report(permit, "finished", "stolen"))
            theirs = await self.propose(other)

            assert theirs.id != call.id
            assert theirs.status == "waiting"
            assert (await gate.look(call)).status == "claimed"

    # -- the claim ----------------------------------------------------------------------------------------------------

    async def test_of_many_who_claim_one_call_one_gets_it(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate() as other:
            call = await self.approved(scene, gate)
            outcomes = await asyncio.gather(*(each.claim(call) for each in (gate, other) * 8), return_exceptions=True)

            assert sum(not isinstance(each, BaseException) for each in outcomes) == 1
            assert {type(each) for each in outcomes if isinstance(each, BaseException)} == {CallClaimed}

    async def test_what_was_claimed_or_has_ended_can_only_be_read(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate() as restarted:
            call = await self.approved(scene, gate)
            permit = await gate.claim(call)
            await refused(CallClaimed, restarted.claim(call))
            await gate.report(permit, "failed", "no such order")
            found = await self.propose(restarted)
            await refused(CallClaimed, restarted.claim(call))

            assert (found.id, found.status, found.output) == (call.id, "failed", "no such order")

    async def test_the_same_guest_gets_its_permit_again_and_the_first_token_is_void(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate() as restarted:
            permit = await gate.claim(await self.approved(scene, gate))
            again = await restarted.claim(permit.call, again=True)
            await refused(PermitRefused, gate.report(permit, "finished", "first"))
            done = await restarted.report(again, "finished", "second")

            assert (permit.is_again, again.is_again) == (False, True)
            assert again.idempotency_key == permit.idempotency_key
            assert (done.output, done.attempts) == ("second", 1)

    async def test_a_call_that_waits_cannot_be_claimed(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)

            await refused(CallNotClaimable, gate.claim(call))
            assert (await gate.look(call)).status == "waiting"

    async def test_a_token_of_another_call_reports_nothing(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            one = await gate.claim(await self.approved(scene, gate, call_id="c1"))
            two = await gate.claim(await self.approved(scene, gate, call_id="c2"))
            one.token, right = two.token, one.token
            await refused(PermitRefused, gate.report(one, "finished", "?"))
            await refused(PermitRefused, gate.renew(one))
            one.token = right

            assert (await gate.look(one.call)).status == "claimed"
            assert (await gate.report(one, "finished", "paid")).status == "finished"

    async def test_a_report_that_comes_twice_is_one(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await gate.claim(await self.approved(scene, gate))
            first = await gate.report(permit, "finished", "paid")

            assert await gate.report(permit, "finished", "paid") == first

    async def test_a_hold_keeps_an_approved_call_from_its_claim(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            await scene.hold("refund")
            call = await self.propose(gate)
            await scene.decide(call.request_id, "approve")
            held = await gate.look(call)
            await refused(CallNotClaimable, gate.claim(call))
            await scene.release("refund")
            free = await gate.wait(call, 30)

            assert (held.status, free.status) == ("held", "claimable")
            assert (await gate.claim(free)).call.id == call.id

    async def test_an_approval_that_was_taken_back_does_not_count(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.approved(scene, gate)
            await scene.revoke(call.request_id)
            await refused(CallNotClaimable, gate.claim(call))
            asked = await gate.look(call)

            assert asked.status == "waiting"
            assert asked.request_id != call.request_id

    async def test_an_approval_that_was_not_used_in_time_is_asked_about_anew(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.approved(scene, gate, approval_valid_for=60)
            scene.clock.advance(61)
            await refused(CallNotClaimable, gate.claim(call))
            asked = await gate.look(call)
            await scene.decide(asked.request_id, "approve")

            assert asked.status == "waiting"
            assert (await gate.claim(await gate.wait(call, 30))).call.attempts == 1

    async def test_a_standing_decision_decides_the_next_call_of_the_session(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            first = await self.propose(gate, "c1")
            waiting = await self.propose(gate, "c2")
            await scene.decide(first.request_id, "approve", always=True)
            found = [await gate.wait(waiting, 30), await self.propose(gate, "c3")]
            elsewhere = await self.propose(gate, "c4", session="s2")

            assert [call.status for call in found] == ["claimable", "claimable"]
            assert elsewhere.status == "waiting"

    # -- deadlines, doubt, and what comes late ------------------------------------------------------------------------

    async def test_a_question_that_nobody_answers_in_time_ends_and_a_late_answer_changes_nothing(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate, decide_within=60)
            scene.clock.advance(61)
            late = await refused(PlacetError, scene.decide(call.request_id, "approve"))
            over = await gate.look(call)

            assert late.code in ("stale_approval", "not_pending", "run_finished")
            assert over.status == "expired"
            await refused(GateError, gate.claim(call))

    async def test_waiting_for_a_decision_has_an_end_and_the_call_goes_on_waiting(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            await refused(GateTimeout, gate.wait(call, 0.05))
            await scene.decide(call.request_id, "approve")

            assert (await gate.wait(call, 30)).status == "claimable"

    async def test_of_many_calls_those_are_told_about_which_something_can_be_done(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate("others") as other:
            calls = [await self.propose(gate, f"c{number}") for number in range(5)]
            none = await gate.wait_for_any(calls, 0.05)
            waiting = asyncio.create_task(gate.wait_for_any(calls, 30))
            await scene.decide(calls[3].request_id, "reject")
            first = await waiting
            await scene.decide(calls[1].request_id, "approve")
            both = await gate.wait_for_any(calls, 30)

            assert none == []
            assert [(call.id, call.status) for call in first] == [(calls[3].id, "rejected")]
            assert {call.id: call.status for call in both} == {calls[3].id: "rejected", calls[1].id: "claimable"}
            await refused(CallNotFound, other.wait_for_any(calls, 0.05))

    async def in_doubt(self, scene: GateScene, gate: Any, **more: Any) -> Any:
        permit = await gate.claim(await self.approved(scene, gate, **more), lease=10)
        scene.clock.advance(11)
        await scene.sweep()
        return permit

    async def test_a_claim_without_a_report_is_asked_about_and_may_be_run_again_once(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await self.in_doubt(scene, gate)
            doubtful = await gate.look(permit.call)
            await refused(CallNotClaimable, gate.claim(permit.call))
            await scene.decide(doubtful.request_id, "approve")
            again = await gate.claim(await gate.wait(permit.call, 30))
            done = await gate.report(again, "finished", "paid")

            assert doubtful.status == "in_doubt"
            assert again.idempotency_key == permit.idempotency_key
            assert (done.status, done.attempts) == ("finished", 2)

    async def test_in_doubt_a_person_can_say_what_came_of_it_or_let_it_be(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            told, let_be = [await self.in_doubt(scene, gate, call_id=each) for each in ("c1", "c2")]
            asked = [(await gate.look(permit.call)).request_id for permit in (told, let_be)]
            await scene.decide(asked[0], "respond", output="paid on Monday")
            await scene.decide(asked[1], "reject")
            over = [await gate.wait(permit.call, 30) for permit in (told, let_be)]

            assert [call.status for call in over] == ["answered", "given_up"]
            assert over[0].output == "paid on Monday"

    async def test_a_permit_that_is_renewed_is_not_asked_about(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await gate.claim(await self.approved(scene, gate), lease=10)
            scene.clock.advance(8)
            await gate.renew(permit, 10)
            scene.clock.advance(8)
            await scene.sweep()

            assert (await gate.look(permit.call)).status == "claimed"
            assert (await gate.report(permit, "finished", "paid")).status == "finished"

    async def test_a_permit_is_renewed_by_the_lease_that_was_asked_for(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await gate.claim(await self.approved(scene, gate), lease=10)
            scene.clock.advance(8)
            await gate.renew(permit)
            scene.clock.advance(11)
            await scene.sweep()

            assert (await gate.look(permit.call)).status == "in_doubt"

    async def test_a_lease_that_has_ended_is_not_renewed(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await gate.claim(await self.approved(scene, gate), lease=10)
            scene.clock.advance(11)

            await refused(PermitRefused, gate.renew(permit))

    async def test_a_late_report_settles_the_question_while_it_is_open(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await self.in_doubt(scene, gate)
            done = await gate.report(permit, "finished", "paid after all")

            assert (done.status, done.output) == ("finished", "paid after all")
            assert (await scene.store.requests(RequestQuery())).rows == []

    async def test_a_late_report_after_a_second_claim_is_evidence_and_ends_nothing(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            first = await self.in_doubt(scene, gate)
            await scene.decide((await gate.look(first.call)).request_id, "approve")
            second = await gate.claim(await gate.wait(first.call, 30), lease=10)
            late = await gate.report(first, "finished", "paid the first time")
            scene.clock.advance(11)
            await scene.sweep()
            doubtful = (await scene.store.requests(RequestQuery())).rows

            assert late.status == "claimed"
            assert [row.kind for row in doubtful] == ["in_doubt"]
            assert "reported late as finished" in (doubtful[0].why or "")
            assert (await gate.report(second, "finished", "paid twice")).output == "paid twice"

    async def test_a_late_report_to_a_session_that_is_over_is_kept_as_evidence_and_changes_nothing(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await self.in_doubt(scene, gate)
            await scene.decide((await gate.look(permit.call)).request_id, "reject")
            await gate.close("s1")
            await gate.report(permit, "finished", "paid after all")
            late = await gate.report(permit, "finished", "paid after all")
            lines = (await scene.store.operators_log()).lines
            kept = [fact for line in lines for fact in read_line(line).facts if isinstance(fact, ReportedAfterEnd)]

            assert late.status == "given_up"
            assert [(each.call, each.guest, each.outcome) for each in kept] == [(permit.call.id, "jobs", "finished")]
            assert (await self.propose(gate, "c2")).status == "waiting"

    async def test_whoever_was_broken_off_says_so_and_a_person_is_asked_at_once(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await gate.claim(await self.approved(scene, gate))

            assert (await gate.report(permit, "unknown")).status == "in_doubt"

    async def test_a_host_that_cannot_report_is_released_and_never_asked_about(self) -> None:
        async with self.open_scene() as scene, scene.gate(reports=False) as gate:
            permit = await gate.claim(await self.approved(scene, gate), lease=10)
            scene.clock.advance(11)
            await scene.sweep()

            assert (await gate.look(permit.call)).status == "released"
            assert (await scene.store.requests(RequestQuery())).rows == []
            await refused(CallClaimed, gate.claim(permit.call))

    async def test_what_may_be_repeated_is_claimable_again_when_its_guest_is_gone(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await self.in_doubt(scene, gate, recovery="retry")
            found = await gate.look(permit.call)
            again = await gate.claim(found)

            assert found.status == "claimable"
            assert again.call.attempts == 2
            assert (await gate.report(again, "finished", "paid")).status == "finished"

    async def test_a_guest_that_recovers_by_itself_has_time_for_it_and_then_a_person_is_asked(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            permit = await self.in_doubt(scene, gate, recovery="function")
            left = await gate.look(permit.call)
            scene.clock.advance(3600)
            await scene.sweep()

            assert left.status == "left"
            assert (await gate.look(permit.call)).status == "in_doubt"

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def test_a_closed_session_ends_what_waits_and_goes_on_in_another_run(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            waiting = await self.propose(gate, "c1")
            permit = await gate.claim(await self.approved(scene, gate, call_id="c2"))
            await gate.close("s1")
            after = await self.propose(gate, "c3")
            found = await self.propose(gate, "c1")
            done = await gate.report(permit, "finished", "paid")
            run = await scene.store.run(split_call_id(waiting.id)[0])

            assert (await gate.look(waiting)).status == "cancelled"
            assert (after.status, found.id, done.status) == ("waiting", waiting.id, "finished")
            assert split_call_id(after.id)[0] != split_call_id(waiting.id)[0]
            assert run is not None
            assert run.status == "ended"

    async def test_a_long_session_goes_on_in_successors_and_every_call_is_found_again(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            calls = [await self.propose(gate, f"c{i}", needs_approval=False) for i in range(3 * MAX_CALLS)]
            for call in calls:
                await gate.report(await gate.claim(call), "finished", call.call_id)
            found = [await self.propose(gate, f"c{i}", needs_approval=False) for i in range(3 * MAX_CALLS)]
            runs = (await scene.store.runs(RunQuery())).rows

            assert [call.id for call in found] == [call.id for call in calls]
            assert {call.status for call in found} == {"finished"}
            assert len(runs) == 3
            assert sorted(run.status for run in runs) == ["ended", "ended", "running"]

    async def test_closing_a_session_ends_what_waits_in_all_of_its_runs(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            calls = [await self.propose(gate, f"c{i}") for i in range(MAX_CALLS + 1)]
            await gate.close("s1")
            statuses = {(await gate.look(call)).status for call in calls}
            runs = (await scene.store.runs(RunQuery())).rows

            assert statuses == {"cancelled"}
            assert [run.status for run in runs] == ["ended", "ended"]
            assert (await scene.store.requests(RequestQuery())).rows == []

    async def test_a_session_that_nobody_uses_ends_by_itself(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.approved(scene, gate)
            scene.clock.advance(10 * 86_400)
            await scene.sweep()
            run = await scene.store.run(split_call_id(call.id)[0])

            assert run is not None
            assert run.status == "ended"
            assert (await gate.look(call)).status == "cancelled"

    async def test_a_hundred_parallel_calls_of_one_session_all_get_through(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate, scene.gate() as other:

            async def one(number: int) -> str:
                each = other if number % 2 else gate
                call = await self.propose(each, f"c{number}", arguments={"order": str(number)})
                await scene.decide(call.request_id, "approve")
                permit = await each.claim(await each.wait(call, 60))
                done = await each.report(permit, "finished", permit.arguments["order"])
                return str(done.output)

            outputs = await asyncio.gather(*(one(number) for number in range(100)))

            assert outputs == [str(number) for number in range(100)]

    async def test_a_withdrawn_call_is_over(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            call = await self.propose(gate)
            over = await gate.withdraw(call)

            assert over.status == "cancelled"
            assert (await scene.store.requests(RequestQuery())).rows == []

    async def test_a_cancelled_run_ends_what_waits_and_what_is_executed_ends_by_its_report(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            waiting = await self.propose(gate, "c1")
            permit = await gate.claim(await self.approved(scene, gate, call_id="c2"))
            run_id = split_call_id(waiting.id)[0]
            await scene.cancel(run_id)
            told = await gate.look(waiting)
            done = await gate.report(permit, "finished", "paid")
            run = await scene.store.run(run_id)

            assert (told.status, done.status) == ("cancelled", "finished")
            assert run is not None
            assert run.status == "ended"

    # -- bad input ----------------------------------------------------------------------------------------------------

    async def test_what_is_no_proposal_is_refused_in_words_and_nothing_is_stored(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            for more in (
                {"arguments": {"order": 7}},
                {"arguments": {"order": "7", "more": True}},
                {"schema": {"type": "nonsense"}},
                {"schema": {"type": "object", "properties": 3}},
                {"call_id": ""},
                {"session": "x" * 201},
                {"occurrence": -1},
                {"decide_within": 0},
            ):
                await refused(PlacetError, self.propose(gate, **more))
            await refused(PlacetError, gate.propose("", {}, session="s", call_id="c"))
            await refused(InvalidProposal, gate.propose("t", {"a": object()}, session="s", call_id="c"))
            await refused(LimitExceeded, gate.propose("t", {"a": "x" * 300_000}, session="s", call_id="c"))
            await refused(PlacetError, gate.propose("t", {"a": "x" * 10_000_000}, session="s", call_id="c"))
            await refused(CallNotFound, gate.look("run_none:1.0"))
            await refused(CallNotFound, gate.look("?"))

            assert (await scene.store.runs(RunQuery())).rows == []

    async def test_a_guest_that_asks_too_much_is_told_so(self) -> None:
        async with self.open_scene() as scene, scene.gate() as gate:
            for number in range(MAX_WAITING):
                await self.propose(gate, f"c{number}")
            await refused(TooManyWaiting, self.propose(gate, "one more"))

            assert len((await scene.store.requests(RequestQuery(limit=200))).rows) == MAX_WAITING
