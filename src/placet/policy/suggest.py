"""Rules that people's own decisions suggest: the narrowest ones that spare most questions and contradict no rejection.

A suggestion is a box around calls that were approved: the tool, the agent, and for each argument what all of them had
in common (a value, a few values, a range, the first words of a command). A box in which a call lies that was rejected,
edited or answered is not suggested; it is cut where approvals and rejections differ, and tried again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from placet.core.policy import Policy, Unjudged, is_pattern
from placet.facts.codec import Json, canonical
from placet.policy.backtest import Case, tried
from placet.policy.loading import parse_policy
from placet.policy.matchers import shell_words

MIN_SPARED = 5
"""A rule for fewer questions is not worth its reading."""
MOST_VALUES = 6
"""So many different values are listed; an argument with more is bounded by a range, or not at all."""
MOST_CUTS = 60
MOST_GROUPS = 50
MOST_SUGGESTED = 10
MOST_TEXT = 200
MOST_NAME = 64
MOST_EXAMPLE = 400
MOST_DEPTH = 3
Bounds: TypeAlias = Mapping[str, "Bound"]


class Bound(msgspec.Struct, frozen=True):
    """What a rule asks of one argument, as it is written in the file, and in order of narrowness."""

    text: str
    example: Json


class Suggested(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that nobody wrote yet, and what speaks for it."""

    name: str
    tool: str
    agent: str
    text: str
    """As it would stand in the file."""
    spares: int
    """Questions that it would have spared, of those that were asked in that time."""
    asked: int
    """All questions about this tool of this agent."""
    people: list[str]
    """Who approved those calls."""
    calls: list[str]
    """Some of the requests that it would have spared."""
    nearest: str | None
    """A request that was not approved, and that the rule leaves to people."""


