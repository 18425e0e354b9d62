"""The values of a call: what validation makes of the arguments that a model wrote, as JSON, and as a function gets it.

Rule of this file: what is shown as JSON is what comes back when that JSON is validated again. A value of which JSON
would be a poor picture (a secret, which is masked; the work of a validator that would change its own result) stays as
the model wrote it, and is named in `opaque`: no rule can judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from placet.facts.codec import Json, JsonObject, NotPlain, canonical, plain, same_value

NOT_A_NUMBER = "Input should be a number, not true or false"


class InvalidArguments(ValueError):
    """The model's arguments do not fit the parameters. The message is for the model: one line per problem."""


class ValidatedArguments(msgspec.Struct, frozen=True):
    """Arguments that fit."""

    values: JsonObject
    """As JSON, defaults filled in. The very object that was validated, where validation changed nothing."""
    bound: Any = None  # Any: what the tool's own function takes
    """As the function gets them, made once and for one call; None: it makes them of `values`."""
    opaque: tuple[str, ...] = ()
    """Parameters of which `values` does not tell what the function gets."""


def refuse_unknown(arguments: JsonObject, schema: JsonObject) -> None:
    """InvalidArguments where an argument is no parameter of the schema, at any depth of objects and lists."""
    unknown = list(_unknown(arguments, schema, ""))
    if unknown:
        raise InvalidArguments("\n".join(f"{place}: Unknown argument" for place in unknown))


def _unknown(value: Json, schema: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name, each in value.items():
            where = f"{place}.{name}" if place else name
            if name in known:
                yield from _unknown(each, known[name], where)
            else:
                yield where
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unknown(each, schema.get("items", {}), f"{place}[{index}]")


class Choice(msgspec.Struct, frozen=True):
    """What becomes of one parameter: its value as JSON (UNSET: it is left out), and whether that tells all."""

    value: Json | msgspec.UnsetType
    is_opaque: bool = False


def choose(
    name: str,
    written: Json | msgspec.UnsetType,
    dumped: Json | msgspec.UnsetType,
    comes_back: Callable[[Json], bool],
) -> Choice:
    """The value of a parameter: as it was written, if validation left it alone; else as `dumped`, if that comes back.

    `dumped` is UNSET where JSON cannot hold what validation made. InvalidArguments where a truth value became a number.
    """
    if dumped is not msgspec.UNSET:
        if written is not msgspec.UNSET and same_value(written, dumped):
            return Choice(written)
        problem = next(_truths_for_numbers(written, dumped, name), None)
        if problem is not None:
            raise InvalidArguments(problem)
        if comes_back(dumped):
            return Choice(dumped)
    return Choice(written, is_opaque=True)


def as_json(value: object) -> Json | msgspec.UnsetType:
    """What a serializer made, if it is JSON that a log can hold."""
    try:
        return plain(value)
    except NotPlain:
        return msgspec.UNSET


def _truths_for_numbers(written: Json, dumped: Json, place: str) -> Iterator[str]:
    """Where a model wrote true or false and validation made 1 or 0 of it: to Python they are alike, to nobody else."""
    if isinstance(written, bool):
        if isinstance(dumped, int | float) and not isinstance(dumped, bool):
            yield f"{place}: {NOT_A_NUMBER}"
    elif isinstance(written, list) and isinstance(dumped, list):
        if _count_truths(dumped) < _count_truths(written):  # a set has another order and may be shorter
            yield f"{place}: {NOT_A_NUMBER}"
        for index, (one, other) in enumerate(zip(written, dumped, strict=False)):
            if not isinstance(one, bool):
                yield from _truths_for_numbers(one, other, f"{place}[{index}]")
    elif isinstance(written, dict) and isinstance(dumped, dict):
        for name in written.keys() & dumped.keys():
            yield from _truths_for_numbers(written[name], dumped[name], f"{place}.{name}")


def _count_truths(values: list[Any]) -> int:
    return sum(isinstance(each, bool) for each in values)


def in_order(value: object, dumped: Json) -> Json:
    """The dumped value with what was a set sorted: its own order changes from process to process."""
    if isinstance(value, set | frozenset) and isinstance(dumped, list):
        return sorted(dumped, key=canonical)
    if isinstance(value, list | tuple) and isinstance(dumped, list) and len(value) == len(dumped):
        return [in_order(*pair) for pair in zip(value, dumped, strict=True)]
    parts = _parts(value)
    if parts is not None and isinstance(dumped, dict) and len(parts) == len(dumped):
        return {name: in_order(part, each) for part, (name, each) in zip(parts, dumped.items(), strict=True)}
    return dumped


def _parts(value: object) -> list[object] | None:
    """What an object with named parts holds, in the order in which it is dumped."""
    if isinstance(value, Mapping):
        return list(value.values())
    kept = getattr(value, "__dict__", None)
    return list(kept.values()) if isinstance(kept, dict) else None


def equal(one: object, other: object) -> bool:
    """Whether two values are the same to Python; what cannot be compared is not."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001  # a comparison of another's that fails, or gives no single answer
        return False


class WholeType:
    """Validates arguments as one value of a type that pydantic knows."""

    def __init__(self, kind: Any) -> None:  # Any: whatever pydantic takes for a type
        self._kind = kind
        self._adapter: Any = None

    def __call__(self, arguments: JsonObject) -> ValidatedArguments:
        import pydantic

        if self._adapter is None:
            self._adapter = pydantic.TypeAdapter(self._kind)
        try:
            value = self._read(arguments)
        except pydantic.ValidationError as error:
            lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)]
            raise InvalidArguments("\n".join(lines)) from error
        chosen = choose("input", arguments, self._dumped(value), lambda dumped: self._comes_back(dumped, value))
        assert isinstance(chosen.value, dict), "what was an object stays one"
        return ValidatedArguments(chosen.value, value, ("input",) if chosen.is_opaque else ())

    def _read(self, given: Json) -> Any:
        from pydantic_core import to_json

        return self._adapter.validate_json(to_json(given))

    def _dumped(self, value: object) -> Json | msgspec.UnsetType:
        try:
            dumped = self._adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings=False)
        except ValueError:
            return msgspec.UNSET
        found = as_json(in_order(value, dumped))
        return found if isinstance(found, dict) else msgspec.UNSET

    def _comes_back(self, dumped: Json, value: object) -> bool:
        try:
            return equal(self._read(dumped), value)
        except Exception:  # noqa: BLE001  # whatever a validator raises: it does not take its own result
            return False
