"""Keeps a store's knowledge of its policy: notes another version, a file that does not load, and what rules said.

A desk or worker with a policy does this beside its work; no call waits for it.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from placet.clock import Clock
from placet.core.policy import Policy
from placet.facts.errors import PolicyRefused
from placet.facts.events import PolicyChanged
from placet.ports import DeskStore, PolicySource, RecordStep, StoredRecord
from placet.service.managed_policy import ManagedPolicy, PolicyChanges
from placet.service.policy_state import (
    IN_FORCE,
    PROBLEM,
    RUNNING,
    TEXT,
    InForce,
    Refused,
    count_rules,
    this_process,
)
from placet.stores.outages import Outage

logger = logging.getLogger("placet.policy")
LOOK_SECONDS = 2.0
PROBLEM_KEPT = 180.0
"""Seconds for which a file that does not load is told of after its process was last heard of."""


class PolicyKeeper:
    def __init__(self, store: DeskStore, source: PolicySource, clock: Clock) -> None:
        self._store = store
        self._source = source
        self._clock = clock
        self._changes = PolicyChanges(store, clock)
        self._noted: str | None = None
        self._told: tuple[str, float] | None = None

    async def serve(self) -> None:
        """Until cancelled."""
        for warning in self._source.current().warnings:
            logger.warning("policy: %s", warning, extra={"action": "policy_warns", "warning": warning})
        outage = Outage(logger, "policy_unnoted", "policy_noted")
        while True:
            try:
                after = await self.look()
                outage.end()
                await self._store.wait_for_news(after, LOOK_SECONDS)
                await asyncio.sleep(LOOK_SECONDS / 4)
            except Exception as error:  # noqa: BLE001  # mostly a store that is away: there is another time
                outage.note(error)
                await asyncio.sleep(LOOK_SECONDS)

    async def begin(self) -> None:
        """Before anything is judged: know what is in force."""
        if isinstance(self._source, ManagedPolicy):
            await self._changes.follow(self._source)

    async def look(self) -> int:
        """Note what is new; where the feed was counted up to."""
        if isinstance(self._source, ManagedPolicy):
            await self._changes.settle()
            await self._changes.follow(self._source)
            await self._note_problem(self._source.current())
            return await self._count()
        policy = self._source.current()
        if policy.version != self._noted:
            await note_in_force(self._store, policy, self._clock.now())
            self._noted = policy.version
        await self._note_problem(policy)
        return await self._count()

    async def _count(self) -> int:
        before = -1
        while (after := await count_rules(self._store)) != before:
            before = after
            await asyncio.sleep(0)  # whoever counts a long feed leaves the others their turn
        return after

    async def _note_problem(self, policy: Policy) -> None:
        problem: object = getattr(self._source, "problem", None)  # a policy that does not change has none
        now = self._clock.now()
        if not isinstance(problem, PolicyRefused):
            if self._told is not None:
                await self._store.take_record(PROBLEM, this_process())
                self._told = None
            return
        if self._told is not None and self._told[0] == problem.message and now < self._told[1] + PROBLEM_KEPT / 3:
            return
        found = Refused(
            file=policy.origin, place=this_process(), message=problem.message, at=now, in_force=policy.version
        )
        record = StoredRecord(
            kind=PROBLEM,
            id=found.place,
            data=msgspec.json.encode(found).decode(),
            expires_at=now + PROBLEM_KEPT,
        )
        if not await self._store.replace_record(record):
            await self._store.add_record(record)
        self._told = (problem.message, now)

    async def close(self) -> None:
        """This process tells no more of a file that does not load."""
        if self._told is not None:
            await self._store.take_record(PROBLEM, this_process())


async def note_in_force(store: DeskStore, policy: Policy, now: float) -> bool:
    """Write down that this policy, of a file, decides from now on, with its text; nothing where it did already. Whether
    it was written here."""
    while True:
        before = await store.record(RUNNING, IN_FORCE)
        was = None if before is None else msgspec.json.decode(before.data, type=InForce)
        if was is not None and was.version == policy.version:
            return False
        await store.add_record(StoredRecord(kind=TEXT, id=policy.version, data=policy.text))
        at = round(now, 3)
        fact = PolicyChanged(policy.version, was.version if was else None, policy.origin, "file", None, at)
        made = InForce(version=policy.version, origin=fact.origin, way=fact.way, by=fact.by, at=at)
        record = StoredRecord(kind=RUNNING, id=IN_FORCE, data=msgspec.json.encode(made).decode())
        step = RecordStep(kind=RUNNING, id=IN_FORCE, was=before.data if before is not None else None, now=record)
        if await store.change_records([step], [fact], at=at):
            told = {"action": "policy_in_force", "policy": policy.origin, "version": policy.version}
            logger.info("another policy is in force", extra=told)
            return True
