"""Settings of a whole run, for all its agents."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.declare.context import RunContextWrapper
from placet.declare.guardrail import InputGuardrail, OutputGuardrail
from placet.declare.handoff import HandoffHistoryMapper, HandoffInputFilter
from placet.facts.checks import (
    COUNT,
    FLAG,
    FUNCTION,
    MAPPING,
    MODEL,
    TEXT,
    WHOLE,
    Kind,
    check,
    having,
    instance_of,
    optional,
    sequence_of,
)
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.facts.items import Named
from placet.facts.model_settings import ModelRetrySettings, ModelSettings
from placet.ports import Model, ModelProvider, Observer, PolicySource, ReceiptIssuer

DEFAULT_MAX_TURNS = 10


_SETTINGS, _RETRY = optional(instance_of(ModelSettings)), optional(instance_of(ModelRetrySettings))
_INPUT_GUARDRAILS = sequence_of(InputGuardrail, "a list of input guardrails")
_OUTPUT_GUARDRAILS = sequence_of(OutputGuardrail, "a list of output guardrails")
_MAYBE_FUNCTION, _MAYBE_COUNT, _CLOCK = optional(FUNCTION), optional(COUNT), having("now", "a clock")
_OBSERVERS = Kind(
    "a list of observers",
    lambda value: isinstance(value, list | tuple) and all(hasattr(each, "drive_began") for each in value),
)


T = TypeVar("T")


class ToolErrorFormatterArgs(msgspec.Struct, Generic[T], frozen=True):
    """What a `tool_error_formatter` is told."""

    kind: Literal["approval_rejected", "tool_not_found"]
    tool_type: str
    tool_name: str
    call_id: str
    default_message: str
    run_context: RunContextWrapper[T]


ToolErrorFormatter: TypeAlias = Callable[[ToolErrorFormatterArgs[Any]], str | Awaitable[str | None] | None]


@dataclass(frozen=True, slots=True)
class ModelInputData:
    """What a model is about to be sent."""

    input: list[JsonObject]
    instructions: str | None = None


class CallModelData(msgspec.Struct, Generic[T], frozen=True):
    """What a `call_model_input_filter` is given."""

    model_data: ModelInputData
    agent: Named
    context: T


CallModelInputFilter: TypeAlias = Callable[[CallModelData[Any]], ModelInputData | Awaitable[ModelInputData]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes of what may enter a log: a mistake should not fill a store."""

    argument: int = 1_000_000
    output: int = 4_000_000
    log: int = 256_000_000


_LIMITS = instance_of(Limits)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a session is read."""

    limit: int | None = None
    """The newest so many items; None: all."""

    def __post_init__(self) -> None:
        check("SessionSettings: ", limit=(self.limit, optional(WHOLE)))

    @classmethod
    def of(cls, given: SessionSettings | Mapping[str, Any] | None) -> SessionSettings | None:
        """Settings that may also be given as a dict."""
        return cls(**given) if isinstance(given, Mapping) else given

    def resolve(self, override: SessionSettings | Mapping[str, Any] | None) -> SessionSettings:
        """These settings, with those of `override` that are set laid over them."""
        found = SessionSettings.of(override)
        return self if found is None or found.limit is None else found

    def to_dict(self) -> dict[str, Any]:
        return {"limit": self.limit}


SessionInputCallback: TypeAlias = Callable[
    [list[JsonObject], list[JsonObject]], list[JsonObject] | Awaitable[list[JsonObject]]
]


@dataclass(frozen=True, slots=True)
class ToolExecutionConfig:
    """How calls of one turn are carried out."""

    max_function_tool_concurrency: int | None = None
    """How many tool functions run at the same time; None: all. The same as `RunConfig(max_tool_concurrency=…)`."""
    pre_approval_tool_input_guardrails: bool = False
    """Placet always lets a tool's input guardrails speak before a person is asked, and again before the call runs."""

    def __post_init__(self) -> None:
        limit: object = self.max_function_tool_concurrency
        check("ToolExecutionConfig: ", max_function_tool_concurrency=(limit, _MAYBE_COUNT))


