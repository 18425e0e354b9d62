"""The default store: the logs of this process, bounded, safe from any thread and any event loop.

Of an ended run it keeps the outline (result and decisions; of the newest also the log), of a waiting run the log;
the least recently used go first, and a run that was forgotten is treated as unknown. What it gives within one
process, a shared store gives across processes.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from placet.core.budget import Spent, TakenShare, Taking, takings_of
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.facts.checks import COUNT, WHOLE, check
from placet.facts.errors import PositionConflict, RunConflict
from placet.facts.events import BoundedGrantMade, BudgetTaken, GrantMade, GrantRevoked, InChild, Pattern
from placet.facts.voting_settings import NO_SETTINGS, VotingSettings
from placet.ports import Hold, Lease, StoredRun
from placet.stores.takes import Takes

_SPECIAL = frozenset({GrantMade, BoundedGrantMade, GrantRevoked, BudgetTaken, InChild})
"""The kinds of facts that can change what stands for runs to come, or what is left of a budget."""


MAX_USED_UP = 100
"""So many grants that are used up are remembered."""


class MemoryStore:
    """Logs of this process: so many waiting runs, so many bytes, so many ended ones (the newest of them with their
    log)."""

    def __init__(
        self,
        *,
        max_waiting: int = 10_000,
        max_bytes: int = 256_000_000,
        max_ended: int = 10_000,
        max_ended_logs: int = 100,
    ) -> None:
        check(
            "MemoryStore: ",
            max_waiting=(max_waiting, COUNT),
            max_bytes=(max_bytes, COUNT),
            max_ended=(max_ended, WHOLE),
            max_ended_logs=(max_ended_logs, WHOLE),
        )
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, Log] = OrderedDict()
        self._ended: OrderedDict[str, StoredRun] = OrderedDict()
        self._leases: dict[str, tuple[Lease, weakref.ref[object]]] = {}
        self._sessions: dict[str, dict[str, None]] = {}
        """The runs that wait on a session, by its key, oldest first."""
        self._session_of: dict[str, str] = {}
        """The key of the session on which a run waits."""
        self._grants: dict[str, GrantMade] = {}
        self._grant_uses: dict[str, set[str]] = {}
        self._used_up: OrderedDict[str, None] = OrderedDict()
        """Grants that decide nothing more, oldest first."""
        self._takes = Takes()
        self._bytes = 0
        """How many the logs of the waiting runs have."""
        self._epoch = 0
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._max_ended = max_ended
        self._max_ended_logs = max_ended_logs
        self._ended_logs: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        """How many runs are remembered."""
        return len(self._waiting) + len(self._ended)

    async def load(self, run_id: str) -> StoredRun | None:
        with self._lock:
            log = self._waiting.get(run_id)
            if log is not None:
                self._waiting.move_to_end(run_id)
                return StoredRun(len(log), log.head, log.copy())
            ended = self._ended.get(run_id)
            if ended is None or ended.log is None:
                return ended
            return StoredRun(ended.length, ended.head, ended.log.copy(), ended.outline)

    async def lease(self, run_id: str, driver: object) -> Lease:
        with self._lock:
            held = self._leases.get(run_id)
            if held is not None and held[1]() is not None:
                raise RunConflict(
                    f"Run {run_id} is being driven by another task of this process: wait for that to return."
                )
            self._epoch += 1
            lease = Lease(run_id, self._epoch)
            self._leases[run_id] = (lease, weakref.ref(driver))
            return lease

    async def release(self, lease: Lease, length: int) -> bool:
        with self._lock:
            held = self._leases.get(lease.run_id)
            if held is None or held[0] is not lease:
                return True
            known = self._waiting.get(lease.run_id)
            if known is not None and len(known) > length:
                return False
            del self._leases[lease.run_id]
            self._shrink()
            return True

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        run_id = log.run_id
        with self._lock:
            known = self._where_it_stands(lease, log)
            is_special = False
            for line in lines:  # as `any(…)`, a tenth of what an append costs
                is_special = is_special or not _SPECIAL.isdisjoint(map(type, line.facts))
            if is_special:
                self._takes.take(takings_of(run_id, lines))
            if known is None:
                known = self._waiting[run_id] = Log(run_id, log.key)
            for line in lines:
                known.append(line)
                self._bytes += len(line.text)
                if is_special:
                    self._keep_standing_grants(line)
            if run.session is not None:
                self._note_session(run_id, run)
            if run.has_ended:
                self._remember_end(known, run)

    def _where_it_stands(self, lease: Lease | None, log: Log) -> Log | None:
        """The log that is known of a run, if the caller may append behind its own copy of it."""
        run_id = log.run_id
        if lease is not None:
            held = self._leases.get(run_id)
            if held is None or held[0] is not lease:
                raise RunConflict(f"Run {run_id} was taken over by another process.")
        known = self._waiting.get(run_id)
        length = len(known.lines) if known is not None else 0
        stands_at = log.start + len(log.lines)
        if run_id in self._ended or length != stands_at:
            raise PositionConflict(f"Run {run_id} stands at {length}: nothing can be appended at {stands_at}.")
        return known

    def _note_session(self, run_id: str, run: RunFold) -> None:
        key = run.session_key
        assert key is not None
        if not run.has_ended and run.open_calls:
            self._session_of[run_id] = key
            self._sessions.setdefault(key, {})[run_id] = None
        else:
            self._leave_session(run_id)

    def _leave_session(self, run_id: str) -> None:
        key = self._session_of.pop(run_id, None)
        if key is not None:
            self._sessions[key].pop(run_id)
            if not self._sessions[key]:
                del self._sessions[key]

    async def waiting_on(self, session_key: str) -> Sequence[str]:
        with self._lock:
            return list(reversed(self._sessions.get(session_key, ())))

    async def holds(self) -> Sequence[Hold]:
        return ()

    async def four_eyes(self) -> Sequence[Pattern]:
        return ()

    async def people(self, names: Iterable[str]) -> Mapping[str, Person]:
        return {}

    async def voting_settings(self) -> VotingSettings:
        return NO_SETTINGS

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        return [grant for grant in self._grants.values() if grant.agent == agent] if self._grants else ()

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        if grant.uses is None:
            return True
        with self._lock:
            users = self._grant_uses.setdefault(grant.id, set())
            if call_id not in users and len(users) >= grant.uses:
                return False
            users.add(call_id)
            if len(users) >= grant.uses:
                self._note_used_up(grant.id)
            return True

    async def spent(self, takings: Sequence[Taking]) -> Mapping[Taking, Spent]:
        with self._lock:
            return {taking: self._takes.spent(taking) for taking in takings}

    async def shares(self, budget: str, at: float) -> Sequence[TakenShare]:
        with self._lock:
            return self._takes.shares(budget, at)

    def _note_used_up(self, grant_id: str) -> None:
        """It decides nothing more. It is kept for a while, since the calls that it decided may ask again."""
        self._used_up[grant_id] = None
        while len(self._used_up) > MAX_USED_UP:
            oldest, _ = self._used_up.popitem(last=False)
            self._forget_grant(oldest)

    def _forget_grant(self, grant_id: str) -> None:
        self._grants.pop(grant_id, None)
        self._grant_uses.pop(grant_id, None)

    def _keep_standing_grants(self, line: Line) -> None:
        for fact in line.facts:
            bare = fact.fact if type(fact) is InChild else fact
            if isinstance(bare, GrantMade) and bare.scope == "agent":
                self._grants[bare.id] = bare
            elif type(bare) is GrantRevoked:
                self._forget_grant(bare.id)
                self._used_up.pop(bare.id, None)

    def _remember_end(self, log: Log, run: RunFold) -> None:
        """Keep the outline, and of the newest ended runs the log too: who asks again gets the whole result."""
        self._forget(log.run_id)
        self._ended[log.run_id] = StoredRun(len(log), log.head, log, run.outline())
        self._ended_logs[log.run_id] = None
        while len(self._ended_logs) > self._max_ended_logs:
            oldest, _ = self._ended_logs.popitem(last=False)
            kept = self._ended.get(oldest)
            if kept is not None:
                self._ended[oldest] = StoredRun(kept.length, kept.head, None, kept.outline)

    def _forget(self, run_id: str) -> None:
        log = self._waiting.pop(run_id, None)
        if log is not None:
            self._bytes -= log.size
        self._leave_session(run_id)

    def _shrink(self) -> None:
        """Forget the least recently used, but none that somebody is driving."""
        while len(self._ended) > self._max_ended:
            self._ended.popitem(last=False)
        if len(self._waiting) <= self._max_waiting and self._bytes <= self._max_bytes:
            return
        for run_id in list(self._waiting):
            if len(self._waiting) <= self._max_waiting and self._bytes <= self._max_bytes:
                return
            held = self._leases.get(run_id)
            if held is None or held[1]() is None:  # a driver that died without a word drives nothing
                self._leases.pop(run_id, None)
                self._forget(run_id)
