"""What is wrong with a value, for models and reviewers: the place, as a JSON pointer, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

from placet.core.schema_patterns import shortened
from placet.facts.codec import Json, encode

MOST_PROBLEMS = 10
_MOST_TEXT = 300
"""Of one line: a schema, or a name in a value, may be as long as its author likes."""
_MOST_NAMES = 10
_TOP = "at the top"
"""The place that has an empty pointer."""


def lines(errors: Iterable[ValidationError]) -> list[str]:
    """One line for each problem, without repetitions, and how many more there are."""
    found = list(dict.fromkeys(line for error in errors for line in _lines(error)))
    if len(found) <= MOST_PROBLEMS:
        return found
    return [*found[:MOST_PROBLEMS], f"… and {len(found) - MOST_PROBLEMS} more"]


def _lines(error: ValidationError) -> Iterator[str]:
    place = error.instance_path
    match error.kind:
        case Kind.Required(property=name):
            yield _line([*place, name], "is required")
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            for name in names[:_MOST_NAMES]:
                yield _line([*place, name], "is not a parameter")
        case _:
            yield _line(place, _text(error.kind, place) or shortened(error.message, _MOST_TEXT))


def _line(place: list[str | int], text: str) -> str:
    return f"{shortened(pointer(place)) or _TOP}: {shortened(text, _MOST_TEXT)}"


def pointer(place: Iterable[str | int]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in place)


_PLAIN: dict[type[Kind], str] = {
    Kind.OneOfMultipleValid: "fits more than one of the forms of which exactly one is allowed",
    Kind.FalseSchema: "nothing is allowed here",
    Kind.UniqueItems: "should have no item twice",
    Kind.Contains: "has too few, or too many, items of the wanted form",
}
_BOUNDS: dict[type[Kind], str] = {
    Kind.Minimum: "should be at least {}",
    Kind.Maximum: "should be at most {}",
    Kind.ExclusiveMinimum: "should be more than {}",
    Kind.ExclusiveMaximum: "should be less than {}",
    Kind.MinLength: "should have at least {} characters",
    Kind.MaxLength: "should have at most {} characters",
    Kind.MinItems: "should have at least {} items",
    Kind.MaxItems: "should have at most {} items",
    Kind.AdditionalItems: "should have at most {} items",
    Kind.MinProperties: "should have at least {} properties",
    Kind.MaxProperties: "should have at most {} properties",
}


def _text(kind: Kind, place: list[str | int]) -> str | None:
    """What would be right; None: the library's own text has to do."""
    match kind:
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            return f"fits none of the allowed forms: {_forms(context, place)}"
        case Kind.Not(schema=schema):
            return f"should not fit {_json(schema)}"
        case Kind.PropertyNames(error=error):
            return f"has a name that does not fit: {_text(error.kind, place) or error.message}"
        case _:
            return _PLAIN.get(type(kind)) or _text_of_value(kind) or _text_of_bound(kind)


def _text_of_value(kind: Kind) -> str | None:
    match kind:
        case Kind.Type(types=types):
            return f"should be {' or '.join(types)}"
        case Kind.Enum(options=options):
            return f"should be one of {_json(options)}"
        case Kind.Constant(expected_value=value):
            return f"should be {_json(value)}"
        case Kind.Format(format=name):
            return f"should be a valid {name}"
        case Kind.Custom(message=message):
            return message
        case Kind.MultipleOf(multiple_of=step):
            return f"should be a multiple of {step}"
        case _:
            return None


def _text_of_bound(kind: Kind) -> str | None:
    match kind:
        case (
            Kind.Minimum(limit=limit)
            | Kind.Maximum(limit=limit)
            | Kind.ExclusiveMinimum(limit=limit)
            | Kind.ExclusiveMaximum(limit=limit)
            | Kind.MinLength(limit=limit)
            | Kind.MaxLength(limit=limit)
            | Kind.MinItems(limit=limit)
            | Kind.MaxItems(limit=limit)
            | Kind.AdditionalItems(limit=limit)
            | Kind.MinProperties(limit=limit)
            | Kind.MaxProperties(limit=limit)
        ):
            return _BOUNDS[type(kind)].format(limit)
        case _:
            return None


def _forms(context: list[list[ValidationError]], place: list[str | int]) -> str:
    """The first thing that is wrong by each of the forms; its place only where it is another one."""
    said = f"{shortened(pointer(place)) or _TOP}: "
    firsts = [next(_lines(errors[0]), "").removeprefix(said) for errors in context[:_MOST_NAMES] if errors]
    return shortened("; or ".join(dict.fromkeys(firsts)), _MOST_TEXT - 50)


def _json(value: Json) -> str:
    return shortened(encode(value).decode(), _MOST_TEXT - 50)
