"""The Runner: `run`, `run_sync` and `run_streamed`, all of them callers of one loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from placet.core.approvals import Ledger
from placet.core.calls import as_items
from placet.core.delivery import choose_own_history
from placet.core.log import Log
from placet.core.state import RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.lifecycle import RunHooks
from placet.declare.run_config import DEFAULT_MAX_TURNS, RunConfig
from placet.facts.checks import FLAG, check, having, optional
from placet.facts.codec import JsonObject
from placet.facts.errors import InputGuardrailTripwireTriggered, PlacetError, SessionBusy, UserError
from placet.facts.events import CancelAsked, ContextSaved, RequestLost, RunStarted, TurnLimitSet
from placet.facts.ids import ROOT
from placet.ports import Lease, Session, Store, StoredRun
from placet.runtime.defaults import default_store, observers_of
from placet.runtime.error_handlers import RunErrorHandlers, check_handlers, details_of
from placet.runtime.execute import supersede_calls
from placet.runtime.frame import Frame, servers_in_use
from placet.runtime.guardrails import judge_added_input
from placet.runtime.handoffs import check_handoffs, paired
from placet.runtime.journal import Driver, Journal, LeaseHolder, fold_log
from placet.runtime.loop import drive_safely
from placet.runtime.observers import DriveObservers
from placet.runtime.result import Reader, RunResult, RunResultStreaming, result_of
from placet.runtime.resume import begin, ended_run, new_decisions, resume
from placet.runtime.session_items import compact_session, joined, read_session
from placet.runtime.session_matching import check_session, find_waiting, place_of
from placet.runtime.session_turns import SessionTurn
from placet.runtime.stream import StreamQueue
from placet.states.run_state import (
    RunState,
    as_input,
    check_agent,
    check_declarations,
    check_turns,
    delivery_of,
    new_log,
    pending_item,
)

Input: TypeAlias = str | Sequence[object] | RunState[Any]
"""A text, items in the shape of the Responses API, or a state to go on from."""


class _Unset:
    """No value was given: None would mean something."""


UNSET = _Unset()
_DEFAULT_CONFIG = RunConfig()


class RunOptions(TypedDict, total=False):
    """The keyword arguments of all three ways to run."""

    context: Any
    """An object of yours that tools, rules and hooks are given."""
    max_turns: int | None
    """How often a model may be asked; None: without limit. Given at resumption, it replaces the stored limit."""
    hooks: RunHooks[Any] | None
    run_config: RunConfig | None
    error_handlers: RunErrorHandlers | None
    """What to answer instead of raising: by `max_turns`, `model_refusal`, `invalid_final_output`."""
    session: Session | None
    """A conversation that outlives the run: read at its start, written turn by turn."""
    previous_response_id: str | None
    """The server keeps the history, from this response on."""
    conversation_id: str | None
    """The server keeps the history, in this conversation."""
    auto_previous_response_id: bool
    """The server keeps the history, from this run's first response on."""
    store: Store | None
    """Where the run's log is kept; by default in this process' memory."""
    resend: bool | None
    """Settles a `DeliveryUnknown`: True, the request was not taken and is sent again; False, it was taken."""
    own_history: bool
    """Given at resumption: what the server kept of the run is not used any more, and the run sends its own history."""


_OPTIONS = RunOptions.__annotations__.keys()
_KINDS = {
    "hooks": optional(having("on_agent_start", "an object with the methods of RunHooks")),
    "auto_previous_response_id": FLAG,
    "resend": optional(FLAG),
    "own_history": FLAG,
}
"""What those options take that are not looked at elsewhere."""


class Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a caller of the Runner wants."""

    agent: Agent[Any]
    input: Input
    config: RunConfig
    store: Store
    context: Any = None
    by_hand: Ledger | None = None
    """What was decided before the run, on a wrapper that belongs to no run and was given as the context."""
    max_turns: int | _Unset | None = UNSET
    hooks: RunHooks[Any] | None = None
    conversation_id: str | None = None
    previous_response_id: str | None = None
    auto_previous_response_id: bool = False
    resend: bool | None = None
    own_history: bool = False
    session: Session | None = None
    error_handlers: RunErrorHandlers | None = None
    save_context: Callable[[Any], JsonObject | None] | None = None
    """How the user's context is written down when the drive ends, for the next driver of the run."""
    should_leave: Callable[[], bool] | None = None
    """Asked before each request to the model: True stops the drive there, with the run left for others to go on."""
    load: Callable[[str], Awaitable[StoredRun | None]] | None = None
    """How the store is asked for the run, where only the end of its log is needed."""
    behind_waiting: Literal["supersede", "queue"] | None = None
    """The input is a message for a run that waits: it takes the place of what waits, or stands behind it."""
    checks_tools: bool = True
    """Refuse the run if a call waits whose tool is not declared any more; otherwise the others go on without it."""
    ends: Literal["cancel", "supersede"] | None = None
    """The run is only to be ended. That needs none of its code: no agent, no tool, no server, no context."""


