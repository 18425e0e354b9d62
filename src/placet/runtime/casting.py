"""Votes at work: asks tools who has to approve a call, and the store who people are, before anything is counted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placet.core.approvals import Said
from placet.core.approver_rules import rules_for, with_rules
from placet.core.casting import Known, authors_of, facts_of_votes, names_in, why_not_carried
from placet.core.deciding import facts_to_append
from placet.core.state import Call, RunFold
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.predicates import predicate_holds
from placet.declare.tool import Tool, refuse_conditions
from placet.facts.codec import JsonObject, fresh
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import AnyFact, ApproversRequired, DueRung, GrantMade, LadderSet, Pattern, VoteCast
from placet.facts.requirements import ANYBODY, Needs, Requirement
from placet.facts.voting_settings import ApproverRule
from placet.ports import Store
from placet.runtime.frame import Frame, awaited

logger = logging.getLogger("placet.runtime")


async def requirement_for(
    tool: Tool, context: RunContextWrapper[Any], arguments: JsonObject, call_id: str
) -> Requirement | None:
    """What a call with these arguments needs; None: one word of anybody. A function that fails, or says something else,
    is UserError: nobody can be asked before it is known who."""
    declared = tool.approvers
    if declared is None or isinstance(declared, Needs):
        return None if declared is None else declared.requirement
    try:
        found: object = await awaited(declared(context, fresh(arguments), call_id))
    except Exception as error:
        raise UserError(f"Tool '{tool.name}': its approvers function raised {type(error).__name__}: {error}") from error
    if found is not None and not isinstance(found, Needs):
        raise UserError(f"Tool '{tool.name}': its approvers function answers Needs(…) or None, not {found!r}.")
    if found is not None:
        refuse_conditions(tool.name, found)
    return None if found is None else found.requirement


async def requirements_of(frame: Frame, calls: Iterable[tuple[Call, Tool | None]]) -> dict[str, Requirement | None]:
    """What calls that are about to be put before people need, by their ids."""
    found: dict[str, Requirement | None] = {}
    for call, tool in calls:
        if tool is not None and tool.approvers is not None:
            if not isinstance(tool.approvers, Needs):
                await frame.journal.commit()  # user code: what happened is safe before it is asked
            found[call.id] = await requirement_for(tool, frame.context, call.effective or {}, call.label or call.id)
    return found


def note_requirement(frame: Frame, call: Call, needed: Requirement | None) -> None:
    """Behind the question about a call: what it needs, where that is more than one word, or was."""
    entry = frame.run.ledger.entry(call.id)
    before = entry.ballot.requirement if entry is not None and entry.ballot is not None else None
    if needed != before:
        frame.note(ApproversRequired(call.id, needed or ANYBODY))


def note_ladder(frame: Frame, call: Call, rules: Sequence[ApproverRule]) -> None:
    """Behind the question about a call: who is told when it waits too long."""
    ladder = ladder_of(call, rules, frame.journal.now())
    if ladder is not None:
        frame.note(ladder)


async def approver_rules(store: Store, agent: str, tool: str) -> list[ApproverRule]:
    """What the desk says about approvers of such calls, at this moment."""
    return rules_for(await store.voting_settings(), agent, tool)


def ladder_of(call: Call, rules: Sequence[ApproverRule], now: float) -> LadderSet | None:
    """Who is told when the question that was just asked waits too long; None: nobody is, nor was to be."""
    rungs = sorted((rung for rule in rules for rung in rule.rungs), key=lambda rung: rung.after)
    due = [DueRung(rung.kind, round(now + rung.after, 3), rung.to) for rung in dict.fromkeys(rungs)]
    return LadderSet(call.id, due) if due or call.ladder else None


async def known_for(store: Store, names: Iterable[str], four_eyes: Sequence[Pattern] | None = None) -> Known:
    """What a count has to know of the store at this moment."""
    patterns = await store.four_eyes() if four_eyes is None else four_eyes
    people, settings = await store.people(names), await store.voting_settings()
    return Known(people=people, four_eyes=patterns, settings=settings, judge=predicate_holds)


async def not_carried(
    store: Store, root: RunFold, call: Call, grant: GrantMade | None, four_eyes: Sequence[Pattern]
) -> str | None:
    """Why the votes do not carry the decision about a call, with the people as they are now; None: they do."""
    entry = root.ledger.entry(call.id)
    if call.decision is None or entry is None or entry.open_ballot is None:
        return None
    names = names_in(root, entry.open_ballot.votes) | authors_of([grant] if grant is not None else [])
    known = await known_for(store, names, four_eyes)
    return why_not_carried(root, entry, call.decision, grant, known)


async def facts_said(
    store: Store, root: RunFold, words: Sequence[Said], graph: AgentGraph, context: RunContextWrapper[Any]
) -> list[AnyFact]:
    """What people said, as facts: decisions, and votes with what they amount to."""
    facts = facts_to_append(root, words)
    votes = [word for word in words if isinstance(word, VoteCast)]
    if not votes:
        return facts
    judged = await _judged(store, root, votes, graph, context)
    return [*facts, *facts_of_votes(root, votes, await known_for(store, names_in(root, votes)), judged)]


async def _judged(
    store: Store, root: RunFold, votes: Sequence[VoteCast], graph: AgentGraph, context: RunContextWrapper[Any]
) -> Mapping[str, Requirement | None]:
    """What calls need as edits made them, by the code that is here. Without it they need what they needed."""
    found: dict[str, Requirement | None] = {}
    for vote in votes:
        entry = root.ledger.entry(vote.call)
        if vote.arguments is None or entry is None:
            continue
        tool = graph.at(entry.agent).tool_known_as(entry.name, entry.tool)
        if tool is not None and tool.approvers is not None:
            own = await requirement_for(tool, context, vote.arguments, entry.label or entry.call)
            found[vote.call] = with_rules(own, await approver_rules(store, entry.agent, entry.name))
    return found


async def cast_in_code(frame: Frame, votes: Sequence[VoteCast]) -> None:
    """Cast votes that code gives in a person's place. One that cannot count leaves the question to people."""
    try:
        facts = await facts_said(frame.journal.store, frame.journal.run, votes, frame.graph, frame.context)
    except AccessDenied as error:
        told = {"action": "vote_not_counted", "run_id": frame.run_id, "error": error.message}
        logger.info("vote not counted", extra=told)
        return
    frame.journal.note_words(votes, facts)
