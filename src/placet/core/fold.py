"""The fold: how each fact changes the state. Every change of a run passes through `apply`.

A fact that cannot follow the facts before it raises IllegalTransition and changes nothing; so checks come first in
each function. What changes single calls stands in `calls.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from placet.core.calls import CALL_APPLIERS, add_input, as_items, plan_calls
from placet.core.state import RunFold
from placet.core.transitions import Status
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.errors import IllegalTransition
from placet.facts.ids import path_of


def fold(facts: Iterable[e.AnyFact], into: RunFold | None = None) -> RunFold:
    run = RunFold() if into is None else into
    for fact in facts:
        apply(run, fact)
    return run


def apply(run: RunFold, fact: e.AnyFact) -> None:
    """Change the run as the fact says, or raise IllegalTransition and change nothing."""
    kind = type(fact)
    if kind is e.InChild:
        _apply_in_child(run, fact)  # type: ignore[arg-type]  # narrowed by kind; isinstance costs more than the rest
        return
    if run.started is (kind is e.RunStarted) or run.has_ended:
        state = "has ended" if run.has_ended else "has begun" if run.started else "has not begun"
        raise IllegalTransition(f"The run {state}: {type(fact).__name__} cannot follow.")
    _APPLIERS[kind](run, fact)


def _apply_in_child(run: RunFold, fact: e.InChild) -> None:
    found = run.find(fact.path)
    if found is not None and found is not run:
        apply(found, fact.fact)
        if isinstance(fact.fact, e.ResponseReceived | e.ResponseUnusable) and fact.fact.usage is not None:
            _add_usage_above(run, fact.path, fact.fact.usage)
        return
    parent = run.find(path_of(fact.path))
    call = parent.calls.get(fact.path) if parent is not None else None
    if parent is None or call is None or call.status is not Status.STARTED or not isinstance(fact.fact, e.RunStarted):
        raise IllegalTransition(f"There is no started call {fact.path} in which a run could be nested.")
    child = RunFold(fact.path, run.ledger)
    apply(child, fact.fact)
    parent.children[fact.path] = child


def _add_usage_above(run: RunFold, path: str, usage: e.Usage) -> None:
    """What a nested run used, the runs around it used too."""
    while path:
        path = path_of(path)
        owner = run.find(path)
        if owner is not None:
            owner.usage.add(usage)


# -- the run ----------------------------------------------------------------------------------------------------------


def _run_started(run: RunFold, fact: e.RunStarted) -> None:
    run.started = True
    run.starting_agent = run.agent = run.response_agent = fact.agent
    run.max_turns = fact.max_turns
    run.delivery = fact.delivery
    run.server_id = fact.server_id
    run.session, run.session_place = fact.session, fact.session_place
    run.context = fact.context
    run.started_by = fact.by
    run.session_written = fact.session_length
    run.session_total = fact.session_total
    add_input(run, as_items(fact.input))
    run.input_length = len(run.history)


def _run_forked(run: RunFold, fact: e.RunForked) -> None:
    run.origins = (*run.origins, fact.origin)
    for member in run.family():
        for call in member.calls.values():
            if call.attempts and call.started_in is None:
                call.started_in = fact.origin


def _turn_limit_set(run: RunFold, fact: e.TurnLimitSet) -> None:
    run.max_turns = fact.max_turns


def _input_added(run: RunFold, fact: e.InputAdded) -> None:
    if fact.id and fact.id in run.input_ids:
        raise IllegalTransition(f"The input {fact.id} was added before.")
    run.input_ids |= {fact.id}
    run.has_new_input = True
    if run.open_calls:
        run.waiting_input.extend(fact.items)
    else:
        add_input(run, fact.items)


def _agent_changed(run: RunFold, fact: e.AgentChanged) -> None:
    if run.open_calls:
        raise IllegalTransition("A handoff cannot take place while calls of the turn are open.")
    run.agent = fact.agent


def _history_rewritten(run: RunFold, fact: e.HistoryRewritten) -> None:
    if run.open_calls or run.delivery != "own":
        raise IllegalTransition("Only a history of our own, between two turns, can be rewritten.")
    run.session_backlog = [*run.session_backlog, *run.history[run.session_written :]]
    run.history = list(fact.items)
    run.input_length = fact.input_length
    run.session_written = len(run.history)  # what the filter made is for the next agent, not for the session
    run.seen_labels = {label for item in fact.items if isinstance(label := item.get("call_id"), str)}
    run.own_from = len(run.history) if run.own_from else 0  # what the filter kept may be of before


def _run_stopped(run: RunFold, fact: e.RunStopped) -> None:
    run.stopped = (fact.code, fact.message)


def _cancel_asked(run: RunFold, fact: e.CancelAsked) -> None:
    run.cancel_asked = run.cancel_asked or fact


def _resume_asked(run: RunFold, _fact: e.ResumeAsked) -> None:
    run.stopped = None


def _own_history_chosen(run: RunFold, _fact: e.OwnHistoryChosen) -> None:
    """A lost request does not matter any more: sent anew, it begins a branch of its own."""
    if run.delivery == "own":
        raise IllegalTransition("The run sends its own history already.")
    if run.request == "sent":
        raise IllegalTransition("A request is on its way: who keeps the history cannot change before its answer.")
    run.delivery = "own"
    run.own_from = len(run.history)
    run.request = "none"
    run.in_flight = 0
    run.newest_item = run.sent_after = None
    run.may_be_at_work = False


def _run_cancelled(run: RunFold, _fact: e.RunCancelled) -> None:
    if run.open_calls:
        raise IllegalTransition("A run cannot end while a call has no output.")
    run.has_ended = True
    run.stopped = None


def _context_saved(run: RunFold, fact: e.ContextSaved) -> None:
    run.context = fact.value


def _of_no_run(_run: RunFold, fact: e.Fact) -> None:
    raise IllegalTransition(f"{type(fact).__name__} is a fact of the operators' log, not of a run.")


def _erased(_run: RunFold, _fact: e.Erased) -> None:
    raise IllegalTransition("What stood here was erased: nothing follows from it any more.")


def _run_ended(run: RunFold, fact: e.RunEnded) -> None:
    if run.open_calls:
        raise IllegalTransition("A run cannot end while a call has no output.")
    run.has_ended = True
    run.final_output = fact.output
    run.stopped = None


def _guardrails_judged(run: RunFold, fact: e.GuardrailsJudged) -> None:
    if fact.kind == "input":
        run.input_judged = True
        run.tripped = next((each for each in fact.results if each.tripped), None)


def _turn_judged(run: RunFold, _fact: e.TurnJudged) -> None:
    if run.open_calls:
        raise IllegalTransition("A turn is judged when all of its calls have ended.")
    run.judged_turn = run.turn


def _session_writing(run: RunFold, fact: e.SessionWriting) -> None:
    _require_session(run, fact.end)
    run.session_writing = fact.end


def _session_written(run: RunFold, fact: e.SessionWritten) -> None:
    _require_session(run, fact.end)
    run.session_total += len(run.session_backlog) + fact.end - run.session_written - fact.left_out
    run.session_backlog = []
    run.session_written = fact.end
    run.session_writing = None


def _require_session(run: RunFold, end: int) -> None:
    if run.session is None or not run.session_written <= end <= run.closed_length:
        raise IllegalTransition("Only whole turns of a run with a session are written into it, each once.")


# -- the model --------------------------------------------------------------------------------------------------------


def _request_sent(run: RunFold, fact: e.RequestSent) -> None:
    if run.open_calls:
        raise IllegalTransition("The model cannot be asked while a call of the turn has no output.")
    if run.request != "none" and run.delivery == "conversation":
        raise IllegalTransition(
            "It must be known whether the conversation took the last request before another is sent."
        )
    run.request = "sent"
    run.in_flight = len(run.outbox)
    run.sent_after = run.newest_item = fact.after
    run.has_new_input = False
    run.stopped = None


def _request_refused(run: RunFold, _fact: e.RequestRefused) -> None:
    _require_request(run)
    run.request = "none"
    run.in_flight = 0


def _request_lost(run: RunFold, _fact: e.RequestLost) -> None:
    _require_request(run)
    run.request = "lost"


def _request_settled(run: RunFold, fact: e.RequestSettled) -> None:
    _require_request(run)
    if fact.taken:
        _acknowledge(run)
        run.newest_item = None
    run.may_be_at_work = not fact.taken
    run.request = "none"
    run.in_flight = 0


def _response_received(run: RunFold, fact: e.ResponseReceived) -> None:
    _require_request(run)
    _acknowledge(run)
    run.request = "none"
    run.may_be_at_work = False
    run.newest_item = _id_of_last(fact.output)
    run.turn += 1
    run.responses += 1
    run.response_agent = run.agent
    run.usage.add(fact.usage)
    run.last_response_id = fact.response_id
    run.last_output = fact.output
    run.children = {}
    run.calls = {}
    for item, call in plan_calls(run.path, run.turn, fact.output, run.seen_labels):
        run.history.append(item)
        if call is not None:
            run.calls[call.id] = call
    run.open_calls = len(run.calls)


def _id_of_last(output: list[JsonObject]) -> str | None:
    found = output[-1].get("id") if output else None
    return found if isinstance(found, str) and found else None


def _response_unusable(run: RunFold, fact: e.ResponseUnusable) -> None:
    _require_request(run)
    run.may_be_at_work = False
    run.newest_item = None
    if fact.usage is not None:
        run.usage.add(fact.usage)
    if run.delivery == "conversation":  # the server keeps what it was given, whatever it answered
        _acknowledge(run)
    run.request = "none"
    run.in_flight = 0


def _require_request(run: RunFold) -> None:
    if run.request == "none":
        raise IllegalTransition("There is no request to the model that this could be about.")


def _acknowledge(run: RunFold) -> None:
    del run.outbox[: run.in_flight]
    run.in_flight = 0


# -- guests -----------------------------------------------------------------------------------------------------------


def _guest_admitted(run: RunFold, fact: e.GuestAdmitted) -> None:
    if run.guest is not None or run.responses or run.request != "none":
        raise IllegalTransition("A run is a guest's session from its beginning, or never.")
    run.guest = fact


def _calls_proposed(run: RunFold, fact: e.CallsProposed) -> None:
    """Proposals come whenever the guest likes: each is a turn of its own, beside those that are open."""
    if run.guest is None:
        raise IllegalTransition("Only a guest proposes calls.")
    if run.closed is not None or run.cancel_asked is not None:
        raise IllegalTransition("The session takes no more proposals.")
    run.turn += 1
    items = [each.item for each in fact.calls]
    planned = [call for _, call in plan_calls(run.path, run.turn, items, run.seen_labels) if call is not None]
    if len(planned) != len(items):
        raise IllegalTransition("A proposal holds calls, and nothing else.")
    for call, proposed in zip(planned, fact.calls, strict=True):
        call.proposed = proposed
        run.calls[call.id] = call
    run.open_calls += len(planned)


def _session_closed(run: RunFold, fact: e.SessionClosed) -> None:
    if run.guest is None or run.closed is not None:
        raise IllegalTransition("Only a guest's session is closed, and only once.")
    run.closed = fact


_APPLIERS: dict[type[e.Fact], Callable[[RunFold, Any], None]] = {  # Any: each function takes the fact of its own key
    e.RunStarted: _run_started,
    e.RunForked: _run_forked,
    e.TurnLimitSet: _turn_limit_set,
    e.InputAdded: _input_added,
    e.AgentChanged: _agent_changed,
    e.TurnJudged: _turn_judged,
    e.GuardrailsJudged: _guardrails_judged,
    e.SessionWriting: _session_writing,
    e.SessionWritten: _session_written,
    e.HistoryRewritten: _history_rewritten,
    e.RunStopped: _run_stopped,
    e.CancelAsked: _cancel_asked,
    e.ResumeAsked: _resume_asked,
    e.OwnHistoryChosen: _own_history_chosen,
    e.RunCancelled: _run_cancelled,
    e.ContextSaved: _context_saved,
    e.RunEnded: _run_ended,
    e.RequestSent: _request_sent,
    e.RequestRefused: _request_refused,
    e.RequestLost: _request_lost,
    e.RequestSettled: _request_settled,
    e.ResponseReceived: _response_received,
    e.ResponseUnusable: _response_unusable,
    e.GuestAdmitted: _guest_admitted,
    e.CallsProposed: _calls_proposed,
    e.SessionClosed: _session_closed,
    **CALL_APPLIERS,
    e.HoldPlaced: _of_no_run,
    e.HoldLifted: _of_no_run,
    e.StandingGrantMade: _of_no_run,
    e.RunErased: _of_no_run,
    e.RunsDeleted: _of_no_run,
    e.UserChanged: _of_no_run,
    e.PasswordChanged: _of_no_run,
    e.InvitationChanged: _of_no_run,
    e.TokenChanged: _of_no_run,
    e.PasskeyChanged: _of_no_run,
    e.IdentityTied: _of_no_run,
    e.FourEyesSet: _of_no_run,
    e.PolicyChanged: _of_no_run,
    e.ReportedAfterEnd: _of_no_run,
    e.SubscriptionChanged: _of_no_run,
    e.ApproversSet: _of_no_run,
    e.DelegationMade: _of_no_run,
    e.DelegationEnded: _of_no_run,
    e.RotationSet: _of_no_run,
    e.GlassReviewed: _of_no_run,
    e.ChatLinkChanged: _of_no_run,
    e.BudgetGivenBack: _of_no_run,
    e.Erased: _erased,
}
