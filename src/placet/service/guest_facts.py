"""What follows in a guest's session: the facts that a proposal, a decision, a time that has come or a report amount to.

Pure, like core: each function notes facts on a draft, which applies them to the fold at once, so that the next
function sees what the last one did. Nothing is written here.
"""

from __future__ import annotations

from typing import Literal

from placet.core.claim import AskedAnew, ClaimRefused, TakenBack
from placet.core.deciding import asked_anew
from placet.core.fold import apply
from placet.core.gate import Ask, Free, Verdict, digest_of
from placet.core.guest import Proposal, is_idle
from placet.core.policy import Question, first_deadline
from placet.core.state import Call, RunFold
from placet.core.transitions import CONCLUDABLE, RUNNABLE, Status
from placet.facts.codec import Json, JsonObject
from placet.facts.events import (
    AnyFact,
    ArgumentsValidated,
    CallEnded,
    CallHeld,
    CallInDoubt,
    CallsAllowed,
    CallsProposed,
    CallsStarted,
    DecisionRevoked,
    LateReport,
    PlainFact,
    ProposedCall,
    RunCancelled,
    RunEnded,
    SessionClosed,
)
from placet.runtime.ending import CANCELLED
from placet.runtime.execute import GIVEN_UP, NOT_APPROVED, NOT_SETTLED
from placet.runtime.gating import ends_by_time
from placet.runtime.output import as_answer

MAX_ATTEMPTS = 3
"""So often a guest may begin a call again by itself, if each time nobody learned what happened to it."""
MAX_LATE_REPORTS = 10
"""Of one call: a guest that tells something else each time does not make the log grow without bound."""
GONE = "its guest claimed it and did not report in time, so it is unknown whether it happened"
UNKNOWN = "its guest says that it was broken off, and that it is unknown whether it happened"
WITHDRAWN = "This call was not carried out: its guest withdrew it."
SESSION_OVER = "This call was not carried out: its session was closed."
RELEASED = "The guest was let go ahead. It cannot report, so what became of the call is unknown here."

Reported = Literal["finished", "failed"]


class Draft:
    """Facts that are about to be appended to a run, and the fold with them."""

    def __init__(self, run: RunFold) -> None:
        self.run = run
        self.facts: list[AnyFact] = []

    def note(self, fact: PlainFact) -> None:
        apply(self.run, fact)
        self.facts.append(fact)


def propose(draft: Draft, proposed: ProposedCall, values: JsonObject | None) -> Call:
    """The first half of an append: the call is proposed, and `judged` says in the second half what becomes of it. There
    is no moment in which it is neither allowed nor held."""
    draft.note(CallsProposed([proposed]))
    call = next(reversed(draft.run.calls.values()))
    if values is not None:
        draft.note(ArgumentsValidated(call.id, values))
    return call


def judged(draft: Draft, call: Call, verdict: Verdict, proposal: Proposal, now: float) -> None:
    """What is said about a proposed call: it may run, a person is asked, or its guest reads why not."""
    match verdict:
        case Free():
            draft.note(CallsAllowed([call.id]))
        case Ask():
            within, at_deadline = first_deadline(proposal.decide_within, proposal.at_deadline, verdict.question)
            until = None if within is None else round(now + within, 3)
            draft.note(_question(draft.run, call, verdict.why, until, at_deadline))
        case str():
            draft.note(CallEnded(call.id, "denied", verdict))
        case _:
            raise AssertionError("the arguments of a guest's call were checked before")


def _question(
    run: RunFold, call: Call, why: str | None, until: float | None, at_deadline: Literal["reject", "escalate"]
) -> CallHeld:
    proposed = _proposed(call)
    digest = digest_of(run.path, run.response_agent, proposed.tool, proposed.fingerprint, _asked(call))
    deadline = at_deadline if until is not None else None
    rules = call.policy.rules if call.policy is not None else None
    return CallHeld(
        call.id,
        digest,
        proposed.tool,
        proposed.fingerprint,
        why,
        until,
        deadline,
        None,
        irreversible=False,
        rules=rules,
    )


def _proposed(call: Call) -> ProposedCall:
    assert call.proposed is not None, "a call of a guest"
    return call.proposed


def _asked(call: Call) -> JsonObject:
    """The guest's own arguments, as validated."""
    found = call.values if call.values is not None else call.effective
    return found or {}


def digest_now(run: RunFold, call: Call) -> str:
    """The digest of what would run: the tool as it was declared, with the arguments as they were decided."""
    proposed = _proposed(call)
    return digest_of(run.path, run.response_agent, proposed.tool, proposed.fingerprint, call.effective or {})


