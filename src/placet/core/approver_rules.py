"""What a desk's rules about approvers add to a question. Pure.

Rule of this file: a requirement and those of rules stand beside each other, as parts that all have to be fulfilled. So
whether a rule is heeded is seen by looking for its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from placet.core.claim import PolicyObjection
from placet.core.policy import Question
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.facts.requirements import ANYBODY, Requirement, all_of
from placet.facts.voting_settings import ApproverRule, VotingSettings

ASKED_NOW = "who has to approve such calls was changed since it was decided"


def rules_for(settings: VotingSettings, agent: str, tool: str) -> list[ApproverRule]:
    return [rule for rule in settings.rules if fnmatchcase(agent, rule.agent) and fnmatchcase(tool, rule.tool)]


def with_rules(needed: Requirement | None, rules: Sequence[ApproverRule]) -> Requirement | None:
    """All that is needed: by the tool and the policy, and by these rules."""
    parts = [needed] if needed is not None else []
    parts += [rule.requirement for rule in rules if rule.requirement is not None]
    return all_of(parts) if len(parts) > 1 else (parts[0] if parts else None)


def with_deadline(question: Question | None, rules: Sequence[ApproverRule]) -> Question | None:
    """The question with the end of the rules' ladders, where that is the earlier one."""
    ends = [rule.reject_after for rule in rules if rule.reject_after is not None]
    if not ends:
        return question
    first, asked = min(ends), question or Question()
    if asked.within is not None and asked.within <= first:
        return question
    return Question(requirement=asked.requirement, within=first, because=asked.because)


def is_heeded(wanted: Requirement | None, given: Requirement | None) -> bool:
    """Whether what was asked for holds all parts of what is wanted now."""
    missing = _parts(wanted) - _parts(given)
    return not missing or missing == {ANYBODY}


def _parts(requirement: Requirement | None) -> set[Requirement]:
    return set() if requirement is None else set(requirement.all_of or (requirement,))


def objection_by_rules(run: RunFold, call: Call, rules: Iterable[ApproverRule]) -> PolicyObjection | None:
    """Why a call that was decided may not begin: rules of now ask for more than was asked for then. What has begun is
    judged by what it was asked under: a doubt about it has to come to an end."""
    if call.decision is None or call.status is not Status.APPROVED:
        return None
    asking = [rule for rule in rules if rule.requirement is not None]
    entry = run.ledger.entry(call.id)
    ballot = entry.open_ballot if entry is not None else None
    given = ballot.requirement if ballot is not None else None
    wanted = with_rules(None, asking)
    if is_heeded(wanted, given):
        return None
    return PolicyObjection(asks=ASKED_NOW, requirement=with_rules(given, asking))
