"""What was decided about a request, beside what was asked: changed arguments, the message or answer the model reads."""

from __future__ import annotations

import json
from collections.abc import Mapping

from placet.cli.cards import framed, preview_rows, two_columns, value_text
from placet.cli.tables import ago
from placet.cli.terminal import Terminal, shown, wrap
from placet.facts.codec import JsonObject

_WORDS = {"approve": "approved", "reject": "rejected", "edit": "approved with other arguments", "respond": "answered"}


def decision_lines(found: JsonObject, terminal: Terminal) -> list[str]:
    """The decision of a request as the API shows it; nothing while it waits."""
    made = found.get("decision")
    if not isinstance(made, dict):
        return []
    by = "by a standing decision of" if made.get("grant") else "by"
    title = f"{_WORDS[str(made['decision'])]} {by} {shown(str(made['by'] or 'somebody'))}, {ago(made['at'])} ago"
    rows = _rows(found, made, terminal)
    for name, word in (("reason", "for the record"), ("grant", "by the grant")):
        if made.get(name):
            rows += [("", "")] if rows else []
            rows += two_columns([(word, shown(str(made[name])))], terminal.width - 4, terminal, "dim")
    return framed(title, rows, terminal)


def _rows(found: JsonObject, made: JsonObject, terminal: Terminal) -> list[tuple[str, str]]:
    inner = terminal.width - 4
    match made["decision"]:
        case "edit":
            return _edited_rows(found["arguments"], made["arguments"], terminal)
        case "reject" if made["message"] is not None:
            return two_columns([("the model reads", shown(str(made["message"])))], inner, terminal, "dim")
        case "respond":
            return [(line, line) for line in wrap(_answer(made["output"]), inner)]
        case _:
            return []


def _answer(output: object) -> str:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return shown(text, keep_lines=True)


def _edited_rows(asked: object, decided: object, terminal: Terminal) -> list[tuple[str, str]]:
    """All that runs, line by line where it is commands or a patch; otherwise each value, with what it was before."""
    before: Mapping[str, object] = asked if isinstance(asked, dict) else {}
    after: Mapping[str, object] = decided if isinstance(decided, dict) else {}
    lines = preview_rows(dict(after), terminal.width - 4, terminal)
    if lines:
        return lines
    rows = [(shown(name), _value(name, before, after)) for name in {**before, **after}]
    return two_columns(rows or [("no arguments", "")], terminal.width - 4, terminal, "cyan")


def _value(name: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    if name not in after:
        return f"left out (asked: {value_text(before[name])})"
    text = value_text(after[name])
    if name not in before:
        return f"{text}  (not asked for)"
    was = value_text(before[name])
    return text if was == text else f"{text}  (asked: {was})"
