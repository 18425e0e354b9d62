"""The store on SQL: all of the `DeskStore` port but what a dialect does in its own way.

What is done is said as `Steps`, which know no database. A dialect executes them: those that read where it reads, those
that write in one transaction.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import msgspec

from placet.clock import Clock
from placet.core.budget import KEPT_AFTER, Spent, TakenShare, Taking
from placet.core.index import RequestRecord, RunRecord
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.facts.events import (
    AnyFact,
    BudgetGivenBack,
    GrantMade,
    GrantRevoked,
    HoldKind,
    HoldLifted,
    Pattern,
    RunErased,
    RunsDeleted,
    StandingGrantMade,
)
from placet.facts.ids import call_key, key_of_request
from placet.facts.voting_settings import VotingSettings
from placet.ports import (
    MAX_COUNTED,
    FeedEntry,
    Found,
    Hold,
    IndexedOperators,
    IndexedRun,
    Lease,
    Page,
    RecordStep,
    RequestQuery,
    RunQuery,
    StoredRecord,
    StoredRun,
    StoreNumbers,
)
from placet.stores.people import people_of
from placet.stores.sql import budgets, loading, searching
from placet.stores.sql.appending import Append, append_of
from placet.stores.sql.forgetting import delete, erase, purge
from placet.stores.sql.leases import LeaseAnswer, LeaseBook, driven_by, new_owner, pause_after_giving_up
from placet.stores.sql.news import NewsSignal
from placet.stores.sql.operators import (
    FOUR_EYES,
    SETTING,
    VOTING,
    audited,
    change_records,
    keep_grant,
    placed,
    read_patterns,
    read_records,
    read_voting,
    revoke_grant,
    whole_log,
)
from placet.stores.sql.rows import (
    LAST,
    after_cursor,
    check_limit,
    check_status,
    filtered,
    indexed_operators,
    indexed_run,
    page_of,
    read_grant,
    read_numbers,
    read_request,
    read_run,
    status_filter,
)
from placet.stores.sql.statements import Given, Row, Statement, Steps, one

P = ParamSpec("P")
V = TypeVar("V")


class SQLStore(ABC):
    """What a store does, by named statements. A dialect says how statements are executed, and how a run is appended to
    and leased: there the two differ on purpose."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- what a dialect adds ----------------------------------------------------------------------------------------

    @abstractmethod
    async def _connect(self) -> None:
        """Open what the first use would open."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def _read(self, work: Callable[P, Steps[V]], *given: P.args, **named: P.kwargs) -> V:
        """Execute steps that only read."""

    @abstractmethod
    async def _write(self, work: Callable[Concatenate[bool, P], Steps[V]], *given: P.args, **named: P.kwargs) -> V:
        """Execute steps in one transaction, all or nothing. `work` is first told whether it was tried before: then it
        may have been done, and only the answer was lost."""

    @abstractmethod
    async def _change(self, name: str, given: Given) -> list[Row]:
        """Execute one statement that writes and bears being executed twice."""

    @abstractmethod
    async def _append(self, append: Append) -> None: ...

    @abstractmethod
    async def _take_lease(self, run_id: str, owner: str, gone: int | None, ttl: float) -> LeaseAnswer:
        """`gone` is an epoch that need not be respected."""

    @abstractmethod
    async def _end_lease(self, run_id: str, epoch: int, length: int, pause: float) -> bool: ...

    @abstractmethod
    def _forget_owner(self, run_id: str, owner: str) -> None:
        """Give back, in the background, a lease that may have been granted to an owner who did not wait for it."""

    @abstractmethod
    async def _use_grant(self, grant_id: str, call_id: str, uses: int | None) -> bool: ...

    @abstractmethod
    def _words_wanted(self, words: Sequence[str]) -> str:
        """How the dialect's own search is asked for all of these beginnings of words."""

    @abstractmethod
    def _leases(self) -> LeaseBook: ...

    @abstractmethod
    def _news(self) -> NewsSignal:
        """What is notified of news; from now on, also of other processes' news, where one can listen for them."""

    @abstractmethod
    def _pause_between_looks(self, *, is_written: bool) -> float:
        """How many seconds to wait for a notification. `is_written`: there is news that is not settled yet."""

    async def _rows(self, name: str, given: Given | None = None, filters: str = "") -> list[Row]:
        return await self._read(one, name, given or {}, filters)

    def _at(self, at: float | None) -> float:
        return self._clock.now() if at is None else at

    # -- driving a run ----------------------------------------------------------------------------------------------

    async def load(self, run_id: str) -> StoredRun | None:
        return await self._read(loading.load, run_id)

    async def load_recent(self, run_id: str) -> StoredRun | None:
        return await self._read(loading.load_recent, run_id)

    async def lease(self, run_id: str, driver: object) -> Lease:
        book = self._leases()
        asked_at = book.now()
        owner = new_owner()
        try:
            answer = await self._take_lease(run_id, owner, book.epoch_of_dead_driver(run_id), book.ttl)
        except asyncio.CancelledError:
            self._forget_owner(run_id, owner)
            raise
        if answer.epoch is None:
            raise driven_by(run_id, answer.holder or "")
        lease = book.add(run_id, answer.epoch, driver, asked_at)
        lease.stands_at = (answer.length, answer.head)
        return lease

    async def release(self, lease: Lease, length: int) -> bool:
        book = self._leases()
        if await self._end_lease(lease.run_id, lease.epoch, length, pause_after_giving_up(book.ttl)):
            book.remove(lease)
            return True
        return False

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        append = append_of(lease, log, lines, run)
        await self._append(append)
        if append.gives_back and lease is not None:
            lease.is_given_back = True
            self._leases().remove(lease)
        if append.fold is not None:
            log.cached_at = append.fold.position

    async def waiting_on(self, session_key: str) -> Sequence[str]:
        return [run_id for (run_id,) in await self._rows("waiting_on", {"session": session_key})]

    # -- grants and holds -------------------------------------------------------------------------------------------

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        return [read_grant(data) for (data,) in await self._rows("standing_grants", {"agent": agent})]

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        return await self._use_grant(grant.id, call_id, grant.uses)

    async def grants(self) -> list[GrantMade]:
        return [read_grant(data) for (data,) in await self._rows("all_grants")]

    async def put_grant(self, grant: GrantMade) -> None:
        await self._write(audited, grant.at, StandingGrantMade("", grant), keep_grant(grant))

    async def revoke_grant(
        self, grant_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        revoked = GrantRevoked(grant_id, by, self._at(at), reason)
        return await self._write(revoke_grant, revoked)

    # -- budgets ----------------------------------------------------------------------------------------------------

    async def spent(self, takings: Sequence[Taking]) -> Mapping[Taking, Spent]:
        return await self._read(budgets.spent, takings)

    async def shares(self, budget: str, at: float) -> Sequence[TakenShare]:
        return await self._read(budgets.shares_of, budget, at)

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
        fact = BudgetGivenBack(run_id, call, budget, by, self._at(at), reason)
        return await self._write(budgets.give_back, fact, call_key(run_id, call))

    async def put_hold(self, hold: Hold, *, over_others: bool = True) -> bool:
        given = msgspec.structs.asdict(hold) | {"over_others": over_others}
        return await self._write(audited, hold.at, placed(hold), Statement("put_hold", given))

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
        lifted = HoldLifted(kind, name, by, self._at(at), reason)
        remove = Statement("remove_hold", {"kind": kind, "name": name, "placed_by": placed_by})
        wake = Statement("wake_held", {"name": name}, "AND id = :name" if kind == "run" else "")
        return await self._write(audited, lifted.at, lifted, remove, wake)

    async def operators_log(self) -> Log:
        return whole_log(await self._rows("operators_log"))

    async def indexed(self, run_id: str) -> IndexedRun | None:
        given = {"id": run_id}
        return indexed_run(await self._rows("indexed_run", given), await self._rows("indexed_requests", given))

    async def indexed_operators(self) -> IndexedOperators:
        return indexed_operators(await self._rows("indexed_grants"), await self._rows("strays"))

    async def holds(self) -> list[Hold]:
        rows = await self._rows("holds")
        return [Hold(kind=kind, name=name, by=by, at=at, reason=reason) for kind, name, by, at, reason in rows]

    # -- lists ------------------------------------------------------------------------------------------------------

    async def requests(self, query: RequestQuery) -> Page[RequestRecord]:
        check_status(query.status, "request")
        limit = check_limit(query.limit)
        given = {
            "after": after_cursor(query.cursor, LAST if query.newest_first else 0),
            "limit": limit + 1,
            "run_id": query.run_id,
            "status": query.status,
            "agent": query.agent,
            "tool": query.tool,
        }
        name = "requests_newest" if query.newest_first else "requests"
        rows = await self._rows(name, given, filtered(given, "run_id", "status", "agent", "tool"))
        return page_of(rows, limit, lambda row: int(row[0]), lambda row: read_request(*row[1:]))

    async def request(self, request_id: str) -> RequestRecord | None:
        rows = await self._rows("request", {"id": key_of_request(request_id)})
        return read_request(*rows[0]) if rows else None

    async def count_requests(self, query: RequestQuery, most: int = MAX_COUNTED) -> int:
        return await self._read(searching.count, query, most)

    async def index_words(self, words: Mapping[str, Sequence[str]]) -> None:
        if words:
            await self._write(searching.keep_words, {key_of_request(each): found for each, found in words.items()})

    async def search(self, words: Sequence[str], query: RequestQuery) -> Found:
        if not words:
            return Found(rows=[], cursor=None, total=0)
        return await self._read(searching.search, self._words_wanted(words), query)

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        check_status(query.status, "run")
        limit = check_limit(query.limit)
        given = {"before": after_cursor(query.cursor, LAST), "limit": limit + 1, "agent": query.agent}
        rows = await self._rows("runs", given, status_filter(query.status) + filtered(given, "agent"))
        return page_of(rows, limit, lambda row: int(row[0]), read_run)

    async def run(self, run_id: str) -> RunRecord | None:
        rows = await self._rows("run", {"id": run_id})
        return read_run(rows[0]) if rows else None

    async def runnable(self, now: float, limit: int) -> list[str]:
        return [run_id for (run_id,) in await self._rows("runnable", {"due": now, "limit": limit})]

    async def guests_due(self, now: float, limit: int) -> list[str]:
        return [run_id for (run_id,) in await self._rows("guests_due", {"due": now, "guests": "%/%", "limit": limit})]

    async def numbers(self) -> StoreNumbers:
        (row,) = await self._rows("numbers")
        return read_numbers(row)

    async def park(self, run_id: str, *, parked: bool) -> None:
        await self._change("park", {"id": run_id, "parked": parked})

    # -- the feed ---------------------------------------------------------------------------------------------------

    async def feed(self, after: int, limit: int = 500) -> list[FeedEntry]:
        rows = await self._rows("feed", {"after": after, "limit": limit})
        return [FeedEntry(sequence=each[0], run_id=each[1], position=each[2], text=each[3]) for each in rows]

    async def latest_sequence(self) -> int:
        ((last,),) = await self._rows("last_sequence")
        return int(last)

    async def wait_for_news(self, after: int, seconds: float) -> bool:
        news = self._news()
        give_up = time.monotonic() + seconds
        while True:
            notified = news.wait()
            ((is_settled, is_written),) = await self._rows("news", {"after": after})
            left = give_up - time.monotonic()
            if is_settled or left <= 0:
                notified.cancel()
                return bool(is_settled)
            pause = self._pause_between_looks(is_written=bool(is_written))
            await asyncio.wait([notified], timeout=min(left, pause))
            notified.cancel()

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def erase(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        return await self._erase(RunErased(run_id, by, self._at(at), reason, 0, ""))

    async def _erase(self, wanted: RunErased) -> bool:
        return await self._write(erase, wanted)

    async def delete(
        self, run_id: str, *, by: str | None = None, at: float | None = None, reason: str | None = None
    ) -> bool:
        return await self._write(delete, run_id, RunsDeleted([], by, self._at(at), reason))

    async def purge(
        self,
        ended_before: float,
        limit: int = 1000,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
    ) -> int:
        return await self._write(purge, limit, RunsDeleted([], by, self._at(at), reason, ended_before))

    # -- records ----------------------------------------------------------------------------------------------------

    async def record(self, kind: str, record_id: str) -> StoredRecord | None:
        return _first(await self._rows("record", {"kind": kind, "id": record_id}))

    async def records(
        self, kind: str, *, owner: str | None = None, after: str = "", limit: int = 1000
    ) -> list[StoredRecord]:
        given = {"kind": kind, "owner": owner, "after": after, "limit": limit}
        return read_records(await self._rows("records", given, filtered(given, "owner")))

    async def add_record(self, record: StoredRecord) -> bool:
        return bool(await self._change("add_record", msgspec.structs.asdict(record)))

    async def replace_record(self, record: StoredRecord, *, was: str | None = None) -> bool:
        return bool(await self._change("replace_record", msgspec.structs.asdict(record) | {"was": was}))

    async def take_record(self, kind: str, record_id: str) -> StoredRecord | None:
        return _first(await self._change("take_record", {"kind": kind, "id": record_id}))

    async def remove_records(self, kind: str, owner: str) -> int:
        return len(await self._change("remove_records", {"kind": kind, "owner": owner}))

    async def change_records(
        self,
        steps: Sequence[RecordStep],
        facts: Sequence[AnyFact],
        *,
        at: float,
        without: Sequence[tuple[str, str]] = (),
    ) -> bool:
        return await self._write(change_records, steps, facts, at, without)

    async def people(self, names: Iterable[str]) -> Mapping[str, Person]:
        return await people_of(self, names)

    async def four_eyes(self) -> Sequence[Pattern]:
        return read_patterns(await self.record(SETTING, FOUR_EYES))

    async def voting_settings(self) -> VotingSettings:
        return read_voting(await self.record(SETTING, VOTING))

    async def expire_records(self, limit: int = 1000) -> int:
        await self._write(budgets.forget_old, self._at(None) - KEPT_AFTER, limit)
        return len(await self._change("expire_records", {"limit": limit}))


def _first(rows: Sequence[Row]) -> StoredRecord | None:
    found = read_records(rows)
    return found[0] if found else None
