"""Votes at the desk: what somebody's decision is where several people have to approve, and what is still missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from placet.core.approvals import Entry
from placet.core.approver_rules import with_rules
from placet.core.ballot import Ballot
from placet.core.casting import (
    count,
    facts_of_votes,
    names_in,
    requirement_of,
)
from placet.core.four_eyes import guest_of
from placet.core.index import Opened, RequestChange, RequestRecord, with_changes
from placet.core.state import RunFold
from placet.core.votes import Tally, owner_in
from placet.declare.context import RunContextWrapper
from placet.declare.tool import Tool
from placet.facts.errors import UserError
from placet.facts.events import AnyFact, DecisionMade, InChild, VoteCast
from placet.facts.requirements import Part, Requirement, Step, part_text
from placet.ports import Store
from placet.runtime.casting import approver_rules, known_for, requirement_for


def ballot_on(entry: Entry, number: int) -> Ballot | None:
    """The ballot on the question with this number about the call, whether or not it is decided."""
    return entry.ballot if entry.ballot is not None and entry.ballot.request == number else None


async def facts_of_vote(store: Store, run: RunFold, vote: VoteCast, tool: Tool | None) -> list[AnyFact]:
    """What a person's vote is at this place of the log, counted with the people as they are now."""
    known = await known_for(store, names_in(run, [vote]))
    return facts_of_votes(run, [vote], known, await _judged(store, run, vote, tool))


async def _judged(store: Store, run: RunFold, vote: VoteCast, tool: Tool | None) -> dict[str, Requirement | None]:
    """What the call needs as an edit makes it, where its code is here and needs no run's context. Otherwise whoever
    drives the run finds out, before the call begins."""
    if vote.arguments is None or tool is None or tool.approvers is None:
        return {}
    context: RunContextWrapper[None] = RunContextWrapper(None)
    with contextlib.suppress(UserError):
        own = await requirement_for(tool, context, vote.arguments, vote.call)
        entry = run.ledger.entry(vote.call)
        rules = await approver_rules(store, entry.agent, entry.name) if entry is not None else []
        return {vote.call: with_rules(own, rules)}
    return {}


def newest_of(row: RequestRecord, changes: Iterable[RequestChange]) -> RequestRecord:
    """The request as it stands then, or the one that took its place."""
    made = list(changes)
    opened = [change.row for change in made if isinstance(change, Opened) and change.row.call == row.call]
    return with_changes(opened[-1] if opened else row, made)


async def outlook(store: Store, run: RunFold, vote: VoteCast) -> int:
    """How many approvals this vote would leave missing; 0: it decides. AccessDenied where it cannot count."""
    facts = await facts_of_vote(store, run, vote, None)
    entry = run.ledger.entry(vote.call)
    if entry is None or entry.open_ballot is None or any(isinstance(_bare(fact), DecisionMade) for fact in facts):
        return 0
    known = await known_for(store, names_in(run, [vote]))
    return count(run, entry, entry.open_ballot, known, [vote]).fewest_missing


def _bare(fact: AnyFact) -> AnyFact:
    return fact.fact if isinstance(fact, InChild) else fact


# -- what is missing --------------------------------------------------------------------------------------------------


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a request stands that several people have to approve."""

    line: str
    """«1 of 2 from finance · not ben, who started it · then 1 of directors»."""
    missing: int
    """How many approvals are missing at least; 0: it is decided."""
    votes: Sequence[VoteCast]
    """The newest of each person."""


async def standing_of(store: Store, run: RunFold, entry: Entry, ballot: Ballot) -> Standing:
    known = await known_for(store, names_in(run, ballot.votes))
    found = count(run, entry, ballot, known)
    shown = msgspec.structs.replace(ballot, requirement=requirement_of(entry, ballot, known.four_eyes))
    guest = guest_of(run)
    owner = None if guest is None else owner_in(known.people, guest)
    line = standing_line(shown, found, {"starter": run.started_by, "editor": ballot.editor, "guest_owner": owner})
    return Standing(line=line, missing=found.fewest_missing, votes=ballot.newest())


def standing_line(ballot: Ballot, found: Tally, players: Mapping[Part, str | None]) -> str:
    """What is there and what is missing, in one line."""
    if ballot.requirement.all_of:
        tallies = found.parts or [found] * len(ballot.requirement.all_of)
        return "; and ".join(
            standing_line(msgspec.structs.replace(ballot, requirement=part), of_part, players)
            for part, of_part in zip(ballot.requirement.all_of, tallies, strict=True)
        )
    lines: list[str] = []
    for number, steps in enumerate(ballot.requirement.alternatives):
        missing = found.missing[number] if found.missing else ()
        have = {each.place: each.have for each in missing}
        parts = [_step_line(step, have.get(place, step.approve), players) for place, step in enumerate(steps)]
        lines.append(" · then ".join(parts))
    return ", or ".join(lines)


def _step_line(step: Step, have: int, players: Mapping[Part, str | None]) -> str:
    whom = f" from {' or '.join(step.groups)}" if step.groups else ""
    kept_out = [
        f"not {players[part]}, {_DID[part]}" if players.get(part) else f"not the {part_text(part)}"
        for part in step.distinct_from
    ]
    least = [f"at least by {step.assurance}"] if step.assurance != "none" else []
    condition = [f"where {step.predicate}"] if step.predicate is not None else []
    return " · ".join([f"{have} of {step.approve}{whom}", *kept_out, *least, *condition])


_DID: dict[Part, str] = {
    "starter": "who started it",
    "editor": "who changed it",
    "guest_owner": "who answers for the guest",
}
