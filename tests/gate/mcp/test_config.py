"""The gateway's file: what may stand in it, and what is said of a slip."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from placet.facts.errors import UserError
from placet.gate.mcp.config import GatewayConfig, ServerConfig, config_of

PAGE = Path(__file__).parents[3] / "docs" / "mcp-gateway.md"


def keys_in(text: str) -> dict[str, str]:
    """The keys of a table of the page, each with the default that it tells."""
    found = re.findall(r"^\| `(\w+)` \|(.*?)\|", text, re.MULTILINE)
    return {name: default.strip() for name, default in found}


def defaults_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        is_made = field.default_factory is not msgspec.NODEFAULT
        found[field.name] = field.default_factory() if is_made else field.default  # type: ignore[operator]  # a type
    return found


def test_the_page_has_every_key_with_its_default_in_the_order_of_the_code() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## What stands in the file")[2].partition("\n## ")[0]
    whole, _, each = section.partition("Of each server")

    for told, kind in ((keys_in(whole), GatewayConfig), (keys_in(each), ServerConfig)):
        assert list(told) == list(kind.__struct_fields__)
        for name, default in defaults_of(kind).items():
            if default is None or default is msgspec.NODEFAULT:
                assert told[name] in ("", "none", "`NAME.pins.json`"), name
            else:
                plain = msgspec.json.decode(msgspec.json.encode(default))
                assert msgspec.json.decode(told[name].strip("`")) == plain, name


SLIPS = {
    "of a server": ("[servers.notes]\ncommand = 'x'\nleese = 8", "server 'notes' has the key 'leese'", "«lease»"),
    "of the file": (
        "progres_every = 1\n[servers.n]\ncommand = 'x'",
        "g.toml has the key 'progres_every'",
        "«progress_every»",
    ),
    "too high up": ("lease = 8\n[servers.n]\ncommand = 'x'", "g.toml has the key 'lease'", "a key of each server"),
    "too deep": ("[servers.n]\ncommand = 'x'\nhold = 8", "server 'n' has the key 'hold'", "a key of the whole file"),
    "like nothing": ("[servers.n]\ncommand = 'x'\nzzzz = 8", "server 'n' has the key 'zzzz'", "none of the gateway's."),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_key_that_is_none_is_refused_with_its_place_and_what_was_meant(slip: str) -> None:
    text, where, meant = SLIPS[slip]
    with pytest.raises(UserError) as refused:
        config_of(text, "g.toml", {})

    assert where in str(refused.value)
    assert meant in str(refused.value)


def test_a_slip_in_a_clients_json_is_refused_in_the_gateways_own_part_only() -> None:
    theirs = '{"mcpServers": {"n": {"command": "x", "autoApprove": ["y"], "leese": 8}}}'
    ours = '{"mcpServers": {"n": {"command": "x", "placet": {"leese": 8}}}}'

    assert config_of(theirs, "c.json", {}).servers["n"].command == "x"
    with pytest.raises(UserError, match=r"server 'n' has the key 'leese'.*«lease»"):
        config_of(ours, "c.json", {})
