"""The desk for programs: start runs, see what waits, decide, in any process that reaches the store."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.delivery import choose_own_history
from placet.core.fold import fold
from placet.core.holds import blocking_holds, holds_text
from placet.core.index import (
    RunRecord,
    RunStatus,
)
from placet.core.log import Log, read_line
from placet.core.short_ids import find_id
from placet.core.state import RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.run_config import DEFAULT_MAX_TURNS, RunConfig
from placet.desk.asked_changes import sweep_changes
from placet.desk.listing import listed
from placet.desk.reviewing import ReviewersDesk
from placet.desk.views import DeskRequest, DeskRun, RunEvent
from placet.facts.checks import (
    COUNT,
    FLAG,
    FUNCTION,
    NAME,
    NOT_NEGATIVE,
    TEXT,
    Kind,
    check,
    instance_of,
    optional,
    sequence_of,
)
from placet.facts.codec import JsonObject
from placet.facts.errors import (
    PositionConflict,
    RunFinished,
    StoreError,
    UserError,
)
from placet.facts.events import (
    AnyFact,
    CancelAsked,
    InChild,
    ResumeAsked,
    RunStarted,
)
from placet.facts.ids import can_be_run_id
from placet.fleet.priority import prioritise
from placet.ports import DeskStore, Engine, EngineHealth, Page, RunQuery
from placet.runtime.frame import servers_in_use
from placet.runtime.journal import load_recent
from placet.service.driving import ContextFactory, Contexts, RunDriver, SessionFactory
from placet.service.embedded import EmbeddedEngine
from placet.service.guest_calls import GuestCalls
from placet.service.guest_limits import GuestLimits
from placet.service.guest_sweep import sweep_guests
from placet.service.outbox import Outbox
from placet.service.policies import PolicyGiven, opened
from placet.service.policy_keeping import PolicyKeeper
from placet.states.run_state import as_input, new_log
from placet.stores.opening import open_store

__all__ = ["Desk", "DeskRequest", "DeskRun", "RunEvent"]

DEFAULT_GRACE = 10.0
_RUN_ID = Kind(
    "a text that begins with 'run_' and does not end like the id of a call, with '_t1c0' or the like",
    lambda value: isinstance(value, str) and can_be_run_id(value),
)


class Desk(ReviewersDesk):
    """`async with Desk("sqlite:///placet.db", agents=[support]) as desk: …`; with `run=False` it only looks and
    decides."""

    def __init__(
        self,
        store: str | DeskStore,
        agents: Sequence[Agent[Any]] = (),
        *,
        run: bool = True,
        max_concurrent: int = 16,
        run_config: RunConfig | None = None,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        context_deserializer: Callable[[JsonObject], Any] | None = None,
        context_factory: ContextFactory | None = None,
        session_factory: SessionFactory | None = None,
        engine: Engine | None = None,
        grace: float = DEFAULT_GRACE,
        clock: Clock = SYSTEM_CLOCK,
        guest_limits: GuestLimits | None = None,
        policy: PolicyGiven | None = None,
    ) -> None:
        """`grace`: how many seconds calls that have begun get to end when the desk is left; no others begin then. What
        is broken off is in doubt. `policy`: rules about every call, of the runs that are driven here and of guests: the
        path of a file, which is followed when it changes, or what placet.policy makes."""
        if not isinstance(store, str) and not hasattr(store, "wait_for_news"):
            raise UserError(f"A desk is over a store that is shared, or its URL, not over a {type(store).__name__}.")
        check(
            "Desk: ",
            agents=(agents, sequence_of(Agent, "a list of agents")),
            run=(run, FLAG),
            grace=(grace, NOT_NEGATIVE),
            max_concurrent=(max_concurrent, COUNT),
            run_config=(run_config, optional(instance_of(RunConfig))),
            context_factory=(context_factory, optional(FUNCTION)),
            session_factory=(session_factory, optional(FUNCTION)),
        )
        self.store: DeskStore = open_store(store, clock=clock) if isinstance(store, str) else store
        self._owns_store = isinstance(store, str)
        self._clock = clock
        self._contexts = Contexts(
            serializer=context_serializer, deserializer=context_deserializer, factory=context_factory
        )
        config = run_config or RunConfig()
        if policy is not None:
            config = dataclasses.replace(config, policy=opened(policy, agents))
        self.policy = config.policy
        """Where the rules in force are found; None: there are none."""
        self._config = config if clock is SYSTEM_CLOCK else dataclasses.replace(config, clock=clock)
        self._driver = RunDriver(self.store, agents, self._contexts, self._config, session_factory)
        self._engine: Engine = engine or EmbeddedEngine(self.store, clock, limit=max_concurrent, grace=grace)
        self._runs = run
        self._serving: asyncio.Task[None] | None = None
        self._servers = contextlib.AsyncExitStack()
        self.guests = GuestCalls(self.store, clock, guest_limits, self.policy, self._config.receipts)
        """Calls that another person executes."""
        self.receipts = self._config.receipts
        """Signs receipts of approved calls, if the desk has a key."""
        self.outbox = Outbox(self.store, clock)
        """Tells webhooks what happens."""
        self._keeper = None if self.policy is None else PolicyKeeper(self.store, self.policy, clock)
        self._beside: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        if self._keeper is not None:
            await self._keeper.begin()
        if self._runs:
            for agent in self._driver.agents.values():  # their servers stay connected from one run to the next
                await self._servers.enter_async_context(servers_in_use(AgentGraph(agent)))
            self._driver.stay()
            self._serving = asyncio.create_task(self._engine.serve(self._driver.drive))
            self._beside.append(asyncio.create_task(sweep_guests(self.store, self.guests, self._clock)))
            self._beside.append(asyncio.create_task(sweep_changes(self.store, self.guests, self._clock)))
            self._beside.append(asyncio.create_task(self.outbox.serve()))
        if self._keeper is not None:
            self._beside.append(asyncio.create_task(self._keeper.serve()))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._serving is not None:
            self._driver.leave()
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self._keeper is not None:
            with contextlib.suppress(StoreError):
                await self._keeper.close()
        await self.guests.close()
        await self._servers.aclose()
        if self._owns_store:
            await self.store.close()

    # -- runs -------------------------------------------------------------------------------------------------------

    async def start(
        self,
        agent: str,
        input: str | Sequence[object],
        *,
        by: str | None = None,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        priority: int = 0,
        run_id: str | None = None,
    ) -> DeskRun:
        """Begin a run. It is durable when this returns; the process that serves the store drives it.

        `priority` is for the workers of a fleet: what is worth more is driven first. With a `run_id` of one's own
        (`run_…`), the run is begun once, however often it is asked for.
        """
        check(
            "",
            agent=(agent, NAME),
            by=(by, optional(TEXT)),
            max_turns=(max_turns, optional(COUNT)),
            run_id=(run_id, optional(_RUN_ID)),
        )
        found = self._driver.agents.get(agent) or self._driver.agents.get(Agent(name=agent).address)
        if found is None:
            names = ", ".join(self._driver.agents) or "none. Give it agents=[…] («placet serve MODULE:NAME»)"
            raise UserError(f"This desk has no agent '{agent}'. It has: {names}.")
        log = new_log() if run_id is None else Log(run_id, os.urandom(16))
        started = RunStarted(
            found.address, as_input(input), max_turns, context=self._contexts.dump_first(context), by=by
        )
        if priority:
            await prioritise(self.store, log.run_id, priority)
        try:
            await self.store.append(None, log, [log.next_line(self._now(), [started])], fold([started]))
        except PositionConflict:
            if run_id is None:
                raise
            await self._refuse_if_another(run_id, started)
        await self._engine.enqueue(log.run_id)
        return await self._row(log.run_id)

    async def _refuse_if_another(self, run_id: str, asked: RunStarted) -> None:
        """An id of one's own names one run: asking for something else under it must not pass for done."""
        stored = await self.store.load(run_id)
        first = read_line(stored.log.lines[0]).facts[0] if stored is not None and stored.log is not None else None
        if isinstance(first, RunStarted) and (first.agent, first.input) != (asked.agent, asked.input):
            raise UserError(f"There is a run {run_id} already, with another agent or input: choose another id.")

    async def get(self, run_id: str) -> DeskRun:
        row = await self._row(run_id)
        return msgspec.structs.replace(row, held=await self._held(row))

    async def _held(self, row: RunRecord) -> str | None:
        """Why nothing in a run goes on although it could, if operators hold it back."""
        holds = await self.store.holds() if row.status != "ended" and not row.stopped else ()
        found = await load_recent(self.store, row.id) if holds else None
        return None if found is None else holds_text(blocking_holds(found[2], row.id, holds, is_driven=row.is_driven))

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[DeskRun]:
        """Runs, newest first: all of them, or at most `limit`, and then `cursor` leads to the next ones."""
        return await listed(self.store.runs, RunQuery(status=status, agent=agent, cursor=cursor), limit)

    async def find_run(self, typed: str) -> DeskRun:
        """The run that somebody means: by its id, or by a beginning or end of it that no other has."""
        if "\x00" in typed or await self.store.run(typed) is None:
            typed = find_id(typed, [row.id for row in (await self.runs()).rows], "run")
        return await self.get(typed)

    async def drive(self, run_id: str) -> bool:
        """Drive this run, and no other, here and now, as far as it goes. False: another process drives it, it has
        ended, or its agent's code is not here."""
        return await self._driver.drive(run_id)

    async def wait(
        self,
        run_id: str,
        until: Literal["paused", "ended"] = "ended",
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> DeskRun:
        """Wait until the run has ended, or (`paused`) until nothing in it can go on without people: reviewers, or the
        operator who holds it back; TimeoutError otherwise."""
        if until not in ("paused", "ended"):
            raise UserError(f"One waits until a run is 'paused' or 'ended', not {until!r}.")
        async with asyncio.timeout(timeout):
            while True:
                latest = await self._latest()
                row = await self._row(run_id)
                rests = row.status == "waiting" and not row.is_driven and not row.has_news
                if row.status == "ended" or (until == "paused" and (rests or (row.stopped and not row.is_driven))):
                    return row
                if until == "paused" and not row.is_driven and (held := await self._held(row)) is not None:
                    return msgspec.structs.replace(row, held=held)
                await self.store.wait_for_news(latest, 0.25)

    async def resume(self, run_id: str, *, by: str | None = None, own_history: bool = False) -> None:
        """Have a run that an error stopped, or that was parked, continued.

        `own_history`: what the model's server kept of the run is not used any more, and the run sends its own history.
        """
        check("", own_history=(own_history, FLAG))
        await self._row(run_id)
        if own_history:
            await self._choose_own_history(run_id, by)
        await self.store.park(run_id, parked=False)

        def ask(_log: Log, run: RunFold) -> list[AnyFact]:
            return [] if run.has_ended else [ResumeAsked(by, self._now())]

        await self._append(run_id, ask)

    async def _choose_own_history(self, run_id: str, by: str | None) -> None:
        """Before the run is let go: its driver from then on must not send what names the server's."""

        def choose(_log: Log, run: RunFold) -> list[AnyFact]:
            chosen = choose_own_history(run, by, self._now())
            if chosen and run.stopped is None:
                raise UserError(f"Run {run_id} was not stopped by an error: who keeps its history cannot change now.")
            return [*chosen]

        await self._append(run_id, choose)

    async def cancel(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """End a run: each open call gets an output, then the run ends. What has happened has happened.

        It ends here and now, also without the code of its agents, unless a process drives it at this moment: then it
        ends when the calls that run have ended. Asked again, it is tried again.
        """

        def ask(_log: Log, run: RunFold) -> list[AnyFact]:
            if run.has_ended:
                raise RunFinished(f"Run {run_id} has ended: there is nothing left to cancel.")
            return [] if run.cancel_asked is not None else [CancelAsked(by, self._now(), reason)]

        await self._append(run_id, ask)
        if (await self._row(run_id)).is_parked:  # to end it runs nothing that could take another driver down
            await self.store.park(run_id, parked=False)
        await self._driver.drive(run_id)

    # -- what drives the runs -----------------------------------------------------------------------------------------

    @property
    def drives_runs(self) -> bool:
        return self._runs

    async def health(self) -> EngineHealth:
        return await self._engine.health()

    # -- live events --------------------------------------------------------------------------------------------------

    async def events(self, after: int | None = None) -> AsyncIterator[RunEvent]:
        """Everything that happens from now on (or after a sequence number), across runs and processes.

        Never ends by itself.
        """
        seen = await self._latest() if after is None else after
        while True:
            entries = await self.store.feed(seen)
            for entry in entries:
                seen = entry.sequence
                record = read_line(entry.text)
                for fact in record.facts:
                    path = fact.path if isinstance(fact, InChild) else ""
                    yield RunEvent(sequence=entry.sequence, run_id=entry.run_id, at=record.at, path=path, fact=fact)
            if not entries:
                await self.store.wait_for_news(seen, 1.0)

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _latest(self) -> int:
        return await self.store.latest_sequence()

    async def _row(self, run_id: str) -> RunRecord:
        row = await self.store.run(run_id)
        if row is None:
            raise UserError(f"There is no run {run_id} in this store.")
        return row
