"""Settings of a whole run, whoever its agents are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.declare.context import RunContextWrapper
from placet.declare.guardrail import InputGuardrail, OutputGuardrail
from placet.declare.handoff import HandoffInputFilter
from placet.facts.checks import (
    COUNT,
    FUNCTION,
    MAPPING,
    MODEL,
    TEXT,
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
from placet.ports import Model, Observer

DEFAULT_MAX_TURNS = 10


_SETTINGS, _RETRY = optional(instance_of(ModelSettings)), optional(instance_of(ModelRetrySettings))
_INPUT_GUARDRAILS = sequence_of(InputGuardrail, "a list of input guardrails")
_OUTPUT_GUARDRAILS = sequence_of(OutputGuardrail, "a list of output guardrails")
_MAYBE_FUNCTION, _MAYBE_COUNT, _CLOCK = optional(FUNCTION), optional(COUNT), having("now", "a clock")
_OBSERVERS = Kind(
    "a list of observers",
    lambda value: isinstance(value, list | tuple) and all(hasattr(each, "drive_began") for each in value),
)


class ToolErrorFormatterArgs(msgspec.Struct, frozen=True):
    """What a `tool_error_formatter` is told."""

    kind: Literal["approval_rejected"]
    tool_type: str
    tool_name: str
    call_id: str
    default_message: str
    run_context: RunContextWrapper[Any]


ToolErrorFormatter: TypeAlias = Callable[[ToolErrorFormatterArgs], str | Awaitable[str | None] | None]


@dataclass(frozen=True, slots=True)
class ModelInputData:
    """What a model is about to be sent."""

    input: list[JsonObject]
    instructions: str | None = None


class CallModelData(msgspec.Struct, frozen=True):
    """What a `call_model_input_filter` is given."""

    model_data: ModelInputData
    agent: Named
    context: Any


CallModelInputFilter: TypeAlias = Callable[[CallModelData], ModelInputData | Awaitable[ModelInputData]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes of what may enter a log: a mistake should not fill a store."""

    argument: int = 1_000_000
    output: int = 4_000_000
    log: int = 256_000_000


_LIMITS = instance_of(Limits)


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
    """For the outermost run, whoever its agent is."""
    call_model_input_filter: CallModelInputFilter | None = None
    """Changes what a model is sent, for this request only. What it leaves out counts as delivered all the same."""
    on_pending: Literal["error", "supersede", "queue"] = "error"
    """What a new message does on a session on which a run waits: it is refused; the waiting calls end and it takes
    their place; or it is put behind them and read when they are decided. While a run is at work there, the first
    refuses, and the others wait until it returns."""
    tool_error_formatter: ToolErrorFormatter | None = None
    """What the model reads of a rejected call when neither the decision nor a grant says it."""
    tool_not_found_behavior: Literal["return_error_to_model", "raise_error"] = "return_error_to_model"
    handoff_input_filter: HandoffInputFilter | None = None
    """For every handoff that has no filter of its own."""
    max_nesting: int = 8
    """How deep runs of agent tools may be nested in each other."""
    max_tool_concurrency: int | None = None
    """How many bodies of one turn run at the same time; None: all."""
    observers: Sequence[Observer] = ()
    """Who watches: tracing, metrics. Without any, watching costs nothing."""
    trace_metadata: Mapping[str, str] = field(default_factory=dict)
    """Words of yours about this run (a tenant, a ticket), given to the observers: tracing puts them on its spans."""
    started_by: str | None = None
    """Who starts the run, for the record: where four eyes are demanded, somebody else has to say yes to its calls."""
    limits: Limits = Limits()
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
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
        )
