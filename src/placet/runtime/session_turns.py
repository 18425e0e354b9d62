"""One run at a time on a session: the driver of a run there has the session for as long, in all processes that share
the store. Two at once would read the same beginning and write their turns between each other's."""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

from placet.facts.errors import RunConflict, SessionBusy
from placet.ports import Lease, Session, Store
from placet.runtime.journal import Driver, LeaseHolder
from placet.runtime.session_matching import key_of

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
"""Seconds between two looks whether a session is free."""

_open_turns: ContextVar[tuple[weakref.ref[SessionTurn], ...]] = ContextVar("placet_session_turns", default=())
"""The turns of the runs in whose tools and hooks we are: to wait for one of them would be to wait forever."""


class SessionTurn:
    """The right to drive a run on a session. A new message that finds the session taken waits its turn if `waits`, and
    is refused otherwise; a run that is continued is refused like one that another process drives."""

    def __init__(self, store: Store, session: Session, *, is_new: bool, waits: bool) -> None:
        self._store = store
        self._session = session
        self._is_new = is_new
        self._waits = waits
        self._driver: Driver | None = Driver()
        self._taken: dict[str, LeaseHolder] = {}
        self._token: Token[tuple[weakref.ref[SessionTurn], ...]] | None = None

    async def __aenter__(self) -> Self:
        await self._take(key_of(self._session))
        self._token = _open_turns.set((*_open_turns.get(), weakref.ref(self)))
        return self

    async def follow(self) -> None:
        """A session that got its name only when it was first read is taken under that name too."""
        key = key_of(self._session)
        if key not in self._taken:
            await self._take(key)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _open_turns.reset(self._token)
        try:
            for holder in self._taken.values():
                await holder.end()
        finally:
            self._driver = None

    async def _take(self, key: str) -> None:
        if any(turn is not None and turn._has(self._store, key) for turn in (each() for each in _open_turns.get())):
            raise SessionBusy(
                f"Session '{self._session.session_id}' belongs to the run whose tool or hook this is: "
                "a run inside it needs another session, or none."
            )
        self._taken[key] = LeaseHolder(self._store, await self._lease(key))

    def _has(self, store: Store, key: str) -> bool:
        return self._driver is not None and self._store is store and key in self._taken

    async def _lease(self, key: str) -> Lease:
        name, pause = lease_name(key), FIRST_PAUSE
        while True:
            try:
                return await self._store.lease(name, self._driver)
            except RunConflict as conflict:
                if not self._waits:
                    raise self._refusal() from conflict
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _refusal(self) -> RunConflict | SessionBusy:
        name = self._session.session_id
        if not self._is_new:
            return RunConflict(
                f"Another run is at work on session '{name}': wait for that to return, then continue this one."
            )
        return SessionBusy(
            f"A run is at work on session '{name}': wait for it to return, or have this message wait its turn "
            "with RunConfig(on_pending='queue' | 'supersede')."
        )


def lease_name(key: str) -> str:
    """Under which name a session is leased from the store: no run has such an id."""
    return f"session_{hashlib.blake2b(key.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
