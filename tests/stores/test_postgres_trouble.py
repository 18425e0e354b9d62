"""A PostgreSQL that goes away, answers that are lost, and what other transactions do to the feed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import psycopg
import pytest

from placet.facts import events as e
from placet.facts.errors import RunConflict, StoreError
from placet.ports import Lease
from placet.stores.postgres import PostgresStore
from placet.stores.postgres import store as module
from placet.stores.postgres.connections import execute_steps, sql
from placet.stores.postgres.writes import append
from placet.stores.sql.appending import append_of
from placet.stores.sql.forgetting import delete, purge
from placet.testing.desk_contracts import Driver, RunWriter, until, within
from placet.testing.run_writer import lines_after
from tests.support.postgres import PostgresServer


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.store_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(url) as opened:
        yield opened


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that may be stopped: it has a disk that keeps what it was told to."""
    server = PostgresServer(fsync="on", full_page_writes="on")
    yield server
    server.close()


# -- a database that goes away ---------------------------------------------------------------------------------------


@pytest.mark.promise("P4")
async def test_a_lease_that_a_server_forgot_with_its_power_is_never_another_drivers(own_server: PostgresServer) -> None:
    """Leases do not wait for the disk. What was forgotten must not come back as the number of the next one."""
    url = own_server.new_database()
    async with PostgresStore(url) as store, PostgresStore(url) as other:
        stories = [RunWriter() for _ in range(8)]
        for story in stories:
            await story.begin(store)
        drivers = [Driver() for _ in range(16)]
        first = [await store.lease(story.id, driver) for story, driver in zip(stories, drivers, strict=False)]
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        second: list[Lease] = []
        for story, driver in zip(stories, drivers[8:], strict=True):
            with suppress(RunConflict):
                second.append(await other.lease(story.id, driver))
        taken_over = {lease.run_id for lease in second}
        for lease, story in zip(first, stories, strict=True):
            append = store.append(lease, story.log, lines_after(story.log, 1), story.run)
            if story.id in taken_over:
                with pytest.raises(RunConflict):
                    await append
            else:
                await append

        assert not {lease.epoch for lease in first} & {lease.epoch for lease in second}


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_work_goes_on_by_itself_when_the_server_was_away_and_nothing_that_was_confirmed_is_lost(
    own_server: PostgresServer, how: str
) -> None:
    async with PostgresStore(own_server.new_database()) as store:
        story = RunWriter()
        await story.begin(store)
        going_down = own_server.stop if how == "stop" else own_server.kill
        await asyncio.to_thread(going_down)
        waiting = [asyncio.ensure_future(story.append(store, e.TurnLimitSet(3))), asyncio.ensure_future(store.holds())]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in waiting)
        await asyncio.to_thread(own_server.start)
        await within(asyncio.gather(*waiting))

        stored = await store.load(story.id)
        assert stored is not None
        assert stored.log is not None
        assert stored.log.lines == story.log.lines


async def test_a_server_that_stays_away_is_an_error_of_the_store(own_server: PostgresServer) -> None:
    async with PostgresStore(own_server.new_database(), patience=0.2) as store:
        await asyncio.to_thread(own_server.stop)
        try:
            with pytest.raises(StoreError, match="PostgreSQL cannot be reached"):
                await within(store.load("run_x"))
        finally:
            await asyncio.to_thread(own_server.start)
        assert await within(store.load("run_x")) is None


async def test_leases_outlive_a_lost_connection(url: str) -> None:
    async with PostgresStore(url, lease_ttl=0.6) as store:
        driver = Driver()
        lease = await store.lease("run_x", driver)
        granted = lease.live_until
        await until(lambda: _has_moved(lease, granted))
        await asyncio.to_thread(_disconnect_all, url)
        before = lease.live_until

        await until(lambda: _has_moved(lease, before))


async def test_whoever_listens_hears_again_after_a_lost_connection(store: PostgresStore, url: str) -> None:
    story = RunWriter()
    await story.begin(store)
    waiting = asyncio.ensure_future(store.wait_for_news(await _end_of_feed(store), 10.0))
    await asyncio.sleep(0.1)
    await asyncio.to_thread(_disconnect_all, url)
    await story.append(store, e.TurnLimitSet(3))

    assert await within(waiting)


async def test_a_wrong_database_is_said_at_once(postgres: PostgresServer) -> None:
    began = time.monotonic()
    with pytest.raises(StoreError, match="check the store's URL"):
        await PostgresStore(postgres.url("nowhere")).load("run_x")

    assert time.monotonic() - began < 10


