"""The audit of logs: each run's chain checked offline, and heads that are kept elsewhere compared with what is there.

The chain itself finds a changed, reordered or inserted line, and what is listed beside a log is compared with what the
log says. A tail that was cut off, or a whole log that was
written again, looks whole by itself: it is found by comparing with heads that were taken earlier and kept where a
forger does not reach.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import chain
from typing import Literal

import msgspec

from placet.core.fold import fold
from placet.core.log import Log, read_lines
from placet.core.operators import Deletion, Operators, operators_of
from placet.core.snapshot import UnusableFold, dump, is_between_turns, restore
from placet.core.state import RunFold
from placet.core.story import story_of
from placet.facts.errors import PlacetError, UserError
from placet.facts.events import RunErased
from placet.ports import OPERATORS, DeskStore, RunQuery
from placet.service.index_audit import index_problem, operators_problem


class Head(msgspec.Struct, frozen=True):
    """Where a run's log stood: kept elsewhere, it proves what was there."""

    run_id: str
    length: int
    digest: str

    def line(self) -> str:
        return f"{self.run_id} {self.length} {self.digest}"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    verdict: Literal["whole", "deleted", "altered", "unreadable", "cut", "rewritten", "missing", "restored"]
    message: str = ""
    erased: RunErased | None = None
    """Who erased what the run said, when and why: its chain is whole without it."""
    deleted: Deletion | None = None
    """Who deleted the run, when and why."""

    @property
    def is_whole(self) -> bool:
        """Nothing is wrong: the log is what it was, or was deleted by a person, and that is recorded."""
        return self.verdict in ("whole", "deleted")


def parse_heads(text: str) -> list[Head]:
    """Heads as `placet audit head` prints them."""
    found: list[Head] = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) != 3 or not parts[1].isdigit():
            raise UserError(f"Line {number} of the heads is not 'run length digest': {line[:80]!r}.")
        found.append(Head(parts[0], int(parts[1]), parts[2]))
    return found


async def heads(store: DeskStore) -> AsyncIterator[Head]:
    """Of the operators' log, if there is anything in it, and of every run's."""
    log = await store.operators_log()
    if len(log):
        yield Head(OPERATORS, len(log), log.head.hex())
    async for run_id in run_ids(store):
        stored = await store.load(run_id)
        if stored is not None:
            yield Head(run_id, stored.length, stored.head.hex())


async def verify(store: DeskStore, kept: Iterable[Head] = ()) -> AsyncIterator[Verdict]:
    """Check the operators' log, every run in the store, and every head that was kept."""
    by_run: dict[str, list[Head]] = {}
    for head in kept:
        by_run.setdefault(head.run_id, []).append(head)
    of_operators, operators = await _operators(store, by_run.pop(OPERATORS, []))
    if of_operators is not None:
        yield of_operators
    async for run_id in run_ids(store):
        yield await _verdict(store, run_id, by_run.pop(run_id, []), operators)
    for run_id, heads_of_it in by_run.items():
        yield _verdict_on_deleted(run_id, heads_of_it, operators.deletions.get(run_id))


async def _operators(store: DeskStore, kept: list[Head]) -> tuple[Verdict | None, Operators]:
    """The verdict on the operators' log (None: there is none, and nothing says that there was), and what it says was
    erased and deleted. What an altered log says is not believed."""
    try:
        log = await store.operators_log()
        operators = operators_of(chain.from_iterable(record.facts for record in read_lines(log.lines)))
        verdict = _verdict_on(log, kept) if len(log) or kept else None
        problem = await operators_problem(store, operators) if verdict is None or verdict.is_whole else None
        if problem is not None and (await store.operators_log()).head != log.head:
            return await _operators(store, kept)  # there was a write in between
    except PlacetError as error:
        return Verdict(run_id=OPERATORS, verdict="unreadable", message=str(error)), Operators()
    if problem is not None:
        verdict = Verdict(run_id=OPERATORS, verdict="altered", message=problem)
    if verdict is None or not verdict.is_whole:
        return verdict, Operators(erasures=operators.erasures)
    return msgspec.structs.replace(verdict, message=_deletions_text(len(operators.deletions))), operators


def _deletions_text(deleted: int) -> str:
    return "" if not deleted else f"it tells of {deleted} deleted {'run' if deleted == 1 else 'runs'}"


def _verdict_on_deleted(run_id: str, kept: list[Head], deletion: Deletion | None) -> Verdict:
    """A run that is not in the store, and of which heads were kept."""
    if deletion is None:
        message = "a head of it was kept, the run is gone, and the operators' log knows of no deletion"
        return Verdict(run_id=run_id, verdict="missing", message=message)
    by_whom = _by_whom("deleted", deletion.by, deletion.at)
    longest = max(kept, key=lambda head: head.length)
    if longest.length > deletion.length:
        message = f"it had {longest.length} lines, and {deletion.length} when it was {by_whom}"
        return Verdict(run_id=run_id, verdict="cut", message=message, deleted=deletion)
    if any(head.length == deletion.length and head.digest != deletion.head for head in kept):
        message = f"it is not the log that was {by_whom}"
        return Verdict(run_id=run_id, verdict="rewritten", message=message, deleted=deletion)
    return Verdict(run_id=run_id, verdict="deleted", message=by_whom, deleted=deletion)


