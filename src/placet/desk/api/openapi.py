"""The description of the API (OpenAPI 3.1), made from the table of operations and their types."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from placet.desk.api.aap_shapes import AapError, AapReport
from placet.desk.api.operations import Operation
from placet.desk.api.shapes import ProblemShape
from placet.desk.web.problems import AAP_STATUS
from placet.desk.web.problems import MEDIA_TYPE as PROBLEM
from placet.facts.codec import JsonObject

Schema = dict[str, Any]  # Any: a JSON schema

_DESCRIBED = ("placet.desk.", "placet.fleet.figures", "placet.ports", "placet.service.budget_figures")
"""Where the types of the API stand: its own, and the numbers that it shows as they are."""
_REF = "#/components/schemas/{name}"
_PART = re.compile(r"\{(\w+)(?::path)?\}")

TAGS = {
    "runs": "Conversations of agents, with their logs",
    "approvals": "What waits for people, and their decisions",
    "grants": "Standing decisions",
    "holds": "What operators hold back",
    "policy": "Rules about calls",
    "people": "Users and tokens",
    "subscriptions": "Who is told of what happens",
    "gate": "Calls that guests execute themselves",
    "aap": "The same for clients of the Agent Approval Protocol",
    "around": "Agents, live events, health, figures",
}
DESCRIPTIONS = {
    400: "The body is not JSON",
    401: "No user: there is no token, or it is not valid",
    403: "The user may not do this",
    404: "There is no such thing",
    408: "The body came too slowly",
    409: "It contradicts what stands",
    413: "Something is larger than its limit",
    415: "The body is not sent as JSON",
    421: "The desk is not asked for by this host name",
    422: "What was sent is understood, and not valid",
    429: "Too many requests: see Retry-After",
    500: "An error of the desk",
    503: "The store, or a place, is not there now: see Retry-After",
}


def describe(operations: Sequence[Operation], version: str) -> JsonObject:
    """The whole document."""
    paths: dict[str, Schema] = {}
    for operation in operations:
        path = _PART.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Placet desk",
            "version": version,
            "description": "Runs of agents whose tool calls wait for a person's yes. Errors are "
            "`application/problem+json` (RFC 9457) with a stable `code`. Times are RFC 3339, in UTC.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _components(operations),
            "responses": {f"Problem{status}": _problem(description) for status, description in DESCRIPTIONS.items()}
            | {"AapError": _aap_error()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token: `placet_…`"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "placet_session",
                    "description": "The cookie of a browser. Unsafe requests carry `X-CSRF-Token` besides.",
                },
            },
        },
    }


def _operation(operation: Operation) -> Schema:
    found: Schema = {
        "operationId": _name_of(operation),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_parts(operation), *_query(operation), *_headers(operation)],
        "responses": {
            str(status): _answer(operation) for status in sorted((operation.status, *operation.more_statuses))
        }
        | _problems(operation),
        "security": [] if operation.role is None else [{"token": []}, {"session": []}],
    }
    if operation.role is not None:
        found["x-role"] = operation.role
    if operation.details:
        found["description"] = operation.details
    if operation.body is not None:
        is_needed = any(field.required for field in msgspec.structs.fields(operation.body))
        found["requestBody"] = {
            "required": is_needed,
            "content": {"application/json": {"schema": _reference(operation.body)}},
        }
    return found


def _name_of(operation: Operation) -> str:
    """`runs_start`: the file that the operation is in, and what it is called there."""
    return f"{operation.run.__module__.rpartition('.')[2]}_{operation.run.__name__}"


def _parts(operation: Operation) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PART.findall(operation.path)
    ]


def _query(operation: Operation) -> list[Schema]:
    body = _components_of([operation.query])[operation.query.__name__]
    parameters = []
    for name, schema in body.get("properties", {}).items():
        parameter: Schema = {"name": name, "in": "query", "required": name in body.get("required", ())}
        parameter["schema"] = _without_null(schema)
        if text := schema.get("description"):
            parameter["description"] = text
        parameters.append(parameter)
    return parameters


def _without_null(schema: Schema) -> Schema:
    """A parameter of an address is there or not: it cannot be null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    if not options:
        return schema
    return kept | options[0] if len(options) == 1 else kept | {"anyOf": options}