class Runner:
    """Runs agents. All three ways are the same loop; a `RunState` as input goes on where it stands."""

    @classmethod
    async def run(cls, starting_agent: Agent[Any], input: Input, **options: Unpack[RunOptions]) -> RunResult:
        """Run until there is a final output, or until everything that could go on waits for people
        (`result.interruptions`)."""
        return await carry_out(_order(starting_agent, input, options), None)

    @classmethod
    def run_sync(cls, starting_agent: Agent[Any], input: Input, **options: Unpack[RunOptions]) -> RunResult:
        """`run`, for programs without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(cls.run(starting_agent, input, **options))
        raise UserError("run_sync cannot be called where an event loop runs: use `await Runner.run(…)` there.")

    @classmethod
    def run_streamed(
        cls, starting_agent: Agent[Any], input: Input, **options: Unpack[RunOptions]
    ) -> RunResultStreaming:
        """`run`, telling what happens while it happens: iterate over `result.stream_events()`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UserError("run_streamed needs a running event loop: call it inside `async def`.") from None
        order = _order(starting_agent, input, options)
        result = RunResultStreaming(AgentGraph(starting_agent), RunContextWrapper(order.context), order.config.clock)
        reader = Reader(result)
        result.attach(asyncio.ensure_future(_stream(order, reader)), reader)
        return result


def _order(agent: Agent[Any], given: Input, options: RunOptions) -> Order:
    check_agent(agent)
    wanted: dict[str, Any] = {**options}
    config, store, session = _config_of(wanted), wanted.pop("store", None), wanted.get("session")
    if session is not None:
        _check_session(session)
    if store is not None and not hasattr(store, "append"):
        raise _no_store(store)
    if "max_turns" in wanted:
        check_turns(wanted["max_turns"])
    _check_options(given, wanted)
    if not wanted.keys() <= _OPTIONS:
        raise TypeError(f"Runner.run got an unexpected keyword argument '{(wanted.keys() - _OPTIONS).pop()}'")
    store = store if store is not None else default_store()
    wrapper = wanted.get("context")
    if isinstance(wrapper, RunContextWrapper):  # what tools are given is the user's own context, and no wrapper of it
        wanted |= {"context": wrapper.context, "by_hand": None if wrapper._run_ids else wrapper._ledger}
    return Order(agent=agent, input=given, config=config or _DEFAULT_CONFIG, store=store, **wanted)


def _config_of(wanted: dict[str, Any]) -> RunConfig | None:
    config = wanted.pop("run_config", None)
    config = RunConfig(**config) if isinstance(config, dict) and config else config
    if config is not None and not isinstance(config, RunConfig):
        raise UserError(f"run_config is a RunConfig, not a {type(config).__name__}.")
    return config


def _no_store(given: object) -> UserError:
    hint = " Open it with placet.stores.opening.open_store(url)." if isinstance(given, str) else ""
    return UserError(f"store is an object with the methods of placet.Store, not a {type(given).__name__}.{hint}")


def _check_session(session: Any) -> None:
    if not hasattr(session, "get_items"):
        raise UserError(f"session is an object with get_items and add_items, not a {type(session).__name__}.")
    if not isinstance(session.session_id, str):
        raise UserError(f"A session's session_id is a text, not {session.session_id!r}.")


def _check_options(given: Input, options: Mapping[str, Any]) -> None:
    for name, kind in _KINDS.items():
        if name in options:
            check("", **{name: (options[name], kind)})
    if options.get("resend") is not None and not isinstance(given, RunState):
        raise UserError("resend=… settles a request of a run that is resumed: a new run has none. Leave it out.")
    if options.get("own_history") and not isinstance(given, RunState):
        raise UserError("own_history=True is for a run that is resumed: a new run has its own history anyway.")
    if options.get("session") is not None and isinstance(given, RunState) and given._run.delivery != "own":
        raise UserError(ONE_HISTORY)
    if options.get("error_handlers") is not None:
        check_handlers(options["error_handlers"])


