"""Paused states that openai-agents wrote, read into a log of ours. The SDK itself is not needed for it.

What the document knows becomes facts. What it does not know is refused by name, or is in doubt: nothing is guessed, so
nothing runs twice because a state moved in.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from placet.core.approvals import Said
from placet.core.calls import APPROVAL_RESPONSE, as_items, hosted_identity, is_call, label_field, problem_with
from placet.core.fold import fold
from placet.core.gate import digest_of
from placet.core.log import Log
from placet.core.state import Call, RunFold
from placet.declare.agent import Agent, AgentTool
from placet.declare.agent_graph import AgentGraph
from placet.declare.decisions import DecisionInput, facts_of_decision
from placet.declare.tool import Tool
from placet.facts import events as e
from placet.facts.codec import Json, JsonObject, canonical, encode, parse_arguments, same_value
from placet.facts.errors import StateRefused
from placet.facts.ids import mint
from placet.states.sdk_document import Context, Response, SdkApprovalRecord, SdkItem, SdkState, read_document, usage_of
from placet.states.state_codec import PackedContext, StateDocument

ToolsOf: TypeAlias = Callable[[Agent[Any]], Awaitable[Mapping[str, Tool]]]
"""The tools of an agent by the names that its model knows, those of its MCP servers too."""

NOT_APPROVED = "Tool execution was not approved."
"""What the SDK tells a model about a rejected call, if nobody said something else."""
FILTERED_AWAY = "(A handoff's filter took this output out of the conversation.)"
_KEEPS_CLAIMS = (1, 15)
"""Since this schema a state says which calls were begun."""


async def moved_in(data: Mapping[str, Any], graph: AgentGraph, tools_of: ToolsOf, now: float) -> StateDocument:
    """A state of ours that stands where the SDK's stands, or StateRefused naming what is in the way."""
    state = read_document(data)
    book = _Book(graph, tools_of, round(now, 3))
    run = _Reader(book, state, "", (state.context,))
    await run.read(run.starting_agent(graph.root.address))
    log = Log(_run_id(state), os.urandom(16))
    log.append(log.next_line(book.now, book.facts))
    added = [e.InputAdded(state.pending_input, mint("input"))] if state.pending_input else []
    return StateDocument(log, book.run, book.staged, _context(state.context), added=added)


def _run_id(state: SdkState) -> str:
    """The same for the same document, where the provider's ids tell it from all others: then a store refuses to begin
    it twice, and an item that was shown after one load can be decided after the next."""
    if not any(response.response_id for response in state.model_responses):
        return mint("run")
    kept_at = [state.conversation_id, state.previous_response_id]
    told = encode([state.original_input, kept_at, [[each.response_id, each.output] for each in state.model_responses]])
    return f"run_{hashlib.blake2b(told, digest_size=13).hexdigest()}"


def _context(context: Context) -> PackedContext:
    meta, value = context.context_meta or {}, context.context
    kind = str(meta.get("class_path") or meta.get("original_type") or "mapping")
    if meta.get("omitted"):
        return PackedContext("left_out", type=kind)
    if value is None:
        return PackedContext("none")
    return PackedContext("serialized" if meta.get("requires_deserializer") else "mapping", value, type=kind)


class _Book:
    """What is being written: the facts, the run that they fold into, and decisions that are not in the log yet."""

    def __init__(self, graph: AgentGraph, tools_of: ToolsOf, now: float) -> None:
        self.graph, self.tools_of, self.now = graph, tools_of, now
        self.run = RunFold()
        self.facts: list[e.AnyFact] = []
        self.staged: list[Said] = []
        self._tools: dict[str, Mapping[str, Tool]] = {}

    def note(self, path: str, fact: e.PlainFact) -> None:
        noted = e.InChild(path, fact) if path else fact
        fold([noted], into=self.run)
        self.facts.append(noted)

    async def tool_at(self, address: str, call: Call) -> Tool | None:
        """The tool that a call means, as it is declared today."""
        agent = self.graph.at(address)
        found = agent.tool_of(call)
        return found if found is not None or call.server is not None else await self.tool_named(address, call.name)

    async def tool_named(self, address: str, name: str) -> Tool | None:
        if address not in self._tools:
            self._tools[address] = await self.tools_of(self.graph.at(address))
        return self._tools[address].get(name)


