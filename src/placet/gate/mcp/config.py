"""The gateway's configuration: TOML of its own, or the `mcpServers` JSON that clients use.

Rule of this file: what is not understood is refused where it is written; only in the JSON of others are keys of theirs
left alone, and nothing there lets a call run.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from placet.facts.addresses import without_credentials
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.gate.mcp.near import did_you_mean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,39}")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server behind the gateway: a program, an address, or an object in this process."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    python: str | None = None
    """`module:name` of a server object of the `mcp` package."""
    require_approval: Any = "always"
    """As `require_approval` of `placet.mcp`: any form that TOML and JSON can write, or `module:function`."""
    heed_hints: bool = True
    """Whether the server's word that a tool is destructive asks a person. Its word that it is harmless never counts."""
    pass_through: list[str] = []
    """Patterns of tools about which nobody is asked. On a store without a policy they go straight through, and nothing
    is recorded. At a desk, and where the gateway has a policy, they are recorded, and what the policy denies or asks
    about is denied or asked about."""
    elicitation: Literal["client", "desk"] = "client"
    """Who answers what the server asks in the middle of a call."""
    answer_within: float = 3600.0
    """Seconds for which such a question waits."""
    recovery: Literal["ask", "retry"] = "ask"
    """Of a call that was sent and whose answer never came: ask a person, or send it again."""
    timeout: float | None = None
    """Seconds that a call may take; None: as long as it takes."""
    connect_timeout: float = 30.0
    max_answer: int = 16 * 2**20
    """Bytes of one answer: a larger one is an error of the server."""
    max_tools: int = 2000
    decide_within: float | None = None
    at_deadline: Literal["reject", "escalate"] = "reject"
    approval_valid_for: float | None = None
    lease: float = 60.0
    protocol: Literal["auto", "legacy", "modern"] = "auto"
    """«auto»: that of the client, if the server speaks it."""


Way: TypeAlias = Literal["task", "url", "open", "handle"]
"""How a client waits for a person."""


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a gateway is told."""

    servers: dict[str, ServerConfig]
    desk: str | None = None
    store: str | None = None
    guest: str = "mcp"
    """On a store: who executes the calls."""
    policy: str | None = None
    """On a store: the file of rules about every call, beside the configuration. A desk has its own."""
    inbox: str | None = None
    """Where people decide, for the links that clients are shown. Of a desk: its own address."""
    pins: str | None = None
    """The file of pinned tools; by default beside the configuration."""
    wait: tuple[Way, ...] = ("task", "url", "open", "handle")
    """Ways to wait that may be used, where the client can."""
    hold: float = 0.0
    """Seconds that an ordinary answer is held back for a quick decision."""
    progress_every: float = 10.0
    max_waiting: int = 1000
    task_ttl: float = 7 * 86_400.0
    """Seconds for which a task's result is promised."""
    grace: float = 5.0
    """Seconds that calls in the middle get when the gateway is stopped."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and where it stands."""

    config: GatewayConfig
    path: Path

    @property
    def pins(self) -> Path:
        named = self.config.pins
        return self.path.parent / named if named else self.path.with_name(f"{self.path.stem}.pins.json")


def read_config(path: str | Path, environment: Mapping[str, str] | None = None) -> Loaded:
    """UserError, in words, for what is no configuration."""
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UserError(f"The gateway's configuration {str(file)!r} cannot be read: {reason}.") from error
    config = config_of(text, str(file), os.environ if environment is None else environment)
    if config.policy:
        config = msgspec.structs.replace(config, policy=str(file.absolute().parent / config.policy))
    return Loaded(config=config, path=file.absolute())


def config_of(text: str, name: str, environment: Mapping[str, str]) -> GatewayConfig:
    given = _parsed(text, name)
    raw = _from_client(given, name) if "mcpServers" in given or name.endswith(".json") else given
    raw = _expanded(raw, environment, name)
    _check_keys(raw, name)
    try:
        config = msgspec.convert(raw, GatewayConfig)
    except msgspec.ValidationError as error:
        raise UserError(f"{name}: {error}.") from error
    _check(config, name)
    return config


def _parsed(text: str, name: str) -> JsonObject:
    try:
        found = json.loads(text) if name.endswith(".json") or text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is neither TOML nor JSON that can be read: {error}.") from error
    if not isinstance(found, dict):
        raise UserError(f"{name}: a configuration is a table, with the servers in it.")
    return found


