"""Users and tokens over the API."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from placet.desk.access.accounts import Token
from placet.desk.access.people import User, checked_groups, checked_name
from placet.desk.api.idempotency import made_id
from placet.desk.api.operations import ApiAnswer, ApiRequest, Operation
from placet.desk.api.paging import in_time, page_after
from placet.desk.api.people_shapes import (
    InvitationList,
    InvitationShape,
    MeShape,
    NewToken,
    NewTokenShape,
    NewUser,
    OpenInvitation,
    TokenFilter,
    TokenList,
    TokenShape,
    UserChange,
    UserList,
    UserShape,
)
from placet.desk.api.shapes import ListFilter, Nothing
from placet.desk.asked_changes import is_asked as is_asked_at
from placet.desk.web.context import Web
from placet.desk.web.problems import Problem
from placet.facts.codec import JsonObject

DAY = 24 * 3600.0


def invitation_link(web: Web, key: str, base: str) -> str:
    """Where an invitation is followed. `base` is where the desk was reached, if nothing else is known."""
    return f"{(web.settings.public_url or base).rstrip('/')}/invitation?key={quote(key)}"


async def me(ask: ApiRequest[Nothing, Nothing]) -> MeShape:
    return MeShape.of(ask.actor)


async def list_users(ask: ApiRequest[ListFilter, Nothing]) -> UserList:
    wanted, users = ask.query, await ask.web.accounts.users()
    rows, following = page_after(users, lambda user: user.name, wanted.cursor, wanted.limit)
    return UserList(data=[_user_shape(user) for user in rows], next=following)


def _user_shape(user: User) -> UserShape:
    return UserShape.of(user, has_password=user.password is not None, groups=list(user.groups))


async def add_user(ask: ApiRequest[Nothing, NewUser]) -> ApiAnswer:
    given, accounts = ask.body, ask.web.accounts
    name, by = checked_name(given.name), ask.actor.name
    is_asked = bool(given.groups) and await is_asked_at(ask.web.desk.store, "groups.set", by)
    user = await accounts.add_user(
        name,
        given.role,
        decides=tuple(given.decides),
        groups=() if is_asked else given.groups,
        owner=given.owner,
        same_as=given.same_as,
        by=ask.actor.name,
    )
    await groups_are_asked(ask.web, by, user.name, given.groups)
    return ApiAnswer(await _invited(ask, user, is_new=True), headers={"Location": f"/v1/users/{quote(user.name)}"})


async def groups_are_asked(web: Web, by: str, name: str, groups: Sequence[str]) -> bool:
    """Whether people are asked about these groups: then they are changed when those approved."""
    user = await web.accounts.user(name)
    wanted = checked_groups(groups)
    if user is None or wanted == user.groups:
        return False
    change: JsonObject = {"name": name, "groups": list(wanted), "before": list(user.groups)}
    return await web.desk.ask_about_change("groups.set", change, by=by) is not None


async def invite_again(ask: ApiRequest[Nothing, Nothing]) -> InvitationShape:
    return await _invited(ask, await _user_or_404(ask.web, ask.part("name")))


async def _invited(
    ask: ApiRequest[Nothing, NewUser] | ApiRequest[Nothing, Nothing], user: User, *, is_new: bool = False
) -> InvitationShape:
    link: str | None = None
    if user.role != "guest" or not is_new:  # a new guest needs no link: it gets a token
        key = await ask.web.accounts.invite(user.name, by=ask.actor.name)
        link = invitation_link(ask.web, key, str(ask.request.base_url))
    warnings = [no_admin_warning(user)] if await ask.web.accounts.lacks_an_admin() else []
    return InvitationShape(user=_user_shape(user), link=link, warnings=warnings)


async def list_invitations(ask: ApiRequest[Nothing, Nothing]) -> InvitationList:
    return InvitationList(data=[OpenInvitation.of(each) for each in await ask.web.accounts.invitations()])


async def revoke_invitation(ask: ApiRequest[Nothing, Nothing]) -> None:
    wanted = ask.part("invitation_id")
    if not await ask.web.accounts.revoke_invitation(wanted, by=ask.actor.name):
        raise Problem(404, "not_found", f"There is no link {wanted[:80]!r} that can be followed.")


def no_admin_warning(user: User) -> str:
    """What is to be done where there are users, and no admin among them. A guest is a program: never an admin."""
    makes = "add NAME" if user.role == "guest" else f"change {user.name}"
    return (
        f"This desk has no admin, so users and rights cannot be changed there: «placet users {makes} --role admin», "
        "straight on the store, makes one."
    )


async def change_user(ask: ApiRequest[Nothing, UserChange]) -> UserShape:
    user = await _user_or_404(ask.web, ask.part("name"))
    given = ask.body
    decides = None if given.decides is None else tuple(given.decides)
    groups = given.groups
    if groups is not None and await groups_are_asked(ask.web, ask.actor.name, user.name, groups):
        groups = None
    changed = await ask.web.accounts.change_user(
        user.name,
        role=given.role,
        decides=decides,
        is_active=given.is_active,
        groups=groups,
        owner=given.owner,
        same_as=given.same_as,
        by=ask.actor.name,
    )
    return _user_shape(changed)


async def remove_user(ask: ApiRequest[Nothing, Nothing]) -> None:
    user = await _user_or_404(ask.web, ask.part("name"))
    await ask.web.accounts.remove_user(user.name, by=ask.actor.name)


async def _user_or_404(web: Web, name: str) -> User:
    found = None if "\x00" in name else await web.accounts.user(name)
    if found is None:
        raise Problem(404, "not_found", f"There is no user {name[:80]!r} at this desk.")
    return found


async def list_tokens(ask: ApiRequest[TokenFilter, Nothing]) -> TokenList:
    wanted = ask.query
    owner = wanted.owner if ask.actor.may("admin") else ask.actor.name
    tokens = await ask.web.accounts.tokens(owner)
    rows, following = page_after(tokens, lambda token: in_time(token.created_at, token.id), wanted.cursor, wanted.limit)
    return TokenList(data=[TokenShape.of(token) for token in rows], next=following)


async def add_token(ask: ApiRequest[Nothing, NewToken]) -> ApiAnswer:
    given = ask.body
    owner = given.owner or ask.actor.name
    if owner != ask.actor.name and not ask.actor.may("admin"):
        raise Problem(403, "access_denied", "Only an admin makes tokens for others.")
    if ask.actor.via == "token" and not ask.actor.may("admin"):
        raise Problem(403, "access_denied", "A token makes no further tokens unless it is an admin's: log in.")
    await ask.web.accounts.check_token_role(owner, given.role)
    text, token = await ask.web.accounts.add_token(
        owner,
        given.name,
        role=given.role,
        decides=tuple(given.decides),
        seconds=None if given.days is None else given.days * DAY,
        by=ask.actor.name,
        token_id=made_id(ask.request, "tok-"),
    )
    return ApiAnswer(NewTokenShape.of(token, token=text), headers={"Location": f"/v1/tokens/{token.id}"})


async def revoke_token(ask: ApiRequest[Nothing, Nothing]) -> None:
    token = await _token_or_404(ask)
    await ask.web.accounts.revoke_token(token.id, by=ask.actor.name)


async def _token_or_404(ask: ApiRequest[Nothing, Nothing]) -> Token:
    wanted = ask.part("token_id")
    found = None if "\x00" in wanted else await ask.web.accounts.token(wanted)
    if found is None or not (found.owner == ask.actor.name or ask.actor.may("admin")):
        raise Problem(404, "not_found", f"There is no token {wanted[:80]!r}.")
    return found


OPERATIONS = (
    Operation("GET", "/v1/me", me, "Who you are to this desk", "people", answer=MeShape),
    Operation("GET", "/v1/users", list_users, "List users", "people", role="admin", query=ListFilter, answer=UserList),
    Operation(
        "POST",
        "/v1/users",
        add_user,
        "Add a user",
        "people",
        role="admin",
        body=NewUser,
        answer=InvitationShape,
        status=201,
        details="The answer has a link that works once, with which they set a password. A guest gets none "
        "(`link` is null): give it a token.",
        shows_secret=True,
    ),
    Operation(
        "PATCH",
        "/v1/users/{name}",
        change_user,
        "Change what a user may do",
        "people",
        role="admin",
        body=UserChange,
        answer=UserShape,
        problems=(404,),
        details="It holds at once, also in open sessions and for their tokens.",
    ),
    Operation(
        "DELETE",
        "/v1/users/{name}",
        remove_user,
        "Remove a user, with all sessions, tokens and links",
        "people",
        role="admin",
        status=204,
        problems=(404,),
    ),
    Operation(
        "POST",
        "/v1/users/{name}/invitation",
        invite_again,
        "A link with which a user sets a new password",
        "people",
        role="admin",
        body=Nothing,
        answer=InvitationShape,
        status=201,
        problems=(404,),
        details="An older link of theirs stops working, and this one does when they are changed, switched off or "
        "removed.",
        shows_secret=True,
    ),
    Operation(
        "GET",
        "/v1/invitations",
        list_invitations,
        "Links that can still be followed",
        "people",
        role="admin",
        answer=InvitationList,
    ),
    Operation(
        "DELETE",
        "/v1/invitations/{invitation_id}",
        revoke_invitation,
        "Revoke a link",
        "people",
        role="admin",
        status=204,
        problems=(404,),
    ),
    Operation("GET", "/v1/tokens", list_tokens, "List tokens", "people", query=TokenFilter, answer=TokenList),
    Operation(
        "POST",
        "/v1/tokens",
        add_token,
        "Make a token",
        "people",
        body=NewToken,
        answer=NewTokenShape,
        status=201,
        details="Its text is in the answer and nowhere else: the store keeps a digest.",
        shows_secret=True,
    ),
    Operation(
        "DELETE",
        "/v1/tokens/{token_id}",
        revoke_token,
        "Revoke a token",
        "people",
        status=204,
        problems=(404,),
        details="The next request that shows it is refused.",
    ),
)