class _Reader:
    """Reads one run of the document: the outer one, or one behind a tool."""

    def __init__(self, book: _Book, state: SdkState, path: str, contexts: tuple[Context, ...]) -> None:
        self.book, self.state, self.path = book, state, path
        self.contexts = contexts
        """Where decisions are: those of this run first, then those of the runs around it."""
        self.outputs = _outputs(state)
        self.nested = {str(each.tool_call.get("call_id")): each.agent_run_state for each in state.functions}
        self.waiting = {_label(item.raw_item) for item in state.interruptions}

    @property
    def run(self) -> RunFold:
        found = self.book.run.find(self.path)
        assert found is not None, "it was begun first"
        return found

    def note(self, fact: e.PlainFact) -> None:
        self.book.note(self.path, fact)

    # -- agents -------------------------------------------------------------------------------------------------------

    def starting_agent(self, first: str) -> str:
        """The address of the agent with which the run began: the given one, or one that it hands over to, if the
        handoffs of the document lead from there to the agent that was at work."""
        graph, wanted = self.book.graph, self.state.current_agent.name
        found = [each for each in graph.handed_over_from(first) if graph.at(self._last_agent(each)).name == wanted]
        if found and (found[0] == first or len(found) == 1):
            return found[0]
        why = "is there more than once" if found else "is not there"
        raise StateRefused(
            f"The state is of agent '{wanted}', which {why} among the agents that '{first}' hands over to: "
            "load it with the agent that the run was begun with."
        )

    def _last_agent(self, start: str) -> str:
        address, responses = start, self.state.model_responses
        for number, response in enumerate(responses, 1):
            for item in filter(is_call, response.output):
                is_over = number < len(responses) or _label(item) in self.outputs
                handoff = self.book.graph.at(address).handoff_named(str(item.get("name")))
                if handoff is not None and is_over:
                    address = self.book.graph.after_handoff(start, handoff.agent)
                    break
        return address

    # -- turns --------------------------------------------------------------------------------------------------------

    async def read(self, address: str) -> None:
        state = self.state
        delivery, server_id = _delivery(state)
        self.note(e.RunStarted(address, state.original_input, state.max_turns, delivery, server_id))
        if state.model_responses:  # the SDK asks input guardrails with its first request, and never again
            self.note(e.GuardrailsJudged("input", _guardrails(state)))
        for number, response in enumerate(state.model_responses, 1):
            is_last = number == len(state.model_responses)
            if is_last:
                self._settle_history(_before(response, state.generated_items))
            await self._read_turn(response, is_last=is_last)
        if not self.run.open_calls:
            self._settle_history(state.generated_items)
        await self._keep_standing()

    def _settle_history(self, items: Sequence[SdkItem]) -> None:
        """What the next request carries, where a handoff's filter or a message in between made it something else. The
        order of one turn's outputs is no difference."""
        if self.run.delivery != "own":
            return
        first = as_items(self.state.original_input)
        told = [*first, *(item.raw_item for item in items if item.type != "tool_approval_item")]
        if Counter(map(_told, told)) != Counter(map(_told, self.run.history)):
            self.note(e.HistoryRewritten(told, len(first)))

    async def _read_turn(self, response: Response, *, is_last: bool) -> None:
        problem = problem_with(response.output)
        if problem is not None:
            raise StateRefused(f"Placet cannot continue with the state's response {response.response_id}: {problem}.")
        usage = usage_of(response.usage)
        if is_last and not self.path:
            usage.add(self.state.usage_of_context())
        self.note(e.RequestSent())
        self.note(e.ResponseReceived(response.response_id, response.output, usage, response.request_id))
        agent = self.book.graph.at(self.run.response_agent)
        calls = list(self.run.calls.values())
        handoffs = [each for each in calls if each.server is None and agent.handoff_named(each.name) is not None]
        for call in calls:
            if call not in handoffs:
                await self._read_call(call, is_last=is_last)
        if handoffs:
            self._read_handoffs(agent, handoffs, is_last=is_last)

    def _read_handoffs(self, agent: Agent[Any], calls: list[Call], *, is_last: bool) -> None:
        """The one that took place, and those that it left behind. What still waits for the turn's other calls is judged
        when the run goes on."""
        ended = [(call, self._output(call)) for call in calls]
        done = next((call for call, item in ended if item is not None and item.type == "handoff_output_item"), None)
        if done is None and (is_last or any(item is not None for _, item in ended)):
            return
        done = done or calls[0]  # a filter took its output away
        found = agent.handoff_named(done.name)
        assert found is not None, "it was looked up"
        output: Json = encode({"assistant": found.agent_name}).decode()
        for call, item in ended:
            if call is not done:
                self.note(e.CallEnded(call.id, "denied", _text(item)))
            elif item is not None:
                output = _text(item)
        self.note(e.CallsDeferred([done.id]))
        self.note(e.CallsStarted([done.id]))
        self.note(e.CallEnded(done.id, "finished", output))
        self.note(e.AgentChanged(self.book.graph.after_handoff(self.run.starting_agent, found.agent)))

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _read_call(self, call: Call, *, is_last: bool) -> None:
        output = self._output(call)
        if output is not None:
            await self._end(call, output)
        elif not is_last:
            await self._end_filtered(call)
        elif (nested := self.nested.get(call.label)) is not None:
            await self._go_inside(call, nested)
        elif self._may_have_begun(call):
            await self._doubt(call)
        elif call.label in self.waiting:
            await self._hold(call)
            self._stage(call)

    def _output(self, call: Call) -> SdkItem | None:
        found = self.outputs.get(call.label)
        return found.pop(0) if found else None

    def _may_have_begun(self, call: Call) -> bool:
        """Whether its function was begun, or, in a state that does not say, whether it is not one of those that
        wait."""
        if call.server is not None:
            return False
        if self.state.version >= _KEEPS_CLAIMS:
            told = self.state.context.tool_invocations.get(call.label)
            return told is not None and told.executed
        return call.label not in self.waiting

    async def _hold(self, call: Call) -> Tool | None:
        """Ask about the call as today's tool has it: what was approved is what will run."""
        tool = await self._settle(call)
        identity, fingerprint, digest = self._identity(call, tool)
        within = tool.decide_within if tool is not None else None
        until = None if within is None or tool is None else self.book.now + within
        at_end = tool.at_deadline if tool is not None and until is not None else None
        self.note(e.CallHeld(call.id, digest, identity, fingerprint, None, until, at_end))
        return tool

    async def _settle(self, call: Call) -> Tool | None:
        """Today's tool, and what its validation makes of the arguments, as when a call is proposed."""
        tool = await self.book.tool_at(self.run.response_agent, call)
        arguments = parse_arguments(call.arguments)
        if tool is None or arguments is None or call.server is not None:
            return tool
        try:
            values = tool.validated(arguments).values
        except Exception:  # noqa: BLE001  # a validator of the user's may raise anything: it does so again where it runs
            return tool
        if not same_value(arguments, values):
            self.note(e.ArgumentsValidated(call.id, values))
        return tool

    def _identity(self, call: Call, tool: Tool | None) -> tuple[str, str, str]:
        """The tool's identity and fingerprint, and the digest of the call."""
        known = f"function:{call.name}" if call.server is None else hosted_identity(call.server, call.name)
        identity, fingerprint = (tool.identity, tool.fingerprint) if tool is not None else (known, "")
        shown = call.values if call.values is not None else parse_arguments(call.arguments)
        arguments = call.arguments if shown is None else shown
        return identity, fingerprint, digest_of(self.path, self.run.response_agent, identity, fingerprint, arguments)

    async def _end(self, call: Call, item: SdkItem) -> None:
        approval = self._record_of(call)
        output = _text(item)
        is_no, is_yes = (
            _is_rejected(approval, call.label, output),
            approval is not None and _is_in(call.label, approval.approved),
        )
        if item.raw_item.get("type") == APPROVAL_RESPONSE:
            is_yes = item.raw_item.get("approve") is True
            is_no = not is_yes
        if is_no or is_yes:
            await self._hold(call)
            self._decide(call, "reject" if is_no else "approve")
        else:
            self.note(e.CallsAllowed([call.id]))
        if not is_no:
            self.note(e.CallsStarted([call.id]))
        self.note(e.CallEnded(call.id, "rejected" if is_no else "finished", output))

    async def _end_filtered(self, call: Call) -> None:
        """A call of an earlier turn whose output is not in the document: it ended, since the model was asked again."""
        if any(_label(item.raw_item) == call.label for item in self.state.generated_items):
            raise StateRefused(
                f"The call {call.label!r} of '{call.name}' is of an earlier turn, and its output is not in the state."
            )
        self.note(e.CallsAllowed([call.id]))
        self.note(e.CallsStarted([call.id]))
        self.note(e.CallEnded(call.id, "finished", FILTERED_AWAY))

    async def _begin(self, call: Call) -> Tool | None:
        """A call that was begun: under the decision that let it, if one is told."""
        approval = self._record_of(call)
        if approval is not None and _is_in(call.label, approval.approved):
            tool = await self._hold(call)
            self._decide(call, "approve")
        else:
            tool = await self._settle(call)
            self.note(e.CallsAllowed([call.id]))
        self.note(e.CallsStarted([call.id]))
        return tool

    async def _doubt(self, call: Call) -> None:
        tool = await self._begin(call)
        identity, fingerprint, digest = self._identity(call, tool)
        why = "openai-agents had begun it, and its state holds no output"
        if isinstance(tool, AgentTool):
            why = "openai-agents had begun it, and its state does not hold the run behind it"
        self.note(e.CallInDoubt(call.id, digest, identity, fingerprint, why))

    async def _go_inside(self, call: Call, state: SdkState) -> None:
        tool = await self._begin(call)
        owner = self.run.response_agent
        if not isinstance(tool, AgentTool):
            raise StateRefused(
                f"The call {call.label!r} waits inside the agent behind tool '{call.name}', "
                f"and agent '{owner}' has no agent behind a tool of that name: declare it again."
            )
        inner = _Reader(self.book, state, call.id, (state.context, *self.contexts))
        await inner.read(inner.starting_agent(self.book.graph.behind_tool(owner, tool)))

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _record_of(self, call: Call) -> SdkApprovalRecord | None:
        """What was decided about the call: by its id, in this run or those around it; else for good, in this run."""
        found = [record for context in self.contexts for record in self._records(context, call)]
        own = self._records(self.state.context, call)
        by_id = next((record for record in found if record.names(call.label)), None)
        return by_id or next((record for record in own if record.is_for_all_calls), None)

    def _records(self, context: Context, call: Call) -> list[SdkApprovalRecord]:
        if call.server is not None:
            hosted = [
                each.decision
                for each in context.hosted_mcp_approvals
                if each.identity.request_id == call.label
                or (each.identity.server_label, each.identity.tool_name) == (call.server, call.name)
            ]
            return [*hosted, *(context.approvals[name] for name in (call.name,) if name in context.approvals)]
        agent = self.book.graph.at(self.run.response_agent).name
        owned = [
            each.decision
            for each in context.function_tool_approvals
            if (each.agent.name, each.tool_key) == (agent, call.name)
        ]
        return [*owned, *(context.approvals[name] for name in (call.name,) if name in context.approvals)]

    def _stage(self, call: Call) -> None:
        """What a person decided about a call that waits: the last decision still counts, as on every state."""
        approval = self._record_of(call)
        if approval is None:
            return
        by_id = approval.names(call.label)
        is_no = _is_in(call.label, approval.rejected) if by_id else approval.rejected is True
        message = approval.rejection_messages.get(call.label) if by_id else approval.sticky_rejection_message
        given = DecisionInput(
            verdict="reject" if is_no else "approve", always=not by_id, message=message if is_no else None
        )
        entry = self.run.ledger.entry(call.id)
        assert entry is not None, "a held call is in the ledger"
        decision, grants = facts_of_decision(entry, given, self.book.now)
        self.book.staged.extend([decision, *grants])

    def _decide(self, call: Call, verdict: e.Verdict) -> None:
        self.note(e.DecisionMade(call.id, call.request, call.digest, verdict, None, self.book.now))

    async def _keep_standing(self) -> None:
        """Standing decisions of earlier turns, as grants of this run: of agents that it has come to, for tools that
        they still have. What is not distinguished is not kept: then a person is asked."""
        run, graph, context = self.run, self.book.graph, self.state.context
        at_work = {graph.at(each).name: each for each in (run.starting_agent, run.response_agent, run.agent)}
        told = [(each.agent.name, each.tool_key, each.decision) for each in context.function_tool_approvals]
        told += [(graph.at(run.response_agent).name, name, record) for name, record in context.approvals.items()]
        for agent, name, record in told:
            address = at_work.get(agent)
            tool = (
                await self.book.tool_named(address, name) if address is not None and record.is_for_all_calls else None
            )
            if address is not None and tool is not None:
                self._grant(address, tool, record)

    def _grant(self, address: str, tool: Tool, record: SdkApprovalRecord) -> None:
        made = [each for each in self.book.staged if isinstance(each, e.GrantMade)]
        if any((each.agent, each.tool, each.path) == (address, tool.identity, self.path) for each in made):
            return
        is_no = record.rejected is True
        self.note(
            e.GrantMade(
                id=mint("grant"),
                agent=address,
                tool=tool.identity,
                fingerprint=tool.fingerprint,
                verdict="reject" if is_no else "approve",
                by=None,
                at=self.book.now,
                message=record.sticky_rejection_message if is_no else None,
                path=self.path,
            )
        )


