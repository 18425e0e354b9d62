"""The one door: every change of a run passes through the journal. Is it legal? Is it durable? Then it is published.

`note` applies facts to the fold at once, `commit` makes them durable. Two kinds of facts must be committed before what
they announce: claims before effects, «request sent» before the request. Everything else must be committed before user
code that may take forever, and before the drive ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from placet.clock import Clock
from placet.core.approvals import Said
from placet.core.deciding import facts_to_append
from placet.core.fold import apply
from placet.core.log import Line, Log, read_lines, was_erased
from placet.core.replay import fold_records
from placet.core.snapshot import UnusableFold, restore
from placet.core.state import RunFold
from placet.facts.codec import Json
from placet.facts.errors import (
    BudgetExhausted,
    IllegalTransition,
    LimitExceeded,
    PositionConflict,
    RunConflict,
    RunFinished,
)
from placet.facts.events import (
    AgentChanged,
    AnyFact,
    CallEnded,
    CallInDoubt,
    DecisionMade,
    GrantMade,
    GuardrailRecord,
    GuardrailsJudged,
    HistoryRewritten,
    InChild,
    InputAdded,
    OwnHistoryChosen,
    PlainFact,
    RequestLost,
    RequestRefused,
    RequestSettled,
    ResponseReceived,
    ResponseUnusable,
    RunStarted,
    SessionWritten,
    VoteCast,
)
from placet.ports import DeskStore, Lease, Store, StoredRun


class GuardrailInfos:
    """What guardrails of this drive said, as the objects that they gave: the log holds their JSON, results show both
    alike."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str | None, str], tuple[Json, object]] = {}

    def keep(self, path: str, record: GuardrailRecord, info: object, call: str | None) -> None:
        if info is not record.info:
            self._objects[path, call, record.name] = (record.info, info)

    def of(self, path: str, record: GuardrailRecord, call: str | None) -> object:
        """The object behind what the log says, if it was said in this drive."""
        found = self._objects.get((path, call, record.name))
        return found[1] if found is not None and found[0] == record.info else record.info


