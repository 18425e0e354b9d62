"""What a function becomes when it is made a tool: its schema, its description, and the values that reach its body."""

import dataclasses
import datetime
import enum
import functools
import json
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, TypeVar, Unpack, get_origin

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, Strict, field_validator
from typing_extensions import TypedDict

from placet.declare.docstrings import Docstring, parse_docstring
from placet.declare.tool_schema import FunctionSchema, function_schema, strict_schema
from placet.declare.tool_values import InvalidArguments
from placet.facts.errors import UserError

T = TypeVar("T")


class Context(Generic[T]):
    """Stands for RunContextWrapper: this module does not know the real one."""


def is_context(annotation: object) -> bool:
    return (get_origin(annotation) or annotation) is Context


def schema_of(function: Callable[..., object], **options: Any) -> FunctionSchema:
    return function_schema(function, is_context_type=is_context, **options)


def loose(function: Callable[..., object], **options: Any) -> FunctionSchema:
    return schema_of(function, strict_json_schema=False, **options)


def properties_of(schema: FunctionSchema) -> dict[str, Any]:
    properties = schema.params_json_schema["properties"]
    assert isinstance(properties, dict)
    return properties


def call(function: Callable[..., object], arguments: Mapping[str, object], **options: Any) -> object:
    args, kwargs = loose(function, **options).bind(arguments)
    return function(*args, **kwargs)


def refusal(function: Callable[..., object], arguments: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        loose(function).bind(arguments)
    return str(caught.value)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    number: int = 1


class Node(BaseModel):
    name: str
    children: list["Node"] = []
    twin: Annotated["Node | None", Field(description="its twin")] = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict, total=False):
    title: str
    year: int


class Unknown:
    """A class that pydantic has no schema for."""


