"""Who may run without being asked about. Only an explicit «no approval needed» does: silence asks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from placet.core.approvals import Ledger, covers, rank
from placet.core.policy import Question
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.facts.codec import JsonObject, canonical
from placet.facts.events import GrantMade


class Free(msgspec.Struct, frozen=True):
    """The rule said, explicitly, that no approval is needed."""


class Ask(msgspec.Struct, frozen=True):
    """A person is asked; `why` says so only when it is not simply the tool's rule."""

    why: str | None = None
    question: Question | None = None
    """What a policy asks for beyond that."""


class Unfit(msgspec.Struct, frozen=True):
    """The arguments do not fit the tool: there is nothing to judge, and the model reads so."""


Verdict: TypeAlias = Free | Ask | Unfit | str
"""What becomes of a proposed call; a text is a denial that the model reads."""


def judge_answer(answer: object) -> Free | Ask:
    """What a rule's answer means. `False` and nothing else means that no person needs to be asked."""
    if answer is False:
        return Free()
    if answer is True:
        return Ask()
    return Ask(f"its needs_approval answered {type(answer).__name__} instead of True or False")


_SECOND = "v2-"
"""How digests of the second version begin. Those of the first have no version in them: they cover the arguments as the
model wrote them, and of an agent behind a tool only the tool."""


def is_first_version(digest: str) -> bool:
    """Whether a digest is of the first version: what was approved under it is checked in the way of its time."""
    return not digest.startswith(_SECOND)


def digest_of(
    path: str, agent: str, tool: str, fingerprint: str, arguments: JsonObject | str, *, first_version: bool = False
) -> str:
    """What a person approves: this agent's tool, as it is, with these arguments, as validated. Malformed arguments
    count as the text they are.

    `path` is that of the nested run: what was approved inside one is not approved inside another.
    """
    found = hashlib.blake2b(canonical([path, agent, tool, fingerprint, arguments]), digest_size=16).hexdigest()
    return found if first_version else _SECOND + found


def digest_of_questions(
    path: str,
    agent: str,
    tool: str,
    fingerprint: str,
    arguments: JsonObject | str,
    questions: dict[str, JsonObject],
    *,
    first_version: bool = False,
) -> str:
    """What a person answers: these questions of this call of this tool, as it is."""
    asked: JsonObject = {"arguments": arguments, "questions": questions}
    return digest_of(path, agent, tool, fingerprint, asked, first_version=first_version)


def newest_first(grants: Sequence[GrantMade]) -> list[GrantMade]:
    """The newest first, whatever order they came in: a state may bring an older one late. A no before a yes of the same
    time."""
    return sorted(grants, key=rank)[::-1]


def may_be_granted(call: Call, now: float) -> bool:
    """Whether a standing decision may decide the call: it waits, in time, and no person took an approval of it back."""
    is_over = call.at_expiry == "reject" and call.expires_at is not None and call.expires_at <= now
    return call.status is Status.HELD and not call.was_revoked and not is_over


def calls_under(run: RunFold, grant: GrantMade, now: float) -> list[str]:
    """The calls that wait already and that this grant would decide, at any depth; not the one that it is made with."""
    found: list[str] = []
    for owner, call in run.waiting():
        entry = run.ledger.entry(call.id)
        if entry is None or call.id == grant.call or not may_be_granted(call, now):
            continue
        arguments = call.effective
        if covers(grant, owner.path, entry.agent, entry.tool, entry.fingerprint, arguments, now):
            found.append(call.id)
    return found[: grant.uses]


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