ONE_HISTORY = (
    "Session persistence and a history that the server keeps (conversation_id, previous_response_id, …) exclude each "
    "other: a run's history is kept by one of them, not by both."
)


async def _stream(order: Order, reader: Reader) -> None:
    try:
        await carry_out(order, reader)
    finally:
        reader.complete()


async def carry_out(order: Order, streaming: Reader | None) -> RunResult:
    """Take the session, if there is one, and the run, drive it, give them back."""
    if order.session is None:
        return await _carry_out(order, streaming, None)
    is_new = not isinstance(order.input, RunState)
    waits = is_new and order.config.on_pending != "error"
    async with SessionTurn(order.store, order.session, is_new=is_new, waits=waits) as turn:
        waiting = await find_waiting(order.store, order.session) if is_new else None
        if waiting is None:
            return await _carry_out(order, streaming, turn)
        behind = await _behind_waiting(order, waiting)
        if behind.ends is None:
            return await _carry_out(behind, streaming, turn)
        await _carry_out(behind, None, turn)  # nobody could continue with it: the message begins a run of its own
        return await _carry_out(order, streaming, turn)


async def _carry_out(order: Order, streaming: Reader | None, turn: SessionTurn | None) -> RunResult:
    """Whatever ends the drive carries the run's state."""
    state = order.input if isinstance(order.input, RunState) else None
    log = new_log() if state is None else state._log
    driver = Driver()
    lease = await order.store.lease(log.run_id, driver)
    holder = LeaseHolder(order.store, lease)
    try:
        stored = await _stored(order, log, lease) if state is not None else None
        recorded = _recorded(order, state, stored, streaming) if state is not None and stored is not None else None
        if recorded is not None:
            return recorded
        journal = await _journal(order, lease, log, stored, state)
        if turn is not None:
            await turn.follow()
        is_new = state is None or (state._made_by_hand and stored is None)
        return await _go_on(order, journal, state, holder, streaming, is_new=is_new)
    except PlacetError as error:
        if error.state is None:  # it came before anything could be driven: the state is the one that was given
            error.state = state
        raise
    finally:
        try:
            await holder.end()
        finally:  # the lease lives as long as this name does: it must go even where a traceback keeps this frame
            del driver


async def _go_on(
    order: Order,
    journal: Journal,
    state: RunState[Any] | None,
    holder: LeaseHolder,
    streaming: Reader | None,
    *,
    is_new: bool,
) -> RunResult:
    _check_resend(order, journal.run)
    frame = _frame(order, journal, state)
    if streaming is not None:
        _connect(streaming, frame)
    async with servers_in_use(frame.graph) if order.ends is None else nullcontext():
        return await _drive_until_rest(frame, order, holder, streaming, is_new=is_new)


async def _stored(order: Order, log: Log, lease: Lease) -> StoredRun | None:
    """The run as the store has it, held from the line on from which the state holds it."""
    if order.load is None:
        return await order.store.load(log.run_id)
    if lease.stands_at == (len(log), log.head):  # nobody drove it between its reading and its lease
        return StoredRun(len(log), log.head, log.copy())
    recent = await order.load(log.run_id)
    if recent is None or recent.log is None or recent.log.start == log.start:
        return recent
    whole = await order.store.load(log.run_id)  # the fold was cached again in between
    if whole is None or whole.log is None:
        return whole
    return StoredRun(whole.length, whole.head, whole.log.cut_like(log))


async def _drive_until_rest(
    frame: Frame, order: Order, holder: LeaseHolder, streaming: Reader | None, *, is_new: bool
) -> RunResult:
    _begin_watching(frame)
    error: BaseException | None = None
    try:
        await _drive(frame, order, is_new=is_new)
        if order.session is not None:
            await compact_session(frame, order.session)
        if order.save_context is not None:
            await _save_context(frame, order)
        # What an operator holds back, or a worker that ends leaves, is not done: it is given back as having work.
        while not (frame.set_aside or frame.was_left or await holder.end_at(len(frame.journal.log))):
            # a decision was made at the last moment
            await frame.journal.refresh()
            frame.look_again()
            await drive_safely(frame)
            await _save_context(frame, order)
        return result_of(frame)
    except BaseException as raised:
        error = raised
        _attach_state(raised, frame, order.input if isinstance(order.input, RunState) else None)
        raise
    finally:
        _end_watching(frame, error)
        if streaming is not None:
            streaming.adopt(result_of(frame))


