"""The calls of a turn: how a response becomes calls, how facts change them, what is left when all have ended.

Part of the fold. A fact that cannot follow raises IllegalTransition and changes nothing, so checks come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from placet.core.approvals import Asking, Entry
from placet.core.elicitation import answers_of
from placet.core.state import Call, RunFold
from placet.core.transitions import Move, Status, after
from placet.core.voting import approvers_required, ladder_set, rung_climbed, vote_cast, vote_taken_back
from placet.facts import events as e
from placet.facts.codec import JsonObject, canonical, encode
from placet.facts.errors import IllegalTransition
from placet.facts.ids import local_call_id
from placet.facts.native_items import EndedCall, asked_in, native_of, note_on

# -- from a response to its calls -------------------------------------------------------------------------------------

HOSTED_MCP = "hosted_mcp"
"""The kind of a tool that the model's provider calls itself, on an MCP server, once it may."""


def hosted_identity(server: str, name: str) -> str:
    """By what approvals and grants know a tool of an MCP server that the provider talks to."""
    return f"{HOSTED_MCP}:{server.replace('%', '%25').replace(':', '%3A')}:{name}"


APPROVAL_REQUEST, APPROVAL_RESPONSE = "mcp_approval_request", "mcp_approval_response"
NAMED_CALLS = frozenset({"function_call", APPROVAL_REQUEST})
"""Calls that say the tool's name and its arguments: of a function, or a hosted call that wants a yes or no."""


def is_call(item: JsonObject) -> bool:
    """Whether the item asks the runtime for an output."""
    kind = item.get("type")
    if kind == "function_call":  # nearly all, several times a turn
        return True
    return isinstance(kind, str) and (kind in NAMED_CALLS or native_of(item) is not None)


def problem_with(output: Sequence[JsonObject]) -> str | None:
    """Why no run can continue with this output, or None."""
    if not output:
        return "it is empty"
    for item in output:
        kind = item.get("type")
        if not isinstance(kind, str):
            return "an item has no type"
        problem = _problem_with_call(item) if is_call(item) else None
        if problem is not None:
            return problem
    return None


def _problem_with_call(item: JsonObject) -> str | None:
    native = native_of(item)
    if native is not None:
        return f"a '{item['type']}' does not say what to do" if native.arguments(item) is None else None
    name, arguments = item.get("name"), item.get("arguments", "")
    if not isinstance(name, str) or not name:
        return "a call names no tool"
    if not isinstance(arguments, str):
        return f"the arguments of the call of '{name}' are not a text"
    if item["type"] == APPROVAL_REQUEST and not (item.get("id") and isinstance(item.get("server_label"), str)):
        return f"the request to approve '{name}' has no id or names no MCP server"
    return None


def is_result(item: JsonObject) -> bool:
    """Whether the provider itself did something here, such as making an image: an answer may consist of that alone."""
    return str(item.get("type")).endswith("_call") and not is_call(item)


def plan_calls(
    path: str, turn: int, output: Sequence[JsonObject], seen_labels: set[str]
) -> Iterator[tuple[JsonObject, Call | None]]:
    """Each item as it stands in the history that we send, with its call if it is one. `seen_labels` learns the labels.

    Where the provider's label is missing or stood before, the call gets one from its own place: so it is the same
    after every load.
    """
    index = 0
    for item in output:
        if not is_call(item):
            yield item, None
            continue
        local = local_call_id(path, turn, index)
        is_hosted = item["type"] == APPROVAL_REQUEST
        field = "id" if is_hosted else "call_id"
        label = item.get(field)
        if isinstance(label, str) and label and label not in seen_labels:
            sent, shown = label, item
        else:
            sent = _label_from_place(str(label or "call"), local, seen_labels)
            shown = {**item, field: sent}
        seen_labels.add(sent)
        index += 1
        name, arguments, native = asked_in(item)
        server = str(item.get("server_label") or "") if is_hosted else None
        yield shown, Call(local, item, name, arguments, str(label or ""), sent, native, server)


def label_field(item: JsonObject) -> str:
    """Where the provider's label of a call stands."""
    return "id" if item.get("type") == APPROVAL_REQUEST else "call_id"


def _label_from_place(label: str, local: str, seen: set[str]) -> str:
    made = f"{label}_{local.replace('/', '_').replace('.', '-')}"
    while made in seen:  # a provider may have used even this
        made += "_"
    return made


# -- what facts do to them --------------------------------------------------------------------------------------------