async def test_a_read_only_server_is_named(url: str) -> None:
    async with PostgresStore(url):
        pass

    read_only = PostgresStore(url + "&options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(StoreError, match="read-only"):
        await RunWriter().begin(read_only)
    await read_only.close()


# -- answers that are lost -------------------------------------------------------------------------------------------


class LosesAnswers:
    """Breaks the connection after the next append was done, before anybody hears of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost = 0
        execute = psycopg.AsyncConnection.execute

        async def cut(db, query, params=None, **options):  # type: ignore[no-untyped-def]
            cursor = await execute(db, query, params, **options)
            if self.lost == 0 and query in (sql("append"), sql("lease")):
                self.lost += 1
                db.pgconn.finish()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return cursor

        monkeypatch.setattr(psycopg.AsyncConnection, "execute", cut)


async def test_an_append_whose_answer_was_lost_is_written_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = RunWriter()
    await story.begin(store)
    cutting = LosesAnswers(monkeypatch)
    await within(story.append(store, e.TurnLimitSet(3)))

    stored = await store.load(story.id)
    assert cutting.lost == 1
    assert stored is not None
    assert stored.log is not None
    assert stored.log.lines == story.log.lines


async def test_a_lease_whose_answer_was_lost_is_had(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    cutting = LosesAnswers(monkeypatch)
    driver, story = Driver(), RunWriter()
    lease = await within(store.lease(story.id, driver))
    await story.begin(store, lease)

    row = await store.run(story.id)
    assert cutting.lost == 1
    assert row is not None
    assert (row.is_driven, row.takeovers) == (True, 0)


async def test_a_deletion_whose_answer_was_lost_is_told_as_done_and_written_once(store: PostgresStore) -> None:
    stories = [RunWriter(at=1000.0), RunWriter(at=1000.0), RunWriter(at=1000.0)]
    for story in stories:
        await story.begin(store)
        await story.end(store)
    one, rest = e.RunsDeleted([], "ops", 9.0), e.RunsDeleted([], "ops", 10.0, None, 4000.0)

    deleted = [
        await store.connections.do(lambda db, _, again=again: execute_steps(db, delete(again, stories[0].id, one)))  # type: ignore[misc]
        for again in (False, True)
    ]
    unknown = await store.connections.do(lambda db, _: execute_steps(db, delete(True, "run_x", one)))
    purged = [
        await store.connections.do(lambda db, _, again=again: execute_steps(db, purge(again, 1000, rest)))  # type: ignore[misc]
        for again in (False, True)
    ]

    assert (deleted, unknown, purged) == ([True, True], False, [2, 2])
    assert len(await store.operators_log()) == 2


async def test_a_lease_that_nobody_waits_for_any_more_is_nobody_s(url: str) -> None:
    async with PostgresStore(url, lease_ttl=3600) as store:
        driver = Driver()
        for pause in (0.0, 0.001, 0.002, 0.005):
            taking = asyncio.ensure_future(store.lease("run_x", driver))
            await asyncio.sleep(pause)
            taking.cancel()
            await asyncio.wait([taking])
            if not taking.cancelled():
                await store.release(taking.result(), 0)

        async def is_free() -> bool:
            row = await asyncio.to_thread(_one, url, "SELECT count(*) FROM placet_runs WHERE owner IS NOT NULL")
            return row == 0

        await until(is_free)


async def test_a_task_that_is_cancelled_while_its_connection_breaks_ends(store: PostgresStore, url: str) -> None:
    asking = asyncio.create_task(store.query(b"SELECT pg_sleep(300)"))

    async def is_at_work() -> bool:
        return await asyncio.to_thread(_one, url, f"SELECT count(*) {ASLEEP}") == 1

    await until(is_at_work)
    _one(url, f"SELECT count(pg_terminate_backend(pid)) {ASLEEP}")  # nothing else of ours runs before the next line
    asking.cancel()
    await asyncio.wait([asking], timeout=120)

    assert asking.cancelled()


ASLEEP = "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(300)%' AND pid <> pg_backend_pid()"


async def test_a_store_closes_though_the_error_of_a_broken_connection_took_the_place_of_a_cancellation(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_connecting = asyncio.Event()

    async def breaks_when_cancelled(_url: str) -> None:
        is_connecting.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise psycopg.OperationalError("the connection is lost") from None

    async with PostgresStore(url) as store:
        monkeypatch.setattr(module, "connect", breaks_when_cancelled)
        hearing = asyncio.create_task(store.wait_for_news(await store.latest_sequence(), 60))
        await is_connecting.wait()
        hearing.cancel()
        async with asyncio.timeout(120):
            await store.close()


# -- the feed --------------------------------------------------------------------------------------------------------


async def test_the_feed_never_passes_by_an_append_that_is_still_being_committed(store: PostgresStore, url: str) -> None:
    slow, fast, first = RunWriter(), RunWriter(), RunWriter()
    await first.begin(store)
    begun = await _end_of_feed(store)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await _append_without_commit(other, slow)
        await fast.begin(store)
        held_back, is_news = await store.feed(begun), await store.wait_for_news(begun, 0.1)
        end = await store.latest_sequence()
        await other.commit()

    told = [entry.run_id for entry in await store.feed(begun)]
    assert (held_back, is_news, end) == ([], False, begun)
    assert sorted(told) == sorted([slow.id, fast.id])


async def test_a_reader_that_follows_the_feed_of_many_writers_misses_nothing(url: str) -> None:
    async with PostgresStore(url, connections=8) as store:
        stories = [RunWriter() for _ in range(8)]
        seen: list[tuple[str, int]] = []

        async def follow() -> None:
            after = 0
            while len(seen) < 8 * 10:
                await store.wait_for_news(after, 5.0)
                for entry in await store.feed(after, limit=7):
                    after = entry.sequence
                    seen.append((entry.run_id, entry.position))

        async def write(story: RunWriter) -> None:
            await story.begin(store)
            for number in range(9):
                await story.append(store, e.TurnLimitSet(number))

        await within(asyncio.gather(follow(), *(write(story) for story in stories)))
        assert sorted(seen) == sorted((story.id, position) for story in stories for position in range(10))


async def test_news_of_another_process_come_without_waiting_for_the_next_look(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)
    async with PostgresStore(url) as store, PostgresStore(url) as other:
        story = RunWriter()
        await story.begin(other)
        waiting = asyncio.ensure_future(store.wait_for_news(await _end_of_feed(store), 3600.0))
        await until(lambda: _is_listening(url))
        await story.append(other, e.TurnLimitSet(3))

        assert await within(waiting)


async def test_the_feed_goes_on_upwards_in_a_server_that_counts_from_lower_numbers(url: str) -> None:
    async with PostgresStore(url) as store:
        await RunWriter().begin(store)
    await asyncio.to_thread(_run, url, "UPDATE placet_lines SET sequence = 2^60")  # from a server with a long life

    async with PostgresStore(url) as store:
        story = RunWriter()
        await story.begin(store)
        await until(lambda: _feed_has(store, 2))
        assert [entry.run_id for entry in await store.feed(2**60)] == [story.id]


# -- event loops, processes ------------------------------------------------------------------------------------------


def test_a_store_belongs_to_one_event_loop_at_a_time_and_says_so(url: str) -> None:
    store, stories = PostgresStore(url), [RunWriter(), RunWriter()]
    for story in stories:
        asyncio.run(story.begin(store))

    async def from_two_at_once() -> str:
        await store.load("run_x")
        with pytest.raises(StoreError) as caught:
            await asyncio.to_thread(asyncio.run, store.load("run_x"))
        await store.close()
        return caught.value.message

    assert "one event loop" in asyncio.run(from_two_at_once())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn of what is tested here
def test_a_child_process_connects_anew_and_leaves_its_parent_in_peace(url: str) -> None:
    store, story = PostgresStore(url), RunWriter()

    async def use() -> int:
        await RunWriter().begin(store)
        await store.close()
        return 0

    async def fork_in_between() -> int:
        await story.begin(store)
        status = await _forked(use)
        await story.append(store, e.TurnLimitSet(3))
        await store.close()
        return status

    assert asyncio.run(fork_in_between()) == 0


async def _forked(use) -> int:  # type: ignore[no-untyped-def]
    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            os._exit(asyncio.run(use()))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return await asyncio.to_thread(fork)


# -- what these need -------------------------------------------------------------------------------------------------


async def _has_moved(lease, since: float) -> bool:  # type: ignore[no-untyped-def]
    return bool(lease.live_until > since)


async def _feed_has(store: PostgresStore, count: int) -> bool:
    return len(await store.feed(0)) == count


async def _is_listening(url: str) -> bool:
    sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    return await asyncio.to_thread(_one, url, sql) == 1


async def _end_of_feed(store: PostgresStore) -> int:
    await until(lambda: _feed_has(store, 1))
    return (await store.feed(0))[-1].sequence


async def _append_without_commit(db, story: RunWriter) -> None:  # type: ignore[no-untyped-def]
    line = story.line(e.RunStarted("Clerk", "hello", 10))
    await execute_steps(db, append(False, append_of(None, story.log, [line], story.run)))


def _run(url: str, sql: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(sql.encode())


def _one(url: str, sql: str) -> object:
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute(sql.encode()).fetchone()
        assert row is not None
        return row[0]


def _disconnect_all(url: str) -> None:
    sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    _run(url, sql + " AND pid <> pg_backend_pid()")
