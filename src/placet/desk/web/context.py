"""What a request can reach: the desk and what surrounds it, and who is asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.access.accounts import Accounts
from placet.desk.access.identities import Identities
from placet.desk.access.passkeys import Passkeys
from placet.desk.access.people import Actor, Role
from placet.desk.desk import Desk
from placet.desk.web.feed import Feed
from placet.desk.web.limits import RateLimits
from placet.desk.web.metrics import Meter
from placet.desk.web.problems import Problem
from placet.desk.web.settings import WebSettings
from placet.desk.web.waiting import Waiting
from placet.sso.oidc import Client

ErrorPage: TypeAlias = Callable[[Request, Problem], Response]


@dataclass(slots=True)
class Web:
    """One desk on the web: all that its routes share."""

    desk: Desk
    accounts: Accounts
    passkeys: Passkeys
    identities: Identities
    settings: WebSettings
    feed: Feed
    limits: RateLimits
    meter: Meter
    waiting: Waiting
    clock: Clock = SYSTEM_CLOCK
    error_page: ErrorPage | None = None
    sso: Mapping[str, Client] = field(default_factory=dict)
    """Identity providers by name."""
    open_csrf: str = field(default="")
    """What forms carry at a desk that has no log-in."""


def web_of(connection: HTTPConnection) -> Web:
    return cast("Web", connection.app.state.web)


def actor_or_none(connection: HTTPConnection) -> Actor | None:
    return cast("Actor | None", connection.scope.get("placet.actor"))


def actor_of(connection: HTTPConnection) -> Actor:
    """Who asks; Problem 401 when nobody is known."""
    found = actor_or_none(connection)
    if found is None:
        raise Problem(
            401,
            "not_authenticated",
            "Say who you are: log in, or send a token as «Authorization: Bearer placet_…».",
            headers={"WWW-Authenticate": 'Bearer realm="placet"'},
        )
    return found


def require(connection: HTTPConnection, role: Role) -> Actor:
    """Who asks, if they have at least this role."""
    actor = actor_of(connection)
    if not actor.may(role):
        raise Problem(403, "access_denied", f"{actor.name} is a {actor.role}: this takes the role {role}.")
    return actor


def csrf_of(connection: HTTPConnection) -> str:
    """What a form on this page carries as `csrf_token`."""
    actor = actor_or_none(connection)
    return actor.csrf if actor is not None else ""
