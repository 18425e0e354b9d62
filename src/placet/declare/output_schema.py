"""How a final output is asked for and read, where a type alone does not say it: a schema of one's own, or one that is
not strict."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

from placet.declare.tool_schema import strict_schema
from placet.facts.codec import JsonObject, encode, parse_arguments
from placet.facts.errors import ModelBehaviorError, UserError

_WRAPPED = "response"


class OutputSchema(ABC):
    """`Agent(output_type=…)` takes one of these in the place of a type."""

    @abstractmethod
    def is_plain_text(self) -> bool:
        """Whether the output is text as the model gives it."""

    @abstractmethod
    def name(self) -> str:
        """What the output is called."""

    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema that the model reads."""

    @abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Whether the provider may hold the model to it: only some schemas can be said so."""

    @abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """The output of the model's text; raises what is wrong with it."""


class TypedOutputSchema(OutputSchema):
    """The schema of a type that pydantic knows, strict by default."""

    def __init__(self, output_type: type[Any], strict_json_schema: bool = True) -> None:
        self.output_type = output_type
        self._is_strict = strict_json_schema
        if self.is_plain_text():
            self._schema: JsonObject = {}
            return
        schema = self._adapter.json_schema()
        self._is_wrapped = schema.get("type") != "object" and "$ref" not in schema
        if self._is_wrapped:
            schema = _in_an_object(schema)
        self._schema = self._as_strict(schema) if strict_json_schema else schema

    def _as_strict(self, schema: JsonObject) -> JsonObject:
        try:
            return strict_schema(schema, f"output_type {self.name()}")
        except UserError as error:
            raise UserError(f"{error} Or make it AgentOutputSchema(…, strict_json_schema=False).") from error

    @functools.cached_property
    def _adapter(self) -> Any:  # Any: pydantic's TypeAdapter, imported when it is used
        import pydantic

        return pydantic.TypeAdapter(self.output_type)

    def is_plain_text(self) -> bool:
        return self.output_type in (None, str)

    def is_strict_json_schema(self) -> bool:
        return self._is_strict

    def json_schema(self) -> dict[str, Any]:
        if self.is_plain_text():
            raise UserError("An output that is plain text has no JSON schema.")
        return self._schema

    def validate_json(self, json_str: str) -> Any:
        import pydantic

        text: str | bytes = json_str
        found = parse_arguments(json_str) if self._is_wrapped else None
        if found is not None:
            if _WRAPPED not in found:
                raise ModelBehaviorError(f"The output lacks the key '{_WRAPPED}' that {self.name()} is asked for in.")
            text = encode(found[_WRAPPED])
        try:
            return self._adapter.validate_json(text)
        except pydantic.ValidationError as error:
            raise ModelBehaviorError(f"Invalid JSON when parsing {json_str} for {self.name()}; {error}") from error

    def name(self) -> str:
        return getattr(self.output_type, "__name__", None) or str(self.output_type)


def _in_an_object(schema: JsonObject) -> JsonObject:
    """Providers want an object: another type is put into one, as its only field."""
    definitions = schema.pop("$defs", None)
    return {
        "type": "object",
        "properties": {_WRAPPED: schema},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }
