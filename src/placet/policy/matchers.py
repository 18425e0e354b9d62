"""The closed set of matchers: what a rule can ask of a call without an expression. Each takes bounded time."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jsonschema_rs
import msgspec

from placet.core.policy import Facts, Unjudged, is_pattern
from placet.facts.codec import Json, canonical

Test: TypeAlias = Callable[[Json], bool]
MOST_PATTERN = 1 << 16
"""Bytes of a compiled pattern. Matching takes a time that grows with the text alone, never with what was tried."""
_NOTHING = object()
_SHELL_SIGNS = frozenset("\n\r;|&<>()`$")


class Malformed(Exception):
    """A matcher that is written wrongly. The text says why."""


class WordMatcher(msgspec.Struct, frozen=True):
    """One of the call's own words (agent, source, server, who started it) fits one of some patterns."""

    field: str
    patterns: tuple[str, ...]
    compiled: tuple[re.Pattern[str], ...]

    @property
    def text(self) -> str:
        return f"{self.field} is {' or '.join(self.patterns)}"

    def holds(self, facts: Facts) -> bool:
        value: str | None = getattr(facts.subject, self.field)
        return value is not None and any(pattern.match(value) for pattern in self.compiled)


def word_matcher(field: str, patterns: Sequence[str]) -> WordMatcher:
    compiled = [
        re.compile(fnmatch.translate(each) if is_pattern(each) else re.escape(each) + r"\Z") for each in patterns
    ]
    return WordMatcher(field, tuple(patterns), tuple(compiled))


class ArgumentMatcher(msgspec.Struct, frozen=True):
    """One argument is as a rule wants it."""

    path: tuple[str, ...]
    words: str
    tests: tuple[Test, ...]
    wants_absent: bool = False
    given: Mapping[str, object] = {}
    """The tests as they are written."""

    @property
    def text(self) -> str:
        return f"{'.'.join(self.path)} {self.words}"

    def holds(self, facts: Facts) -> bool:
        value = _at(facts.subject.readable(), self.path)
        if value is _NOTHING:
            return self.wants_absent
        if self.wants_absent:
            return False
        try:
            return all(test(value) for test in self.tests)
        except Unjudged as error:
            raise Unjudged(f"argument {'.'.join(self.path)}: {error}") from None


def _at(arguments: Mapping[str, Json], path: Sequence[str]) -> Any:  # Any: a value of JSON, or _NOTHING
    found: Any = arguments
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            return _NOTHING
        found = found[part]
    return found


def argument_matcher(name: str, wanted: object) -> ArgumentMatcher:
    """A value that it has to equal, or a table of tests, all of which have to hold."""
    path = tuple(name.split("."))
    if not isinstance(wanted, Mapping):
        return ArgumentMatcher(path, f"is {_shown(wanted)}", (_equal(wanted),))
    if not wanted:
        raise Malformed("has no test")
    tests: list[Test] = []
    words: list[str] = []
    for key, value in wanted.items():
        if key == "present":
            if not isinstance(value, bool) or len(wanted) > 1:
                raise Malformed("present is true or false, and stands alone")
            return ArgumentMatcher(path, "is there" if value else "is not there", (), wants_absent=not value)
        tests.append(TESTS[key](value))
        words.append(f"{key} {_shown(value)}")
    return ArgumentMatcher(path, " and ".join(words), tuple(tests), given=dict(wanted))


def _shown(value: object) -> str:
    try:
        return canonical(value).decode()[:80]
    except (TypeError, ValueError, msgspec.MsgspecError):
        raise Malformed(f"{value!r} is nothing that JSON knows") from None


def _equal(wanted: object) -> Test:
    _shown(wanted)
    text = canonical(wanted)
    return lambda value: canonical(value) == text


