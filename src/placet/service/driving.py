"""Driving stored runs: take one, find its agent, make its context, continue with it as far as it goes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from placet.core.fold import fold
from placet.core.log import Log
from placet.core.state import RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.run_config import RunConfig
from placet.facts.codec import JsonObject
from placet.facts.errors import PlacetError, RunConflict, StateRefused, StoreError, UserError
from placet.facts.events import AnyFact, InChild, RunStopped
from placet.ports import DeskStore, Session
from placet.runtime.frame import awaited
from placet.runtime.gating import ends_by_time
from placet.runtime.journal import fold_log, load_recent
from placet.runtime.runner import Order, carry_out
from placet.runtime.session_matching import check_session, names_a_place
from placet.service.doctor import lacks_code
from placet.service.guest_calls import GuestCalls
from placet.states.run_state import RunState
from placet.states.secrets import dotted, split_secrets

logger = logging.getLogger("placet.fleet")

MAX_TAKEOVERS = 10
"""After so many drivers that died with a run one after another, no process drives it until an operator says so."""

ContextFactory: TypeAlias = Callable[[str, JsonObject | None], Any | Awaitable[Any]]
"""Called with the run's id and its stored context whenever the run is driven: for what cannot be stored."""

SessionFactory: TypeAlias = Callable[[str], Session] | Callable[[str, str | None], Session]
"""Opens the session with this id, for runs that were begun with one. A factory of two parameters is also given where
the session is kept, as it said itself (`kept_in`); None for one that did not say."""


def open_session(factory: SessionFactory, name: str, place: str | None) -> Session:
    chosen: Callable[..., Session] = factory
    wanted = [
        each
        for each in inspect.signature(chosen).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
    ]
    return chosen(name) if len(wanted) < 2 else chosen(name, place if names_a_place(place) else None)


class Contexts:
    """How a run's context is stored and made again."""

    def __init__(
        self,
        *,
        serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        deserializer: Callable[[JsonObject], Any] | None = None,
        factory: ContextFactory | None = None,
    ) -> None:
        if (serializer is None) != (deserializer is None):
            raise UserError("A context needs a serializer and a deserializer, or neither.")
        self._serializer = serializer
        self._deserializer = deserializer
        self._factory = factory

    def dump_first(self, context: Any) -> JsonObject | None:
        """What a run is started with: given to a factory too, whenever the run is driven."""
        return None if context is None else self._dumped(context)

    def dump(self, context: Any) -> JsonObject | None:
        """The context as it is stored when a drive ends; None: it is not, because a factory makes it each time."""
        if context is None or (self._factory is not None and self._serializer is None):
            return None
        return self._dumped(context)

    def _dumped(self, context: Any) -> JsonObject | None:
        value = self._serializer(context) if self._serializer is not None else context
        if not isinstance(value, Mapping):
            raise UserError(
                f"A stored run's context is a mapping, not a {type(value).__name__}: pass context_serializer and "
                "context_deserializer, or a context_factory that makes it whenever the run is driven."
            )
        kept, secrets = split_secrets(value)
        if secrets:
            raise UserError(
                f"The context's fields {', '.join(map(dotted, secrets))} are secrets and cannot be stored: "
                "supply them by a context_factory."
            )
        return dict(kept) if isinstance(kept, dict) else None

    async def load(self, run_id: str, stored: JsonObject | None) -> Any:
        stored = copy.deepcopy(stored)  # what tools change in it must not change what is known of the run
        if self._factory is not None:
            return await awaited(self._factory(run_id, stored))
        if stored is not None and self._deserializer is not None:
            return self._deserializer(stored)
        return stored