class Greeter:
    """Greets people."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"{self.greeting}, {name}"

    def collect(self, **rest: int) -> dict[str, int]:
        return rest

    @classmethod
    def shout(cls, name: str) -> str:
        return name.upper()

    @staticmethod
    def whisper(name: str) -> str:
        return name.lower()

    async def __call__(self, name: str) -> str:
        return self.greet(name)


# ---------------------------------------------------------------------------------------------------- the basics


def test_importing_the_module_does_not_import_pydantic() -> None:
    program = "import sys, placet.declare.tool_schema; sys.exit('pydantic' in sys.modules)"

    finished = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)  # noqa: S603 - our own program

    assert finished.returncode == 0


def test_a_function_becomes_a_name_a_description_and_an_object_schema() -> None:
    def refund(order: str, cents: int) -> str:
        """Give money back.

        Only for paid orders.
        """
        return ""

    schema = schema_of(refund)

    assert schema.name == "refund"
    assert schema.description == "Give money back.\n\nOnly for paid orders."
    assert schema.params_json_schema == {
        "type": "object",
        "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["order", "cents"],
        "additionalProperties": False,
    }
    assert schema.takes_context is False
    assert schema.is_async is False
    assert schema.bind({"order": "o1", "cents": 5}) == (["o1", 5], {})


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def ping() -> None: ...

    schema = schema_of(ping)

    assert schema.params_json_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert schema.description == ""
    assert schema.bind({}) == ([], {})


def test_overrides_win_and_an_empty_description_counts_as_one() -> None:
    def ping() -> None:
        """Ping."""

    schema = schema_of(ping, name_override="pong", description_override="")

    assert (schema.name, schema.description) == ("pong", "")


def test_docstring_information_can_be_turned_off() -> None:
    def ping(x: int) -> None:
        """Ping.

        Args:
            x: the x
        """

    schema = schema_of(ping, use_docstring_info=False)

    assert schema.description == ""
    assert properties_of(schema) == {"x": {"type": "integer"}}


def test_the_schema_is_the_same_every_time_and_keeps_the_order_of_parameters() -> None:
    def f(zulu: int, alpha: Color, mike: Address, *, bravo: str = "b") -> None: ...

    first, second = schema_of(f), schema_of(f)

    assert json.dumps(first.params_json_schema) == json.dumps(second.params_json_schema)
    assert list(properties_of(first)) == ["zulu", "alpha", "mike", "bravo"]
    assert first == second


def test_an_async_function_is_known_as_async_through_partials_and_callable_objects() -> None:
    async def f(x: int) -> None: ...

    assert schema_of(f).is_async
    assert schema_of(functools.partial(f), name_override="f").is_async
    assert schema_of(Greeter("hi")).is_async


# ------------------------------------------------------------------------------------------------------- context


def test_a_context_comes_first_and_is_neither_in_the_schema_nor_bound() -> None:
    def bare(ctx: Context, x: int) -> None: ...  # type: ignore[type-arg]
    def generic(ctx: Context[str], x: int) -> None: ...
    def annotated(ctx: Annotated[Context[str], "the run"], /, x: int) -> None: ...
    def defaulted(ctx: Context[str] = None, x: int = 0) -> None: ...  # type: ignore[assignment]

    for function in (bare, generic, annotated, defaulted):
        schema = schema_of(function)

        assert schema.takes_context
        assert list(properties_of(schema)) == ["x"]
        assert schema.bind({"x": 1}) == ([1], {})


def test_a_context_anywhere_but_first_is_refused() -> None:
    def second(x: int, ctx: Context[str]) -> None: ...
    def twice(ctx: Context[str], other: Context[str]) -> None: ...
    def keyword(*, ctx: Context[str]) -> None: ...
    def gathered(*ctx: Context[str]) -> None: ...

    for function in (second, keyword, gathered):
        with pytest.raises(UserError, match="context 'ctx' must be the first"):
            schema_of(function)
    with pytest.raises(UserError, match="context 'other' must be the first"):
        schema_of(twice)


def test_an_argument_named_like_the_context_cannot_enter_through_kwargs() -> None:
    def f(ctx: Context[str], **rest: int) -> None: ...

    assert refusal(f, {"ctx": 1, "a": 2}) == "ctx: Unknown argument"


# -------------------------------------------------------------------------------------------- kinds of parameters


def test_every_kind_of_parameter_reaches_its_place() -> None:
    def f(a: int, /, b: int, c: int = 3, *args: int, d: int, e: int = 5, **rest: int) -> object:
        return (a, b, c, args, d, e, rest)

    assert call(f, {"a": 1, "b": 2, "d": 4}) == (1, 2, 3, (), 4, 5, {})
    assert call(f, {"a": 1, "b": 2, "d": 4, "args": [7, "8"], "x": 9}) == (1, 2, 3, (7, 8), 4, 5, {"x": 9})


def test_var_positional_is_an_array_that_may_be_absent() -> None:
    def f(*numbers: int) -> None: ...

    schema = loose(f).params_json_schema

    assert schema["properties"] == {"numbers": {"type": "array", "items": {"type": "integer"}}}
    assert "required" not in schema
    assert properties_of(schema_of(f)) == {"numbers": {"type": "array", "items": {"type": "integer"}}}


def test_var_keyword_is_said_as_additional_properties() -> None:
    def typed(**rest: int) -> None: ...
    def untyped(a: str, **rest: Any) -> None: ...
    def modelled(**rest: Address) -> None: ...

    assert loose(typed).params_json_schema["additionalProperties"] == {"type": "integer"}
    assert loose(untyped).params_json_schema["additionalProperties"] is True
    assert list(properties_of(loose(untyped))) == ["a"]
    assert loose(modelled).bind({"home": {"street": "s"}}) == ([], {"home": Address(street="s")})


def test_what_kwargs_carries_is_validated_and_reported_under_its_own_name() -> None:
    def f(**rest: int) -> object:
        return rest

    assert refusal(f, {"a": "x"}).startswith("a: Input should be a valid integer")
    assert call(f, {"rest": 1, "self": 2}) == {"rest": 1, "self": 2}


def test_a_constraint_on_gathered_parameters_is_about_each_of_them() -> None:
    def f(*numbers: Annotated[int, Field(ge=1)], **rest: Annotated[int, Field(ge=2)]) -> None: ...

    assert loose(f).bind({"numbers": [1, 2], "a": 3}) == ([1, 2], {"a": 3})
    assert refusal(f, {"numbers": [0], "a": 1}).splitlines() == [
        "numbers[0]: Input should be greater than or equal to 1",
        "a: Input should be greater than or equal to 2",
    ]


def test_an_unpacked_typed_dict_is_refused_with_advice() -> None:
    def f(**movie: Unpack[Movie]) -> None: ...

    with pytest.raises(UserError, match="Unpack on parameter 'movie' is not supported"):
        loose(f)


def test_names_that_a_pydantic_model_reserves_are_plain_parameters() -> None:
    def f(
        schema: int, json: int, copy: int, model_config: int, model_fields: int, _private: int, __dunder: int, p1: int
    ) -> object:
        return (schema, json, copy, model_config, model_fields, _private, __dunder, p1)

    names = ["schema", "json", "copy", "model_config", "model_fields", "_private", "__dunder", "p1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema = schema_of(f)
        returned = call(f, {name: i for i, name in enumerate(names)})

    assert list(properties_of(schema)) == names
    assert returned == tuple(range(len(names)))


def test_a_parameter_called_title_or_default_is_not_mistaken_for_a_keyword_of_the_schema() -> None:
    def f(title: str, default: str, description: str, type: str, required: bool) -> None: ...

    assert list(properties_of(schema_of(f))) == ["title", "default", "description", "type", "required"]


def test_a_keyword_that_is_no_ascii_word_works() -> None:
    def f(größe: int) -> object:  # noqa: PLC2401 - the point of the test
        return größe

    assert call(f, {"größe": 3}) == 3


# ------------------------------------------------------------------------------------------------------ defaults


def test_defaults_are_used_for_what_is_absent_even_where_the_schema_requires_all() -> None:
    def f(a: int, b: str = "x", c: list[int] = [1]) -> None: ...  # noqa: B006 - the point of the test

    strict, non_strict = schema_of(f), loose(f)

    assert strict.params_json_schema["required"] == ["a", "b", "c"]
    assert non_strict.params_json_schema["required"] == ["a"]
    assert properties_of(non_strict)["b"] == {"type": "string", "default": "x"}
    assert strict.bind({"a": 1}) == non_strict.bind({"a": 1}) == ([1, "x", [1]], {})


def test_a_mutable_default_is_fresh_for_every_call() -> None:
    def f(items: list[int] = []) -> None: ...  # noqa: B006 - the point of the test

    schema = schema_of(f)
    first = schema.bind({})[0][0]
    assert isinstance(first, list)
    first.append(1)

    assert schema.bind({}) == ([[]], {})


def test_a_sentinel_default_stays_the_same_object() -> None:
    missing = object()

    def f(x: int = missing, y: int = ..., z: Any = len) -> None: ...  # type: ignore[assignment]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        args, _ = loose(f).bind({})

    assert args == [missing, ..., len]


def test_a_default_of_none_makes_the_parameter_nullable() -> None:
    def f(x: int = None, y: Annotated[int, Field(ge=1, description="why")] = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    schema = schema_of(f)

    assert properties_of(schema)["x"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties_of(schema)["y"]["description"] == "why"
    assert schema.bind({"x": None}) == ([None, None], {})
    assert refusal(f, {"y": 0}) == "y: Input should be greater than or equal to 1"


def test_field_defaults_constrain_describe_and_default() -> None:
    def f(
        x: int = Field(ge=1, description="at least one"),
        y: int = Field(7, le=9),
        z: list[int] = Field(default_factory=lambda: [3]),  # noqa: B008 - the point of the test
    ) -> None: ...

    schema = loose(f)

    assert properties_of(schema)["x"] == {"type": "integer", "minimum": 1, "description": "at least one"}
    assert schema.params_json_schema["required"] == ["x"]
    assert schema.bind({"x": 1}) == ([1, 7, [3]], {})
    assert refusal(f, {"x": 0}) == "x: Input should be greater than or equal to 1"


def test_a_field_alias_renames_the_property_and_not_the_parameter() -> None:
    def f(*, source: str = Field(alias="from"), **rest: int) -> object:
        return (source, rest)

    assert list(properties_of(loose(f))) == ["from"]
    assert call(f, {"from": "a", "b": 1}) == ("a", {"b": 1})
    assert refusal(f, {"from": "a", "source": 1}) == "source: Unknown argument"


# --------------------------------------------------------------------------------------------------------- types


def test_json_values_become_the_declared_types() -> None:
    identity = uuid.uuid4()

    def f(
        color: Color,
        when: datetime.datetime,
        ident: uuid.UUID,
        pair: tuple[int, str],
        tags: set[str],
        home: Address,
        point: Point,
        movie: Movie,
        price: Decimal,
        mode: Literal["a", "b"],
        counts: dict[int, float],
        maybe: int | None,
    ) -> None: ...

    args, kwargs = loose(f).bind(
        {
            "color": "red",
            "when": "2026-01-02T03:04:05Z",
            "ident": str(identity),
            "pair": [1, "x"],
            "tags": ["a", "a"],
            "home": {"street": "s"},
            "point": {"x": 1},
            "movie": {"title": "t"},
            "price": "1.50",
            "mode": "a",
            "counts": {"1": 2},
            "maybe": None,
        }
    )

    assert args == [
        Color.RED,
        datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        identity,
        (1, "x"),
        {"a"},
        Address(street="s"),
        Point(1),
        {"title": "t"},
        Decimal("1.50"),
        "a",
        {1: 2.0},
        None,
    ]
    assert kwargs == {}


def test_strictly_typed_values_follow_the_rules_of_json_not_those_of_python() -> None:
    def f(when: Annotated[datetime.date, Strict()], pair: Annotated[tuple[int, ...], Strict()]) -> None: ...

    assert loose(f).bind({"when": "2026-01-02", "pair": [1]}) == ([datetime.date(2026, 1, 2), (1,)], {})


def test_unannotated_parameters_take_anything_but_not_in_strict_mode() -> None:
    def f(x, y=None):  # type: ignore[no-untyped-def]
        return (x, y)

    assert properties_of(loose(f)) == {"x": {}, "y": {"default": None}}
    assert call(f, {"x": {"any": [1]}}) == ({"any": [1]}, None)
    with pytest.raises(UserError, match=r"'f', property 'x': .*strict_mode=False"):
        schema_of(f)


def test_a_string_in_annotated_is_the_description() -> None:
    def f(x: Annotated[int, "the x"], y: Annotated[int, Field(description="the y"), "ignored"]) -> None:
        """F.

        Args:
            x: from the docstring
            y: from the docstring
        """

    properties = properties_of(schema_of(f))

    assert properties["x"]["description"] == "the x"
    assert properties["y"]["description"] == "the y"


def test_a_type_that_pydantic_cannot_treat_is_refused_by_the_name_of_its_parameter() -> None:
    def unknown(fine: int, thing: Unknown) -> None: ...
    def function(fine: int, then: Callable[[], int]) -> None: ...
    def misfit(fine: int, word: Annotated[str, Field(pattern="(")]) -> None: ...

    for tool, parameter in ((unknown, "thing"), (function, "then"), (misfit, "word")):
        with pytest.raises(UserError, match=f"cannot make a JSON schema for parameter '{parameter}'") as caught:
            loose(tool)
        assert "errors.pydantic.dev" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_annotation_that_cannot_be_resolved_is_refused_with_advice() -> None:
    def f(fine: int, x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def nested(x: "list[Nowhere]") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def broken(x: "not a type at all") -> None: ...  # type: ignore[valid-type]  # noqa: F722

    for function in (f, nested, broken):
        with pytest.raises(UserError, match=r"type of parameter 'x' cannot be resolved .* at module level"):
            schema_of(function)


def test_an_unresolvable_return_type_does_no_harm() -> None:
    def f(x: "int") -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821

    assert schema_of(f).bind({"x": 1}) == ([1], {})


def test_annotations_as_strings_are_resolved_in_the_module_of_the_function() -> None:
    def f(ctx: "Context[str]", home: "Address | None", n: "Annotated[int, Field(ge=1)]") -> None: ...

    schema = schema_of(f)

    assert schema.takes_context
    assert schema.bind({"home": {"street": "s"}, "n": 1}) == ([Address(street="s"), 1], {})


# ----------------------------------------------------------------------------------------- what is not a function


def test_bound_methods_hide_their_object() -> None:
    greeter = Greeter("hi")

    assert schema_of(greeter.greet).name == "greet"
    assert schema_of(greeter.greet).description == "Greet somebody."
    assert call(greeter.greet, {"name": "Ann"}) == "hi, Ann"
    assert call(Greeter.shout, {"name": "Ann"}) == "ANN"
    assert call(Greeter.whisper, {"name": "Ann"}) == "ann"
    assert call(staticmethod(Greeter.whisper), {"name": "Ann"}) == "ann"
    assert refusal(greeter.collect, {"self": 1}) == "self: Unknown argument"


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(UserError, match="pass the bound method"):
        schema_of(Greeter.greet)


def test_a_callable_object_is_named_and_described_by_its_class() -> None:
    schema = schema_of(Greeter("hi"))

    assert (schema.name, schema.description) == ("Greeter", "Greets people.")
    assert list(properties_of(schema)) == ["name"]


def test_what_a_partial_has_bound_can_be_neither_seen_nor_overridden() -> None:
    def fetch(token: str, url: str, *, retries: int = 1, **rest: int) -> object:
        """Fetch a page."""
        return (token, url, retries, rest)

    by_name = functools.partial(fetch, token="secret", retries=5, depth=3)
    by_position = functools.partial(fetch, "secret")

    schema = loose(by_name)
    assert (schema.name, schema.description) == ("fetch", "Fetch a page.")
    assert list(properties_of(schema)) == ["url"]
    assert call(by_name, {"url": "u"}) == ("secret", "u", 5, {"depth": 3})
    assert list(properties_of(loose(by_position))) == ["url", "retries"]
    assert call(by_position, {"url": "u"}) == ("secret", "u", 1, {})
    for name in ("token", "retries", "depth"):
        assert refusal(by_name, {"url": "u", name: "mine"}) == f"{name}: Unknown argument"
    assert refusal(by_position, {"url": "u", "token": "mine"}) == "token: Unknown argument"


def test_a_decorated_function_is_read_through_its_wrapper() -> None:
    def twice(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> int:
            return 2 * function(*args, **kwargs)

        return wrapper

    @twice
    def f(x: "int", /, *, y: "Annotated[int, 'the y']") -> int:
        """Add."""
        return x + y

    @functools.lru_cache
    def cached(x: int) -> int:
        return x

    assert schema_of(f).description == "Add."
    assert properties_of(schema_of(f))["y"]["description"] == "the y"
    assert call(f, {"x": 1, "y": 2}) == 6
    assert call(cached, {"x": 1}) == 1


def test_annotations_of_a_wrapped_function_are_resolved_where_it_was_written() -> None:
    elsewhere: dict[str, Any] = {"functools": functools}
    program = "def twice(f):\n  @functools.wraps(f)\n  def wrapper(*a, **k): return 2 * f(*a, **k)\n  return wrapper"
    exec(program, elsewhere)  # noqa: S102 - a decorator from a module that does not know Address

    def f(home: "Address") -> int:
        return home.number

    assert call(elsewhere["twice"](f), {"home": {"street": "s", "number": 4}}) == 8


def test_a_static_method_object_is_read_as_its_function() -> None:
    async def f(x: int) -> None: ...

    assert schema_of(staticmethod(f)).is_async


def test_what_cannot_be_a_tool_is_refused_with_advice() -> None:
    def generator():  # type: ignore[no-untyped-def]
        yield 1

    async def async_generator():  # type: ignore[no-untyped-def]
        yield 1

    things: list[tuple[Any, str]] = [
        (Address, "pass a function"),
        (5, "pass a function"),
        (Greeter.__dict__["shout"], "pass a function"),
        (lambda: 1, "pass name_override"),
        (max, "Wrap it in a function"),
        (generator, "it yields"),
        (async_generator, "it yields"),
    ]
    for thing, advice in things:
        with pytest.raises(UserError, match=advice):
            schema_of(thing)
    assert schema_of(lambda: 1, name_override="one").name == "one"


# --------------------------------------------------------------------------------------------------- strict mode


def test_strict_mode_closes_and_requires_every_object_at_every_depth() -> None:
    def f(home: Address, points: list[Point], movie: Movie) -> None: ...

    schema = schema_of(f).params_json_schema
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)

    assert set(definitions) == {"Address", "Point", "Movie"}
    for definition in (schema, *definitions.values()):
        assert definition["additionalProperties"] is False
        assert definition["required"] == list(definition["properties"])
    assert definitions["Address"]["description"] == "Where somebody lives."
    assert definitions["Address"]["properties"]["number"] == {"type": "integer", "description": "(default: 1)"}


def test_strict_mode_tells_in_the_description_what_it_cannot_say_in_keywords() -> None:
    def f(
        *,
        count: int = 5,
        word: Annotated[str, Field(min_length=2, description="A word.")] = "ab",
        tags: set[str],
        link: AnyUrl,
        color: Color = Color.RED,
        nothing: str | None = None,
        long: str = "x" * 500,
    ) -> None: ...

    properties = properties_of(schema_of(f))

    assert properties["count"] == {"type": "integer", "description": "(default: 5)"}
    assert properties["word"] == {
        "type": "string",
        "description": 'A word. (default: "ab", minLength: 2)',
    }
    assert properties["link"] == {"type": "string", "description": '(format: "uri", minLength: 1)'}
    assert properties["tags"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": "(uniqueItems: true)",
    }
    assert properties["color"] == {"anyOf": [{"$ref": "#/$defs/Color"}], "description": '(default: "red")'}
    assert properties["nothing"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["long"] == {"type": "string"}


def test_strict_mode_keeps_the_keywords_that_it_knows() -> None:
    def f(
        n: Annotated[int, Field(ge=1, lt=9, multiple_of=2)],
        items: Annotated[list[int], Field(min_length=1, max_length=3)],
        word: Annotated[str, Field(pattern="^a+$")],
        when: datetime.date,
        mode: Literal["a", "b"],
    ) -> None: ...

    assert properties_of(schema_of(f)) == {
        "n": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
        "items": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        "word": {"type": "string", "pattern": "^a+$"},
        "when": {"type": "string", "format": "date"},
        "mode": {"type": "string", "enum": ["a", "b"]},
    }


def test_strict_mode_leaves_out_the_look_around_patterns_that_it_lacks() -> None:
    looking_around = {"type": "string", "pattern": "^(?!x)"}

    assert strict_schema(looking_around, "T") == {"type": "string", "description": '(pattern: "^(?!x)")'}


def test_strict_mode_says_a_tuple_as_an_array_of_its_members_types() -> None:
    def f(place: tuple[float, float], pair: tuple[int, str, int], many: tuple[int, ...]) -> None: ...

    properties = properties_of(schema_of(f))

    assert properties["place"] == {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    assert properties["pair"]["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties["many"] == {"type": "array", "items": {"type": "integer"}}


def test_strict_mode_says_a_discriminated_union_with_any_of() -> None:
    def f(pet: Annotated[Cat | Dog, Field(discriminator="kind", description="a pet")]) -> None: ...

    assert properties_of(schema_of(f))["pet"] == {
        "anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "description": "a pet",
    }


def test_strict_mode_treats_types_that_contain_themselves() -> None:
    def f(tree: Annotated[Node, Field(description="the root")]) -> None: ...

    schema = schema_of(f)

    assert properties_of(schema)["tree"] == {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "the root"}
    assert "default" not in json.dumps(schema.params_json_schema).replace("(default:", "")
    assert schema.bind({"tree": {"name": "a", "children": [{"name": "b"}]}})[0] == [
        Node(name="a", children=[Node(name="b")])
    ]


def test_strict_mode_refuses_what_it_cannot_express_and_says_where_and_what_to_do() -> None:
    def free_dict(x: dict[str, int]) -> None: ...
    def bare_dict(x: dict) -> None: ...  # type: ignore[type-arg]
    def bare_list(x: list) -> None: ...  # type: ignore[type-arg]
    def anything(x: Any) -> None: ...
    def nested(x: list[dict[str, str]] | None) -> None: ...
    def open_model(x: Open) -> None: ...
    def patterned(x: dict[Annotated[str, Field(pattern="^a")], int]) -> None: ...
    def empty_tuple(x: tuple[()]) -> None: ...

    for function in (free_dict, bare_dict, bare_list, anything, nested, open_model, patterned, empty_tuple):
        with pytest.raises(UserError, match=r"^Tool .*(property 'x'|type 'Open').*strict_mode=False\.$"):
            schema_of(function)
        assert loose(function).params_json_schema["type"] == "object"


def test_strict_mode_refuses_kwargs() -> None:
    def f(**rest: int) -> None: ...

    with pytest.raises(UserError, match=r"\*\*kwargs.*strict_mode=False"):
        schema_of(f)


def test_strict_schema_leaves_its_input_alone() -> None:
    given = Address.model_json_schema()
    before = json.dumps(given)

    strict = strict_schema(given, "Output type 'Address'")

    assert json.dumps(given) == before
    assert strict["required"] == ["street", "number"]


# ------------------------------------------------------------------------------------------------ invalid arguments


def test_each_problem_is_one_line_without_urls_versions_or_inputs() -> None:
    def f(cents: int, home: Address, pairs: list[tuple[int, int]]) -> None: ...

    text = refusal(f, {"cents": "SECRET" * 1000, "home": {"number": []}, "pairs": [[1, 2], [3, "x"]], "extra": 1})

    assert text.splitlines() == [
        "cents: Input should be a valid integer, unable to parse string as an integer",
        "home.street: Field required",
        "home.number: Input should be a valid integer",
        "pairs[1][1]: Input should be a valid integer, unable to parse string as an integer",
        "extra: Unknown argument",
    ]


def test_a_missing_argument_is_named() -> None:
    def f(x: int) -> None: ...

    assert refusal(f, {}) == "x: Field required"


def test_neither_the_message_nor_its_cause_shows_what_was_sent() -> None:
    def f(x: int) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        loose(f).bind({"x": "SECRET"})

    assert "SECRET" not in str(caught.value)
    assert "SECRET" not in str(caught.value.__cause__)


def test_many_and_long_problems_are_cut() -> None:
    def f(numbers: list[int]) -> None: ...

    lines = refusal(f, {"numbers": ["x"] * 100, "y" * 5000: 1}).splitlines()
    name = refusal(f, {"numbers": [], "a\nb" + "y" * 5000: 1})

    assert len(lines) == 21
    assert lines[-1] == "... and 81 more"
    assert name.startswith("a by")
    assert name.endswith("...: Unknown argument")
    assert len(name) < 120


def test_arguments_that_are_no_object_or_no_json_are_refused_as_invalid() -> None:
    def f(x: Any = None, **rest: Any) -> None: ...
    def g(x: Any = None) -> None: ...

    cyclic: list[object] = []
    cyclic.append(cyclic)
    for function in (f, g):
        assert refusal(function, [1]) == "arguments: Input should be an object"
        assert refusal(function, None) == "arguments: Input should be an object"
        for value in ("\ud800", object(), cyclic):
            assert refusal(function, {"x": value}).startswith("arguments: ")


def test_absurdly_deep_arguments_are_refused_and_do_not_crash() -> None:
    def f(x: Any) -> None: ...

    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]

    assert refusal(f, {"x": deep}).startswith("arguments: ")


def test_invalid_arguments_is_a_value_error_and_a_bug_in_a_validator_is_not() -> None:
    class Buggy(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def fails(cls, value: int) -> int:
            raise RuntimeError("a bug")

    def f(x: Annotated[Buggy, "buggy"]) -> None: ...

    assert issubclass(InvalidArguments, ValueError)
    with pytest.raises(RuntimeError, match="a bug"):
        loose(f).bind({"x": {"x": 1}})


def test_any_mapping_may_be_bound_and_its_values_are_not_shared_with_the_function() -> None:
    def f(x: Any) -> None: ...

    recorded = {"x": {"a": [1]}}
    args, _ = loose(f).bind(MappingProxyType(recorded))
    assert isinstance(args[0], dict)
    args[0]["a"].append(2)

    assert recorded == {"x": {"a": [1]}}


def test_numbers_survive_the_way_exactly() -> None:
    def f(x: Any, y: float, z: int) -> None: ...

    assert loose(f).bind({"x": 0.1 + 0.2, "y": 1e-320, "z": 10**60}) == ([0.1 + 0.2, 1e-320, 10**60], {})


def test_binding_a_small_call_takes_microseconds() -> None:
    def f(order: str, cents: int) -> None: ...

    schema = schema_of(f)
    arguments = {"order": "o", "cents": 1}
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(200):
            schema.bind(arguments)
        best = min(best, (time.perf_counter() - started) / 200)

    assert best < 50e-6  # It takes about four; the margin is for slow machines, not for slow code.


# ---------------------------------------------------------------------------------------------------- docstrings

GOOGLE = """Summary line.

    Body of
    two lines.

    Args:
        x (int, optional): The x,
            over two lines.
        y: The y: with a colon.

            And a second paragraph.
        *args: The rest.
        **kw (dict[str, int]): The others.
        stale: No such parameter.

    Returns:
        dict: Something.

    Raises:
        ValueError: If wrong.

    Note:
        Kept.
    """

NUMPY = """Summary line.

    Body of
    two lines.

    Parameters
    ----------
    x : int, optional
        The x,
        over two lines.
    y
        The y: with a colon.

        And a second paragraph.
    *args : int
        The rest.
    **kw
        The others.
    stale : int
        No such parameter.

    Returns
    -------
    dict
        Something.

    Raises
    ------
    ValueError
        If wrong.

    Note:
        Kept.
    """.replace("    Note:\n        Kept.\n", "    Notes\n    -----\n    Kept.\n")

SPHINX = """Summary line.

    Body of
    two lines.

    :param int x: The x,
        over two lines.
    :type x: int, optional
    :param y: The y: with a colon.

        And a second paragraph.
    :param \\*args: The rest.
    :keyword dict[str, int] kw: The others.
    :param stale: No such parameter.
    :returns: Something.
    :rtype: dict
    :raises ValueError: If wrong.

    Note:
        Kept.
    """

KEPT = {"google": "Note:\n    Kept.", "numpy": "Notes\n-----\nKept.", "sphinx": "Note:\n    Kept."}
NAMES = ("x", "y", "args", "kw")


@pytest.mark.parametrize("detected", [True, False])
@pytest.mark.parametrize(("style", "text"), [("google", GOOGLE), ("numpy", NUMPY), ("sphinx", SPHINX)])
def test_the_three_styles_say_the_same(style: Literal["google", "numpy", "sphinx"], text: str, detected: bool) -> None:
    docstring = parse_docstring(text, NAMES, None if detected else style)

    assert docstring.description == f"Summary line.\n\nBody of\ntwo lines.\n\n{KEPT[style]}"
    assert docstring.parameters == {
        "x": "The x,\nover two lines.",
        "y": "The y: with a colon.\n\nAnd a second paragraph.",
        "args": "The rest.",
        "kw": "The others.",
    }


def test_descriptions_of_parameters_reach_the_schema_in_every_style() -> None:
    def google(x: int) -> None:
        """S.

        Args:
            x: the x
        """

    def numpy(x: int) -> None:
        """S.

        Parameters
        ----------
        x : int
            the x
        """

    def sphinx(x: int) -> None:
        """S.

        :param x: the x
        """

    for function in (google, numpy, sphinx):
        schema = schema_of(function)

        assert schema.description == "S."
        assert properties_of(schema) == {"x": {"type": "integer", "description": "the x"}}


def test_the_style_that_is_asked_for_is_the_only_one_read() -> None:
    def f(x: int) -> None:
        """S.

        :param x: the x
        """

    schema = schema_of(f, docstring_style="google")

    assert schema.description == "S.\n\n:param x: the x"
    assert properties_of(schema) == {"x": {"type": "integer"}}


def test_an_unknown_style_is_refused() -> None:
    def f() -> None:
        """S."""

    with pytest.raises(UserError, match="use one of google, numpy, sphinx"):
        schema_of(f, docstring_style="Google")


@pytest.mark.parametrize(
    "text",
    [
        "S.\n\nArgs:\nx: the x\ny: the y\n",
        "S.\n\nArgs:\n  x: the x\n      y: the y\n",
        "S.\n\nArgs:\n        x: the x\n    y: the y\n",
        "S.\n\n  Args:\n    x: the x\n    y: the y\n",
        "S.\n\nArgs:\n\tx: the x\n\ty: the y\n",
        "S.\nArgs:\n\n    x: the x\n\n    y: the y",
        "S.\n\nArguments :\n    `x`: the x\n    ``y`` (int): the y\n",
        "S.\n\nParameters\n----------\nx : int\nthe x\ny : int\nthe y\n",
        "S.\n\nParameters\n---\n    x: int\n        the x\n    y: int\n        the y\n",
        "S.\n\nParameters:\n-----------\nx\n  the x\ny\n     the y\n",
        "S.\n:param x: the x\n:param y: the y",
        "S.\n\n    :param x:\n        the x\n    :arg  int  y : the y",
        ":param x: the x\n:param y:\nthe y\n\nS.",
    ],
)
def test_odd_indentation_is_understood(text: str) -> None:
    assert parse_docstring(text, ["x", "y"]) == Docstring("S.", {"x": "the x", "y": "the y"})


def test_several_parameters_of_numpy_style_may_share_a_description() -> None:
    docstring = parse_docstring("S.\n\nParameters\n----------\nx, y : int\n    both\n", ["x", "y"])

    assert docstring.parameters == {"x": "both", "y": "both"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One line.",
        "Args are explained elsewhere: see there.",
        "Note: x: is not a section.",
        "Heading\n=======\n\nText.",
        "Example::\n\n    x: 1\n    y: 2\n\nEnd.",
        "Returns: the sum, on the same line.",
        "Ends with an underline\n---",
        "---\n---\n---",
        ":param\n:param :\n:weird field: text",
    ],
)
def test_text_without_sections_is_left_as_it_is(text: str) -> None:
    assert parse_docstring(text, ["x", "y"]) == Docstring(text, {})


@pytest.mark.parametrize(
    "text", ["Args:", "Args:\n\n", "Parameters\n----------", "Parameters\n----------\n\n", ":param x:"]
)
def test_an_empty_section_describes_nothing(text: str) -> None:
    assert parse_docstring(text, ["x"]) == Docstring("", {})


def test_an_unindented_paragraph_after_an_empty_section_stays_in_the_body() -> None:
    assert parse_docstring("S.\n\nArgs:\n\nMore text.", ["x"]).description == "S.\n\nMore text."


def test_indented_code_in_the_body_keeps_its_indentation() -> None:
    text = "S.\n\n    code\n        more\n\nArgs:\n    x: the x"

    assert parse_docstring(text, ["x"]).description == "S.\n\n    code\n        more"
