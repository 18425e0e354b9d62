"""The bounds with which a form for a standing decision begins: the narrowest that hold the call at hand and what people
approved before. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from placet.core import shell_words
from placet.core.baseline import names_things
from placet.core.grant_width import MAX_NAMED, MIN_SEEN
from placet.core.terms import number_of
from placet.facts.codec import Json, JsonObject, canonical

MAX_TEXT = 200
_COMMANDS = re.compile(r"(?:^|_)(?:cmd|command|commands|shell|script)$", re.IGNORECASE)
_SIGNS = (("[0-9]", re.compile(r"[0-9]+")), ("[A-Za-z0-9_-]", re.compile(r"[A-Za-z0-9_-]+")))
MAX_NAME = 64


def bounds_for(call: JsonObject, approved: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """What each argument has to be, as `Grant(matching=…)` has it. One that is not named may be anything: a long text,
    a list, or what is another thing each time and has no form."""
    found: dict[str, JsonObject] = {}
    for name, value in call.items():
        before = [each[name] for each in approved if name in each]
        bound = _bound(name, value, [value, *before])
        if bound is not None:
            found[name] = bound
    return found


def _bound(name: str, value: Json, values: Sequence[Json]) -> JsonObject | None:
    if isinstance(value, str) and _COMMANDS.search(name):
        command = _command([each for each in values if isinstance(each, str)])
        if command is not None:
            return {"shell": [command]}
    if _is_number(value) and not names_things(name):
        return _range([each for each in values if _is_number(each)])
    if not isinstance(value, str | int | float | bool):
        return None
    different = list({canonical(each): each for each in values if isinstance(each, str | int | float | bool)}.values())
    if len(different) <= MAX_NAMED:
        return {"one_of": different} if all(len(str(each)) <= MAX_TEXT for each in different) else None
    texts = [each for each in different if isinstance(each, str)]
    return _form(texts) if len(texts) == len(different) >= MIN_SEEN else None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _range(values: Sequence[Json]) -> JsonObject:
    numbers: list[tuple[Decimal, Json]] = [(number, each) for each in values if (number := number_of(each)) is not None]
    low, high = min(numbers, key=lambda pair: pair[0]), max(numbers, key=lambda pair: pair[0])
    return {"min": low[1], "max": high[1]}


def _command(texts: Sequence[str]) -> str | None:
    """Of plain commands, the words that all have: `git push origin *`. None: one of them is more than a plain
    command."""
    words = [shell_words.plain_words(each) for each in texts]
    plain = [each for each in words if each is not None]
    if len(plain) < len(words) or not plain:
        return None
    common = [place[0] if len(set(place)) == 1 else shell_words.ANY_WORD for place in zip(*plain, strict=False)]
    while common and common[-1] == shell_words.ANY_WORD and len({len(each) for each in plain}) > 1:
        common.pop()
    if len({len(each) for each in plain}) > 1:
        common.append(shell_words.ANY_WORDS)
    granted = " ".join(common)
    if shell_words.problem_with(granted) is not None:
        return None
    return granted if all(shell_words.covers(granted, each) for each in plain) else None


def _form(texts: Sequence[str]) -> JsonObject | None:
    """The folder that all lie in, or their signs and length; None: they have nothing in common but that they are
    texts."""
    folder = _folder(texts)
    if folder is not None:
        return {"prefix": folder}
    longest = max(map(len, texts))
    for sign, form in _SIGNS:
        if longest <= MAX_NAME and all(form.fullmatch(each) for each in texts):
            return {"pattern": f"{sign}{{1,{longest}}}"}
    return None


def _folder(texts: Sequence[str]) -> str | None:
    parts = [each.split("/") for each in texts]
    common = list(_common([each[:-1] for each in parts]))
    folder = "/".join(common)
    return f"{folder}/" if folder.strip("/") and ".." not in common else None


def _common(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    for place in zip(*parts, strict=False):
        if len(set(place)) > 1:
            return
        yield place[0]
