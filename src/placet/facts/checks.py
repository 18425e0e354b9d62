"""What was given by mistake is refused where it was given, in words: which argument, what it takes, what it got."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from placet.facts.errors import UserError

MAX_SHOWN = 80


class Kind(NamedTuple):
    """What an argument takes, in words, and whether a value fits."""

    description: str
    fits: Callable[[object], bool]


def check(where: str, **given: tuple[object, Kind]) -> None:
    """`check("Agent 'A'", key=(key, optional(TEXT)))`: UserError naming the first that does not fit."""
    for name, (value, kind) in given.items():
        if not kind.fits(value):
            raise UserError(f"{where}{name} is {kind.description}, not {_shown(value)}.")


def optional(kind: Kind) -> Kind:
    return Kind(f"{kind.description}, or None", lambda value: value is None or kind.fits(value))


def instance_of(cls: type, description: str = "") -> Kind:
    article = "an" if cls.__name__[0] in "AEIO" else "a"
    return Kind(description or f"{article} {cls.__name__}", lambda value: isinstance(value, cls))


def sequence_of(cls: type | tuple[type, ...], description: str) -> Kind:
    def fits(value: object) -> bool:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(isinstance(each, cls) for each in typing.cast("Sequence[object]", value))

    return Kind(description, fits)


def having(method: str, description: str) -> Kind:
    """An object of a user's own, known by a method; a class is not one."""
    return Kind(description, lambda value: callable(getattr(value, method, None)) and not isinstance(value, type))


def _is_number(value: object) -> typing.TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _is_type(value: object) -> bool:
    if isinstance(value, type | types.UnionType | types.GenericAlias | typing.NewType | typing.TypeVar):
        return True
    return typing.get_origin(value) is not None or type(value).__module__ in ("typing", "typing_extensions")


def _shown(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"a {type(value).__name__}"


TEXT = Kind("a text", lambda value: isinstance(value, str))
NAME = Kind("a text that is not empty", lambda value: isinstance(value, str) and bool(value))
FLAG = Kind("True or False", lambda value: isinstance(value, bool))
COUNT = Kind(
    "a whole number, 1 or more", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1
)
WHOLE = Kind(
    "a whole number, 0 or more", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0
)
NUMBER = Kind("a number", _is_number)
NOT_NEGATIVE = Kind("a number, 0 or more", lambda value: _is_number(value) and value >= 0)
SECONDS = Kind("a number of seconds above 0", lambda value: _is_number(value) and value > 0)
FUNCTION = Kind("a function", callable)
RULE = Kind("True, False or a function", lambda value: isinstance(value, bool) or callable(value))
MAPPING = Kind("a mapping", lambda value: isinstance(value, Mapping))
TYPE = Kind("a type that pydantic knows", _is_type)
MODEL = optional(
    Kind(
        "the name of a model or a Model",
        lambda value: (isinstance(value, str) and bool(value)) or having("get_response", "").fits(value),
    )
)
