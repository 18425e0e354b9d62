"""The ports to stores: logs, what is indexed of them, and records beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from placet.core.budget import Spent, TakenShare, Taking
from placet.core.holds import Hold
from placet.core.index import RequestRecord, RequestStatus, RunRecord, RunStatus
from placet.core.log import Line, Log
from placet.core.policy import Policy
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.facts.events import AnyFact, GrantMade, HoldKind, Pattern
from placet.facts.voting_settings import VotingSettings

V = TypeVar("V")


class Lease(msgspec.Struct, gc=False):
    """The right to drive a run. A later epoch makes an earlier one void."""

    run_id: str
    epoch: int
    live_until: float = math.inf
    """On the monotonic clock: a driver that finds this in the past must not begin anything. A renewal moves it."""
    stands_at: tuple[int, bytes] | None = None
    """Length and head of the log when the right was given, where the store says so (every store of a desk does): a
    driver that has just read this very log need not read it again."""
    ends_at: int | None = None
    """The driver is done when the log is that long: a store may give the right back in the append that makes it so."""
    is_given_back: bool = False
    """The store did: nothing can be appended under this lease any more."""


class StoredRun(msgspec.Struct, frozen=True, gc=False):
    """A run as its store knows it: its log, or, of a run that has ended, perhaps only an outline."""

    length: int
    head: bytes
    log: Log | None
    outline: RunFold | None = None
    """What is left of an ended run whose log is gone: its result and its decisions."""
    takeovers: int = 0
    """How many drivers in a row died with it, where the store counts them and was asked by `load_recent`."""


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

    async def voting_settings(self) -> VotingSettings:
        """Who has to approve at which tool, who votes for whom, and who is on call, at this moment."""
        ...

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        """The grants that reach beyond the run in which they were made, for this agent."""
        ...

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        """Count one use of a standing grant by this call, once however often it is asked; False when it is used up."""
        ...

    async def spent(self, takings: Sequence[Taking]) -> Mapping[Taking, Spent]:
        """What is taken of budgets at this moment, as far as it concerns what calls would take. An append that holds a
        `BudgetTaken` takes in its own transaction, or raises BudgetExhausted and writes nothing."""
        ...

    async def shares(self, budget: str, at: float) -> Sequence[TakenShare]:
        """What is taken of a budget and may still count, the largest first."""
        ...


class PolicySource(Protocol):
    """Where the policy in force is found. `placet.policy.PolicyFile` reads it from a file that may change."""

    def current(self) -> Policy:
        """The policy in force at this moment. It waits for nothing."""
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


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what a search found, and how much there is."""

    rows: list[RequestRecord]
    cursor: str | None
    total: int
    """Counted up to a limit, `MAX_COUNTED`: there may be more."""


MAX_COUNTED = 10_000
"""Rows that are counted for a total: further, «10000 or more» is said."""


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

    async def count_requests(self, query: RequestQuery, most: int = MAX_COUNTED) -> int:
        """How many requests the query's conditions hold for, counted up to `most`."""
        ...

    async def index_words(self, words: Mapping[str, Sequence[str]]) -> None:
        """By which words (`core.words`) each of these requests is found from now on. One that is gone, or whose run was
        erased, is passed over. What is erased or deleted later takes its words along."""
        ...

    async def search(self, words: Sequence[str], query: RequestQuery) -> Found:
        """The requests of a query that have all words, or words that begin with them, as far as they are indexed. The
        words are as `core.words.words_asked` gives them; none: nothing is found."""
        ...

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

    async def give_back(
        self,
        run_id: str,
        call: str,
        budget: str | None = None,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
    ) -> bool:
        """What a call took of a budget (of all) counts no more, and the operators' log says so. False: it took none."""
        ...

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
