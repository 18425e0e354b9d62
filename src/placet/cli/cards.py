"""A card: one call that waits, as a person reads it before saying yes.

All of it is shown, whatever its length, and nothing of it is interpreted: the card is what will run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import zip_longest

from placet.cli.terminal import Style, Terminal, shown, width_of, wrap
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.items import ToolApprovalItem
from placet.facts.preview import LineKind, preview, written_otherwise

IN_DOUBT = "This call was interrupted, and nobody knows whether it happened."


@dataclass(frozen=True, slots=True)
class Card:
    """A waiting call, with its number and what the program knows about its consequences."""

    number: int
    """0: it stands alone."""
    item: ToolApprovalItem
    stakes: str | None = None
    """What the call would do to the world, in a sentence."""

    @property
    def arguments(self) -> dict[str, object] | None:
        """The arguments, or None when the model wrote none that make sense."""
        return parse_arguments(self.item.arguments or "")


def render_card(card: Card, terminal: Terminal) -> list[str]:
    inner = terminal.width - 4
    rows = [*two_columns(_head_rows(card), inner, terminal, "dim")]
    rows += [("", "")]
    rows += preview_rows(card.arguments, inner, terminal) or two_columns(_argument_rows(card), inner, terminal, "cyan")
    for question in (card.item.questions or {}).values():
        rows += [("", "")]
        rows += [(line, terminal.paint(line, "bold")) for line in wrap(shown(_message(question)), inner)]
        rows += two_columns(_question_rows(question), inner, terminal, "cyan")
    for text, style in _notes(card):
        rows += [("", "")]
        rows += [(line, terminal.paint(line, style)) for line in wrap(shown(text), inner)]
    number = "" if card.number == 0 else f"{card.number}  "
    return framed(f"{number}{shown(card.item.name or '?')}", rows, terminal)


def _head_rows(card: Card) -> list[tuple[str, str]]:
    return [("agent", shown(card.item.agent_path or card.item.agent.name)), ("call", shown(card.item.id))]


def _argument_rows(card: Card) -> list[tuple[str, str]]:
    arguments = card.arguments
    if arguments is None:
        return [("not a JSON object", shown(card.item.arguments or ""))]
    if not arguments:
        return [("no arguments", "")]
    return [(shown(name), value_text(value)) for name, value in arguments.items()]


_STYLES: dict[LineKind, Style] = {
    "command": "bold",
    "more": "bold",
    "file": "bold",
    "place": "cyan",
    "added": "green",
    "removed": "red",
    "same": "dim",
}


def preview_rows(arguments: JsonObject | None, width: int, terminal: Terminal) -> list[tuple[str, str]]:
    """Commands and patches line by line, in colours; none for the arguments of other calls."""
    found: list[tuple[str, str]] = []
    for line in preview(arguments) or ():
        sign = {"command": "$ ", "more": "  "}.get(line.kind, "")
        for place, part in enumerate(wrap(shown(line.text), width - len(sign)) or [""]):
            text = (sign if place == 0 else " " * len(sign)) + part
            found.append((text, terminal.paint(text, _STYLES[line.kind])))
    return found


def _message(question: JsonObject) -> str:
    return f"It asks: {question.get('message') or ''}"


def _question_rows(question: JsonObject) -> list[tuple[str, str]]:
    """What the running call wants to know: a page to go to, or each value with its schema."""
    if "url" in question:
        return [("go to", shown(str(question["url"])))]
    schema = question.get("requestedSchema")
    wanted = schema if isinstance(schema, dict) else {}
    needed = wanted.get("required") or ()
    fields = wanted.get("properties") or {}
    rows = [
        (shown(name), value_text(each) + ("" if isinstance(needed, list) and name in needed else "  (may be left out)"))
        for name, each in fields.items()
    ]
    return rows or [("no values", "")]


def value_text(value: object) -> str:
    """A value as JSON: a person can tell the text "7" from the number 7."""
    return shown(json.dumps(value, ensure_ascii=False))


def _notes(card: Card) -> list[tuple[str, Style]]:
    found: list[tuple[str, Style]] = []
    if card.item.kind == "in_doubt":
        found.append((IN_DOUBT, "red"))
    if card.item.proposed_arguments is not None:
        found.append((_as_written(card.item.proposed_arguments, card.arguments or {}), "yellow"))
    if card.item.why:
        found.append((f"Asked because {card.item.why}.", "yellow"))
    if card.stakes:
        found.append((card.stakes, "yellow"))
    return found


def _as_written(written: str, arguments: JsonObject) -> str:
    """What validation filled in or changed, in a sentence."""
    parsed = parse_arguments(written)
    changed = written_otherwise(written if parsed is None else parsed, arguments)
    texts = [f"{name} was {text}" if text else f"{name} was left out" for name, text in changed]
    return f"The model wrote this otherwise: {', '.join(texts)}."


def two_columns(rows: list[tuple[str, str]], width: int, terminal: Terminal, style: Style) -> list[tuple[str, str]]:
    """Lines of two columns, each as plain text (for its width) and painted."""
    left = min(max(width_of(name) for name, _ in rows), width // 3)
    found: list[tuple[str, str]] = []
    for name, value in rows:
        pairs = zip_longest(wrap(name, left), wrap(value, width - left - 2), fillvalue="")
        for name_part, value_part in pairs:
            gap = " " * (left - width_of(name_part) + 2)
            found.append((f"{name_part}{gap}{value_part}", f"{terminal.paint(name_part, style)}{gap}{value_part}"))
    return found


def framed(title: str, rows: list[tuple[str, str]], terminal: Terminal) -> list[str]:
    signs, width = terminal.glyphs, terminal.width
    top_left, top_right, bottom_left, bottom_right = tuple(signs.corners)

    def edge(text: str) -> str:
        return terminal.paint(text, "yellow")

    title = wrap(title, width - 7)[0]
    rest = signs.rule * (width - 5 - width_of(title))
    lines = [edge(f"{top_left}{signs.rule} ") + terminal.paint(title, "bold") + edge(f" {rest}{top_right}")]
    for text, painted in rows:
        padding = " " * (width - 4 - width_of(text))
        lines.append(f"{edge(signs.bar)} {painted}{padding} {edge(signs.bar)}")
    return [*lines, edge(f"{bottom_left}{signs.rule * (width - 2)}{bottom_right}")]
