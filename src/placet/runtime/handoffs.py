"""Handing over: when all other calls of a turn have ended, the conversation goes to another agent."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from placet.core.calls import APPROVAL_REQUEST, APPROVAL_RESPONSE, as_items, output_item
from placet.core.state import Call
from placet.declare.handoff import Handoff, HandoffInputData, HandoffInputFilter, HandoffItem, nest_handoff_history
from placet.declare.tool_values import InvalidArguments
from placet.facts.codec import JsonObject, encode, fresh, same_value
from placet.facts.errors import UserError
from placet.facts.events import AgentChanged, ArgumentsValidated, CallEnded, HistoryRewritten
from placet.facts.items import Item, as_run_item
from placet.facts.native_items import NATIVE
from placet.runtime.frame import Frame, awaited
from placet.states.run_state import as_input

ONLY_ONE = "Only one handoff can take place in a turn, and an earlier call of this turn is one. This one was ignored."


async def hand_over(frame: Frame, call: Call) -> None:
    """Perform a handoff: tell the callback, give the call its output, change the agent, all of it or nothing."""
    source = frame.agent
    found = source.handoff_named(call.name)
    assert found is not None, "it was claimed"
    problem = await _notify(frame, found, call)
    if problem is not None:
        frame.note(CallEnded(call.id, "failed", problem))
        return
    target = frame.graph.after_handoff(frame.run.starting_agent, found.agent)
    output = encode({"assistant": found.agent_name}).decode()
    chosen = found.input_filter or frame.config.handoff_input_filter or _nesting(frame, found)
    rewritten = await _filtered(frame, chosen, call, output) if chosen is not None else None
    frame.note(CallEnded(call.id, "finished", output))
    if rewritten is not None:
        frame.note(rewritten)
    frame.note(AgentChanged(target))
    left = frame.all_hooks
    frame.look_again()
    if left or frame.all_hooks:
        await frame.journal.commit()
    for hooks in left:  # of the run, and of the agent that hands over
        await hooks.on_handoff(frame.context, source, found.agent)
    for hooks in frame.all_hooks:  # of the run, and of the agent that takes over
        await hooks.on_agent_start(frame.context, found.agent)


async def _notify(frame: Frame, found: Handoff, call: Call) -> str | None:
    """Call `on_handoff`; what is wrong with the model's input, if something is."""
    if found.on_handoff is None:
        return None
    if found.input_type is None:
        await awaited(found.on_handoff(frame.context))
        return None
    arguments = call.effective
    try:
        if arguments is None:
            raise InvalidArguments("they are not one JSON object")
        data = found.validated(arguments).bound
    except InvalidArguments as error:
        return f"The handoff did not take place, because its input is invalid:\n{error}"
    await awaited(found.on_handoff(frame.context, data))
    return None


def settle_handoff(frame: Frame, call: Call) -> None:
    """Store what validation makes of a handoff's input, when it is proposed. Input that does not fit is answered when
    the handoff would take place."""
    found, arguments = frame.agent.handoff_named(call.name), call.effective
    if found is None or found.input_type is None or arguments is None:
        return
    try:
        values = found.validated(arguments).values
    except Exception:  # noqa: BLE001  # a validator of the user's may raise anything: it does so again
        return
    if not same_value(arguments, values):
        frame.note(ArgumentsValidated(call.id, values))


async def _filtered(frame: Frame, chosen: HandoffInputFilter, call: Call, output: str) -> HistoryRewritten:
    """What the next agent reads, as the filter wants it: computed before anything is noted, so that it may fail."""
    run = frame.run
    turn = max(run.input_length, len(run.history) - len(run.last_output))
    own: JsonObject = {"type": "function_call_output", "call_id": call.sent_label, "output": output}
    outputs = [own if each is call else output_item(each, each.sent_label) for each in run.calls.values()]
    data = HandoffInputData(
        tuple(fresh(run.history[: run.input_length])),
        tuple(as_run_item(frame.agent, item) for item in fresh(run.history[run.input_length : turn])),
        tuple(as_run_item(frame.agent, item) for item in fresh([*run.history[turn:], *outputs])),
        frame.context,
    )
    kept = await awaited(chosen(data))
    if not isinstance(kept, HandoffInputData):
        raise UserError(f"A handoff's input_filter gives back a HandoffInputData, not a {type(kept).__name__}.")
    before = as_items(kept.input_history) if isinstance(kept.input_history, str) else kept.input_history
    turn_items = kept.new_items if kept.input_items is None else kept.input_items
    items = as_input([*before, *map(_raw, (*kept.pre_handoff_items, *turn_items))])
    assert isinstance(items, list)
    whole = paired(items)
    first = {id(item) for item in items[: len(before)]}
    return HistoryRewritten(whole, sum(id(item) in first for item in whole))


def _raw(item: HandoffItem) -> JsonObject:
    return item.to_input_item() if isinstance(item, Item) else item


def _nesting(frame: Frame, found: Handoff) -> HandoffInputFilter | None:
    """The filter that tells the conversation as a story, where the handoff or the configuration wants it."""
    wanted = found.nest_handoff_history
    if not (frame.config.nest_handoff_history if wanted is None else wanted):
        return None
    return functools.partial(nest_handoff_history, history_mapper=frame.config.handoff_history_mapper)


def paired(items: list[JsonObject]) -> list[JsonObject]:
    """The items without calls that lost their output and outputs that lost their call: no provider takes those."""
    labels = {
        kind: {str(item.get(field)) for item in items if item.get("type") == kind} for kind, field in _LABELLED.items()
    }
    whole = {kind: labels[kind] & labels[_PARTNER[kind]] for kind in _LABELLED}
    return [item for item in items if (kind := str(item.get("type"))) not in whole or _label(item, kind) in whole[kind]]


_OUTPUT_OF = {
    "function_call": "function_call_output",
    APPROVAL_REQUEST: APPROVAL_RESPONSE,
    **{kind: native.output for kind, native in NATIVE.items()},
}
_PARTNER = {**_OUTPUT_OF, **{output: call for call, output in _OUTPUT_OF.items()}}
_LABELLED = {
    **dict.fromkeys(_PARTNER, "call_id"),
    APPROVAL_REQUEST: "id",
    APPROVAL_RESPONSE: "approval_request_id",
    **{native.output: native.output_label for native in NATIVE.values()},
}


def _label(item: JsonObject, kind: str) -> str:
    return str(item.get(_LABELLED[kind]))


def output_labels(items: Sequence[JsonObject]) -> set[str]:
    """The labels of the calls whose outputs, or answers to the provider, are among the items."""
    kinds = frozenset(_OUTPUT_OF.values())
    return {_label(item, str(item["type"])) for item in items if item.get("type") in kinds}


def check_handoffs(frame: Frame) -> None:
    """Refuse, before anything runs, what a conversation that the server keeps cannot express."""
    seen: set[int] = set()
    queue = [frame.agent]
    while queue:
        agent = queue.pop()
        if id(agent) in seen:
            continue
        seen.add(id(agent))
        for each in agent.all_handoffs:
            if each.input_filter is not None or frame.config.handoff_input_filter is not None:
                raise UserError(
                    f"The handoff from '{agent.name}' to '{each.agent_name}' has an input filter, and the server keeps "
                    "this run's history, which cannot be rewritten. Leave the filter out, or keep the history here."
                )
            queue.append(each.agent)
