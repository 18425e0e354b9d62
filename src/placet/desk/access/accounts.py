"""The desk's book of people: users, their tokens and sessions, and one-time invitations, in the desk's store.

Nothing is remembered in the process: who is removed, and what is revoked, is refused at the next request, everywhere.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.access.people import (
    EVERYTHING,
    ROLES,
    Actor,
    Role,
    Scope,
    User,
    checked_name,
    lower_role,
)
from placet.desk.access.secrets import NOBODY, digest, hash_password, is_password, is_secret, new_secret, short_id
from placet.facts.codec import encode
from placet.facts.errors import AccessDenied, UserError
from placet.ports import Record, RecordStore

V = TypeVar("V")

HOUR = 3600.0
SESSION_SECONDS = 12 * HOUR
INVITATION_SECONDS = 72 * HOUR
TOKEN_PREFIX = "placet_"
MIN_PASSWORD, MAX_PASSWORD = 10, 1024
MAX_TOKENS = 100
"""Of one user."""
WRITE_LAST_USE = 600.0
"""A token's last use is noted this often, not at each request."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A program's key. It acts for its owner, and may be allowed less."""

    id: str
    owner: str
    name: str
    digest: str
    role: Role
    decides: tuple[Scope, ...] = EVERYTHING
    created_at: float = 0.0
    expires_at: float | None = None
    last_used_at: float | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody at a browser."""

    id: str
    owner: str
    digest: str
    csrf: str
    created_at: float
    expires_at: float
    client: str = ""
    """What the browser says of itself, for the list of sessions."""


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """A link that works once: it makes a user, or gives one a new password."""

    id: str
    digest: str
    role: Role
    expires_at: float
    name: str | None = None
    """Whom it is for; None: whoever follows it first chooses a name (the first admin)."""
    by: str | None = None


