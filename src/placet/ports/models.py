"""The ports to models: what a model is asked, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.items import ModelResponse
from placet.facts.model_settings import ModelSettings


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model reads about it."""

    name: str
    description: str
    params_json_schema: Mapping[str, object]
    strict: bool = True
    native: Mapping[str, object] | None = None
    """How a provider that has this very tool is told of it, in its own words. Any other is told of a function."""
    more: Mapping[str, object] | None = None
    """What only OpenAI's Responses API can be told of a function: who may call it, whether it is loaded later."""
    namespace: str | None = None
    """The group that it is in, and with which its name begins."""
    namespace_description: str | None = None


class Declared(msgspec.Struct, frozen=True):
    """The declarations of the agent that asks: objects, where a request holds what a provider gets of them."""

    tools: Sequence[Any] = ()
    handoffs: Sequence[Any] = ()
    output_type: Any = None
    config: Any = None


class ModelRequest(msgspec.Struct, frozen=True):
    """All that a model needs to answer once."""

    input: list[JsonObject]
    system_instructions: str | None = None
    tools: Sequence[ToolSpec] = ()
    model_settings: ModelSettings = msgspec.field(default_factory=ModelSettings)
    output_schema: Mapping[str, object] | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None
    hosted_tools: Sequence[Mapping[str, object]] = ()
    """Tools that the provider runs itself, declared in its own words. A model whose provider has none refuses them."""
    after: str | None = None
    """In a conversation: the id of its newest item before this request; empty: it was empty; None: it was not read."""
    prompt: Mapping[str, object] | None = None
    """A prompt that the provider keeps, by its id. A model whose provider keeps none refuses it."""
    output_is_strict: bool | None = None
    """Whether the provider is to hold the model to the output's schema; None: wherever it can."""
    declared: Declared | None = None
    """What the parts of this request were declared by, for models that speak another protocol."""


class RawEvent(msgspec.Struct, frozen=True):
    """Something that a model said before its response was complete: a delta of text, say. Not a fact of the run."""

    data: Any  # Any: the provider's own event


StreamPart: TypeAlias = RawEvent | ModelResponse


class Model(Protocol):
    """A model answers requests. One that certainly did not take a request raises `placet.RequestNotTaken`.

    A model that never changes the items it is given may say so with `leaves_input_alone = True`, and spares a copy of
    the history for each request. One whose server keeps no conversations says `keeps_history = False`: a run that
    counts on it is refused before anything is sent.
    """

    async def get_response(self, request: ModelRequest) -> ModelResponse: ...

    def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """The same, piece by piece; the last part is the whole response."""
        ...


@runtime_checkable
class SpeaksAnotherProtocol(Protocol):
    """A model of another library. What this gives is asked in its place."""

    def as_placet_model(self) -> Model: ...


@runtime_checkable
class ModelProvider(Protocol):
    """Says which model a name means."""

    def get_model(self, model_name: str | None) -> Model:
        """The model with this name; None: the provider's default."""
        ...


class Reconciled(msgspec.Struct, frozen=True):
    """What a conversation shows of a request whose answer was lost."""

    taken: bool
    response: ModelResponse | None = None


class ReadsConversations(Protocol):
    """A model that can look into a server conversation. Without it, a lost request there needs a person's decision."""

    async def find_request(self, request: ModelRequest) -> Reconciled | None:
        """Whether the conversation holds what this request carried; None when that cannot be told."""
        ...

    async def newest_item(self, conversation_id: str) -> str | None:
        """The id of the conversation's newest item, so that what a lost request left there can be told from what was
        there before; empty for an empty conversation, None when that cannot be told."""
        ...