class Journal:
    def __init__(self, log: Log, run: RunFold, store: Store, lease: Lease, clock: Clock, max_bytes: int) -> None:
        self.log = log
        self.run = run
        self.store = store
        self.lease = lease
        self.subscribers: list[Callable[[float, Sequence[AnyFact]], None]] = []
        self.listeners: set[Callable[[], None]] = set()
        """Called when others turn out to have appended something."""
        self._clock = clock
        self._noted: list[AnyFact] = []
        self._votes: list[VoteCast] = []
        """What people voted, of which the facts are noted and not durable: if others append first, it is counted
        again."""
        self._broken_by: BaseException | None = None
        """An append failed, and it is unknown whether it was written: this drive writes nothing more."""
        self._generation = 0
        """How often what was noted had to be dropped because the log had grown."""
        self._writing = asyncio.Lock()
        self.values: dict[str, object] = {}
        """What tools returned in this drive, by call, where that is no text: the log has what the model reads of it."""
        self._max_bytes = max_bytes
        self.infos = GuardrailInfos()
        self._bytes = log.size

    @property
    def is_broken(self) -> bool:
        return self._broken_by is not None

    def now(self) -> float:
        return round(self._clock.now() * 1000) / 1000  # half the cost of rounding to three digits

    @property
    def has_lease(self) -> bool:
        """Whether no other process can have taken over: a driver that was frozen for too long may have been."""
        return self._clock.monotonic() <= self.lease.live_until

    def require_lease(self) -> None:
        """The last look before an effect."""
        if not self.has_lease:
            raise RunConflict(
                f"The right to drive run {self.log.run_id} has run out: another process may have taken the run over."
            )

    def note(self, path: str, fact: PlainFact) -> None:
        """Apply a fact of the run with this path. An illegal one raises and changes nothing."""
        if self._broken_by is not None:
            raise self._broken_by
        entry = InChild(path, fact) if path else fact
        apply(self.run, entry)
        self._noted.append(entry)

    def note_all(self, facts: Sequence[AnyFact]) -> None:
        for fact in facts:
            if isinstance(fact, InChild):
                self.note(fact.path, fact.fact)
            else:
                self.note("", fact)

    def note_words(self, words: Sequence[Said], facts: Sequence[AnyFact]) -> None:
        """Note the facts that people's words amount to. Votes that were looked at are staged no more."""
        votes = [word for word in words if isinstance(word, VoteCast)]
        self.note_all(facts)
        if votes:
            self._votes += votes
            self.run.ledger.drop_votes(votes)

    async def commit(self, *, is_last: bool = False) -> None:
        """Make everything noted so far durable. One append for all of it: whole, or not at all.

        `is_last`: the drive ends with it, and the store may give the lease back in the same append.
        """
        if not self._noted and not self._writing.locked() and self._broken_by is None:
            return
        # Tool functions of one turn end side by side, and each commits its own end. While we wait for our turn to
        # write, another task's append may find that the log has grown; what we noted is then noted anew, or dropped,
        # by it.
        generation = self._generation
        await self._writing.acquire()  # facts that others note while we write wait for the next append
        try:
            if self._broken_by is not None:
                raise self._broken_by
            if generation != self._generation:  # another task's append found it out, and ours was dropped with theirs
                raise Overtaken
            if self._noted:
                facts, self._noted = self._noted, []
                votes, self._votes = self._votes, []
                await self._append(facts, votes, is_last=is_last)
        finally:
            self._writing.release()

    def forget_noted(self) -> None:
        """Drop what was noted and not made durable: a state shows what is in its log."""
        if self._noted and len(self.log):
            self._noted.clear()
            self._votes.clear()
            self._refold()

    def _publish(self, at: float, facts: Sequence[AnyFact]) -> None:
        for subscriber in list(self.subscribers):
            subscriber(at, facts)

    async def _append(self, facts: list[AnyFact], votes: Sequence[VoteCast] = (), *, is_last: bool = False) -> None:
        line: Line | None = None
        try:
            line = self.log.next_line(self.now(), facts)
            size = self._bytes + len(line.text)
            if size > self._max_bytes:
                raise LimitExceeded(
                    f"The run's log would grow over its limit of {self._max_bytes} bytes (RunConfig.limits.log)."
                )
            self.lease.ends_at = len(self.log) + 1 if is_last else None
            await self.store.append(self.lease, self.log, [line], self.run)
        except PositionConflict:  # certainly not written: others were first
            await self._catch_up(facts, votes)
        except BudgetExhausted:  # certainly not written: the transaction took nothing
            await self._look_again(facts, votes)
        except BaseException as error:  # perhaps written: a connection may break behind the commit, before its answer
            self._break_off(line, error)
            raise
        self._bytes = size
        self.log.append(line)
        if self.subscribers:
            self._publish(line.at, facts)

    def _break_off(self, line: Line | None, error: BaseException) -> None:
        """It is unknown whether the line was written. Certain is the log as it was: the fold goes back to that.

        Of a run whose very first line it is, the line itself is all that is known, and it can be continued.
        """
        self._broken_by = error
        self._noted.clear()
        if line is not None and not len(self.log):
            self.log.append(line)
        self._refold()

    async def _catch_up(self, facts: list[AnyFact], votes: Sequence[VoteCast] = ()) -> NoReturn:
        """A decision was made meanwhile. Take it in, keep what has happened, and have the next step judged again.

        What was only announced (a request, claims) has not been done yet: it is dropped, and Overtaken tells the loop.
        """
        stored = await self._stored_log()
        if stored is None or not stored.starts_with(self.log) or len(stored) == len(self.log):
            raise RunConflict(
                f"Run {self.log.run_id} was changed by another process: its log is not the one that was driven."
            )
        pending = [*facts, *self._noted]  # others may have noted something while the append was on its way
        said = [*votes, *self._votes]
        self._noted.clear()
        self._votes.clear()
        self._generation += 1
        self._go_to(stored)
        self.run.ledger.stage_again(said)
        for listener in list(self.listeners):
            listener()
        for fact in pending:
            self._note_again(fact)
        if self._noted:
            kept, self._noted = self._noted, []
            await self._append(kept)
        raise Overtaken

    async def _look_again(self, facts: list[AnyFact], votes: Sequence[VoteCast]) -> NoReturn:
        """Another claim took what was left of a budget, and so ours was not written. Keep what has happened, drop the
        claims, and have the calls judged again: they are asked about."""
        pending, said = [*facts, *self._noted], [*votes, *self._votes]
        self._noted.clear()
        self._votes.clear()
        self._generation += 1
        self._refold()
        self.run.ledger.stage_again(said)
        for fact in pending:
            self._note_again(fact)
        if self._noted:
            kept, self._noted = self._noted, []
            await self._append(kept)
        raise Overtaken

    def _note_again(self, fact: AnyFact) -> None:
        """Note a fact behind what others appended: what happened and what people said stays, the rest is dropped."""
        bare = _bare(fact)
        if isinstance(bare, VoteCast) or self._is_by_votes(bare):
            return  # with what others said meanwhile, votes are counted again
        if isinstance(bare, GrantMade) or (isinstance(bare, DecisionMade) and bare.grant is None):
            if not isinstance(fact, InChild) or isinstance(bare, DecisionMade):
                self.note_all(facts_to_append(self.run, [bare]))
            else:
                self.note_all([fact])
        elif isinstance(bare, OwnHistoryChosen) or (
            isinstance(bare, CallEnded) and bare.outcome not in ("finished", "failed")
        ):
            # the end of a question is drawn again from what stands now; two may choose the same
            with contextlib.suppress(IllegalTransition):
                self.note_all([fact])
        elif isinstance(bare, _HAPPENED):
            self.note_all([fact])

    def _is_by_votes(self, fact: PlainFact) -> bool:
        """Whether votes made this decision, or the grant that goes with one."""
        call = fact.call if isinstance(fact, DecisionMade | GrantMade) else None
        entry = self.run.ledger.entry(call) if call is not None else None
        return entry is not None and entry.open_ballot is not None

    async def take_in(self) -> None:
        """Take in what others appended, if they did: then Overtaken has the next step judged again."""
        async with self._writing:
            if self._broken_by is not None:
                raise self._broken_by
            stored = await self._stored_log()
            if stored is not None and len(stored) > len(self.log):
                await self._catch_up([])

    async def refresh(self) -> None:
        """Take in what others appended since this drive last looked."""
        stored = await self._stored_log()
        if stored is not None and stored.starts_with(self.log):
            self._go_to(stored)

    async def make_whole(self) -> None:
        """Hold the log from its first line on: what shows the whole run needs all of it."""
        if not self.log.start:
            return
        stored = await self.store.load(self.log.run_id)
        if stored is not None and stored.log is not None and stored.log.head == self.log.head:
            self.log = stored.log

    async def _stored_log(self) -> Log | None:
        """The log as the store has it, held from where this journal holds it."""
        stored = await self.store.load(self.log.run_id)
        log = stored.log if stored is not None else None
        return log.cut_like(self.log) if log is not None and self.log.start else log

    def _go_to(self, log: Log) -> None:
        """Stand at the end of a longer log, and tell what others appended."""
        foreign = read_lines(log.lines[len(self.log.lines) :])
        self.log = log
        self._bytes = log.size
        self._refold()
        for record in foreign:
            self._publish(record.at, record.facts)

    def _refold(self) -> None:
        """Fold the log again. The fold that frames hold, and the ledger and the usage that contexts hold, stay the same
        objects."""
        # In place, because frames, contexts and tool functions that run hold these very objects: a second fold beside
        # them would be a second truth.
        fresh = fold_log(self.log)
        self.run.ledger.become(fresh.ledger)
        self.run.become(fresh)


