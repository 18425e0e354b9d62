"""Leases are renewed in a thread, on a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from placet.ports import Lease
from placet.stores.postgres.connections import connection_options, sql


class Renewals:
    """The connection of the thread."""

    def __init__(self, url: str, *, in_session: bool) -> None:
        self._db = psycopg.connect(url, autocommit=True, prepare_threshold=None, **connection_options(url))
        if in_session and not self._is_pooled():
            self._db.execute(b"SET synchronous_commit = off")  # a server that goes down takes no driver, but time
            self._db.prepare_threshold = 5

    def _is_pooled(self) -> bool:
        """What is set in a pooler's connection would stay there for others."""
        row = self._db.execute(sql("backend")).fetchone()
        return row is None or row[0] != self._db.info.backend_pid

    def renew(self, held: Sequence[Lease], ttl: float) -> Sequence[bool]:
        rows = self._db.execute(sql("renew_leases"), _ids(held) | {"ttl": ttl}).fetchall()
        still_ours = {(run_id, epoch) for run_id, epoch in rows}
        return [(lease.run_id, lease.epoch) in still_ours for lease in held]

    def expire(self, gone: Sequence[Lease]) -> None:
        self._db.execute(sql("expire_leases"), _ids(gone))

    def close(self) -> None:
        self._db.close()


def _ids(leases: Sequence[Lease]) -> dict[str, Any]:  # Any: parameters of a statement
    return {"ids": [lease.run_id for lease in leases], "epochs": [lease.epoch for lease in leases]}