# -- the JSON of clients ----------------------------------------------------------------------------------------------

TRANSPORT = ("command", "args", "env", "cwd", "url", "headers")
"""What the gateway takes of a client's entry. Whatever else stands there (its own approvals, say) lets nothing pass."""
OURS = "placet"


def _from_client(given: JsonObject, name: str) -> JsonObject:
    entries = given.get("mcpServers", given.get("servers"))
    if not isinstance(entries, dict):
        raise UserError(f"{name} has no «mcpServers» in it.")
    settings = given.get(OURS, {})
    if not isinstance(settings, dict):
        raise UserError(f"{name}: what stands under {OURS!r} is a table of the gateway's settings.")
    return {**settings, "servers": {key: server_of(entry, f"{name}: server {key!r}") for key, entry in entries.items()}}


def server_of(entry: object, where: str) -> JsonObject:
    """A client's entry as a server of the gateway."""
    if not isinstance(entry, dict):
        raise UserError(f"{where} is no table.")
    if entry.get("type") == "sse":
        raise UserError(
            f"{where} speaks the older transport (sse), which the gateway does not: give its newer address."
        )
    taken = {key: entry[key] for key in TRANSPORT if entry.get(key) not in (None, "", [], {})}
    extra = entry.get(OURS, {})
    if not isinstance(extra, dict):
        raise UserError(f"{where}: what stands under {OURS!r} is a table of the gateway's settings.")
    return {**taken, **extra}


# -- checks -----------------------------------------------------------------------------------------------------------


def _expanded(value: Any, environment: Mapping[str, str], name: str) -> Any:  # Any: any value of TOML or JSON
    if isinstance(value, dict):
        return {key: _expanded(each, environment, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_expanded(each, environment, name) for each in value]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        variable, default = match.group(1), match.group(2)
        text = environment.get(variable, default)
        if text is None:
            raise UserError(f"{name} names ${{{variable}}}, and the environment has no such variable.")
        return text

    return _VARIABLE.sub(found, value)


def _check_keys(raw: JsonObject, name: str) -> None:
    """UserError for a key that nobody reads: which, where it stands, and what was probably meant."""
    _check_table(raw, GatewayConfig, ServerConfig, name, "a key of each server")
    servers = raw.get("servers")
    for key, entry in servers.items() if isinstance(servers, dict) else ():
        if isinstance(entry, dict):
            _check_table(entry, ServerConfig, GatewayConfig, f"{name}: server {key!r}", "a key of the whole file")


def _check_table(
    table: JsonObject, its: type[msgspec.Struct], other: type[msgspec.Struct], where: str, belongs: str
) -> None:
    known = its.__struct_fields__
    for key in table:
        if key not in known:
            is_other = key in other.__struct_fields__
            meant = f" (it is {belongs})" if is_other else did_you_mean(key, known)
            raise UserError(f"{where} has the key {key!r}, which is none of the gateway's{meant}.")


def _check(config: GatewayConfig, name: str) -> None:
    if not config.servers:
        raise UserError(f"{name} names no server: there is nothing to stand in front of.")
    if config.desk and config.store:
        raise UserError(f"{name} names a desk and a store: the gateway asks one of them.")
    if config.desk and config.policy:
        raise UserError(f"{name} names a desk and a policy: a desk has its own.")
    for key, server in config.servers.items():
        if not NAME.fullmatch(key):
            raise UserError(f"{name}: server {key!r}: a name is up to 40 letters, digits, spaces and . _ -")
        _check_server(f"{name}: server {key!r}", server)


def _check_server(where: str, server: ServerConfig) -> None:
    kinds = [kind for kind in ("command", "url", "python") if getattr(server, kind)]
    if len(kinds) != 1:
        raise UserError(f"{where} has one of «command», «url» and «python», not {' and '.join(kinds) or 'none'}.")
    if server.url and not server.url.startswith(("http://", "https://")):
        raise UserError(f"{where}: {without_credentials(server.url)!r} is no address of a server over HTTP.")
    for what in ("connect_timeout", "lease", "answer_within"):
        if not 0 < getattr(server, what) < 10**6:
            raise UserError(f"{where}: {what} is a number of seconds above 0.")
