"""Turns a Python function into what a tool needs: a name, a description, a JSON schema, and a way to call it.

The parameters become the fields of a generated pydantic model. Fields are called p0, p1, ... and carry the parameters'
names as aliases, since a parameter may have a name that a model reserves (`schema`, `copy`, `_private`).
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args, get_origin, get_type_hints

import msgspec

from placet.declare.tool_values import Choice, InvalidArguments, ValidatedArguments, as_json, choose, equal, in_order
from placet.facts.codec import Json, JsonObject, same_value
from placet.facts.errors import UserError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema

    from placet.declare.docstrings import DocstringStyle

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_GATHERING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MAX_REPORTED_ERRORS = 20
_MAX_LOCATION_CHARS = 80
_MAX_MESSAGE_CHARS = 300


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    name: str
    description: str
    params_json_schema: dict[str, object]
    takes_context: bool
    """The first parameter is the run's context: the caller passes it, `bind` and the schema leave it out."""
    is_async: bool
    _call_form: _CallForm = field(repr=False, compare=False)

    def bind(self, arguments: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Validated values as `(args, kwargs)`. Raises `InvalidArguments`."""
        args, kwargs = self._call_form.validated(arguments).bound
        return args, kwargs

    @property
    def validate(self) -> Callable[[JsonObject], ValidatedArguments]:
        """Gives the values as JSON, and as `bind` gives them. Raises `InvalidArguments`."""
        return self._call_form.validated


def function_schema(
    function: Callable[..., object],
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: DocstringStyle | None = None,
    use_docstring_info: bool = True,
    strict_json_schema: bool = True,
    is_context_type: Callable[[object], bool],
) -> FunctionSchema:
    """Raises `UserError` if the function, one of its annotations or (in strict mode) a type cannot be a tool's."""
    from placet.declare.docstrings import parse_docstring  # its patterns take a millisecond to compile

    code = _code_of(function)
    name = name_override or _name_of(function, code)
    signature = _signature(function, name)
    text = (code.__doc__ or _class_doc(function)) if use_docstring_info else ""
    docstring = parse_docstring(text, signature.parameters, docstring_style)
    exposed = _exposed_parameters(signature, function, code, name)
    takes_context = _takes_context(exposed, is_context_type, name)
    parameters = exposed[1:] if takes_context else exposed
    model, params_json_schema = _modelled(parameters, docstring.parameters, name)
    properties = _property_names(params_json_schema)
    call_form = _call_form_of(parameters, model, properties, _hidden_names(function, code) - properties)
    if strict_json_schema:
        params_json_schema = strict_schema(params_json_schema, f"Tool {name!r}")
    return FunctionSchema(
        name=name,
        description=docstring.description if description_override is None else description_override,
        params_json_schema=params_json_schema,
        takes_context=takes_context,
        is_async=inspect.iscoroutinefunction(code),
        _call_form=call_form,
    )


# ------------------------------------------------------------------------------------- what the function declares


class _Parameter(msgspec.Struct, frozen=True):
    name: str
    kind: inspect._ParameterKind
    annotation: object
    """Resolved, without its `Annotated` wrapping."""
    metadata: tuple[object, ...]
    default: object


def _code_of(function: object) -> Callable[..., object]:
    """The function that holds annotations, docstring and body, below partials, bound methods and callable objects."""
    if isinstance(function, functools.partial):
        return _code_of(function.func)
    if isinstance(function, MethodType | staticmethod):
        return _code_of(function.__func__)
    if inspect.isclass(function) or not callable(function):
        raise UserError(f"{function!r} cannot be a tool: pass a function, a bound method or a callable object.")
    if not hasattr(function, "__name__"):
        return _code_of(type(function).__call__)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UserError(f"{function!r} cannot be a tool, since it yields: return the whole result instead.")
    return function


def _name_of(function: object, code: Callable[..., object]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    if not name.isidentifier():
        raise UserError(f"{code!r} has no name that a model could call it by: pass name_override.")
    return str(name)


def _class_doc(function: object) -> str:
    """A callable object is often documented on its class, not on `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return "" if hasattr(function, "__name__") else type(function).__doc__ or ""


def _signature(function: Callable[..., object], tool: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise UserError(f"Tool {tool!r}: Python knows no signature of it ({error}). Wrap it in a function.") from error
    except NameError as error:  # From Python 3.14 on, annotations are evaluated here.
        raise UserError(f"Tool {tool!r}: {_unresolved('an annotation', error)}") from error


def _exposed_parameters(
    signature: inspect.Signature, function: object, code: Callable[..., object], tool: str
) -> list[_Parameter]:
    declared = [p for p in signature.parameters.values() if p.name not in _bound_keywords(function)]
    if declared and declared[0].name in ("self", "cls") and declared[0].annotation is inspect.Parameter.empty:
        raise UserError(f"Tool {tool!r} is a method without its object: pass the bound method (`instance.method`).")
    namespace = getattr(inspect.unwrap(code), "__globals__", {})
    return [_resolved(parameter, namespace, tool) for parameter in declared]


def _bound_keywords(function: object) -> Mapping[str, object]:
    """What a partial has bound is the programmer's choice, often a secret: the model neither sees nor overrides it."""
    return function.keywords if isinstance(function, functools.partial) else {}


def _resolved(parameter: inspect.Parameter, namespace: dict[str, object], tool: str) -> _Parameter:
    def holder() -> None: ...

    written = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
    # One at a time, so that the error can name the parameter and an unresolvable return type does no harm.
    holder.__annotations__ = {parameter.name: written}
    try:
        annotation = get_type_hints(holder, globalns=namespace, include_extras=True)[parameter.name]
    except Exception as error:  # A string annotation is an expression: it may raise anything.
        raise UserError(f"Tool {tool!r}: {_unresolved(f'parameter {parameter.name!r}', error)}") from error
    if get_origin(annotation) is Unpack:
        raise UserError(f"Tool {tool!r}: Unpack on parameter {parameter.name!r} is not supported: declare its parts.")
    inner, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    return _Parameter(parameter.name, parameter.kind, inner, tuple(metadata), parameter.default)


def _unresolved(what: str, error: Exception) -> str:
    return (
        f"the type of {what} cannot be resolved ({error}). Define or import it at module level, "
        "not inside a function and not only under TYPE_CHECKING."
    )


def _takes_context(parameters: Sequence[_Parameter], is_context_type: Callable[[object], bool], tool: str) -> bool:
    contexts = [i for i, parameter in enumerate(parameters) if is_context_type(parameter.annotation)]
    if not contexts:
        return False
    context = parameters[contexts[-1]]
    if contexts != [0] or context.kind not in _BY_POSITION:
        raise UserError(f"Tool {tool!r}: the context {context.name!r} must be the first, positional parameter.")
    return True


def _hidden_names(function: object, code: Callable[..., object]) -> frozenset[str]:
    """Names that only properties may use: as part of `**kwargs`, each would reach a parameter behind our back.

    The context, `self`, a bound argument, or a parameter whose property has another name.
    """
    declared = {p.name for p in inspect.signature(code).parameters.values() if p.kind in _BY_NAME}
    return frozenset(declared.union(_bound_keywords(function)))


# ------------------------------------------------------------------------------------------ the model behind it


def _modelled(
    parameters: Sequence[_Parameter], described: Mapping[str, str], tool: str
) -> tuple[type[BaseModel], dict[str, object]]:
    try:
        return _model_and_schema(parameters, described)
    except Exception as error:  # Of many kinds: an unknown class, a constraint that does not fit, a bad pattern.
        # pydantic names only the type: find the parameter.
        culprit = next((p for p in parameters if _fails_alone(p)), None)
        what = f"parameter {culprit.name!r}" if culprit else "its parameters"
        why = _one_line(getattr(error, "message", str(error)), _MAX_MESSAGE_CHARS)
        raise UserError(f"Tool {tool!r}: pydantic cannot make a JSON schema for {what}: {why}") from error


def _fails_alone(parameter: _Parameter) -> bool:
    try:
        _model_and_schema([parameter], {})
    except Exception:  # noqa: BLE001 - the question is only whether; _modelled reports the error
        return True
    return False


def _model_and_schema(
    parameters: Sequence[_Parameter], described: Mapping[str, str]
) -> tuple[type[BaseModel], dict[str, object]]:
    from pydantic import ConfigDict, create_model

    # Inputs are hidden: what the model sent may hold secrets, and a chained traceback would print them.
    config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    fields: dict[str, Any] = {f"p{i}": _field_of(p, described.get(p.name)) for i, p in enumerate(parameters)}
    model = create_model("Arguments", __config__=config, **fields)
    schema = model.model_json_schema(schema_generator=_schema_generator())
    schema.pop("title", None)
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            schema["additionalProperties"] = schema["properties"].pop(parameter.name)["additionalProperties"]
    return model, schema


def _field_of(parameter: _Parameter, documented: str | None) -> tuple[object, object]:
    from pydantic import Field

    annotated: Any = Annotated
    annotation: Any = parameter.annotation
    metadata = parameter.metadata
    if parameter.kind in _GATHERING:
        # What the author says about `*args: Annotated[int, ...]` is said about each of them.
        each: Any = annotated[(annotation, *metadata)] if metadata else annotation
        annotation = list[each] if parameter.kind is inspect.Parameter.VAR_POSITIONAL else dict[str, each]
        metadata = ()
    elif parameter.default is None and annotation is not Any:
        annotation = annotation | None  # `x: int = None`: where every property must be sent, null must be sendable.
    description = next((extra for extra in parameter.metadata if isinstance(extra, str)), documented)
    # pydantic lets the last one win: what the author wrote in a Field comes after what we derived.
    derived = Field(alias=parameter.name, description=description)
    return annotated[(annotation, derived, *metadata)], _default_of(parameter)


def _default_of(parameter: _Parameter) -> object:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    if parameter.kind in _GATHERING:
        return Field(default_factory=list if parameter.kind is inspect.Parameter.VAR_POSITIONAL else dict)
    if isinstance(parameter.default, FieldInfo):
        return parameter.default
    if parameter.default is inspect.Parameter.empty:
        return Field()
    if parameter.default is ...:  # pydantic would read the ellipsis as «required»
        return Field(default_factory=lambda: ...)
    return Field(default=parameter.default)


def _property_names(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(schema["properties"])


@functools.cache
def _schema_generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema

    # A field's title («Max Rows» beside `max_rows`) tells a model nothing and costs tokens.
    quiet = {
        "field_title_should_be_set": lambda self, schema: False,
        "ignored_warning_kinds": {"skipped-choice", "non-serializable-default"},
    }
    return type("WithoutNoise", (GenerateJsonSchema,), quiet)


# ------------------------------------------------------------------------------------------------------- calling it


class _CallForm(msgspec.Struct, frozen=True):
    validate: Callable[[bytes], BaseModel]
    dump: Callable[..., dict[str, Any]]
    dump_text: Callable[..., bytes]
    to_json: Callable[[object], bytes]
    fields: tuple[tuple[str, str], ...]
    """The model's fields, with the names of their parameters."""
    positional: tuple[str, ...]
    """Fields of the model, as are the next three."""
    var_positional: str | None
    keyword: tuple[tuple[str, str], ...]
    var_keyword: str | None
    var_keyword_name: str
    properties: frozenset[str]
    hidden_names: frozenset[str]

    def validated(self, arguments: Mapping[str, object]) -> ValidatedArguments:
        if not isinstance(arguments, dict):
            if not isinstance(arguments, Mapping):
                raise InvalidArguments("arguments: Input should be an object")
            arguments = dict(arguments)
        sent = arguments if self.var_keyword is None else self._with_rest_gathered(arguments)
        model, text = self._read(sent)
        bound = self._bound(model.__dict__)  # made now: the function owns these, and what is shown is a copy
        try:
            # Most models write what was asked for, in its order: then nothing was changed. Any other text, such as the
            # same values in another order, is looked at parameter by parameter.
            if self.dump_text(model, by_alias=True, round_trip=True, warnings=False) == text:
                return ValidatedArguments(arguments, bound)
        except (TypeError, ValueError):  # a value that JSON does not have
            pass
        values, opaque = self._values(sent, model)
        return ValidatedArguments(arguments if same_value(arguments, values) else values, bound, opaque)

    def _read(self, sent: Mapping[str, object]) -> tuple[BaseModel, bytes]:
        try:
            # Through JSON text, because only there pydantic applies JSON's rules (a strict date may be a string),
            # and because the function then owns its values: changing them does not change what was recorded.
            text = self.to_json(sent)
            return self.validate(text), text
        except ValueError as error:
            raise InvalidArguments(_explained(error, self.var_keyword_name)) from error

    def _bound(self, values: Mapping[str, Any]) -> tuple[list[object], dict[str, object]]:
        args: list[object] = list(map(values.__getitem__, self.positional))
        kwargs = {name: values[field_name] for field_name, name in self.keyword} if self.keyword else {}
        if self.var_positional is not None:
            args.extend(values[self.var_positional])
        if self.var_keyword is not None:
            kwargs.update(values[self.var_keyword])
        return args, kwargs

    def _values(self, sent: Mapping[str, object], model: BaseModel) -> tuple[JsonObject, tuple[str, ...]]:
        """Parameter by parameter: as it was written, as validation made it, or, where JSON cannot tell, as written."""
        values: JsonObject = {}
        opaque: list[str] = []
        for field_name, name in self.fields:
            chosen = self._choice(sent, model, field_name, name)
            if chosen.is_opaque:
                opaque.append(name)
            if name == self.var_keyword_name and isinstance(chosen.value, dict):
                values.update(chosen.value)
            elif chosen.value is not msgspec.UNSET:
                values[name] = chosen.value
        other_names = [name for name in sent if name not in values and name != self.var_keyword_name]
        return {**values, **{name: sent[name] for name in other_names}}, (*opaque, *other_names)

    def _choice(self, sent: Mapping[str, object], model: BaseModel, field_name: str, name: str) -> Choice:
        value = model.__dict__[field_name]

        def comes_back(dumped: Json) -> bool:
            try:
                again = self.validate(self.to_json({**sent, name: dumped}))
            except Exception:  # noqa: BLE001  # whatever a validator raises: it does not take its own result
                return False
            return equal(again.__dict__[field_name], value)

        return choose(name, sent.get(name, msgspec.UNSET), self._dumped(model, field_name, value), comes_back)

    def _dumped(self, model: BaseModel, field_name: str, value: object) -> Json | msgspec.UnsetType:
        try:
            found = self.dump(model, mode="json", by_alias=True, round_trip=True, warnings=False, include={field_name})
            (dumped,) = found.values()
            return as_json(in_order(value, dumped))
        except (TypeError, ValueError):  # it is left out, or JSON does not have it
            return msgspec.UNSET

    def _with_rest_gathered(self, arguments: Mapping[str, object]) -> dict[str, object]:
        refused = self.hidden_names & arguments.keys()
        if refused:
            raise InvalidArguments("\n".join(f"{name}: {_UNKNOWN}" for name in sorted(refused)))
        sent = {name: value for name, value in arguments.items() if name in self.properties}
        sent[self.var_keyword_name] = {n: value for n, value in arguments.items() if n not in self.properties}
        return sent


def _call_form_of(
    parameters: Sequence[_Parameter],
    model: type[BaseModel],
    properties: frozenset[str],
    hidden_names: frozenset[str],
) -> _CallForm:
    from pydantic_core import to_json

    fields: dict[inspect._ParameterKind, list[tuple[str, str]]] = {kind: [] for kind in inspect._ParameterKind}
    for i, parameter in enumerate(parameters):
        fields[parameter.kind].append((f"p{i}", parameter.name))
    by_position = fields[inspect.Parameter.POSITIONAL_ONLY] + fields[inspect.Parameter.POSITIONAL_OR_KEYWORD]
    var_positional = next(iter(fields[inspect.Parameter.VAR_POSITIONAL]), (None, ""))
    var_keyword = next(iter(fields[inspect.Parameter.VAR_KEYWORD]), (None, ""))
    return _CallForm(
        validate=model.__pydantic_validator__.validate_json,
        dump=model.__pydantic_serializer__.to_python,
        dump_text=model.__pydantic_serializer__.to_json,
        to_json=to_json,
        fields=tuple((f"p{i}", _sent_name(model, i, parameter.name)) for i, parameter in enumerate(parameters)),
        positional=tuple(field_name for field_name, _ in by_position),
        var_positional=var_positional[0],
        keyword=tuple(fields[inspect.Parameter.KEYWORD_ONLY]),
        var_keyword=var_keyword[0],
        var_keyword_name=var_keyword[1],
        properties=properties,
        hidden_names=hidden_names,
    )


def _sent_name(model: type[BaseModel], place: int, name: str) -> str:
    """The name under which a model sends the parameter: its own, unless the author gave it another."""
    alias = model.model_fields[f"p{place}"].validation_alias
    return alias if isinstance(alias, str) else name


_UNKNOWN = "Unknown argument"


def _explained(error: ValueError, var_keyword_name: str) -> str:
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        return f"arguments: {_one_line(str(error), _MAX_MESSAGE_CHARS)}"
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = []
    for problem in problems[:_MAX_REPORTED_ERRORS]:
        location = problem["loc"]
        if var_keyword_name and location[:1] == (var_keyword_name,):
            location = location[1:]
        message = _UNKNOWN if problem["type"] == "extra_forbidden" else _one_line(problem["msg"], _MAX_MESSAGE_CHARS)
        lines.append(f"{_one_line(_path(location), _MAX_LOCATION_CHARS)}: {message}")
    if len(problems) > _MAX_REPORTED_ERRORS:
        lines.append(f"... and {len(problems) - _MAX_REPORTED_ERRORS} more")
    return "\n".join(lines)


def _path(location: Sequence[int | str]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "arguments"


def _one_line(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


# ------------------------------------------------------------------------------------------------------ strict mode

_UNSUPPORTED_KEYWORDS = frozenset(
    {"default", "discriminator", "examples", "minLength", "maxLength", "uniqueItems", "contains"}
)
_SUPPORTED_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_LOOKAROUNDS = ("(?=", "(?!", "(?<")
_MAX_HINT_CHARS = 100


def strict_schema(schema: Mapping[str, Any], where: str) -> dict[str, object]:
    """The same schema within what OpenAI's strict mode accepts. Raises `UserError` that begins with `where`.

    Keywords that strict mode lacks move into the description: pydantic still enforces them, the model still reads them.
    """
    strict = _with_hints(schema)
    definitions = strict.pop("$defs", {})
    _choose_by_any_of(strict)
    if "anyOf" in strict:
        strict["anyOf"] = [strict_schema(choice, where) for choice in strict["anyOf"]]
    elif strict.get("type") == "object":
        _close_object(strict, where)
    elif strict.get("type") == "array":
        strict["items"] = strict_schema(_items(strict), f"{where}, each item")
    elif not strict.keys() & {"type", "$ref", "enum", "const"}:
        raise _inexpressible(where, "any value is allowed there")
    if definitions:
        strict["$defs"] = {name: strict_schema(d, f"{where}, type {name!r}") for name, d in definitions.items()}
    return strict


def _choose_by_any_of(strict: dict[str, Any]) -> None:
    """Strict mode knows one way to say «one of these»."""
    for several in ("oneOf", "allOf"):
        if several in strict and (several == "oneOf" or len(strict[several]) == 1):
            strict["anyOf"] = strict.pop(several)
    if "$ref" in strict and len(strict) > 1:
        strict["anyOf"] = [{"$ref": strict.pop("$ref")}]  # `$ref` tolerates no neighbours, `anyOf` does.


def _close_object(strict: dict[str, Any], where: str) -> None:
    if strict.get("additionalProperties", False) is not False or "patternProperties" in strict:
        raise _inexpressible(where, "a dictionary with free keys (or **kwargs) is allowed there")
    properties = {n: strict_schema(p, f"{where}, property {n!r}") for n, p in strict.get("properties", {}).items()}
    strict.update(properties=properties, required=list(properties), additionalProperties=False)


def _items(strict: dict[str, Any]) -> Mapping[str, Any]:
    """Of a tuple: any of its members' types at every place. `bind` checks the places."""
    members: list[Mapping[str, Any]] = strict.pop("prefixItems", [])
    if not members:
        items = strict.get("items", {})
        return items if isinstance(items, Mapping) else {}
    distinct = [member for i, member in enumerate(members) if member not in members[:i]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _with_hints(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept, hints = {}, []
    for keyword, value in schema.items():
        if not _is_unsupported(keyword, value):
            kept[keyword] = value
        elif value is not None and keyword != "discriminator":
            hints.append(f"{keyword}: {json.dumps(value, ensure_ascii=False)}")
    hint = ", ".join(hint for hint in hints if len(hint) <= _MAX_HINT_CHARS)
    if hint:
        kept["description"] = f"{kept.get('description', '')} ({hint})".lstrip()
    return kept


def _is_unsupported(keyword: str, value: object) -> bool:
    if keyword == "format":
        return value not in _SUPPORTED_FORMATS
    if keyword == "pattern":
        return any(lookaround in str(value) for lookaround in _LOOKAROUNDS)
    return keyword in _UNSUPPORTED_KEYWORDS


def _inexpressible(where: str, reason: str) -> UserError:
    return UserError(
        f"{where}: a strict schema cannot say this, since {reason}. "
        "Give it a precise type (a pydantic model, a dataclass, a TypedDict, ...), or pass strict_mode=False."
    )
