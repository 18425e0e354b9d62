"""What «correct» means for an engine, as tests that every engine inherits: `EngineContract`, run with pytest
(`asyncio_mode = "auto"`).

An engine decides when which run is driven. It may ring too often, never too seldom: whatever has something to do is
driven in the end, one driver at a time, and nothing that happens to one run stops the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from placet.facts.errors import RunConflict
from placet.ports import DeskStore, Drive, Engine, Lease
from placet.testing.desk_contracts import Driver, RunWriter

SOON = 30.0
"""Seconds in which a bell that rang, or one that was lost, must have led to a drive. Generous: machines are shared."""
AGENT = "Clerk"


class EngineScene:
    """A store, and engines on it. A test of the contract is given one."""

    def __init__(self, store: DeskStore) -> None:
        self.store = store
        self.driven: dict[str, list[int]] = defaultdict(list)
        """How long the log was, for each drive of each run."""
        self.at_work: set[str] = set()
        self.most_at_work = 0
        self.calls = 0
        self.let_go = asyncio.Event()
        """Drives wait for it before they give the run back."""
        self.let_go.set()

    async def drive(self, run_id: str) -> bool:
        """Take the run, look at it, let it go: what a driver does, without a model."""
        self.calls += 1
        driver = Driver()
        try:
            lease = await self.store.lease(run_id, driver)
        except RunConflict:
            return False
        await self._look(run_id, lease)
        return True

    async def _look(self, run_id: str, lease: Lease) -> None:
        length = 0
        assert run_id not in self.at_work, "one run, one driver"
        self.at_work.add(run_id)
        self.most_at_work = max(self.most_at_work, len(self.at_work))
        try:
            while True:
                stored = await self.store.load(run_id)
                length = stored.length if stored is not None else 0
                self.driven[run_id].append(length)
                await self.let_go.wait()
                self.at_work.discard(run_id)
                if await self.store.release(lease, length):
                    return
                self.at_work.add(run_id)
        finally:
            self.at_work.discard(run_id)

    async def begun(self, count: int = 1) -> list[RunWriter]:
        stories = [RunWriter(AGENT, at=time.time()) for _ in range(count)]
        for story in stories:
            await story.begin(self.store)
        return stories

    async def is_given_back(self, story: RunWriter) -> None:
        """Wait until no process drives it, by the word of the store."""
        give_up = time.monotonic() + SOON
        while (row := await self.store.run(story.id)) is None or row.is_driven:
            assert time.monotonic() < give_up, "the run was not given back"
            await asyncio.sleep(0.01)

    def saw(self, story: RunWriter, length: int) -> bool:
        return length in self.driven[story.id]


async def sooner_or_later(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < give_up, "what was waited for did not happen"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(engine: Engine, drive: Drive) -> AsyncIterator[asyncio.Task[None]]:
    """The engine serves, until the end of the block."""
    task = asyncio.create_task(engine.serve(drive))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class EngineContract:
    """Say how to make a scene and an engine in it that drives runs of the agent `Clerk`, and inherit the tests."""

    def scene(self) -> AbstractAsyncContextManager[EngineScene]:
        raise NotImplementedError

    def engine(self, scene: EngineScene, limit: int = 16) -> Engine:
        raise NotImplementedError

    async def test_a_run_that_began_before_anybody_served_is_driven(self) -> None:
        async with self.scene() as scene:
            (story,) = await scene.begun()
            async with serving(self.engine(scene), scene.drive):
                await sooner_or_later(lambda: scene.saw(story, 1))

    async def test_a_run_that_begins_while_somebody_serves_is_driven(self) -> None:
        async with self.scene() as scene, serving(engine := self.engine(scene), scene.drive):
            (story,) = await scene.begun()
            await engine.enqueue(story.id)
            await sooner_or_later(lambda: scene.saw(story, 1))

    async def test_a_run_is_found_although_nobody_rang(self) -> None:
        async with self.scene() as scene, serving(self.engine(scene), scene.drive):
            (story,) = await scene.begun()
            await sooner_or_later(lambda: scene.saw(story, 1))

    async def test_a_decision_wakes_its_run(self) -> None:
        async with self.scene() as scene, serving(engine := self.engine(scene), scene.drive):
            story = RunWriter(AGENT, at=time.time())
            await story.ask(scene.store, "pay")
            await sooner_or_later(lambda: scene.saw(story, len(story.log)))
            await story.decide(scene.store)
            await engine.enqueue(story.id)
            await sooner_or_later(lambda: scene.saw(story, len(story.log)))

    async def test_a_decision_that_comes_while_its_run_is_driven_is_not_lost(self) -> None:
        async with self.scene() as scene, serving(engine := self.engine(scene), scene.drive):
            scene.let_go.clear()
            story = RunWriter(AGENT, at=time.time())
            await story.ask(scene.store, "pay")
            await engine.enqueue(story.id)
            await sooner_or_later(lambda: scene.driven[story.id] != [])
            await story.decide(scene.store)
            await engine.enqueue(story.id)
            scene.let_go.set()
            await sooner_or_later(lambda: scene.saw(story, len(story.log)))

    async def test_decisions_at_every_moment_are_all_seen(self) -> None:
        async with self.scene() as scene, serving(engine := self.engine(scene), scene.drive):
            story = RunWriter(AGENT, at=time.time())
            await story.ask(scene.store, *(f"pay{number}" for number in range(10)))
            await engine.enqueue(story.id)
            for number in range(10):
                await story.decide(scene.store, f"1.{number}")
                await engine.enqueue(story.id)
                await asyncio.sleep(0.003 * (number % 4))
            await sooner_or_later(lambda: scene.saw(story, len(story.log)))

    async def test_a_question_whose_time_has_come_wakes_its_run(self) -> None:
        async with self.scene() as scene, serving(self.engine(scene), scene.drive):
            story = RunWriter(AGENT, at=time.time())
            await story.ask(scene.store, "pay", expires_at=time.time() + 1.5)
            await sooner_or_later(lambda: scene.saw(story, len(story.log)))
            await sooner_or_later(lambda: not scene.at_work)
            before = len(scene.driven[story.id])
            await sooner_or_later(lambda: len(scene.driven[story.id]) > before)

    async def test_a_run_whose_driver_died_is_driven_again(self) -> None:
        async with self.scene() as scene:
            (story,) = await scene.begun()
            driver = Driver()
            await scene.store.lease(story.id, driver)
            del driver
            async with serving(self.engine(scene), scene.drive):
                await sooner_or_later(lambda: scene.saw(story, 1))

    async def test_no_more_than_the_limit_at_once_and_all_in_the_end(self) -> None:
        async with self.scene() as scene, serving(self.engine(scene, limit=3), scene.drive):
            scene.let_go.clear()
            stories = await scene.begun(8)
            await sooner_or_later(lambda: len(scene.at_work) == 3)
            await asyncio.sleep(0.2)
            most = scene.most_at_work
            scene.let_go.set()
            await sooner_or_later(lambda: all(scene.saw(story, 1) for story in stories))

            assert most == 3

    async def test_two_engines_share_the_runs_and_no_run_has_two_drivers(self) -> None:
        async with self.scene() as scene:
            first, second = self.engine(scene), self.engine(scene)
            async with serving(first, scene.drive), serving(second, scene.drive):
                stories = await scene.begun(20)
                for story in stories:
                    await asyncio.gather(first.enqueue(story.id), second.enqueue(story.id))
                await sooner_or_later(lambda: all(scene.saw(story, 1) for story in stories))

    async def test_rings_for_what_is_unknown_or_has_ended_do_no_harm(self) -> None:
        async with self.scene() as scene, serving(engine := self.engine(scene), scene.drive):
            (story, ended) = await scene.begun(2)
            await sooner_or_later(lambda: scene.saw(ended, 1))
            await scene.is_given_back(ended)
            await ended.end(scene.store)
            for run_id in ("", "run_unknown", ended.id, story.id, story.id):
                await engine.enqueue(run_id)
            await sooner_or_later(lambda: scene.saw(story, 1))

            assert not scene.saw(ended, len(ended.log))

    async def test_a_drive_that_fails_stops_no_other(self) -> None:
        async with self.scene() as scene:
            (broken, whole) = await scene.begun(2)

            async def drive(run_id: str) -> bool:
                if run_id == broken.id:
                    raise RuntimeError("a bug")
                return await scene.drive(run_id)

            async with serving(self.engine(scene, limit=1), drive):
                await sooner_or_later(lambda: scene.saw(whole, 1))

    async def test_a_run_of_which_nothing_comes_is_left_alone_for_a_while_and_keeps_nobody_waiting(self) -> None:
        async with self.scene() as scene:
            (foreign,) = await scene.begun()
            tries = 0

            async def drive(run_id: str) -> bool:
                nonlocal tries
                if run_id == foreign.id:
                    tries += 1
                    return False
                return await scene.drive(run_id)

            async with serving(self.engine(scene, limit=1), drive):
                await sooner_or_later(lambda: tries > 0)
                stories = await scene.begun(5)
                await sooner_or_later(lambda: all(scene.saw(story, 1) for story in stories))
                await asyncio.sleep(0.5)

            assert tries < 10

    async def test_it_tells_how_it_is_and_begins_nothing_after_its_end(self) -> None:
        async with self.scene() as scene:
            engine = self.engine(scene, limit=5)
            before = await engine.health()
            async with serving(engine, scene.drive):
                scene.let_go.clear()
                (story,) = await scene.begun()
                await sooner_or_later(lambda: scene.saw(story, 1))
                during = await engine.health()
                scene.let_go.set()
            after = await engine.health()
            (late,) = await scene.begun()
            await engine.enqueue(late.id)
            await asyncio.sleep(0.3)

            assert (before.is_serving, during.is_serving, after.is_serving) == (False, True, False)
            assert (during.driving, during.limit, after.driving) == (1, 5, 0)
            assert scene.driven[late.id] == []
