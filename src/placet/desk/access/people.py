"""People and programs at a desk, and what they may do. Pure: who asks is told elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, assert_never

import msgspec

from placet.core.four_eyes import why_approval_does_not_count
from placet.core.votes import Person
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import HoldKind, Pattern, Verdict
from placet.facts.requirements import Assurance
from placet.facts.voting_settings import ON_CALL

Role: TypeAlias = Literal["guest", "viewer", "reviewer", "admin"]
ROLES: tuple[Role, ...] = ("guest", "viewer", "reviewer", "admin")
"""Each may do what those before it may: look; decide, start and cancel; say who may. A guest may none of that: it
proposes, claims and reports calls of its own, and nobody else does that in its place."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")


class DecisionScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls a person may decide: patterns with `*` and `?`, for the agent's path and the tool's name."""

    agent: str = "*"
    tool: str = "*"

    def covers(self, agent: str, tool: str) -> bool:
        return fnmatchcase(agent, self.agent) and fnmatchcase(tool, self.tool)


EVERYTHING = (DecisionScope(),)
ANY = "*"


def patterns_of(scopes: Iterable[DecisionScope]) -> list[Pattern]:
    """The same as facts and rules write it."""
    return [(scope.agent, scope.tool) for scope in scopes]


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of this desk. A program is a user without a password, with tokens."""

    name: str
    role: Role
    decides: tuple[DecisionScope, ...] = EVERYTHING
    """What a reviewer or an admin may decide; nothing else."""
    password: str | None = None
    """A salted hash."""
    is_active: bool = True
    created_at: float = 0.0
    created_by: str | None = None
    groups: tuple[str, ...] = ()
    """Whose approval it is where «two of finance» have to approve."""
    owner: str | None = None
    """Of a guest: the person who answers for it; None: nobody knows."""
    same_as: str | None = None
    """The account of the same human being, if this is a second one: the two are one person wherever people are
    counted or kept apart."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who is behind a request: the name that decisions are recorded under, and what they may do."""

    name: str
    role: Role
    via: Literal["session", "token", "open", "slack"]
    """By a cookie, by a token, at a desk that has no log-in, or by a chat account that is linked."""
    decides: tuple[DecisionScope, ...] = EVERYTHING
    narrowed: tuple[DecisionScope, ...] = EVERYTHING
    """A token may be allowed less than its owner."""
    credential: str = ""
    """The id of the session or token."""
    csrf: str = ""
    """What forms of this session carry."""
    logged_in: Assurance = "password"
    """Of a session: how sure it is who opened it."""

    @property
    def assurance(self) -> Assurance:
        """How sure it is that it is this person."""
        return self.logged_in if self.via == "session" else _ASSURANCE[self.via]

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def may_decide(self, agent: str, tool: str) -> bool:
        """By role and patterns; whether it is their own run is judged by `why_not`."""
        allowed = (self.decides, self.narrowed)
        return self.may("reviewer") and all(any(one.covers(agent, tool) for one in some) for some in allowed)


_ASSURANCE: dict[str, Assurance] = {"token": "token", "open": "none", "slack": "chat"}


def checked_groups(names: Iterable[str]) -> tuple[str, ...]:
    """The names of groups as they are kept, each once; UserError for what cannot be one."""
    found = sorted({name.strip().lower() for name in names})
    on_call = next((name for name in found if name.startswith(ON_CALL)), None)
    if on_call is not None:
        raise UserError(f"{on_call!r} is the group of a rotation: who is on call is in it, by «placet oncall».")
    wrong = next((name for name in found if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise UserError(
            f"{wrong[:80]!r} cannot be a group's name: up to 64 small letters, digits and . _ @ + -, beginning with a "
            "letter or a digit."
        )
    return tuple(found)


def lower_role(one: Role, other: Role) -> Role:
    return min(one, other, key=ROLES.index)


def checked_name(name: str) -> str:
    """A user's name in the form in which it is kept, or UserError."""
    found = name.strip().lower()
    if not _NAME.fullmatch(found):
        raise UserError(
            f"{name[:80]!r} cannot be a user's name: up to 64 small letters, digits and . _ @ + -, "
            "beginning with a letter or a digit."
        )
    return found


def why_not(
    actor: Actor,
    verdict: Verdict | None,
    *,
    agent: str,
    tool: str,
    started_by: str | None,
    four_eyes: Sequence[Pattern],
    people: Mapping[str, Person] | None = None,
    guest: str | None = None,
) -> str | None:
    """Why this actor may not say this about that call; None when they may.

    Where four eyes are asked for, the person who started the run may only say no. `verdict` None: whether they may say
    yes.
    """
    if not actor.may("reviewer"):
        return f"{actor.name} may look, not decide: that takes the role reviewer."
    if not actor.may_decide(agent, tool):
        return f"{actor.name} may not decide calls of {tool} by {agent}: an admin says who may."
    if verdict == "reject":
        return None
    return why_approval_does_not_count(
        four_eyes, people or {}, agent=agent, tool=tool, started_by=started_by, author=actor.name, guest=guest
    )


def refuse_if_not_allowed(
    actor: Actor,
    verdict: Verdict | None,
    *,
    agent: str,
    tool: str,
    started_by: str | None,
    four_eyes: Sequence[Pattern],
    people: Mapping[str, Person] | None = None,
    guest: str | None = None,
) -> None:
    problem = why_not(
        actor,
        verdict,
        agent=agent,
        tool=tool,
        started_by=started_by,
        four_eyes=four_eyes,
        people=people,
        guest=guest,
    )
    if problem is not None:
        raise AccessDenied(problem)


def may_hold(actor: Actor, kind: HoldKind, name: str, agent: str | None = None) -> bool:
    """Whether they may hold this back, and release what they held: only what they could decide, all of it.

    `agent`: of a run, that of its outermost agent; None: nobody knows the run.
    """
    if actor.may("admin"):
        return True
    wanted = _held_calls(kind, name, agent)
    allowed = (actor.decides, actor.narrowed)
    return actor.may("reviewer") and all(any(_takes_in(one, *wanted) for one in some) for some in allowed)


def _held_calls(kind: HoldKind, name: str, agent: str | None) -> Pattern:
    """Which calls a hold keeps back: the agent's path and the tool, or any."""
    owner, dot, tool = name.rpartition(".")
    match kind:
        case "tool":
            return (owner, tool) if dot else (ANY, name)
        case "agent":
            return name, ANY
        case "run":
            return ANY if agent is None else agent, ANY
        case never:
            assert_never(never)


def _takes_in(scope: DecisionScope, agent: str, tool: str) -> bool:
    """Whether a scope covers all calls that are meant; `ANY` means every one there is."""
    return (scope.agent == ANY or (agent != ANY and fnmatchcase(agent, scope.agent))) and (
        scope.tool == ANY or (tool != ANY and fnmatchcase(tool, scope.tool))
    )


def may_end(actor: Actor, agent: str, started_by: str | None) -> bool:
    """Whether they may end a run: their own, or one of an agent of which they may decide calls."""
    if actor.may("admin") or (actor.may("reviewer") and started_by == actor.name):
        return True
    allowed = (actor.decides, actor.narrowed)
    return actor.may("reviewer") and all(any(fnmatchcase(agent, one.agent) for one in some) for some in allowed)
