"""SQLite files that cannot be what a store needs: clear errors, nothing lost, and it goes on by itself where it can."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from placet.facts import events as e
from placet.facts.errors import PositionConflict, StoreError
from placet.stores.sql.statements import migrations
from placet.stores.sqlite import SQLiteStore
from placet.stores.sqlite.file import SQLiteFile, sql
from placet.testing.desk_contracts import Driver, RunWriter, until, within

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "placet.db"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can look into."""
    folder = Path(tempfile.mkdtemp(prefix="placet-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere: for a moment, be somebody who may not."""
    is_root = os.getuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none.placet\.db.*directory does not exist"):
        await SQLiteStore(tmp_path / "none" / "placet.db").load("run_x")


def test_a_file_that_is_no_database_is_left_as_it_is(path: Path) -> None:
    path.write_text("Dear diary, " * 100)

    with pytest.raises(StoreError, match="is not an SQLite database"):
        asyncio.run(RunWriter().begin(SQLiteStore(path)))

    assert path.read_text() == "Dear diary, " * 100


async def test_a_read_only_file_can_be_read_and_says_why_it_cannot_be_written(open_folder: Path) -> None:
    path, story = open_folder / "placet.db", RunWriter()
    async with SQLiteStore(path) as store:
        await story.begin(store)
    path.chmod(0o444)
    with as_nobody():
        store = SQLiteStore(path)
        with pytest.raises(StoreError, match=r"read-only|not accessible"):
            await story.append(store, e.TurnLimitSet(3))
        await store.close()
    path.chmod(0o644)

    async with SQLiteStore(path) as store:
        stored = await store.load(story.id)
        assert stored is not None
        assert stored.length == 1


async def test_a_locked_file_is_waited_for_and_then_named(path: Path) -> None:
    async with SQLiteStore(path, patience=0.2) as store:
        story = RunWriter()
        await story.begin(store)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        line = story.log.next_line(5.0, [e.TurnLimitSet(3)])
        with pytest.raises(StoreError, match="locked by another process"):
            await store.append(None, story.log, [line], story.run)
        other.execute("ROLLBACK")
        other.close()

        await store.append(None, story.log, [line], story.run)
        assert await store.load(story.id) is not None


async def test_a_lock_that_is_let_go_in_time_only_costs_time(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await RunWriter().begin(store)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        letting_go = threading.Timer(0.1, lambda: other.execute("ROLLBACK"))
        letting_go.start()
        story = RunWriter()
        await story.begin(store)
        letting_go.join()
        other.close()

        assert await store.load(story.id) is not None


async def test_on_a_full_disk_nothing_is_written_in_part_and_it_goes_on_when_there_is_room(path: Path) -> None:
    async with SQLiteStore(path) as store:
        story, big = RunWriter(), RunWriter()
        await story.begin(store)
        large = big.line(e.RunStarted("Clerk", "x" * 3_000_000, 10))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))  # what a disk would say, said for files
        try:
            with pytest.raises(StoreError, match="disk"):
                await store.append(None, big.log, [large], big.run)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        missing, kept = await store.load(big.id), await store.load(story.id)
        await store.append(None, big.log, [large], big.run)
        await story.append(store, e.TurnLimitSet(3))
        there = await store.load(big.id)
        assert missing is None
        assert kept is not None
        assert there is not None


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE placet_lines SET text = replace(text, 'hello', 'hullo') WHERE position = 0",
        "UPDATE placet_lines SET text = CAST(replace(text, 'hello', 'hullo') AS BLOB) WHERE position = 0",
        "DELETE FROM placet_lines WHERE position = 0",
        "DELETE FROM placet_lines WHERE position = 1",
        "UPDATE placet_lines SET position = 7 WHERE position = 1",
        "DELETE FROM placet_lines",
    ],
)
async def test_a_damaged_log_is_an_error_that_names_the_run_and_others_are_not_affected(
    path: Path, damage: str
) -> None:
    async with SQLiteStore(path) as store:
        hurt = RunWriter()
        await hurt.ask(store, "pay")
        db = sqlite3.connect(path, isolation_level=None)
        db.execute(damage)
        db.close()
        healthy = RunWriter()
        await healthy.begin(store)

        with pytest.raises(StoreError, match=f"{hurt.id} is damaged"):
            await store.load(hurt.id)
        assert await store.load(healthy.id) is not None


async def test_a_damaged_question_is_an_error_of_the_store(path: Path) -> None:
    async with SQLiteStore(path) as store:
        (question,) = await RunWriter().ask(store, "pay")
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("UPDATE placet_requests SET data = '{'")
        db.close()

        with pytest.raises(StoreError, match="request cannot be read"):
            await store.request(question)


