"""What comes out: tool results as the model reads them, and the final output as the caller wants it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from placet.core.calls import HOSTED_MCP
from placet.core.state import Call
from placet.declare.context import ToolContext
from placet.declare.output_schema import OutputSchema
from placet.declare.run_config import ToolErrorFormatterArgs
from placet.declare.tool import default_tool_error_function, text_of_error
from placet.declare.tool_outputs import content_of, is_content
from placet.facts.codec import Json, encode, plain_str, writable
from placet.facts.errors import PlacetError, ToolError, ToolOutputError, ToolRaised, ToolTimeoutError, UserError
from placet.runtime.frame import Frame, Job, awaited

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def as_tool_output(tool_name: str, value: object, limit: int) -> Json:
    """What a tool returned as the model reads it: text and content parts as they are, everything else as JSON text."""
    try:
        output, size = _converted(_read_out(value, limit))
    except _TooMuch:
        raise ToolOutputError(
            f"Tool '{tool_name}' ran, and its output is larger than the limit of {limit} bytes: "
            "it gave an iterator that goes on."
        ) from None
    except Exception as error:  # whatever a foreign object's conversion raises: the effect has happened
        raise ToolOutputError(
            f"Tool '{tool_name}' ran, but what it returned (a {type(value).__name__}) cannot be turned into JSON: "
            "return a text, plain data, a dataclass or a pydantic model."
        ) from error
    if size > limit:
        raise ToolOutputError(f"Tool '{tool_name}' ran, and its output is larger than the limit of {limit} bytes.")
    return output


async def failure_text(
    job: Job, ctx: ToolContext[Any], raised: Exception | SystemExit
) -> tuple[str, BaseException | None]:
    """What the model reads of a failed call, and the error that ends the drive, if the tool wants that."""
    error = _as_failure(job, raised)
    describe = job.tool.failure_error_function
    if isinstance(error, ToolTimeoutError) and job.tool.timeout is not None:
        raises = job.tool.timeout_behavior == "raise_exception"
        describe = None if raises else job.tool.timeout_error_function or describe
    failure: Exception
    if describe is not None:
        try:
            return writable(str(await awaited(describe(ctx, error)))), None
        except Exception as second:  # noqa: BLE001  # recorded first, raised then
            failure = ToolError(f"The failure_error_function of tool '{job.tool.name}' raised {type(second).__name__}.")
            failure.__cause__ = second
            return writable(default_tool_error_function(ctx, error)), failure
    return writable(default_tool_error_function(ctx, error)), as_raised(job, error)


def as_raised(job: Job, error: Exception) -> PlacetError:
    """The error of a tool function, or of a hook around it, as it ends the drive."""
    if isinstance(error, PlacetError):
        return error
    failure = ToolRaised(f"Error running tool '{job.tool.name}': {text_of_error(error)}")
    failure.__cause__ = error
    return failure


def _as_failure(job: Job, raised: Exception | SystemExit) -> Exception:
    """A tool function that wants the process to end gets its own end, and nobody else's."""
    if isinstance(raised, Exception):
        return raised
    failure = ToolError(f"Tool '{job.tool.name}' called sys.exit({raised.code!r}).")
    failure.__cause__ = raised
    return failure


async def formatted(
    frame: Frame, kind: Literal["approval_rejected", "tool_not_found"], call: Call, default: str
) -> str:
    """What a model reads of a call that was not carried out: the formatter's text, or the usual one."""
    formatter = frame.config.tool_error_formatter
    if formatter is None:
        return default
    await frame.journal.commit()  # user code may take forever
    tool = call.native_kind or ("function" if call.server is None else HOSTED_MCP)
    args = ToolErrorFormatterArgs(kind, tool, call.name, call.label, default, frame.context)
    text = await awaited(formatter(args))
    if text is not None and not isinstance(text, str):
        raise UserError(f"tool_error_formatter gives back a text or None, not a {type(text).__name__}.")
    return default if text is None else writable(text)