async def _save_context(frame: Frame, order: Order) -> None:
    value = order.save_context(frame.context.context) if order.save_context is not None else None
    if value is not None and value != frame.run.context and not frame.run.has_ended:
        frame.note(ContextSaved(value))
        await frame.journal.commit()


async def _journal(
    order: Order, lease: Lease, log: Log, stored: StoredRun | None, state: RunState[Any] | None
) -> Journal:
    if state is None:
        delivery, server_id = delivery_of(
            order.conversation_id, order.previous_response_id, order.auto_previous_response_id
        )
        max_turns = DEFAULT_MAX_TURNS if isinstance(order.max_turns, _Unset) else order.max_turns
        by = order.config.started_by
        started = RunStarted(order.agent.address, _input_of(order), max_turns, delivery, server_id, by=by)
        if order.session is not None:
            started = await _with_session(order.session, started, order.config)
        return begin(order.store, lease, log, started, order.config)
    journal = await resume(order.store, lease, stored, state, order.config)
    is_given = not isinstance(order.max_turns, _Unset) and order.max_turns != journal.run.max_turns
    if is_given and not journal.run.has_ended:
        assert not isinstance(order.max_turns, _Unset)
        journal.note("", TurnLimitSet(order.max_turns))
    if order.own_history:
        _choose_own_history(journal)
    return journal


def _choose_own_history(journal: Journal) -> None:
    """Have the run send its own history. Its driver is the only one: a request without an answer is lost."""
    chosen = choose_own_history(journal.run, None, journal.now())
    if chosen and journal.run.request == "sent":
        journal.note("", RequestLost("its sender is gone"))
    journal.note_all(chosen)


async def _with_session(session: Session, started: RunStarted, config: RunConfig) -> RunStarted:
    """The run's beginning, with what was said before put before its input."""
    if started.delivery != "own":
        raise UserError(ONE_HISTORY)
    before, total = await read_session(session)
    given, length = await joined(session, before, as_items(started.input), config)
    return msgspec.structs.replace(
        started,
        input=given,
        session=session.session_id,
        session_length=length,
        session_total=total,
        session_place=place_of(session),
    )


async def _behind_waiting(order: Order, run_id: str) -> Order:
    """The order for a message on whose session a run waits, as the configuration says."""
    assert order.session is not None
    mode = order.config.on_pending
    stored = await order.store.load(run_id)
    if mode == "error" or stored is None or stored.log is None:
        raise SessionBusy(
            f"Run {run_id} waits for people on session '{order.session.session_id}'. Decide what it asks and resume "
            "it, or say with RunConfig(on_pending='supersede' | 'queue') what a new message does.",
            run_id,
        )
    graph, run = AgentGraph(order.agent, stand_ins=True), fold_log(stored.log)
    state = RunState.of_run(graph, stored.log, run, order.context, order.config.clock)
    is_known = graph.has(run.starting_agent)
    if mode == "supersede" and not (is_known and graph.has(run.agent)):
        return msgspec.structs.replace(order, input=state, ends="supersede")
    if not is_known:
        raise SessionBusy(
            f"Run {run_id} waits for people on session '{order.session.session_id}'. It is of agent "
            f"'{run.starting_agent}', and '{order.agent.address}' was given, which cannot go on with it. Decide what "
            "it asks and resume it, cancel it, or let the message take its place with on_pending='supersede'.",
            run_id,
        )
    state.add_input(_input_of(order))
    return msgspec.structs.replace(order, input=state, behind_waiting=mode)


def _input_of(order: Order) -> str | list[JsonObject]:
    assert not isinstance(order.input, RunState)
    return as_input(order.input)


def _context_of(order: Order, state: RunState[Any] | None) -> tuple[Any, Ledger | None]:
    """The user's context, and the decisions that were made on a context by hand: the order's own, or the state's."""
    context, by_hand = order.context, order.by_hand
    if state is not None and state._context is not None:
        context = state._context.context if context is None else context
        by_hand = state._context._ledger if state._made_by_hand else by_hand
    return context, by_hand