def suggest(cases: Sequence[Case], policy: Policy | None = None, *, least: int = MIN_SPARED) -> list[Suggested]:
    """The best rules first. `policy`: what it decides already is not suggested again."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        names = (case.subject.agent, case.subject.tool)
        if case.cannot is None and case.subject.arguments is not None and not any(map(is_pattern, names)):
            groups.setdefault((case.subject.agent, case.subject.tool), []).append(case)
    found = [each for group in groups.values() for each in _of_group(group, policy, least)]
    named = _with_names(sorted(found, key=lambda each: -each.spares)[:MOST_SUGGESTED])
    return [each for each in named if _holds(each, groups[each.agent, each.tool])]


def _of_group(group: Sequence[Case], policy: Policy | None, least: int) -> Iterator[Suggested]:
    asked = [case for case in group if policy is None or tried(policy, case).ruling.verdict is None]
    left = [case for case in asked if case.said == "yes" and case.is_lifted and not case.is_special]
    against = [case for case in group if case.said != "yes" or case.is_special]
    for _ in range(MOST_SUGGESTED):
        best = _best(left, against, least)
        if best is None:
            return
        box, inside = best
        yield _suggested(box, inside, len(asked), against)
        spared = {case.request_id for case in inside}
        left = [case for case in left if case.request_id not in spared]


Box: TypeAlias = dict[str, Bound]


def _best(left: Sequence[Case], against: Sequence[Case], least: int) -> tuple[Box, list[Case]] | None:
    """The box around most of these calls in which none lies that speaks against it. The largest sets come first, and
    one that holds such a call is cut."""
    waiting: list[list[Case]] = [list(left)]
    best: tuple[Box, list[Case]] | None = None
    for _ in range(MOST_CUTS):
        waiting.sort(key=len)
        cases = waiting.pop() if waiting else []
        if len(cases) < least or (best is not None and len(cases) <= len(best[1])):
            break
        box = _box_around(cases, against)
        inside = against if box is None else _inside(box, against)
        if box and not inside:
            best = (box, cases)
        else:
            waiting += [part for part in _cuts(cases, inside) if len(part) < len(cases)]
    return best


# -- boxes ------------------------------------------------------------------------------------------------------------


def _box_around(cases: Sequence[Case], against: Sequence[Case]) -> Box | None:
    """What all these calls have in common, argument by argument; None where one of them is bounded by nothing: a rule
    that lets any text through is no narrow one."""
    found: Box = {}
    flat = [_leaves(case) for case in cases]
    fields = _fields(cases)
    for field in fields:
        values = [each[field] for each in flat if field in each]
        bound = _bound(values) if len(values) == len(cases) else None
        if bound is None:
            return None
        found[field] = bound
    for field in _fields(against):
        if field not in fields and not any(each.startswith(f"{field}.") for each in fields):
            found[field] = Bound("{ present = false }", None)
    return found


def _leaves(case: Case) -> dict[str, Json]:
    """The arguments by their paths, objects taken apart: `order.id`."""
    found: dict[str, Json] = {}
    todo: list[tuple[str, Json, int]] = [("", case.subject.arguments or {}, 0)]
    while todo:
        path, value, depth = todo.pop()
        if isinstance(value, dict) and value and depth < MOST_DEPTH and not any("." in name for name in value):
            todo += [(f"{path}.{name}" if path else name, each, depth + 1) for name, each in value.items()]
        elif path:
            found[path] = value
    return found


def _fields(cases: Sequence[Case]) -> list[str]:
    return sorted({path for case in cases for path in _leaves(case)})


def _bound(values: Sequence[Json]) -> Bound | None:
    """The narrowest that can be said of all these values, or None where it would be no rule but a list of cases."""
    different = Counter(canonical(value) for value in values)
    if len(different) == 1:
        return _constant(values[0])
    if _are_numbers(values):
        low, high = min(values), max(values)  # type: ignore[type-var]  # they are numbers
        return Bound(f"{{ at_least = {_toml(low)}, at_most = {_toml(high)} }}", high)
    if len(different) <= MOST_VALUES and min(different.values()) > 1:
        return _listed(values)
    return _first_words(values) or _named(values)


def _constant(value: Json) -> Bound | None:
    if value is None or isinstance(value, dict) or len(canonical(value)) > MOST_TEXT or _has_null(value):
        return None
    return Bound(_toml(value), value)


def _has_null(value: Json) -> bool:
    return value is None or (
        isinstance(value, list) and any(isinstance(each, dict) or _has_null(each) for each in value)
    )


def _listed(values: Sequence[Json]) -> Bound | None:
    if not all(isinstance(value, str | int | float) and len(canonical(value)) <= MOST_TEXT for value in values):
        return None
    texts = sorted({_toml(value) for value in values})
    return Bound(f"{{ one_of = [{', '.join(texts)}] }}", values[0])


def _are_numbers(values: Sequence[Json]) -> bool:
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _first_words(values: Sequence[Json]) -> Bound | None:
    """Of plain shell commands: the words with which all of them begin."""
    try:
        words = [shell_words(value) for value in values if isinstance(value, str)]
    except Unjudged:
        return None
    if len(words) < len(values) or any(len(each) < 2 for each in words):
        return None
    common: list[str] = []
    for place in zip(*words, strict=False):
        if len(set(place)) > 1 or any(sign in place[0] for sign in "*?["):
            break
        common.append(place[0])
    if len(common) < 2:
        return None
    return Bound(f"{{ words = [{', '.join(map(_toml, common))}] }}", values[0])


def _named(values: Sequence[Json]) -> Bound | None:
    """Of names and numbers that are other ones each time: their signs and their length. Nothing with spaces, dots or
    slashes in it: that may be a sentence, a path or an address."""
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not all(texts):
        return None
    longest = max(map(len, texts))
    for signs, form in (("0-9", _DIGITS), ("A-Za-z0-9_-", _NAME)):
        if longest <= MOST_NAME and all(form.fullmatch(text) for text in texts):
            return Bound(f"{{ pattern = {_toml(f'[{signs}]{{1,{longest}}}')} }}", texts[0])
    return None


_DIGITS, _NAME = re.compile(r"[0-9]+"), re.compile(r"[A-Za-z0-9_-]+")


def _inside(box: Box, cases: Sequence[Case]) -> list[Case]:
    """The calls that lie in a box, as the rule would judge them; what cannot be judged would be asked about."""
    if not cases:
        return []
    first = cases[0].subject
    policy = parse_policy(_rule_text("box", first.tool, first.agent, box, ()))
    return [case for case in cases if tried(policy, case).ruling.verdict == "allow"]


def _cuts(cases: Sequence[Case], against: Sequence[Case]) -> Iterator[list[Case]]:
    """Parts of these calls, by one argument each: those that have it, those with one value, below or above what was not
    approved, those that begin with the same words."""
    flat = {case.request_id: _leaves(case) for case in cases}
    for field in _fields(cases):
        having = [case for case in cases if field in flat[case.request_id]]
        if len(having) < len(cases):
            yield having
            yield [case for case in cases if field not in flat[case.request_id]]
            continue
        values = {case.request_id: flat[case.request_id][field] for case in having}
        if _are_numbers(list(values.values())):
            yield from _numeric_cuts(having, values, against, field)
            continue
        groups: dict[bytes, list[Case]] = {}
        for case in having:
            groups.setdefault(_key_of(values[case.request_id]), []).append(case)
        if 1 < len(groups) <= MOST_GROUPS:
            yield from groups.values()


def _numeric_cuts(
    having: Sequence[Case], values: Mapping[str, Json], against: Sequence[Case], field: str
) -> Iterator[list[Case]]:
    limits = [value for case in against if isinstance(value := _leaves(case).get(field), int | float)]
    if not limits:
        return
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
    low, high = min(limits), max(limits)
    yield [case for case in having if numbers[case.request_id] < low]
    yield [case for case in having if numbers[case.request_id] > high]


def _key_of(value: Json) -> bytes:
    """By what calls are put together: the value, or of a command its first two words."""
    if isinstance(value, str):
        try:
            return canonical(shell_words(value)[:2]) if " " in value else canonical(value)
        except Unjudged:
            pass
    return canonical(value)


# -- texts ------------------------------------------------------------------------------------------------------------


def _suggested(box: Box, inside: Sequence[Case], asked: int, against: Sequence[Case]) -> Suggested:
    first = inside[0].subject
    near = next((case for case in against if case.said == "no"), next(iter(against), None))
    unless = [_example(box, near)] if near is not None else []
    unless = [each for each in unless if each]
    text = _rule_text("NAME", first.tool, first.agent, box, unless)
    return Suggested(
        name="",
        tool=first.tool,
        agent=first.agent,
        text=text,
        spares=len(inside),
        asked=asked,
        people=sorted({case.by for case in inside if case.by is not None}),
        calls=[case.request_id for case in inside[:20]],
        nearest=near.request_id if near is not None else None,
    )


def _example(box: Box, case: Case) -> str:
    """What of a call the rule looks at; nothing else of it is copied into a file."""
    flat = _leaves(case)
    shown = {field: flat[field] for field in box if field in flat and not _has_null(flat[field])}
    text = _table(_nested(shown))
    return text if shown and len(text) <= MOST_EXAMPLE else ""


def _nested(flat: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for path, value in flat.items():
        *outer, last = path.split(".")
        here = found
        for name in outer:
            inner = here.setdefault(name, {})
            assert isinstance(inner, dict), "a path leads through objects"
            here = inner
        here[last] = value
    return found


def _rule_text(name: str, tool: str, agent: str, box: Box, unless: Sequence[str]) -> str:
    lines = ["[[rule]]", f"name = {_toml(name)}", f"tool = {_toml(tool)}", f"agent = {_toml(agent)}"]
    lines += [f"args.{_key(field)} = {bound.text}" for field, bound in box.items()]
    lines += ["allow = true", "relax = true"]
    example = {field: bound.example for field, bound in box.items() if bound.example is not None}
    if example:
        lines.append(f"match = [{_table(_nested(example))}]")
    if unless:
        lines.append(f"unless = [{', '.join(unless)}]")
    return "\n".join(lines) + "\n"


def _table(values: Mapping[str, Json]) -> str:
    return "{ " + ", ".join(f"{_key(name)} = {_toml(value)}" for name, value in values.items()) + " }"


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else _toml(name)


def _toml(value: Json) -> str:
    """A value of JSON in TOML. Strings of JSON are strings of TOML but for two characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return _table(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def _with_names(found: Sequence[Suggested]) -> Iterator[Suggested]:
    taken: Counter[str] = Counter()
    for each in found:
        taken[each.tool] += 1
        name = f"usual-{each.tool}" + (f"-{taken[each.tool]}" if taken[each.tool] > 1 else "")
        name = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)
        yield msgspec.structs.replace(each, name=name, text=each.text.replace('"NAME"', _toml(name), 1))


def _holds(suggested: Suggested, group: Sequence[Case]) -> bool:
    """The last word: the rule, loaded with its examples, tried on every decision it could be about."""
    policy = parse_policy(suggested.text)
    found = [tried(policy, case) for case in group]
    return all(each.case.said == "yes" and not each.case.is_special for each in found if each.ruling.verdict == "allow")
