"""What a policy says about a call. Pure: times, counts and sums are given to it, and it changes nothing.

All matching rules are heard, and their order does not matter: deny beats ask beats allow. A rule that cannot be judged
asks. Where no rule speaks, the tool's own rule counts.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from placet.core.budget import Bound, rule_budget, rule_count, text_of
from placet.core.policy_asks import raised, united
from placet.facts.budgets import Limit
from placet.facts.codec import JsonObject
from placet.facts.events import PolicyJudged, RuleHeard
from placet.facts.requirements import Requirement

RuleVerdict: TypeAlias = Literal["allow", "ask", "deny"]
Mode: TypeAlias = Literal["enforce", "warn", "shadow"]
Deadline: TypeAlias = Literal["reject", "escalate"]
OWN_SOURCE = "placet"
"""The source of calls in runs that Placet itself drives. Guests have theirs."""
CHANGE_SOURCE = "policy"
"""The source of questions about another version of the policy. No guest may call itself so."""
BUDGET_OF = "the budget of"
DENIED = "The policy does not allow this call."
UNCOUNTED = "what it counts is looked at when the call is made"
_MOST_TOOLS = 2000
"""So many tools' rules are kept at hand: a guest may make up any number of names."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A call, as far as rules may look at it."""

    tool: str
    agent: str
    source: str = OWN_SOURCE
    server: str | None = None
    started_by: str | None = None
    arguments: JsonObject | None = None
    """As they would run. None: `unreadable` says why there are none."""
    unreadable: str | None = None
    schema: JsonObject | None = None
    """What the tool takes, where that is known."""
    now: float = 0.0
    over: Mapping[str, bool | str] | None = None
    """By the id of a count: whether this call goes beyond it; a text: why that is unknown. None: nobody has counted."""

    def readable(self) -> JsonObject:
        """The arguments; Unjudged if no rule can know what they are."""
        if self.arguments is None:
            raise Unjudged(self.unreadable or "its arguments are not one JSON object")
        return self.arguments


class Unjudged(Exception):
    """A condition could not be judged. The text says why, for the reviewer."""


class Facts(Protocol):
    """One call as the conditions of rules see it: made once, for all rules."""

    @property
    def subject(self) -> Subject: ...


class PlainFacts:
    """A call, for conditions that need nothing more."""

    __slots__ = ("subject",)

    def __init__(self, subject: Subject) -> None:
        self.subject = subject


class Condition(Protocol):
    """One thing that has to be so for a rule to match."""

    @property
    def text(self) -> str:
        """As it is written, for people."""
        ...

    def holds(self, facts: Facts) -> bool:
        """Unjudged: it cannot be said."""
        ...


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an asking rule asks for."""

    requirement: Requirement | None = None
    """None: one word of anybody who may decide."""
    within: float | None = None
    """Seconds until the question ends by itself."""
    at_deadline: Deadline = "reject"
    because: str | None = None
    """What the reviewer reads."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    line: int
    verdict: RuleVerdict
    tools: tuple[str, ...] = ()
    """Patterns with `*` and `?`; empty: all."""
    conditions: tuple[Condition, ...] = ()
    message: str | None = None
    """Of a denial: what the model reads."""
    question: Question = Question()
    relax: bool = False
    """Whether an allow lifts what the tool itself asks."""
    budget: tuple[Limit, ...] = ()
    """Of an allow: how much it may let through. Beyond that it asks."""
    mode: Mode = "enforce"
    over: tuple[Limit, ...] = ()
    """It matches calls that go beyond one of these counts or sums over time."""


Heard: TypeAlias = tuple[Rule, str | None]
"""A rule that matched, or, with a reason, could not be judged."""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What all rules together say about a call."""

    verdict: RuleVerdict | None = None
    """None: no rule speaks."""
    heard: tuple[RuleHeard, ...] = ()
    """Every rule that matched, or could not be judged."""
    message: str = DENIED
    why: str | None = None
    """Of an ask: what the reviewer reads."""
    question: Question = Question()
    relaxes: bool = False
    """An allow that lifts the tool's own ask."""
    version: str = ""
    bounds: tuple[Bound, ...] = ()
    """Of an allow: the budgets that have to cover the call. Whoever judges looks at what is left of them."""
    notes: str | None = None
    """What rules that do not count yet, and are to be told, would have said."""

    def fact(self, call: str, *, lifted: bool = False) -> PolicyJudged | None:
        """What the log keeps of it; None: no rule had anything to say."""
        if not self.heard:
            return None
        return PolicyJudged(call, self.version, self.verdict or "none", list(self.heard), lifted)


