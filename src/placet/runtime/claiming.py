"""Claims: the one place that begins calls. `core/claim.py` judges what may begin, at the last moment before it does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

import msgspec

from placet.core import casting
from placet.core.approver_rules import objection_by_rules, rules_for, with_rules
from placet.core.budget import Bound
from placet.core.casting import authors_of, names_in
from placet.core.claim import (
    AskedAnew,
    AskedOthers,
    Claim,
    ClaimRefused,
    LeaseLost,
    Passed,
    PolicyObjection,
    SetAside,
    TakenBack,
    Verdict,
    judge_claim,
)
from placet.core.deciding import asked_anew
from placet.core.four_eyes import why_decision_does_not_count
from placet.core.gate import is_first_version
from placet.core.holds import Hold
from placet.core.state import Call
from placet.core.transitions import RUNNABLE, Status
from placet.declare.tool import Tool
from placet.facts.errors import ModelBehaviorError, UserError
from placet.facts.events import (
    ApproversRequired,
    CallEnded,
    CallInDoubt,
    CallsStarted,
    DecisionMade,
    DecisionRevoked,
    DelayOver,
    GrantMade,
    Pattern,
    VoteCast,
)
from placet.facts.requirements import ANYBODY, Assurance, Needs, Requirement
from placet.facts.voting_settings import VotingSettings
from placet.runtime.budgets import NOTHING_BOUND, Covered, bound_of_grant, look
from placet.runtime.casting import known_for, note_requirement, requirements_of
from placet.runtime.frame import Frame, Job
from placet.runtime.gating import digest_now, digest_of_asking, hold
from placet.runtime.granting import grants_that_decided
from placet.runtime.policing import objections
from placet.runtime.receipting import Signed, sign_receipts, with_receipt
from placet.runtime.validating import ready_job, settle_values, still_means_the_same

_NOTHING: Mapping[str, PolicyObjection] = {}
_NONE_SIGNED: Mapping[str, Signed] = {}
PROVIDER_MAY_CALL = "Approved: the model's provider may call the tool."


async def claim(frame: Frame, calls: Sequence[Call]) -> list[Job]:
    """Look at these calls for the last time and claim those that may begin; the claims are durable then. The jobs that
    have a tool function to run."""
    jobs: list[Job] = []
    claimed: list[str] = []
    ended: list[str] = []
    issuer = frame.config.receipts
    receipts = _NONE_SIGNED if issuer is None else await sign_receipts(frame, issuer, calls)
    passed, covered = await examine(frame, calls)
    for looked_at in passed:  # from here to the claims nothing is awaited
        each = looked_at if issuer is None else with_receipt(frame, looked_at, receipts)
        if each is None:
            continue  # something else was decided, or ruled, while it was signed: the loop looks at it again
        call = each.call
        if call.id in covered.facts:
            for taken in covered.facts[call.id]:
                frame.note(taken)  # in the append of the claim: both are written, or neither
        if call.id not in frame.run.children:  # a nested run that goes on was claimed when it began
            claimed.append(call.id)
        if call.server is not None:
            ended.append(call.id)
        else:
            jobs.append(_ready(frame, each))
    if claimed:
        # One fact for all that start now: a crash behind it leaves each of them in doubt, and none of them forgotten.
        frame.note(CallsStarted(claimed))
        for call_id in ended:  # the provider calls it: that it may is all that is to be said
            frame.note(CallEnded(call_id, "finished", PROVIDER_MAY_CALL))
        await frame.journal.commit()  # the claims are durable before the first effect
    return jobs


def _ready(frame: Frame, job: Job) -> Job:
    decision = job.call.decision
    if decision is not None and is_first_version(decision.digest) and job.call.edited is None:
        settle_values(frame, job.call, job.tool)  # approved as the model wrote it: validation speaks as it did then
    ready = ready_job(frame, job.call, job.tool)
    return ready if job.receipt is None else msgspec.structs.replace(ready, receipt=job.receipt)


async def claim_handoff(frame: Frame, call: Call) -> bool:
    """The same for a handoff, which no person is asked about: whether it takes place now."""
    found = frame.agent.handoff_named(call.name)
    if found is None:
        owner = frame.agent.name
        raise UserError(
            f"Call {call.id} hands over by '{call.name}', which agent '{owner}' no longer has: declare it again."
        )
    is_enabled = call.status is not Status.DEFERRED or await found.is_on(frame.context, frame.agent)
    holds = await frame.journal.store.holds()
    verdict = judge_claim(_claim(frame, call, Known(holds), is_enabled=is_enabled))
    if isinstance(verdict, Passed):
        frame.note(CallsStarted([call.id]))
        await frame.journal.commit()
        return True
    _carry_out(frame, call, None, verdict)
    return False


async def examine(frame: Frame, calls: Sequence[Call]) -> tuple[list[Job], Covered]:
    """Judge calls that are about to begin. Those that may, with what they take of budgets; what becomes of the others
    is noted."""
    seen = await _last_look(frame, calls)
    # Nothing is awaited from here on: a decision that came in between would be judged by what was known before it.
    jobs = [job for each in calls if (job := _job_if_it_may_begin(frame, each.id, seen)) is not None]
    return jobs, seen.covered


class _LastLook(msgspec.Struct, frozen=True):
    """All that had to be awaited before calls can be judged."""

    off: Collection[str]
    """Calls whose tool is switched off."""
    known: Known
    needed: Mapping[str, Requirement | None]
    against: Mapping[str, PolicyObjection]
    covered: Covered


async def _last_look(frame: Frame, calls: Sequence[Call]) -> _LastLook:
    # From the slowest to the freshest: user code may take minutes, in which people hold, revoke and vote. What the
    # store says is read behind it, or the look would be as old as the slowest rule.
    if frame.agent.mcp_servers:
        await _look_at_servers(frame, calls)
    off = await _switched_off(frame, calls)  # user code, which may take forever, so it comes first
    decided = [call for call in calls if call.decision is not None]
    known = await _known(frame, decided)
    needed: dict[str, Requirement | None] = {}  # of this look: the policy adds what edited calls need
    if decided:
        judged = [(call, frame.tool_of(call)) for call in decided if _is_judged(frame, call)]
        needed = await requirements_of(frame, judged)
    against: Mapping[str, PolicyObjection] = _NOTHING
    covered = await _look_at_budgets(frame, calls, known) if known.grants else NOTHING_BOUND
    if frame.config.policy is not None:
        against, by_rules = await objections(frame, frame.config.policy, calls, needed)
        covered |= by_rules
    if decided and known.voting.settings.rules:
        against = {**_by_rules(frame, decided, known.voting.settings, needed), **against}
    return _LastLook(off, known, needed, against, covered)


def _by_rules(
    frame: Frame, decided: Sequence[Call], settings: VotingSettings, needed: dict[str, Requirement | None]
) -> Mapping[str, PolicyObjection]:
    """What the desk's rules about approvers, as they are now, have against calls that were decided. What an edited call
    needs by them is added to `needed`."""
    found: dict[str, PolicyObjection] = {}
    for call in decided:
        rules = rules_for(settings, frame.run.response_agent, call.name)
        if call.id in frame.run.children or not rules:
            continue
        if call.id in needed or _is_judged(frame, call):
            needed[call.id] = with_rules(needed.get(call.id, _declared(frame, call)), rules)
        objection = objection_by_rules(frame.run, call, rules)
        if objection is not None:
            found[call.id] = objection
    return found


def _declared(frame: Frame, call: Call) -> Requirement | None:
    """What the call needs by its tool, where that does not depend on the arguments."""
    tool = frame.tool_of(call)
    return tool.approvers.requirement if tool is not None and isinstance(tool.approvers, Needs) else None


def _job_if_it_may_begin(frame: Frame, call_id: str, seen: _LastLook) -> Job | None:
    call = frame.run.calls.get(call_id)
    if call is None or (call.status not in RUNNABLE and call.status is not Status.STARTED):
        return None  # another decision was made in between: the loop looks at it again
    tool = _tool_of(frame, call)
    if tool is None:
        return None
    verdict = judge_claim(_claim_of(frame, call, tool, seen))
    if isinstance(verdict, Passed):
        return as_it_runs(call, tool)
    if isinstance(verdict, AskedOthers):
        _ask_others(frame, call, tool, seen.needed[call.id])
    else:
        _carry_out(frame, call, tool, verdict, seen.against.get(call.id))
    return None


def _claim_of(frame: Frame, call: Call, tool: Tool, seen: _LastLook) -> Claim:
    """What the one judgement is given: the call as the store, the policy and the budgets see it now."""
    needs_more = call.id in seen.needed and seen.needed[call.id] != _requirement(frame, call)
    claimed = _claim(frame, call, seen.known, tool, is_enabled=call.id not in seen.off, needs_more=needs_more)
    if not seen.against and not seen.covered.why_not:
        return claimed
    objection, not_covered = seen.against.get(call.id), seen.covered.why_not.get(call.id)
    return msgspec.structs.replace(claimed, policy=objection, not_covered=not_covered)


async def _look_at_budgets(frame: Frame, calls: Sequence[Call], known: Known) -> Covered:
    """What is left for calls that a standing decision or a rule let through within a budget."""
    grants = {grant.id: bound for grant in known.grants if (bound := bound_of_grant(grant)) is not None}
    if not grants:
        return NOTHING_BOUND
    found: list[tuple[Call, Sequence[Bound]]] = []
    for call in calls:
        grant = call.decision.grant if call.decision is not None else None
        if grant in grants and call.id not in frame.run.children:
            found.append((call, [grants[grant]]))
    return await look(frame.journal.store, frame.run_id, found, frame.journal.now())


def _is_judged(frame: Frame, call: Call) -> bool:
    """Whether it has to be asked again what a call needs: a desk without its code could not ask what an edit needs."""
    return call.edited is not None and call.status is Status.APPROVED and call.id not in frame.run.children


def _requirement(frame: Frame, call: Call) -> Requirement | None:
    entry = frame.run.ledger.entry(call.id)
    ballot = entry.open_ballot if entry is not None else None
    return ballot.requirement if ballot is not None else None


def _ask_others(frame: Frame, call: Call, tool: Tool, needed: Requirement | None) -> None:
    """Put an edited call before those who have to approve it. The reviewer's word is the first vote."""
    decision, edited = call.decision, call.edited
    assert decision is not None, "it was approved"
    assert edited is not None, "it was edited"
    why = f"{decision.by or 'an unnamed person'} changed the arguments, and that needs others' approval"
    digest = digest_now(frame.run, call, tool)
    asked = msgspec.structs.replace(hold(frame, call, tool, why), digest=digest)
    entry = frame.run.ledger.entry(call.id)
    cast = entry.open_ballot.votes if entry is not None and entry.open_ballot is not None else ()
    none: Assurance = "none"
    assurance = next((vote.assurance for vote in cast if vote.by == decision.by), none)
    vote = VoteCast(
        call.id, call.request + 1, digest, "approve", decision.by, decision.at, decision.reason, assurance=assurance
    )
    frame.note(asked)
    frame.note(ApproversRequired(call.id, needed or ANYBODY, [vote], edited, decision.by))