def _call(run: RunFold, call: str) -> Call:
    try:
        return run.calls[call]
    except KeyError:
        raise IllegalTransition(f"There is no call {call} in the open turn.") from None


_BEGUN = (Status.STARTED, Status.ELICITED, Status.SUPPLIED)


def _arguments_validated(run: RunFold, fact: e.ArgumentsValidated) -> None:
    call = _call(run, fact.call)
    if call.status is Status.ENDED or (call.values is not None and call.status in _BEGUN):
        raise IllegalTransition(f"Call {call.id} has begun with its values: they cannot change any more.")
    call.values = fact.values


def _policy_judged(run: RunFold, fact: e.PolicyJudged) -> None:
    call = _call(run, fact.call)
    if call.status is Status.ENDED:
        raise IllegalTransition(f"Call {call.id} has ended: no rule speaks about it any more.")
    call.policy = fact


def _calls_allowed(run: RunFold, fact: e.CallsAllowed) -> None:
    _move_all(run, fact.calls, Move.ALLOW)


def _calls_deferred(run: RunFold, fact: e.CallsDeferred) -> None:
    _move_all(run, fact.calls, Move.DEFER)


def _calls_started(run: RunFold, fact: e.CallsStarted) -> None:
    _move_all(run, fact.calls, Move.START)
    for each in fact.calls:
        call = run.calls[each]
        call.attempts += 1
        call.permit = fact.permit


def _move_all(run: RunFold, calls: list[str], move: Move) -> None:
    statuses: dict[str, Status] = {}
    for each in calls:
        statuses[each] = after(_call(run, each).status, move, each)
    for each, status in statuses.items():
        run.calls[each].status = status


def _call_held(run: RunFold, fact: e.CallHeld) -> None:
    _ask_about(run, fact, Move.HOLD)


def _call_in_doubt(run: RunFold, fact: e.CallInDoubt) -> None:
    _ask_about(run, fact, Move.DOUBT)


def _input_asked(run: RunFold, fact: e.InputAsked) -> None:
    if not fact.questions:
        raise IllegalTransition(f"Call {fact.call} asks nothing: it cannot be answered.")
    _ask_about(run, fact, Move.ELICIT)
    call = run.calls[fact.call]
    call.questions, call.asked_state, call.answers = fact.questions, fact.state, None


def _ask_about(run: RunFold, fact: e.CallHeld | e.CallInDoubt | e.InputAsked, move: Move) -> None:
    call = _call(run, fact.call)
    call.status = after(call.status, move, call.id)
    call.request += 1
    call.digest = fact.digest
    call.why = None if isinstance(fact, e.InputAsked) else fact.why
    call.expires_at = None if isinstance(fact, e.CallInDoubt) else fact.expires_at
    call.at_expiry = None if isinstance(fact, e.CallInDoubt) else fact.at_expiry
    call.decision = call.not_before = None
    if isinstance(fact, e.CallHeld):  # asked anew about the model's own arguments; in doubt is what ran, edited or not
        call.edited = None
    entry = Entry(
        call=call.id,
        label=call.label,
        tool=fact.tool,
        fingerprint=fact.fingerprint,
        agent=run.response_agent,
        arguments=call.effective_text,
        request=call.request,
        digest=call.digest,
        name=call.name,
        decide_by=call.expires_at if call.at_expiry == "reject" else None,
        proposed=call.arguments,
        values=msgspec.UNSET if call.values is None else canonical(call.values).decode(),
    )
    before = run.ledger.entry(call.id)
    entry = _with_what_the_tool_says(entry, fact, before)
    if before is not None and before.ballot is not None:  # an elicitation only keeps what the next question needs
        same = before.ballot if isinstance(fact, e.InputAsked) else before.ballot.anew(call.request)
        entry = msgspec.structs.replace(entry, ballot=same)
    if isinstance(fact, e.InputAsked):
        ran_under = before.ruling if before is not None else None
        entry = Asking(**msgspec.structs.asdict(entry), questions=fact.questions, ran_under=ran_under)
    run.ledger.ask(entry)


def _with_what_the_tool_says(
    entry: Entry, fact: e.CallHeld | e.CallInDoubt | e.InputAsked, before: Entry | None
) -> Entry:
    """A doubt, or a question of the call's own, does not change what the tool says of itself."""
    said = fact if isinstance(fact, e.CallHeld) else before
    if said is None or (said.summary is None and not said.irreversible and said.undo_window is None):
        return entry
    return msgspec.structs.replace(
        entry, summary=said.summary, irreversible=said.irreversible, undo_window=said.undo_window
    )


