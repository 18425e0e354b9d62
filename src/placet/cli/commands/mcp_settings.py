"""`placet mcp pin | wrap | unwrap`: the tools as one person reviewed them; a client's servers behind the gateway."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click import UsageError

from placet.cli.exit_codes import FAILED, OK
from placet.cli.options import DEFAULT_STORE, StoreUrl, command
from placet.cli.output import shown
from placet.cli.settings_files import confirm, kept_place, show_diff, text_of, write_whole, yes_option
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.gate.mcp import wrapping
from placet.gate.mcp.config import Loaded, read_config

WIDEST = 300
"""Of a description: enough to see what a tool is for. What is odd in the rest is named."""


def need_the_extra() -> None:
    if find_spec("mcp") is None:
        raise UserError('The gateway needs the package mcp: pip install "placet[mcp]".')


def loaded_from(config: Path) -> Loaded:
    loaded = read_config(config)
    sys.path.append(str(loaded.path.parent))  # for servers and functions in modules beside it; last, so it hides none
    return loaded


# -- pins -------------------------------------------------------------------------------------------------------------


@command("pin")
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--server", "servers", multiple=True, metavar="NAME", help="only this server's tools")
@click.option("--check", is_flag=True, help="write nothing; end with 1 if something is not as it was pinned")
@yes_option
def pin(config: Path, servers: tuple[str, ...], *, check: bool, yes: bool) -> int:
    """Show all tools of the servers, mark what is odd, and take them as reviewed.

    A tool that nobody has reviewed asks at every call, and so does one that changed since: its schema, its description,
    its hints. What is written is what was shown. The gateway need not be started anew.
    """
    need_the_extra()
    from placet.gate.mcp.pins import read_pins, written
    from placet.gate.mcp.reviewing import reviewed

    loaded = loaded_from(config)
    text = text_of(loaded.pins)
    pins = read_pins(text, str(loaded.pins))
    found = asyncio.run(reviewed(loaded.config, pins, servers))
    for server in found:
        _show(server)
    good = [server for server in found if server.error is None]
    news = [server.name for server in good if server.has_news or not pins.has(server.name)]
    if check:
        print(f"Not as pinned: {', '.join(map(shown, news))}." if news else "All is as it was pinned.")
        return OK if not news and len(good) == len(found) else FAILED
    if news:
        confirm(f"Take the tools of {', '.join(map(shown, news))} as reviewed?", yes=yes)
        for server in good:
            pins = server.pinned_in(pins)
        write_whole(loaded.pins, written(pins))
        print(f"Pinned in {shown(str(loaded.pins))}. What changes from now on asks, and the card shows how.")
    elif good:
        print("All is as it was pinned.")
    return OK if len(good) == len(found) else FAILED


def _show(server: Any) -> None:  # Any: typed where mcp is
    print(f"\n{shown(server.name)}: {len(server.tools)} tools")
    if server.error is not None:
        print(f"  ! cannot be reviewed: {shown(server.error)}")
        return
    for tool in server.tools:
        what = {"new": "new", "changed": "CHANGED", "pinned": "as pinned"}[tool.state]
        asks = "asks" if tool.asks else "asks nobody"
        print(f"  {shown(tool.name)}  [{what}; {asks}]")
        if tool.state == "changed":
            print("\n".join(f"      {shown(line)}" for line in tool.diff.splitlines()))
        elif tool.says:
            print(f"      {shown(tool.says[:WIDEST])}{'…' if len(tool.says) > WIDEST else ''}")
        for each in tool.odd:
            print(f"      ! {shown(each)}")
    for name in server.gone:
        print(f"  {shown(name)}  [gone]")
    for each in server.unmet:
        print(f"  ! {shown(each)}")


# -- a client's configuration -----------------------------------------------------------------------------------------

client_argument = click.argument("config", metavar="CLIENT-CONFIG", type=click.Path(dir_okay=False, path_type=Path))


@command("wrap")
@client_argument
@click.option("--leave", multiple=True, metavar="SERVER", help="leave this server outside: nobody is asked about it")
@click.option("--desk", metavar="URL", help="the desk that is asked (default: $PLACET_DESK)")
@click.option("--token-file", metavar="FILE", help="a file that holds the token, instead of $PLACET_TOKEN")
@click.option("--store", type=StoreUrl(), metavar="URL", help="a store instead of a desk (default: $PLACET_STORE)")
@yes_option
def wrap(
    config: Path, leave: tuple[str, ...], desk: str | None, token_file: str | None, store: str | None, *, yes: bool
) -> int:
    """Put all servers of a client's configuration behind the gateway.

    CLIENT-CONFIG is JSON with «mcpServers» in it (or «servers», as VS Code has it). Its servers move into a file beside
    it. What changes is shown first; what is secret in it is not. `placet mcp unwrap` takes it back, to the byte if
    nothing else was changed since.
    """
    text = text_of(config)
    if text is None:
        raise UserError(f"There is no file {config}.")
    file = gateway_file(config)
    earlier = text_of(file)
    desk, store = _asked(desk, store)
    settings: JsonObject = {"desk": desk} if desk else {"store": store}
    words = ["-I", "-m", "placet.cli.main", "mcp", "serve", str(file.absolute())]
    words += ["--token-file", str(Path(token_file).absolute())] if token_file else []
    found = wrapping.wrapped(text, earlier, {"command": sys.executable, "args": words}, settings, leave)
    if not found.moved and not wrapping.is_wrapped(text):
        print(f"{shown(str(config))} has no server that could be moved.")
        return FAILED
    if (found.client, found.gateway) == (text, earlier):
        print(f"The servers of {shown(str(config))} are behind the gateway already.")
        return OK
    secrets = wrapping.secrets_in(text)
    show_diff(config, _masked(text, secrets), _masked(found.client, secrets))
    show_diff(file, _masked(earlier or "", secrets), _masked(found.gateway, secrets))
    confirm("Write this?", yes=yes)
    if not wrapping.is_wrapped(text):
        write_whole(kept_place(config), text)
    write_whole(file, found.gateway)  # first: whatever happens in between, the servers stand somewhere
    write_whole(config, found.client)
    _tell(config, file, found.left, desk, store)
    return OK


def _tell(config: Path, file: Path, left: list[str], desk: str | None, store: str | None) -> None:
    print("Written. Start the client anew. Next, look at what the servers' tools say of themselves, and pin it:")
    print(f"  placet mcp pin {shown(str(file))}")
    where = f"at {shown(desk)}" if desk else f"with: placet serve --no-run --store {shown(str(store))}"
    print(f"People decide {where}")
    if left:
        print(f"Note: outside of the gateway stay {', '.join(map(shown, left))}.")
    text = text_of(config) or ""
    if text.count('"mcpServers"') > 1:
        print("Note: other servers stand deeper in this file, for single projects; they were not moved.")


@command("unwrap")
@client_argument
@yes_option
def unwrap(config: Path, *, yes: bool) -> int:
    """Put a client's servers back where they were. Their calls run without a question then."""
    text, file = text_of(config), gateway_file(config)
    if text is None or not wrapping.is_wrapped(text):
        print(f"{shown(str(config))} does not go through the gateway.")
        return OK
    servers, before = text_of(file), text_of(kept_place(config))
    if servers is None:
        raise UserError(f"There is no {file}, where its servers stood. As it was, it is in {kept_place(config)}.")
    wanted = wrapping.unwrapped(text, servers)
    if before is not None and wrapping.says_the_same(wanted, before):
        wanted = before
    secrets = wrapping.secrets_in(servers)
    show_diff(config, _masked(text, secrets), _masked(wanted, secrets))
    confirm("Write this?", yes=yes)
    write_whole(config, wanted)
    kept_place(config).unlink(missing_ok=True)
    print("As it was before." if wanted == before else "Taken back. Other things were changed since: they stay.")
    print(f"The gateway's own settings stay in {shown(str(file))}.")
    return OK


def gateway_file(config: Path) -> Path:
    return config.with_name(f"{config.name.removesuffix('.json')}.placet.json")


def _asked(desk: str | None, store: str | None) -> tuple[str | None, str | None]:
    if desk and store:
        raise UsageError("--desk asks a desk and --store goes straight to a store: write one of them.")
    desk = desk or (None if store else os.environ.get("PLACET_DESK"))
    if desk:
        return desk, None
    store = StoreUrl().convert(store or os.environ.get("PLACET_STORE") or DEFAULT_STORE, None, None)
    if store.startswith("sqlite:///"):  # the client starts the gateway in a folder of its own choice
        store = f"sqlite:///{Path(store.removeprefix('sqlite:///')).absolute()}"
    return None, store


def _masked(text: str, secrets: list[str]) -> str:
    for each in secrets:
        text = text.replace(each, "…")
    return text
