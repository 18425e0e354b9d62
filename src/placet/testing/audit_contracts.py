"""What every store that a desk can use must do for an audit: a part of `DeskStoreContract`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from placet import events as e
from placet.core.log import Log, read_lines
from placet.errors import PositionConflict
from placet.ports import OPERATORS, DeskStore, Hold, RunQuery
from placet.testing.stories import TTL, Story, a_grant, refused


class AuditContract:
    """`open_store` gives a store; called again inside one check, another object on the same data."""

    def open_store(self, *, lease_ttl: float) -> AbstractAsyncContextManager[DeskStore]:
        raise NotImplementedError

    @asynccontextmanager
    async def two_stores(self) -> AsyncIterator[tuple[DeskStore, DeskStore]]:
        """Two objects on the same data, as two processes have them."""
        async with self.open_store(lease_ttl=TTL) as one, self.open_store(lease_ttl=TTL) as other:
            yield one, other

    # -- the operators' log -------------------------------------------------------------------------------------------

    async def test_what_operators_did_is_in_a_log_of_its_own_with_who_and_why(self) -> None:
        async with self.two_stores() as (one, other):
            story, fork = Story(), Story()
            empty = await other.operators_log()
            grant = a_grant("grant_5")
            await story.begin(one)
            await story.tell(one, grant)
            await fork.begin(one)
            await fork.tell(one, grant)
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

    async def test_a_grant_that_is_made_and_revoked_in_one_append_is_told_so(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            story = Story()
            await story.begin(store)
            await story.tell(store, a_grant("grant_6"), e.GrantRevoked("grant_6", "ann", 6.0))
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

    async def test_the_operators_log_is_no_run(self) -> None:
        async with self.open_store(lease_ttl=TTL) as store:
            await store.put_hold(Hold(kind="run", name="run_a", by="ops", at=7.0))

            assert (await store.runs(RunQuery())).rows == []
            assert await store.run(OPERATORS) is None
            assert await store.load(OPERATORS) is None
            assert await store.runnable(1e12, 10) == []
            assert not await store.delete(OPERATORS)
            assert len(await store.operators_log()) == 1
