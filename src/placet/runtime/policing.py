"""The policy at work: asked about a call when it is proposed, and again when it is about to begin.

Rule of this file: nothing here runs where there is no policy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from placet.core.approver_rules import is_heeded
from placet.core.claim import PolicyObjection
from placet.core.gate import Ask, Free, Verdict
from placet.core.policy import Policy, Ruling, Subject, not_covered
from placet.core.policy_asks import united
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.declare.tool import Tool
from placet.facts.events import PolicyJudged
from placet.facts.requirements import Needs, Requirement
from placet.ports import PolicySource
from placet.runtime.budgets import NOTHING_BOUND, Covered, look, promised_by_rules
from placet.runtime.frame import Frame
from placet.runtime.validating import opaque_in

if TYPE_CHECKING:
    from placet.runtime.counting import Counts

logger = logging.getLogger("placet.policy")
NO_LONGER_LIFTED = "the rule by which nobody had to be asked is not in force any more"


async def judge_proposed(
    frame: Frame, source: PolicySource, calls: Sequence[Call], tools: Sequence[Tool | None], verdicts: Sequence[Verdict]
) -> list[Verdict]:
    """The verdicts of the tools' own rules, with those of the policy."""
    policy = source.current()
    judged = [
        (call, tool)
        for call, tool, verdict in zip(calls, tools, verdicts, strict=True)
        if tool is not None and isinstance(verdict, Free | Ask)
    ]
    counts = await _counts(frame, policy, judged)
    rulings = [
        ruling_on(frame, policy, call, tool, counts) if tool is not None and isinstance(verdict, Free | Ask) else None
        for call, tool, verdict in zip(calls, tools, verdicts, strict=True)
    ]  # where there is none there is no such tool, or it cannot run with these arguments: nobody has to say more
    bound = [
        (call, ruling)
        for call, ruling, verdict in zip(calls, rulings, verdicts, strict=True)
        if ruling is not None and ruling.bounds and isinstance(with_ruling(ruling, verdict), Free)
    ]
    covered = await _look(frame, bound) if bound else NOTHING_BOUND
    return [
        verdict if ruling is None else _with_policy(frame, call, as_covered(ruling, call, covered), verdict)
        for call, ruling, verdict in zip(calls, rulings, verdicts, strict=True)
    ]


async def _look(frame: Frame, bound: Sequence[tuple[Call, Ruling]]) -> Covered:
    """What is left of the budgets of rules for these calls, behind those that they let through before."""
    wanted = [(call, ruling.bounds) for call, ruling in bound]
    bounds = {each.id: each for _, all_of in wanted for each in all_of}
    promised = promised_by_rules(frame.journal.run, bounds.values(), {call.id for call, _ in bound})
    return await look(frame.journal.store, frame.run_id, wanted, frame.journal.now(), promised)


def as_covered(ruling: Ruling, call: Call, covered: Covered) -> Ruling:
    """The same, or a question where the budget of a rule does not cover the call."""
    why = covered.why_not.get(call.id)
    return ruling if why is None else not_covered(ruling, covered.by[call.id], why)


def _with_policy(frame: Frame, call: Call, ruling: Ruling, verdict: Verdict) -> Verdict:
    found = with_ruling(ruling, verdict)
    note(frame, call, ruling, lifted=isinstance(verdict, Ask) and isinstance(found, Free))
    return found


def with_ruling(ruling: Ruling, verdict: Verdict) -> Verdict:
    """What the tool itself says, and what the policy says: the stricter of both. Only a rule that says so lifts what
    the tool asks, and never what it asks because something is wrong."""
    match ruling.verdict:
        case "deny":
            return ruling.message
        case "ask":
            own = verdict.why if isinstance(verdict, Ask) else None
            return Ask("; ".join(filter(None, (own, ruling.why))), ruling.question)
        case "allow" if ruling.relaxes and isinstance(verdict, Ask) and verdict.why is None:
            return Free()
        case _:
            if isinstance(verdict, Ask) and ruling.notes is not None:
                return msgspec.structs.replace(verdict, why="; ".join(filter(None, (verdict.why, ruling.notes))))
            return verdict


async def _counts(frame: Frame, policy: Policy, calls: Sequence[tuple[Call, Tool]]) -> Counts | None:
    """How what its rules count stands for these calls; None: they count nothing."""
    if not policy.counts:
        return None
    from placet.runtime.counting import counted  # few policies count: the others do without it

    wanted = [(call, policy.counted(_subject_of(frame, call, tool))) for call, tool in calls]
    return await counted(frame.journal.store, frame.run_id, wanted, frame.journal.now())


def ruling_on(frame: Frame, policy: Policy, call: Call, tool: Tool, counts: Counts | None = None) -> Ruling:
    """What the policy says about a call, as it would run now."""
    if not policy.rules_for(call.name):
        return policy.silent
    subject = _subject_of(frame, call, tool)
    over = None if counts is None else counts.over.get(call.id)
    return policy.judge(subject if over is None else msgspec.structs.replace(subject, over=over))


