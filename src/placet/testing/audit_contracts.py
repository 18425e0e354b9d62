"""What every store that a desk can use must do for an audit: a part of `DeskStoreContract`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from placet.core.fold import fold
from placet.core.log import Log, read_lines
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.errors import PositionConflict, RunConflict, UserError
from placet.ports import OPERATORS, DeskStore, Hold, RequestQuery, RunQuery
from placet.runtime.journal import fold_log
from placet.testing.run_writer import TTL, Driver, RunWriter, a_grant, refused

EVERY = RequestQuery(status=None)


class AuditContract:
    """`open_store` gives a store; called again inside one check, another object on the same data."""

    def open_store(self, *, lease_ttl: float) -> AbstractAsyncContextManager[DeskStore]:
        raise NotImplementedError

    @asynccontextmanager
    async def two_stores(self, lease_ttl: float = TTL) -> AsyncIterator[tuple[DeskStore, DeskStore]]:
        """Two objects on the same data, as two processes have them."""
        async with self.open_store(lease_ttl=lease_ttl) as one, self.open_store(lease_ttl=lease_ttl) as other:
            yield one, other

    # -- the operators' log -------------------------------------------------------------------------------------------

    async def test_what_operators_did_is_in_a_log_of_its_own_with_who_and_why(self) -> None:
        async with self.two_stores() as (one, other):
            story, fork = RunWriter(), RunWriter()
            empty = await other.operators_log()
            grant = a_grant("grant_5")
            await story.begin(one)
            await story.append(one, grant)
            await fork.begin(one)
            await fork.append(one, grant)
            await one.put_hold(Hold(kind="tool", name="pay", by="ops", at=7.0, reason="audit"))
            await other.remove_hold("tool", "pay", by="ann", at=8.0, reason="done")
            await other.remove_hold("tool", "pay", by="bob", at=9.0)
            await other.revoke_grant("grant_5", by="ann", at=10.0, reason="too wide")
            await other.revoke_grant("grant_5", by="bob", at=11.0)

            log = await one.operators_log()
            assert (len(empty), empty.run_id) == (0, OPERATORS)
            assert [fact for record in read_lines(log.lines) for fact in record.facts] == [
                e.StandingGrantMade(story.id, grant),
                e.HoldPlaced("tool", "pay", "ops", 7.0, "audit"),
                e.HoldLifted("tool", "pay", "ann", 8.0, "done"),
                e.GrantRevoked("grant_5", "ann", 10.0, "too wide"),
            ]
            assert log.verify()

    async def test_a_grant_that_was_made_outside_of_any_run_stands_and_is_told_once(self) -> None:
        async with self.two_stores() as (one, other):
            grant = a_grant("grant_7")
            await one.put_grant(grant)
            await other.put_grant(grant)

            log = await other.operators_log()
            assert [fact for record in read_lines(log.lines) for fact in record.facts] == [
                e.StandingGrantMade("", grant)
            ]
            assert list(await other.standing_grants(grant.agent)) == [grant]

    async def test_a_grant_that_is_made_and_revoked_in_one_append_is_told_so(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = RunWriter()
            await story.begin(store)
            await story.append(store, a_grant("grant_6"), e.GrantRevoked("grant_6", "ann", 6.0))
            await refused(
                PositionConflict, store.append(None, Log(story.id, b""), [story.line(a_grant("x"))], story.run)
            )

            log = await store.operators_log()
            assert [type(fact) for record in read_lines(log.lines) for fact in record.facts] == [
                e.StandingGrantMade,
                e.GrantRevoked,
            ]
            assert list(await store.grants()) == []

    async def test_many_who_write_to_the_operators_log_at_once_make_one_chain(self) -> None:
        async with self.two_stores() as (one, other):
            holds = [Hold(kind="run", name=f"run_{n}", by="ops", at=float(n)) for n in range(12)]
            await asyncio.gather(*((one, other)[n % 2].put_hold(hold) for n, hold in enumerate(holds)))

            log = await one.operators_log()
            assert (len(log), log.verify(), len(await other.holds())) == (12, True, 12)

    # -- the end of a log ---------------------------------------------------------------------------------------------

    async def test_the_end_of_a_long_log_gives_the_same_fold_and_can_be_gone_on_from(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter()
            await story.begin(one)
            for number in range(100):
                call: JsonObject = {"type": "function_call", "name": "look", "arguments": "{}", "call_id": f"c{number}"}
                answer = e.ResponseReceived(f"r{number}", [call], e.Usage(1, 2, 3))
                await story.append(one, e.RequestSent(), answer, e.CallsAllowed([f"{number + 1}.0"]))
                await story.append(
                    one, e.CallsStarted([f"{number + 1}.0"]), e.CallEnded(f"{number + 1}.0", "finished", "seen")
                )

            stored = await other.load_recent(story.id)
            assert stored is not None
            assert stored.log is not None
            run, log = fold_log(stored.log), stored.log
            assert (len(log), log.head, log.size) == (len(story.log), story.log.head, story.log.size)
            assert (run.history, run.turn, run.usage) == (story.run.history, 100, story.run.usage)
            line = log.next_line(5000.0, [e.TurnLimitSet(7)])
            await other.append(None, log, [line], fold([e.TurnLimitSet(7)], into=run))
            whole = await one.load(story.id)
            assert whole is not None
            assert whole.log is not None
            assert whole.log.verify()
            assert whole.log.lines == [*story.log.lines, line.text]
            assert await other.load_recent("run_x") is None

    # -- erasing ------------------------------------------------------------------------------------------------------

    async def test_an_erased_run_says_nothing_any_more_and_its_chain_is_the_same(self) -> None:
        async with self.two_stores() as (one, other):
            story = RunWriter(session="user canary")
            (question,) = await story.ask(one, "pay")
            await story.append(one, e.DecisionMade("1.0", 1, "digest 0", "reject", "canary", 5.0, "canary", "canary"))
            await story.append(one, e.CallEnded("1.0", "rejected", "canary"))
            await story.append(one, e.InputAdded([{"role": "user", "content": "canary"}]))
            last = e.ResponseReceived(None, [{"type": "message", "role": "assistant", "content": "canary"}], e.Usage())
            await story.append(one, e.RequestSent(), last, e.RunEnded("canary"))

            assert await one.erase(story.id, by="ann", at=9.0, reason="asked for")
            assert not await other.erase(story.id, by="bob", at=10.0)

            stored, row, asked = await other.load(story.id), await other.run(story.id), await other.request(question)
            assert stored is not None
            assert stored.log is not None
            assert row is not None
            assert asked is not None
            known = [stored.log.lines, row, asked, await other.feed(0), (await other.requests(EVERY)).rows]
            assert "canary" not in repr(known)
            assert (stored.head, stored.length, stored.log.key) == (story.log.head, len(story.log), b"")
            assert stored.log.verify()
            assert stored.log.is_erased
            assert (row.status, row.final_output, row.erased_at) == ("ended", None, 9.0)
            assert (asked.tool, asked.status, asked.digest) == ("pay", "rejected", "")
            (said,) = [fact for record in read_lines((await one.operators_log()).lines) for fact in record.facts]
            assert said == e.RunErased(story.id, "ann", 9.0, "asked for", len(story.log), story.log.head.hex())

    async def test_only_what_has_ended_can_be_erased(self) -> None:
        async with self.two_stores() as (one, other):
            running, waiting, ended = RunWriter(), RunWriter(), RunWriter()
            await running.begin(one)
            await waiting.ask(one, "pay")
            driver = Driver()
            lease = await one.lease(ended.id, driver)  # about to be given back
            await ended.begin(one, lease)
            await ended.end(one, lease)

            of_running = await refused(UserError, one.erase(running.id))
            of_waiting = await refused(UserError, one.erase(waiting.id))
            of_nothing = await refused(UserError, one.erase("run_x"))
            is_erased = await other.erase(ended.id)

            assert "still running" in of_running.message
            assert "waits for people" in of_waiting.message
            assert "no run run_x" in of_nothing.message
            assert is_erased
            assert await one.release(lease, 2)
            for story in (running, waiting):
                stored = await one.load(story.id)
                assert stored is not None
                assert stored.log is not None
                assert stored.log.lines == story.log.lines

    # -- deleting -----------------------------------------------------------------------------------------------------

    async def test_a_deleted_run_leaves_in_the_operators_log_who_deleted_it_and_where_its_log_stood(self) -> None:
        async with self.two_stores() as (one, other):
            story, driven = RunWriter(), RunWriter()
            await story.ask(one, "pay")
            driver = Driver()
            lease = await one.lease(driven.id, driver)
            await driven.begin(one, lease)
            await refused(RunConflict, other.delete(driven.id, by="eve"))

            assert await other.delete(story.id, by="ann", at=9.0, reason="asked for")
            assert not await one.delete(story.id, by="bob", at=10.0)

            log = await one.operators_log()
            place = e.DeletedRun(story.id, len(story.log), story.log.head.hex())
            assert [fact for record in read_lines(log.lines) for fact in record.facts] == [
                e.RunsDeleted([place], "ann", 9.0, "asked for")
            ]
            assert log.verify()

    async def test_a_purge_leaves_in_the_operators_log_every_run_that_it_took(self) -> None:
        async with self.two_stores() as (one, other):
            first, second, fresh = RunWriter(at=1000.0), RunWriter(at=1100.0), RunWriter(at=5000.0)
            for story in (first, second, fresh):
                await story.begin(one)
                await story.end(one)

            counts = [await other.purge(4000.0, by="ops", at=at, reason="ninety days") for at in (9.0, 10.0)]

            log = await one.operators_log()
            places = [e.DeletedRun(each.id, len(each.log), each.log.head.hex()) for each in (first, second)]
            assert counts == [2, 0]
            assert [fact for record in read_lines(log.lines) for fact in record.facts] == [
                e.RunsDeleted(places, "ops", 9.0, "ninety days", 4000.0)
            ]
            assert log.verify()

    async def test_two_who_purge_at_once_take_each_run_once(self) -> None:
        async with self.two_stores() as (one, other):
            stories = [RunWriter(at=1000.0) for _ in range(12)]
            for story in stories:
                await story.begin(one)
                await story.end(one)

            counts = await asyncio.gather(*(store.purge(4000.0, 3, by="ops") for store in (one, other) * 3))

            facts = [fact for record in read_lines((await one.operators_log()).lines) for fact in record.facts]
            taken = [each.run for fact in facts if isinstance(fact, e.RunsDeleted) for each in fact.runs]
            assert (sum(counts), sorted(taken)) == (12, sorted(story.id for story in stories))

    async def test_the_operators_log_is_no_run(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await store.put_hold(Hold(kind="run", name="run_a", by="ops", at=7.0))

            assert (await store.runs(RunQuery())).rows == []
            assert await store.run(OPERATORS) is None
            assert await store.load(OPERATORS) is None
            assert await store.runnable(1e12, 10) == []
            assert not await store.delete(OPERATORS)
            assert len(await store.operators_log()) == 1
