"""How wide a standing decision is: what it would let through that nobody has approved yet.

Pure. What cannot be compared counts as wide: then a person looks twice, and nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from placet.core import shell_words
from placet.core.baseline import names_things
from placet.core.terms import fits, number_of
from placet.facts.budgets import GrantTerms, Matcher
from placet.facts.codec import Json, JsonObject, canonical

MIN_SEEN = 5
"""So many approved calls have to stand behind what a form of text lets through."""
MAX_NAMED = 5
"""An argument with more different values is another one each time, and no set."""
NOBODY = "nobody has approved such a call yet"


def wider_than(
    approved: Sequence[JsonObject], arguments: Mapping[str, Json] | None, matching: Sequence[Matcher]
) -> list[str]:
    """What is wide about it, in words; empty: within what people approved."""
    if not approved:
        return [NOBODY]
    pinned = arguments or {}
    found: list[str] = []
    for name in dict.fromkeys([*pinned, *(each.argument for each in matching), *_names(approved)]):
        values = [each[name] for each in approved if name in each]
        mine = [each for each in matching if each.argument == name]
        if name in pinned:
            found += _of_value(name, pinned[name], values)
        elif mine:
            wide = [list(_of_matcher(each, values)) for each in mine]
            found += wide[0] if all(wide) else []  # all of them have to hold, so one that is narrow is enough
        elif not _is_another_each_time(name, values, len(approved)):
            found.append(f"{name} may be anything; people approved {_shown(values)}")
    return found


def _names(approved: Iterable[JsonObject]) -> Iterator[str]:
    for each in approved:
        yield from each


def _of_value(name: str, value: Json, values: Sequence[Json]) -> Iterator[str]:
    if not _is_among(value, values):
        yield f"{name} is {_text(value)}, which nobody has approved"


def _is_among(value: Json, values: Iterable[Json]) -> bool:
    text = canonical(value)
    return any(canonical(each) == text for each in values)


def _of_matcher(matcher: Matcher, values: Sequence[Json]) -> Iterator[str]:
    name = matcher.argument
    if matcher.kind == "range":
        yield from _of_range(matcher, values)
    elif matcher.kind == "one_of":
        new = [each for each in matcher.values if not _is_among(each, values)]
        if new:
            yield f"{name} may be {_shown(new)}, which nobody has approved"
    else:
        for each in matcher.values:
            if not _is_borne_out(Matcher(name, matcher.kind, [each]), values):
                yield f"{name} may be anything that fits {_text(each)}; fewer than {MIN_SEEN} such calls were approved"
                return


def _of_range(matcher: Matcher, values: Sequence[Json]) -> Iterator[str]:
    numbers = [number for number in map(number_of, values) if number is not None]
    least, most = (None if each is None else number_of(each) for each in matcher.values)
    if not numbers:
        yield f"{matcher.argument} is a range; nobody has approved a number there"
    elif least is None or most is None or least < min(numbers) or most > max(numbers):
        shown = f"{'any' if least is None else least} to {'any' if most is None else most}"
        yield f"{matcher.argument} may be {shown}; people approved {min(numbers)} to {max(numbers)}"


def _is_borne_out(one: Matcher, values: Sequence[Json]) -> bool:
    """Whether people approved enough different texts of this form, or it is no more than one that they approved."""
    inside = [each for each in values if fits(GrantTerms([one]), {one.argument: each})]
    if one.kind == "shell" and "*" not in str(one.values[0]):
        return any(shell_words.plain_words(str(each)) == str(one.values[0]).split() for each in inside)
    return len(inside) >= MIN_SEEN and len({canonical(each) for each in inside}) > 1


def _is_another_each_time(name: str, values: Sequence[Json], calls: int) -> bool:
    """Whether an argument names things, such as an order's number: then that it is free says little."""
    if len(values) < max(MIN_SEEN, calls):
        return False
    are_numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    if are_numbers and not names_things(name):
        return False
    return len({canonical(each) for each in values}) > MAX_NAMED


def _shown(values: Sequence[Json]) -> str:
    different = list(dict.fromkeys(_text(each) for each in values))
    more = f" and {len(different) - 3} others" if len(different) > 3 else ""
    return (", ".join(different[:3]) or "calls without it") + more


def _text(value: Json) -> str:
    text = canonical(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"