def _question_escalated(run: RunFold, fact: e.QuestionEscalated) -> None:
    call = _call(run, fact.call)
    if call.status not in (Status.HELD, Status.ELICITED):
        raise IllegalTransition(f"Call {call.id} does not wait: nothing can be escalated.")
    call.expires_at = call.at_expiry = None


_DECIDING: dict[e.Verdict, Move] = {
    "approve": Move.APPROVE,
    "edit": Move.APPROVE,
    "reject": Move.REJECT,
    "respond": Move.RESPOND,
}


def _decision_made(run: RunFold, fact: e.DecisionMade) -> None:
    call = _call(run, fact.call)
    if fact.request != call.request or (fact.digest != call.digest and fact.verdict != "edit"):
        raise IllegalTransition(f"The decision about call {call.id} is about something else than what waits.")
    if call.status is Status.ELICITED and fact.verdict == "edit":
        raise IllegalTransition(f"Call {call.id} asks for input: its arguments cannot be edited any more.")
    call.status = after(call.status, _DECIDING[fact.verdict], call.id)
    call.decision, call.not_before = fact, None
    if call.status is Status.SUPPLIED and call.questions is not None:
        call.answers = answers_of(call.questions, fact)
    if fact.arguments is not None:
        call.edited = fact.arguments
    run.ledger.record(fact)


def _claim_delayed(run: RunFold, fact: e.ClaimDelayed) -> None:
    call = _call(run, fact.call)
    if call.status is not Status.APPROVED or fact.request != call.request:
        raise IllegalTransition(f"Call {call.id} is not approved by that decision: there is nothing to delay.")
    call.not_before = fact.not_before


def _delay_over(run: RunFold, fact: e.DelayOver) -> None:
    _call(run, fact.call).not_before = None


def _decision_revoked(run: RunFold, fact: e.DecisionRevoked) -> None:
    call = _call(run, fact.call)
    call.status = after(call.status, Move.REVOKE, call.id)
    call.decision = call.not_before = None
    call.was_revoked = True
    if call.status is Status.HELD:
        entry = run.ledger.entry(call.id)
        ballot = entry.open_ballot if entry is not None else None
        call.edited = ballot.arguments if ballot is not None else None
    if call.status is Status.ELICITED:
        call.answers = None
    run.ledger.reopen(call.id)


def _grant_made(run: RunFold, fact: e.GrantMade) -> None:
    run.ledger.add_grant(fact)


def _budget_taken(run: RunFold, fact: e.BudgetTaken) -> None:
    """The store adds up. Here it only has to be about a call that may begin."""
    call = _call(run, fact.call)
    after(call.status, Move.START, call.id)


def _grant_revoked(run: RunFold, fact: e.GrantRevoked) -> None:
    run.ledger.remove_grant(fact)


_ENDING: dict[e.Outcome, Move] = {
    "finished": Move.FINISH,
    "failed": Move.FINISH,
    "rejected": Move.REFUSE,
    "answered": Move.REFUSE,
    "denied": Move.REFUSE,
    "expired": Move.CLOSE,
    "superseded": Move.CLOSE,
    "cancelled": Move.CLOSE,
    "released": Move.FINISH,
}


def _call_ended(run: RunFold, fact: e.CallEnded) -> None:
    call = _call(run, fact.call)
    outcome, status = fact.outcome, call.status
    move = _ENDING[outcome]
    if status is not Status.STARTED or move is not Move.FINISH:
        _check_outcome(run, call, outcome)
        move = Move.REFUSE if status is Status.GIVEN_UP else move
    call.status = after(status, move, call.id)
    if run.children:
        _close_child(run, call)
    call.outcome = outcome
    call.output = fact.output
    if call.request:
        run.ledger.close(call.id)
    run.open_calls -= 1
    if run.open_calls == 0 and run.guest is None:  # a guest keeps its own history
        _close_turn(run)


_ONLY_OUTCOME: dict[Status, e.Outcome] = {
    Status.REJECTED: "rejected",
    Status.ANSWERED: "answered",
    Status.GIVEN_UP: "failed",
}
"""Decided calls end as they were decided."""


