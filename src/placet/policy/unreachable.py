"""Rules that no call can ever match: found when a policy is loaded, since such a rule is a mistake."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from placet.core.policy import Rule
from placet.policy.expressions import Expression
from placet.policy.matchers import ArgumentMatcher


def why_never(rule: Rule) -> str | None:
    """Why no call can match; None: some could."""
    by_path: dict[tuple[str, ...], list[ArgumentMatcher]] = {}
    for condition in rule.conditions:
        if isinstance(condition, ArgumentMatcher):
            by_path.setdefault(condition.path, []).append(condition)
            why = _empty(condition)
            if why is not None:
                return f"argument {'.'.join(condition.path)} {why}"
        elif isinstance(condition, Expression) and condition.is_constant and not condition.constant():
            return "its expression is never true"
    return next(_inside(by_path), None)


def _inside(by_path: Mapping[tuple[str, ...], list[ArgumentMatcher]]) -> Iterator[str]:
    """An argument that is not there has nothing inside."""
    for path, conditions in by_path.items():
        for condition in conditions:
            is_inside = any(len(other) > len(path) and other[: len(path)] == path for other in by_path)
            if condition.wants_absent and is_inside:
                yield f"argument {'.'.join(path)} is not there, and something in it is asked for"


def _empty(condition: ArgumentMatcher) -> str | None:
    given = condition.given
    low = max((_number(given, key) for key in ("at_least", "above")), default=-math.inf)
    high = min((-_number(given, key, sign=-1) for key in ("at_most", "below")), default=math.inf)
    is_open = _number(given, "above") == low or -_number(given, "below", sign=-1) == high
    if low > high or (low == high and is_open and math.isfinite(low)):
        return f"cannot be over {_shown(low)} and under {_shown(high)} at once"
    allowed, refused = given.get("one_of"), given.get("not_one_of")
    if isinstance(allowed, list) and isinstance(refused, list) and all(each in refused for each in allowed):
        return "can be nothing that one_of names"
    return None


def _number(given: Mapping[str, object], key: str, sign: int = 1) -> float:
    value = given.get(key)
    return sign * float(value) if isinstance(value, int | float) and not isinstance(value, bool) else -math.inf


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