async def _known(frame: Frame, decided: Sequence[Call]) -> Known:
    store = frame.journal.store
    if not decided:  # four eyes and grants concern what a person decided
        return Known(await store.holds())
    grants = await grants_that_decided(store, frame.run_id, frame.run, decided)
    entries = [frame.run.ledger.entry(call.id) for call in decided]
    votes = [vote for entry in entries if entry is not None and entry.open_ballot for vote in entry.open_ballot.votes]
    needs_people = any(entry is not None and entry.open_ballot for entry in entries)
    four_eyes = await store.four_eyes()
    names = names_in(frame.journal.run, votes) | authors_of(grants)
    names |= {call.decision.by for call in decided if call.decision is not None and call.decision.by is not None}
    if needs_people or four_eyes:
        votes_known = await known_for(store, names, four_eyes)
    else:  # of one word of anybody, only the desk's rules have more to say
        votes_known = casting.Known(settings=await store.voting_settings())
    return Known(await store.holds(), four_eyes, grants, votes_known)


class Known(msgspec.Struct, frozen=True):
    """What the store says at this moment."""

    holds: Sequence[Hold] = ()
    four_eyes: Sequence[Pattern] = ()
    grants: Sequence[GrantMade] = ()
    """Those that decided the calls and still stand."""
    voting: casting.Known = casting.Known()
    """Those who voted, or have another part in the calls, and how voting is set."""


