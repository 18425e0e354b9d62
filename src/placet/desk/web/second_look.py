"""A standing decision that reaches further than what people approved needs a second look: a typed word, or a vote.

Rule of this file: it is about those that reach beyond their run and let calls through. A program that makes one in its
own code has looked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from placet.declare.decisions import Grant, plain_object
from placet.desk.desk import DeskRequest
from placet.desk.web.context import Web
from placet.desk.web.problems import FieldProblem, Problem
from placet.facts.codec import JsonObject
from placet.facts.requirements import Requirement
from placet.service.like_calls import Trial, like_calls, trial

CODE = "second_look"
MOST_SAID = 6


async def trial_of(
    web: Web,
    agent: str,
    tool: str,
    verdict: Literal["approve", "reject"],
    grant: Grant,
    also_approved: JsonObject | None = None,
) -> Trial:
    """What it would have made of the last calls like it, and what is wide about it."""
    cases = await like_calls(web.desk.store, agent, tool)
    pinned = None if grant.arguments is None else plain_object(grant.arguments, "The grant's arguments")
    return trial(cases, verdict, pinned, grant.terms(), grant.uses, also_approved)


async def refuse_without_second_look(
    web: Web,
    agent: str,
    tool: str,
    verdict: str,
    grant: bool | Grant,
    confirm: str | None,
    request: DeskRequest | None = None,
) -> None:
    """Problem 422 that says what is wide about it and which word to type; nothing where it was typed, or is not
    needed. `request`: the question with which it is made."""
    if not isinstance(grant, Grant) or grant.scope != "agent" or verdict != "approve" or confirm == tool:
        return
    if _is_over(grant, web.clock.now()):
        return  # refused where it is made
    if request is not None and request.ballot is not None and _needs_several(request.ballot.requirement):
        return  # all who vote have to want the same: that is the second look
    arguments = request.arguments if request is not None and isinstance(request.arguments, dict) else None
    found = await trial_of(web, agent, tool, "approve", grant, arguments)
    if not found.wider:
        return
    said = "; ".join(found.wider[:MOST_SAID])
    word = "That is not the word to type. " if confirm else ""
    detail = (
        f"{word}It reaches further than what people approved: {said}. Nothing was decided. To say that this is meant, "
        f"type the tool's name: {tool}."
    )
    raise Problem(422, CODE, detail, errors=[FieldProblem(field="confirm", message=f"type {tool}")])


def _is_over(grant: Grant, now: float) -> bool:
    until = grant.until.timestamp() if isinstance(grant.until, datetime) else grant.until
    return until is not None and until <= now


def _needs_several(requirement: Requirement) -> bool:
    if requirement.all_of:
        return any(map(_needs_several, requirement.all_of))
    return all(sum(step.approve for step in steps) > 1 for steps in requirement.alternatives)
