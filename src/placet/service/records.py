"""The record of who did what: every decision, grant, hold, revocation and effect in a store, out of the logs."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterator
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from placet.core.log import Log, read_lines
from placet.core.plan import plan_calls
from placet.facts import events as e
from placet.facts.errors import UserError
from placet.facts.ids import call_id
from placet.ports import OPERATORS, DeskStore, RunQuery
from placet.service.audit import run_ids

PAGE = 200

What: TypeAlias = Literal[
    "approved",
    "rejected",
    "edited",
    "answered",
    "approval revoked",
    "grant made",
    "grant revoked",
    "hold placed",
    "hold lifted",
    "effect begun",
    "effect over",
    "in doubt",
    "cancel asked",
    "run erased",
    "run deleted",
    "user added",
    "user changed",
    "user removed",
    "password changed",
    "link made",
    "link used",
    "link revoked",
    "token made",
    "token revoked",
    "four eyes set",
]

_VERDICTS: dict[e.Verdict, What] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "respond": "answered",
}


_USER: dict[str, What] = {"added": "user added", "changed": "user changed", "removed": "user removed"}
_LINK: dict[str, What] = {"made": "link made", "used": "link used", "revoked": "link revoked"}
_TOKEN: dict[str, What] = {"made": "token made", "revoked": "token revoked"}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody did, or that followed from it."""

    at: float
    what: What
    run_id: str
    """The run whose log says so; `operators` for their own."""
    subject: str
    """The call, the grant, what is held, or the user, link or token."""
    by: str | None = None
    why: str | None = None
    digest: str | None = None
    """What exactly was decided about."""
    detail: str | None = None
    """The tool, the scope of a grant, how a call ended."""


async def records(store: DeskStore, run_id: str | None = None) -> AsyncIterator[Entry]:
    """The operators' log first, then the runs, newest first; or one run alone (`operators`: only their log)."""
    if run_id is None or run_id == OPERATORS:
        for entry in entries_of(await store.operators_log()):
            yield entry
    if run_id is None:
        async for each in run_ids(store):
            async for entry in _of_run(store, each):
                yield entry
    elif run_id != OPERATORS:
        async for entry in _of_run(store, run_id):
            yield entry


async def records_in_time(store: DeskStore) -> AsyncIterator[Entry]:
    """The same of the whole store, oldest first, operators and runs mixed as it happened.

    A run is read when its time has come, so that only what runs beside each other is held in memory at once.
    """
    waiting = [
        _Waiting(entry.at, 0, place, entry) for place, entry in enumerate(entries_of(await store.operators_log()))
    ]
    heapq.heapify(waiting)
    for number, (begins, run_id) in enumerate(await _beginnings(store), 1):
        while waiting and waiting[0].at < begins:
            yield heapq.heappop(waiting).entry
        stored = await store.load(run_id)
        if stored is not None and stored.log is not None:  # it may have been forgotten in between
            for place, entry in enumerate(entries_of(stored.log)):
                heapq.heappush(waiting, _Waiting(entry.at, number, place, entry))
    while waiting:
        yield heapq.heappop(waiting).entry


class _Waiting(NamedTuple):
    """An entry whose turn comes; what happened at the same moment keeps the order of its log."""

    at: float
    log: int
    place: int
    entry: Entry


async def _beginnings(store: DeskStore) -> list[tuple[float, str]]:
    """When each run began, oldest first."""
    found: list[tuple[float, str]] = []
    cursor: str | None = None
    while True:
        page = await store.runs(RunQuery(cursor=cursor, limit=PAGE))
        found += [(row.created_at, row.id) for row in page.rows]
        cursor = page.cursor
        if cursor is None:
            return sorted(found)


async def _of_run(store: DeskStore, run_id: str) -> AsyncIterator[Entry]:
    stored = await store.load(run_id)
    if stored is None or stored.log is None:
        raise UserError(f"There is no run {run_id} in this store.")
    for entry in entries_of(stored.log):
        yield entry


def entries_of(log: Log) -> Iterator[Entry]:
    """What a log says about decisions and what followed from them, in its order."""
    reader, last = _Reader(log.run_id), 0.0
    for record in read_lines(log.lines):
        for fact in record.facts:
            path, bare = (fact.path, fact.fact) if isinstance(fact, e.InChild) else ("", fact)
            yield from reader.entries(record.at, path, bare)
        last = record.at
    yield from reader.erased_endings(last)


