"""Words for people: spans of time, sizes, and text that cannot pretend to be something else.

Rule of this file: whatever came from a model goes through `visible` before it stands in a page. Escaping keeps it from
being markup; this keeps it from reading differently than it runs (reversed direction, hidden characters).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

from markupsafe import Markup, escape

from placet.facts.codec import Json

_KEPT = "\n\t"


def visible(text: str, *, one_line: bool = False) -> Markup:
    """The text as markup, each character that does not show itself written as a small mark with its code point."""
    if text.isprintable():
        return escape(text)
    return Markup("").join(_pieces(text, "" if one_line else _KEPT))


def _pieces(text: str, kept: str) -> Iterator[Markup]:
    plain: list[str] = []
    for each in text:
        if each.isprintable() or each in kept:
            plain.append(each)
            continue
        yield escape("".join(plain))
        plain.clear()
        yield _mark(each)
    yield escape("".join(plain))


def _mark(character: str) -> Markup:
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "control character").lower()
    sign = {"\n": "↵", "\t": "⇥"}.get(character, code)
    return Markup('<span class="mark" title="{} {}">{}</span>').format(code, name, sign)


def hides_something(text: str) -> bool:
    """Whether a form field would show this text as something else than it is: it is edited as JSON then."""
    return any(not each.isprintable() and each not in _KEPT for each in text)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def json_text(value: Json, *, indent: int | None = 2) -> str:
    """JSON for eyes: what does not print is written as its escape, the rest as it is."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def size(characters: int) -> str:
    if characters < 10_000:
        return f"{characters:,} characters"
    if characters < 1_000_000:
        return f"{characters / 1000:.0f} thousand characters"
    return f"{characters / 1_000_000:.1f} million characters"


def span(seconds: float) -> str:
    """How long something took, in one or two words."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 60:
        return f"{minutes:.0f} min"
    if hours < 48:
        return f"{int(hours)} h {int(minutes % 60)} min" if hours < 10 else f"{hours:.0f} h"
    return f"{days:.0f} days"


def age(at: float, now: float) -> str:
    """How long ago something was."""
    passed = now - at
    return "just now" if passed < 5 else f"{span(passed)} ago"


def moment(at: float) -> str:
    """A time as people write it; pages with a script show it in the reader's own zone."""
    return datetime.fromtimestamp(at, UTC).strftime("%-d %b %Y, %H:%M:%S UTC")


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def visible_text(text: str) -> str:
    """The same for places that hold no markup (options, labels): escapes instead of marks."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def agent_steps(address: str) -> list[str]:
    """`Support/ask_billing(Billing)` as people read it: Support, then Billing."""
    steps = []
    for part in address.replace(">", "/").split("/"):
        inner = part.rpartition("(")[2].removesuffix(")") if part.endswith(")") else part
        steps.append(inner.replace("%2F", "/").replace("%3E", ">").replace("%25", "%"))
    return steps