def follow_up(draft: Draft, now: float, last: float) -> None:
    """All that is due: deadlines, ends of what was decided, the end of a session. `last`: when the log last grew."""
    run = draft.run
    for _, fact in ends_by_time(run, now):
        draft.note(fact)
    _conclude(draft)
    if run.cancel_asked is not None:
        _close(draft, CANCELLED, statuses=None)
    idle = run.guest.idle_seconds if run.guest is not None else None
    if run.cancel_asked is None and idle is not None and last + idle <= now and is_idle(run):
        if run.closed is None:
            draft.note(SessionClosed("idle"))
        _close(draft, SESSION_OVER, statuses=RUNNABLE)  # nobody claimed them
    if run.closed is not None and run.closed.why == "closed":
        close(draft)
    if run.open_calls == 0 and not run.has_ended:
        if run.cancel_asked is not None:
            draft.note(RunCancelled())
        elif run.closed is not None:
            draft.note(RunEnded(None))


def _conclude(draft: Draft) -> None:
    """Give rejected, answered and given-up calls the one output that their guest reads."""
    for call in [each for each in draft.run.calls.values() if each.status in CONCLUDABLE]:
        decision = call.decision
        match call.status:
            case Status.REJECTED:
                message = draft.run.ledger.message(call.name, call.id)
                draft.note(CallEnded(call.id, "rejected", NOT_APPROVED if message is None else message))
            case Status.ANSWERED:
                draft.note(CallEnded(call.id, "answered", as_answer(decision.output if decision is not None else None)))
            case _:
                message = decision.message if decision is not None else None
                draft.note(CallEnded(call.id, "failed", GIVEN_UP if message is None else message))


def close(draft: Draft) -> None:
    """End what waits, or may run and was not claimed."""
    _close(draft, SESSION_OVER, statuses=None)


def _close(draft: Draft, text: str, statuses: frozenset[Status] | None) -> None:
    """End what is open, each call with an output. What somebody executes right now ends by its report, or in doubt."""
    for call in list(draft.run.calls.values()):
        if call.status in (Status.ENDED, Status.STARTED) or (statuses is not None and call.status not in statuses):
            continue
        may_have_begun = call.status in (Status.IN_DOUBT, Status.CLEARED)
        draft.note(CallEnded(call.id, "cancelled", NOT_SETTLED if may_have_begun else text))


def withdraw(draft: Draft, call: Call) -> None:
    draft.note(CallEnded(call.id, "cancelled", WITHDRAWN))


def start(draft: Draft, call: Call, permit: str) -> None:
    """The claim. Of a guest that cannot report, also the end: what becomes of the call is unknown here."""
    draft.note(CallsStarted([call.id], permit))
    if draft.run.guest is not None and not draft.run.guest.reports:
        draft.note(CallEnded(call.id, "released", RELEASED))


def doubt(draft: Draft, call: Call, why: str) -> None:
    """A person is asked whether it happened. What was reported late about an earlier attempt is said there."""
    proposed = _proposed(call)
    evidence = "".join(f". An earlier attempt was reported late as {each.outcome}" for each in call.late_reports)
    digest = digest_now(draft.run, call)
    draft.note(CallInDoubt(call.id, digest, proposed.tool, proposed.fingerprint, why + evidence))


def void(
    draft: Draft,
    call: Call,
    verdict: ClaimRefused | AskedAnew | TakenBack,
    now: float,
    question: Question | None = None,
) -> None:
    """The last look before a claim objects: the approval does not count, and a person is asked, or nobody is."""
    if isinstance(verdict, TakenBack):
        revoked = DecisionRevoked(call.id, None, now, verdict.why)
        for fact in asked_anew(draft.run, call, verdict.why, revoked):
            apply(draft.run, fact)
            draft.facts.append(fact)
    elif call.status is Status.CLEARED:
        doubt(draft, call, verdict.why)
    elif isinstance(verdict, AskedAnew):
        within, at_deadline = first_deadline(None, "reject", question)
        until = None if within is None else round(now + within, 3)
        draft.note(_question(draft.run, call, verdict.why, until, at_deadline))
    else:
        draft.note(CallEnded(call.id, "denied", f"Tool '{call.name}' was not run: {verdict.why}."))


def report(draft: Draft, call: Call, permit: str, outcome: Reported, output: Json) -> bool:
    """What a guest says became of a call that it claimed under this permit. Whether that settles it.

    In time it is the call's end. Late, it is evidence, and the end too unless the call was begun again since, or has
    ended otherwise: running it again after it was reported would be the worse mistake.
    """
    is_last_claim = call.permit == permit
    if call.status is Status.STARTED and is_last_claim:
        draft.note(CallEnded(call.id, outcome, output))
        return True
    evidence = LateReport(call.id, permit, outcome, output)
    if evidence not in call.late_reports and len(call.late_reports) < MAX_LATE_REPORTS:
        draft.note(evidence)
    if is_last_claim and call.status in (Status.IN_DOUBT, Status.CLEARED):
        draft.note(CallEnded(call.id, outcome, output))
        return True
    return False