def _not_carried(frame: Frame, call: Call, known: Known, grant: GrantMade | None) -> str | None:
    entry = frame.run.ledger.entry(call.id)
    if call.decision is None or entry is None or entry.open_ballot is None:
        return None
    return casting.why_not_carried(frame.journal.run, entry, call.decision, grant, known.voting)


def _claim(
    frame: Frame, call: Call, known: Known, tool: Tool | None = None, *, is_enabled: bool, needs_more: bool = False
) -> Claim:
    decision, root = call.decision, frame.journal.run
    used = decision.grant if decision is not None else None
    grant = next((grant for grant in known.grants if grant.id == used), None) if used is not None else None
    return Claim(
        call=call,
        run_id=frame.run_id,
        agent=frame.run.response_agent,
        now=frame.journal.now(),
        has_lease=frame.journal.has_lease,
        is_cancelled=frame.journal.run.cancel_asked is not None,
        holds=known.holds,
        goes_on=call.id in frame.run.children,
        is_enabled=is_enabled,
        digests=_digests(frame, call, tool, decision) if decision is not None and tool is not None else (),
        means_the_same=tool is None or decision is None or _means_the_same(frame, call, tool, decision),
        not_theirs=why_decision_does_not_count(known.four_eyes, known.voting.people, root, decision)
        if known.four_eyes and decision is not None
        else None,
        valid_for=tool.approval_valid_for if tool is not None else None,
        grant=grant,
        not_carried=_not_carried(frame, call, known, grant),
        needs_more=needs_more,
    )