class Policy:
    """Rules, with an index by tool. A value: a changed file makes another one."""

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        version: str,
        origin: str = "policy",
        warnings: Sequence[str] = (),
        facts: Callable[[Subject], Facts] = PlainFacts,
        text: str = "",
        change: Requirement | None = None,
    ) -> None:
        self.rules = tuple(rules)
        self.version = version
        """The digest of the text: a decision that a rule made names it."""
        self.origin = origin
        self.warnings = tuple(warnings)
        self.text = text
        """As it was written."""
        self.change = change
        """Of a policy that people vote on: what the next version needs. None: one word of anybody who may decide."""
        self.silent = Ruling(version=version)
        self.facts = facts
        """Makes of a call what its rules look at."""
        self._exact: dict[str, list[int]] = {}
        self._patterns: list[tuple[re.Pattern[str], int]] = []
        self._everywhere: list[int] = []
        self._by_tool: dict[str, tuple[Rule, ...]] = {}
        self.counts = any(rule.over for rule in self.rules)
        """Whether something has to be counted before it can judge."""
        for number, rule in enumerate(self.rules):
            self._file(number, rule)

    def _file(self, number: int, rule: Rule) -> None:
        if not rule.tools:
            self._everywhere.append(number)
        for pattern in rule.tools:
            if is_pattern(pattern):
                self._patterns.append((re.compile(fnmatch.translate(pattern)), number))
            else:
                self._exact.setdefault(pattern, []).append(number)

    def current(self) -> Policy:
        """The policy in force: of a value, itself. What a file says may change."""
        return self

    def rules_for(self, tool: str) -> tuple[Rule, ...]:
        found = self._by_tool.get(tool)
        if found is None:
            if len(self._by_tool) >= _MOST_TOOLS:
                self._by_tool.clear()
            fitting = {*self._everywhere, *self._exact.get(tool, ())}
            fitting.update(number for pattern, number in self._patterns if pattern.match(tool))
            found = self._by_tool[tool] = tuple(self.rules[number] for number in sorted(fitting))
        return found

    def counted(self, subject: Subject) -> tuple[Bound, ...]:
        """What has to be counted for a call, before it is judged, and when it begins."""
        if not self.counts or not any(rule.over for rule in self.rules_for(subject.tool)):
            return ()
        facts = self.facts(subject)
        return tuple(
            Bound(rule_count(rule.name), rule.over, f"the count of {self.place(rule)}", rule.mode == "enforce")
            for rule in self.rules_for(subject.tool)
            if rule.over and conditions_hold(rule, facts)[0]
        )

    def judge(self, subject: Subject) -> Ruling:
        """What the rules say about a call. It never raises: what cannot be judged asks."""
        facts = self.facts(subject)
        matching: list[Heard] = []
        for rule in self.rules_for(facts.subject.tool):
            does, why = matches(rule, facts)
            if does:
                matching.append((rule, why))
        return self.silent if not matching else self._combined(matching)

    def _combined(self, matching: Sequence[Heard]) -> Ruling:
        heard = tuple(_as_heard(rule, why) for rule, why in matching)
        told = [rule for rule, _ in matching if rule.mode == "warn"]
        notes = "; ".join(f"rule «{rule.name}» would have said {rule.verdict}" for rule in told) or None
        ruling = Ruling(heard=heard, version=self.version, notes=notes)
        counted = [(rule, why) for rule, why in matching if rule.mode == "enforce"]
        return self._denied(ruling, counted) or self._asked(ruling, counted) or self._allowed(ruling, counted)

    def _denied(self, ruling: Ruling, counted: Sequence[Heard]) -> Ruling | None:
        denials = [rule for rule, why in counted if why is None and rule.verdict == "deny"]
        if not denials:
            return None
        texts = dict.fromkeys(rule.message or DENIED for rule in denials)
        names = ", ".join(self.place(rule) for rule in denials)
        return msgspec.structs.replace(ruling, verdict="deny", message=" ".join(texts), why=names)

    def _asked(self, ruling: Ruling, counted: Sequence[Heard]) -> Ruling | None:
        asks = [(rule, why) for rule, why in counted if why is not None or rule.verdict == "ask"]
        if not asks:
            return None
        why = "; ".join(self._asks(rule, failed) for rule, failed in asks)
        question = combined([rule.question for rule, failed in asks if failed is None])
        return msgspec.structs.replace(ruling, verdict="ask", why=why, question=question)

    def _allowed(self, ruling: Ruling, counted: Sequence[Heard]) -> Ruling:
        if not counted:
            return ruling
        relaxes = any(rule.relax for rule, _ in counted)
        bounds = tuple(self._bound(rule) for rule, _ in counted if rule.budget)
        return msgspec.structs.replace(ruling, verdict="allow", relaxes=relaxes, bounds=bounds)

    def _bound(self, rule: Rule) -> Bound:
        return Bound(rule_budget(rule.name), rule.budget, f"{BUDGET_OF} {self.place(rule)}")

    def _asks(self, rule: Rule, failed: str | None) -> str:
        if failed is not None:
            return f"{self.place(rule)} cannot be judged: {failed}"
        because = rule.question.because or "; ".join(f"more than {text_of(limit)}" for limit in rule.over)
        return f"{self.place(rule)} asks" + (f": {because}" if because else "")

    def place(self, rule: Rule) -> str:
        return f"rule «{rule.name}» ({self.origin}, line {rule.line})"


