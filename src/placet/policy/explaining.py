"""Why a policy says what it says about one call: every rule, whether it matched, and what decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from placet.core.budget import text_of
from placet.core.policy import Facts, Mode, Policy, Rule, RuleVerdict, Ruling, Subject, Unjudged, goes_beyond

Outcome: TypeAlias = Literal["matches", "does not match", "cannot be judged", "another tool"]


class RuleExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One rule about one call."""

    name: str
    line: int
    verdict: RuleVerdict
    mode: Mode
    outcome: Outcome
    why: str | None = None
    """Which condition does not hold, or why it cannot be judged."""
    decided: bool = False
    """It is one of those by which the policy says what it says."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says about a call, and each rule's part in it."""

    verdict: RuleVerdict | None
    """None: no rule speaks, and the tool's own rule counts."""
    relaxes: bool
    why: str
    """In one sentence."""
    version: str
    rules: list[RuleExplained]


def explain(policy: Policy, subject: Subject) -> Explanation:
    """Every rule of the policy, in its order; those that are about other tools, too."""
    ruling = policy.judge(subject)
    facts = policy.facts(subject)
    mine = {rule.name for rule in policy.rules_for(subject.tool)}
    rules = [_of_rule(rule, facts, ruling, is_mine=rule.name in mine) for rule in policy.rules]
    return Explanation(
        verdict=ruling.verdict, relaxes=ruling.relaxes, why=_sentence(ruling), version=policy.version, rules=rules
    )


def _of_rule(rule: Rule, facts: Facts, ruling: Ruling, *, is_mine: bool) -> RuleExplained:
    if not is_mine:
        outcome: Outcome = "another tool"
        why: str | None = f"it is about {', '.join(rule.tools)}"
    else:
        outcome, why = _outcome(rule, facts)
    said = "ask" if outcome == "cannot be judged" else rule.verdict
    decided = outcome in ("matches", "cannot be judged") and rule.mode == "enforce" and said == ruling.verdict
    return RuleExplained(
        name=rule.name, line=rule.line, verdict=rule.verdict, mode=rule.mode, outcome=outcome, why=why, decided=decided
    )


def _outcome(rule: Rule, facts: Facts) -> tuple[Outcome, str | None]:
    failed: str | None = None
    for condition in rule.conditions:
        try:
            if not condition.holds(facts):
                return "does not match", f"not so: {condition.text}"
        except Unjudged as error:
            failed = failed or str(error)
    beyond = goes_beyond(rule, facts.subject) if rule.over else True
    if beyond is False:
        return "does not match", f"not so: more than {'; '.join(map(text_of, rule.over))}"
    if failed is not None or isinstance(beyond, str):
        return "cannot be judged", failed or str(beyond)
    return "matches", " and ".join(_texts(rule)) or "it is about every call of this tool"


def _texts(rule: Rule) -> Iterator[str]:
    for condition in rule.conditions:
        yield condition.text
    for limit in rule.over:
        yield f"more than {text_of(limit)}"


def _sentence(ruling: Ruling) -> str:
    heard = [each for each in ruling.heard if each.mode == "enforce"]
    names = ", ".join(f"«{each.name}» (line {each.line})" for each in heard if each.verdict == ruling.verdict)
    match ruling.verdict:
        case "deny":
            return f"It is denied by {names}: {ruling.message}"
        case "ask":
            return f"A person is asked: {ruling.why}"
        case "allow" if ruling.relaxes:
            return f"It runs without a question, by {names}: what the tool itself asks is lifted."
        case "allow":
            return f"Nothing is against it, by {names}; where the tool itself asks, a person is asked."
        case None:
            return "No rule speaks: what the tool itself says counts."
