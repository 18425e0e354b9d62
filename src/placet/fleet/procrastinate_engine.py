"""The fleet's engine: Procrastinate on the runs' own PostgreSQL is the doorbell, the run's row is the truth.

Rule of this file: nothing is decided by a job. A job only says «look at this run»; who may drive it is decided by the
lease in its row, and what is to be done by its log. So any job may be lost, repeated or late, and the library's own
`lock` and retries are not used: a scheduled job with the same lock would block the wake-up of its run, and a retry
that meets a newer ring of the same run would fail.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from placet.clock import SYSTEM_CLOCK, Clock
from placet.facts.errors import StoreError
from placet.fleet.calls import keep_hearing
from placet.fleet.schema import fleet_sql, migrate
from placet.fleet.workers import Registration, default_name
from placet.ports import Drive, EngineHealth
from placet.stores.outages import Outage
from placet.stores.postgres import PostgresStore
from placet.stores.postgres.cancelling import Cancellations
from placet.stores.postgres.connections import connection_options

if TYPE_CHECKING:
    from procrastinate import App
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

logger = logging.getLogger("placet.fleet")

TASK = "placet:advance"
SWEEP_SECONDS = 1.0
"""How long a lost notification goes unnoticed: once in so many seconds one worker of the fleet looks."""
SWEEP_LIMIT = 1000
HEARTBEAT_SECONDS = 5.0
POLL_SECONDS = 5.0
POLL_WITHOUT_LISTENING_SECONDS = 0.25
PATIENCE_WITH_CALLS = 0.25
"""How long a call waits for a place before others get it."""
LEFT_ALONE_SECONDS = 10.0
"""How long a run is left alone that no worker's code can drive."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Between two tries to serve while the database is away."""
DEFAULT_GRACE = 30.0


