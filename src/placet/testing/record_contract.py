"""What every store must do with the small things that a desk keeps: inherit `RecordStoreContract`, say how to open one,
and run it with pytest (`asyncio_mode = "auto"`)."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager

from placet.core.log import read_lines
from placet.facts.events import FourEyesSet, UserChanged
from placet.ports import DeskStore, RecordStep, StoredRecord


def _record(record_id: str = "ana", data: str = '{"a":1}', **more: object) -> StoredRecord:
    return StoredRecord(kind="user", id=record_id, data=data, **more)  # type: ignore[arg-type]  # the rest of its fields


class RecordStoreContract:
    def open_store(self) -> AbstractAsyncContextManager[DeskStore]:
        """A new, empty store."""
        raise NotImplementedError

    async def test_what_was_added_is_found_under_its_kind_and_id_alone(self) -> None:
        async with self.open_store() as store:
            was_added = await store.add_record(_record(owner="o"))
            found = await store.record("user", "ana")

            assert was_added
            assert found == _record(owner="o")
            assert await store.record("token", "ana") is None
            assert await store.record("user", "ben") is None

    async def test_records_come_in_pages_in_the_order_of_their_ids_also_when_the_last_one_is_gone(self) -> None:
        async with self.open_store() as store:
            for name in ("c", "a", "e", "b", "d"):
                await store.add_record(_record(record_id=name))

            first = await store.records("user", limit=2)
            await store.take_record("user", first[-1].id)
            rest = await store.records("user", after=first[-1].id, limit=9)

            assert [record.id for record in (*first, *rest)] == ["a", "b", "c", "d", "e"]

    async def test_adding_twice_changes_nothing(self) -> None:
        async with self.open_store() as store:
            await store.add_record(_record())
            again = await store.add_record(_record(data='{"a":2}'))

            assert not again
            assert await store.record("user", "ana") == _record()

    async def test_of_many_who_add_the_same_at_once_one_does(self) -> None:
        async with self.open_store() as store:
            added = await asyncio.gather(*(store.add_record(_record(data=f'"{i}"')) for i in range(10)))

            assert sum(added) == 1

    async def test_of_many_who_take_the_same_at_once_one_gets_it(self) -> None:
        async with self.open_store() as store:
            await store.add_record(_record())
            taken = await asyncio.gather(*(store.take_record("user", "ana") for _ in range(10)))

            assert [each for each in taken if each is not None] == [_record()]
            assert await store.record("user", "ana") is None

    async def test_replacing_needs_one_that_is_there_and_what_it_was(self) -> None:
        async with self.open_store() as store:
            missing = await store.replace_record(_record())
            await store.add_record(_record())
            other = await store.replace_record(_record(data='"new"'), was='"other"')
            right = await store.replace_record(_record(data='"new"'), was='{"a":1}')
            blind = await store.replace_record(_record(data='"newer"'))

            assert (missing, other, right, blind) == (False, False, True, True)
            assert await store.record("user", "ana") == _record(data='"newer"')

    async def test_of_many_who_replace_what_it_was_one_does(self) -> None:
        async with self.open_store() as store:
            await store.add_record(_record())
            done = await asyncio.gather(
                *(store.replace_record(_record(data=f'"{i}"'), was='{"a":1}') for i in range(10))
            )

            assert sum(done) == 1

    async def test_an_expired_record_is_as_if_it_were_not_there(self) -> None:
        past = _record(expires_at=time.time() - 1)
        async with self.open_store() as store:
            await store.add_record(past)

            assert await store.record("user", "ana") is None
            assert await store.records("user") == []
            assert await store.take_record("user", "ana") is None
            assert not await store.replace_record(_record())
            assert await store.add_record(_record())
            assert await store.record("user", "ana") == _record()

    async def test_expired_records_are_forgotten_and_the_others_kept(self) -> None:
        async with self.open_store() as store:
            for index in range(5):
                await store.add_record(_record(f"old-{index}", expires_at=time.time() - 1))
            await store.add_record(_record("young", expires_at=time.time() + 100))
            await store.add_record(_record("for ever"))

            assert [await store.expire_records(limit=3), await store.expire_records(limit=3)] == [3, 2]
            assert [each.id for each in await store.records("user")] == ["for ever", "young"]

    async def test_lists_go_by_id_in_pages_and_by_owner(self) -> None:
        async with self.open_store() as store:
            for name, owner in (("c", "x"), ("a", "y"), ("B", "x"), ("é", "x")):
                await store.add_record(_record(name, owner=owner))
            first = await store.records("user", limit=2)
            rest = await store.records("user", after=first[-1].id, limit=10)

            assert [each.id for each in (*first, *rest)] == ["B", "a", "c", "é"]
            assert [each.id for each in await store.records("user", owner="x")] == ["B", "c", "é"]

    async def test_all_of_an_owner_can_be_removed(self) -> None:
        async with self.open_store() as store:
            for name, owner in (("c", "x"), ("a", "y"), ("b", "x")):
                await store.add_record(_record(name, owner=owner))
            removed = await store.remove_records("user", "x")

            assert removed == 2
            assert [each.id for each in await store.records("user")] == ["a"]

    async def test_a_change_of_several_records_and_its_facts_happen_together_or_not_at_all(self) -> None:
        fact = UserChanged("ana", "changed", "root", 7.0, "viewer", [])
        async with self.open_store() as store:
            await store.add_record(_record())
            await store.add_record(_record("s1", owner="ana"))
            ana = RecordStep(kind="user", id="ana", was='{"a":1}', now=_record(data='"new"'))
            ben = RecordStep(kind="user", id="ben", was=None, now=_record("ben"))
            gone = RecordStep(kind="user", id="zoe", was="1", now=None)
            refused = await store.change_records([ana, ben, gone], [fact], at=7.0, without=[("user", "ana")])
            before = [each.id for each in await store.records("user")], len(await store.operators_log())
            done = await store.change_records([ana, ben], [fact], at=7.0, without=[("user", "ana")])
            log = await store.operators_log()
            found = await store.records("user")

        assert not refused
        assert before == (["ana", "s1"], 0)
        assert done
        assert found == [_record(data='"new"'), _record("ben")]
        assert [said for line in read_lines(log.lines) for said in line.facts] == [fact]
        assert log.verify()

    async def test_a_change_removes_a_record_and_finds_an_expired_one_gone(self) -> None:
        fact = UserChanged("ana", "removed", "root", 7.0, "viewer", [])
        async with self.open_store() as store:
            await store.add_record(_record())
            await store.add_record(_record("old", expires_at=time.time() - 1))
            remove = RecordStep(kind="user", id="ana", was='{"a":1}', now=None)
            fill = RecordStep(kind="user", id="old", was=None, now=_record("old"))
            done = await store.change_records([remove, fill], [fact], at=7.0)

            assert done
            assert await store.records("user") == [_record("old")]

    async def test_of_two_changes_that_rest_on_what_the_other_changes_one_happens(self) -> None:
        def demote(name: str, other: str) -> list[RecordStep]:
            fixed = _record(other, data='"admin"')
            return [
                RecordStep(kind="user", id=other, was='"admin"', now=fixed),
                RecordStep(kind="user", id=name, was='"admin"', now=_record(name, data='"viewer"')),
            ]

        facts = [UserChanged(name, "changed", None, 7.0, "viewer", []) for name in ("ana", "ben")]
        async with self.open_store() as store, self.open_store() as second:
            for turn in range(10):
                for name in ("ana", "ben"):
                    await store.take_record("user", name)
                    await store.add_record(_record(name, data='"admin"'))
                done = await asyncio.gather(
                    store.change_records(demote("ana", "ben"), facts[:1], at=7.0 + turn),
                    second.change_records(demote("ben", "ana"), facts[1:], at=7.0 + turn),
                )

                assert sorted(done) == [False, True]
            log = await store.operators_log()

        assert len(log) == 10
        assert log.verify()

    async def test_where_four_eyes_are_demanded_is_read_from_the_store(self) -> None:
        async with self.open_store() as store:
            before = await store.four_eyes()
            record = StoredRecord(kind="setting", id="four-eyes", data='[["Pay*","*"]]')
            step = RecordStep(kind="setting", id="four-eyes", was=None, now=record)
            await store.change_records([step], [FourEyesSet([("Pay*", "*")], "root", 7.0)], at=7.0)

            assert list(before) == []
            assert list(await store.four_eyes()) == [("Pay*", "*")]

    async def test_an_empty_store_counts_nothing(self) -> None:
        async with self.open_store() as store:
            numbers = await store.numbers()

            assert (numbers.running, numbers.waiting, numbers.ended, numbers.pending) == (0, 0, 0, 0)
            assert numbers.oldest_request is None