def _digests(frame: Frame, call: Call, tool: Tool, decision: DecisionMade) -> tuple[str, ...]:
    """What would run now, as it would be asked about, in the version of what was decided."""
    like = decision.digest
    if call.status is Status.SUPPLIED:
        return (digest_of_asking(frame.run, call, tool, call.questions or {}, like=like),)
    plain = digest_now(frame.run, call, tool, like=like)
    if call.status is Status.STARTED and call.questions is not None:  # it ran under an answer, or again after a doubt
        return plain, digest_of_asking(frame.run, call, tool, call.questions, like=like)
    return (plain,)


def _means_the_same(frame: Frame, call: Call, tool: Tool, decision: DecisionMade) -> bool:
    is_settled = call.status is Status.SUPPLIED or call.id in frame.run.children or is_first_version(decision.digest)
    return is_settled or still_means_the_same(frame, call, tool)


def _carry_out(
    frame: Frame, call: Call, tool: Tool | None, verdict: Verdict, objection: PolicyObjection | None = None
) -> None:
    """Do what the last look says about a call that does not begin."""
    has_begun = call.status in (Status.STARTED, Status.CLEARED, Status.SUPPLIED)
    match verdict:
        case LeaseLost():
            frame.journal.require_lease()
            raise AssertionError("a lease that was lost does not come back")
        case SetAside(until):
            _set_aside(frame, call, until)
        case TakenBack(why) if call.status is not Status.STARTED:
            revoked = DecisionRevoked(call.id, None, frame.journal.now(), why)
            frame.journal.note_all(asked_anew(frame.run, call, why, revoked))
        case ClaimRefused(why) | AskedAnew(why) | TakenBack(why) if has_begun and tool is not None:
            frame.note(in_doubt(frame, as_it_runs(call, tool), why))
        case ClaimRefused(why):
            approved = ", although it was approved" if call.decision is not None else ""
            frame.note(CallEnded(call.id, "denied", f"Tool '{call.name}' was not run{approved}: {why}."))
        case AskedAnew(why) | TakenBack(why):
            assert tool is not None, "no person is asked about a handoff"
            _ask_anew(frame, call, tool, why, objection)
        case Passed() | AskedOthers():
            raise AssertionError("that is not about a call that is kept from beginning")
        case never:
            assert_never(never)


