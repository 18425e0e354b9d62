"""Predicates of requirements: expressions in CEL over who votes, on which call, and why.

Rule of this file: what cannot be judged does not hold, so a vote does not count because an expression failed.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from placet.facts.codec import Json, JsonObject
from placet.facts.errors import UserError

if TYPE_CHECKING:
    import cel

NAMES = ("agent", "args", "reason", "reviewer", "started_by", "tool")
"""What a predicate can speak of. `reviewer` has `name`, `groups` and `assurance`."""
_REVIEWER = ("assurance", "groups", "name")
MOST_TEXT = 2000
MOST_STEPS = 100_000
"""So many elements may be looked at in one evaluation."""
_MOST_INTEGER = 1 << 63
_TEXT = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_LOOK_AT_EACH = re.compile(r"\b(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
_NAME = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?!\w*\s*\()")
_WORDS = frozenset({"true", "false", "null", "in"})


def check_predicate(text: str) -> None:
    """UserError, naming what is wrong, for an expression that could never hold."""
    if len(text) > MOST_TEXT:
        raise UserError(f"A predicate has up to {MOST_TEXT} characters, not {len(text)}.")
    _compiled(text)
    plain = _TEXT.sub("''", text)
    bound = set(_LOOK_AT_EACH.findall(plain))
    for name in _NAME.findall(plain):
        if name not in NAMES and name not in bound and name not in _WORDS:
            raise UserError(f"The predicate «{text}» speaks of '{name}': it can speak of {', '.join(NAMES)}.")
    for field in re.findall(r"(?<![\w.])reviewer\s*\.\s*([A-Za-z_]\w*)", plain):
        if field not in _REVIEWER:
            raise UserError(f"The predicate «{text}» asks for reviewer.{field}: there is {', '.join(_REVIEWER)}.")


def predicate_holds(text: str, seen: JsonObject) -> bool:
    """Whether it holds for a vote and its call. False, too, where that cannot be said."""
    try:
        import cel  # heavy, and an extra: requirements without predicates do without it

        size, depth = _size(seen), len(_LOOK_AT_EACH.findall(_TEXT.sub("''", text)))
        if size is None or size**depth > MOST_STEPS:
            return False
        return _compiled(text).execute(cel.Context(dict(seen))) is True
    except Exception:  # noqa: BLE001  # a field that is not there, a library that is not: nobody can say that it holds
        return False


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> cel.Program:
    try:
        import cel
    except ImportError:
        raise UserError("Predicates need the extra 'policy': pip install 'placet[policy]'.") from None
    try:
        return cel.compile(text)
    except ValueError as error:
        raise UserError(f"The predicate «{text}» is no expression: {str(error).splitlines()[0][:200]}") from None


def _size(seen: Json) -> int | None:
    """How many values there are; None where one is an integer that the library would round."""
    count, todo = 0, [seen]
    while todo:
        value = todo.pop()
        count += 1
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, int) and not -_MOST_INTEGER <= value < _MOST_INTEGER:
            return None
    return count