_HAPPENED = (
    RunStarted,
    RequestRefused,
    RequestLost,
    RequestSettled,
    ResponseReceived,
    ResponseUnusable,
    CallEnded,
    CallInDoubt,
    GuardrailsJudged,
    SessionWritten,
    AgentChanged,
    HistoryRewritten,
    InputAdded,
)
"""Facts about what cannot be undone: they are kept when the log turns out to have grown in between."""


class Overtaken(Exception):
    """The log grew while something was about to be done: the loop looks again before it is."""


def _bare(fact: AnyFact) -> PlainFact:
    return fact.fact if isinstance(fact, InChild) else fact


def fold_log(log: Log) -> RunFold:
    """The fold of a log, with what stood before its lines; RunFinished for one that was erased."""
    records = read_lines(log.lines)
    if records and was_erased(records[0]):
        raise RunFinished(f"Run {log.run_id} has ended, and its data was erased: nothing of it is left to show.")
    run = RunFold() if log.base is None else restore(log.base)
    fold_records(records, run)
    return run


async def load_recent(store: DeskStore, run_id: str) -> tuple[StoredRun, Log, RunFold] | None:
    """What the store knows of a run, from its cached fold on where it has one that fits: stored, log and fold."""
    stored = await store.load_recent(run_id)
    if stored is None or stored.log is None:
        return None
    try:
        return stored, stored.log, fold_log(stored.log)
    except UnusableFold:  # a cache is only a cache: the log has it all, and the next append caches it again
        stored = await store.load(run_id)
    if stored is None or stored.log is None:
        return None
    stored.log.cached_at = 0
    return stored, stored.log, fold_log(stored.log)


# -- the lease --------------------------------------------------------------------------------------------------------


class Driver:
    """Stands for one drive: while it lives, its leases do."""

    __slots__ = ("__weakref__",)


class LeaseHolder:
    """The time in which a drive has a lease. It ends once, whatever happens, cancelled or not."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease: Lease | None = lease

    async def end_at(self, length: int) -> bool:
        """Whether the run could be given back here; not if the log has grown. Cancelled in between, `end` gives it
        back."""
        assert self._lease is not None
        if self._lease.is_given_back:  # with the last append
            self._lease = None
            return True
        if not await self._store.release(self._lease, length):
            return False
        self._lease = None
        return True

    async def end(self) -> None:
        if self._lease is None or self._lease.is_given_back:
            return
        lease, self._lease = self._lease, None
        releasing = asyncio.ensure_future(self._store.release(lease, sys.maxsize))
        releasing.add_done_callback(_read_error)
        with contextlib.suppress(asyncio.CancelledError):  # the release goes on; the error in flight is the one to tell
            await asyncio.shield(releasing)


def _read_error(releasing: asyncio.Future[bool]) -> None:
    """A release that fails when nobody waits for it any more: the lease ends by itself, asyncio need not complain."""
    if not releasing.cancelled():
        releasing.exception()
