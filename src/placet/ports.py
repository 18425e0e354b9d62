"""The ports: what the runtime needs from the outside, as protocols.

Every adapter implements one of these and knows no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from placet.codec import JsonObject
from placet.core.log import Log
from placet.core.state import RunFold
from placet.events import GrantMade
from placet.items import ModelResponse
from placet.model_settings import ModelSettings


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told about it."""

    name: str
    description: str
    params_json_schema: Mapping[str, object]
    strict: bool = True


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """All that a model needs to answer once."""

    input: list[JsonObject]
    system_instructions: str | None = None
    tools: Sequence[ToolSpec] = ()
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    output_schema: Mapping[str, object] | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class RawEvent:
    """Something that a model said before its response was complete: a delta of text, say. Not a fact of the run."""

    data: Any  # Any: the provider's own event


StreamPart: TypeAlias = RawEvent | ModelResponse


class Model(Protocol):
    """A model answers requests. One that certainly did not take a request raises `placet.RequestNotTaken`."""

    async def get_response(self, request: ModelRequest) -> ModelResponse: ...

    def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        """The same, piece by piece; the last part is the whole response."""
        ...


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a conversation shows of a request whose answer was lost."""

    taken: bool
    response: ModelResponse | None = None


class ReadsConversations(Protocol):
    """A model that can look into a server conversation. Without it, a lost request there needs a person's word."""

    async def find_request(self, request: ModelRequest) -> Reconciled | None:
        """Whether the conversation holds what this request carried; None when that cannot be told."""
        ...


class Session(Protocol):
    """A conversation that outlives a run: a list of items."""

    @property
    def session_id(self) -> str: ...

    async def get_items(self, limit: int | None = None) -> list[JsonObject]:
        """The items, oldest first; with a limit the newest so many."""
        ...

    async def add_items(self, items: Sequence[JsonObject]) -> None: ...

    async def pop_item(self) -> JsonObject | None:
        """Take the newest item away."""
        ...

    async def clear_session(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a run. A later epoch makes an earlier one void."""

    run_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as its store knows it: its log, or, of a run that has ended, perhaps only an outline."""

    length: int
    head: bytes
    log: Log | None
    outline: RunFold | None = None
    """What is left of an ended run whose log is gone: its result and its decisions."""


class Store(Protocol):
    """Keeps logs. «Correct» is what `placet.testing.StoreContract` says."""

    async def load(self, run_id: str) -> StoredRun | None:
        """What is known of the run: a value that no later append changes."""
        ...

    async def lease(self, run_id: str, driver: object) -> Lease:
        """The right to drive the run, for as long as `driver` lives; RunConflict when somebody else has it."""
        ...

    async def release(self, lease: Lease) -> None: ...

    async def append(self, lease: Lease, log: Log, lines: Sequence[tuple[bytes, bytes]], run: RunFold) -> None:
        """Add lines (each with the head after it) behind the end of `log`: all or none, PositionConflict if that is
        not the end.

        `run` is the fold with the lines: indexes may be built from it.
        """
        ...

    async def waiting_on(self, session_id: str) -> str | None:
        """The run that waits for people on this session, if there is one."""
        ...

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        """The grants that reach beyond the run in which they were made, for this agent."""
        ...

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        """Count one use of a standing grant by this call, once however often it is asked; False when it is used up."""
        ...
