"""The document in which openai-agents keeps a paused run, as far as it is read here, and what in it is refused by name.

Every schema from 1.0 on is read. What a later schema added has a default: an older document does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from placet.facts.codec import Json, JsonObject, NotPlain, plain
from placet.facts.errors import StateRefused
from placet.facts.events import Usage

SCHEMA = "$schemaVersion"
NEWEST = (1, 21)
"""The newest schema that is read: that of openai-agents 0.24."""

Details: TypeAlias = list[dict[str, int | None]] | dict[str, int | None] | None


class SdkUsage(msgspec.Struct):
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: Details = None
    output_tokens_details: Details = None


class SdkNamed(msgspec.Struct):
    name: str


class Response(msgspec.Struct):
    output: list[JsonObject]
    usage: SdkUsage = msgspec.field(default_factory=SdkUsage)
    response_id: str | None = None
    request_id: str | None = None


class SdkItem(msgspec.Struct):
    type: str
    raw_item: JsonObject


class SdkApprovalRecord(msgspec.Struct):
    """What was decided about one tool: call ids, or `true` for all."""

    approved: bool | list[str] = []
    rejected: bool | list[str] = []
    rejection_messages: dict[str, str] = {}
    sticky_rejection_message: str | None = None

    def names(self, label: str) -> bool:
        return any(isinstance(each, list) and label in each for each in (self.approved, self.rejected))

    @property
    def is_for_all_calls(self) -> bool:
        return self.approved is True or self.rejected is True


class OwnedRecord(msgspec.Struct):
    agent: SdkNamed
    tool_key: str
    decision: SdkApprovalRecord


class HostedIdentity(msgspec.Struct):
    type: str
    server_label: str | None = None
    tool_name: str | None = None
    request_id: str | None = None


class HostedRecord(msgspec.Struct):
    identity: HostedIdentity
    decision: SdkApprovalRecord


class Invocation(msgspec.Struct):
    executed: bool = False


class Context(msgspec.Struct):
    usage: SdkUsage = msgspec.field(default_factory=SdkUsage)
    approvals: dict[str, SdkApprovalRecord] = {}
    function_tool_approvals: list[OwnedRecord] = []
    hosted_mcp_approvals: list[HostedRecord] = []
    tool_invocations: dict[str, Invocation] = {}
    context: Json = None
    context_meta: dict[str, Any] | None = None


class SdkGuardrailName(msgspec.Struct):
    name: str | None = None


class GuardrailOutput(msgspec.Struct, rename="camel"):
    tripwire_triggered: bool = False
    output_info: Json = None


class Guardrail(msgspec.Struct):
    guardrail: SdkGuardrailName
    output: GuardrailOutput


class Interruptions(msgspec.Struct):
    interruptions: list[SdkItem] = []


class SdkStep(msgspec.Struct):
    type: str
    data: Interruptions | None = None
    interruptions: list[SdkItem] = []


class Function(msgspec.Struct):
    tool_call: JsonObject
    agent_run_state: SdkState | None = None


class Processed(msgspec.Struct):
    functions: list[Function] = []


class SdkState(msgspec.Struct):
    """One run: the outer one, or one behind a tool."""

    schema: str = msgspec.field(name=SCHEMA)
    current_agent: SdkNamed
    original_input: str | list[JsonObject]
    context: Context
    max_turns: int | None = None
    model_responses: list[Response] = []
    generated_items: list[SdkItem] = []
    """What the next request carries behind the input."""
    session_items: list[SdkItem] = []
    """The same before filters of handoffs took something out."""
    pending_input: list[JsonObject] = []
    current_step: SdkStep | None = None
    last_processed_response: Processed | None = None
    conversation_id: str | None = None
    previous_response_id: str | None = None
    auto_previous_response_id: bool | None = False
    input_guardrail_results: list[Guardrail] = []
    pending_session_write: dict[str, Any] | None = None
    terminal_unrecoverable: bool = False
    sandbox: Json = None

    @property
    def version(self) -> tuple[int, int]:
        major, _, minor = self.schema.partition(".")
        return int(major), int(minor)

    @property
    def functions(self) -> list[Function]:
        return self.last_processed_response.functions if self.last_processed_response is not None else []

    @property
    def interruptions(self) -> list[SdkItem]:
        if self.current_step is None:
            return []
        return self.current_step.data.interruptions if self.current_step.data else self.current_step.interruptions

    def family(self) -> list[SdkState]:
        """This run, and those behind its tools."""
        nested = [each.agent_run_state for each in self.functions if each.agent_run_state is not None]
        return [self, *(member for each in nested for member in each.family())]

    def usage_of_context(self) -> Usage:
        """What the run used beside the responses that the document lists: runs behind tools that have ended."""
        listed = Usage()
        for member in self.family():
            for response in member.model_responses:
                listed.add(usage_of(response.usage))
        total = usage_of(self.context.usage)
        names = total.__struct_fields__
        return Usage(**{name: max(0, getattr(total, name) - getattr(listed, name)) for name in names})


def usage_of(usage: SdkUsage) -> Usage:
    given, made = _details(usage.input_tokens_details), _details(usage.output_tokens_details)
    return Usage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=given.get("cached_tokens") or 0,
        reasoning_tokens=made.get("reasoning_tokens") or 0,
        cache_write_tokens=given.get("cache_write_tokens") or 0,
    )


def _details(found: Details) -> dict[str, int | None]:
    if isinstance(found, list):
        return found[0] if found else {}
    return found or {}


def read_document(data: Mapping[str, Any]) -> SdkState:
    """The document, or StateRefused saying what it is that cannot be read or known."""
    _check_version(data.get(SCHEMA))
    try:
        state = msgspec.convert(plain(data, "state"), SdkState)
    except (msgspec.ValidationError, NotPlain, RecursionError) as error:
        raise StateRefused(
            f"This is not a state that openai-agents for Python wrote, or it was cut or altered: {error}."
        ) from error
    for member in state.family():
        _check_version(member.schema)
        _refuse_unknowable(member)
    return state


def _check_version(version: object) -> None:
    major, dot, minor = version.partition(".") if isinstance(version, str) else ("", "", "")
    is_number = dot and major.isascii() and minor.isascii() and major.isdigit() and minor.isdigit()
    newest = ".".join(map(str, NEWEST))
    if not is_number:
        raise StateRefused(f"The state of openai-agents has the schema {version!r}, which is no version.")
    if int(major) != NEWEST[0] or int(minor) > NEWEST[1]:
        raise StateRefused(
            f"The state has schema {version} of openai-agents, and this version of Placet reads 1.0 to {newest}: "
            "use a newer Placet, or finish the run with the SDK that wrote it."
        )


def _refuse_unknowable(state: SdkState) -> None:
    """What no log can say, because the document leaves it open: whether something outside of it was done."""
    if state.pending_session_write is not None:
        session = state.pending_session_write.get("session_id")
        raise StateRefused(
            f"The state has a pending session write (pending_session_write, session {session!r}): it is unknown which "
            "of its items the session holds. Finish the write with the SDK that began it, then move the state."
        )
    if state.interruptions and not state.model_responses:
        raise StateRefused("The state waits, and holds no answer of a model that it could wait for.")
    if state.terminal_unrecoverable:
        raise StateRefused(
            "The state is of a run that ended without keeping its result (terminal_unrecoverable): "
            "it cannot be continued."
        )
    if state.sandbox is not None:
        raise StateRefused("The state holds a sandbox (sandbox), and Placet has none: finish the run with the SDK.")