async def _verdict(store: DeskStore, run_id: str, kept: list[Head], operators: Operators) -> Verdict:
    try:
        while True:
            stored = await store.load(run_id)
            log = stored.log if stored is not None else None
            if log is None:
                return Verdict(run_id=run_id, verdict="unreadable", message="its log is not there")
            verdict, erasure = _verdict_on_listed(log, kept, operators)
            problem = await _problem_beside(store, log, erasure) if verdict.is_whole else None
            if problem is None:
                return verdict
            again = await store.load(run_id)
            if again is not None and again.head == log.head:  # there was no write in between
                return Verdict(run_id=run_id, verdict="altered", message=problem)
    except PlacetError as error:
        return Verdict(run_id=run_id, verdict="unreadable", message=str(error))


def _verdict_on_listed(log: Log, kept: list[Head], operators: Operators) -> tuple[Verdict, RunErased | None]:
    """The verdict on a log that is there, and who erased it, if a person did."""
    run_id = log.run_id
    deletion, erasure = operators.deletions.get(run_id), operators.erasures.get(run_id)
    if deletion is not None:
        if _is_back(log, deletion):
            message = f"{_by_whom('deleted', deletion.by, deletion.at)}, and is back: was a backup restored, or a "
            message += "kept state resumed? Delete it again"
            return Verdict(run_id=run_id, verdict="restored", message=message, deleted=deletion), erasure
        # another run has begun under its id: what was kept of the first one is settled by the deletion
        kept = [head for head in kept if (head.length, head.digest) != (deletion.length, deletion.head)]
        erasure = erasure if erasure is not None and erasure.at > deletion.at else None
    verdict = _verdict_on(log, kept)
    return _with_erasure(verdict, log, erasure) if verdict.is_whole else verdict, erasure


async def _problem_beside(store: DeskStore, log: Log, erasure: RunErased | None) -> str | None:
    """What is wrong beside a log that is whole."""
    if not await _cache_fits(store, log):
        return "its cached fold is not what its log gives: delete it from placet_folds, and it is made anew"
    return await index_problem(store, log, erasure)


async def _cache_fits(store: DeskStore, log: Log) -> bool:
    """Whether the fold that the store has cached for this log, if it has one, is what the log gives."""
    recent = await store.load_recent(log.run_id)
    if recent is None or recent.log is None or recent.log.base is None:
        return True
    run = RunFold()
    for record in read_lines(log.lines[: recent.log.start]):
        fold(record.facts, into=run)
    try:
        return is_between_turns(run) and restore(dump(run)) == restore(recent.log.base)
    except UnusableFold:
        return False


def _with_erasure(verdict: Verdict, log: Log, erasure: RunErased | None) -> Verdict:
    """A whole log that was erased says by whom; one that was erased by nobody, or is back, is not whole."""
    is_erased = story_of(read_lines(log.lines)).is_erased
    if erasure is None:
        if not is_erased:
            return verdict
        message = "what its facts said was taken out, and the operators' log knows of no erasure"
        return Verdict(run_id=log.run_id, verdict="altered", message=message)
    if (erasure.length, erasure.head) != (len(log), log.head.hex()):
        return Verdict(run_id=log.run_id, verdict="rewritten", message="it is not the log that was erased")
    message = _by_whom("erased", erasure.by, erasure.at)
    if not is_erased:
        message += ", and its data is back: was a backup restored? Erase it again"
        return Verdict(run_id=log.run_id, verdict="restored", message=message, erased=erasure)
    return Verdict(run_id=log.run_id, verdict="whole", message=message, erased=erasure)


def _is_back(log: Log, deletion: Deletion) -> bool:
    """Whether this is the log that was deleted, perhaps continued."""
    return len(log) >= deletion.length and head_at(log, deletion.length).hex() == deletion.head


def _by_whom(what: str, by: str | None, at: float) -> str:
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{what} by {by or 'an unnamed person'} at {when}"


def _verdict_on(log: Log, kept: list[Head]) -> Verdict:
    run_id = log.run_id
    if not log.verify():
        return Verdict(run_id=run_id, verdict="altered", message="its lines do not give the head that is stored")
    for head in kept:
        if len(log) < head.length:
            return Verdict(run_id=run_id, verdict="cut", message=f"it had {head.length} lines and has {len(log)}")
        if head_at(log, head.length).hex() != head.digest:
            return Verdict(run_id=run_id, verdict="rewritten", message=f"its first {head.length} lines were others")
    return Verdict(run_id=run_id, verdict="whole")


def head_at(log: Log, length: int) -> bytes:
    """The head that the chain had after so many lines; nothing for a log whose lines do not give its head."""
    heads = log.heads() if length else None
    return heads[length - 1] if heads is not None else b""


async def run_ids(store: DeskStore) -> AsyncIterator[str]:
    """All runs in the store, newest first."""
    cursor: str | None = None
    while True:
        page = await store.runs(RunQuery(cursor=cursor, limit=200))
        for row in page.rows:
            yield row.id
        cursor = page.cursor
        if cursor is None:
            return
