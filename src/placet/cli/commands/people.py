"""`placet users`, `tokens` and `four-eyes`: who may use a desk, with which keys, and what they may not decide alone."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click import UsageError

from placet.cli.client import all_pages, client_of, part, show_rows, warn
from placet.cli.naming import listed_id, the_one
from placet.cli.options import Above, Place, actions, decides_option, desk_options, reason_option
from placet.cli.output import Screen, print_result
from placet.cli.tables import Row, ago, styled
from placet.facts.codec import JsonObject
from placet.facts.events import Pattern

ROLES = ("guest", "viewer", "reviewer", "admin")


def scopes_of(texts: Sequence[str]) -> list[JsonObject]:
    """`Support:refund*` as the API takes it."""
    return [{"agent": agent, "tool": tool} for agent, tool in map(pattern_of, texts)]


def pattern_of(text: str) -> Pattern:
    """`Support:refund*` as the rules of a store have it."""
    agent, _, tool = text.partition(":")
    return agent or "*", tool or "*"


def scope_text(scopes: object) -> str:
    if not isinstance(scopes, list):
        return ""
    return ", ".join(f"{each['agent']}:{each['tool']}" for each in scopes) or "nothing"


def _given(**values: object) -> JsonObject:
    return {name: value for name, value in values.items() if value is not None}


# -- users ------------------------------------------------------------------------------------------------------------

role_option = click.option("--role", type=click.Choice(ROLES), help="what they may do (default: reviewer)")
name_argument = click.argument("name", metavar="NAME", help="of the user")
owned_option = click.option("--owner", metavar="USER", help="of a guest: the person who answers for it")
same_option = click.option("--same-as", metavar="USER", help="the first account of the same human being")


@actions("users")
def users() -> None:
    """List, add and change who may use a desk, and what they may decide."""


@users.command("list")
@desk_options
def list_users(place: Place, *, as_json: bool) -> None:
    """List who may use the desk. It is what «placet users» does."""
    with client_of(place) as client:
        rows = list(all_pages(client, "/v1/users", {}))
    show_rows(rows, ["user", "role", "groups", "since", "decides"], _user_row, "There is nobody yet.", as_json=as_json)


@users.command("add")
@name_argument
@role_option
@decides_option
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="a group that they are in (repeatable)")
@owned_option
@same_option
@desk_options
def add_user(
    place: Place,
    name: str,
    role: str | None,
    decides: tuple[str, ...],
    groups: tuple[str, ...],
    owner: str | None,
    same_as: str | None,
    *,
    as_json: bool,
) -> None:
    """Add somebody, and print a link that works once, with which they set a password. A guest gets a token instead."""
    body: JsonObject = {"name": name, "role": role or "reviewer", "groups": list(groups)}
    body |= _given(decides=scopes_of(decides) or None, owner=owner, same_as=same_as)
    with client_of(place, begins=True) as client:
        found = client.ask("POST", "/v1/users", None, body)
    _print_link(place, found, as_json=as_json)


@users.command("change")
@name_argument
@role_option
@decides_option
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="their groups, all of them (repeatable)")
@click.option("--no-groups", is_flag=True, help="they are in no group any more")
@owned_option
@same_option
@click.option("--off", "is_off", is_flag=True, help="they may not use it any more")
@click.option("--on", "is_on", is_flag=True, help="they may again")
@desk_options
def change_user(
    place: Place,
    name: str,
    role: str | None,
    decides: tuple[str, ...],
    groups: tuple[str, ...],
    owner: str | None,
    same_as: str | None,
    *,
    no_groups: bool,
    is_off: bool,
    is_on: bool,
    as_json: bool,
) -> None:
    """Change role, groups, what they may decide, or (--off, --on) whether they may use it at all; it holds at once."""
    if is_off and is_on:
        raise UsageError("--off and --on contradict each other: write one of them.")
    if groups and no_groups:
        raise UsageError("--group and --no-groups contradict each other: write one of them.")
    active = True if is_on else False if is_off else None
    member = list(groups) if groups or no_groups else None
    body = _given(role=role, decides=scopes_of(decides) or None, is_active=active, groups=member)
    body |= _given(owner=owner, same_as=same_as)
    with client_of(place) as client:
        found = client.ask("PATCH", f"/v1/users/{part(name)}", None, body)
    print_result(found, f"{found['name']} is {_spoken(found['role'])}.", as_json=as_json)


@users.command("invite")
@name_argument
@desk_options
def invite(place: Place, name: str, *, as_json: bool) -> None:
    """Print a new link; an older one of theirs is void."""
    with client_of(place) as client:
        found = client.ask("POST", f"/v1/users/{part(name)}/invitation", None, {})
    _print_link(place, found, as_json=as_json)


@users.command("links")
@desk_options
def links(place: Place, *, as_json: bool) -> None:
    """List the links that can still be followed."""
    with client_of(place) as client:
        rows = client.ask("GET", "/v1/invitations")["data"]
    show_rows(rows, ["link", "for", "role", "made by", "made"], _link_row, "No links.", as_json=as_json)


@users.command("unlink")
@click.argument("link_id", metavar="ID", help="of a link, or a beginning or end of it")
@desk_options
def unlink(place: Place, link_id: str, *, as_json: bool) -> None:
    """Revoke a link."""
    with client_of(place) as client:
        ids = [str(each["id"]) for each in client.ask("GET", "/v1/invitations")["data"]]
        whole = the_one(ids, link_id, "link", ": «placet users links» lists them")
        client.ask("DELETE", f"/v1/invitations/{part(whole)}")
    print_result({"id": whole}, f"Link {whole} is revoked.", as_json=as_json)


@users.command("remove")
@name_argument
@desk_options
def remove(place: Place, name: str, *, as_json: bool) -> None:
    """Remove somebody, with all sessions, tokens and links."""
    with client_of(place) as client:
        client.ask("DELETE", f"/v1/users/{part(name)}")
    print_result({"name": name}, f"{name} is removed.", as_json=as_json)


def _spoken(role: object) -> str:
    return f"an {role}" if role == "admin" else f"a {role}"


def _print_link(place: Place, found: JsonObject, *, as_json: bool) -> None:
    warn(found)
    user = found["user"]
    assert isinstance(user, dict)
    is_now = f"{user['name']} is {_spoken(user['role'])}."
    if found["link"] is None:
        way_on = f"It has tokens, and no password: placet tokens add NAME --owner {user['name']}"
        print_result(found, f"{is_now} {way_on}", as_json=as_json)
        return
    if not place.desk:  # a store does not know under which address a desk is reached
        _, path, key = str(found["link"]).partition("/invitation")
        found = {**found, "link": path + key}
    words = f"{is_now} This link works once, and sets their password:"
    where = "" if place.desk else "\nIt stands behind the address of the desk."
    print_result(found, f"{words}\n\n  {found['link']}\n{where}", as_json=as_json)


def _link_row(found: JsonObject, _screen: Screen) -> Row:
    whose = str(found["name"] or "the first admin")
    return [str(found["id"]), whose, str(found["role"]), str(found["by"] or ""), ago(found["created_at"])]


def _user_row(found: JsonObject, _screen: Screen) -> Row:
    state = "" if found["is_active"] else " (off)"
    role = str(found["role"])
    look = styled(role + state, "cyan" if role == "admin" else None)
    groups = found["groups"]
    member = ", ".join(map(str, groups)) if isinstance(groups, list) else ""
    return [str(found["name"]), look, member, ago(found["created_at"]), _decides(found)]


def _decides(found: JsonObject) -> str:
    """Of a user or a token. A guest decides nothing, whatever its record says."""
    return "–" if found["role"] == "guest" else scope_text(found["decides"])


# -- tokens -----------------------------------------------------------------------------------------------------------

owner_option = click.option("--owner", metavar="USER", help="whose it is: decisions made with it are theirs")


@actions("tokens")
def tokens() -> None:
    """List, make and revoke keys for programs that use a desk."""


@tokens.command("list")
@owner_option
@desk_options
def list_tokens(place: Place, owner: str | None, *, as_json: bool) -> None:
    """List tokens. It is what «placet tokens» does."""
    head = ["token", "name", "owner", "role", "used", "expires", "decides"]
    with client_of(place) as client:
        rows = list(all_pages(client, "/v1/tokens", {"owner": owner}))
    show_rows(rows, head, _token_row, "No tokens.", as_json=as_json)


@tokens.command("add")
@click.argument("name", metavar="NAME", help="what it is called in lists")
@owner_option
@click.option("--role", type=click.Choice(ROLES), help="at most the owner's (default: the owner's)")
@click.option("--days", type=Above(0), metavar="N", help="not valid after so many days")
@decides_option
@desk_options
def add_token(
    place: Place,
    name: str,
    owner: str | None,
    role: str | None,
    days: float | None,
    decides: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Make a token and print it, this once."""
    if owner is None and not place.desk:
        raise UsageError("straight on a store there is nobody logged in to the desk: say whose it is with --owner.")
    body = {"name": name} | _given(owner=owner, role=role, days=days, decides=scopes_of(decides) or None)
    with client_of(place) as client:
        found = client.ask("POST", "/v1/tokens", None, body)
    keep = "It is shown this once. Keep it where programs find it, as in PLACET_TOKEN."
    print_result(found, f"{found['token']}\n{keep}", as_json=as_json)


