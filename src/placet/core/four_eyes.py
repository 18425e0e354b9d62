"""Four eyes: where they are demanded, a yes counts only from a person other than the one who started the run.

Of a guest's run that is the guest, and the person who answers for it. A second account of the same human being is no
other person.

The rule is the store's, and every door asks it here: a decision by hand, a standing decision, a state that comes back,
and the last look before a call is claimed. What is not known does not count: silence is not another person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from placet.core.policy import CHANGE_SOURCE
from placet.core.state import RunFold
from placet.core.votes import Person, identity_in, owner_in
from placet.facts.events import AnyFact, DecisionMade, InChild, Pattern
from placet.facts.ids import path_of


def is_demanded(patterns: Iterable[Pattern], agent: str, tool: str) -> bool:
    """Whether four eyes are demanded for calls of this tool by the agent at this path."""
    return any(fnmatchcase(agent, path) and fnmatchcase(tool, name) for path, name in patterns)


def why_approval_does_not_count(
    patterns: Sequence[Pattern],
    people: Mapping[str, Person],
    *,
    agent: str,
    tool: str,
    started_by: str | None,
    author: str | None,
    guest: str | None = None,
) -> str | None:
    """Why a yes of this author does not count for such a call of a run with this starter; None: it counts.

    `people`: those of starter, author and guest whom the store knows. `guest`: whose session the run is.
    """
    if not is_demanded(patterns, agent, tool):
        return None
    if started_by is None:
        return (
            "the starter of this run is unknown, and four eyes are demanded: only a rejection counts here. Start runs "
            "with `by=…`, or with RunConfig(started_by=…)."
        )
    if author is None:
        return "the approval has no name, and four eyes are demanded: a person with a name must approve."
    if identity_in(people, author) == identity_in(people, started_by):
        return f"{author} started this run, and four eyes are demanded: another person must approve."
    return None if guest is None else _why_not_for_guest(people, guest, author)


def _why_not_for_guest(people: Mapping[str, Person], guest: str, author: str) -> str | None:
    owner = owner_in(people, guest)
    if owner is None:
        return (
            f"it is not known who answers for guest {guest}, and four eyes are demanded: only a rejection counts here. "
            f"Say who: placet users change {guest} --owner NAME."
        )
    if identity_in(people, author) == identity_in(people, owner):
        return f"{author} answers for guest {guest}, and four eyes are demanded: another person must approve."
    return None


def guest_of(root: RunFold) -> str | None:
    """The guest whose session the run is. A question about another policy is its proposer's own, and no guest's."""
    return root.guest.guest if root.guest is not None and root.guest.source != CHANGE_SOURCE else None


def parties_of(root: RunFold, facts: Iterable[AnyFact]) -> set[str]:
    """The people whom the rule has to know about decisions that are about to be appended."""
    bare = (fact.fact if isinstance(fact, InChild) else fact for fact in facts)
    authors = {fact.by for fact in bare if isinstance(fact, DecisionMade)}
    return {name for name in {root.started_by, guest_of(root), *authors} if name is not None}


def why_decisions_do_not_count(
    patterns: Sequence[Pattern], people: Mapping[str, Person], root: RunFold, facts: Iterable[AnyFact]
) -> str | None:
    """Why one of these decisions, which are about to be appended, does not count; None: all of them do."""
    for fact in facts:
        bare = fact.fact if isinstance(fact, InChild) else fact
        if (
            isinstance(bare, DecisionMade)
            and (why := why_decision_does_not_count(patterns, people, root, bare)) is not None
        ):
            return why
    return None


def why_decision_does_not_count(
    patterns: Sequence[Pattern], people: Mapping[str, Person], root: RunFold, decision: DecisionMade
) -> str | None:
    """The same for one decision about a call of this run or of one nested in it. Every person may reject."""
    owner, entry = root.find(path_of(decision.call)), root.ledger.entry(decision.call)
    if decision.verdict == "reject" or owner is None or entry is None:
        return None
    return why_approval_does_not_count(
        patterns,
        people,
        agent=owner.response_agent,
        tool=entry.name,
        started_by=root.started_by,
        author=decision.by,
        guest=guest_of(root),
    )


def has_approval(facts: Iterable[AnyFact]) -> bool:
    """Whether any of them is a decision that lets something happen, or answers: then the rule has to be asked."""
    bare = (fact.fact if isinstance(fact, InChild) else fact for fact in facts)
    return any(isinstance(fact, DecisionMade) and fact.verdict != "reject" for fact in bare)