def _delivery(state: SdkState) -> tuple[e.Delivery, str | None]:
    if state.conversation_id is not None:
        return "conversation", state.conversation_id
    if state.auto_previous_response_id:
        return "auto", None
    return ("chained", state.previous_response_id) if state.previous_response_id is not None else ("own", None)


def _guardrails(state: SdkState) -> list[e.GuardrailRecord]:
    return [
        e.GuardrailRecord(each.guardrail.name or "", each.output.tripwire_triggered, each.output.output_info)
        for each in state.input_guardrail_results
    ]


def _outputs(state: SdkState) -> dict[str, list[SdkItem]]:
    """The outputs by the label of their call, in the order of the calls. A filter may have emptied one of the lists."""
    found: defaultdict[str, list[SdkItem]] = defaultdict(list)
    for items in (state.session_items, state.generated_items):
        here: defaultdict[str, list[SdkItem]] = defaultdict(list)
        for item in items:
            if _is_output(item):
                here[_label(item.raw_item)].append(item)
        found.update({label: outputs for label, outputs in here.items() if len(outputs) > len(found[label])})
    return {label: outputs for label, outputs in found.items() if outputs}


def _is_output(item: SdkItem) -> bool:
    kind = item.raw_item.get("type")
    return kind == APPROVAL_RESPONSE or (isinstance(kind, str) and kind.endswith("_output"))


