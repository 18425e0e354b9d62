"""A policy, tried on what people decided: pure, one decision at a time, so that any number can pass.

Rule of this file: what is counted as «let through» is what would have run without anybody being asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import msgspec

from placet.core.policy import Policy, RuleVerdict, Ruling, Subject

Said: TypeAlias = Literal["yes", "no", "edited", "answered"]
"""What people said: approved as it was, rejected, approved with other arguments, answered in the tool's place."""
SAID: tuple[Said, ...] = get_args(Said)
FILE_SAYS: tuple[RuleVerdict, ...] = ("allow", "ask", "deny")
Unreplayable: TypeAlias = Literal["erased", "other schema"]
MOST_KEPT = 100
"""Calls that are named for each cell of the table. All of them are counted."""
Cell: TypeAlias = tuple[Said, RuleVerdict]
LET_THROUGH: Cell = ("no", "allow")
"""What must not be: a person rejected it, and the policy would have let it run."""
SPARED: Cell = ("yes", "allow")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One call that a person was asked about, and what they said."""

    request_id: str
    run_id: str
    subject: Subject
    said: Said
    by: str | None
    at: float
    is_lifted: bool = True
    """Whether a rule that relaxes would lift the question: not what was asked because something was wrong."""
    is_special: bool = False
    """It cannot be undone, or several people had to approve it: nothing suggests to let such calls through."""
    cannot: Unreplayable | None = None
    """Why it cannot be replayed."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says about a case."""

    case: Case
    verdict: RuleVerdict
    ruling: Ruling

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.ruling.heard)


def as_enforced(policy: Policy) -> Policy:
    """The same with every rule counting, whatever `[rollout]` says: to see what would be if they did."""
    return Policy(
        [msgspec.structs.replace(rule, mode="enforce") for rule in policy.rules],
        version=policy.version,
        origin=policy.origin,
        facts=policy.facts,
        text=policy.text,
    )


def tried(policy: Policy, case: Case) -> Tried:
    """What would have become of a call about which a person was asked, that is: whose tool asks."""
    ruling = policy.judge(case.subject)
    verdict: RuleVerdict = "ask"
    if ruling.verdict == "deny":
        verdict = "deny"
    elif ruling.verdict == "allow" and ruling.relaxes and case.is_lifted:
        verdict = "allow"
    return Tried(case=case, verdict=verdict, ruling=ruling)


class Backtest:
    """The table: what people said, by what the policy says."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.counts: Counter[Cell] = Counter()
        self.calls: dict[Cell, list[Tried]] = {}
        self.cannot: Counter[Unreplayable] = Counter()
        self.by_rule: Counter[tuple[str, Said]] = Counter()
        """How often each rule spoke, by what people said."""

    def take(self, case: Case) -> Tried | None:
        if case.cannot is not None:
            self.cannot[case.cannot] += 1
            return None
        found = tried(self.policy, case)
        cell = (case.said, found.verdict)
        self.counts[cell] += 1
        kept = self.calls.setdefault(cell, [])
        if len(kept) < MOST_KEPT:
            kept.append(found)
        for name in dict.fromkeys(found.rules):
            self.by_rule[name, case.said] += 1
        return found

    @property
    def replayed(self) -> int:
        return self.counts.total()

    @property
    def seen(self) -> int:
        return self.replayed + self.cannot.total()

    @property
    def spared(self) -> int:
        return self.counts[SPARED]

    @property
    def let_through(self) -> int:
        """Rejections that the policy contradicts."""
        return self.counts[LET_THROUGH]

    def cells(self) -> Iterator[tuple[Cell, int]]:
        """Those that have something in them: rejections that would be let through first."""
        order = [LET_THROUGH, *((said, verdict) for said in SAID for verdict in FILE_SAYS)]
        for cell in dict.fromkeys(order):
            if self.counts[cell]:
                yield cell, self.counts[cell]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call about which two policies say different things."""

    before: Tried
    after: Tried


class Difference:
    """Which recorded calls change their verdict from one policy to another."""

    def __init__(self, old: Policy, new: Policy) -> None:
        self._old, self._new = old, new
        self.counts: Counter[tuple[RuleVerdict, RuleVerdict]] = Counter()
        self.changes: dict[tuple[RuleVerdict, RuleVerdict], list[Change]] = {}
        self.cannot: Counter[Unreplayable] = Counter()

    def take(self, case: Case) -> None:
        if case.cannot is not None:
            self.cannot[case.cannot] += 1
            return
        before, after = tried(self._old, case), tried(self._new, case)
        way = (before.verdict, after.verdict)
        self.counts[way] += 1
        kept = self.changes.setdefault(way, [])
        if before.verdict != after.verdict and len(kept) < MOST_KEPT:
            kept.append(Change(before=before, after=after))

    @property
    def changed(self) -> int:
        return sum(count for (before, after), count in self.counts.items() if before != after)
