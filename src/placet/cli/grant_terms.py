"""What commands about standing decisions share: bounds as JSON, the second look, and bars of what is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click
from click import ClickException, UsageError
from rich.text import Text

from placet.cli.client import Refused
from placet.cli.output import Screen, complain
from placet.facts.codec import JsonObject

SECOND_LOOK = "second_look"
WIDE = 12
"""Signs of a bar."""
confirm_option = click.option(
    "--confirm", metavar="TOOL", help="the tool's name again, where it reaches further than what people approved"
)


def read_json(texts: Mapping[str, str | None]) -> JsonObject:
    """The options that are given, each one JSON."""
    found: JsonObject = {}
    for name, text in texts.items():
        if text is None:
            continue
        option = "match" if name == "matching" else name
        try:
            found[name] = json.loads(text)
        except ValueError as error:
            raise UsageError(f"--{option} is not JSON: {error}.") from error
    return found


def confirmed(ask: Callable[[JsonObject], JsonObject], confirm: str | None, *, can_ask: bool) -> JsonObject:
    """What the desk answers; where it wants a second look and somebody is there, they type the word."""
    word: JsonObject = {} if confirm is None else {"confirm": confirm}
    try:
        return ask(word)
    except Refused as error:
        if error.problem.get("code") != SECOND_LOOK or not can_ask or confirm is not None:
            raise
        complain(str(error))
    typed = str(click.prompt("The tool's name", prompt_suffix=": ", default="", show_default=False))
    if not typed:
        raise ClickException("nothing was decided.")
    return ask({"confirm": typed})


def bars(left: Any, screen: Screen) -> Text:
    """A bar for each limit: how much of it is taken."""
    lines = [_bar(each, screen) for each in (left if isinstance(left, list) else ())]
    return Text("; ").join(lines)


def _bar(each: Mapping[str, Any], screen: Screen) -> Text:
    full, empty = screen.signs.bar[0], screen.signs.bar[1]
    filled = round(float(each["share"]) * WIDE)
    if each["share"] and not filled:
        filled = 1
    look = "red" if each["share"] >= 1 else "yellow" if each["share"] >= 0.8 else "green"
    whose = f" ({each['group'][:6]})" if each["group"] else ""
    said = f" {each['left']} of {each['limit']} left{whose}"
    return Text.assemble((full * filled, look), (empty * (WIDE - filled), "dim"), said)