class RunDriver:
    """Drives runs of these agents on this store."""

    def __init__(
        self,
        store: DeskStore,
        agents: Sequence[Agent[Any]],
        contexts: Contexts,
        config: RunConfig,
        session_factory: SessionFactory | None = None,
        *,
        leaves_missing: bool = False,
        max_takeovers: int = MAX_TAKEOVERS,
    ) -> None:
        """`leaves_missing`: a run that needs a tool that is not here is left to others, who may have it."""
        self.agents = {agent.address: agent for agent in agents}
        if len(self.agents) != len(agents):
            raise UserError("Two agents of this desk have one name: give one of them Agent(key=…).")
        for agent in agents:
            AgentGraph(agent).check()
        self._store = store
        self._contexts = contexts
        self._session_factory = session_factory
        self._config = config
        self._leaves_missing = leaves_missing
        self._max_takeovers = max_takeovers
        self._is_leaving = False
        self._guests = GuestCalls(store, config.clock, receipts=config.receipts)

    def leave(self) -> None:
        """From now on, drives stop before the next request to the model or the next call, and leave the rest."""
        self._is_leaving = True

    def stay(self) -> None:
        self._is_leaving = False

    async def drive(self, run_id: str) -> bool:
        """As far as it goes. False: another process drives the run, its code is not here, or it could not be begun."""
        try:
            return await self._drive(run_id)
        except RunConflict:
            logger.info("run driven by others", extra={"action": "run_taken", "run_id": run_id})
            return False
        except (StateRefused, StoreError) as error:  # newer code may read it; a store that is away comes back
            logger.warning("run left alone", extra={"action": "run_left", "run_id": run_id, "error": str(error)})
            return False
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # one must not stop the others
            # An error of a run is in the run's log, and the run waits for a person to resume it. One without a state
            # came before the run was begun: no log has it, and without a pause the run would be tried forever.
            _log_stopped(run_id, error)
            return getattr(error, "state", None) is not None

    async def _drive(self, run_id: str) -> bool:
        found = await self._load(run_id)
        if found is None:
            return False
        log, run, takeovers = found
        if run.has_ended:
            return False
        if run.guest is not None:  # it is not driven: its guest executes the calls, and only what is due is done
            return await self._guests.tend(run_id)
        if run.cancel_asked is not None:
            return await self._end(log, run)
        agent = self.agents.get(run.starting_agent)
        graph = AgentGraph(agent) if agent is not None else None
        if agent is None or graph is None or not self._has_code(graph, run):
            await self._end_by_time(log, run)
            logger.info(
                "run left to others", extra={"action": "run_left", "run_id": run_id, "error": "code is missing"}
            )
            return False
        if takeovers >= self._max_takeovers:
            await self._park(run_id, takeovers)
            return False
        try:
            context = await self._contexts.load(run_id, run.context)
            session = self._session_of(run)
            check_session(run, session)  # here, where a refusal is written into the log, and people see it
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a user's factory may raise anything: the log has it
            await self._note_stop(log, run, error)
            _log_stopped(run_id, error)
            return True
        state = RunState.of_run(graph, log, run, None, self._config.clock)
        await self._go_on(agent, state, context, session)
        if takeovers:  # it did not take this driver down: only those that die one after another count
            await self._store.park(run_id, parked=False)
        return True

    def _has_code(self, graph: AgentGraph, run: RunFold) -> bool:
        """Whether the run can go on here: with its agents, and, where others may have them, with its tools."""
        if self._leaves_missing:
            return not lacks_code(graph, run)
        return all(graph.has(address) for each in run.family() for address in (each.agent, each.response_agent))

    async def _end(self, log: Log, run: RunFold) -> bool:
        """End a run that a person cancelled. Every process can: it needs none of the run's code, which may be gone
        for good. A session that cannot be opened here does not get the turn that was open."""
        config = dataclasses.replace(self._config, tool_error_formatter=None)  # a formatter may need the run's context
        agent = self.agents.get(run.starting_agent) or Agent(name=run.starting_agent)
        state: RunState[Any] = RunState.of_run(AgentGraph(agent, stand_ins=True), log, run, None, config.clock)
        session: Session | None = None
        with contextlib.suppress(Exception):  # user code, or a place that is not there any more
            opened = self._session_of(run)
            check_session(run, opened)
            session = opened
        load = None if config.observers else self._store.load_recent
        order = Order(
            agent=agent, input=state, config=config, store=self._store, session=session, ends="cancel", load=load
        )
        await carry_out(order, None)
        return True

    async def _end_by_time(self, log: Log, run: RunFold) -> None:
        """Questions whose time is over end also where nobody has the code to ask on."""
        now = round(self._config.clock.now(), 3)
        facts: list[AnyFact] = [InChild(path, fact) if path else fact for path, fact in ends_by_time(run, now)]
        if facts:
            line = log.next_line(now, facts)
            fold(facts, into=run)
            await self._store.append(None, log, [line], run)

    async def _load(self, run_id: str) -> tuple[Log, RunFold, int] | None:
        """The end of the run's log, its fold, and how many drivers died with it; the whole log where there are
        observers, which get all of it."""
        found = await load_recent(self._store, run_id)
        if found is None:
            return None
        stored, log, run = found
        if self._config.observers and log.start:
            whole = await self._store.load(run_id)
            if whole is None or whole.log is None:
                return None
            log, run = whole.log, fold_log(whole.log)
        return log, run, stored.takeovers

    def _session_of(self, run: RunFold) -> Session | None:
        if run.session is None:
            return None
        if self._session_factory is None:
            raise UserError(
                f"The run writes into session '{run.session}': give the desk a session_factory that opens it."
            )
        return open_session(self._session_factory, run.session, run.session_place)

    async def _park(self, run_id: str, takeovers: int) -> None:
        """A run that took too many drivers down waits for an operator: `desk.resume` gives it another chance."""
        await self._store.park(run_id, parked=True)
        logger.error("run parked", extra={"action": "run_parked", "run_id": run_id, "takeovers": takeovers})

    async def _note_stop(self, log: Log, run: RunFold, error: BaseException) -> None:
        """The context could not be made: say so in the run's log, where people look."""
        driver = _Attempt()
        lease = await self._store.lease(log.run_id, driver)
        try:
            code = error.code if isinstance(error, PlacetError) else "context_failed"
            text = str(error) if isinstance(error, PlacetError) else type(error).__name__
            stop = RunStopped(code, f"What the run needs could not be made: {text}")
            line = log.next_line(round(self._config.clock.now(), 3), [stop])
            fold([stop], into=run)
            await self._store.append(lease, log, [line], run)
        finally:
            await self._store.release(lease, len(log) + 1)

    async def _go_on(self, agent: Agent[Any], state: RunState[Any], context: Any, session: Session | None) -> None:
        order = Order(
            agent=agent,
            input=state,
            config=self._config,
            store=self._store,
            context=context,
            session=session,
            save_context=self._contexts.dump,
            should_leave=lambda: self._is_leaving,
            checks_tools=False,
            load=None if self._config.observers else self._store.load_recent,
        )
        await carry_out(order, None)


class _Attempt:
    """Stands for one attempt to drive a run: its lease lives as long as this does."""

    __slots__ = ("__weakref__",)


def _log_stopped(run_id: str, error: BaseException) -> None:
    """With the traceback where the error is none of ours: nobody else shows it."""
    fields = {"action": "run_stopped", "run_id": run_id, "error": type(error).__name__}
    logger.warning("run stopped", extra=fields, exc_info=None if isinstance(error, PlacetError) else error)
