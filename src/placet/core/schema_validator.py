"""One schema, compiled once: what it says of values, at a bounded cost, and without a look outside.

Two things keep a foreign schema from stopping the process: patterns have a budget (`schema_patterns`), and what the
rest would look at is counted before (`schema_cost`). What would cost more is refused: never let through unchecked.
"""

from __future__ import annotations

import msgspec
from jsonschema_rs import EmailOptions, RegexOptions, Registry, ValidationError, Validator, validator_for

from placet.core.schema_cost import BadSchema, Costs
from placet.core.schema_messages import lines, pointer
from placet.core.schema_patterns import BUDGET, Pattern, budget, shortened
from placet.facts.codec import Json, JsonObject

MOST_LOOKS = 2_000_000
"""At parts of one value, in all. A hundred thousand take about a hundredth of a second."""
_MOST_TO_EXPLAIN = 10_000
"""The same where every problem is described: that takes a thousand times as long."""
_MOST_NAME_LETTERS = 20_000
"""Of all names in one value, for each pattern that they are matched with."""
_TOO_LONG = "at the top: has a text that is too long to be checked against its pattern"
_ALL = "urn:placet:schema"
_OF_THE_LIBRARY = "Failed to instantiate keyword class 'pattern': ValueError: "
_NAMES = RegexOptions(1 << 16, 1 << 20)  # patternProperties: the engine that never goes back, or none


class CheckedSchema:
    """A schema that values can be checked against. BadSchema, if it is none."""

    def __init__(self, root: JsonObject) -> None:
        # Only references inside the schema are taken, so its own address means nothing.
        self._root = {name: each for name, each in root.items() if name not in ("$id", "id")}
        self._costs = _costs(self._root)
        self._validator = _compiled(self._root)
        self._defaults: _Defaults | None = None
        self._parts: dict[str, Validator] = {}

    def problems(self, value: Json) -> list[str]:
        """What is wrong with the value, one line each; empty when it fits."""
        return self._problems(self._validator, value)

    def problems_of_property(self, name: str, value: Json) -> list[str]:
        """The same for the value of one property, whatever else the schema asks for."""
        found = self._root.get("properties")
        if not isinstance(found, dict) or name not in found:
            return []
        return self._problems(self._part(["properties", name]), value)

    def with_defaults(self, value: JsonObject) -> JsonObject:
        """The value with the defaults of properties that are missing; the very object, if none is."""
        if self._defaults is None:
            self._defaults = self._defaults_at([], self._root, {})
        return self._defaults.filled(value)

    def _problems(self, validator: Validator, value: Json) -> list[str]:
        nodes, depth, letters = _measured(value)
        try:
            looks = nodes * self._costs.looks(depth)
        except RecursionError:
            looks = MOST_LOOKS + 1
        if looks > MOST_LOOKS or letters * self._costs.names_patterns > _MOST_NAME_LETTERS:
            return ["at the top: is too large, or nested too deeply, to be checked against the schema"]
        left = [BUDGET]
        token = budget.set(left)
        try:
            if validator.is_valid(value):
                return [] if left[0] >= 0 else [_TOO_LONG]
            left[0] = BUDGET
            return self._explained(validator, value, looks)
        except ValueError as error:
            return [f"at the top: is no JSON value: {shortened(str(error))}"]
        finally:
            budget.reset(token)

    def _explained(self, validator: Validator, value: Json, looks: int) -> list[str]:
        if looks <= _MOST_TO_EXPLAIN:
            return lines(validator.iter_errors(value)) or [_TOO_LONG]
        if self._costs.has_alternatives:  # what is wrong by each of them would be collected
            return ["at the top: does not fit the schema, and is too large to say where"]
        try:
            validator.validate(value)
        except ValidationError as error:
            return lines([error])
        return [_TOO_LONG]

    def _part(self, place: list[str]) -> Validator:
        """The validator of a part, in which references still mean places of the whole."""
        where = pointer(place)
        if where not in self._parts:
            self._parts[where] = _compiled(self._root, where)
        return self._parts[where]

    def _defaults_at(self, place: list[str], schema: Json, known: dict[int, _Defaults]) -> _Defaults:
        while isinstance(schema, dict) and "$ref" in schema and "properties" not in schema:
            reference = str(schema["$ref"])
            place, schema = reference.split("/")[1:], self._costs.resolved(reference)
        if id(schema) in known:  # a form that has itself as a part
            return known[id(schema)]
        found = known[id(schema)] = _Defaults()
        parts = schema.get("properties") if isinstance(schema, dict) else None
        for name, part in parts.items() if isinstance(parts, dict) else ():
            if not isinstance(part, dict):
                continue
            here = [*place, "properties", name]
            if "default" in part and not self._problems(self._part(here), part["default"]):
                found.values[name] = part["default"]  # one that does not fit is only a remark
            if "$ref" in part or "properties" in part:
                found.inside[name] = self._defaults_at(here, part, known)
        return found


class _Defaults:
    """What an object of some form is completed with."""

    __slots__ = ("inside", "values")

    def __init__(self) -> None:
        self.values: JsonObject = {}
        self.inside: dict[str, _Defaults] = {}

    def filled(self, value: JsonObject) -> JsonObject:
        found = {name: each for name, each in self.values.items() if name not in value}
        for name, form in self.inside.items():
            inside = value.get(name)
            if isinstance(inside, dict):
                filled = form.filled(inside)
                if filled is not inside:
                    found[name] = filled
        return {**value, **found} if found else value


def _costs(root: JsonObject) -> Costs:
    try:
        found = Costs(root)
    except RecursionError as error:
        raise BadSchema("it is nested too deeply") from error
    if found.looks(0) > MOST_LOOKS:
        raise BadSchema("its definitions refer to each other so often that no value could be checked in time")
    return found


def _compiled(root: JsonObject, where: str = "") -> Validator:
    """A validator of the schema, or of what stands at a place of it."""
    draft = {"$schema": root["$schema"]} if "$schema" in root else {}
    try:
        return validator_for(
            {**draft, "$ref": f"{_ALL}#{_in_address(where)}"} if where else root,
            registry=Registry([(_ALL, root)]) if where else None,
            keywords={"pattern": Pattern},
            pattern_options=_NAMES,
            email_options=EmailOptions(allow_display_text=False),
            validate_formats=True,
            offline=True,
        )
    except ValidationError as error:
        raise BadSchema(lines([error])[0].replace(_OF_THE_LIBRARY, "")) from error
    except ValueError as error:
        raise BadSchema(shortened(str(error), 300)) from error


def _in_address(where: str) -> str:
    return "".join(each if each.isalnum() and each.isascii() else _percent(each) for each in where)


def _percent(letter: str) -> str:
    return letter if letter in "/~-._$" else "".join(f"%{byte:02X}" for byte in letter.encode())


def _measured(value: Json) -> tuple[int, int, int]:
    """How many values it is made of, how deep they are nested, and how long all names are together."""
    nodes, deepest, letters = 0, 0, 0
    waiting: list[tuple[Json, int]] = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        nodes += 1
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            letters += sum(len(name) for name in each if isinstance(name, str))
            waiting += [(inside, depth + 1) for inside in each.values()]
        elif isinstance(each, list):
            waiting += [(inside, depth + 1) for inside in each]
    return nodes, deepest, letters


def checked_schema(text: bytes) -> CheckedSchema:
    found = msgspec.json.decode(text)
    if not isinstance(found, dict):
        raise BadSchema("a schema is an object")
    return CheckedSchema(found)
