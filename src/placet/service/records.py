"""The record of who did what: every decision, grant, hold, revocation and effect in a store, out of the logs."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias, assert_never

import msgspec

from placet.core.log import Log, read_lines
from placet.core.operators import Act, ActKind, OperatorsFact, act_of_grant, acts_of
from placet.core.policy import text_of_heard
from placet.core.story import Story
from placet.core.story_tree import (
    AnyStep,
    Asked,
    Decided,
    Ended,
    Escalated,
    Moved,
    Note,
    ReportedLate,
    Required,
    Revoked,
    RulesHeard,
    Validated,
    Voted,
    VoteWithdrawn,
)
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import UserError
from placet.facts.events import Record
from placet.facts.ids import call_id
from placet.facts.requirements import Assurance, needs_text
from placet.facts.verdict_words import WORDS, DecidedStatus
from placet.ports import OPERATORS, DeskStore, RunQuery
from placet.service.audit import run_ids

PAGE = 200

What: TypeAlias = (
    Literal[
        DecidedStatus,
        "approval revoked",
        "approvers required",
        "policy judged",
        "vote cast",
        "vote taken back",
        "effect begun",
        "effect over",
        "in doubt",
        "reported late",
        "released",
        "cancel asked",
    ]
    | ActKind
)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person did, or that followed from it."""

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
    grant: str | None = None
    """The standing decision that decided: `by` is who made it, and has perhaps not seen this call."""
    asked: JsonObject | None = None
    """Of a call that a person edited, what was asked about."""
    runs: JsonObject | None = None
    """Of such a call, what they made of it: that is what runs."""
    via: str | None = None
    """Of a decision, vote or standing decision: through which door it came; None: from a program, or older code."""
    assurance: Assurance | None = None
    """… and how sure it is that it was this person."""


async def records(store: DeskStore, run_id: str | None = None) -> AsyncIterator[AuditEntry]:
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


async def records_in_time(store: DeskStore) -> AsyncIterator[AuditEntry]:
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
    entry: AuditEntry


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


async def _of_run(store: DeskStore, run_id: str) -> AsyncIterator[AuditEntry]:
    stored = await store.load(run_id)
    if stored is None or stored.log is None:
        raise UserError(f"There is no run {run_id} in this store.")
    for entry in entries_of(stored.log):
        yield entry


def entries_of(log: Log) -> Iterator[AuditEntry]:
    """What a log says about decisions and what followed from them, in its order."""
    records = read_lines(log.lines)
    if log.run_id != OPERATORS:
        yield from _Reader(log.run_id).entries(records)
        return
    for record in records:
        for fact in record.facts:
            if isinstance(fact, OperatorsFact):
                yield from (_entry(OPERATORS, act) for act in acts_of(fact))


def _entry(run_id: str, act: Act) -> AuditEntry:
    return AuditEntry(run_id=run_id, **msgspec.structs.asdict(act))


class _Reader:
    """What the story of a run says about decisions and what followed from them."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._story = Story()

    def entries(self, records: Iterable[Record]) -> Iterator[AuditEntry]:
        begun: dict[str, None] = {}
        for entry in self._story.read(records):
            if isinstance(entry, Note):
                yield from self._of_note(entry)
                continue
            if isinstance(entry, Moved) and entry.to == "started":
                begun[entry.call] = None
            yield from self._of_step(entry)
        # only runs that have ended are erased: what had begun in one was over by its end, however it ended
        for call in begun if self._story.root.is_erased else ():
            at = self._story.root.latest
            yield self._of_call(at, "effect over", call, detail="by then; how and when is erased")

    def _of_note(self, note: Note) -> Iterator[AuditEntry]:
        if note.grant is not None:
            yield _entry(self._run_id, act_of_grant(note.grant))
        elif note.kind == "grant_over":
            yield _entry(self._run_id, Act(note.at, "grant revoked", note.text, note.by, note.reason))
        elif note.kind == "cancel":
            run_id = self._run_id
            yield AuditEntry(
                at=note.at, what="cancel asked", run_id=run_id, subject=run_id, by=note.by, why=note.reason
            )

    def _of_step(self, step: AnyStep) -> Iterator[AuditEntry]:
        match step:
            case Asked():
                if step.kind == "in_doubt":
                    yield self._of_call(step.at, "in doubt", step.call, why=step.why)
            case Decided():
                yield self._of_decision(step)
            case Revoked():
                yield self._of_call(step.at, "approval revoked", step.call, step.by, step.reason)
            case Required() | Voted() | VoteWithdrawn():
                yield self._of_vote(step)
            case Moved():
                if step.to == "started":
                    yield self._with_edit(self._of_call(step.at, "effect begun", step.call), step.call)
            case Ended():
                yield from self._of_end(step)
            case ReportedLate():
                yield self._of_call(step.at, "reported late", step.call, detail=step.outcome)
            case RulesHeard():
                heard = f"{text_of_heard(step.fact)}; policy {step.fact.version}"
                yield self._of_call(step.at, "policy judged", step.call, detail=heard)
            case Validated() | Escalated():
                pass
            case never:
                assert_never(never)

    def _of_end(self, step: Ended) -> Iterator[AuditEntry]:
        if step.outcome in ("finished", "failed"):
            yield self._of_call(step.at, "effect over", step.call, detail=step.outcome)
        elif step.outcome == "released":
            yield self._of_call(step.at, "released", step.call, detail="what became of it is unknown here")

    def _of_vote(self, step: Required | Voted | VoteWithdrawn) -> AuditEntry:
        match step:
            case Required():
                return self._of_call(step.at, "approvers required", step.call, detail=needs_text(step.requirement))
            case Voted(vote=vote):
                words: list[str] = [vote.verdict]
                words += [f"for {vote.on_behalf_of}"] if vote.on_behalf_of is not None else []
                words += ["going ahead alone"] if vote.breaks_glass else []
                entry = self._of_call(step.at, "vote cast", step.call, vote.by, vote.reason, ", ".join(words))
                return msgspec.structs.replace(entry, via=vote.via, assurance=vote.assurance)
            case VoteWithdrawn():
                return self._of_call(step.at, "vote taken back", step.call, step.by, step.reason)
            case never:
                assert_never(never)

    def _of_decision(self, step: Decided) -> AuditEntry:
        made = step.decision
        grant = f"by grant {made.grant}" if made.grant is not None else None
        entry = self._of_call(step.at, WORDS[made.verdict].status, step.call, made.by, made.reason, grant)
        entry = msgspec.structs.replace(entry, grant=made.grant, via=made.via, assurance=made.assurance)
        return self._with_edit(entry, step.call) if made.verdict == "edit" else entry

    def _with_edit(self, entry: AuditEntry, local: str) -> AuditEntry:
        call = self._story.call(local)
        if call.edited is None:
            return entry
        return msgspec.structs.replace(entry, asked=parse_arguments(call.arguments), runs=call.edited)

    def _of_call(
        self,
        at: float,
        what: What,
        local: str,
        by: str | None = None,
        why: str | None = None,
        detail: str | None = None,
    ) -> AuditEntry:
        call = self._story.call(local)
        return AuditEntry(
            at=at,
            what=what,
            run_id=self._run_id,
            subject=call_id(self._run_id, local),
            by=by,
            why=why,
            digest=call.digest,
            detail=", ".join(filter(None, (call.name, detail))) or None,
        )
