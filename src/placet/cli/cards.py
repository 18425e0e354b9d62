"""A card: one call that waits, as a person reads it before saying yes; and below it what was decided.

All of it is shown, whatever its length, and nothing of it is interpreted: the card is what will run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from placet.cli.output import Screen, Whole, sentence, shown, two_columns, value_text
from placet.cli.tables import ago
from placet.core.index import RequestRecord
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.preview import LineKind, preview, written_otherwise
from placet.facts.requirements import SURE_BY
from placet.facts.verdict_words import verdict_label

IN_DOUBT = "This call was interrupted, and nobody knows whether it happened."
_STYLES: dict[LineKind, str] = {
    "command": "bold",
    "more": "bold",
    "file": "bold",
    "place": "cyan",
    "added": "green",
    "removed": "red",
    "same": "dim",
}
_SIGNS: dict[LineKind, str] = {"command": "$ ", "more": "  "}


def as_object(request: RequestRecord) -> JsonObject:
    """A request of a desk in this process, in the shape of the API: arguments are an object where they are one."""
    found: JsonObject = msgspec.to_builtins(request)
    del found["proposed"]
    return {**found, "arguments": request.arguments, "proposed_arguments": request.proposed_arguments}


def request_card(found: JsonObject, screen: Screen) -> Group:
    """All of a request as the API shows it: the call, what was decided, and how it stands."""
    standing = [Text(text, "dim") for text in _standing(found)]
    return Group(card(found, screen), *decision_panel(found, screen), *standing)


def card(found: JsonObject, screen: Screen, *, number: int = 0) -> Panel:
    """The call. `number`: where several are shown."""
    width = screen.width - 4
    arguments = _arguments(found)
    parts: list[RenderableType] = [
        two_columns([("agent", shown(str(found["agent"]))), ("call", shown(str(found["id"])))], width, "dim"),
        "",
        *(preview_lines(arguments) or [two_columns(_argument_rows(found), width, "cyan")]),
    ]
    questions = found.get("questions")
    for question in questions.values() if isinstance(questions, dict) else ():
        parts += ["", Whole(shown(f"It asks: {question.get('message') or ''}"), "bold")]
        parts += [two_columns(_question_rows(question), width, "cyan")]
    for text, style in _notes(found, arguments):
        parts += ["", Whole(shown(text), style)]
    title = f"{number}  {found['tool']}" if number else str(found["tool"] or "?")
    return _panel(screen, title, parts)


def _panel(screen: Screen, title: str, parts: list[RenderableType]) -> Panel:
    named = Text(screen.shorten(title, screen.width - 7), "bold")
    return Panel(Group(*parts), title=named, title_align="left", border_style="yellow", width=screen.width)


def _arguments(found: JsonObject) -> JsonObject | None:
    """The arguments, or None when the model wrote none that make sense."""
    given = found["arguments"]
    return given if isinstance(given, dict) else parse_arguments(str(given))


def _argument_rows(found: JsonObject) -> list[tuple[str, str]]:
    arguments = _arguments(found)
    if arguments is None:
        return [("not a JSON object", shown(str(found["arguments"])))]
    return [(name, value_text(value)) for name, value in arguments.items()] or [("no arguments", "")]


def preview_lines(arguments: JsonObject | None) -> list[RenderableType]:
    """Commands and patches line by line, in colours; none for the arguments of other calls."""
    return [Whole(shown(line.text), _STYLES[line.kind], _SIGNS.get(line.kind, "")) for line in preview(arguments) or ()]


def _question_rows(question: JsonObject) -> list[tuple[str, str]]:
    """What the running call wants to know: a page to go to, or each value with its schema."""
    if "url" in question:
        return [("go to", shown(str(question["url"])))]
    schema = question.get("requestedSchema")
    wanted = schema if isinstance(schema, dict) else {}
    needed = wanted.get("required") or ()
    fields = wanted.get("properties") or {}
    rows = [
        (name, value_text(each) + ("" if isinstance(needed, list) and name in needed else "  (may be left out)"))
        for name, each in fields.items()
    ]
    return rows or [("no values", "")]


def _notes(found: JsonObject, arguments: JsonObject | None) -> Iterator[tuple[str, str]]:
    if found["kind"] == "in_doubt":
        yield IN_DOUBT, "red"
    if found.get("proposed_arguments") is not None:
        yield _as_written(found["proposed_arguments"], arguments or {}), "yellow"
    if found.get("why"):
        yield f"Asked because {sentence(found['why'])}", "yellow"
    if found.get("description"):
        yield str(found["description"]), "yellow"
    if "why" in found and found["why"] is None and (found["kind"], found["status"]) == ("approval", "pending"):
        yield "Asked because the tool's own rule asks.", "dim"


def _as_written(written: object, arguments: JsonObject) -> str:
    """What validation filled in or changed, in a sentence."""
    parsed = written if isinstance(written, dict) else parse_arguments(str(written))
    changed = written_otherwise(str(written) if parsed is None else parsed, arguments)
    texts = [f"{name} was {text}" if text else f"{name} was left out" for name, text in changed]
    return f"The model wrote this otherwise: {', '.join(texts)}."


def _standing(found: JsonObject) -> Iterator[str]:
    yield f"{found['status']}, asked {ago(found['created_at'])} ago"
    yield f"digest {found['digest']}"
    if found.get("expires_at") and found["status"] == "pending":
        is_over = not ago(found["expires_at"]).startswith("in ")
        yield "the time to decide is over" if is_over else f"to be decided {ago(found['expires_at'])}"
    if found.get("decided_by") and not found.get("decision"):
        reason = f": {shown(str(found['reason']))}" if found.get("reason") else ""
        word = "its approval was taken back" if found["status"] == "closed" else "decided"
        yield f"{word} by {shown(str(found['decided_by']))}{_sure(found)}{reason}"
    yield from _voting(found)
    if found.get("you_may_not"):
        yield shown(str(found["you_may_not"]))


def _voting(found: JsonObject) -> Iterator[str]:
    """How it stands where several have to approve, and what the reader could do about it."""
    if found.get("standing"):
        yours = f" · your yes {found['your_vote']}" if found.get("your_vote") else ""
        yield shown(f"{found['standing']}{yours}")
    if found.get("asked_under"):
        yield shown(str(found["asked_under"]))
    yield from _votes(found)
    yield from _ladder(found)
    if found.get("may_break_glass"):
        yield "you could go ahead alone: --break-glass --reason …"
    if found.get("is_stuck"):
        yield "stuck: too few people are left who could approve it"


def _votes(found: JsonObject) -> Iterator[str]:
    votes = found.get("votes")
    for vote in votes if isinstance(votes, list) else ():
        whose = f" for {vote['on_behalf_of']}" if vote.get("on_behalf_of") else ""
        alone = ", going ahead alone" if vote.get("breaks_glass") else ""
        why = f": {vote['reason']}" if vote.get("reason") else ""
        yield shown(f"{vote['by'] or 'an unnamed person'}{whose}: {verdict_label(vote['decision'])}{alone}{why}")
    others = found.get("votes_for")
    for name, does in (others if isinstance(others, dict) else {}).items():
        yield shown(f"--vote-of {name} {does}")


def _ladder(found: JsonObject) -> Iterator[str]:
    """Who is told when nobody answers."""
    ladder = found.get("ladder")
    for step in ladder if isinstance(ladder, list) else ():
        whom = {"remind": "whoever was asked", "on_call": f"who is on call ({step['to']})"}.get(
            step["kind"], step["to"]
        )
        yield shown(f"told: {whom}, {ago(step['at'])} ago" if step["was_told"] else f"{whom} is told {ago(step['at'])}")


# -- what was decided -------------------------------------------------------------------------------------------------


def decision_panel(found: JsonObject, screen: Screen) -> list[Panel]:
    """The decision of a request beside what was asked: changed arguments, the message or answer that the model reads.
    Nothing while it waits."""
    made = found.get("decision")
    if not isinstance(made, dict):
        return []
    by = "by a standing decision of" if made.get("grant") else "by"
    title = f"{verdict_label(made['decision'])} {by} {made['by'] or 'somebody'}{_sure(made)}, {ago(made['at'])} ago"
    parts = _decided(found, made, screen.width - 4)
    for name, word in (("reason", "for the record"), ("grant", "by the grant")):
        if made.get(name):
            parts += [""] if parts else []
            parts += [two_columns([(word, shown(str(made[name])))], screen.width - 4, "dim")]
    return [_panel(screen, title, parts)]


def _sure(made: JsonObject) -> str:
    """How sure it is who it was, where it is more than a name."""
    assurance = str(made.get("assurance") or "none")
    return f" ({SURE_BY.get(assurance, assurance)})" if assurance != "none" else ""  # a newer desk may know more


def _decided(found: JsonObject, made: JsonObject, width: int) -> list[RenderableType]:
    match made["decision"]:
        case "edit":
            return _edited(found["arguments"], made["arguments"], width)
        case "reject" if made["message"] is not None:
            return [two_columns([("the model reads", shown(str(made["message"])))], width, "dim")]
        case "respond":
            output = made["output"]
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            return [Whole(shown(text, keep_lines=True))]
        case _:
            return []


def _edited(asked: object, decided: object, width: int) -> list[RenderableType]:
    """All that runs, line by line where it is commands or a patch; otherwise each value, with what it was before."""
    before: Mapping[str, object] = asked if isinstance(asked, dict) else {}
    after: Mapping[str, object] = decided if isinstance(decided, dict) else {}
    rows = [(name, _changed_value(name, before, after)) for name in {**before, **after}]
    return preview_lines(dict(after)) or [two_columns(rows or [("no arguments", "")], width, "cyan")]


def _changed_value(name: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    if name not in after:
        return f"left out (asked: {value_text(before[name])})"
    text = value_text(after[name])
    if name not in before:
        return f"{text}  (not asked for)"
    was = value_text(before[name])
    return text if was == text else f"{text}  (asked: {was})"