class _TooMuch(Exception):
    """An iterator gave more than any output may hold."""


def _read_out(value: object, limit: int, depth: int = 0) -> object:
    """The value with the iterators in it read: they may never end, so not further than an output may go."""
    if isinstance(value, str) or depth > _DEEPEST:
        return value
    if isinstance(value, Iterator):
        return _read(value, limit, depth)
    if type(value) is dict:
        return {key: _read_out(each, limit, depth + 1) for key, each in value.items()}
    if type(value) is list or type(value) is tuple:
        return [_read_out(each, limit, depth + 1) for each in value]
    return value


def _read(given: Iterator[object], limit: int, depth: int) -> list[object]:
    found: list[object] = []
    size = 0
    for each in given:
        read = _read_out(each, limit, depth + 1)
        size += len(encode(_jsonable(read))) + 1
        if size > limit:
            raise _TooMuch
        found.append(read)
    return found


_DEEPEST = 50


def as_answer(value: Json) -> Json:
    """What a person answered in a tool's place. No provider takes a list that is no content: it gets its text."""
    return value if not isinstance(value, list) or is_content(value) else encode(value).decode()


def _converted(value: object) -> tuple[Json, int]:
    if isinstance(value, str):
        text = value if type(value) is str else plain_str(value)
        return text, len(text) if text.isascii() else len(text.encode())
    content = content_of(value)
    if content is not None:
        return content, len(encode(content))
    found = _jsonable(value)
    data = encode(found)
    return (found if is_content(found) else data.decode()), len(data)


def _jsonable(value: object) -> Json:
    import pydantic_core

    return pydantic_core.to_jsonable_python(value)


def parse_final(output_type: type[Any] | OutputSchema | None, text: str) -> tuple[Any, str | None]:
    """The final output as its type, and what is wrong with it (or None)."""
    if output_type is None or output_type is str:
        return text, None
    if isinstance(output_type, OutputSchema):
        return _parsed_by(output_type, text)
    import pydantic

    try:
        return _adapter(output_type).validate_json(_unwrapped(output_type, text)), None  # type: ignore[arg-type]  # types are hashable
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        return None, f"it is not the JSON that the agent's output_type asks for ({where}: {first['msg']})"


def _parsed_by(schema: OutputSchema, text: str) -> tuple[Any, str | None]:
    """As the user's own schema reads it: whatever it raises says what is wrong."""
    if schema.is_plain_text():
        return text, None
    try:
        return schema.validate_json(text), None
    except Exception as error:  # noqa: BLE001  # user code: its words go to the caller with the error of the run
        return None, f"it is not the JSON that the agent's output_type asks for ({error})"


def output_schema(output_type: type[Any] | OutputSchema | None) -> Mapping[str, object] | None:
    """What a model is asked for. Providers want an object: another type is put into one, as its only field."""
    if output_type is None or output_type is str:
        return None
    if isinstance(output_type, OutputSchema):
        return None if output_type.is_plain_text() else output_type.json_schema()
    schema = _adapter(output_type).json_schema()  # type: ignore[arg-type]  # types are hashable
    if not _must_be_wrapped(output_type):
        return schema
    definitions = schema.pop("$defs", None)
    return {
        "type": "object",
        "properties": {_WRAPPED: schema},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }


_WRAPPED = "response"


def _must_be_wrapped(output_type: Any) -> bool:
    schema = _adapter(output_type).json_schema()
    return schema.get("type") != "object" and "$ref" not in schema


def _unwrapped(output_type: Any, text: str) -> str | bytes:
    """The JSON without the object that it was asked for in; a model that left that out is not blamed."""
    if not _must_be_wrapped(output_type):
        return text
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return encode(found[_WRAPPED]) if isinstance(found, dict) and set(found) == {_WRAPPED} else text


@functools.lru_cache(maxsize=256)
def _adapter(output_type: Any) -> TypeAdapter[Any]:  # Any: whatever pydantic takes for a type
    import pydantic

    return pydantic.TypeAdapter(output_type)
