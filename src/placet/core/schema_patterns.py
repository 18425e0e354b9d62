"""The keyword `pattern` in bounded time: a server writes the pattern, a model the text, and neither may stop the desk.

Most patterns are matched by an engine that never goes back. Even that one takes a while for a large pattern and a long
text, and patterns that look ahead or refer back need one that does go back. So each pattern has a price for each
character, by its size and engine, and one check of a value has a budget. What would cost more is refused, in words.
"""

from __future__ import annotations

from contextvars import ContextVar

import jsonschema_rs

from placet.facts.codec import Json

BUDGET = 2_000_000_000
"""For all patterns of one check. A unit is about a nanosecond, in the worst case."""
_SIZES = (1 << 10, 1 << 13, 1 << 16, 1 << 20, 10 << 20)
"""Bytes of a compiled pattern. A pattern belongs to the first that holds it."""
_SIZES_GOING_BACK = (1 << 10, 1 << 11, 1 << 12, 1 << 13)
_DEAREST = 1 << 20
_STEPS_BACK = 1000
"""How often the engine that goes back may do so in one text."""
_STATES = 1 << 20
"""Bytes for what an engine remembers while it matches."""

_GAVE_UP = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)

budget: ContextVar[list[int]] = ContextVar("budget")
"""What is left for the check that runs now. Less than nothing: something was not checked."""


class Pattern:
    """One `pattern` of a schema, compiled once. Made and called by the library."""

    def __init__(self, _schema: object, pattern: Json, _path: object) -> None:
        if not isinstance(pattern, str):
            raise ValueError(f"a pattern is a text, not {str(pattern)[:80]}")
        self.pattern = pattern
        self._validator, self._price = _compiled(pattern)

    def validate(self, text: Json) -> None:
        if not isinstance(text, str):
            return
        left = budget.get()
        left[0] -= (len(text) + 1) * self._price
        if left[0] >= 0 and self._validator.is_valid(text):
            return
        if left[0] >= 0 and any(isinstance(each.kind, _GAVE_UP) for each in self._validator.iter_errors(text)):
            left[0] = -1  # inside a «not», an error alone would read as a fit: who began the check looks here
        if left[0] < 0:
            raise ValueError(f"is too long to be checked against the pattern {shortened(self.pattern)}")
        raise ValueError(f"should match the pattern {shortened(self.pattern)}")


def _compiled(pattern: str) -> tuple[jsonschema_rs.Validator, int]:
    """The pattern's validator, and the price of a character."""
    for size in _SIZES:
        found = _tried(pattern, jsonschema_rs.RegexOptions(size, _STATES))
        if found is not None:
            return found, min(size, _DEAREST)
    for size in _SIZES_GOING_BACK:
        found = _tried(pattern, jsonschema_rs.FancyRegexOptions(_STEPS_BACK, size, _STATES))
        if found is not None:
            return found, size * _STEPS_BACK
    raise ValueError(f"the pattern {shortened(pattern)} is no regular expression, or one that is too large")


def _tried(
    pattern: str, options: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options, offline=True)
    except ValueError:
        return None


def shortened(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
