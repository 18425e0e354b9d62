"""Words for people: spans of time, sizes, and text that cannot pretend to be something else.

Rule of this file: whatever came from a model goes through `visible` before it stands in a page. Escaping keeps it from
being markup; this keeps it from reading differently than it runs (reversed direction, hidden characters).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

from markupsafe import Markup, escape

from placet.facts.codec import Json

_KEPT = "\n\t"
# Printable by the Unicode tables, and yet nothing is seen: blank Braille, fillers of Hangul and Khmer, joiners,
# selectors of a variation.
_UNSEEN = re.compile(
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\U000e0100-\\U000e01ef]"
)
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z\\u00c0-\\u024f]")
# Letters of other alphabets that look like Latin ones: Greek, Cyrillic, Armenian, Cherokee, Coptic, full width, bold.
_LOOKALIKE = re.compile(
    "[\\u0370-\\u03ff\\u0400-\\u058f\\u13a0-\\u13ff\\u1c80-\\u1c8f\\u2c80-\\u2cff\\uab70-\\uabbf"
    "\\uff21-\\uff5a\\U0001d400-\\U0001d7ff]"
)


def visible(text: str, *, one_line: bool = False) -> Markup:
    """The text as markup. What does not show itself is a small mark with its code point, and so is a letter that
    stands among those of another alphabet; a line break is a quiet sign where all stands on one line."""
    if text.isascii() and text.isprintable():
        return escape(text)
    return Markup("").join(_pieces(text, "" if one_line else _KEPT))


def _pieces(text: str, kept: str) -> Iterator[Markup]:
    foreign = _foreign_letters(text)
    plain: list[str] = []
    for place, each in enumerate(text):
        if each in kept or (_shows(text, place) and place not in foreign):
            plain.append(each)
            continue
        yield escape("".join(plain))
        plain.clear()
        yield _mark(each, is_foreign=place in foreign)
    yield escape("".join(plain))


def _shows(text: str, place: int) -> bool:
    """Whether the character at this place can be seen. The selector that makes a sign an emoji belongs to the sign."""
    each = text[place]
    if each == "\ufe0f":
        return place > 0 and unicodedata.category(text[place - 1]) == "So" and text[place - 1] != "\u2800"
    return each.isprintable() and _UNSEEN.match(each) is None


def _foreign_letters(text: str) -> set[int]:
    """The places of letters that look like Latin ones, in words that hold Latin ones too."""
    if text.isascii():
        return set()
    return {
        word.start() + letter.start()
        for word in _WORD.finditer(text)
        if _LATIN.search(word[0])
        for letter in _LOOKALIKE.finditer(word[0])
    }


_SIGNS = {"\n": ("↵", "line break"), "\t": ("⇥", "tab")}


def _mark(character: str, *, is_foreign: bool = False) -> Markup:
    if character in _SIGNS:
        sign, name = _SIGNS[character]
        return Markup('<span class="break" title="{}">{}</span>').format(name, sign)
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "control character").lower()
    if is_foreign:
        title = f"{code} {name}, among letters of another alphabet"
        return Markup('<span class="mark" title="{}">{} {}</span>').format(title, character, code)
    return Markup('<span class="mark" title="{} {}">{}</span>').format(code, name, code)


def hides_something(text: str) -> bool:
    """Whether a form field would show this text as something else than it is: it is edited as JSON then."""
    if text.isascii() and text.isprintable():
        return False
    return any(each not in _KEPT and not _shows(text, place) for place, each in enumerate(text))


def _escaped(text: str, kept: str = "") -> str:
    """Escapes instead of what cannot be seen."""
    if text.isascii() and (text.replace("\n", "") if kept else text).isprintable():
        return text
    return "".join(
        each if each in kept or _shows(text, place) else json.dumps(each)[1:-1] for place, each in enumerate(text)
    )


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def json_text(value: Json, *, indent: int | None = 2) -> str:
    """JSON for eyes: what does not print is written as its escape, the rest as it is."""
    return _escaped(json.dumps(value, ensure_ascii=False, indent=indent), "\n")


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


def date_and_time(at: float) -> str:
    """A time as people write it; pages with a script show it in the reader's own zone."""
    return datetime.fromtimestamp(at, UTC).strftime("%-d %b %Y, %H:%M:%S UTC")


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def visible_text(text: str) -> str:
    """The same for places that hold no markup (options, labels): escapes instead of marks."""
    return _escaped(text)


def agent_steps(address: str) -> list[str]:
    """`Support/ask_billing(Billing)` as people read it: Support, then Billing."""
    steps = []
    for part in address.replace(">", "/").split("/"):
        inner = part.rpartition("(")[2].removesuffix(")") if part.endswith(")") else part
        steps.append(inner.replace("%2F", "/").replace("%3E", ">").replace("%25", "%"))
    return steps