def _number(value: object, of: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed(f"{of} takes a number, not {value!r}")
    return value


def _is_number(value: Json) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unjudged("a number was expected")
    return value


def _at_most(limit: object) -> Test:
    most = _number(limit, "at_most")
    return lambda value: _is_number(value) <= most


def _at_least(limit: object) -> Test:
    least = _number(limit, "at_least")
    return lambda value: _is_number(value) >= least


def _above(limit: object) -> Test:
    bound = _number(limit, "above")
    return lambda value: _is_number(value) > bound


def _below(limit: object) -> Test:
    bound = _number(limit, "below")
    return lambda value: _is_number(value) < bound


def _one_of(values: object) -> Test:
    if not isinstance(values, list) or not values:
        raise Malformed("one_of takes a list of values")
    texts = frozenset(map(_text_of, values))
    return lambda value: canonical(value) in texts


def _not_one_of(values: object) -> Test:
    test = _one_of(values)
    return lambda value: not test(value)


def _text_of(value: object) -> bytes:
    _shown(value)
    return canonical(value)


def _is_text(value: Json) -> str:
    if not isinstance(value, str):
        raise Unjudged("a text was expected")
    return value


def _given_text(value: object, of: str) -> str:
    if not isinstance(value, str) or not value:
        raise Malformed(f"{of} takes a text, not {value!r}")
    return value


def _prefix(value: object) -> Test:
    begin = _given_text(value, "prefix")
    return lambda given: _is_text(given).startswith(begin)


def _like(value: object) -> Test:
    pattern = _given_text(value, "like")
    validator = linear_pattern(_as_expression(pattern))
    return lambda given: validator.is_valid(_is_text(given))


def _as_expression(pattern: str) -> str:
    """A pattern with `*` and `?`, as a regular expression of the linear engine."""
    signs = {"*": "(?s:.*)", "?": "(?s:.)"}
    return "".join(signs.get(sign) or _literal(sign) for sign in pattern)


def _literal(sign: str) -> str:
    return sign if sign.isalnum() or sign in "_ \"'/,:;=<>@!%" or ord(sign) > 127 else f"\\{sign}"


def _pattern(value: object) -> Test:
    validator = linear_pattern(_given_text(value, "pattern"))
    return lambda given: validator.is_valid(_is_text(given))


def linear_pattern(pattern: str) -> jsonschema_rs.Validator:
    """A pattern for the whole text, in an engine that never goes back. One that needs to is refused."""
    options = jsonschema_rs.RegexOptions(MOST_PATTERN, 1 << 20)
    whole = {"pattern": f"^(?:{pattern})$"}
    try:  # alone first: «a)|(b» would be a pattern only between the brackets, and then not for the whole text
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options, offline=True)
        return jsonschema_rs.validator_for(whole, pattern_options=options, offline=True)
    except ValueError:
        pass
    try:
        re.compile(pattern)
    except re.error:
        raise Malformed(f"the pattern {pattern[:80]!r} is no regular expression") from None
    raise Malformed(
        f"the pattern {pattern[:80]!r} cannot be matched in bounded time: it looks around, refers back, or is too large"
    )


def _words(value: object) -> Test:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        raise Malformed('words takes a list of words, such as ["git", "status"]')
    wanted = [linear_pattern(_as_expression(each)) for each in value]

    def test(given: Json) -> bool:
        words = shell_words(_is_text(given))
        return len(words) >= len(wanted) and all(w.is_valid(word) for w, word in zip(wanted, words, strict=False))

    return test


def shell_words(command: str) -> list[str]:
    """The words of one plain command. Unjudged if a shell would make more of it than that: `git status && rm -rf /` is
    not `git status`."""
    if not _SHELL_SIGNS.isdisjoint(command):
        raise Unjudged("it is more than one plain command")
    try:
        return shlex.split(command)
    except ValueError:
        raise Unjudged("its quotes do not end") from None


TESTS: Mapping[str, Callable[[object], Test]] = {
    "at_most": _at_most,
    "at_least": _at_least,
    "above": _above,
    "below": _below,
    "one_of": _one_of,
    "not_one_of": _not_one_of,
    "prefix": _prefix,
    "like": _like,
    "pattern": _pattern,
    "words": _words,
    "equals": _equal,
}
"""What a table of an argument may hold, beside `present`."""