def _as_heard(rule: Rule, why: str | None) -> RuleHeard:
    return RuleHeard(rule.name, rule.line, rule.verdict if why is None else "ask", rule.mode, why)


def not_covered(ruling: Ruling, budget: str, why: str) -> Ruling:
    """What the rules say where the budget of one of them does not cover the call: that rule asks."""
    heard = tuple(
        msgspec.structs.replace(each, verdict="ask", why=why)
        if each.mode == "enforce" and rule_budget(each.name) == budget
        else each
        for each in ruling.heard
    )
    return msgspec.structs.replace(ruling, verdict="ask", why=why, heard=heard, relaxes=False, bounds=())


def is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def matches(rule: Rule, facts: Facts) -> tuple[bool, str | None]:
    """Whether a rule matches; with a reason: it cannot be judged, and so a person is asked. One condition that clearly
    does not hold is enough for a no, whatever the others are."""
    does, failed = conditions_hold(rule, facts)
    if not does or not rule.over:
        return does, failed
    is_over = goes_beyond(rule, facts.subject)
    return is_over is not False, failed or (is_over if isinstance(is_over, str) else None)


def goes_beyond(rule: Rule, subject: Subject) -> bool | str:
    """Whether a call goes beyond what a rule counts; a text: why that is unknown."""
    return UNCOUNTED if subject.over is None else subject.over.get(rule_count(rule.name), UNCOUNTED)


def conditions_hold(rule: Rule, facts: Facts) -> tuple[bool, str | None]:
    """The same, whatever was counted."""
    failed: str | None = None
    for condition in rule.conditions:
        try:
            if not condition.holds(facts):
                return False, None
        except Unjudged as error:
            failed = failed or str(error)
    return True, failed


def combined(questions: Iterable[Question]) -> Question:
    """All of them have to be fulfilled: with the earliest deadline and the highest assurance."""
    asked = list(questions)
    if len(asked) == 1:
        return asked[0]
    requirement: Requirement | None = None
    for each in asked:
        requirement = united(requirement, each.requirement)
    first = min((each for each in asked if each.within is not None), key=_deadline, default=None)
    return Question(
        requirement=requirement if requirement is None else raised(requirement),
        within=None if first is None else first.within,
        at_deadline="reject" if first is None else first.at_deadline,
    )


def all_needed(own: Requirement | None, question: Question | None) -> Requirement | None:
    """What a call needs by its tool and by a policy."""
    return own if question is None else united(own, question.requirement)


def first_deadline(
    within: float | None, at_deadline: Deadline, question: Question | None
) -> tuple[float | None, Deadline]:
    """The earlier end of a question, of those that a tool and a policy give it, and what happens then."""
    if question is None or question.within is None or (within is not None and within <= question.within):
        return within, at_deadline
    return question.within, question.at_deadline


def _deadline(question: Question) -> tuple[float, bool]:
    return question.within or 0.0, question.at_deadline != "reject"


def text_of_heard(fact: PolicyJudged) -> str:
    """In one line, for people: which rules spoke, and how."""
    return "; ".join(_heard_text(each) for each in fact.rules)


_WOULD: Mapping[str, str] = {"enforce": "says", "warn": "would say", "shadow": "would say"}


def _heard_text(each: RuleHeard) -> str:
    said = f"rule «{each.name}» (line {each.line}) {_WOULD.get(each.mode, 'says')} {each.verdict}"
    if each.why is None:
        return said
    return f"{said}, since {each.why if each.why.startswith(BUDGET_OF) else f'it cannot be judged: {each.why}'}"