def _set_aside(frame: Frame, call: Call, until: float | None) -> None:
    frame.set_aside.add(call.id)
    if until is None and call.not_before is not None and frame.journal.now() >= call.not_before:
        frame.note(DelayOver(call.id))  # or it would be woken up for again and again while it is held


def _ask_anew(frame: Frame, call: Call, tool: Tool, why: str, objection: PolicyObjection | None) -> None:
    settle_values(frame, call, tool)
    frame.note(hold(frame, call, tool, why, objection.question if objection is not None else None))
    if objection is not None and objection.asks is not None:
        note_requirement(frame, call, objection.requirement)
    elif isinstance(tool.approvers, Needs):  # a function's answer stands as it was given for these arguments
        note_requirement(frame, call, tool.approvers.requirement)


def as_it_runs(call: Call, tool: Tool) -> Job:
    return Job(call, tool, call.effective_text)


def in_doubt(frame: Frame, job: Job, why: str) -> CallInDoubt:
    if job.call.values is None and job.call.edited is None:  # of a log of the first version: shown as it would run
        settle_values(frame, job.call, job.tool)
    return CallInDoubt(
        job.call.id, digest_now(frame.run, job.call, job.tool), job.tool.identity, job.tool.fingerprint, why
    )


# -- what the last look needs to know ----------------------------------------------------------------------------------


def _tool_of(frame: Frame, call: Call) -> Tool | None:
    """The tool of a call that is about to begin. If it is gone, the call ends, or the run stops until it is back."""
    tool = frame.tool_of(call)
    if tool is not None:
        return tool
    if call.status is not Status.ALLOWED and call.status is not Status.APPROVED:
        raise UserError(f"Call {call.id} is to go on, and tool '{call.name}' is gone: declare it again.")
    if _is_of_server(frame, call):
        raise UserError(
            f"Call {call.id} was approved, and its server no longer has the tool '{call.name}': "
            "have the server offer it again and resume the run, or cancel the run."
        )
    if frame.config.tool_not_found_behavior == "raise_error":
        raise ModelBehaviorError(f"Tool {call.name} not found in agent {frame.agent.name}: it has gone meanwhile.")
    frame.note(CallEnded(call.id, "denied", f"Tool '{call.name}' not found."))
    return None


async def _look_at_servers(frame: Frame, calls: Sequence[Call]) -> None:
    """What people decided is compared with the tools as they are now; the others were judged by the last look."""
    await frame.look_for_tools(again=any(_is_of_server(frame, call) for call in calls if call.decision is not None))


def _is_of_server(frame: Frame, call: Call) -> bool:
    entry = frame.run.ledger.entry(call.id)
    return entry is not None and frame.agent.toolset_of(entry.tool) is not None


async def _switched_off(frame: Frame, calls: Sequence[Call]) -> set[str]:
    """The calls whose tools are switched off by now."""
    off: set[str] = set()
    for call in calls:
        tool = frame.tool_of(call)
        if tool is None or tool.is_enabled is True or call.id in frame.run.children:
            continue
        await frame.journal.commit()  # a rule is user code: what happened is safe before it is asked
        if not await frame.is_enabled(tool):
            off.add(call.id)
    return off
