"""What somebody decides about a waiting call: as a value, as it is written in an option, and as it is carried out."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from placet import RunState, ToolApprovalItem
from placet.cli.exit_codes import UsageError
from placet.facts.codec import JsonObject


@dataclass(frozen=True, slots=True)
class Approve:
    pass


@dataclass(frozen=True, slots=True)
class Reject:
    message: str | None = None
    """What the model reads; None: that the call was not approved."""


@dataclass(frozen=True, slots=True)
class Edit:
    changes: JsonObject
    """The arguments that are to be other than the model wrote them."""


@dataclass(frozen=True, slots=True)
class Respond:
    output: str


Decision: TypeAlias = Approve | Reject | Edit | Respond


def decide(state: RunState[None], item: ToolApprovalItem, arguments: JsonObject, decision: Decision, by: str) -> None:
    """Note the decision on the state. An edit that does not fit the tool raises UserError and changes nothing."""
    match decision:
        case Approve():
            state.approve(item, by=by)
        case Reject(message):
            state.reject(item, rejection_message=message, by=by)
        case Edit(changes):
            state.approve(item, arguments={**arguments, **changes}, by=by)
        case Respond(output):
            state.respond(item, output, by=by)
        case never:
            assert_never(never)


# -- as written in an option -----------------------------------------------------------------------------------------

_SEPARATOR = re.compile(r",(?=\s*\d+\s*=)")  # a comma inside a message or an object is not followed by «2=»
_SPEC = re.compile(r"\s*(?P<number>\d+)\s*=\s*(?P<verb>[a-z]+)\s*(?::(?P<rest>.*))?", re.DOTALL)

WRITTEN = "1=approve,2=reject:MESSAGE,3=edit:NAME=VALUE,4=respond:ANSWER"


@dataclass(frozen=True, slots=True)
class Spec:
    """One decision as it was written: what it means depends on the call's arguments, if it is an edit."""

    number: int
    verb: str
    rest: str | None

    def decision(self, arguments: Mapping[str, object]) -> Decision:
        match self.verb, self.rest:
            case "approve", None:
                return Approve()
            case "reject", message:
                return Reject(message)
            case "edit", str(changes):
                return Edit(parse_changes(changes, arguments))
            case "respond", str(answer):
                return Respond(answer)
            case _:
                raise AssertionError(f"{self} was not checked")


def parse_specs(texts: Sequence[str]) -> dict[int, Spec]:
    """The decisions of all `--decide` options by the call's number, or UsageError."""
    found: dict[int, Spec] = {}
    for text in (part for each in texts for part in _SEPARATOR.split(each)):
        match = _SPEC.fullmatch(text)
        if match is None:
            raise UsageError(f"«{text}» is no decision: write {WRITTEN}.")
        spec = Spec(int(match["number"]), match["verb"], match["rest"])
        _require_sense(spec)
        if spec.number in found:
            raise UsageError(f"Call {spec.number} is decided twice.")
        found[spec.number] = spec
    return found


def _require_sense(spec: Spec) -> None:
    """UsageError for a verb that does not exist, or that lacks what it needs or has what it cannot use."""
    needs_rest = {"approve": False, "reject": None, "edit": True, "respond": True}
    if spec.verb not in needs_rest or needs_rest[spec.verb] not in (None, spec.rest is not None):
        raise UsageError(f"«{spec.number}={spec.verb}» cannot be understood: write {WRITTEN}.")


def parse_changes(text: str, arguments: Mapping[str, object]) -> JsonObject:
    """Changed arguments: a JSON object, or `name=value name='a longer value'`."""
    if text.lstrip().startswith("{"):
        return _parse_object(text)
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"«{text}» cannot be taken apart: {error}.") from error
    pairs = [part.partition("=") for part in parts]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise UsageError(f"«{text}» changes nothing: write NAME=VALUE, or a JSON object.")
    return {name: typed_value(value, arguments.get(name)) for name, _, value in pairs}


def _parse_object(text: str) -> JsonObject:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"«{text}» is not JSON: {error}.") from error
    assert isinstance(found, dict), "JSON that begins with { is an object"
    return found


def typed_value(text: str, present: object) -> object:
    """What was typed, as the kind of value that stands there now: digits in the place of a text stay a text.

    Where that says nothing, JSON is taken as such and anything else as text; the tool's schema has the last word.
    """
    if isinstance(present, str) and not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
