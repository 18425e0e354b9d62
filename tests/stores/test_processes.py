"""Real processes on one store: at once, killed, frozen."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from placet.facts.errors import RunConflict
from placet.ports import DeskStore
from placet.stores.opening import open_store
from placet.testing.desk_contracts import Driver, RunWriter, until
from tests.stores.processes import Worker, workers
from tests.stores.worker import TTL


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'placet.db'}"
    found: str = request.getfixturevalue("postgres").new_database()
    return found


async def test_processes_that_start_at_once_migrate_once_lose_nothing_and_never_share_a_place(
    url: str,
) -> None:
    count, rounds = 8, 6
    with workers(count, "race", url, str(rounds)) as racing:
        opened = [_all_hear(racing) for _ in ("here", "opened")]
        async with open_store(url) as store:
            shared = RunWriter()
            await shared.begin(store)
            for worker in racing:
                worker.send(shared.id)
            told = [await asyncio.to_thread(worker.hear_all) for worker in racing]

            said = [words for each in told for words in each]
            stored = await _log_of(store, shared.id)
            epochs = [int(words[1]) for words in said if words[0] == "leased"]
            own = {words[1]: int(words[2]) for words in said if words[0] == "own"}
            assert opened == [[["here"]] * count, [["opened"]] * count]
            assert stored.verify()
            assert len(stored) == 1 + sum(words[0] == "wrote" for words in said)
            assert len(epochs) == len(set(epochs)) > 0
            assert len(own) == count
            for run_id, length in own.items():
                assert len(await _log_of(store, run_id)) == length == rounds + 1
            feed = [(entry.run_id, entry.position) for entry in await _whole_feed(store)]
            assert len(feed) == len(set(feed)) == len(stored) + count * (rounds + 1)


def _all_hear(racing: list[Worker]) -> list[list[str]]:
    """What each of them says next; then all are told to go on."""
    said = [worker.hear() for worker in racing]
    if said[0] == ["here"]:
        for worker in racing:
            worker.send()
    return said


async def test_a_process_killed_while_it_appends_leaves_whole_batches_and_all_that_it_was_told_of(url: str) -> None:
    size, dice = 7, random.Random(7)
    async with open_store(url) as store:
        for _ in range(8):
            with workers(1, "batches", url, str(size)) as (worker,):
                _, run_id = worker.hear()
                worker.hear()
                await asyncio.sleep(dice.uniform(0.0, 0.05))
                worker.signal(signal.SIGKILL)
                told = [int(words[1]) for words in worker.hear_all() if len(words) == 2]

            log = await _log_of(store, run_id)
            assert (len(log) - 1) % size == 0
            assert len(log) >= max(told, default=1 + size)
            assert log.verify()


async def test_a_frozen_driver_is_taken_over_and_can_append_nothing_when_it_thaws(url: str) -> None:
    async with open_store(url, lease_ttl=TTL) as store:
        with workers(1, "drive", url) as (frozen,):
            run_id = frozen.hear()[1]
            await _it_appends_for_longer_than_its_lease(frozen)
            with pytest.raises(RunConflict, match=f"process {frozen.pid}"):
                await store.lease(run_id, Driver())
            frozen.signal(signal.SIGSTOP)
            driver = Driver()
            lease = await _lease_when_free(store, run_id, driver)
            length = len(await _log_of(store, run_id))
            frozen.signal(signal.SIGCONT)
            frozen.send()
            outcome = await asyncio.to_thread(frozen.hear)

            row = await store.run(run_id)
            assert outcome[:2] == ["refused", "False"]
            assert "taken over" in " ".join(outcome)
            assert len(await _log_of(store, run_id)) == length
            assert row is not None
            assert (row.takeovers, row.is_driven) == (1, True)
            assert await store.release(lease, length)


async def test_the_run_of_a_killed_driver_becomes_runnable_by_itself(url: str) -> None:
    async with open_store(url, lease_ttl=TTL) as store:
        with workers(1, "drive", url) as (worker,):
            run_id = worker.hear()[1]
            worker.signal(signal.SIGKILL)
            at_once = await store.runnable(time.time(), 10)

            async def is_runnable() -> bool:
                return await store.runnable(time.time(), 10) == [run_id]

            await until(is_runnable)
            assert at_once == []


async def _it_appends_for_longer_than_its_lease(worker: Worker) -> None:
    end = time.monotonic() + 1.2 * TTL
    while time.monotonic() < end:
        worker.send()
        assert await asyncio.to_thread(worker.hear) == ["appended", "True"]
        await asyncio.sleep(0.05)


async def _lease_when_free(store: DeskStore, run_id: str, driver: object) -> Any:
    found = None

    async def is_free() -> bool:
        nonlocal found
        try:
            found = await store.lease(run_id, driver)
        except RunConflict:
            return False
        return True

    await until(is_free)
    return found


async def _log_of(store: DeskStore, run_id: str) -> Any:
    stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    return stored.log


async def _whole_feed(store: DeskStore) -> list[Any]:
    found = await store.feed(0)
    while more := await store.feed(found[-1].sequence):
        found += more
    return found