def _check_outcome(run: RunFold, call: Call, outcome: e.Outcome) -> None:
    if _ONLY_OUTCOME.get(call.status, outcome) != outcome:
        raise IllegalTransition(f"Call {call.id} is {call.status.value}: it cannot end as {outcome}.")
    is_doubtful = call.status in (Status.IN_DOUBT, Status.CLEARED)
    if is_doubtful and _ENDING[outcome] is Move.FINISH and call.proposed is None:
        raise IllegalTransition(f"Call {call.id} is in doubt: only the program that executes it can report late.")
    if call.status is Status.STARTED and _ENDING[outcome] is Move.CLOSE and call.id not in run.children:
        raise IllegalTransition(f"Call {call.id} is running: only its own end, or doubt, can follow.")


def _close_child(run: RunFold, call: Call) -> None:
    """With its call a nested run is over: nothing in it can be decided any more."""
    child = run.children.get(call.id)
    if child is not None and not child.has_ended:
        for _, waiting in child.waiting():
            run.ledger.close(waiting.id)


def _late_report(run: RunFold, fact: e.LateReport) -> None:
    call = _call(run, fact.call)
    call.late_reports = (*call.late_reports, fact)


# -- the end of a turn ------------------------------------------------------------------------------------------------


def _close_turn(run: RunFold) -> None:
    """Every call has its output: from here on the turn can be sent, stored, or be the end."""
    for call in run.calls.values():
        item = output_item(call, call.sent_label)
        run.history.append(item)
        run.outbox.append(item if call.label in ("", call.sent_label) else output_item(call, call.label))
    for call in run.calls.values():  # behind the outputs, which belong together
        note_item = None if call.native_kind is None else note_on(_ended(call, call.sent_label))
        if note_item is not None:
            run.history.append(note_item)
            run.outbox.append(note_item)
    if run.waiting_input:
        add_input(run, run.waiting_input)
        run.waiting_input = []


def _ended(call: Call, label: str) -> EndedCall:
    return EndedCall(call.item, label, call.outcome in ("finished", "answered"), call.output)


def output_item(call: Call, label: str) -> JsonObject:
    """What a model reads of a call that has ended; of a hosted one its provider reads whether it may go on."""
    if call.server is not None:
        answer: JsonObject = {"type": APPROVAL_RESPONSE, "approval_request_id": label}
        if call.outcome == "finished":
            return {**answer, "approve": True}
        return {**answer, "approve": False, "reason": call.output if isinstance(call.output, str) else ""}
    if call.native_kind is not None:
        native = native_of(call.item)
        assert native is not None, "it said so when the call was planned"
        answer = native.answer(_ended(call, label))
    else:
        answer = {"type": "function_call_output", "call_id": label, "output": call.output}
    return answer if "caller" not in call.item else _for_program(call, answer)


def _for_program(call: Call, answer: JsonObject) -> JsonObject:
    """The answer to a call that a program of the provider's made: it says so, and what went wrong is JSON too."""
    failed = call.outcome not in ("finished", "answered") and isinstance(answer.get("output"), str)
    told: JsonObject = {"output": encode({"error": answer["output"]}).decode()} if failed else {}
    return {**answer, **told, "caller": call.item["caller"]}


def as_items(given: str | list[JsonObject]) -> list[JsonObject]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def add_input(run: RunFold, items: list[JsonObject]) -> None:
    run.history.extend(items)
    run.outbox.extend(items)
    for item in items:  # a history that was given as input may hold calls of its own
        label = item.get(label_field(item))
        if isinstance(label, str):
            run.seen_labels.add(label)


CALL_APPLIERS: dict[
    type[e.Fact], Callable[[RunFold, Any], None]
] = {  # Any: each function takes the fact of its own key
    e.ArgumentsValidated: _arguments_validated,
    e.PolicyJudged: _policy_judged,
    e.CallsAllowed: _calls_allowed,
    e.CallsDeferred: _calls_deferred,
    e.CallsStarted: _calls_started,
    e.CallHeld: _call_held,
    e.CallInDoubt: _call_in_doubt,
    e.InputAsked: _input_asked,
    e.DecisionMade: _decision_made,
    e.ApproversRequired: approvers_required,
    e.VoteCast: vote_cast,
    e.VoteTakenBack: vote_taken_back,
    e.ClaimDelayed: _claim_delayed,
    e.DelayOver: _delay_over,
    e.DecisionRevoked: _decision_revoked,
    e.GrantMade: _grant_made,
    e.BoundedGrantMade: _grant_made,
    e.BudgetTaken: _budget_taken,
    e.GrantRevoked: _grant_revoked,
    e.CallEnded: _call_ended,
    e.QuestionEscalated: _question_escalated,
    e.LadderSet: ladder_set,
    e.RungClimbed: rung_climbed,
    e.LateReport: _late_report,
}
