"""Four eyes: where they are demanded, a yes counts only from a person other than the one who started the run.

The rule is the store's, and every door asks it here: a decision by hand, a standing decision, a state that comes back,
and the last look before a call is claimed. What is not known does not count: silence is not another person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from placet.core.state import RunFold
from placet.facts.events import AnyFact, DecisionMade, InChild, Pattern
from placet.facts.ids import path_of


def is_demanded(patterns: Iterable[Pattern], agent: str, tool: str) -> bool:
    """Whether four eyes are demanded for calls of this tool by the agent at this path."""
    return any(fnmatchcase(agent, path) and fnmatchcase(tool, name) for path, name in patterns)


def why_approval_does_not_count(
    patterns: Sequence[Pattern], *, agent: str, tool: str, started_by: str | None, author: str | None
) -> str | None:
    """Why a yes of this author does not count for such a call of a run with this starter; None: it counts."""
    if not is_demanded(patterns, agent, tool):
        return None
    if started_by is None:
        return (
            "the starter of this run is unknown, and four eyes are demanded: only a rejection counts here. Start runs "
            "with `by=…`, or with RunConfig(started_by=…)."
        )
    if author is None:
        return "the approval has no name, and four eyes are demanded: a person with a name must approve."
    if _same(author, started_by):
        return f"{author} started this run, and four eyes are demanded: another person must approve."
    return None


def _same(one: str, other: str) -> bool:
    """Names of a program may be written otherwise than those of a desk's users, which are small."""
    return one.strip().casefold() == other.strip().casefold()


def why_decisions_do_not_count(patterns: Sequence[Pattern], root: RunFold, facts: Iterable[AnyFact]) -> str | None:
    """Why one of these decisions, which are about to be appended, does not count; None: all of them do."""
    for fact in facts:
        bare = fact.fact if isinstance(fact, InChild) else fact
        if isinstance(bare, DecisionMade) and (why := why_decision_does_not_count(patterns, root, bare)) is not None:
            return why
    return None


def why_decision_does_not_count(patterns: Sequence[Pattern], root: RunFold, decision: DecisionMade) -> str | None:
    """The same for one decision about a call of this run or of one nested in it. Every person may reject."""
    owner, entry = root.find(path_of(decision.call)), root.ledger.entry(decision.call)
    if decision.verdict == "reject" or owner is None or entry is None:
        return None
    return why_approval_does_not_count(
        patterns, agent=owner.response_agent, tool=entry.name, started_by=root.started_by, author=decision.by
    )


def has_approval(facts: Iterable[AnyFact]) -> bool:
    """Whether any of them is a decision that lets something happen, or answers: then the rule has to be asked."""
    bare = (fact.fact if isinstance(fact, InChild) else fact for fact in facts)
    return any(isinstance(fact, DecisionMade) and fact.verdict != "reject" for fact in bare)
