"""Who may run without being asked about. Only an explicit «no approval needed» does: silence asks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from placet.core.approvals import Ledger, covers, rank
from placet.facts.codec import JsonObject, canonical
from placet.facts.events import GrantMade


class Free(msgspec.Struct, frozen=True):
    """The rule said, in so many words, that no approval is needed."""


class Ask(msgspec.Struct, frozen=True):
    """A person is asked; `why` says so only when it is not simply the tool's rule."""

    why: str | None = None


def judge_answer(answer: object) -> Free | Ask:
    """What a rule's answer means. `False` and nothing else means that nobody needs to be asked."""
    if answer is False:
        return Free()
    if answer is True:
        return Ask()
    return Ask(f"its needs_approval answered {type(answer).__name__} instead of True or False")


def digest_of(path: str, agent: str, tool: str, fingerprint: str, arguments: JsonObject | str) -> str:
    """What a person approves: this agent's tool, as it is, with these arguments. Malformed arguments count as the text
    they are.

    `path` is that of the nested run: what was approved inside one is not approved inside another.
    """
    return hashlib.blake2b(canonical([path, agent, tool, fingerprint, arguments]), digest_size=16).hexdigest()


def digest_of_questions(
    path: str, agent: str, tool: str, fingerprint: str, arguments: JsonObject | str, questions: dict[str, JsonObject]
) -> str:
    """What a person answers: these questions of this call of this tool, as it is."""
    asked: JsonObject = {"arguments": arguments, "questions": questions}
    return digest_of(path, agent, tool, fingerprint, asked)


def newest_first(grants: Sequence[GrantMade]) -> list[GrantMade]:
    """The newest first, whatever order they came in: a state may bring an older one late. A no before a yes of the same
    time."""
    return sorted(grants, key=rank)[::-1]


def newest_grant(
    grants: Sequence[GrantMade],
    ledger: Ledger,
    path: str,
    agent: str,
    tool: str,
    fingerprint: str,
    arguments: JsonObject | None,
    now: float,
) -> GrantMade | None:
    """The first of these grants, newest first, that reaches the call and is not used up."""
    for grant in grants:
        is_left = grant.uses is None or ledger.uses_of(grant.id) < grant.uses
        if is_left and covers(grant, path, agent, tool, fingerprint, arguments, now):
            return grant
    return None
