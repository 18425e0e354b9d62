"""The terms of a standing decision: which values a call's arguments may have. What cannot be judged does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, assert_never

from placet.core import shell_words
from placet.facts.budgets import GrantTerms, Matcher
from placet.facts.codec import Json, JsonObject, canonical

if TYPE_CHECKING:
    from decimal import Decimal

MAX_PATTERN = 1000
MAX_TEXT = 10_000
"""A longer text is not matched against a pattern: it does not fit."""


def fits(terms: GrantTerms, arguments: JsonObject | None) -> bool:
    """Whether a call's arguments are within the terms."""
    if not terms.matching:
        return True
    return arguments is not None and all(
        each.argument in arguments and _matches(each, arguments[each.argument]) for each in terms.matching
    )


def _matches(matcher: Matcher, value: Json) -> bool:
    if matcher.kind == "range":
        return _in_range(matcher.values, value)
    if matcher.kind == "one_of":
        return any(canonical(value) == canonical(each) for each in matcher.values)
    return isinstance(value, str) and _text_matches(matcher.kind, matcher.values, value)


def _text_matches(kind: Literal["prefix", "pattern", "shell"], values: Sequence[Json], text: str) -> bool:
    match kind:
        case "prefix":
            return any(_has_prefix(text, each) for each in values)
        case "pattern":
            return any(matches_pattern(str(each), text) for each in values)
        case "shell":
            words = shell_words.plain_words(text)
            return words is not None and any(shell_words.covers(str(each), words) for each in values)
        case never:
            assert_never(never)


def _has_prefix(value: str, prefix: Json) -> bool:
    """A way out of a folder is no way into it."""
    if not isinstance(prefix, str) or not value.startswith(prefix):
        return False
    return ".." not in value[len(prefix) :].replace("\\", "/").split("/")


def _in_range(bounds: Sequence[Json], value: Json) -> bool:
    number = number_of(value)
    if number is None or len(bounds) != 2:
        return False
    least, most = (None if each is None else number_of(each) for each in bounds)
    if (bounds[0] is not None and least is None) or (bounds[1] is not None and most is None):
        return False
    return (least is None or number >= least) and (most is None or number <= most)


def number_of(value: Json) -> Decimal | None:
    """A number, or a text that is one, exactly; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    from decimal import Decimal, InvalidOperation  # only who compares waits for it

    text = repr(value) if isinstance(value, float) else str(value)
    if len(text) > 40 or not text.isascii() or text != text.strip():
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() and "_" not in text else None


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether the whole text matches, in time that grows with its length and not beyond: the engine never goes back."""
    if len(text) > MAX_TEXT:
        return False
    try:
        return _compiled(pattern).is_valid(text)
    except ValueError:
        return False


class _Compiled(Protocol):
    def is_valid(self, instance: object) -> bool: ...


@lru_cache(maxsize=500)
def _compiled(pattern: str) -> _Compiled:
    import jsonschema_rs  # only who uses patterns waits for it

    options = jsonschema_rs.RegexOptions(size_limit=1 << 18, dfa_size_limit=1 << 20)
    jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options, offline=True)
    whole = f"^(?:{pattern})$"  # only behind the one alone: «a)|(b» would get out of its brackets
    return jsonschema_rs.validator_for({"pattern": whole}, pattern_options=options, offline=True)


def problem_with_pattern(pattern: str) -> str | None:
    """Why a pattern is none that can be matched in linear time."""
    if len(pattern) > MAX_PATTERN:
        return f"is longer than {MAX_PATTERN} characters"
    try:
        _compiled(pattern)
    except ValueError:
        return "is no regular expression that is matched in linear time (no look-around, no back-references)"
    return None