class ProcrastinateEngine:
    """Rings, and drives what is rung for: runs of these agents, so many at once.

    Without agents it only rings. `queues` picks some of the agents. `grace`: how many seconds drives get to come to a
    good place when the engine ends.
    """

    def __init__(
        self,
        store: PostgresStore,
        agents: Sequence[str] = (),
        *,
        code: str = "",
        limit: int = 16,
        name: str | None = None,
        grace: float = DEFAULT_GRACE,
        clock: Clock = SYSTEM_CLOCK,
        sweep_every: float = SWEEP_SECONDS,
    ) -> None:
        self._store = store
        self._agents = list(agents)
        self._limit = limit
        self._grace = grace
        self._clock = clock
        self._sweep_every = sweep_every
        self._places = asyncio.Semaphore(limit)
        self._drives: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._called: set[str] = set()
        """The runs for which a call waits for a place."""
        self._is_serving = False
        self._has_schema = False
        self._outage = Outage(logger, "queue_away", "queue_back")
        self.registration = Registration(store, name or default_name(), code, agents, limit)
        self.is_ready = asyncio.Event()
        """Set while this engine is listed among the workers and hears rings."""

    async def enqueue(self, run_id: str) -> None:
        """Ring. The transaction that gave the run its news has done so already: this is for those who lost it."""
        if run_id:
            await self._have_schema()
            await self._store.query(fleet_sql()["ring"], {"run_id": run_id})

    async def health(self) -> EngineHealth:
        return EngineHealth(is_serving=self._is_serving, driving=len(self._drives), limit=self._limit)

    async def serve(self, drive: Drive) -> None:
        """Until cancelled. Then nothing new is begun, and what is driven gets its time to end or is handed back."""
        self._is_serving = True
        self.registration.is_stopping = False
        aside = [asyncio.create_task(self._keep_sweeping()), asyncio.create_task(self._keep_beating())]
        try:
            await self._keep_listening(drive)
        finally:
            self._is_serving = False
            self.is_ready.clear()
            self.leave()
            try:
                await self._end_drives()
            finally:
                for task in aside:
                    task.cancel()
                await asyncio.wait(aside)
                with suppress(StoreError):
                    await self.registration.end()

    def leave(self) -> None:
        """We are about to end: whatever a drive leaves from now on, others can begin with at once."""
        self.registration.is_stopping = True

    # -- hearing ------------------------------------------------------------------------------------------------------

    async def _keep_listening(self, drive: Drive) -> None:
        """The library's worker ends when its connections break: begin another, for as long as we serve."""
        pause = FIRST_PAUSE
        cancellations = Cancellations()
        while True:
            began = self._clock.monotonic()
            try:
                await self._listen(drive)
            except Exception as error:  # noqa: BLE001  # whatever ended it, the runs are worth another try
                cancellations.raise_new()
                self._outage.note(error)
            finally:
                self.is_ready.clear()
            pause = FIRST_PAUSE if self._clock.monotonic() - began > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _listen(self, drive: Drive) -> None:
        await self._have_schema()
        if self.registration.id is None:
            await self.registration.begin()
        rows = await self._store.query(fleet_sql()["queues"], {"agents": self._agents})
        queues = [*(queue for (queue,) in rows), f"placet:@{self.registration.id}"]
        app = self._app(drive)
        async with self._pool() as pool, app.open_async(pool):
            self.is_ready.set()
            self._outage.end()
            async with self._hearing(drive):
                await app.run_worker_async(
                    queues=queues,
                    name=str(self.registration.id),
                    concurrency=self._limit,
                    fetch_job_polling_interval=POLL_SECONDS if self._store.listens else POLL_WITHOUT_LISTENING_SECONDS,
                    listen_notify=self._store.listens,
                    shutdown_graceful_timeout=0.0,  # the drives are ours: they outlive the library's worker
                    delete_jobs="always",
                    install_signal_handlers=False,
                )

    @asynccontextmanager
    async def _hearing(self, drive: Drive) -> AsyncIterator[None]:
        """Be called by name meanwhile, where one can listen."""
        if not self._store.listens:
            yield
            return
        outage = Outage(logger, "calls_away", "calls_back")
        hearing = asyncio.create_task(
            keep_hearing(self._store.url, self.registration, lambda run_id: self._follow(drive, run_id), outage)
        )
        try:
            yield
        finally:
            hearing.cancel()
            await asyncio.wait([hearing])

    def _follow(self, drive: Drive, run_id: str) -> None:
        """Follow a call, in a task of its own; one that waits for the same run already sees what this one is for."""
        if run_id in self._called:
            return
        self._called.add(run_id)
        task = asyncio.create_task(self._answer(drive, run_id))
        task.add_done_callback(lambda _: self._called.discard(run_id))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(_read_error)

    async def _answer(self, drive: Drive, run_id: str) -> None:
        """Drive the run that we are called for. The row with our number of drives is some seconds old: without a place
        that is free soon, others get it. A job for each such call would cost the database more than the run's turn."""
        try:
            async with asyncio.timeout(PATIENCE_WITH_CALLS):
                await self._places.acquire()
        except TimeoutError:
            return await self.enqueue(run_id)
        self._called.discard(run_id)
        try:
            return await self._advance_here(drive, run_id, ())
        finally:
            self._places.release()

    async def _have_schema(self) -> None:
        if not self._has_schema:
            await migrate(self._store)
            self._has_schema = True

    def _app(self, drive: Drive) -> App:
        from procrastinate import App, PsycopgConnector

        app = App(connector=PsycopgConnector())

        @app.task(name=TASK)
        async def advance(run: str, tried: Sequence[str] = ()) -> None:
            job = asyncio.current_task()
            assert job is not None, "a coroutine runs in a task"
            job.add_done_callback(_read_error)
            await self._advance(drive, run, tried)

        return app

    def _pool(self) -> AsyncConnectionPool[Any]:
        """The library's connections. It asks one statement at a time, so each can be a transaction of its own; and a
        connection need not be asked whether it lives: when one breaks, we begin again."""
        from psycopg_pool import AsyncConnectionPool

        async def configure(db: AsyncConnection[Any]) -> None:
            await db.set_autocommit(True)

        options = connection_options(self._store.url)
        if not self._store.listens:
            options["prepare_threshold"] = None
        return AsyncConnectionPool(
            self._store.url, min_size=1, max_size=4, timeout=10.0, open=False, kwargs=options, configure=configure
        )

    # -- driving ------------------------------------------------------------------------------------------------------

    async def _advance(self, drive: Drive, run_id: str, tried: Sequence[str]) -> None:
        """Drive, in a task of our own: the library's worker may end meanwhile, and begin again."""
        async with self._places:
            await self._advance_here(drive, run_id, tried)

    async def _advance_here(self, drive: Drive, run_id: str, tried: Sequence[str]) -> None:
        """The same, in a place that we have."""
        if self.registration.is_stopping:  # it waited for its place while we were told to end
            return await self._hand_back(run_id)
        task = asyncio.create_task(self._drive(drive, run_id, tried))
        self._drives.add(task)
        self.registration.driving = len(self._drives)
        task.add_done_callback(self._forget)
        await asyncio.shield(task)
        return None

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._drives.discard(task)
        self.registration.driving = len(self._drives)
        self.registration.driven += 1
        if not task.cancelled() and task.exception() is not None:
            logger.warning("drive failed", extra={"action": "drive_failed", "error": repr(task.exception())})

    async def _drive(self, drive: Drive, run_id: str, tried: Sequence[str]) -> None:
        try:
            if not await drive(run_id) and not self.registration.is_stopping:
                await self._pass_on(run_id, tried)
        finally:
            if self.registration.is_stopping:
                await asyncio.shield(self._hand_back(run_id))

    async def _pass_on(self, run_id: str, tried: Sequence[str]) -> None:
        """Nothing came of it. If the run still waits for a driver, then its code is not here: let others try."""
        given = {
            "run_id": run_id,
            "now": self._clock.now(),
            "tried": [*tried, self.registration.code],
            "pause": LEFT_ALONE_SECONDS,
        }
        ((outcome,),) = await self._store.query(fleet_sql()["pass_on"], given)
        if outcome != "driven":
            logger.info("run passed on", extra={"action": "run_passed_on", "run_id": run_id, "outcome": outcome})

    async def _hand_back(self, run_id: str) -> None:
        """We end: what is left of this run can begin elsewhere at once."""
        with suppress(StoreError):
            await self._store.query(fleet_sql()["hand_back"], {"run_id": run_id})

    async def _end_drives(self) -> None:
        with suppress(StoreError):
            await self.registration.beat()  # nobody is to ring for us any more
        if self._drives:
            await asyncio.wait(list(self._drives), timeout=self._grace)
        for task in [*self._drives, *self._calls]:
            task.cancel()
        if self._drives or self._calls:
            await asyncio.wait([*self._drives, *self._calls])

    # -- beside it ----------------------------------------------------------------------------------------------------

    async def _keep_sweeping(self) -> None:
        outage = Outage(logger, "sweep_failed", "sweep_resumed")
        while True:
            try:
                await self.sweep()
                outage.end()
            except Exception as error:  # noqa: BLE001  # a database that is away comes back
                outage.note(error)
            await asyncio.sleep(self._sweep_every)

    async def sweep(self) -> int:
        """Ring for runs that have something to do and that no process drives; how many. Once a second in all the
        fleet."""
        await self.is_ready.wait()
        given = {"now": self._clock.now(), "every": 0.9 * self._sweep_every, "limit": SWEEP_LIMIT}
        ((found,),) = await self._store.query(fleet_sql()["sweep"], given)
        return found or 0

    async def _keep_beating(self) -> None:
        outage = Outage(logger, "beat_failed", "beat_resumed")
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            try:
                await self.registration.beat()
                outage.end()
            except Exception as error:  # noqa: BLE001  # as above
                outage.note(error)


def _read_error(job: asyncio.Task[Any]) -> None:  # Any: the library's
    """The library's task of a job ends with an error when the database goes away before the job is acknowledged, and
    the library does not look; a call's may, too. Nothing is lost: both only say «look at this run», and the run's row
    says so too."""
    if not job.cancelled() and job.exception() is not None:
        logger.info("job not acknowledged", extra={"action": "job_lost", "error": repr(job.exception())})
