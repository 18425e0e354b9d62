"""What a schema can make a validator do: its references, and how often it has one value looked at.

A schema of a few lines can ask for a billion looks at one value, by definitions that refer to each other twice. So the
looks are counted before, for values of a given depth. That takes references that can be followed without a library:
only those to a place in the schema itself are taken, which also keeps every schema off the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from placet.facts.codec import Json

Kind: TypeAlias = Literal["object", "array"]
_Key: TypeAlias = tuple[int, int, Kind]

_HERE = ("not", "if", "then", "else")
_HERE_LISTS = ("allOf", "anyOf", "oneOf")
_HERE_MAPS = ("dependentSchemas", "dependencies")
_INSIDE: dict[Kind, tuple[str, ...]] = {
    "object": ("additionalProperties", "unevaluatedProperties", "propertyNames"),
    "array": ("items", "additionalItems", "unevaluatedItems", "contains"),
}
_DEFINITIONS = ("$defs", "definitions")
_NOT_TAKEN = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$recursiveAnchor")


class BadSchema(ValueError):
    """This is no schema that values can be checked against; the message says why."""


class Costs:
    """A schema whose references all lead somewhere in it, and the looks that it takes."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self.root = root
        self.names_patterns = 0
        """How many patterns for names it has."""
        self.has_alternatives = False
        self._known: dict[_Key, int] = {}
        self._examine()
        self.looks(0)  # a schema that comes back to the same place without going into the value is found now

    def looks(self, depth: int) -> int:
        """How often, at most, one part of a value that is nested so deep is looked at."""
        found = 1
        for each in range(depth + 1):  # from below: what a depth asks of the next smaller one is known then
            found = self._looks_at(self.root, each, frozenset())
        return found

    def resolved(self, reference: str) -> Json:
        """What stands at this place of the schema."""
        found: Json = self.root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = _unescaped(step)
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise BadSchema(f"its $ref {reference[:80]!r} leads nowhere")
        return found

    def _examine(self) -> None:
        """Every part of it once, also definitions that nothing refers to yet."""
        waiting: list[Json] = [self.root]
        seen: set[int] = set()
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            self._refuse_odd_references(schema)
            names = schema.get("patternProperties")
            self.names_patterns += len(names) if isinstance(names, Mapping) else 0
            self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
            waiting += _all_parts(schema)
            if "$ref" in schema:
                waiting.append(self.resolved(str(schema["$ref"])))

    def _refuse_odd_references(self, schema: Mapping[str, Json]) -> None:
        reference = schema.get("$ref", "#")
        if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
            raise BadSchema(
                f"its $ref {str(reference)[:80]!r} leads out of it, and nothing is fetched: put what it means under "
                "$defs, and refer to it by «#/$defs/…»"
            )
        odd = next((each for each in _NOT_TAKEN if each in schema), None)
        if odd is not None or ("$id" in schema and schema is not self.root):
            raise BadSchema(f"it uses {odd or '$id inside it'}: refer to definitions by «#/$defs/…»")

    def _looks_at(self, schema: Json, depth: int, above: frozenset[_Key]) -> int:
        """Only one of both kinds counts at each place: no value is both."""
        return max(self._looks(schema, depth, "object", above), self._looks(schema, depth, "array", above))

    def _looks(self, schema: Json, depth: int, kind: Kind, above: frozenset[_Key]) -> int:
        if not isinstance(schema, Mapping):
            return 1
        key = (id(schema), depth, kind)
        if key in self._known:
            return self._known[key]
        if key in above:
            raise BadSchema("a $ref in it comes back to itself at the same place")
        above |= {key}
        here = sum(self._looks(each, depth, kind, above) for each in self._parts_here(schema))
        inside = sum(self._looks_at(each, depth - 1, above) for each in _parts_inside(schema, kind)) if depth else 0
        named = [self._looks_at(each, depth - 1, above) for each in _exclusive(schema, kind)] if depth else []
        self._known[key] = found = 1 + here + inside + max(named, default=0)
        return found

    def _parts_here(self, schema: Mapping[str, Json]) -> Iterator[Json]:
        """The schemas that the same value has to fit, or not to fit."""
        if "$ref" in schema:
            yield self.resolved(str(schema["$ref"]))
        yield from _of_here(schema)


def _of_here(schema: Mapping[str, Json]) -> Iterator[Json]:
    yield from (schema[name] for name in _HERE if name in schema)
    for name in _HERE_LISTS:
        yield from _listed(schema.get(name))
    for name in _HERE_MAPS:
        yield from _mapped(schema.get(name))


def _parts_inside(schema: Mapping[str, Json], kind: Kind) -> Iterator[Json]:
    """The schemas that one and the same part of the value may all have to fit."""
    yield from (schema[name] for name in _INSIDE[kind] if name in schema)
    if kind == "object":
        yield from _mapped(schema.get("patternProperties"))


def _exclusive(schema: Mapping[str, Json], kind: Kind) -> Iterator[Json]:
    """The schemas of which one part of the value meets at most one."""
    if kind == "object":
        yield from _mapped(schema.get("properties"))
    else:
        yield from _listed(schema.get("prefixItems"))
        yield from _listed(schema.get("items"))


def _all_parts(schema: Mapping[str, Json]) -> Iterator[Json]:
    yield from _of_here(schema)
    kinds: tuple[Kind, ...] = ("object", "array")
    for kind in kinds:
        yield from _parts_inside(schema, kind)
        yield from _exclusive(schema, kind)
    for name in _DEFINITIONS:
        yield from _mapped(schema.get(name))


def _unescaped(step: str) -> str:
    """A step of a JSON pointer in an address: percent signs first, then the pointer's own escapes."""
    plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), step.encode())
    return plain.decode(errors="replace").replace("~1", "/").replace("~0", "~")


def _listed(value: Json) -> Iterator[Json]:
    if isinstance(value, list):
        yield from value


def _mapped(value: Json) -> Iterator[Json]:
    if isinstance(value, Mapping):
        yield from value.values()
