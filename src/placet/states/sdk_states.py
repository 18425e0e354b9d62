"""States that the OpenAI Agents SDK wrote, read into a log of our own: what happened becomes facts, what waits is held,
what was decided is staged without a name, and what cannot be known is refused by name."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from placet.core.fold import apply, as_items
from placet.core.gate import digest_of
from placet.core.log import Log
from placet.core.state import Call, RunFold
from placet.declare.agent import Agent, AgentTool
from placet.declare.agent_graph import AgentGraph
from placet.declare.tool import Tool
from placet.facts import events as e
from placet.facts.codec import JsonObject, NotPlain, parse_arguments, plain_item
from placet.facts.errors import StateRefused

VERSION = "$schemaVersion"
NEWEST = (1, 21)
"""The newest schema that this code knows: that of openai-agents 0.24."""
_NOT_KNOWN = "what it did is not known here"
IN_DOUBT = "the state says that it was begun, and not how it ended"


@dataclass(slots=True)
class Moved:
    """A foreign state as a run of ours, and what was decided on it."""

    log: Log
    run: RunFold
    decided: list[Decided] = field(default_factory=list)
    context: Any = None
    added: list[JsonObject] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Decided:
    """What somebody decided before the state was written: nobody wrote down who."""

    call: str
    """The call's id within the run."""
    is_approved: bool
    is_standing: bool
    message: str | None = None


def foreign(data: object) -> Mapping[str, Any] | None:
    """The state as JSON, if it is one of the Agents SDK's."""
    if isinstance(data, str) and VERSION in data:
        try:
            data = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
    return data if isinstance(data, Mapping) and VERSION in data else None


def move_in(agent: Agent[Any], data: Mapping[str, Any], log: Log, at: float) -> Moved:
    """Read a state. StateRefused names what cannot be taken over."""
    _check_version(data)
    moving = _Moving(AgentGraph(agent), data)
    moving.replay("", agent.address, data)
    if moving.facts:
        log.append(log.next_line(at, moving.facts))
    found = Moved(log, moving.run, moving.decided, _context(data))
    found.added = as_items(_items(data.get("pending_input") or [], "pending_input"))
    return found


def _check_version(data: Mapping[str, Any]) -> None:
    said = data.get(VERSION)
    parts = str(said).split(".")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise StateRefused(f"The state is of the Agents SDK, and its schema {said!r} is no version.")
    version = (int(parts[0]), int(parts[1]))
    if version > NEWEST:
        newest = ".".join(map(str, NEWEST))
        raise StateRefused(
            f"The state is of the Agents SDK, in its schema {said}; this version of Placet knows those up to {newest}."
        )


def _context(data: Mapping[str, Any]) -> Any:
    wrapped = data.get("context")
    meta = wrapped.get("context_meta") if isinstance(wrapped, Mapping) else None
    if isinstance(meta, Mapping) and meta.get("omitted"):
        return None
    return wrapped.get("context") if isinstance(wrapped, Mapping) else None


def _items(given: object, where: str) -> list[JsonObject]:
    if not isinstance(given, list):
        raise StateRefused(f"The state's {where} is no list of items.")
    try:
        return [plain_item(item, f"{where}[{place}]") for place, item in enumerate(given)]
    except (NotPlain, TypeError) as error:
        raise StateRefused(f"The state's {where} cannot be read: {error}.") from error


