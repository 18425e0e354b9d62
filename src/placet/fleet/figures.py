"""The numbers of a fleet at one moment: what its store holds, and who works."""

from __future__ import annotations

import msgspec

from placet.ports import DeskStore, StoreNumbers
from placet.stores.sqlite import SQLiteStore


class WorkerNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One worker."""

    id: int
    name: str
    state: str
    """`working`, `stopping`, or `lost`: it gave no sign of life lately."""
    agents: list[str]
    driving: int
    capacity: int
    driven: int
    """Drives that it has ended since it began."""
    seconds: float
    """Since its last sign of life."""
    up: float
    """Seconds since it began."""
    code: str


class FleetNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What `placet top` shows and Prometheus is told."""

    store: StoreNumbers
    workers: list[WorkerNumbers]
    rings: int
    """Notifications in the queue that no worker has taken yet."""


async def fleet_numbers(store: DeskStore) -> FleetNumbers:
    """Of any store; one without workers of its own has none to show."""
    numbers = await store.numbers()
    workers, rings = await _workers_and_rings(store)
    return FleetNumbers(store=numbers, workers=workers, rings=rings)


async def _workers_and_rings(store: DeskStore) -> tuple[list[WorkerNumbers], int]:
    if isinstance(store, SQLiteStore):
        return [], 0
    from placet.fleet.schema import fleet_sql
    from placet.fleet.workers import list_workers
    from placet.stores.postgres import PostgresStore

    if not isinstance(store, PostgresStore):
        return [], 0
    ((is_set_up,),) = await store.query(fleet_sql()["has_workers"])
    if not is_set_up:
        return [], 0
    ((rings,),) = await store.query(fleet_sql()["queue_depth"])
    found = [
        WorkerNumbers(
            id=row.id,
            name=row.name,
            state="lost" if not row.is_alive else "stopping" if row.is_stopping else "working",
            agents=row.agents,
            driving=row.driving,
            capacity=row.capacity,
            driven=row.driven,
            seconds=row.age,
            up=max(0.0, row.seen_at - row.started_at),
            code=row.code,
        )
        for row in await list_workers(store)
    ]
    return found, rings
