"""The ports: what the runtime needs from the outside, as protocols.

Every adapter implements one of these and knows no other.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from placet.core.holds import Hold as Hold  # noqa: PLC0414  # it is part of the ports: others import it from here
from placet.core.index import RequestRecord, RequestStatus, RunRecord, RunStatus
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.facts.codec import JsonObject
from placet.facts.events import AnyFact, GrantMade, HoldKind, Pattern
from placet.facts.items import ModelResponse, Named
from placet.facts.model_settings import ModelSettings

V = TypeVar("V")
ToolT_co = TypeVar("ToolT_co", covariant=True)


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


class Lease(msgspec.Struct, gc=False):
    """The right to drive a run. A later epoch makes an earlier one void."""

    run_id: str
    epoch: int
    live_until: float = math.inf
    """On the monotonic clock: a driver that finds this in the past must not begin anything. A renewal moves it."""


class StoredRun(msgspec.Struct, frozen=True, gc=False):
    """A run as its store knows it: its log, or, of a run that has ended, perhaps only an outline."""

    length: int
    head: bytes
    log: Log | None
    outline: RunFold | None = None
    """What is left of an ended run whose log is gone: its result and its decisions."""


OPERATORS = "operators"
"""The name of the log of what operators did. No run has such an id."""


class Store(Protocol):
    """Keeps logs. «Correct» is what `placet.testing.StoreContract` says."""

    async def load(self, run_id: str) -> StoredRun | None:
        """What is known of the run: a value that no later append changes."""
        ...

    async def lease(self, run_id: str, driver: object) -> Lease:
        """The right to drive the run, for as long as `driver` lives; RunConflict when another process has it."""
        ...

    async def release(self, lease: Lease, length: int) -> bool:
        """Give the right back, if the log is as long as the driver thinks. False: it has grown: the driver goes on."""
        ...

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        """Add lines behind the end of `log`: all or none, PositionConflict if that is not the end.

        Without a lease it is a decision (or the like) from outside, which the driver will find. With one that
        another process has taken over: RunConflict. `run` is the fold with the lines: indexes may be built from it.
        """
        ...

    async def waiting_on(self, session_key: str) -> Sequence[str]:
        """The runs that wait for people on a session with this key (`RunFold.session_key`), newest first."""
        ...

    async def holds(self) -> Sequence[Hold]:
        """What operators hold back at this moment."""
        ...

    async def four_eyes(self) -> Sequence[Pattern]:
        """Where the person who started a run may not say yes to its calls, at this moment."""
        ...

    async def people(self, names: Iterable[str]) -> Mapping[str, Person]:
        """Those of these names whom the store knows, with their groups, at this moment."""
        ...

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        """The grants that reach beyond the run in which they were made, for this agent."""
        ...

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        """Count one use of a standing grant by this call, once however often it is asked; False when it is used up."""
        ...


class Page(Generic[V]):
    """Some rows, and where the next ones begin."""

    __slots__ = ("cursor", "rows")

    def __init__(self, rows: list[V], cursor: str | None) -> None:
        self.rows = rows
        self.cursor = cursor


class IndexedRun(msgspec.Struct, frozen=True, kw_only=True):
    """All that a store has indexed of a run, by column, as it stands: for the audit, which compares it with the log."""

    run: dict[str, object]
    requests: list[dict[str, object]]


class IndexedOperators(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside the operators' log, as it stands, and what belongs to no run."""

    grants: list[dict[str, object]]
    strays: list[str]
    """Runs that are not listed, and of which lines or requests are there all the same."""


class RequestQuery(msgspec.Struct, frozen=True, kw_only=True):
    status: RequestStatus | None = "pending"
    run_id: str | None = None
    agent: str | None = None
    tool: str | None = None
    cursor: str | None = None
    limit: int = 50
    newest_first: bool = False


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    status: RunStatus | None = None
    agent: str | None = None
    cursor: str | None = None
    limit: int = 50


class FeedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One append, in the order in which the store took them, across all runs."""

    sequence: int
    run_id: str
    position: int
    text: bytes


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Something small that a desk keeps beside the runs: a user, a token, a session, an answer to be repeated."""

    kind: str
    id: str
    """Unique within its kind."""
    data: str
    """JSON."""
    owner: str = ""
    """Whose it is: all records of one owner can be listed and removed together."""
    expires_at: float | None = None
    """From then on it is as if it were not there."""