class _Moving:
    """Replays what a state tells as facts, each of which the fold must allow."""

    def __init__(self, graph: AgentGraph, outermost: Mapping[str, Any]) -> None:
        self.graph = graph
        self.outermost = outermost
        """The whole state: what was decided about calls of nested runs stands there."""
        self.run = RunFold()
        self.facts: list[e.AnyFact] = []
        self.decided: list[Decided] = []

    def note(self, path: str, fact: e.PlainFact) -> None:
        entry = e.InChild(path, fact) if path else fact
        apply(self.run, entry)
        self.facts.append(entry)

    def fold(self, path: str) -> RunFold:
        found = self.run.find(path)
        assert found is not None, "its beginning was noted"
        return found

    # -- one run, or one nested in it --------------------------------------------------------------------------------

    def replay(self, path: str, address: str, data: Mapping[str, Any]) -> None:
        _refuse_what_cannot_be_known(data)
        self.note(path, _started(address, data))
        outputs = _Outputs(_items(_raw(data.get("generated_items")), "generated_items"))
        responses = data.get("model_responses") or []
        for number, response in enumerate(responses, 1):
            self.note(path, e.RequestSent())
            self.note(path, _received(response))
            self._calls(path, data, outputs, is_last=number == len(responses))
        self._check_agent(path, data)

    def _check_agent(self, path: str, data: Mapping[str, Any]) -> None:
        said = data.get("current_agent")
        name = said.get("name") if isinstance(said, Mapping) else None
        at_work = self.graph.at(self.fold(path).agent).name
        if name != at_work:
            raise StateRefused(
                f"The state says that agent '{name}' is at work, and what it tells of leads to '{at_work}': start "
                "from the agent that the run began with."
            )

    def _calls(self, path: str, data: Mapping[str, Any], outputs: _Outputs, *, is_last: bool) -> None:
        run = self.fold(path)
        agent = self.graph.at(run.response_agent)
        handoffs = [call for call in run.calls.values() if agent.handoff_named(call.name) is not None]
        if handoffs:
            self.note(path, e.CallsDeferred([call.id for call in handoffs]))
        for call in [call for call in run.calls.values() if call not in handoffs]:
            output = outputs.of(call)
            if output is not None:
                self._ended(path, agent, call, output)
            elif is_last:
                self._open(path, agent, call, data)
            else:
                raise StateRefused(f"The state holds no output of the call '{call.label}' of '{call.name}'.")
        self._hand_over(path, agent, handoffs, outputs)

    def _ended(self, path: str, agent: Agent[Any], call: Call, output: JsonObject) -> None:
        if call.server is not None:
            answer = "approved" if output.get("approve") else "rejected"
            raise StateRefused(f"The state's call of '{call.name}' was {answer} at its provider: {_NOT_KNOWN}.")
        self.note(path, e.CallsAllowed([call.id]))
        self.note(path, e.CallsStarted([call.id]))
        self.note(path, e.CallEnded(call.id, "finished", output.get("output", "")))

    def _hand_over(self, path: str, agent: Agent[Any], handoffs: list[Call], outputs: _Outputs) -> None:
        for number, call in enumerate(handoffs):
            output = outputs.of(call)
            if output is None:
                continue
            if number:
                self.note(path, e.CallEnded(call.id, "denied", output.get("output", "")))
                continue
            found = agent.handoff_named(call.name)
            assert found is not None, "it was found by this name"
            self.note(path, e.CallsStarted([call.id]))
            self.note(path, e.CallEnded(call.id, "finished", output.get("output", "")))
            target = self.graph.after_handoff(self.fold(path).starting_agent, found.agent)
            self.note(path, e.AgentChanged(target))

    # -- calls that are open -----------------------------------------------------------------------------------------

    def _open(self, path: str, agent: Agent[Any], call: Call, data: Mapping[str, Any]) -> None:
        tool = agent.tool_of(call)
        if tool is None:
            raise StateRefused(f"The state waits for tool '{call.name}', which agent '{agent.name}' does not have.")
        inner = _nested_state(data, call)
        if isinstance(tool, AgentTool) and inner is not None:
            self.note(path, e.CallsAllowed([call.id]))
            self.note(path, e.CallsStarted([call.id]))
            address = self.graph.behind_tool(self.fold(path).response_agent, tool)
            self.replay(call.id, address, inner)
            return
        digest = self._digest(path, call, tool)
        if _is_begun(data, call):
            self.note(path, e.CallsAllowed([call.id]))
            self.note(path, e.CallsStarted([call.id]))
            self.note(path, e.CallInDoubt(call.id, digest, tool.identity, tool.fingerprint, IN_DOUBT))
            return
        if _waits(data, call):
            self.note(path, e.CallHeld(call.id, digest, tool.identity, tool.fingerprint))
            words = [*_decisions(data, agent.name, call), *_decisions(self.outermost, agent.name, call)]
            self.decided.extend(words[:1])

    def _digest(self, path: str, call: Call, tool: Tool) -> str:
        arguments = parse_arguments(call.arguments)
        shown = call.arguments if arguments is None else arguments
        return digest_of(path, self.fold(path).response_agent, tool.identity, tool.fingerprint, shown)


class _Outputs:
    """The outputs of calls, by their label, each taken once: a provider may repeat a label."""

    def __init__(self, items: list[JsonObject]) -> None:
        self._left: dict[str, deque[JsonObject]] = defaultdict(deque)
        for item in items:
            if str(item.get("type", "")).endswith("_output") or item.get("type") == "mcp_approval_response":
                label = item.get("call_id") or item.get("approval_request_id")
                self._left[str(label)].append(item)

    def of(self, call: Call) -> JsonObject | None:
        left = self._left.get(call.label)
        return left.popleft() if left else None


def _raw(items: object) -> list[Any]:
    """The raw items of what happened. A question is no item of its own: it is about a call."""
    given = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return [item.get("raw_item") for item in given if item.get("type") != "tool_approval_item"]


