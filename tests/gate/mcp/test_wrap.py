"""A client's servers behind the gateway, by one command, and back to the byte."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from placet.cli.main import main
from placet.facts.errors import UserError
from placet.gate.mcp.wrapping import is_ours, wrapped
from tests.gate.mcp.scenes import SHOP, Scene, handle_of, text_of

pytestmark = pytest.mark.promise("P23")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACET_DESK", "PLACET_STORE", "PLACET_TOKEN"):
        monkeypatch.delenv(name, raising=False)


STDIO = {"command": "npx", "args": ["-y", "server"], "env": {"API_KEY": "canary-secret"}, "autoApprove": ["*"]}
WEB = {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer canary-token"}}
SHAPES: dict[str, str] = {
    "claude": json.dumps({"mcpServers": {"files": STDIO, "web": WEB}, "theme": "dark"}, indent=3),
    "vscode": json.dumps({"inputs": [], "servers": {"files": {"type": "stdio", **STDIO}}}, indent="\t") + "\n\n",
    "one line": json.dumps({"mcpServers": {"files": STDIO}}),
    "windows": json.dumps({"mcpServers": {"files": STDIO}}, indent=2).replace("\n", "\r\n") + "\r\n",
    "a mark before": "\ufeff" + json.dumps({"mcpServers": {"files": STDIO}}, indent=4),
    "one switched off": json.dumps({"mcpServers": {"files": STDIO, "old": {"command": "old", "disabled": True}}}),
    "the name is taken": json.dumps({"mcpServers": {"placet": {"command": "other"}, "files": STDIO}}),
}


def wrap(file: Path, *more: str) -> int:
    return main(["mcp", "wrap", str(file), "--store", f"sqlite:///{file.parent / 'placet.db'}", "--yes", *more])


def servers_in(text: str) -> dict[str, Any]:
    found = json.loads(text.removeprefix("\ufeff"))
    servers: dict[str, Any] = found.get("mcpServers") or found["servers"]
    return servers


@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_wrapped_is_taken_back_to_the_byte(
    tmp_path: Path, shape: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(SHAPES[shape].encode())
    file.chmod(0o640)
    before = servers_in(SHAPES[shape])
    codes = [wrap(file), wrap(file)]
    between, behind = file.read_text(), json.loads((tmp_path / "mcp.placet.json").read_text())
    mode = file.stat().st_mode & 0o777
    codes.append(main(["mcp", "unwrap", str(file), "--yes"]))
    told = capsys.readouterr().out

    outside = {name: each for name, each in servers_in(between).items() if not is_ours(each)}
    assert codes == [0, 0, 0]
    assert sum(map(is_ours, servers_in(between).values())) == 1
    assert {**outside, **behind["mcpServers"]} == before
    assert all(each.get("disabled") for each in outside.values())
    assert "canary" not in between
    assert "canary" not in told
    assert f"+++ {file}" in told
    assert mode == 0o640
    assert file.read_bytes() == SHAPES[shape].encode()


def test_what_was_changed_since_stays_and_the_servers_come_back(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(SHAPES["claude"])
    wrap(file)
    changed = json.loads(file.read_text())
    changed["theme"] = "light"
    changed["mcpServers"]["new"] = {"command": "new"}
    file.write_text(json.dumps(changed))
    wrap(file)
    both = servers_in(file.read_text())
    main(["mcp", "unwrap", str(file), "--yes"])
    after = json.loads(file.read_text())

    assert list(both) == ["placet"]
    assert after == {"mcpServers": {"files": STDIO, "web": WEB, "new": {"command": "new"}}, "theme": "light"}


def test_settings_of_the_gateway_outlive_unwrapping_and_servers_that_are_gone_do_not_come_back(tmp_path: Path) -> None:
    file, behind = tmp_path / "mcp.json", tmp_path / "mcp.placet.json"
    file.write_text(SHAPES["claude"])
    wrap(file)
    settings = json.loads(behind.read_text())
    settings["mcpServers"]["files"]["placet"] = {"require_approval": "never"}
    behind.write_text(json.dumps(settings))
    main(["mcp", "unwrap", str(file), "--yes"])
    exact = file.read_text()
    file.write_text(json.dumps({"mcpServers": {"files": STDIO}}))
    wrap(file)
    found = json.loads(behind.read_text())["mcpServers"]

    assert exact == SHAPES["claude"]
    assert found == {"files": {**STDIO, "placet": {"require_approval": "never"}}}


BAD = {
    "sse": ({"type": "sse", "url": "https://x.example/sse"}, "sse"),
    "asked by the client": ({"command": "x", "env": {"KEY": "${input:key}"}}, "${input:key}"),
    "a folder of the client": ({"command": "x", "args": ["${workspaceFolder:a}"]}, "${workspaceFolder:a}"),
    "nothing to start": ({"note": "?"}, "neither"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_server_that_cannot_be_moved_is_refused_by_name_and_nothing_is_changed(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, words = BAD[kind]
    file = tmp_path / "mcp.json"
    text = json.dumps({"mcpServers": {"odd": entry, "files": STDIO}})
    file.write_text(text)
    code = wrap(file)
    told = capsys.readouterr().err
    untouched = [each.name for each in tmp_path.iterdir()], file.read_text()
    left = wrap(file, "--leave", "odd")

    assert code == 1
    assert "'odd'" in told
    assert words in told
    assert untouched == (["mcp.json"], text)
    assert left == 0
    assert servers_in(file.read_text())["odd"] == entry


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "{// comment\n}"])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="nothing was changed"):
        wrapped(text, None, {}, {})


@pytest.mark.timeout(180)
async def test_a_client_that_reads_its_wrapped_configuration_asks_before_it_acts(at: Scene) -> None:
    file = at.folder / "mcp.json"
    shop = {"command": sys.executable, "args": [str(SHOP), "stdio"], "env": {"SHOP_EFFECTS": str(at.effects_file)}}
    settings = json.dumps({"mcpServers": {"shop": shop}})
    file.write_text(settings)
    code = main(["mcp", "wrap", str(file), "--store", at.url, "--yes"])
    [entry] = servers_in(file.read_text()).values()
    params = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=at.folder)
    async with Client(stdio_client(params), mode="legacy") as client:
        told = await client.call_tool("refund", {"order_id": "7", "cents": 1})
        before = at.effects
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert code == 0
    assert before == []
    assert text_of(done) == "refunded 7"
