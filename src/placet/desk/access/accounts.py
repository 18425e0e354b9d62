"""The desk's book of people: users, their tokens and sessions, and one-time invitations, in the desk's store.

Nothing is remembered in the process: who is removed, and what is revoked, is refused at the next request, everywhere.
Whatever changes who may what is written into the operators' log in the same transaction, without any secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from placet.clock import SYSTEM_CLOCK, Clock
from placet.desk.access.people import (
    EVERYTHING,
    ROLES,
    Actor,
    DecisionScope,
    Role,
    User,
    checked_groups,
    checked_name,
    lower_role,
    patterns_of,
)
from placet.desk.access.records import OWNED, decoded, read, record_of, unchanged
from placet.desk.access.secrets import (
    HASH_OF_NO_PASSWORD,
    digest,
    hash_password,
    is_password,
    is_secret,
    new_secret,
    short_id,
)
from placet.desk.access.sessions import BrowserSession, Sessions
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import AnyFact, InvitationChanged, PasswordChanged, TokenChanged, UserChanged
from placet.ports import RecordStep, RecordStore, StoredRecord

INVITATION_SECONDS = 72 * 3600.0
TOKEN_PREFIX = "placet_"
MIN_PASSWORD, MAX_PASSWORD = 10, 1024
MAX_TOKENS = 100
"""Of one user."""
FIRST = ""
"""The owner of the first admin's link: nobody."""
FIRST_LINK = "first"
"""How the id of the first admin's link begins, so that it can be told from others when it is void."""
NOT_USABLE = "This link has been used, was replaced or revoked, or is too old: ask an admin for another."
NOT_EMPTY = (
    "This link was for the first admin of a desk without users, and this desk has users by now: log in, or ask an "
    "admin for a link of your own."
)
WRITE_LAST_USE = 600.0
"""A token's last use is noted this often, not at each request."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A program's key. It acts for its owner, and may be allowed less."""

    id: str
    owner: str
    name: str
    digest: str
    role: Role
    decides: tuple[DecisionScope, ...] = EVERYTHING
    created_at: float = 0.0
    expires_at: float | None = None
    last_used_at: float | None = None


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """A link that works once: it makes the first admin, or gives a user a password."""

    id: str
    digest: str
    role: Role
    """That of the user."""
    expires_at: float
    name: str | None = None
    """Whom it is for; None: the person who follows it first chooses a name (the first admin)."""
    by: str | None = None
    created_at: float = 0.0
    bound: str = ""
    """A digest of the user as they were: of anybody else, and of nobody, it sets no password."""


