"""People at browsers: sessions, each as sure of its person as the way in which they logged in."""

from __future__ import annotations

import msgspec

from placet.desk.access.people import Actor, User
from placet.desk.access.records import PeopleRecords, decoded, read, record_of
from placet.desk.access.secrets import digest, is_secret, new_secret, short_id
from placet.facts.requirements import Assurance, is_at_least

SESSION_SECONDS = 12 * 3600.0


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """A person at a browser."""

    id: str
    owner: str
    digest: str
    created_at: float
    expires_at: float
    client: str = ""
    """What the browser says of itself, for the list of sessions."""
    assurance: Assurance = "password"
    """How sure it is who opened it, or confirmed it since."""
    provider: str | None = None
    """The identity provider that vouched for them, with what it wants to see when they log out."""


class Sessions(PeopleRecords):
    """Opened, confirmed, ended, and shown."""

    async def open_session(
        self, user: User, *, client: str = "", assurance: Assurance = "password", provider: str | None = None
    ) -> tuple[str, BrowserSession]:
        secret, now = new_secret(), self._now()
        session = BrowserSession(
            id=short_id("ses"),
            owner=user.name,
            digest=digest(secret),
            created_at=now,
            expires_at=now + SESSION_SECONDS,
            client=client[:200],
            assurance=assurance,
            provider=provider,
        )
        await self._store.add_record(record_of("session", session.id, session, user.name, session.expires_at))
        return f"{session.id}.{secret}", session

    async def sessions(self, owner: str) -> list[BrowserSession]:
        return [decoded(record, BrowserSession) async for record in self._records("session", owner)]

    async def end_session(self, session_id: str, *, owner: str) -> bool:
        found = read(await self._found("session", session_id), BrowserSession)
        if found is None or found.owner != owner:
            return False
        return await self._store.take_record("session", session_id) is not None

    async def session(self, session_id: str) -> BrowserSession | None:
        return read(await self._found("session", session_id), BrowserSession)

    async def raise_session(self, session_id: str, *, owner: str, assurance: Assurance) -> bool:
        """From now on it is surer who sits there. False: the session has ended."""
        while (record := await self._found("session", session_id)) is not None:
            session = decoded(record, BrowserSession)
            if session.owner != owner:
                return False
            if is_at_least(session.assurance, assurance):
                return True
            raised = msgspec.structs.replace(session, assurance=assurance)
            kept = record_of("session", session.id, raised, session.owner, session.expires_at)
            if await self._store.replace_record(kept, was=record.data):
                return True
        return False

    async def actor_of_cookie(self, cookie: str) -> Actor | None:
        session_id, _, secret = cookie.partition(".")
        session = read(await self._found("session", session_id), BrowserSession)
        if session is None or not is_secret(secret, session.digest) or session.expires_at <= self._now():
            return None
        user = await self.user(session.owner)
        if user is None or not user.is_active:
            return None
        return Actor(
            name=user.name,
            role=user.role,
            via="session",
            decides=user.decides,
            credential=session.id,
            csrf=digest(f"csrf {secret}"),  # so that no store tells it
            logged_in=session.assurance,
        )