@tokens.command("revoke")
@click.argument("token_id", metavar="ID", help="of a token, or a beginning or end of it")
@desk_options
def revoke_token(place: Place, token_id: str, *, as_json: bool) -> None:
    """Revoke a token: the next request that shows it is refused."""
    with client_of(place) as client:
        whole = listed_id(client, "/v1/tokens", token_id, "token", ": «placet tokens» lists them")
        client.ask("DELETE", f"/v1/tokens/{part(whole)}")
    print_result({"id": whole}, f"Token {whole} is revoked.", as_json=as_json)


def _token_row(found: JsonObject, _screen: Screen) -> Row:
    used = ago(found["last_used_at"])
    values = [found["id"], found["name"], found["owner"], found["role"]]
    return [*map(str, values), used and f"{used} ago", ago(found["expires_at"]), _decides(found)]


# -- four eyes --------------------------------------------------------------------------------------------------------


@actions("four-eyes")
def four_eyes() -> None:
    """Say where the person who started a run may not approve its calls.

    It is a setting of the store: every desk, worker and command on it obeys it at once, also for what was approved and
    has not begun. Changes are recorded; at a desk they take an admin.
    """


four_eyes.default = "show"


@four_eyes.command("show")
@desk_options
def show_four_eyes(place: Place, *, as_json: bool) -> None:
    """Say where four eyes are demanded. It is what «placet four-eyes» does."""
    with client_of(place) as client:
        _print_where(client.ask("GET", "/v1/four-eyes"), as_json=as_json)


@four_eyes.command("set")
@click.argument("patterns", nargs=-1, required=True, metavar="AGENT[:TOOL]…", help="where, by patterns with * and ?")
@reason_option
@desk_options
def set_four_eyes(place: Place, patterns: tuple[str, ...], reason: str | None, *, as_json: bool) -> None:
    """Demand them there and nowhere else."""
    with client_of(place, begins=True) as client:
        body = {"patterns": scopes_of(patterns)} | _given(reason=reason)
        _print_where(client.ask("PUT", "/v1/four-eyes", None, body), as_json=as_json)


@four_eyes.command("off")
@reason_option
@desk_options
def no_four_eyes(place: Place, reason: str | None, *, as_json: bool) -> None:
    """Demand them nowhere."""
    with client_of(place) as client:
        _print_where(
            client.ask("PUT", "/v1/four-eyes", None, {"patterns": []} | _given(reason=reason)), as_json=as_json
        )


def _print_where(found: JsonObject, *, as_json: bool) -> None:
    where = scope_text(found["patterns"]) if found["patterns"] else "nowhere"
    print_result(found, f"Four eyes are demanded: {where}.", as_json=as_json)