async def test_what_waits_together_is_written_together_and_a_conflict_fails_alone(path: Path) -> None:
    async with SQLiteStore(path) as store:
        story = RunWriter()
        await story.begin(store)
        behind = story.log.copy()
        await story.append(store, e.TurnLimitSet(3))
        others = [RunWriter() for _ in range(20)]
        late = behind.next_line(9.0, [e.TurnLimitSet(4)])

        results = await asyncio.gather(
            *(each.begin(store) for each in others[:10]),
            store.append(None, behind, [late], story.run),
            *(each.begin(store) for each in others[10:]),
            return_exceptions=True,
        )
        assert [type(result) for result in results if result is not None] == [PositionConflict]
        for each in others:
            assert await store.load(each.id) is not None


async def test_an_append_that_fails_in_its_middle_leaves_nothing_and_fails_alone(path: Path) -> None:
    async with SQLiteStore(path) as store:
        story, neighbours = RunWriter(), [RunWriter(), RunWriter()]
        await story.begin(store)
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("INSERT INTO placet_lines (run, position, text, checksum) SELECT number, 2, x'', 0 FROM placet_runs")
        db.close()
        ahead, lines = story.log.copy(), []
        for number in range(2):
            lines.append(ahead.next_line(9.0, [e.TurnLimitSet(number)]))
            ahead.append(lines[-1])

        results = await asyncio.gather(
            neighbours[0].begin(store),
            store.append(None, story.log, lines, story.run),
            neighbours[1].begin(store),
            return_exceptions=True,
        )
        positions = [entry.position for entry in await store.feed(0) if entry.run_id == story.id]
        assert [type(result) for result in results] == [type(None), StoreError, type(None)]
        assert positions == [0, 2]
        assert len(await store.feed(0)) == 4


async def test_whoever_comes_while_another_migrates_waits_and_finds_it_done(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN IMMEDIATE")
    other.execute(sql("create_schema_table"))
    for migration in migrations("sqlite"):
        SQLiteFile(str(path), 0.0)._apply(other, migration)
    store = SQLiteStore(path)
    opening = asyncio.ensure_future(RunWriter().begin(store))
    await asyncio.sleep(0.1)
    is_waiting = not opening.done()
    other.execute("COMMIT")
    other.close()
    await within(opening)
    await store.close()

    assert is_waiting


async def test_an_append_that_nobody_waits_for_any_more_harms_no_other(path: Path) -> None:
    async with SQLiteStore(path) as store:
        stories = [RunWriter() for _ in range(10)]
        tasks = [asyncio.ensure_future(story.begin(store)) for story in stories]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait(tasks)

        assert [task.exception() for task in tasks[1::2]] == [None] * 5
        for story in stories[1::2]:
            assert await store.load(story.id) is not None


async def test_a_lease_that_nobody_waits_for_any_more_is_nobody_s(path: Path) -> None:
    async with SQLiteStore(path, lease_ttl=3600) as store:
        driver = Driver()
        taking = asyncio.ensure_future(store.lease("run_x", driver))
        await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])

        assert (await store.lease("run_x", driver)).run_id == "run_x"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn of what is tested here
def test_a_child_process_uses_the_file_anew_and_leaves_its_parent_in_peace(path: Path) -> None:
    store, story = SQLiteStore(path), RunWriter()
    asyncio.run(story.begin(store))
    pid = os.fork()
    if pid == 0:
        os._exit(_exit_code_of_child(store, story.id))
    _, status = os.waitpid(pid, 0)

    async def go_on() -> int:
        await story.append(store, e.TurnLimitSet(3))
        count = len(await store.feed(0))
        await store.close()
        return count

    assert os.waitstatus_to_exitcode(status) == 0
    assert asyncio.run(go_on()) == 3


def _exit_code_of_child(store: SQLiteStore, run_id: str) -> int:
    async def use() -> int:
        found = await store.load(run_id)
        await RunWriter().begin(store)
        await store.close()
        return 0 if found is not None else 1

    return asyncio.run(use())


async def test_a_store_that_is_forgotten_ends_its_threads(path: Path) -> None:
    store = SQLiteStore(path)
    driver = Driver()
    await store.lease("run_x", driver)
    before = {thread for thread in threading.enumerate() if thread.name.startswith("placet-")}
    del store
    gc.collect()

    async def are_gone() -> bool:
        return not before & set(threading.enumerate())

    assert len(before) >= 2
    await until(are_gone)


def test_a_store_serves_one_event_loop_after_another(path: Path) -> None:
    store, stories = SQLiteStore(path), [RunWriter(), RunWriter()]
    for story in stories:
        asyncio.run(story.begin(store))

    async def known() -> list[bool]:
        found = [await store.load(story.id) is not None for story in stories]
        await store.close()
        return found

    assert asyncio.run(known()) == [True, True]