class _Reader:
    """Remembers, while a log is read, what its calls were of and which digest was asked about."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._turns: dict[str, int] = {}
        self._tools: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._begun: list[str] = []
        self._is_erased = False

    def erased_endings(self, at: float) -> Iterator[Entry]:
        """Only runs that have ended are erased: what had begun in one was over by its end, however it ended."""
        for call in self._begun if self._is_erased else ():
            yield self._of_call(at, "effect over", call, detail="by then; how and when is erased")

    def entries(self, at: float, path: str, fact: e.PlainFact) -> Iterator[Entry]:
        match fact:
            case e.ResponseReceived():
                self._learn(path, fact)
            case e.CallHeld():
                self._digests[fact.call] = fact.digest
            case e.CallInDoubt():
                self._digests[fact.call] = fact.digest
                yield self._of_call(at, "in doubt", fact.call, why=fact.why)
            case e.DecisionMade():
                self._digests[fact.call] = fact.digest
                grant = f"by grant {fact.grant}" if fact.grant is not None else None
                yield self._of_call(fact.at, _VERDICTS[fact.verdict], fact.call, fact.by, fact.reason, grant)
            case e.DecisionRevoked():
                yield self._of_call(fact.at, "approval revoked", fact.call, fact.by, fact.reason)
            case e.CallsStarted():
                self._begun += [call for call in fact.calls if call not in self._begun]
                for call in fact.calls:
                    yield self._of_call(at, "effect begun", call)
            case e.CallEnded() if fact.outcome in ("finished", "failed"):
                yield self._of_call(at, "effect over", fact.call, detail=fact.outcome)
            case e.Erased():
                self._is_erased = True
            case e.CancelAsked():
                yield self._entry(fact.at, "cancel asked", self._run_id, fact.by, fact.reason)
            case _:
                yield from self._of_operators(fact)

    def _of_operators(self, fact: e.PlainFact) -> Iterator[Entry]:
        match fact:
            case e.GrantMade():
                yield self._of_grant(fact)
            case e.StandingGrantMade():
                where = f"in {fact.run}" if fact.run else "at a desk"
                yield msgspec.structs.replace(self._of_grant(fact.grant), detail=f"{_scope(fact.grant)}, {where}")
            case e.GrantRevoked():
                yield self._entry(fact.at, "grant revoked", fact.id, fact.by, fact.reason)
            case e.HoldPlaced():
                yield self._entry(fact.at, "hold placed", f"{fact.kind} {fact.name}", fact.by, fact.reason)
            case e.RunErased():
                yield self._entry(fact.at, "run erased", fact.run, fact.by, fact.reason, fact.head)
            case e.RunsDeleted():
                yield from self._of_deleted(fact)
            case e.HoldLifted():
                yield self._entry(fact.at, "hold lifted", f"{fact.kind} {fact.name}", fact.by, fact.reason)
            case _:
                yield from self._of_people(fact)

    def _of_people(self, fact: e.PlainFact) -> Iterator[Entry]:
        """Who may what, and who said so."""
        match fact:
            case e.UserChanged():
                detail = None if fact.change == "removed" else _rights(fact)
                yield self._entry(fact.at, _USER[fact.change], fact.name, fact.by, None, detail=detail)
            case e.PasswordChanged():
                how = f"by link {fact.invitation}" if fact.invitation is not None else None
                yield self._entry(fact.at, "password changed", fact.name, fact.by, None, detail=how)
            case e.InvitationChanged():
                whose = f"for {fact.name or 'the first admin'}, {fact.role}"
                yield self._entry(fact.at, _LINK[fact.change], fact.id, fact.by, None, detail=whose)
            case e.TokenChanged():
                whose = f"of {fact.owner}, «{fact.name}», {fact.role}, decides {_spoken(fact.decides)}"
                yield self._entry(fact.at, _TOKEN[fact.change], fact.id, fact.by, None, detail=whose)
            case e.FourEyesSet():
                where = _spoken(fact.patterns) if fact.patterns else "nowhere"
                yield self._entry(fact.at, "four eyes set", where, fact.by, fact.reason)
            case _:
                pass

    def _of_deleted(self, fact: e.RunsDeleted) -> Iterator[Entry]:
        for each in fact.runs:
            lines = "1 line" if each.length == 1 else f"{each.length} lines"
            detail = lines if fact.ended_before is None else f"{lines}, in a purge"
            yield self._entry(fact.at, "run deleted", each.run, fact.by, fact.reason, each.head, detail)

    def _learn(self, path: str, fact: e.ResponseReceived) -> None:
        turn = self._turns[path] = self._turns.get(path, 0) + 1
        for _, call in plan_calls(path, turn, fact.output, set()):
            if call is not None:
                self._tools[call.id] = call.name

    def _of_call(
        self,
        at: float,
        what: What,
        call: str,
        by: str | None = None,
        why: str | None = None,
        detail: str | None = None,
    ) -> Entry:
        told = ", ".join(filter(None, (self._tools.get(call), detail)))
        return Entry(
            at=at,
            what=what,
            run_id=self._run_id,
            subject=call_id(self._run_id, call),
            by=by,
            why=why,
            digest=self._digests.get(call),
            detail=told or None,
        )

    def _of_grant(self, grant: e.GrantMade) -> Entry:
        return self._entry(grant.at, "grant made", grant.id, grant.by, grant.reason, grant.fingerprint, _scope(grant))

    def _entry(
        self,
        at: float,
        what: What,
        subject: str,
        by: str | None,
        why: str | None,
        digest: str | None = None,
        detail: str | None = None,
    ) -> Entry:
        return Entry(
            at=at, what=what, run_id=self._run_id, subject=subject, by=by, why=why, digest=digest, detail=detail
        )


def _rights(fact: e.UserChanged) -> str:
    switched = "" if fact.is_active else ", switched off"
    return f"{fact.role}, decides {_spoken(fact.decides)}{switched}"


def _spoken(patterns: list[e.Pattern]) -> str:
    return ", ".join(f"{agent}:{tool}" for agent, tool in patterns) or "nothing"


def _scope(grant: e.GrantMade) -> str:
    return f"always {grant.verdict} {grant.tool} for {grant.agent}"