class Accounts(Sessions):
    """Users and what they show to prove who they are."""

    def __init__(self, store: RecordStore, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(store, clock)
        self._hashing = asyncio.Semaphore(2)  # a hash takes 32 MB and a core

    # -- users --------------------------------------------------------------------------------------------------------

    async def users(self) -> list[User]:
        return [decoded(record, User) async for record in self._records("user")]

    async def has_people(self) -> bool:
        """Whether there is a user who can log in: guests only have tokens."""
        async for record in self._records("user"):
            if decoded(record, User).role != "guest":
                return True
        return False

    async def lacks_an_admin(self) -> bool:
        """Whether there are users, and none of them can say who may what."""
        users = await self.users()
        return bool(users) and not any(user.role == "admin" and user.is_active for user in users)

    async def add_user(
        self,
        name: str,
        role: Role,
        *,
        decides: tuple[DecisionScope, ...] = EVERYTHING,
        password: str | None = None,
        groups: Sequence[str] = (),
        owner: str | None = None,
        same_as: str | None = None,
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
            groups=checked_groups(groups),
        )
        user = await self._related(user, await self._first_owner(user, owner), same_as)
        added = RecordStep(kind="user", id=user.name, was=None, now=record_of("user", user.name, user))
        facts: list[AnyFact] = [_user_fact(user, "added", by, self._now())]
        if kept is not None:
            facts.append(PasswordChanged(user.name, by, self._now()))
        without = [] if user.role == "guest" else [("invitation", FIRST)]
        if not await self._change([added], facts, without=without):
            raise UserError(f"There is a user {user.name} already: choose another name, or change that one.")
        return user

    async def change_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        decides: tuple[DecisionScope, ...] | None = None,
        is_active: bool | None = None,
        groups: Sequence[str] | None = None,
        owner: str | None = None,
        same_as: str | None = None,
        by: str | None = None,
    ) -> User:
        """Change what is given. Who may do less from now on may do less in their open sessions, too, and a link that
        was made for them before is void. An empty `owner` or `same_as`: none any more."""
        while True:
            record, old = await self._known(name)
            new = msgspec.structs.replace(
                old,
                role=old.role if role is None else checked_role(role),
                decides=old.decides if decides is None else decides,
                is_active=old.is_active if is_active is None else is_active,
                groups=old.groups if groups is None else checked_groups(groups),
            )
            new = await self._related(new, owner, same_as)
            if new == old:
                return old
            steps = [_replaced(record, new), *await self._keep_an_admin(old, new)]
            facts = [_user_fact(new, "changed", by, self._now())]
            first = [("invitation", FIRST)] if old.role == "guest" != new.role else []
            if await self._change(steps, facts, without=[("invitation", name), *first]):
                return new

    async def _related(self, user: User, owner: str | None, same_as: str | None) -> User:
        """The user with these relations to others; UserError where they make no sense."""
        if owner:
            owner = await self._name_of_person(owner)
            if user.role != "guest":
                raise UserError(f"{user.name} is no guest: only guests have an owner, who answers for them.")
        elif user.role != "guest":
            owner = ""
        if same_as:
            same_as = await self._name_of_person(same_as)
            main = await self.user(same_as)
            if same_as == user.name or main is None or main.same_as is not None:
                raise UserError(f"{same_as} is not another account, or is itself a second one: name the first.")
            if any(each.same_as == user.name for each in await self.users()):
                raise UserError(f"{user.name} is the first account of others: change those, or name them here.")
        return msgspec.structs.replace(
            user,
            owner=user.owner if owner is None else owner or None,
            same_as=user.same_as if same_as is None else same_as or None,
        )

    async def _first_owner(self, user: User, owner: str | None) -> str | None:
        """Who answers for a guest if nothing is said: the person who adds it."""
        adds = await self.user(user.created_by) if user.created_by is not None else None
        if owner is not None or user.role != "guest" or adds is None or adds.role == "guest":
            return owner
        return adds.name

    async def _name_of_person(self, name: str) -> str:
        found = await self.user(checked_name(name))
        if found is None or found.role == "guest":
            raise UserError(f"There is no person {name[:80]!r} at this desk: name a user who is no guest.")
        return found.name

    async def remove_user(self, name: str, *, by: str | None = None) -> None:
        """With all that is theirs: nobody who has this name later is them."""
        while True:
            record, old = await self._known(name)
            removal = RecordStep(kind="user", id=name, was=record.data, now=None)
            steps = [removal, *await self._keep_an_admin(old, None)]
            facts = [_user_fact(old, "removed", by, self._now())]
            if await self._change(steps, facts, without=[(kind, name) for kind in OWNED]):
                return

    async def set_password(self, name: str, password: str, *, by: str | None = None) -> None:
        """A new password; all sessions of the user end, and links that were made for them before are void."""
        kept = await self._hashed(password)
        while True:
            record, old = await self._known(name)
            steps = [_replaced(record, msgspec.structs.replace(old, password=kept))]
            facts = [PasswordChanged(name, by, self._now())]
            if await self._change(steps, facts, without=[("session", name), ("invitation", name)]):
                return

    async def _known(self, name: str) -> tuple[StoredRecord, User]:
        record = await self._found("user", name)
        if record is None:
            raise UserError(f"There is no user {name[:80]!r} at this desk.")
        return record, decoded(record, User)

    async def _keep_an_admin(self, old: User, new: User | None) -> list[RecordStep]:
        """A desk without an admin could not be mended from within. Where one goes, the change rests on another who
        stays: of two admins who demote each other at the same moment one is refused."""
        stays_admin = new is not None and new.role == "admin" and new.is_active
        if stays_admin or old.role != "admin" or not old.is_active:
            return []
        async for record in self._records("user"):
            user = decoded(record, User)
            if user.name != old.name and user.role == "admin" and user.is_active:
                return [unchanged(record)]
        raise UserError(f"{old.name} is the only admin of this desk: make another person an admin first.")

    async def _hashed(self, password: str) -> str:
        if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
            raise UserError(f"A password has {MIN_PASSWORD} to {MAX_PASSWORD} characters.")
        async with self._hashing:
            return await asyncio.to_thread(hash_password, password)

    # -- invitations --------------------------------------------------------------------------------------------------

    async def invite(self, name: str, *, by: str | None = None) -> str:
        """A key that works once, for three days, with which a user sets a password: the first one, or another.

        It is bound to the user as they are now: any change of them voids it, and so does a newer key.
        """
        while True:
            record, user = await self._known(checked_name(name))
            if not user.is_active:
                raise UserError(f"{user.name} is switched off: switch them on first, then make a link.")
            if user.role == "guest":
                raise UserError(f"{user.name} is a guest: guests have tokens, and no password.")
            secret = new_secret()
            invitation = Invitation(
                id=short_id("inv"),
                digest=digest(secret),
                role=user.role,
                name=user.name,
                created_at=self._now(),
                expires_at=self._now() + INVITATION_SECONDS,
                by=by,
                bound=digest(record.data),
            )
            if await self._make_link(invitation, [unchanged(record)]):
                return f"{invitation.id}.{secret}"

    async def first_admin_key(self) -> str | None:
        """A key for the first admin, while nobody can log in yet. An earlier one stops working."""
        if await self.has_people():
            return None
        secret, now = new_secret(), self._now()
        invitation = Invitation(
            id=short_id(FIRST_LINK),
            digest=digest(secret),
            role="admin",
            created_at=now,
            expires_at=now + INVITATION_SECONDS,
        )
        await self._make_link(invitation)
        return f"{invitation.id}.{secret}"

    async def _make_link(self, invitation: Invitation, steps: Sequence[RecordStep] = ()) -> bool:
        owner = invitation.name or FIRST
        record = record_of("invitation", invitation.id, invitation, owner, invitation.expires_at)
        made = RecordStep(kind="invitation", id=invitation.id, was=None, now=record)
        facts = [_of_link(invitation, "made", invitation.by, self._now())]
        return await self._change([*steps, made], facts, without=[("invitation", owner)])

    async def invitations(self) -> list[Invitation]:
        """The links that can still be followed, oldest first."""
        found = [decoded(record, Invitation) async for record in self._records("invitation")]
        usable = [each for each in found if await self._is_usable(each)]
        return sorted(usable, key=lambda each: each.created_at)

    async def revoke_invitation(self, invitation_id: str, *, by: str | None = None) -> bool:
        """Whether there was such a link."""
        record = await self._found("invitation", invitation_id)
        if record is None:
            return False
        removal = RecordStep(kind="invitation", id=invitation_id, was=record.data, now=None)
        return await self._change([removal], [_of_link(decoded(record, Invitation), "revoked", by, self._now())])

    async def invitation(self, key: str) -> Invitation | None:
        """What the key is for, without using it up."""
        record_id, _, secret = key.partition(".")
        found = read(await self._found("invitation", record_id), Invitation)
        if found is None or not is_secret(secret, found.digest) or not await self._is_usable(found):
            return None
        return found

    async def why_not_usable(self, key: str) -> str:
        """What is said to who follows a link that cannot be followed."""
        if key.startswith(f"{FIRST_LINK}-") and await self.has_people():
            return NOT_EMPTY
        return NOT_USABLE

    async def _is_usable(self, invitation: Invitation) -> bool:
        """Whether its user is still as they were when it was made; the first admin's: whether nobody can log in."""
        if invitation.expires_at <= self._now():
            return False
        if invitation.name is None:
            return not await self.has_people()
        record = await self._found("user", invitation.name)
        return record is not None and is_secret(record.data, invitation.bound)

    async def accept(self, key: str, password: str, *, name: str | None = None) -> User:
        """Use an invitation up: its user has this password afterwards."""
        invitation = await self.invitation(key)
        if invitation is None:
            raise AccessDenied(await self.why_not_usable(key))
        user, step = await self._invited(invitation, name, await self._hashed(password))
        link = await self._found("invitation", invitation.id)
        if link is None:
            raise AccessDenied(NOT_USABLE)
        now = self._now()
        facts: list[AnyFact] = [_of_link(invitation, "used", user.name, now)]
        if step.was is None:
            facts.append(_user_fact(user, "added", invitation.by or user.name, now))
        facts.append(PasswordChanged(user.name, user.name, now, invitation.id))
        used = RecordStep(kind="invitation", id=invitation.id, was=link.data, now=None)
        ends = [("invitation", invitation.name or FIRST), ("session", user.name)]
        if not await self._change([used, step], facts, without=ends):
            raise AccessDenied(NOT_USABLE)
        return user

    async def _invited(self, invitation: Invitation, name: str | None, password: str) -> tuple[User, RecordStep]:
        """The user with the password, and the step that leads there: from exactly what the link was made for."""
        if invitation.name is None:
            chosen = checked_name(name or "")
            if await self.user(chosen) is not None:
                raise UserError(f"There is a user {chosen} already: choose another name.")
            user = User(name=chosen, role=invitation.role, password=password, created_at=self._now())
            return user, RecordStep(kind="user", id=chosen, was=None, now=record_of("user", chosen, user))
        record = await self._found("user", invitation.name)
        if record is None or not is_secret(record.data, invitation.bound):
            raise AccessDenied(NOT_USABLE)
        user = msgspec.structs.replace(decoded(record, User), password=password)
        return user, _replaced(record, user)

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def log_in(self, name: str, password: str, *, client: str = "") -> tuple[str, BrowserSession]:
        """A session for who knows the password: the cookie's text, and the session. AccessDenied otherwise."""
        return await self.open_session(await self.check_password(name, password), client=client)

    async def check_password(self, name: str, password: str) -> User:
        """The user of this name, if that is their password. AccessDenied otherwise, after the same time."""
        user = await self.user(name.strip().lower())
        kept = user.password if user is not None else None
        async with self._hashing:
            is_right = await asyncio.to_thread(is_password, password[: MAX_PASSWORD + 1], kept or HASH_OF_NO_PASSWORD)
        if user is None or kept is None or not user.is_active or not is_right:
            raise AccessDenied("Name and password do not fit.")
        return user

    # -- tokens -------------------------------------------------------------------------------------------------------

    async def add_token(
        self,
        owner: str,
        name: str,
        *,
        role: Role | None = None,
        decides: tuple[DecisionScope, ...] = EVERYTHING,
        seconds: float | None = None,
        by: str | None = None,
        token_id: str | None = None,
    ) -> tuple[str, Token]:
        """A token of this user: its text, which is shown once, and what is kept of it.

        With an id of one's own, making it again leaves one token, whose text is the newer one.
        """
        if not name.strip() or len(name) > 100:
            raise UserError("A token's name says what it is for, in up to 100 characters.")
        if len(await self.tokens(owner)) >= MAX_TOKENS:
            raise UserError(f"{owner} has {MAX_TOKENS} tokens: revoke one first.")
        while True:
            record, user = await self._known(owner)
            secret, now = new_secret(), self._now()
            token = Token(
                id=token_id or short_id("tok"),
                owner=user.name,
                name=name.strip(),
                digest=digest(secret),
                role=lower_role(user.role, checked_role(role or user.role)),
                decides=decides,
                created_at=now,
                expires_at=None if seconds is None else now + seconds,
            )
            kept = record_of("token", token.id, token, owner, token.expires_at)
            before = await self._found("token", token.id)
            made = RecordStep(kind="token", id=token.id, was=None if before is None else before.data, now=kept)
            if await self._change([unchanged(record), made], [_of_token(token, "made", by, now)]):
                return f"{TOKEN_PREFIX}{token.id}_{secret}", token

    async def check_token_role(self, owner: str, role: Role | None) -> None:
        """A token is at most what its owner is: who asks for more is told, and not given less in silence."""
        _, user = await self._known(owner)
        if role is not None and lower_role(user.role, checked_role(role)) != role:
            raise UserError(
                f"{user.name} is a {user.role}, so no token of theirs has the role {role}: leave the role out, "
                f"or give {user.name} that role first."
            )

    async def tokens(self, owner: str | None = None) -> list[Token]:
        """Oldest first."""
        found = [decoded(record, Token) async for record in self._records("token", owner)]
        return sorted(found, key=lambda token: token.created_at)

    async def token(self, token_id: str) -> Token | None:
        return read(await self._found("token", token_id), Token)

    async def revoke_token(self, token_id: str, *, by: str | None = None) -> bool:
        """Whether there was such a token."""
        while (record := await self._found("token", token_id)) is not None:
            removal = RecordStep(kind="token", id=token_id, was=record.data, now=None)
            if await self._change([removal], [_of_token(decoded(record, Token), "revoked", by, self._now())]):
                return True
        return False

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
        await self._store.replace_record(record_of("token", token.id, used, token.owner, token.expires_at))


def checked_role(role: str) -> Role:
    found = next((each for each in ROLES if each == role), None)
    if found is None:
        raise UserError(f"A role is guest, viewer, reviewer or admin, not {role!r}.")
    return found


def _replaced(record: StoredRecord, user: User) -> RecordStep:
    return RecordStep(kind="user", id=user.name, was=record.data, now=record_of("user", user.name, user))


def _user_fact(user: User, change: Literal["added", "changed", "removed"], by: str | None, at: float) -> UserChanged:
    rights = (user.role, patterns_of(user.decides), user.is_active, list(user.groups))
    return UserChanged(user.name, change, by, at, *rights, user.owner, user.same_as)


def _of_link(
    invitation: Invitation, change: Literal["made", "used", "revoked"], by: str | None, at: float
) -> InvitationChanged:
    given = (invitation.id, change, invitation.name, invitation.role, by, at)
    return InvitationChanged(*given, invitation.expires_at if change == "made" else None)


def _of_token(token: Token, change: Literal["made", "revoked"], by: str | None, at: float) -> TokenChanged:
    bounds = (token.role, patterns_of(token.decides), by, at, token.expires_at)
    return TokenChanged(token.id, change, token.owner, token.name, *bounds)