def _subject_of(frame: Frame, call: Call, tool: Tool) -> Subject:
    opaque = opaque_in(frame, call)
    unreadable = f"validation makes something of {', '.join(opaque)} that JSON cannot show" if opaque else None
    return Subject(
        tool=call.name,
        agent=frame.run.response_agent,
        server=call.server or server_of(tool.identity),
        started_by=frame.journal.run.started_by,
        arguments=None if opaque else call.effective,
        unreadable=unreadable,
        schema=dict(tool.params_json_schema) if call.server is None else None,
        now=frame.journal.now(),
    )


def server_of(identity: str) -> str | None:
    """The MCP server in a tool's identity: `mcp:files:read` is a tool of `files`."""
    parts = identity.split(":")
    return parts[1] if len(parts) > 2 and parts[0] in ("mcp", "hosted_mcp") else None


def note(frame: Frame, call: Call, ruling: Ruling, *, lifted: bool = False) -> None:
    fact = ruling.fact(call.id, lifted=lifted)
    if fact is not None and fact != call.policy:
        frame.note(fact)
        warn(frame.run_id, fact)


def warn(run_id: str, fact: PolicyJudged) -> None:
    """What rules that are only to warn say, for whoever reads the logs."""
    for rule in fact.rules:
        if rule.mode == "warn":
            told = {"action": "policy_warning", "run_id": run_id, "call_id": fact.call, "rule": rule.name}
            logger.warning("rule %s would say %s", rule.name, rule.verdict, extra=told)


# -- before the claim -------------------------------------------------------------------------------------------------


async def objections(
    frame: Frame, source: PolicySource, calls: Sequence[Call], needed: dict[str, Requirement | None]
) -> tuple[Mapping[str, PolicyObjection], Covered]:
    """What the policy, as it is now, has against calls that are about to begin, and what the others take of the budgets
    of its rules. What an edited call needs by it is added to `needed`."""
    policy = source.current()
    found: dict[str, PolicyObjection] = {}
    judged_now = [
        (call, tool)
        for call in calls
        if (tool := frame.tool_of(call)) is not None and call.id not in frame.run.children
    ]
    counts = await _counts(frame, policy, judged_now)
    rulings = [(call, tool, ruling_on(frame, policy, call, tool, counts)) for call, tool in judged_now]
    bound = [(call, ruling) for call, _, ruling in rulings if takes_of_rules(call, ruling)]
    covered = await _look(frame, bound) if bound else NOTHING_BOUND
    for call, tool, judged in rulings:
        ruling = as_covered(judged, call, covered)
        note(frame, call, ruling, lifted=ruling.relaxes and call.policy is not None and call.policy.lifted)
        own = needed.get(call.id, _declared(tool))
        if call.edited is not None and call.status is Status.APPROVED and ruling.verdict == "ask":
            needed[call.id] = united(own, ruling.question.requirement)
        objection = objection_to(frame.run, call, ruling, own)
        if objection is not None:
            found[call.id] = objection
    if counts is not None:
        covered |= Covered(counts.facts, {}, {})
    return found, covered.without(found)


def takes_of_rules(call: Call, ruling: Ruling) -> bool:
    """Whether it is rules alone that let a call through. What a person or a standing decision approved takes nothing of
    what rules may let through."""
    return bool(ruling.bounds) and call.decision is None


def _declared(tool: Tool) -> Requirement | None:
    return tool.approvers.requirement if isinstance(tool.approvers, Needs) else None


def objection_to(run: RunFold, call: Call, ruling: Ruling, own: Requirement | None) -> PolicyObjection | None:
    """Why a call may not begin now; None: nothing is against it. `own`: what the tool itself needs."""
    if ruling.verdict == "deny":
        return PolicyObjection(denies=ruling.message)
    if ruling.verdict == "ask":
        wanted = united(own, ruling.question.requirement)
        is_enough = call.decision is not None and _is_met(run, call, ruling, wanted)
        return None if is_enough else PolicyObjection(asks=ruling.why, question=ruling.question, requirement=wanted)
    if call.decision is None and call.policy is not None and call.policy.lifted and not ruling.relaxes:
        return PolicyObjection(asks=NO_LONGER_LIFTED, requirement=own)
    return None


def _is_met(run: RunFold, call: Call, ruling: Ruling, wanted: Requirement | None) -> bool:
    """Whether what was decided about a call was decided under all that the policy asks for now. How many votes there
    are is counted elsewhere."""
    if ruling.question.requirement is None or wanted is None:
        return True
    entry = run.ledger.entry(call.id)
    ballot = entry.open_ballot if entry is not None else None
    if ballot is None:
        return False
    given = ballot.requirement
    return is_heeded(wanted, given) or united(given, ruling.question.requirement) == given
