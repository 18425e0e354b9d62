"""A client's configuration with its servers behind the gateway, and without. Pure: text in, text out.

Rule of this file: a server that cannot be moved is refused by name, never left outside in silence; and what was moved
stands in the gateway's file as the client had it, so that it can be put back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.gate.assistant_settings import written
from placet.gate.mcp.config import NAME, OURS, TRANSPORT, server_of

KEYS = ("mcpServers", "servers")
"""Under which clients keep their servers; the second is VS Code's."""
_OF_THE_CLIENT = re.compile(r"\$\{(?!(?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})[^}]*\}")
"""A variable that only the client can fill in: what was typed, the folder that is open."""


class Wrapped(msgspec.Struct, frozen=True, kw_only=True):
    client: str
    gateway: str
    moved: list[str]
    """The servers that are behind the gateway now and were not before."""
    left: list[str]
    """Those that stay outside, because somebody said so, or because they are switched off."""


def wrapped(
    text: str, gateway: str | None, entry: JsonObject, settings: JsonObject, leave: Collection[str] = ()
) -> Wrapped:
    """`gateway`: the file of an earlier time. `settings`: where the calls are asked about."""
    found = _read(text, "The configuration")
    key, servers = _servers(found)
    unknown = set(leave) - set(servers)
    if unknown:
        raise UserError(f"There is no server {min(unknown)!r} in it to leave outside.")
    moved = [name for name, each in servers.items() if not is_ours(each) and not _stays(name, each, leave)]
    for name in moved:
        _check(name, servers[name])
    own = _read(gateway, "The gateway's file") if gateway is not None else {}
    known = own.get(KEYS[0], {})
    kept = {name: _with_settings_of(servers[name], known.get(name)) for name in moved}
    if not any(map(is_ours, servers.values())):
        known = {}  # of a time that is over: what the client has lost since must not come back behind its back
    told: Any = own.get(OURS, {})
    rest = {name: value for name, value in told.items() if name not in ("desk", "store")}
    own = {**own, KEYS[0]: {**known, **kept}, OURS: {**rest, **settings}}
    given = {"type": "stdio", **entry} if any("type" in servers[name] for name in moved) else entry
    found[key] = dict(_in_their_place(servers, moved, given))
    return Wrapped(
        client=written(found, text), gateway=written(own, gateway), moved=moved,
        left=[name for name, each in servers.items() if name not in moved and not is_ours(each)],
    )  # fmt: skip


def unwrapped(text: str, gateway: str) -> str:
    """The servers back in the place of the gateway; what else was changed since stays."""
    found = _read(text, "The configuration")
    key, servers = _servers(found)
    known = _read(gateway, "The gateway's file").get(KEYS[0], {})
    back: dict[str, Any] = {}
    outside = {name for name, each in servers.items() if not is_ours(each)}
    for name, each in servers.items():
        if is_ours(each):
            back |= {n: {k: v for k, v in e.items() if k != OURS} for n, e in known.items() if n not in outside}
        else:
            back[name] = each
    found[key] = back
    return written(found, text)


def says_the_same(text: str, other: str) -> bool:
    return bool(_read(text, "The configuration") == _read(other, "The configuration"))


def is_wrapped(text: str) -> bool:
    return any(is_ours(each) for each in _servers(_read(text, "The configuration"))[1].values())


def is_ours(entry: JsonObject) -> bool:
    given = entry.get("args")
    words = [str(entry.get("command") or ""), *(str(each) for each in (given if isinstance(given, list) else ()))]
    has_verb = any(pair == ("mcp", "serve") for pair in pairwise(words))
    return has_verb and ("placet.cli.main" in words or re.split(r"[/\\]", words[0])[-1] in ("placet", "placet.exe"))


def secrets_in(text: str) -> list[str]:
    """What stands in the environment and the headers of the servers: not for a screen."""
    found: list[str] = []
    for key in KEYS:
        servers = _read(text, "The configuration").get(key, {})
        for entry in servers.values() if isinstance(servers, dict) else ():
            for where in ("env", "headers"):
                values = entry.get(where) if isinstance(entry, dict) else None
                found += [value for value in (values or {}).values() if isinstance(value, str) and len(value) > 3]
    return sorted(set(found), key=len, reverse=True)


def _in_their_place(
    servers: dict[str, JsonObject], moved: list[str], entry: JsonObject
) -> Iterator[tuple[str, JsonObject]]:
    """One entry of ours, where the first of the moved ones or the earlier one of ours stood."""
    name = OURS if OURS not in servers or OURS in moved or is_ours(servers[OURS]) else f"{OURS}-gateway"
    is_there = False
    for each, given in servers.items():
        if each not in moved and not is_ours(given):
            yield each, given
        elif not is_there:
            is_there = True
            yield name, entry


def _with_settings_of(entry: JsonObject, earlier: JsonObject | None) -> JsonObject:
    """What somebody set for a server of this name stays."""
    return {**entry, OURS: earlier[OURS]} if earlier and OURS in earlier and OURS not in entry else entry


def _stays(name: str, entry: JsonObject, leave: Collection[str]) -> bool:
    return name in leave or entry.get("disabled") is True or entry.get("enabled") is False


def _check(name: str, entry: JsonObject) -> None:
    where, advice = f"The server {name!r}", f"Change it, or leave it outside: --leave {name!r}. Nothing was changed."
    if not NAME.fullmatch(name):
        raise UserError(f"{where} has a name that the gateway does not take (40 letters, digits, . _ -). {advice}")
    try:
        taken = server_of(entry, where)
    except UserError as error:
        raise UserError(f"{error} {advice}") from error
    if not (taken.get("command") or taken.get("url")):
        raise UserError(f"{where} has neither «command» nor «url». {advice}")
    inside = _OF_THE_CLIENT.search(json.dumps({part: taken.get(part) for part in TRANSPORT}))
    if inside:
        raise UserError(f"{where} uses {inside.group()}, which only the client can fill in. {advice}")


# Any: settings of others, of whatever shape they are
def _read(text: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what} is no JSON ({error}): nothing was changed.") from error
    if not isinstance(found, dict):
        raise UserError(f"{what} is no JSON object: nothing was changed.")
    return found


def _servers(found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    key = KEYS[0] if KEYS[0] in found else KEYS[1]
    servers = found.get(key)
    if not isinstance(servers, dict) or not all(isinstance(each, dict) for each in servers.values()):
        raise UserError("The configuration has no «mcpServers» in a form that is known here: nothing was changed.")
    return key, servers