def _frame(order: Order, journal: Journal, state: RunState[Any] | None) -> Frame:
    context, by_hand = _context_of(order, state)
    run = journal.run
    wrapper = RunContextWrapper(
        context, run.usage, ledger=run.ledger, run_ids=(*run.origins, journal.log.run_id), clock=order.config.clock
    )
    needs_code = order.ends is None and order.behind_waiting is None
    graph = AgentGraph(order.agent, stand_ins=not needs_code)
    graph.check()
    if state is not None and needs_code:
        check_declarations(graph, run, tools=order.checks_tools)
    needs_session = order.ends is None and (order.session is not None or run.session is not None)
    if needs_session:
        check_session(run, order.session)
    frame = Frame(journal, ROOT, graph, wrapper, order.config, order.hooks, None, order.resend, by_hand, order.session)
    if order.error_handlers:
        frame.error_handlers = order.error_handlers
    frame.drive = drive_safely
    frame.should_leave = order.should_leave
    frame.is_outermost = True
    frame.saves_context = order.save_context is not None
    if order.ends is None and run.delivery != "own":
        check_handoffs(frame)
    return frame


def _check_resend(order: Order, run: RunFold) -> None:
    """An answer to a question that was not asked would settle the next lost request, unseen."""
    if order.resend is not None and not (run.delivery == "conversation" and run.request != "none"):
        raise UserError(
            "resend=… says what happened to a request whose result is unknown (DeliveryUnknown). This run has no such "
            "request: resume it without."
        )


async def _drive(frame: Frame, order: Order, *, is_new: bool) -> None:
    if order.behind_waiting is not None:
        assert isinstance(order.input, RunState)
        await judge_added_input(frame, order.input.pending_input)
    if order.behind_waiting == "queue":
        await frame.journal.commit()
        return
    if "supersede" in (order.behind_waiting, order.ends):
        await supersede_calls(frame)
    if order.ends == "supersede":
        frame.note(CancelAsked(None, frame.journal.now(), SUPERSEDED_BY_A_MESSAGE))
    if is_new and frame.all_hooks:
        await frame.journal.commit()
        for hooks in frame.all_hooks:
            await hooks.on_agent_start(frame.context, frame.agent)
    await drive_safely(frame)


SUPERSEDED_BY_A_MESSAGE = "a newer message took its place on its session, and its agent is not declared any more"


def _begin_watching(frame: Frame) -> None:
    observers = observers_of(frame.config)
    if observers:
        frame.watch = DriveObservers(frame.run_id, observers, frame.journal.log, frame.config.trace_metadata)
        frame.journal.subscribers.append(frame.watch.on_facts)


def _end_watching(frame: Frame, error: BaseException | None) -> None:
    if frame.watch is not None:
        frame.watch.drive_ended(error)


def _connect(streaming: Reader, frame: Frame) -> None:
    """From here on, what becomes durable is told to the reader of the stream."""
    feed = StreamQueue(
        frame.run_id,
        frame.graph,
        lambda local: pending_item(frame.journal.run, local, frame.run_id, frame.graph),
        values=frame.journal.values,
    )
    if len(frame.journal.log):
        feed.catch_up(frame.run)
    frame.feed = feed
    frame.journal.subscribers.append(feed.publish)
    streaming.connect(frame, feed)


def _recorded(order: Order, state: RunState[Any], stored: StoredRun, streaming: Reader | None) -> RunResult | None:
    """The result of a run that has ended: no model is asked, no tool runs. None: it has not."""
    ended = ended_run(stored, state)
    if ended is None:
        return None
    log = stored.log if stored.log is not None else state._log
    if (
        stored.log is None
    ):  # the store kept the outline only: of the history, what the state knows and what is whole of it
        ended = ended.copy()
        ended.history, ended.input_length = paired(state._run.history), state._run.input_length
    given = state._context.context if order.context is None and state._context is not None else order.context
    context = RunContextWrapper(
        given, ended.usage, ledger=ended.ledger, run_ids=(log.run_id,), clock=order.config.clock
    )
    graph = AgentGraph(order.agent)
    graph.at(ended.agent)
    result = RunResult(graph, log, ended, context, order.config.clock)
    if streaming is not None:
        streaming.adopt(result)
    return result


def _attach_state(error: BaseException, frame: Frame, given: RunState[Any] | None) -> None:
    """So that nothing which happened or was said before the error is lost. Foreign exceptions get it too."""
    frame.journal.forget_noted()
    if frame.journal.log.start:
        return  # who drives a run from the end of its log has the store, and needs no state
    if given is not None:
        frame.run.ledger.stage_again(new_decisions(given))
    result = result_of(frame)
    state = result.to_state()
    if given is not None and not isinstance(error, InputGuardrailTripwireTriggered):
        state.take_over_input(given)
    with contextlib.suppress(AttributeError):
        error.state = state  # type: ignore[attr-defined]  # PlacetError declares it; others may take it
        if isinstance(error, PlacetError):
            error.run_data = details_of(result)
