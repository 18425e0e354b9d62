"""`ApplyPatchTool`: the model proposes changes of files, a person sees the diff, an editor applies it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.tool import EnabledRule, Failed, FunctionTool, OnApproval, Recovery, check_rule
from placet.declare.tool_values import InvalidArguments, ValidatedArguments, refuse_unknown
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import UserError
from placet.tools.native import check_native

OperationType: TypeAlias = Literal["create_file", "update_file", "delete_file"]
TYPES: tuple[OperationType, ...] = get_args(OperationType)

DESCRIPTION = """\
Create, change or delete text files. All operations of one call are applied, or none.
A diff is a list of hunks. '@@' opens a hunk; after it on the same line may stand a line of the file behind which the
hunk is. In a hunk, lines begin with ' ' (stays), '-' (goes) or '+' (comes); give enough lines around a change for it to
fit in one place only. In a new file every line begins with '+'."""

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": list(TYPES)},
                    "path": {"type": "string", "description": "Relative to the project's folder."},
                    "diff": {"type": ["string", "null"], "description": "null to delete a file."},
                },
                "required": ["type", "path", "diff"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["operations"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ApplyPatchOperation:
    """One change of one file."""

    type: OperationType
    path: str
    diff: str | None = None
    ctx_wrapper: RunContextWrapper[Any] | None = None


@dataclass(frozen=True, slots=True)
class ApplyPatchResult:
    status: Literal["completed", "failed"] | None = None
    output: str | None = None


class ApplyPatchEditor(Protocol):
    """Applies changes. What it returns (a result, a text, nothing) is what the model reads."""

    def create_file(self, operation: ApplyPatchOperation) -> Any: ...  # Any: the result, or an awaitable of it

    def update_file(self, operation: ApplyPatchOperation) -> Any: ...

    def delete_file(self, operation: ApplyPatchOperation) -> Any: ...


@runtime_checkable
class AppliesAll(Protocol):
    """An editor that applies several changes together."""

    def apply_all(self, operations: Sequence[ApplyPatchOperation]) -> Any: ...


PatchRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], ApplyPatchOperation, str], bool | Awaitable[bool]]
"""True, False, or a predicate that is asked about each operation. Whatever it answers but `False` asks a person."""


class ApplyPatchTool(FunctionTool):
    """Changes files by `editor`: your own, or a `LocalEditor(root)`. Unlike other tools it asks a person unless it is
    told otherwise. `native=True`: a model of OpenAI's Responses API is offered its own patch tool; any other model, a
    function."""

    kind = "apply_patch"

    def __init__(
        self,
        editor: ApplyPatchEditor,
        *,
        name: str = "apply_patch",
        description: str = DESCRIPTION,
        needs_approval: PatchRule = True,
        on_approval: OnApproval | None = None,
        is_enabled: EnabledRule = True,
        recovery: Recovery = "ask",
        version: str | None = None,
        timeout: float | None = None,
        decide_within: float | None = None,
        at_deadline: Literal["reject", "escalate"] = "reject",
        approval_valid_for: float | None = None,
        native: bool = False,
    ) -> None:
        for method in ("create_file", "update_file", "delete_file"):
            if not callable(getattr(editor, method, None)):
                raise UserError(f"An editor of patches has a method {method}(operation); {editor!r} has none.")
        check_rule(name, needs_approval, "(ctx, operation, call_id)")
        check_native(self.kind, name, native)
        self.editor, self.native = editor, native
        super().__init__(
            name=name,
            description=description,
            params_json_schema=SCHEMA,
            on_invoke_tool=self._apply,
            needs_approval=needs_approval if isinstance(needs_approval, bool) else _per_operation(needs_approval),
            validate_arguments=_validated,
            on_approval=on_approval,
            is_enabled=is_enabled,
            recovery=recovery,
            version=version,
            timeout=timeout,
            decide_within=decide_within,
            at_deadline=at_deadline,
            approval_valid_for=approval_valid_for,
        )

    @property
    def native_declaration(self) -> JsonObject | None:
        return {"type": "apply_patch"} if self.native else None

    async def _apply(self, ctx: ToolContext[Any], text: str) -> object:
        operations = operations_of(parse_arguments(text), ctx)
        if isinstance(self.editor, AppliesAll):
            result = await _awaited(self.editor.apply_all(operations))
            return Failed(_readable(result)) if _is_failure(result) else _readable(result)
        outputs = []
        for operation in operations:
            result = await _awaited(getattr(self.editor, operation.type)(operation))
            outputs.append(_readable(result))
            if _is_failure(result):
                return Failed("\n".join(str(each) for each in outputs))
        return "\n".join(str(each) for each in outputs if each) or "Done."


def operations_of(arguments: JsonObject | None, ctx: RunContextWrapper[Any] | None = None) -> list[ApplyPatchOperation]:
    """The operations of a call's arguments, or InvalidArguments."""
    given = (arguments or {}).get("operations")
    if not isinstance(given, list) or not given:
        raise InvalidArguments("operations: a list of changes is needed")
    return [_operation(each, place, ctx) for place, each in enumerate(given)]


def _operation(given: object, place: int, ctx: RunContextWrapper[Any] | None) -> ApplyPatchOperation:
    if not isinstance(given, dict):
        raise InvalidArguments(f"operations.{place}: not an object")
    path, diff = given.get("path"), given.get("diff")
    kind = next((each for each in TYPES if each == given.get("type")), None)
    if kind is None:
        raise InvalidArguments(f"operations.{place}.type: one of {', '.join(TYPES)}")
    if not isinstance(path, str) or not path:
        raise InvalidArguments(f"operations.{place}.path: a path is needed")
    if not isinstance(diff, str) and kind != "delete_file":
        raise InvalidArguments(f"operations.{place}.diff: a text is needed")
    return ApplyPatchOperation(kind, path, diff if isinstance(diff, str) else None, ctx)


def _validated(arguments: JsonObject) -> ValidatedArguments:
    """What is shown is what runs: an argument that no editor would get is refused. One change may stand alone."""
    given = {"operations": [arguments]} if "path" in arguments and "operations" not in arguments else arguments
    values: JsonObject = {**given}
    operations_of(values)
    refuse_unknown(values, SCHEMA)
    return ValidatedArguments(values)


def _per_operation(
    rule: Callable[[RunContextWrapper[Any], ApplyPatchOperation, str], bool | Awaitable[bool]],
) -> Callable[[RunContextWrapper[Any], JsonObject, str], Awaitable[bool]]:
    async def ask(ctx: RunContextWrapper[Any], arguments: JsonObject, call_id: str) -> bool:
        for operation in operations_of(arguments, ctx):
            if await _awaited(rule(ctx, operation, call_id)) is not False:
                return True
        return False

    return ask


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _is_failure(result: object) -> bool:
    return isinstance(result, ApplyPatchResult) and result.status == "failed"


def _readable(result: object) -> object:
    if isinstance(result, ApplyPatchResult):
        return result.output or ("The patch was not applied." if result.status == "failed" else "Done.")
    return result