def _refuse_what_cannot_be_known(data: Mapping[str, Any]) -> None:
    if data.get("pending_session_write"):
        raise StateRefused(
            "The state holds a write to a session that was not finished: let the Agents SDK finish it, then move in."
        )
    if data.get("sandbox"):
        raise StateRefused("The state is of a run in a sandbox, and Placet has none.")
    if not data.get("model_responses") and data.get("current_step"):
        raise StateRefused("The state waits, and holds no answer of a model that it could wait for.")


def _started(address: str, data: Mapping[str, Any]) -> e.RunStarted:
    given = data.get("original_input")
    items = given if isinstance(given, str) else _items(given, "original_input")
    delivery: e.Delivery = "own"
    server_id: str | None = None
    if data.get("conversation_id"):
        delivery, server_id = "conversation", str(data["conversation_id"])
    elif data.get("auto_previous_response_id"):
        delivery = "auto"
    elif data.get("previous_response_id"):
        delivery, server_id = "chained", str(data["previous_response_id"])
    turns = data.get("max_turns")
    return e.RunStarted(address, items, turns if isinstance(turns, int) else None, delivery, server_id)


def _received(response: object) -> e.ResponseReceived:
    if not isinstance(response, Mapping):
        raise StateRefused("The state's model_responses hold something that is no response.")
    usage = response.get("usage")
    figures: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    names = ("requests", "input_tokens", "output_tokens", "total_tokens")
    counted = e.Usage(*(int(figures.get(name) or 0) for name in names))
    output = _items(response.get("output"), "a response's output")
    ids = [response.get(name) for name in ("response_id", "request_id")]
    response_id, request_id = (each if isinstance(each, str) else None for each in ids)
    return e.ResponseReceived(response_id, output, counted, request_id)


def _waits(data: Mapping[str, Any], call: Call) -> bool:
    step = data.get("current_step")
    inner = step.get("data") if isinstance(step, Mapping) else None
    waiting = inner.get("interruptions") if isinstance(inner, Mapping) else None
    return any(_label(each) == call.label for each in waiting or [] if isinstance(each, Mapping))


def _label(item: Mapping[str, Any]) -> str:
    raw = item.get("raw_item")
    found = raw.get("call_id") or raw.get("id") if isinstance(raw, Mapping) else None
    return str(found)


def _is_begun(data: Mapping[str, Any], call: Call) -> bool:
    context = data.get("context")
    known = context.get("tool_invocations") if isinstance(context, Mapping) else None
    found = known.get(call.label) if isinstance(known, Mapping) else None
    return isinstance(found, Mapping) and bool(found.get("executed"))


def _nested_state(data: Mapping[str, Any], call: Call) -> Mapping[str, Any] | None:
    processed = data.get("last_processed_response")
    functions = processed.get("functions") if isinstance(processed, Mapping) else None
    for each in functions or []:
        made = each.get("tool_call") if isinstance(each, Mapping) else None
        if isinstance(made, Mapping) and made.get("call_id") == call.label:
            inner = each.get("agent_run_state")
            return inner if isinstance(inner, Mapping) else None
    return None


def _decisions(data: Mapping[str, Any], agent: str, call: Call) -> Iterator[Decided]:
    """What was decided about a call: as today's SDK writes it (by agent and tool), or as it used to (by tool)."""
    context = data.get("context")
    if not isinstance(context, Mapping):
        return
    records: list[Mapping[str, Any]] = []
    old = context.get("approvals")
    if isinstance(old, Mapping):
        records += [each for name, each in old.items() if name.rpartition(".")[2] == call.name]
    for entry in context.get("function_tool_approvals") or []:
        owner = entry.get("agent", {}).get("name")
        if owner == agent and str(entry.get("tool_key")).rpartition(".")[2] == call.name:
            records.append(entry.get("decision") or {})
    for record in records:
        yield from _of_record(record, call)


def _of_record(record: Mapping[str, Any], call: Call) -> Iterator[Decided]:
    """An exact word about the call counts before one about all calls; a no before a yes."""
    approved, rejected = record.get("approved"), record.get("rejected")
    messages = record.get("rejection_messages")
    message = messages.get(call.label) if isinstance(messages, Mapping) else None
    if isinstance(rejected, list) and call.label in rejected:
        yield Decided(call.id, False, False, message)
    elif isinstance(approved, list) and call.label in approved:
        yield Decided(call.id, True, False)
    elif rejected is True:
        yield Decided(call.id, False, True, message or record.get("sticky_rejection_message"))
    elif approved is True:
        yield Decided(call.id, True, True)
