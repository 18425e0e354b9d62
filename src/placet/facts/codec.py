"""JSON as the log needs it: what goes in comes out, and what cannot is refused by name.

Encoding is msgspec's. The strictness is ours: a value that JSON would silently change (a tuple, an int key, NaN) is not
plain, and a JSON text with a repeated key has no single meaning, so nobody can be asked to approve it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

Json: TypeAlias = object
"""A value made of None, bool, int, float, str, list and dict with str keys."""
JsonObject: TypeAlias = dict[str, object]

V = TypeVar("V")


def encodable(value: object) -> object:
    """What a user's own kind of text or number is to JSON. Called for types that the encoder does not know."""
    found = exact(value)
    if found is value:
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
    return found


def exact(value: object) -> object:
    """A value of a user's own kind of text or number (markup, an enum, a number of an array) as the plain one."""
    if isinstance(value, str):
        return str.__str__(value)  # not str(value): an enum, or markup, may say something else of itself
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


_encoder = msgspec.json.Encoder(enc_hook=encodable)
_canonical_encoder = msgspec.json.Encoder(enc_hook=encodable, order="sorted")
encode = _encoder.encode
canonical = _canonical_encoder.encode
"""One text for one value: keys sorted, no spaces. Digests are taken of this."""

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
MAX_DEPTH = 200
"""Deeper nesting than this is refused: the JSON readers of other programs stop at a similar depth."""


@runtime_checkable
class _Dumpable(Protocol):
    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, object]: ...


class NotPlain(ValueError):
    """A value cannot be written as JSON without being changed; the message names the place."""


def plain(value: object, where: str = "value") -> Json:
    """A deep copy of a JSON value, or NotPlain naming the first place that is none."""
    return _plain(value, where, 0)


def _plain(value: object, where: str, depth: int) -> Json:
    kind = type(value)
    if kind is str and value.isascii():  # type: ignore[attr-defined]  # narrowed by kind; the most common case by far
        return value
    if value is None or kind is bool:
        return value
    if depth > MAX_DEPTH:
        raise NotPlain(f"{where[:80]}… is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        return _plain_text(value, where)
    if isinstance(value, int | float):
        return _plain_number(value, where)
    if isinstance(value, dict):
        return _plain_object(value, where, depth)
    if isinstance(value, list):
        return _plain_list(value, where, depth)
    if isinstance(value, Mapping):
        return _plain_object(dict(value), where, depth)
    raise NotPlain(f"{where} is a {kind.__name__}, which JSON cannot hold")


def _plain_list(value: list[object], where: str, depth: int) -> list[Json]:
    return [_plain(each, f"{where}[{i}]", depth + 1) for i, each in enumerate(value)]


def _plain_object(value: dict[object, object], where: str, depth: int) -> JsonObject:
    found: JsonObject = {}
    for key, each in value.items():
        name = key if type(key) is str and key.isascii() else _plain_key(key, where)
        if (type(each) is str and each.isascii()) or each is None:
            found[name] = each
        else:
            found[name] = _plain(each, f"{where}.{name}", depth + 1)
    return found


def _plain_key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise NotPlain(f"{where} has the key {key!r}, and JSON keys are strings")
    return _plain_text(key, where)


def _plain_number(value: float, where: str) -> Json:
    if isinstance(value, int):
        if not _MIN_INT <= value <= _MAX_INT:
            raise NotPlain(f"{where} is an integer of more than 64 bits, which many JSON readers would change")
    elif not math.isfinite(value):
        raise NotPlain(f"{where} is {value}, which JSON cannot hold")
    return value if type(value) is int or type(value) is float else exact(value)


def _plain_text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NotPlain(f"{where} holds text that is not valid Unicode (a lone surrogate)") from error
    return str.__str__(value)


def size_of(text: str) -> int:
    """How many bytes the text takes in a log."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def writable(text: str) -> str:
    """The text as a plain str, with what no log can hold (halves of surrogate pairs, from odd file names) made question
    marks."""
    if type(text) is not str:
        text = str.__str__(text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def plain_str(text: str) -> str:
    """The text as a plain str, whatever subclass of it was given."""
    return text if type(text) is str else str.__str__(text)


def same_value(written: Json, found: Json) -> bool:
    """Whether two JSON values say the same: as Python has it, but that true is not 1, and that where an integer was
    written, a float of the same value says nothing else."""
    if isinstance(written, bool) or isinstance(found, bool):
        return written is found
    if isinstance(written, dict) and isinstance(found, dict):
        return written.keys() == found.keys() and all(same_value(written[name], found[name]) for name in written)
    if isinstance(written, list) and isinstance(found, list):
        return len(written) == len(found) and all(map(same_value, written, found))
    return written == found and not (isinstance(written, float) and isinstance(found, int))


def fresh(value: V) -> V:
    """A copy of plain JSON that shares nothing with it: what users are handed is theirs to change."""
    copied: V = msgspec.json.decode(encode(value))
    return copied


def plain_item(item: object, where: str = "item") -> JsonObject:
    """A raw item as a dict of our own: given as a mapping, or as an object of the `openai` package."""
    if type(item) is dict:
        return _plain_object(item, where, 0)
    if not isinstance(item, dict) and isinstance(item, _Dumpable):
        item = item.model_dump(mode="json", exclude_unset=True)
    found = plain(item, where)
    if not isinstance(found, dict):
        raise NotPlain(f"{where} is a {type(item).__name__}, not an object")
    return found


class _RepeatedKey(ValueError):
    pass


def _unique_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKey("a key stands twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_NEEDS_A_LOOK = re.compile(r"\\u[dD]|[\ud800-\udfff]|\d{18}|[eE][+]?\d{2}")
"""What valid JSON can hold and a log cannot: halves of surrogate pairs, numbers out of range."""
_strict_decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_constant)


def parse_arguments(text: str) -> JsonObject | None:
    """The arguments that a model wrote, or None when they are not one unambiguous JSON object.

    An empty text means {}.
    """
    if text == "{}" or not text.strip():
        return {}
    found = _flat_object(text) if text.count("{") == 1 else None
    if found is not None:
        return found
    try:
        read = _strict_decoder.decode(text)
        if _is_odd(text):
            read = plain(read)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _is_odd(text: str) -> bool:
    return _NEEDS_A_LOOK.search(text) is not None or text.count("{") + text.count("[") > MAX_DEPTH


_PLAIN_TYPES = frozenset({str, bool, type(None)})


def _flat_object(text: str) -> JsonObject | None:
    """An object without another one in it, by the quick decoder, if it has as many colons as keys: then no key stands
    twice. None where it takes a closer look."""
    is_simple = text.isascii() and "\\" not in text  # then nothing in it can be odd but numbers and lists
    if not is_simple and _is_odd(text):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(found, dict) or len(found) != text.count(":"):
        return None
    if is_simple and not _PLAIN_TYPES.issuperset(map(type, found.values())) and _is_odd(text):
        return None
    return found
