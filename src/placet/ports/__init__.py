"""The ports: what the runtime needs from the outside, as protocols.

Every adapter implements one of these and knows no other. Those to models and to stores stand in files of their own; all
are imported from here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from placet.core.holds import Hold
from placet.facts.codec import JsonObject
from placet.facts.events import AnyFact
from placet.facts.items import Named
from placet.ports.models import (
    Declared,
    Model,
    ModelProvider,
    ModelRequest,
    RawEvent,
    ReadsConversations,
    Reconciled,
    SpeaksAnotherProtocol,
    StreamPart,
    ToolSpec,
)
from placet.ports.stores import (
    MAX_COUNTED,
    OPERATORS,
    DeskStore,
    FeedEntry,
    Found,
    IndexedOperators,
    IndexedRun,
    Lease,
    OldestRequest,
    Page,
    PolicySource,
    RecordStep,
    RecordStore,
    RequestQuery,
    RunQuery,
    Store,
    StoredRecord,
    StoredRun,
    StoreNumbers,
)

__all__ = [  # what stands in other files and is imported from here
    "MAX_COUNTED",
    "OPERATORS",
    "Declared",
    "DeskStore",
    "FeedEntry",
    "Found",
    "Hold",
    "IndexedOperators",
    "IndexedRun",
    "Lease",
    "Model",
    "ModelProvider",
    "ModelRequest",
    "OldestRequest",
    "Page",
    "PolicySource",
    "RawEvent",
    "ReadsConversations",
    "Reconciled",
    "RecordStep",
    "RecordStore",
    "RequestQuery",
    "RunQuery",
    "SpeaksAnotherProtocol",
    "Store",
    "StoreNumbers",
    "StoredRecord",
    "StoredRun",
    "StreamPart",
    "ToolSpec",
]

ToolT_co = TypeVar("ToolT_co", covariant=True)


class Toolset(Protocol[ToolT_co]):
    """Gives an agent tools that are found when a run is driven: those of an MCP server, say."""

    @property
    def name(self) -> str:
        """Distinguishes it from the agent's other toolsets, and is part of what is approved: stable, and chosen
        well."""
        ...

    async def tools_for(self, context: Any, agent: Named) -> Sequence[ToolT_co]:  # Any: the run's RunContextWrapper
        """The tools that this agent has in this run, as they are now. Raises when nobody can tell."""
        ...

    def last_listed(self) -> Sequence[ToolT_co]:
        """The tools as this process last saw them: for checks that cannot wait; empty before the first look."""
        ...

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """Entered as long as it may be used: whatever it holds open is let go with its last user."""
        ...


class Session(Protocol):
    """A conversation that outlives a run: a list of items.

    Its id alone does not name it: two databases may both have a session «1». One that outlives its object says where
    it is kept by a property `kept_in` (a text that names the database, the same in every process): see `HasPlace`.
    """

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


class HasPlace(Protocol):
    """A session that says where it is kept. Without this, a run that waits on it is found by the same object alone."""

    @property
    def kept_in(self) -> str:
        """Names the place: the same for all objects that show the same sessions, another for any other. It is written
        into the run's log, so it holds no secret."""
        ...


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscription is told: one event, the same at every try."""

    id: str
    """The same at every try: by it a receiver knows what it has seen."""
    type: str
    body: bytes
    """JSON."""


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one try."""

    error: str | None = None
    """None: the receiver has it."""
    is_gone: bool = False
    """The receiver wants nothing any more."""


class Channel(Protocol):
    """A way on which one receiver is told. Trouble is an answer, not an exception: it is tried again."""

    async def send(self, message: OutgoingMessage, now: float) -> Delivered: ...


class ReceiptIssuer(Protocol):
    """Signs what is said of an approved call, for the service that performs its effect."""

    async def issue(self, claims: JsonObject, now: float, until: float | None = None) -> str:
        """The token. It counts until then at the latest. ReceiptNotSigned: the call must not begin."""
        ...

    def jwks(self) -> JsonObject:
        """The public keys, for receivers."""
        ...


class DriveObserver(Protocol):
    """Gets what becomes durable while one drive of a run lasts."""

    def on_facts(self, at: float, facts: Sequence[AnyFact]) -> None: ...

    def around_tool_function(self, call_id: str) -> AbstractContextManager[None]:
        """Entered in the context in which a tool function runs: what the tool function reports of itself finds its
        place."""
        ...

    def drive_ended(self, error: BaseException | None) -> None: ...


class Observer(Protocol):
    """Watches runs: tracing, metrics. It decides nothing, and an error in it is its own."""

    def drive_began(
        self, run_id: str, before: Sequence[tuple[float, Sequence[AnyFact]]], metadata: Mapping[str, str]
    ) -> DriveObserver:
        """A drive begins. `before` is the log so far, with times: empty for a new run. `metadata` is the caller's."""
        ...


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    is_serving: bool
    driving: int
    """Runs that this process drives at the moment."""
    limit: int


Drive: TypeAlias = Callable[[str], Awaitable[bool]]
"""Drives one run as far as it goes. False: nothing came of it (another process drives it, its code is not here)."""


class Engine(Protocol):
    """Decides when which run is driven. A doorbell, never the truth: losing or repeating a ring only costs time."""

    async def enqueue(self, run_id: str) -> None:
        """This run has something to do."""
        ...

    async def serve(self, drive: Drive) -> None:
        """Drive runs that have something to do, until cancelled."""
        ...

    async def health(self) -> EngineHealth: ...
