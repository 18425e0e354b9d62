"""What the API takes and gives of users, links and tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from placet.desk.access.people import DecisionScope, Role
from placet.desk.api.shapes import Given, ListFilter, Name, Shown


class UserShape(Shown, frozen=True, kw_only=True):
    name: str
    role: Role
    decides: list[DecisionScope]
    """The calls that they may decide, by patterns of agent and tool."""
    groups: list[str]
    """For requirements such as «two of finance»."""
    owner: str | None
    """Of a guest: the person who answers for it."""
    same_as: str | None
    """The first account of the same human being: the two are one person wherever people are counted or kept apart."""
    is_active: bool
    has_password: bool
    created_at: datetime
    created_by: str | None


class UserList(Shown, frozen=True, kw_only=True):
    data: list[UserShape]
    next: str | None = None


Scopes: TypeAlias = Annotated[list[DecisionScope], Meta(max_length=100)]
Groups: TypeAlias = Annotated[list[str], Meta(max_length=100)]


class NewUser(Given, frozen=True, kw_only=True):
    name: Name
    role: Role
    decides: Scopes = msgspec.field(default_factory=lambda: [DecisionScope()])
    groups: Groups = msgspec.field(default_factory=list)
    owner: Name | None = None
    """Of a guest: the person who answers for it; otherwise who adds it."""
    same_as: Name | None = None


class UserChange(Given, frozen=True, kw_only=True):
    role: Role | None = None
    decides: Scopes | None = None
    is_active: bool | None = None
    groups: Groups | None = None
    owner: str | None = None
    """Empty: nobody any more."""
    same_as: str | None = None
    """Empty: no other account's person."""


class InvitationShape(Shown, frozen=True, kw_only=True):
    """A link that works once. The person who follows it sets the user's password."""

    user: UserShape
    link: str | None
    """Null for a new guest: guests have tokens, and no password."""
    warnings: list[str]
    """What should be known about it, in words: such as that nobody is an admin yet."""


class OpenInvitation(Shown, frozen=True, kw_only=True):
    """A link that can still be followed. Its key was shown when it was made."""

    id: str
    name: str | None
    """Whose password it sets; null: the first admin's, who chooses a name."""
    role: Role
    by: str | None
    created_at: datetime
    expires_at: datetime


class InvitationList(Shown, frozen=True, kw_only=True):
    data: list[OpenInvitation]


class MeShape(Shown, frozen=True, kw_only=True):
    name: str
    role: Role
    via: Literal["session", "token", "open"]
    decides: list[DecisionScope]


class TokenShape(Shown, frozen=True, kw_only=True):
    id: str
    owner: str
    name: str
    role: Role
    decides: list[DecisionScope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class NewTokenShape(TokenShape, frozen=True, kw_only=True):
    token: str
    """The token itself. It is shown this once."""


class TokenList(Shown, frozen=True, kw_only=True):
    data: list[TokenShape]
    next: str | None = None


class TokenFilter(ListFilter, frozen=True, kw_only=True):
    owner: str | None = None
    """Only an admin sees those of others."""


class NewToken(Given, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    owner: Name | None = None
    """Whose it is: your own if nothing is said; an admin may make one for others."""
    role: Role | None = None
    """At most the owner's."""
    decides: Scopes = msgspec.field(default_factory=lambda: [DecisionScope()])
    days: Annotated[float, Meta(gt=0, le=3660)] | None = None
    """After so many days it is not valid any more."""
