"""What a message says to a person: one line, a few more, and a link. All that is written for people comes from here."""

from __future__ import annotations

import json

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.verdict_words import verdict_label
from placet.ports import OutgoingMessage

DECIDES_NOTHING = "This message decides nothing. Whoever follows the link logs in, looks, and decides there."
LONGEST = 2000
"""Characters of a call's arguments that are shown. The desk shows the rest."""
LISTED = 50
"""Events that a digest names."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    lines: list[str]
    url: str | None
    """Where it is seen whole, and decided."""


def words_of(message: OutgoingMessage) -> Words:
    found: JsonObject = json.loads(message.body)
    data = found["data"]
    assert isinstance(data, dict)
    url = data.get("url")
    link = url if isinstance(url, str) else None
    if message.type == "test":
        return Words(title="A test of Placet", lines=[f"The channel {_text(data, 'subscription')} works."], url=link)
    if message.type == "digest":
        return Words(title=_title_of_digest(data), lines=_lines_of_digest(data), url=link)
    return Words(title=title_of(message.type, data), lines=_lines(data), url=link)


_TITLES = {
    "request.reminded": "{tool} still waits for a yes",
    "request.on_call": "{tool} still waits: {on_call} is on call",
    "request.escalated": "{tool} still waits: nobody answered in time",
    "request.voted": "{by} voted on {tool}",
    "request.broke_glass": "{by} went ahead alone with {tool}: a review is owed",
    "request.vote_taken_back": "{by} took a vote on {tool} back",
    "request.decided": "{tool}: {verdict} by {by}",
    "request.reopened": "{tool} waits again: {by} took the approval back",
    "request.closed": "{tool} ended without an answer",
    "run.ended": "A run of {agent} has ended",
    "run.stopped": "A run of {agent} was stopped by an error",
}
_WAITING = {"in_doubt": "Did {tool} happen? Somebody has to look", "elicitation": "{tool} asks for an answer"}


def title_of(event: str, data: JsonObject) -> str:
    """«refund waits for a yes»"""
    if event == "request.waiting":
        form = _WAITING.get(_text(data, "kind"), "{tool} waits for a yes")
    else:
        form = _TITLES.get(event, "{event} of {agent}")
    return form.format(
        event=event,
        agent=_text(data, "agent"),
        tool=_text(data, "tool"),
        by=_text(data, "by") or "a rule",
        on_call=_text(data, "on_call") or "nobody",
        verdict=verdict_label(data.get("verdict")),
    )


def _lines(data: JsonObject) -> list[str]:
    lines = [_text(data, "summary")] if data.get("summary") else []
    lines += [f"Agent: {_text(data, 'agent')}"]
    lines += [f"Digest: {_text(data, 'digest')}"] if data.get("digest") else []
    lines += [f"Until: {_text(data, 'expires_at')}"] if data.get("expires_at") else []
    if "arguments" in data:
        shown = json.dumps(data["arguments"], ensure_ascii=False, indent=2)
        cut = f"{shown[:LONGEST]}… (the rest is at the desk)" if len(shown) > LONGEST else shown
        lines.append(f"Arguments: {cut}")
    return lines


def _title_of_digest(data: JsonObject) -> str:
    counts = data["counts"]
    assert isinstance(counts, dict)
    parts = [f"{count} × {_COUNTED.get(name, name)}" for name, count in counts.items()]
    return f"Placet: {', '.join(parts)}"


_COUNTED = {"request.waiting": "waiting", "request.decided": "decided", "run.ended": "runs ended"}


def _lines_of_digest(data: JsonObject) -> list[str]:
    events, counts = data["events"], data["counts"]
    assert isinstance(events, list)
    assert isinstance(counts, dict)
    lines = [_line_of_digest(each) for each in events if isinstance(each, dict)]
    left_out = sum(each for each in counts.values() if isinstance(each, int)) - len(lines)
    return [*lines, f"… and {left_out} more."] if left_out > 0 else lines


def _line_of_digest(event: JsonObject) -> str:
    title = f"{_text(event, 'timestamp')} {title_of(_text(event, 'type'), event)} ({_text(event, 'agent')})"
    url = event.get("url")
    return f"{title} {url}" if isinstance(url, str) else title


def _text(data: JsonObject, name: str) -> str:
    """A field as it is written into one line."""
    value = data.get(name)
    return "" if value is None else " ".join(str(value).split())[:300]