class Accounts:
    """Users and what they show to prove who they are."""

    def __init__(self, store: RecordStore, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self._hashing = asyncio.Semaphore(2)  # a hash takes 32 MB and a core

    # -- users --------------------------------------------------------------------------------------------------------

    async def user(self, name: str) -> User | None:
        return _read(await self._found("user", name), User)

    async def users(self) -> list[User]:
        found: list[User] = []
        while page := await self._store.records("user", after=found[-1].name if found else ""):
            found += [msgspec.json.decode(record.data, type=User) for record in page]
        return found

    async def has_users(self) -> bool:
        return bool(await self._store.records("user", limit=1))

    async def lacks_an_admin(self) -> bool:
        """Whether there are users, and none of them can say who may what."""
        users = await self.users()
        return bool(users) and not any(user.role == "admin" and user.is_active for user in users)

    async def add_user(
        self,
        name: str,
        role: Role,
        *,
        decides: tuple[Scope, ...] = EVERYTHING,
        password: str | None = None,
        by: str | None = None,
    ) -> User:
        kept = await self._hashed(password) if password is not None else None
        user = User(
            name=checked_name(name),
            role=checked_role(role),
            decides=decides,
            password=kept,
            created_at=self._now(),
            created_by=by,
        )
        if not await self._store.add_record(_record("user", user.name, user)):
            raise UserError(f"There is a user {user.name} already: choose another name, or change that one.")
        return user

    async def change_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        decides: tuple[Scope, ...] | None = None,
        is_active: bool | None = None,
    ) -> User:
        """Change what is given. Who may do less from now on may do less in their open sessions, too."""
        while True:
            old = await self._known(name)
            new = msgspec.structs.replace(
                old,
                role=old.role if role is None else checked_role(role),
                decides=old.decides if decides is None else decides,
                is_active=old.is_active if is_active is None else is_active,
            )
            await self._keep_an_admin(old, new)
            if await self._replace_user(old, new):
                return new

    async def remove_user(self, name: str) -> None:
        old = await self._known(name)
        await self._keep_an_admin(old, None)
        await self._store.take_record("user", name)
        for kind in ("session", "token"):
            await self._store.remove_records(kind, name)

    async def set_password(self, name: str, password: str) -> None:
        """A new password; all sessions of the user end."""
        kept = await self._hashed(password)
        while True:
            old = await self._known(name)
            if await self._replace_user(old, msgspec.structs.replace(old, password=kept)):
                break
        await self._store.remove_records("session", name)

    async def _replace_user(self, old: User, new: User) -> bool:
        return await self._store.replace_record(_record("user", new.name, new), was=_text(old))

    async def _known(self, name: str) -> User:
        found = await self.user(name)
        if found is None:
            raise UserError(f"There is no user {name[:80]!r} at this desk.")
        return found

    async def _keep_an_admin(self, old: User, new: User | None) -> None:
        """A desk without an admin could not be mended from within."""
        stays_admin = new is not None and new.role == "admin" and new.is_active
        if stays_admin or old.role != "admin" or not old.is_active:
            return
        others = [user for user in await self.users() if user.name != old.name]
        if not any(user.role == "admin" and user.is_active for user in others):
            raise UserError(f"{old.name} is the only admin of this desk: make somebody else one first.")

    async def _hashed(self, password: str) -> str:
        if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
            raise UserError(f"A password has {MIN_PASSWORD} to {MAX_PASSWORD} characters.")
        async with self._hashing:
            return await asyncio.to_thread(hash_password, password)

    # -- invitations --------------------------------------------------------------------------------------------------

    async def invite(self, role: Role, *, name: str | None = None, by: str | None = None) -> str:
        """A key that works once, for three days: for the first admin, for a new user, or for a forgotten password."""
        secret = new_secret()
        invitation = Invitation(
            id=short_id("inv"),
            digest=digest(secret),
            role=checked_role(role),
            name=None if name is None else checked_name(name),
            expires_at=self._now() + INVITATION_SECONDS,
            by=by,
        )
        record = _record("invitation", invitation.id, invitation, invitation.name or "", invitation.expires_at)
        await self._store.add_record(record)
        return f"{invitation.id}.{secret}"

    async def first_admin_key(self) -> str | None:
        """A key for the first admin, while there is nobody yet. An earlier one stops working."""
        if await self.has_users():
            return None
        await self._store.remove_records("invitation", "")
        return await self.invite("admin")

    async def invitation(self, key: str) -> Invitation | None:
        """What the key is for, without using it up."""
        record_id, _, secret = key.partition(".")
        found = _read(await self._found("invitation", record_id), Invitation)
        if found is None or not is_secret(secret, found.digest) or found.expires_at <= self._now():
            return None
        return found

    async def accept(self, key: str, password: str, *, name: str | None = None) -> User:
        """Use an invitation up: its user exists afterwards, with this password."""
        invitation = await self.invitation(key)
        if invitation is None:
            raise AccessDenied("This link has been used, or is too old: ask an admin for another.")
        chosen = checked_name(invitation.name or name or "")
        is_first = invitation.name is None
        known = await self.user(chosen)
        if is_first and known is not None:
            raise UserError(f"There is a user {chosen} already: choose another name.")
        kept = await self._hashed(password)
        if await self._store.take_record("invitation", invitation.id) is None:
            raise AccessDenied("This link has been used in the meantime: ask an admin for another.")
        if is_first and await self.has_users():
            raise AccessDenied("This desk has got its first admin in the meantime: ask them for an invitation.")
        if known is None:
            user = User(
                name=chosen, role=invitation.role, password=kept, created_at=self._now(), created_by=invitation.by
            )
            await self._store.add_record(_record("user", chosen, user))
        elif not await self._replace_user(known, msgspec.structs.replace(known, password=kept)):
            raise AccessDenied("This user was changed in the meantime: ask an admin for another link.")
        await self._store.remove_records("session", chosen)
        return await self._known(chosen)

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def log_in(self, name: str, password: str, *, client: str = "") -> tuple[str, Session]:
        """A session for who knows the password: the cookie's text, and the session. AccessDenied otherwise."""
        user = await self.user(name.strip().lower())
        kept = user.password if user is not None else None
        async with self._hashing:
            is_right = await asyncio.to_thread(is_password, password[: MAX_PASSWORD + 1], kept or NOBODY)
        if user is None or kept is None or not user.is_active or not is_right:
            raise AccessDenied("Name and password do not fit.")
        return await self.open_session(user, client=client)

    async def open_session(self, user: User, *, client: str = "") -> tuple[str, Session]:
        secret, now = new_secret(), self._now()
        session = Session(
            id=short_id("ses"),
            owner=user.name,
            digest=digest(secret),
            csrf=new_secret(),
            created_at=now,
            expires_at=now + SESSION_SECONDS,
            client=client[:200],
        )
        await self._store.add_record(_record("session", session.id, session, user.name, session.expires_at))
        return f"{session.id}.{secret}", session

    async def sessions(self, owner: str) -> list[Session]:
        return [_decoded(record, Session) for record in await self._store.records("session", owner=owner)]

    async def end_session(self, session_id: str, *, owner: str) -> bool:
        found = _read(await self._found("session", session_id), Session)
        if found is None or found.owner != owner:
            return False
        return await self._store.take_record("session", session_id) is not None

    async def actor_of_cookie(self, cookie: str) -> Actor | None:
        session_id, _, secret = cookie.partition(".")
        session = _read(await self._found("session", session_id), Session)
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
            csrf=session.csrf,
        )

    # -- tokens -------------------------------------------------------------------------------------------------------

    async def add_token(
        self,
        owner: str,
        name: str,
        *,
        role: Role | None = None,
        decides: tuple[Scope, ...] = EVERYTHING,
        seconds: float | None = None,
    ) -> tuple[str, Token]:
        """A token of this user: its text, which is shown once, and what is kept of it."""
        user = await self._known(owner)
        if not name.strip() or len(name) > 100:
            raise UserError("A token's name says what it is for, in up to 100 characters.")
        if len(await self.tokens(owner)) >= MAX_TOKENS:
            raise UserError(f"{owner} has {MAX_TOKENS} tokens: revoke one first.")
        secret, now = new_secret(), self._now()
        token = Token(
            id=short_id("tok"),
            owner=user.name,
            name=name.strip(),
            digest=digest(secret),
            role=lower_role(user.role, checked_role(role or user.role)),
            decides=decides,
            created_at=now,
            expires_at=None if seconds is None else now + seconds,
        )
        await self._store.add_record(_record("token", token.id, token, owner, token.expires_at))
        return f"{TOKEN_PREFIX}{token.id}_{secret}", token

    async def check_token_role(self, owner: str, role: Role | None) -> None:
        """A token is at most what its owner is: who asks for more is told, and not given less in silence."""
        user = await self._known(owner)
        if role is not None and lower_role(user.role, checked_role(role)) != role:
            raise UserError(
                f"{user.name} is a {user.role}, so no token of theirs has the role {role}: leave the role out, "
                f"or give {user.name} that role first."
            )

    async def tokens(self, owner: str | None = None) -> list[Token]:
        """Oldest first."""
        found = [_decoded(record, Token) for record in await self._store.records("token", owner=owner)]
        return sorted(found, key=lambda token: token.created_at)

    async def token(self, token_id: str) -> Token | None:
        return _read(await self._found("token", token_id), Token)

    async def revoke_token(self, token_id: str) -> bool:
        return await self._store.take_record("token", token_id) is not None

    async def actor_of_token(self, text: str) -> Actor | None:
        token_id, _, secret = text.removeprefix(TOKEN_PREFIX).partition("_")
        token = await self.token(token_id)
        if token is None or not is_secret(secret, token.digest):
            return None
        if token.expires_at is not None and token.expires_at <= self._now():
            return None
        user = await self.user(token.owner)
        if user is None or not user.is_active:
            return None
        await self._note_use(token)
        return Actor(
            name=user.name,
            role=lower_role(user.role, token.role),
            via="token",
            decides=user.decides,
            narrowed=token.decides,
            credential=token.id,
        )

    async def _note_use(self, token: Token) -> None:
        if token.last_used_at is not None and self._now() - token.last_used_at < WRITE_LAST_USE:
            return
        used = msgspec.structs.replace(token, last_used_at=self._now())
        await self._store.replace_record(_record("token", token.id, used, token.owner, token.expires_at))

    async def _found(self, kind: str, record_id: str) -> Record | None:
        """What is under an id that somebody showed: it may be any text, also one that no store can hold."""
        return await self._store.record(kind, record_id) if record_id.isascii() and record_id.isprintable() else None

    def _now(self) -> float:
        return self._clock.now()


def checked_role(role: str) -> Role:
    found = next((each for each in ROLES if each == role), None)
    if found is None:
        raise UserError(f"A role is viewer, reviewer or admin, not {role!r}.")
    return found


def _text(value: msgspec.Struct) -> str:
    return encode(value).decode()


def _record(
    kind: str, record_id: str, value: msgspec.Struct, owner: str = "", expires_at: float | None = None
) -> Record:
    return Record(kind=kind, id=record_id, data=_text(value), owner=owner, expires_at=expires_at)


def _read(record: Record | None, kind: type[V]) -> V | None:
    return None if record is None else _decoded(record, kind)


def _decoded(record: Record, kind: type[V]) -> V:
    return msgspec.json.decode(record.data, type=kind)