def _label(raw: JsonObject) -> str:
    """The provider's label of a call, or of the call that an output is of."""
    field = "approval_request_id" if raw.get("type") == APPROVAL_RESPONSE else label_field(raw)
    return str(raw.get(field) or "")


def _text(item: SdkItem | None) -> Json:
    """What the model reads of a call."""
    if item is None:
        return FILTERED_AWAY
    raw = item.raw_item
    if raw.get("type") == APPROVAL_RESPONSE:
        return str(raw.get("reason") or ("" if raw.get("approve") is True else NOT_APPROVED))
    return raw.get("output")


def _before(response: Response, items: list[SdkItem]) -> list[SdkItem]:
    """The items that stood there when this response came: it is the last one, so its first item is looked for from the
    end."""
    first = _content(response.output[0]) if response.output else None
    starts = [index for index, item in enumerate(items) if not _is_approval(item) and _content(item.raw_item) == first]
    return items[: starts[-1]] if starts else items


def _is_approval(item: SdkItem) -> bool:
    return item.type == "tool_approval_item"


def _content(item: JsonObject) -> bytes:
    return canonical({name: value for name, value in item.items() if value is not None and name != "status"})


def _told(item: JsonObject) -> bytes:
    """What an item says, whatever its call is labelled: a label that came twice is made unique in what we send."""
    return _content({name: value for name, value in item.items() if name != "call_id"})


def _is_in(label: str, decided: bool | list[str]) -> bool:
    return isinstance(decided, list) and label in decided


def _is_rejected(approval: SdkApprovalRecord | None, label: str, output: Json) -> bool:
    """Whether an ended call was rejected. Under a standing no its text tells: others may have run before it."""
    if approval is None:
        return False
    if approval.names(label):
        return _is_in(label, approval.rejected)
    return approval.rejected is True and output in (NOT_APPROVED, approval.sticky_rejection_message)