def _shows_content() -> bool:
    """The environment may say it for all runs of a process; otherwise a trace shows what was said."""
    setting = os.environ.get("OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "true")
    return setting.strip().lower() in ("1", "true", "yes", "on")


def _given_settings(given: ModelSettings | Mapping[str, Any] | None) -> ModelSettings | None:
    return given if given is None else ModelSettings.of(given)


_PROVIDER = optional(having("get_model", "an object with get_model(name)"))
_SESSION_SETTINGS = optional(instance_of(SessionSettings))
_EXECUTION = optional(instance_of(ToolExecutionConfig))
_RECEIPTS = optional(having("issue", "an issuer of receipts (placet.receipts.Receipts)"))
_POLICY = optional(having("current", "a policy (placet.policy.load_policy, PolicyFile)"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run; the defaults are meant to be right."""

    model: str | Model | None = None
    """Takes the place of every agent's model."""
    model_settings: ModelSettings | None = None
    """Laid over every agent's settings."""
    retry: ModelRetrySettings | None = None
    """Which failed requests are sent again, for agents whose `ModelSettings.retry` does not say."""
    input_guardrails: Sequence[InputGuardrail] = ()
    output_guardrails: Sequence[OutputGuardrail] = ()
    """For the outermost run, for all its agents."""
    call_model_input_filter: CallModelInputFilter | None = None
    """Changes what a model is sent, for this request only. What it leaves out counts as delivered all the same."""
    on_pending: Literal["error", "supersede", "queue"] = "error"
    """What a new message does on a session on which a run waits: it is refused; the waiting calls end and it takes
    their place; or it is put behind them and read when they are decided. While a run is at work there, the first
    refuses, and the others wait until it returns."""
    tool_error_formatter: ToolErrorFormatter | None = None
    """What the model reads of a rejected call when neither the decision nor a grant says it, and of a call of a tool
    that does not exist."""
    tool_not_found_behavior: Literal["return_error_to_model", "raise_error"] = "return_error_to_model"
    handoff_input_filter: HandoffInputFilter | None = None
    """For every handoff that has no filter of its own."""
    max_nesting: int = 8
    """How deep runs of agent tools may be nested in each other."""
    max_tool_concurrency: int | None = None
    """How many tool functions of one turn run at the same time; None: all."""
    observers: Sequence[Observer] = ()
    """Who watches: tracing, metrics. Without any, watching costs nothing."""
    trace_metadata: Mapping[str, str] = field(default_factory=dict)
    """Words of yours about this run (a tenant, a ticket), given to the observers: tracing puts them on its spans."""
    started_by: str | None = None
    """Who starts the run, for the record: where four eyes are demanded, another person has to approve its calls."""
    limits: Limits = Limits()
    clock: Clock = SYSTEM_CLOCK
    model_provider: ModelProvider | None = None
    """Says which model a name means, in the place of the names that Placet knows."""
    workflow_name: str = "Agent workflow"
    """What a trace of this run is called."""
    trace_id: str | None = None
    group_id: str | None = None
    """Traces of one conversation may carry one group's id."""
    tracing_disabled: bool = False
    """Only the observers of this configuration watch, and none that watches all runs of the process."""
    tracing: Mapping[str, Any] | None = None
    trace_include_sensitive_data: bool = field(default_factory=_shows_content)
    """Whether what was said and done may stand in a trace."""
    session_input_callback: SessionInputCallback | None = None
    """Makes the run's input of the session's items and the new ones: `(history, new_input) -> items`."""
    session_settings: SessionSettings | None = None
    nest_handoff_history: bool = False
    """A handoff gives the next agent the conversation so far as one message that tells of it."""
    handoff_history_mapper: HandoffHistoryMapper | None = None
    """Writes that message, in the place of the usual one."""
    reasoning_item_id_policy: Literal["preserve", "omit"] | None = None
    """`omit`: the model's thoughts are sent back without their ids."""
    tool_execution: ToolExecutionConfig | None = None
    policy: PolicySource | None = None
    """Rules that may allow, deny or ask about every call, beside what its tool says: `placet.policy`."""
    receipts: ReceiptIssuer | None = None
    """Signs a receipt for every approved call, for the service that performs its effect: `placet.receipts`."""
    tool_name_collision_policy: Literal["warn", "error"] = "error"
    """Two tools of one name are always refused: a model could not distinguish them. `warn` says nothing else."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "model_settings", _given_settings(self.model_settings))
        object.__setattr__(self, "trace_metadata", self.trace_metadata or {})
        object.__setattr__(self, "input_guardrails", self.input_guardrails or ())
        object.__setattr__(self, "output_guardrails", self.output_guardrails or ())
        if self.tool_execution is not None and self.max_tool_concurrency is None:
            object.__setattr__(self, "max_tool_concurrency", self.tool_execution.max_function_tool_concurrency)
        object.__setattr__(self, "session_settings", SessionSettings.of(self.session_settings))
        if self.tool_not_found_behavior not in ("return_error_to_model", "raise_error"):
            raise UserError(f"tool_not_found_behavior cannot be {self.tool_not_found_behavior!r}.")
        if self.on_pending not in ("error", "supersede", "queue"):
            raise UserError(f"on_pending is 'error', 'supersede' or 'queue', not {self.on_pending!r}.")
        check(
            "RunConfig: ",
            model=(self.model, MODEL),
            model_settings=(self.model_settings, _SETTINGS),
            retry=(self.retry, _RETRY),
            input_guardrails=(self.input_guardrails, _INPUT_GUARDRAILS),
            output_guardrails=(self.output_guardrails, _OUTPUT_GUARDRAILS),
            call_model_input_filter=(self.call_model_input_filter, _MAYBE_FUNCTION),
            tool_error_formatter=(self.tool_error_formatter, _MAYBE_FUNCTION),
            handoff_input_filter=(self.handoff_input_filter, _MAYBE_FUNCTION),
            max_nesting=(self.max_nesting, COUNT),
            max_tool_concurrency=(self.max_tool_concurrency, _MAYBE_COUNT),
            observers=(self.observers, _OBSERVERS),
            trace_metadata=(self.trace_metadata, MAPPING),
            started_by=(self.started_by, optional(TEXT)),
            limits=(self.limits, _LIMITS),
            clock=(self.clock, _CLOCK),
            model_provider=(self.model_provider, _PROVIDER),
            workflow_name=(self.workflow_name, TEXT),
            tracing_disabled=(self.tracing_disabled, FLAG),
            session_input_callback=(self.session_input_callback, _MAYBE_FUNCTION),
            session_settings=(self.session_settings, _SESSION_SETTINGS),
            nest_handoff_history=(self.nest_handoff_history, FLAG),
            handoff_history_mapper=(self.handoff_history_mapper, _MAYBE_FUNCTION),
            tool_execution=(self.tool_execution, _EXECUTION),
            policy=(self.policy, _POLICY),
            receipts=(self.receipts, _RECEIPTS),
        )
