"""The workers of a fleet, as the database knows them: each keeps a row fresh for as long as it lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import msgspec

from placet.fleet.schema import fleet_sql, library_version
from placet.stores.postgres import PostgresStore


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as others see it."""

    id: int
    name: str
    code: str
    """A digest of what its code knows: workers with equal ones can drive the same runs."""
    library: str
    agents: list[str]
    capacity: int
    """How many runs it drives at once."""
    driving: int
    driven: int
    """How many drives it has ended since it was started."""
    is_stopping: bool
    is_alive: bool
    started_at: float
    seen_at: float
    age: float
    """Seconds since its last sign of life, by the database's clock."""


class Registration:
    """This process's row among the workers."""

    def __init__(self, store: PostgresStore, name: str, code: str, agents: Sequence[str], capacity: int) -> None:
        self.code = code
        self._store = store
        self._given: dict[str, object] = {
            "name": name,
            "code": code,
            "library": library_version(),
            "agents": list(agents),
            "capacity": capacity,
        }
        self.id: int | None = None
        self.driving = 0
        self.driven = 0
        self.is_stopping = False
        self.listens = False
        """Whether we hear calls."""

    async def begin(self) -> int:
        ((self.id,),) = await self._store.query(fleet_sql()["register"], self._given)
        return self.id

    async def beat(self) -> None:
        """Say that we live."""
        if self.id is not None:
            now = {
                "id": self.id,
                "driving": self.driving,
                "driven": self.driven,
                "stopping": self.is_stopping,
                "listens": self.listens,
            }
            await self._store.query(fleet_sql()["beat"], self._given | now)

    async def end(self) -> None:
        if self.id is not None:
            await self._store.query(fleet_sql()["unregister"], {"id": self.id})
            self.id = None


def default_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


async def list_workers(store: PostgresStore) -> list[WorkerRow]:
    """Those that live, and those that went silent a few minutes ago."""
    rows = await store.query(fleet_sql()["workers"])
    return [
        WorkerRow(
            id=row[0],
            name=row[1],
            code=row[2],
            library=row[3],
            agents=list(row[4]),
            capacity=row[5],
            driving=row[6],
            driven=row[7],
            is_stopping=row[8],
            started_at=row[9],
            seen_at=row[10],
            is_alive=row[11],
            age=max(0.0, row[12] - row[10]),
        )
        for row in rows
    ]
