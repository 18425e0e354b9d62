"""Tools: what a model may call, when a person must be asked, and how a call recovers when its worker is gone."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_origin, overload

import msgspec

from placet.core.elicitation import problem_with_questions
from placet.core.json_schema import problem_with_schema, problems, with_defaults, without_prose
from placet.declare.context import RunContextWrapper, ToolContext
from placet.declare.description import Description, check_description
from placet.declare.guardrail import ToolInputGuardrail, ToolOutputGuardrail
from placet.declare.predicates import check_predicate
from placet.declare.tool_schema import function_schema
from placet.declare.tool_values import InvalidArguments, ValidatedArguments
from placet.facts.checks import FLAG, FUNCTION, NAME, NOT_NEGATIVE, RULE, SECONDS, TEXT, check, optional, sequence_of
from placet.facts.codec import Json, JsonObject, canonical, encode, parse_arguments
from placet.facts.errors import ToolOutputError, ToolTimeoutError, UserError
from placet.facts.requirements import Needs

if TYPE_CHECKING:
    from placet.facts.items import Named, ToolApprovalItem

ApprovalRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], JsonObject, str], bool | Awaitable[bool]]
"""True, False, or a predicate `(ctx, params, call_id)`. Whatever it answers but `False` asks a person."""
ApproversRule: TypeAlias = (
    Needs | Callable[[RunContextWrapper[Any], JsonObject, str], Needs | Awaitable[Needs | None] | None]
)
"""Who has to say yes: for every call, or a function `(ctx, params, call_id)` of this one's arguments; None: anybody who
may decide."""
EnabledRule: TypeAlias = bool | Callable[[RunContextWrapper[Any], "Named"], bool | Awaitable[bool]]
FailureText: TypeAlias = Callable[[RunContextWrapper[Any], Exception], str | Awaitable[str]]
OnApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], "ToolApprovalItem"], Mapping[str, Any] | Awaitable[Mapping[str, Any]]
]
"""Decides in a person's place: `{"approve": True}` or `{"approve": False, "reason": "…"}`; anything else asks a
person."""
Invoke: TypeAlias = Callable[[ToolContext[Any], str], Awaitable[object]]


class Happened(msgspec.Struct, frozen=True):
    """A recovery function found out: the call took place, and this is its result."""

    output: object


class DidNotHappen(msgspec.Struct, frozen=True):
    """A recovery function found out: the call did not take place. It is run (again)."""


class CannotTell(msgspec.Struct, frozen=True):
    """A recovery function could not find out. A person is asked."""


class NeedsInput(msgspec.Struct, frozen=True):
    """A tool function returns this to ask a person something. It is begun again with the answers, in this process or
    another.

    `questions` are by key, each `{"mode": "form", "message": …, "requestedSchema": …}` or `{"mode": "url", "message":
    …, "url": …}`. The tool function finds the answers, and `state`, in its `ToolContext` (`answers`, `asked_state`).
    """

    questions: dict[str, JsonObject]
    state: str | None = None

    def __post_init__(self) -> None:
        problem = problem_with_questions(self.questions)
        if problem is not None:
            raise UserError(f"NeedsInput: {problem}.")


class Failed(msgspec.Struct, frozen=True):
    """A tool function returns this to say that it did not do what was asked, and what the model reads of that."""

    output: object


Found: TypeAlias = Happened | DidNotHappen | CannotTell
Recovery: TypeAlias = Literal["ask", "retry"] | Callable[[ToolContext[Any], JsonObject], Found | Awaitable[Found]]
"""What to do about a call that was claimed by a process that is gone: ask a person, repeat it, or a function that finds
out."""


def default_tool_error_function(_ctx: RunContextWrapper[Any], error: Exception) -> str:
    if isinstance(error, InvalidArguments):
        return f"The tool was not run, because its arguments are invalid:\n{error}"
    if isinstance(error, ToolTimeoutError | ToolOutputError):  # it may have happened: no invitation to try again
        return str(error)
    return f"An error occurred while running the tool. Please try again. Error: {text_of_error(error)}"


def text_of_error(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a foreign error whose own text fails is still an error
        return type(error).__name__


_INPUT_GUARDRAILS = sequence_of(ToolInputGuardrail, "a list of tool input guardrails")
_OUTPUT_GUARDRAILS = sequence_of(ToolOutputGuardrail, "a list of tool output guardrails")


@dataclass(eq=False)
class FunctionTool:
    """A tool of our own process: a schema that the model sees and a function that runs."""

    name: str
    description: str
    params_json_schema: Mapping[str, Any]
    on_invoke_tool: Invoke
    """Called with the context and the arguments as a JSON text."""
    strict_json_schema: bool = True
    is_enabled: EnabledRule = True
    tool_input_guardrails: Sequence[ToolInputGuardrail] = ()
    tool_output_guardrails: Sequence[ToolOutputGuardrail] = ()
    needs_approval: ApprovalRule = False
    timeout: float | None = None
    timeout_behavior: Literal["error_as_result", "raise_exception"] = "error_as_result"
    """What a tool function that takes too long becomes: something for the model to read, or an error that ends the
    drive."""
    timeout_error_function: FailureText | None = None
    """What the model reads of it, in the place of `failure_error_function`."""
    on_approval: OnApproval | None = field(default=None, kw_only=True)
    """Asked when a call has to wait: may decide in a person's place."""
    allowed_callers: Sequence[Literal["direct", "programmatic"]] | None = field(default=None, kw_only=True)
    """Who may call it, at a provider whose model writes programs; None: the model itself."""
    defer_loading: bool = field(default=False, kw_only=True)
    """A provider with tool search shows it to the model only when it was searched for."""
    output_json_schema: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """What it gives back, for a program that calls it."""
    namespace: str | None = field(default=None, kw_only=True)
    """The group that it is in (`tool_namespace`): its name begins with it."""
    namespace_description: str | None = field(default=None, kw_only=True)
    failure_error_function: FailureText | None = default_tool_error_function
    """What the model reads when the tool function raises. None: the error ends the drive of the run."""
    recovery: Recovery = "ask"
    version: str | None = None
    """Part of what is approved: a new version asks again."""
    decide_within: float | None = None
    """Seconds in which a person must decide; then `at_deadline` says what becomes of the question."""
    at_deadline: Literal["reject", "escalate"] = "reject"
    approval_valid_for: float | None = None
    """Seconds for which an approval can be used; then a person is asked again."""
    check_arguments: Callable[[JsonObject], str | None] | None = field(default=None, repr=False)
    """What is wrong with these arguments, or None; without one the schema says it. Edits, and calls of which a rule or
    a person judges, are checked with it before a person sees them."""
    validate_arguments: Callable[[JsonObject], ValidatedArguments] | None = field(
        default=None, repr=False, kw_only=True
    )
    """Checks the arguments and completes them, in the place of `check_arguments`."""
    approvers: ApproversRule | None = field(default=None, kw_only=True)
    """Who has to say yes where somebody has to. None: anybody who may decide."""
    describe: Description | None = field(default=None, kw_only=True)
    """What a call would do, in one sentence for the person who is asked: a text with `{name}` for arguments, or a
    function of them. None: the tool's name and its arguments say it."""
    irreversible: bool = field(default=False, kw_only=True)
    """Nobody can undo what it does: the inbox offers no quick yes."""
    undo_window: float | None = field(default=None, kw_only=True)
    """How many seconds the inbox leaves between a person's yes and the call, so that the yes can be taken back. None:
    five where one key decides, none elsewhere."""

    kind = "function"

    @property
    def name_at_home(self) -> str:
        """The name by which whoever performs its calls knows it: on a server it may have another one than here."""
        return self.name

    def validated(self, arguments: JsonObject) -> ValidatedArguments:
        """The values that the tool would run with: complete, and in the types of its parameters. Raises
        InvalidArguments."""
        if self.validate_arguments is not None:
            return self.validate_arguments(arguments)
        values = with_defaults(self.params_json_schema, arguments)
        if self.check_arguments is not None:
            problem = self.check_arguments(values)
        else:
            problem = "\n".join(problems(self.params_json_schema, values)) or None
        if problem is not None:
            raise InvalidArguments(problem)
        return ValidatedArguments(values)

    def problem_with(self, arguments: JsonObject) -> str | None:
        """What is wrong with these arguments, or None."""
        try:
            self.validated(arguments)
        except InvalidArguments as error:
            return str(error)
        return None

    def __post_init__(self) -> None:
        check_rule(self.name, self.needs_approval, "(ctx, params, call_id)")
        if self.on_approval is not None and not callable(self.on_approval):
            raise UserError(f"Tool '{self.name}': on_approval is a function (ctx, item), not {self.on_approval!r}.")
        if self.recovery not in ("ask", "retry") and not callable(self.recovery):
            raise UserError(f"Tool '{self.name}': recovery is 'ask', 'retry' or a function, not {self.recovery!r}.")
        check_approvers(self.name, self.approvers, self.needs_approval)
        check_description(self.name, self.describe)
        if self.at_deadline not in ("reject", "escalate"):
            raise UserError(f"Tool '{self.name}': at_deadline is 'reject' or 'escalate', not {self.at_deadline!r}.")
        if self.timeout_behavior not in ("error_as_result", "raise_exception"):
            raise UserError(
                f"Tool '{self.name}': timeout_behavior is 'error_as_result' or 'raise_exception', not "
                f"{self.timeout_behavior!r}."
            )
        self.tool_input_guardrails = self.tool_input_guardrails or ()
        self.tool_output_guardrails = self.tool_output_guardrails or ()
        self._check_fields()
        self.more = self._more()
        if self.validate_arguments is None:  # else the schema is made of what validates, and the library is not needed
            problem = problem_with_schema(self.params_json_schema)
            if problem is not None:
                raise UserError(
                    f"Tool '{self.name}': arguments cannot be checked against params_json_schema: {problem}."
                )

    def _check_fields(self) -> None:
        check("A tool's ", name=(self.name, NAME))
        check(
            f"Tool '{self.name}': ",
            description=(self.description, TEXT),
            strict_json_schema=(self.strict_json_schema, FLAG),
            irreversible=(self.irreversible, FLAG),
            undo_window=(self.undo_window, optional(NOT_NEGATIVE)),
            is_enabled=(self.is_enabled, RULE),
            timeout=(self.timeout, optional(SECONDS)),
            timeout_error_function=(self.timeout_error_function, optional(FUNCTION)),
            failure_error_function=(self.failure_error_function, optional(FUNCTION)),
            version=(self.version, optional(TEXT)),
            decide_within=(self.decide_within, optional(SECONDS)),
            approval_valid_for=(self.approval_valid_for, optional(SECONDS)),
            tool_input_guardrails=(self.tool_input_guardrails, _INPUT_GUARDRAILS),
            tool_output_guardrails=(self.tool_output_guardrails, _OUTPUT_GUARDRAILS),
        )

    @property
    def timeout_seconds(self) -> float | None:
        """Another name of `timeout`."""
        return self.timeout

    def _more(self) -> JsonObject | None:
        """What only OpenAI's Responses API can be told of a function."""
        if self.allowed_callers is None and not self.defer_loading and self.output_json_schema is None:
            return None
        found: JsonObject = {"defer_loading": True} if self.defer_loading else {}
        if self.allowed_callers is not None:
            found["allowed_callers"] = list(self.allowed_callers)
        if self.output_json_schema is not None:
            found["output_schema"] = dict(self.output_json_schema)
        return found

    @property
    def native_declaration(self) -> JsonObject | None:
        """How a provider that has this very kind of tool is told of it; None: it is told of a function."""
        return None

    @property
    def identity(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def fingerprint(self) -> str:
        """A digest of what a call of this tool means: the schema without its prose, and the declared version, as they
        are now."""
        return self.first_fingerprint

    @property
    def first_fingerprint(self) -> str:
        """The same as digests of the first version have it."""
        return fingerprint_of(self.params_json_schema, self.version)


def if_of_kind(tool: FunctionTool | None, kind: str | None) -> FunctionTool | None:
    """The tool, unless a call asks for another kind of tool: commands for a shell are no arguments of a function."""
    return tool if tool is None or kind is None or tool.kind == kind else None


def check_rule(tool: str, rule: object, form: str) -> None:
    """An unknown word would be anybody's guess: it is refused where it is written."""
    if not isinstance(rule, bool) and not callable(rule):
        raise UserError(f"Tool '{tool}': needs_approval is True, False or a function {form}, not {rule!r}.")


def check_approvers(tool: str, approvers: object, needs_approval: object) -> None:
    if approvers is None:
        return
    if not isinstance(approvers, Needs) and not callable(approvers):
        raise UserError(
            f"Tool '{tool}': approvers is Needs(…) or a function (ctx, params, call_id), not {approvers!r}."
        )
    if isinstance(approvers, Needs):
        refuse_conditions(tool, approvers)
    if needs_approval is False:
        raise UserError(
            f"Tool '{tool}': approvers=… says who approves a call, and needs_approval is False: nobody would ever be "
            "asked. Say needs_approval=True, or when."
        )


def refuse_conditions(tool: str, needs: Needs) -> None:
    """A condition that could never hold: nobody could fulfil the requirement."""
    for step in needs.requirement.steps():
        if step.predicate is not None:
            try:
                check_predicate(step.predicate)
            except UserError as error:
                raise UserError(f"Tool '{tool}', approvers: {error.message}") from None


def fingerprint_of(schema: Mapping[str, Any], *more: Json) -> str:
    """A digest of a schema without its prose, and of what else makes a tool what it is."""
    try:
        return _fingerprint(encode([schema, *more]))  # the same declaration has the same text: it is looked at once
    except TypeError:  # a mapping of a user's own
        return _fingerprint(encode([without_prose(schema), *more]))


@functools.lru_cache(maxsize=1024)
def _fingerprint(declared: bytes) -> str:
    schema, *more = msgspec.json.decode(declared)
    return hashlib.blake2b(canonical([without_prose(schema), *more]), digest_size=12).hexdigest()


Tool: TypeAlias = FunctionTool


def escaped(part: str) -> str:
    """A part of a tool's identity, so that `mcp:files:read` has three parts whatever a server is called."""
    return part.replace("%", "%25").replace(":", "%3A")


def unescaped(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def _called(function: Callable[..., Any], positional: list[object], named: dict[str, object]) -> Any:
    try:
        return function(*positional, **named)
    except StopIteration as error:  # no future can hold one: the thread's answer would never come
        raise RuntimeError(f"the tool's function raised StopIteration({error})") from error


def _is_context_type(annotation: object) -> bool:
    found = get_origin(annotation) or annotation
    return isinstance(found, type) and issubclass(found, RunContextWrapper)


def _schema_of(output_type: Any) -> Mapping[str, Any]:
    import pydantic

    return pydantic.TypeAdapter(output_type).json_schema(mode="serialization")


@overload
def function_tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def function_tool(
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: Literal["google", "numpy", "sphinx"] | None = None,
    use_docstring_info: bool = True,
    failure_error_function: FailureText | None = default_tool_error_function,
    strict_mode: bool = True,
    is_enabled: EnabledRule = True,
    needs_approval: ApprovalRule = False,
    timeout: float | None = None,
    recovery: Recovery = "ask",
    version: str | None = None,
    decide_within: float | None = None,
    at_deadline: Literal["reject", "escalate"] = "reject",
    approval_valid_for: float | None = None,
    tool_input_guardrails: Sequence[ToolInputGuardrail] | None = (),
    tool_output_guardrails: Sequence[ToolOutputGuardrail] | None = (),
    approvers: ApproversRule | None = None,
    timeout_behavior: Literal["error_as_result", "raise_exception"] = "error_as_result",
    timeout_error_function: FailureText | None = None,
    on_approval: OnApproval | None = None,
    allowed_callers: Sequence[Literal["direct", "programmatic"]] | None = None,
    defer_loading: bool = False,
    output_type: Any = None,
    output_json_schema: Mapping[str, Any] | None = None,
    describe: Description | None = None,
    irreversible: bool = False,
    undo_window: float | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def function_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: Literal["google", "numpy", "sphinx"] | None = None,
    use_docstring_info: bool = True,
    failure_error_function: FailureText | None = default_tool_error_function,
    strict_mode: bool = True,
    is_enabled: EnabledRule = True,
    needs_approval: ApprovalRule = False,
    timeout: float | None = None,
    recovery: Recovery = "ask",
    version: str | None = None,
    decide_within: float | None = None,
    at_deadline: Literal["reject", "escalate"] = "reject",
    approval_valid_for: float | None = None,
    tool_input_guardrails: Sequence[ToolInputGuardrail] | None = (),
    tool_output_guardrails: Sequence[ToolOutputGuardrail] | None = (),
    approvers: ApproversRule | None = None,
    timeout_behavior: Literal["error_as_result", "raise_exception"] = "error_as_result",
    timeout_error_function: FailureText | None = None,
    on_approval: OnApproval | None = None,
    allowed_callers: Sequence[Literal["direct", "programmatic"]] | None = None,
    defer_loading: bool = False,
    output_type: Any = None,
    output_json_schema: Mapping[str, Any] | None = None,
    describe: Description | None = None,
    irreversible: bool = False,
    undo_window: float | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: its schema comes from the signature, the types and the docstring.

    A plain function runs in a thread, off the event loop. A first parameter of type `RunContextWrapper` or
    `ToolContext` is given
    the context and is no parameter of the tool.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        schema = function_schema(
            function,
            name_override=name_override,
            description_override=description_override,
            docstring_style=docstring_style,
            use_docstring_info=use_docstring_info,
            strict_json_schema=strict_mode,
            is_context_type=_is_context_type,
        )

        async def invoke(ctx: ToolContext[Any], text: str) -> object:
            bound = ctx.take_bound(text)
            if bound is None:
                arguments = parse_arguments(text)
                if arguments is None:
                    raise InvalidArguments("the arguments are not one JSON object")
                bound = schema.bind(arguments)
            positional, named = bound
            if schema.takes_context:
                positional.insert(0, ctx)
            if schema.is_async:
                return await function(*positional, **named)
            found = await asyncio.to_thread(_called, function, positional, named)
            return await found if inspect.isawaitable(found) else found

        return FunctionTool(
            name=schema.name,
            description=schema.description,
            params_json_schema=schema.params_json_schema,
            on_invoke_tool=invoke,
            strict_json_schema=strict_mode,
            is_enabled=is_enabled,
            needs_approval=needs_approval,
            timeout=timeout,
            failure_error_function=failure_error_function,
            recovery=recovery,
            version=version,
            decide_within=decide_within,
            at_deadline=at_deadline,
            approval_valid_for=approval_valid_for,
            tool_input_guardrails=tool_input_guardrails or (),
            tool_output_guardrails=tool_output_guardrails or (),
            timeout_behavior=timeout_behavior,
            timeout_error_function=timeout_error_function,
            on_approval=on_approval,
            allowed_callers=allowed_callers,
            defer_loading=defer_loading,
            output_json_schema=output_json_schema if output_type is None else _schema_of(output_type),
            validate_arguments=schema.validate,
            approvers=approvers,
            describe=describe,
            irreversible=irreversible,
            undo_window=undo_window,
        )

    return make if function is None else make(function)
