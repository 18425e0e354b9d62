"""The desk for programs: start runs, see what waits, decide, in any process that reaches the store.

Lists come from the store's index. One request, and what is decided about it, comes from the run's log: a decision is
appended there, at the position that was looked at, so that of two contradicting ones exactly one wins and the other
learns who did.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.casting import as_vote
from placet.core.deciding import facts_to_append, facts_to_revoke, not_pending
from placet.core.delivery import choose_own_history
from placet.core.fold import fold
from placet.core.four_eyes import why_decisions_do_not_count
from placet.core.holds import blocking_holds, holds_text
from placet.core.index import (
    RequestChange,
    RequestRecord,
    RequestStatus,
    RunRecord,
    RunStatus,
    request_changes,
)
from placet.core.log import Log, read_line
from placet.core.short_ids import find_id
from placet.core.state import RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.decisions import DecisionInput, Grant, facts_of_decision, plain_answer, plain_object
from placet.declare.run_config import DEFAULT_MAX_TURNS, RunConfig
from placet.declare.tool_values import InvalidArguments
from placet.desk.listing import listed
from placet.desk.operating import OperatorsDesk, refuse_if_over
from placet.desk.views import DeskRequest, DeskRun, RunEvent
from placet.desk.voting import ballot_on, facts_of_vote, newest_of
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
    AccessDenied,
    PlacetError,
    PositionConflict,
    RunFinished,
    StaleApproval,
    StoreError,
    UserError,
)
from placet.facts.events import (
    AnyFact,
    CancelAsked,
    GrantMade,
    InChild,
    ResumeAsked,
    RunStarted,
    Verdict,
)
from placet.facts.ids import can_be_run_id, path_of, split_request_id
from placet.facts.ids import request_id as next_request_id
from placet.facts.requirements import Assurance
from placet.fleet.priority import prioritise
from placet.ports import DeskStore, Engine, EngineHealth, Page, RequestQuery, RunQuery
from placet.runtime.frame import awaited
from placet.runtime.journal import load_recent
from placet.runtime.toolsets import servers_in_use
from placet.service.driving import ContextFactory, Contexts, RunDriver, SessionFactory
from placet.service.embedded import EmbeddedEngine
from placet.service.guest_calls import GuestCalls
from placet.service.guest_limits import GuestLimits
from placet.service.guest_sweep import sweep_guests
from placet.service.guest_tools import refuse_what_no_host_carries
from placet.service.questions import FoundRequest, find_request, true_request
from placet.states.run_state import as_input, new_log
from placet.stores.opening import open_store

__all__ = ["Desk", "DeskRequest", "DeskRun", "RunEvent"]

DEFAULT_GRACE = 10.0
MAX_TRIES = 100
"""How often an append from outside is tried again because another process appended first."""


_RUN_ID = Kind(
    "a text that begins with 'run_' and does not end like the id of a call, with '_t1c0' or the like",
    lambda value: isinstance(value, str) and can_be_run_id(value),
)


class Desk(OperatorsDesk):
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
    ) -> None:
        """`grace`: how many seconds calls that have begun get to end when the desk is left; no others begin then. What
        is broken off is in doubt."""
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
        self._config = config if clock is SYSTEM_CLOCK else dataclasses.replace(config, clock=clock)
        self._driver = RunDriver(self.store, agents, self._contexts, self._config, session_factory)
        self._engine: Engine = engine or EmbeddedEngine(self.store, clock, limit=max_concurrent, grace=grace)
        self._runs = run
        self._serving: asyncio.Task[None] | None = None
        self._servers = contextlib.AsyncExitStack()
        self.guests = GuestCalls(self.store, clock, guest_limits)
        """Calls that another person executes."""
        self._sweeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._runs:
            for agent in self._driver.agents.values():  # their servers stay connected from one run to the next
                await self._servers.enter_async_context(servers_in_use(AgentGraph(agent)))
            self._driver.stay()
            self._serving = asyncio.create_task(self._engine.serve(self._driver.drive))
            self._sweeping = asyncio.create_task(sweep_guests(self.store, self.guests, self._clock))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._serving is not None:
            self._driver.leave()
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
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

    # -- deciding ---------------------------------------------------------------------------------------------------

    async def pending(
        self,
        *,
        run_id: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        limit: int | None = None,
    ) -> list[DeskRequest]:
        """All that waits for a person, oldest first, or at most `limit`; `requests` says where the next ones begin."""
        return (await self.requests(run_id=run_id, agent=agent, tool=tool, limit=limit)).rows

    async def requests(
        self,
        *,
        status: RequestStatus | None = "pending",
        run_id: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Page[DeskRequest]:
        """Questions: all of them, or at most `limit`, and then `cursor` leads to the next ones."""
        query = RequestQuery(
            status=status, run_id=run_id, agent=agent, tool=tool, cursor=cursor, newest_first=newest_first
        )
        return await listed(self.store.requests, query, limit)

    async def request(self, request_id: str) -> DeskRequest:
        return await true_request(self.store, request_id)

    async def find(self, request_id: str) -> FoundRequest:
        """A request, and the place in its run's log where it was looked at: `decide` takes it in place of the id."""
        return await find_request(self.store, request_id)

    async def find_request(self, typed: str) -> DeskRequest:
        """The request that somebody means: by its id, or by a beginning or end of it that no other waiting one has.

        For looking only: decide with the `id` of what you were shown."""
        if split_request_id(typed) is None:
            typed = find_id(typed, [row.id for row in await self.pending()])
        return await self.request(typed)

    async def find_run(self, typed: str) -> DeskRun:
        """The run that somebody means: by its id, or by a beginning or end of it that no other has."""
        if "\x00" in typed or await self.store.run(typed) is None:
            typed = find_id(typed, [row.id for row in (await self.runs()).rows], "run")
        return await self.get(typed)

    async def decide(
        self,
        request_id: str | FoundRequest,
        verdict: Verdict,
        *,
        by: str | None = None,
        reason: str | None = None,
        message: str | None = None,
        arguments: Mapping[str, object] | None = None,
        output: object = msgspec.UNSET,
        always: bool | Grant = False,
        digest: str | None = None,
        via: str | None = None,
        assurance: Assurance = "none",
    ) -> DeskRequest:
        """Approve, reject, edit or respond. An equal repeated decision is fine; a contradicting one is StaleApproval.

        Where several people have to approve, it is a vote: the request waits on until the votes decide. An edit that
        does not decide gives the new request in the place of this one. `assurance` says how sure it is that it was this
        person: a name alone is no member of a group.

        With `digest`, only what had that digest when it was shown is decided about. With what `find` gave in place of
        an id, the decision is made where the request was looked at, and nothing is read a second time.
        """
        found = request_id if isinstance(request_id, FoundRequest) else await self.find(request_id)
        row = found.request
        if digest is not None and digest != row.digest:
            raise StaleApproval(f"Request {row.id} is about something else than what was shown: look again.")
        given = await self._decision_input(row, verdict, by, reason, message, arguments, output, always)
        given = msgspec.structs.replace(given, via=via, assurance=assurance)
        grants_before = await self.store.standing_grants(row.agent) if always else ()
        patterns = await self.store.four_eyes() if verdict != "reject" else ()

        async def facts_at(_log: Log, run: RunFold) -> list[AnyFact]:
            refuse_what_no_host_carries(run, row.id, row.kind, verdict)
            facts = await self._facts(row, run, given, grants_before)
            if (why := why_decisions_do_not_count(patterns, run, facts)) is not None:
                raise AccessDenied(f"Nothing was decided: {why}")
            return facts

        changes = await self._append(row.run_id, facts_at, found.place)
        if changes is not None:
            return newest_of(row, changes)
        return await self.store.request(row.id) or row

    async def _decision_input(
        self,
        row: RequestRecord,
        verdict: Verdict,
        by: str | None,
        reason: str | None,
        message: str | None,
        arguments: Mapping[str, object] | None,
        output: object,
        always: bool | Grant,
    ) -> DecisionInput:
        if verdict not in ("approve", "reject", "edit", "respond"):
            raise UserError(f"A decision is approve, reject, edit or respond, not {verdict!r}.")
        if verdict == "respond" and output is msgspec.UNSET:
            raise UserError("To respond is to give the model an output: output=….")
        if verdict == "edit" and row.kind == "in_doubt":
            raise UserError(
                f"Request {row.id} is about a call that may have happened: run it again as it was (approve), say what "
                "came of it (respond), or give it up (reject)."
            )
        if (verdict == "edit") != (arguments is not None):
            raise UserError("An edit needs arguments=…, and nothing else takes them.")
        edited = None if arguments is None else await self._checked_edit(row, arguments)
        answer = plain_answer(output) if verdict == "respond" else None
        return DecisionInput(
            verdict=verdict,
            always=always,
            by=by,
            reason=reason,
            message=message,
            arguments=edited,
            output=answer,
        )

    async def _checked_edit(self, row: RequestRecord, arguments: Mapping[str, object]) -> JsonObject:
        """What would run: the edit, completed by validation where the tool's code is here."""
        edited = plain_object(arguments, f"The edited arguments of '{row.tool}'")
        tool = await self.tool_of(row)
        if tool is None:
            return edited
        try:
            return tool.validated(edited).values
        except InvalidArguments as error:
            raise UserError(f"The edited arguments do not fit tool '{row.tool}':\n{error}") from error

    async def _facts(
        self, row: RequestRecord, run: RunFold, given: DecisionInput, grants_before: Sequence[GrantMade]
    ) -> list[AnyFact]:
        """The facts of the decision at this place of the log."""
        entry = run.ledger.entry(row.call)
        if entry is None:
            raise not_pending(f"Request {row.id}", run.ledger.open_entries())
        seen = msgspec.structs.replace(entry, request=row.number, digest=row.digest)
        decision, grants = facts_of_decision(seen, given, self._now(), [*grants_before, *run.ledger.grants()])
        ballot = ballot_on(entry, row.number)
        if ballot is not None:
            refuse_if_over(grants, self._now())
            vote = as_vote(decision, ballot, grants, via=given.via, assurance=given.assurance)
            return await facts_of_vote(self.store, run, vote, self.tool_at(entry.agent, entry.name))
        new = facts_to_append(run, [decision])
        path = path_of(row.call)
        wrapped: list[AnyFact] = [InChild(path, grant) if path else grant for grant in grants]
        if new:
            refuse_if_over(grants, self._now())
        return [*wrapped, *new] if new else []

    async def revoke(self, request_id: str, *, by: str | None = None, reason: str | None = None) -> DeskRequest:
        """Take an approval back, until its call begins: the call is asked about again, and no grant decides it. Where
        votes decide, those who voted take their own vote back; those of others stand.

        Returns the new question, or the same one where it was not decided yet. Once the call has begun it is
        StaleApproval: what has happened has happened.
        """
        row = await true_request(self.store, request_id)
        asked = next_request_id(row.run_id, row.call, row.number + 1)

        def take_back(_log: Log, run: RunFold) -> list[AnyFact]:
            return facts_to_revoke(run, row.call, row.number, by, self._now(), reason)

        await self._append(row.run_id, take_back)
        return await self.request(asked if row.status != "pending" else row.id)

    async def decide_many(self, decisions: Sequence[Mapping[str, Any]]) -> list[DeskRequest | Exception]:
        """Several decisions, each with its own outcome: the request as it stands then, or the error."""

        async def one(decision: Mapping[str, Any]) -> DeskRequest | Exception:
            try:
                given = dict(decision)
                if "request_id" not in given or "verdict" not in given:
                    raise UserError("Each decision has a request_id and a verdict.")
                return await self.decide(given.pop("request_id"), given.pop("verdict"), **given)
            except PlacetError as error:
                return error
            except (TypeError, ValueError) as error:
                return UserError(f"This is not a decision: {error}.")

        return list(await asyncio.gather(*(one(each) for each in decisions)))

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

    async def _append(
        self,
        run_id: str,
        facts_at: Callable[[Log, RunFold], list[AnyFact] | Awaitable[list[AnyFact]]],
        place: tuple[Log, RunFold] | None = None,
    ) -> list[RequestChange] | None:
        """Append from outside: look, decide what to say there, and say it only if nobody else spoke in between.

        `place`: a log that was loaded already, and its fold. What happened to the run's requests there; None where
        others had appended since, so that more may have become of them.
        """
        is_first = place is not None
        for _ in range(MAX_TRIES):
            log, run = place or await self._place(run_id)
            facts = await awaited(facts_at(log, run))
            if not facts:
                return [] if is_first else None
            fold(facts, into=run)
            if run.guest is not None:  # no process drives it: what follows is written with what it follows from
                facts = [*facts, *await self.guests.follow_up(run_id, run, read_line(log.lines[-1]).at)]
            line = log.next_line(self._now(), facts)
            try:
                await self.store.append(None, log, [line], run)
            except PositionConflict:
                place, is_first = None, False
                continue
            await self._engine.enqueue(run_id)
            return request_changes(run_id, [line], run) if is_first else None
        raise StoreError(f"Run {run_id} changes so often that nothing could be appended to it: try again.")

    async def _place(self, run_id: str) -> tuple[Log, RunFold]:
        found = await load_recent(self.store, run_id)
        if found is None:
            raise UserError(f"There is no run {run_id} in this store.")
        return found[1], found[2]
