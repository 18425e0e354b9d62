"""A snapshot of a run: a prefix of its log, and decisions that are not in the log yet.

Deciding changes only the state object that it is done on, and running never changes the state that it was given. A
state is safe to use from several threads: its log is never changed, and its decisions are in a ledger.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.calls import as_items
from placet.core.casting import missing_here, votes_to_take
from placet.core.deciding import decisions_to_take, facts_to_fork
from placet.core.fold import fold
from placet.core.index import RequestKind
from placet.core.log import Log
from placet.core.state import Call, RunFold
from placet.core.transitions import WAITING, Status
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.decisions import (
    DecisionInput,
    Grant,
    ItemOrId,
    find_entry,
    plain_answer,
    plain_object,
    refuse_if_hosted,
    stage_decision,
)
from placet.declare.run_config import DEFAULT_MAX_TURNS
from placet.declare.tool import Tool
from placet.declare.tool_values import InvalidArguments
from placet.facts.codec import JsonObject, NotPlain, fresh, plain_item, plain_str, writable
from placet.facts.errors import RunFinished, UserError
from placet.facts.events import DecisionMade, Delivery, GrantMade, InputAdded, RunStarted, VoteCast
from placet.facts.ids import call_id, mint, path_of, request_id
from placet.facts.items import RawItem, ToolApprovalItem
from placet.facts.requirements import Requirement
from placet.states.sdk_states import moved_in
from placet.states.seal import Keys
from placet.states.state_codec import (
    StateDocument,
    dump_json,
    dump_text,
    is_sdk_text,
    load_json,
    load_text,
    pack_context,
    sdk_json,
    sdk_text,
    unpack_context,
)

T = TypeVar("T")
ContextSerializer: TypeAlias = Callable[[Any], Mapping[str, Any]]
ContextDeserializer: TypeAlias = Callable[[Mapping[str, Any]], Any]

NO_CONTEXT = "RunState has no context"


class RunState(Generic[T]):
    """A run at a moment, with what people have decided since."""

    if not TYPE_CHECKING:  # programs written for the Agents SDK name the type of the agent too

        def __class_getitem__(cls, given: Any) -> Any:
            return super().__class_getitem__(given[0] if isinstance(given, tuple) else given)

    def __init__(
        self,
        context: RunContextWrapper[T] | None,
        original_input: str | Sequence[object],
        starting_agent: Agent[T],
        max_turns: int | None = DEFAULT_MAX_TURNS,
        *,
        conversation_id: str | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if context is not None and not isinstance(context, RunContextWrapper):
            raise UserError(f"RunState(context=…) is a RunContextWrapper, not a {type(context).__name__}.")
        check_agent(starting_agent)
        check_turns(max_turns)
        delivery, server_id = delivery_of(conversation_id, previous_response_id, auto_previous_response_id)
        started = RunStarted(starting_agent.address, as_input(original_input), max_turns, delivery, server_id)
        self._log = new_log()
        self._log.append(self._log.next_line(round(clock.now(), 3), [started]))
        self._run = fold([started])
        self._context = context
        self._graph = AgentGraph(starting_agent)
        self._clock = clock
        self._made_by_hand = True
        self._added: tuple[InputAdded, ...] = ()

    @classmethod
    def of_run(cls, graph: AgentGraph, log: Log, run: RunFold, context: T, clock: Clock) -> RunState[T]:
        """The state of a run at the end of `log`, whose fold is `run`. Both are the state's own from here on."""
        state = cls.__new__(cls)
        state._log = log
        state._run = run
        state._graph = graph
        state._clock = clock
        state._made_by_hand = False
        state._added = ()
        run_ids = (*run.origins, log.run_id)
        state._context = RunContextWrapper(context, run.usage.copy(), ledger=run.ledger, run_ids=run_ids, clock=clock)
        return state

    # -- looking ----------------------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return self._log.run_id

    @property
    def context(self) -> RunContextWrapper[T] | None:
        """The wrapper whose ledger this state's decisions are in."""
        return self._context

    @property
    def has_ended(self) -> bool:
        return self._run.has_ended

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """What waits for a person, at any depth, innermost calls themselves; empty when nothing does."""
        return interruptions_of(self._run, self.run_id, self._graph)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def approve(
        self,
        approval_item: ItemOrId,
        always_approve: bool | Grant = False,
        *,
        by: str | None = None,
        reason: str | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        """Say yes to one call; with `arguments` to a changed one; with `always_approve` to its like in this run."""
        if arguments is not None:
            edited = self._checked_edit(approval_item, arguments)
            given = DecisionInput(verdict="edit", always=always_approve, by=by, reason=reason, arguments=edited)
        else:
            given = DecisionInput(verdict="approve", always=always_approve, by=by, reason=reason)
        self._stage("approve", approval_item, given)

    def reject(
        self,
        approval_item: ItemOrId,
        always_reject: bool | Grant = False,
        *,
        rejection_message: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Say no: the call never runs, and the model reads `rejection_message`."""
        given = DecisionInput(verdict="reject", always=always_reject, by=by, reason=reason, message=rejection_message)
        self._stage("reject", approval_item, given)

    def respond(
        self, approval_item: ItemOrId, output: object, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Answer in the tool's place: the call never runs, and the model reads `output`. Of an elicitation, answer what
        the running call asks: it continues with these values."""
        given = DecisionInput(verdict="respond", by=by, reason=reason, output=plain_answer(output))
        self._stage("respond to", approval_item, given)

    def _stage(self, verb: str, item: ItemOrId, given: DecisionInput) -> None:
        if self._context is None:
            raise UserError(f"Cannot {verb} tool: {NO_CONTEXT}")
        run_ids = (*self._run.origins, self.run_id)
        stage_decision(self._context._ledger, run_ids, item, given, self._clock, by_hand=self._made_by_hand)

    def _checked_edit(self, item: ItemOrId, arguments: Mapping[str, object]) -> JsonObject:
        if self._context is None:
            raise UserError(f"Cannot approve tool: {NO_CONTEXT}")
        if self._made_by_hand:
            raise UserError("Only a call that waits in a run can be edited.")
        entry = find_entry(self._context._ledger, (*self._run.origins, self.run_id), item)
        refuse_if_hosted(entry, "edit")
        tool = self._graph.at(entry.agent).tool_known_as(entry.name, entry.tool)
        edited = plain_object(arguments, f"The edited arguments of '{entry.name}'")
        if tool is None:
            return edited
        try:
            return tool.validated(edited).values
        except InvalidArguments as error:
            raise UserError(f"The edited arguments do not fit tool '{entry.name}':\n{error}") from error

    def add_input(self, given: str | Sequence[object]) -> None:
        """Put a message behind the calls of the open turn: the model reads it with their outputs."""
        if self.has_ended:
            raise RunFinished("The run has ended: give the message to a new run.")
        self._added = (*self._added, InputAdded(as_items(as_input(given)), mint("input")))

    @property
    def pending_input(self) -> list[JsonObject]:
        """What was added and is not in the log yet."""
        return [item for added in self._added for item in added.items]

    def clear_pending_input(self) -> None:
        self._added = ()

    def merge(self, other: RunState[T]) -> RunState[T]:
        """Add the other state's decisions and votes to this one. Of two decisions of one person the newer counts; where
        two people contradict each other, and each would decide, it is an error that names both, and this state is
        unchanged."""
        if not isinstance(other, RunState):
            raise UserError(f"A RunState is merged with another, not with a {type(other).__name__}.")
        if other.run_id != self.run_id:
            raise UserError(f"A state of run {other.run_id} cannot be merged into one of run {self.run_id}.")
        if self._context is None or other._context is None:
            raise UserError(f"Cannot merge: {NO_CONTEXT}")
        ledger, theirs = self._context._ledger, other._context._ledger
        votes = votes_to_take(self._run, ledger, theirs)
        by_hand = theirs.entries_by_hand() if self._made_by_hand else ()
        ledger.stage(*decisions_to_take(ledger, theirs), by_hand, votes)
        known = {added.id for added in self._added}
        self._added = (*self._added, *(added for added in other._added if added.id not in known))
        return self

    def take_over_input(self, other: RunState[T]) -> None:
        """Keep what was added on the other state and is not in this one's log yet."""
        self._added = tuple(added for added in other._added if added.id not in self._run.input_ids)

    def fork(self) -> RunState[T]:
        """An independent run with a new id, from here on. Calls that were started stay so: nothing is done twice. What
        was approved and has not begun is asked about again in the copy, so that one yes counts once."""
        if self._run.has_ended:
            raise UserError("The run has ended: there is nothing left to fork.")
        log, at = Log(mint("run"), os.urandom(16)), round(self._clock.now(), 3)
        for line in self._log.lines:
            log.adopt(line)
        run = self._run.copy()
        run.ledger.drop_staged_yes()
        facts = facts_to_fork(run, self.run_id, at)
        log.append(log.next_line(at, facts))
        fold(facts, into=run)
        context: Any = self._context.context if self._context is not None else None
        twin: RunState[T] = RunState.of_run(self._graph, log, run, context, self._clock)
        twin._made_by_hand = self._made_by_hand
        if self._made_by_hand and self._context is not None:
            ledger = self._context._ledger.copy()
            ledger.drop_staged_yes()
            twin._context = RunContextWrapper(context, run.usage.copy(), ledger=ledger, clock=self._clock)
        twin._added = self._added
        return twin

    # -- storing ----------------------------------------------------------------------------------------------------

    def to_json(
        self, *, context_serializer: ContextSerializer | None = None, strict_context: bool = False, key: Keys = None
    ) -> JsonObject:
        return dump_json(self._document(context_serializer, strict_context), key)

    def to_string(
        self, *, context_serializer: ContextSerializer | None = None, strict_context: bool = False, key: Keys = None
    ) -> str:
        """The state as text, for any place that keeps text, for as long as it takes. With a key it is sealed."""
        return dump_text(self._document(context_serializer, strict_context), key)

    @classmethod
    async def from_json(
        cls,
        agent: Agent[T],
        data: Mapping[str, Any],
        *,
        context_override: T | RunContextWrapper[T] | None = None,
        context_deserializer: ContextDeserializer | None = None,
        strict_context: bool = False,
        key: Keys = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> RunState[T]:
        foreign = sdk_json(data, key)
        document = load_json(data, key) if foreign is None else await _moved_in(agent, foreign, clock)
        return cls._restored(agent, document, context_override, context_deserializer, strict_context, clock)

    @classmethod
    async def from_string(
        cls,
        agent: Agent[T],
        data: str,
        *,
        context_override: T | RunContextWrapper[T] | None = None,
        context_deserializer: ContextDeserializer | None = None,
        strict_context: bool = False,
        key: Keys = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> RunState[T]:
        """Load a state for today's agent, of ours or of openai-agents. What cannot be loaded is refused by name, before
        anything runs."""
        foreign = sdk_text(data, key)
        document = load_text(data, key) if foreign is None else await _moved_in(agent, foreign, clock)
        return cls._restored(agent, document, context_override, context_deserializer, strict_context, clock)

    def _document(self, serializer: ContextSerializer | None, strict: bool) -> StateDocument:
        wrapper = self._context
        packed = pack_context(wrapper.context if wrapper is not None else None, serializer, strict=strict)
        ledger = wrapper._ledger if wrapper is not None else self._run.ledger
        return StateDocument(
            log=self._log,
            run=self._run,
            staged=list(ledger.staged()),
            context=packed,
            made_by_hand=self._made_by_hand,
            entries=ledger.entries_by_hand() if self._made_by_hand else [],
            has_wrapper=wrapper is not None,
            added=list(self._added),
        )

    @classmethod
    def _restored(
        cls,
        agent: Agent[T],
        document: StateDocument,
        context_override: T | RunContextWrapper[T] | None,
        deserializer: ContextDeserializer | None,
        strict: bool,
        clock: Clock,
    ) -> RunState[T]:
        check_agent(agent)
        graph = AgentGraph(agent)
        check_declarations(graph, document.run)
        if context_override is not None:
            given = context_override
            context = given.context if isinstance(given, RunContextWrapper) else given
        else:
            context = unpack_context(document.context, deserializer, strict=strict)
        return cls._of_document(graph, document, context, clock)

    @classmethod
    def _of_document(cls, graph: AgentGraph, document: StateDocument, context: Any, clock: Clock) -> RunState[T]:
        state: RunState[T] = cls.of_run(graph, document.log, document.run, context, clock)
        state._made_by_hand = document.made_by_hand
        state._added = tuple(document.added)
        if document.made_by_hand:
            state._context = RunContextWrapper(context, document.run.usage.copy(), clock=clock)
        if not document.has_wrapper:
            state._context = None
            return state
        assert state._context is not None
        decisions = [fact for fact in document.staged if isinstance(fact, DecisionMade)]
        grants = [fact for fact in document.staged if isinstance(fact, GrantMade)]
        votes = [fact for fact in document.staged if isinstance(fact, VoteCast)]
        state._context._ledger.stage(decisions, grants, document.entries, votes)
        return state

    # -- copying ----------------------------------------------------------------------------------------------------

    def __copy__(self) -> RunState[T]:
        return self.__deepcopy__({})

    def __deepcopy__(self, _memo: object) -> RunState[T]:
        """An independent snapshot, like another `to_state()`: deciding on one changes nothing on the other. Agents and
        your context are the same objects."""
        run = self._run.copy()
        context: Any = self._context.context if self._context is not None else None
        twin: RunState[T] = RunState.of_run(self._graph, self._log.copy(), run, context, self._clock)
        twin._made_by_hand, twin._added = self._made_by_hand, self._added
        if self._context is None:
            twin._context = None
        elif self._made_by_hand:
            ledger = self._context._ledger.copy()
            twin._context = RunContextWrapper(context, run.usage.copy(), ledger=ledger, clock=self._clock)
        return twin

    def __reduce__(self) -> tuple[Callable[[str], RunState[Any]], tuple[str]]:
        """As its text: without agents, secrets, and a context that is no mapping. It is continued by
        `Runner.run(agent, state, context=…)`; until then, agents are shown by their addresses."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the context is left out is said here, once and for all
            return _unpickled, (self.to_string(),)

    def __repr__(self) -> str:
        waiting = sum(1 for _ in self._run.waiting())
        return f"RunState(run_id={self.run_id!r}, turn={self._run.turn}, waiting={waiting})"


def _unpickled(text: str) -> RunState[Any]:
    document = load_text(text, None)
    graph = AgentGraph(Agent(name=document.run.starting_agent), stand_ins=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = unpack_context(document.context, None, strict=False)
    return RunState._of_document(graph, document, context, SYSTEM_CLOCK)


async def _moved_in(agent: Agent[Any], data: Mapping[str, Any], clock: Clock) -> StateDocument:
    """What openai-agents wrote, as a state of ours for today's agent."""
    check_agent(agent)
    wrapper: RunContextWrapper[Any] = RunContextWrapper(None)

    async def tools_of(owner: Agent[Any]) -> dict[str, Tool]:
        found = []
        for server in owner.mcp_servers:  # only they can tell which tools they have, and by which schema
            async with server.in_use():
                found.append((server, await server.tools_for(wrapper, owner)))
        return {tool.name: tool for tool in [*owner.name_apart(found), *owner.function_tools]}

    return await moved_in(data, AgentGraph(agent), tools_of, clock.now())


def check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        raise UserError(f"An Agent is needed here, not a {type(agent).__name__}.")


def check_turns(max_turns: object) -> None:
    if max_turns is not None and (not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1):
        raise UserError(f"max_turns is a whole number, 1 or more, or None for no limit, not {max_turns!r}.")


def new_log() -> Log:
    return Log(mint("run"), os.urandom(16))


def as_input(given: str | Sequence[object]) -> str | list[JsonObject]:
    """The input of a run as plain JSON, or UserError naming what cannot be."""
    if isinstance(given, str):
        if given.startswith(('{"placet":', '{"placet_sealed":')) or is_sdk_text(given):
            raise UserError(
                "This is the text of a state: load it with `await RunState.from_string(agent, text)` first."
            )
        text = plain_str(given)
        if writable(text) != text:
            raise UserError("The input is not valid Unicode: it holds half of a surrogate pair.")
        return text
    try:
        return [plain_item(item, f"input[{index}]") for index, item in enumerate(given)]
    except (NotPlain, TypeError) as error:
        raise UserError(
            f"The input is a text or a list of items in the shape of the Responses API: {error}."
        ) from error


def delivery_of(
    conversation_id: str | None, previous_response_id: str | None, auto: bool
) -> tuple[Delivery, str | None]:
    """Who keeps the history, and from where on."""
    for name, given in (("conversation_id", conversation_id), ("previous_response_id", previous_response_id)):
        if given is not None and not isinstance(given, str):
            raise UserError(f"{name} is a text, not {given!r}.")
    if conversation_id is not None:
        if previous_response_id is not None or auto:
            raise UserError(
                "A run continues a conversation (conversation_id) or a response (previous_response_id), not both."
            )
        return "conversation", conversation_id
    if previous_response_id is not None:
        return "chained", previous_response_id
    return ("auto", None) if auto else ("own", None)


def check_declarations(graph: AgentGraph, run: RunFold, *, tools: bool = True) -> None:
    """Refuse a state whose agents, or the tools that calls wait for, are not there any more, by name."""
    for member in run.family():
        graph.at(member.agent)
        graph.at(member.response_agent)
    for owner, call in run.waiting() if tools else ():
        if not _has_tool(graph.at(owner.response_agent), owner, call):
            what = f"tool '{call.name}'" if call.server is None else f"the MCP server '{call.server}'"
            raise UserError(
                f"Call {call.id} waits for {what}, which agent '{owner.response_agent}' no longer has. "
                "Declare it again, or load the state with the version of the code that has it."
            )


def _has_tool(agent: Agent[Any], owner: RunFold, call: Call) -> bool:
    """Whether the agent has the tool, or the server that it came from: which tools that has, only it can tell."""
    if agent.tool_of(call) is not None:
        return True
    entry = owner.ledger.entry(call.id)
    return entry is not None and agent.toolset_of(entry.tool) is not None


def interruptions_of(run: RunFold, run_id: str, graph: AgentGraph) -> list[ToolApprovalItem]:
    return [approval_item(owner, call, run_id, graph, run) for owner, call in run.waiting()]


def pending_item(run: RunFold, local: str, run_id: str, graph: AgentGraph) -> ToolApprovalItem | None:
    """The item of one call, if it (still) waits."""
    owner = run.find(path_of(local))
    call = owner.calls.get(local) if owner is not None else None
    if owner is None or call is None or call.status not in WAITING:
        return None
    return approval_item(owner, call, run_id, graph, run)


def approval_item(owner: RunFold, call: Call, run_id: str, graph: AgentGraph, root: RunFold) -> ToolApprovalItem:
    """What a person is shown: the call as it would run, so in doubt after an edit, what the edit made of it."""
    is_as_written = call.edited is None and call.values is None and call.native_kind is None
    item = fresh(call.item)
    shown = item if is_as_written else {**item, "name": call.name, "arguments": call.effective_text}
    return ToolApprovalItem(
        graph.at(owner.response_agent),
        RawItem(shown),
        tool_name=call.name,
        id=call_id(run_id, call.id),
        kind="mcp_approval" if call.server is not None else _KIND_OF.get(call.status, "approval"),
        request_id=request_id(run_id, call.id, call.request),
        digest=call.digest,
        agent_path=owner.response_agent,
        why=call.why,
        proposed_arguments=None if call.values is None else call.arguments,
        questions=fresh(call.questions) if call.status is Status.ELICITED else None,
        **_voting(owner, call, root),
    )


class _Voting(TypedDict, total=False):
    requirement: Requirement
    votes: tuple[VoteCast, ...]
    missing: int | None


def _voting(owner: RunFold, call: Call, root: RunFold) -> _Voting:
    """What is known of the votes here: those of the log, and those that are staged."""
    entry = owner.ledger.entry(call.id)
    ballot = entry.open_ballot if entry is not None else None
    if entry is None or ballot is None:
        return {}
    votes = ballot.newest(owner.ledger.staged_votes(call.id))
    return {"requirement": ballot.requirement, "votes": votes, "missing": missing_here(root, entry, ballot, votes)}


_KIND_OF: dict[Status, RequestKind] = {Status.IN_DOUBT: "in_doubt", Status.ELICITED: "elicitation"}
