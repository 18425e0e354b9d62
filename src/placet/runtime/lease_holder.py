"""How long a drive has what it took from the store: until it gives it back, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from placet.ports import Lease, Store


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
        if not await self._store.release(self._lease, length):
            return False
        self._lease = None
        return True

    async def end(self) -> None:
        if self._lease is None:
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
