"""A store that crashes on command: at the n-th append, before or after the write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from placet.core.budget import Spent, TakenShare, Taking
from placet.core.log import Line, Log
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.facts.errors import StoreError
from placet.facts.events import GrantMade, Pattern
from placet.facts.voting_settings import VotingSettings
from placet.ports import Hold, Lease, Store, StoredRun


class Crash(StoreError):
    """The crash that was ordered."""

    code = "ordered_crash"


class CrashingStore:
    """Wraps a store.

    `crash_at(n, "before" | "after")` makes the n-th append from now fail, without or with its write.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._countdown: int | None = None
        self._when: Literal["before", "after"] = "before"
        self.appends = 0

    def crash_at(self, append: int, when: Literal["before", "after"]) -> None:
        self._countdown, self._when = append, when

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        self.appends += 1
        if self._countdown is not None:
            self._countdown -= 1
        is_due = self._countdown == 0
        if is_due and self._when == "before":
            raise Crash(f"ordered crash before append {self.appends}")
        await self._inner.append(lease, log, lines, run)
        if is_due:
            raise Crash(f"ordered crash after append {self.appends}")

    async def load(self, run_id: str) -> StoredRun | None:
        return await self._inner.load(run_id)

    async def lease(self, run_id: str, driver: object) -> Lease:
        return await self._inner.lease(run_id, driver)

    async def release(self, lease: Lease, length: int) -> bool:
        return await self._inner.release(lease, length)

    async def waiting_on(self, session_key: str) -> Sequence[str]:
        return await self._inner.waiting_on(session_key)

    async def holds(self) -> Sequence[Hold]:
        return await self._inner.holds()

    async def people(self, names: Iterable[str]) -> Mapping[str, Person]:
        return await self._inner.people(names)

    async def voting_settings(self) -> VotingSettings:
        return await self._inner.voting_settings()

    async def four_eyes(self) -> Sequence[Pattern]:
        return await self._inner.four_eyes()

    async def standing_grants(self, agent: str) -> Sequence[GrantMade]:
        return await self._inner.standing_grants(agent)

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        return await self._inner.use_grant(grant, call_id)

    async def spent(self, takings: Sequence[Taking]) -> Mapping[Taking, Spent]:
        return await self._inner.spent(takings)

    async def shares(self, budget: str, at: float) -> Sequence[TakenShare]:
        return await self._inner.shares(budget, at)