class RecordStep(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a change: what it has to be, and what it becomes."""

    kind: str
    id: str
    was: str | None
    """Its data; None: there must be none."""
    now: StoredRecord | None
    """None: it is removed. With the data that it had: it only has to be so."""


class RecordStore(Protocol):
    """Keeps records, with what several processes need to agree on one: adding and taking happen once."""

    async def record(self, kind: str, record_id: str) -> StoredRecord | None: ...

    async def records(
        self, kind: str, *, owner: str | None = None, after: str = "", limit: int = 1000
    ) -> list[StoredRecord]:
        """In the order of their ids."""
        ...

    async def add_record(self, record: StoredRecord) -> bool:
        """False, and nothing is changed, when there is one of this kind and id that has not expired."""
        ...

    async def replace_record(self, record: StoredRecord, *, was: str | None = None) -> bool:
        """False when there is none (any more), or when its data is not what it `was`: it is not brought back."""
        ...

    async def take_record(self, kind: str, record_id: str) -> StoredRecord | None:
        """Remove it and give it to exactly one taker."""
        ...

    async def remove_records(self, kind: str, owner: str) -> int:
        """All of this owner; how many."""
        ...

    async def change_records(
        self,
        steps: Sequence[RecordStep],
        facts: Sequence[AnyFact],
        *,
        at: float,
        without: Sequence[tuple[str, str]] = (),
    ) -> bool:
        """Take all steps and write the facts into the operators' log, all or nothing; False, and nothing is changed,
        when a record is not what it has to be. Such changes happen one after the other, in all processes.

        `without`: kind and owner of records that are removed before the steps.
        """
        ...

    async def expire_records(self, limit: int = 1000) -> int:
        """Forget some that have expired; how many."""
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


class OldestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What has waited longest for a person. Its arguments are not shown."""

    id: str
    agent: str
    tool: str
    seconds: float


class StoreNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds at one moment: for metrics, `placet top`, and its operators."""

    at: float
    """When, by the store's clock."""
    driven: int
    """Runs that a process drives."""
    due: int
    """Runs with something to do that no process drives yet."""
    oldest_due: float | None
    """Since when the first of them has something to do."""
    waiting: int
    """Runs that wait for people."""
    running: int
    """Runs that have not ended, do not wait for people, and were not stopped."""
    stopped: int
    """Runs that an error stopped: they wait to be resumed."""
    parked: int
    """Runs that took too many drivers down: they wait for an operator."""
    ended: int
    """Runs that have ended, and were not deleted."""
    ended_last_minute: int
    pending: int
    """Questions that wait for people."""
    oldest_request: OldestRequest | None
    """The one that has waited longest."""

    @property
    def due_seconds(self) -> float:
        """How long the first run that has something to do has waited for a driver."""
        return max(0.0, self.at - self.oldest_due) if self.oldest_due is not None else 0.0


class DeskStore(Store, RecordStore, Protocol):
    """A store that many processes share: what a desk and an engine need beyond driving one run."""

    async def load_recent(self, run_id: str) -> StoredRun | None:
        """What is known of the run, for code that needs only its end: where the store has a cached fold of the log that
        this code can use, the log begins behind it (`log.start`, `log.base`). Otherwise it is the whole log."""
        ...

    async def requests(self, query: RequestQuery) -> Page[RequestRecord]:
        """Oldest first, unless the query says otherwise; a page costs the same however many wait."""
        ...

    async def request(self, request_id: str) -> RequestRecord | None: ...

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        """Newest first."""
        ...

    async def run(self, run_id: str) -> RunRecord | None: ...

    async def runnable(self, now: float, limit: int) -> list[str]:
        """Runs with something to do (news, or a time that has come) that no process drives, longest waiting first."""
        ...

    async def guests_due(self, now: float, limit: int) -> list[str]:
        """Sessions of guests in which something is due, longest first: no process drives them."""
        ...

    async def numbers(self) -> StoreNumbers:
        """What it holds at this moment, for people who look after it."""
        ...

    async def park(self, run_id: str, *, parked: bool) -> None:
        """Take a run out of `runnable`, or put it back with its take-overs forgotten."""
        ...

    async def put_hold(self, hold: Hold, *, over_others: bool = True) -> bool:
        """A second one on the same thing replaces the first; without `over_others` only one that the same person
        placed. Whether it stands now."""
        ...

    async def remove_hold(
        self,
        kind: HoldKind,
        name: str,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
        placed_by: str | None = None,
    ) -> bool:
        """Whether there was one (with `placed_by`: of this person). Every run that has something to do and waited for
        it is runnable again."""
        ...

    async def grants(self) -> list[GrantMade]: ...

    async def put_grant(self, grant: GrantMade) -> None:
        """A standing grant that was made outside of any run, with its entry in the operators' log."""
        ...

    async def revoke_grant(
        self, grant_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool: ...

    async def operators_log(self) -> Log:
        """What no single run's log can say: holds, lifted holds, standing grants and their revocations, which runs
        were erased or deleted, each written with what it did, in a chain of its own. Its `run_id` is OPERATORS."""
        ...

    async def indexed(self, run_id: str) -> IndexedRun | None: ...

    async def indexed_operators(self) -> IndexedOperators: ...

    async def feed(self, after: int, limit: int = 500) -> list[FeedEntry]: ...

    async def latest_sequence(self) -> int:
        """The sequence number of the newest entry of the feed; 0 for an empty store."""
        ...

    async def wait_for_news(self, after: int, seconds: float) -> bool:
        """Wait until the feed has grown beyond `after`, in any process, or until the time is over."""
        ...

    async def erase(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        """Take what the facts of an ended run say out of its log and of all that is indexed of it, for good, and write
        into the operators' log that it was done. The chain of the run's log stays as it was. False: it was erased
        before. UserError while the run has not ended."""
        ...

    async def delete(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        """Forget a run and all that is indexed of it, and write into the operators' log that it was done, with the
        place where its log stood. RunConflict while a process drives it."""
        ...

    async def purge(
        self,
        ended_before: float,
        limit: int = 1000,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
    ) -> int:
        """Forget runs that ended before that time, and write down which, as for `delete`; how many."""
        ...

    async def close(self) -> None: ...


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