def _headers(operation: Operation) -> list[Schema]:
    if operation.keeps_key and operation.error is AapError and operation.body is not AapReport:
        text = "Names one execution of the call. The same key again is the same request."
        schema: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        return [{"name": "Idempotency-Key", "in": "header", "required": True, "schema": schema, "description": text}]
    if operation.method == "POST" and not operation.keeps_key:
        text = "Makes it safe to ask again: one effect, and the first answer again. Kept for a day."
        pattern = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        return [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": pattern, "description": text}]
    if operation.media_type == "text/event-stream":
        schema = {"type": "string", "pattern": "^[0-9]{1,18}$"}
        text = "The id of the last event that was seen."
        return [{"name": "Last-Event-ID", "in": "header", "required": False, "schema": schema, "description": text}]
    return []


def _answer(operation: Operation) -> Schema:
    if operation.answer is not None:
        return {"description": "Done", "content": {operation.media_type: {"schema": _reference(operation.answer)}}}
    if operation.media_type != "application/json":
        return {"description": "Done", "content": {operation.media_type: {"schema": {"type": "string"}}}}
    return {"description": "Done"}


def _problems(operation: Operation) -> Schema:
    """Those that any operation can have, and its own."""
    statuses = {421, 429, 500, 503, 422, *operation.problems}
    if operation.role is not None:
        statuses |= {401, 403}
    if operation.body is not None:
        statuses |= {400, 408, 413, 415}
    if operation.method == "POST":
        statuses.add(409)
    if operation.error is AapError:
        statuses = {AAP_STATUS.get(status, status) for status in statuses}
        return {str(status): {"$ref": "#/components/responses/AapError"} for status in sorted(statuses)}
    return {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in sorted(statuses)}


def _problem(description: str) -> Schema:
    return {"description": description, "content": {PROBLEM: {"schema": _reference(ProblemShape)}}}


def _aap_error() -> Schema:
    return {
        "description": "An error, in the words of the protocol",
        "content": {"application/json": {"schema": _reference(AapError)}},
    }


def _reference(kind: type[msgspec.Struct]) -> Schema:
    return {"$ref": _REF.format(name=kind.__name__)}


def _components(operations: Sequence[Operation]) -> Schema:
    kinds: list[type[msgspec.Struct]] = [ProblemShape, AapError]
    for operation in operations:
        kinds += [kind for kind in (operation.body, operation.answer) if kind is not None and kind not in kinds]
    return _components_of(kinds)


def _components_of(kinds: Sequence[type[msgspec.Struct]]) -> Schema:
    _, components = msgspec.json.schema_components(kinds, ref_template=_REF, schema_hook=_anything)
    known = {kind.__name__: kind for kind in _all_kinds()}
    for name, schema in components.items():
        for field, description in _field_descriptions(known[name]).items():
            if field in schema.get("properties", {}):
                schema["properties"][field] = {**schema["properties"][field], "description": description}
    return dict(sorted(components.items()))


def _anything(kind: type) -> Schema:
    """The schema of what may be any JSON value."""
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(f"{kind} has no place in the API")


def _all_kinds() -> list[type[msgspec.Struct]]:
    found = [msgspec.Struct]
    for kind in found:
        found += [each for each in kind.__subclasses__() if each not in found]
    return [kind for kind in found if kind.__module__.startswith(_DESCRIBED)]


@cache
def _field_descriptions(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The sentence under each field, as it stands in the code, and those of the classes that it comes from."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith(_DESCRIBED):
            found |= _descriptions_in(base)
    return found


def _descriptions_in(kind: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for one, after in itertools.pairwise(tree.body):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(after, ast.Expr):
            text = after.value.value if isinstance(after.value, ast.Constant) else None
            if isinstance(text, str):
                found[one.target.id] = " ".join(text.split())
    return found
