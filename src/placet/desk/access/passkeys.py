"""The passkeys of people: registered, used, removed. Who registers or removes one needs a signature under it.

Rule of this file: a key counts from the moment at which its fact stands in the operators' log, and not before. The fact
bears the signature of another key of the person, or of two admins (of as many as there are, while there are fewer: then
whoever keeps a trust file sees it as not anchored).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from placet.core.signing import as_text, challenge_of_key
from placet.desk.access.people import User
from placet.desk.access.records import PeopleRecords, decoded, read, record_of, unchanged
from placet.desk.access.secrets import new_secret, short_id
from placet.facts.codec import JsonObject
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import AnyFact, PasskeyChanged
from placet.facts.signatures import Assertion, KeyChange, KeySignature
from placet.ports import RecordStep

CEREMONY_SECONDS = 300.0
WAITING_SECONDS = 7 * 24 * 3600.0
ADMINS = 2
"""So many admins sign for a person who has no key that could."""
MAX_KEYS = 20
"""Of one person."""

Purpose: TypeAlias = Literal["register", "log in", "step up", "vouch", "decide"]


class Passkey(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    """Of the credential, in base64url."""
    owner: str
    name: str
    public_key: str
    rp_id: str
    sign_count: int = 0
    created_at: float = 0.0
    last_used_at: float | None = None


class WaitingKey(msgspec.Struct, frozen=True, kw_only=True):
    """A registration or removal that has not got its signatures yet."""

    id: str
    change: KeyChange
    key: Passkey
    by: str
    at: float
    signatures: tuple[KeySignature, ...] = ()


class Ceremony(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody was asked to sign. It is taken once, by the answer."""

    id: str
    """The nonce."""
    purpose: Purpose
    owner: str
    """Empty: it is not known yet who logs in."""
    about: str
    rp_id: str
    origin: str


class Passkeys(PeopleRecords):
    """Keys, what waits for signatures, and ceremonies under way."""

    async def key(self, key_id: str) -> Passkey | None:
        return read(await self._found("passkey", key_id), Passkey)

    async def keys(self, owner: str | None = None) -> list[Passkey]:
        found = [decoded(record, Passkey) async for record in self._records("passkey", owner)]
        return sorted(found, key=lambda key: key.created_at)

    async def waiting(self, owner: str | None = None) -> list[WaitingKey]:
        found = [decoded(record, WaitingKey) async for record in self._records("passkey-waiting", owner)]
        return sorted(found, key=lambda each: each.at)

    async def waiting_key(self, waiting_id: str) -> WaitingKey | None:
        return read(await self._found("passkey-waiting", waiting_id), WaitingKey)

    # -- ceremonies ---------------------------------------------------------------------------------------------------

    async def begin(self, purpose: Purpose, owner: str, about: str, *, rp_id: str, origin: str) -> str:
        """A fresh nonce, which this person can answer once, for this purpose, for five minutes."""
        nonce = new_secret()
        ceremony = Ceremony(id=nonce, purpose=purpose, owner=owner, about=about, rp_id=rp_id, origin=origin)
        await self._store.add_record(record_of("ceremony", nonce, ceremony, owner, self._now() + CEREMONY_SECONDS))
        return nonce

    async def take(self, nonce: str, purpose: Purpose, owner: str, about: str) -> Ceremony:
        """The ceremony that an answer is for. Of two equal answers one finds it."""
        is_ours = nonce.isascii() and nonce.isprintable()
        found = read(await self._store.take_record("ceremony", nonce) if is_ours else None, Ceremony)
        if found is None or (found.purpose, found.owner, found.about) != (purpose, owner, about):
            raise AccessDenied("This question to your passkey was answered already, is too old, or was another one.")
        return found

    async def used(self, assertion: Assertion, challenge: bytes, ceremony: Ceremony, owner: str | None) -> Passkey:
        """The key that answered, and its counter noted. AccessDenied where it may not, or where its counter tells of a
        copy, which is recorded."""
        from placet.passkeys.checking import check_assertion, count_of, went_back

        while True:
            record = await self._found("passkey", assertion.key)
            key = read(record, Passkey)
            if record is None or key is None or (owner is not None and key.owner != owner):
                raise AccessDenied("This desk does not know that passkey, or it is another person's.")
            if key.rp_id != ceremony.rp_id:
                raise AccessDenied(f"That passkey was registered for {key.rp_id}, and this is {ceremony.rp_id}.")
            origins = [ceremony.origin]
            check_assertion(assertion, challenge, public_key=key.public_key, rp_id=key.rp_id, origins=origins)
            count = count_of(assertion)
            if went_back(key.sign_count, count):
                await self._change([unchanged(record)], [_fact("cloned", key, None, self._now())])
                raise AccessDenied("The counter of that passkey went back, so there is a copy of it: remove it.")
            now = msgspec.structs.replace(key, sign_count=count, last_used_at=self._now())
            if await self._store.replace_record(record_of("passkey", key.id, now, key.owner), was=record.data):
                return now

    # -- registering and removing -------------------------------------------------------------------------------------

    async def register(self, owner: str, name: str, credential: JsonObject, ceremony: Ceremony) -> WaitingKey | None:
        """A new key of this person; what it waits for, or None: it counts at once, since nobody could sign for it."""
        from placet.passkeys.checking import check_new_key

        found = check_new_key(credential, challenge_of(ceremony.id), rp_id=ceremony.rp_id, origins=[ceremony.origin])
        if await self.key(found.id) is not None:
            raise AccessDenied("That passkey is registered already.")
        if len(await self.keys(owner)) >= MAX_KEYS:
            raise UserError(f"{owner} has {MAX_KEYS} passkeys: remove one first.")
        key = Passkey(
            id=found.id,
            owner=owner,
            name=name.strip()[:100] or "Passkey",
            public_key=found.public_key,
            rp_id=ceremony.rp_id,
            sign_count=found.sign_count,
            created_at=self._now(),
        )
        return await self._propose("registered", key, owner)

    async def remove(self, key_id: str, *, by: str) -> WaitingKey | None:
        key = await self.key(key_id)
        if key is None:
            raise UserError("There is no such passkey.")
        return await self._propose("removed", key, by)

    async def _propose(self, change: KeyChange, key: Passkey, by: str) -> WaitingKey | None:
        waiting = WaitingKey(id=short_id("key"), change=change, key=key, by=by, at=self._now())
        if await self.needed(waiting) == 0:
            await self._complete(waiting, [])
            return None
        kept = record_of("passkey-waiting", waiting.id, waiting, key.owner, self._now() + WAITING_SECONDS)
        await self._store.add_record(kept)
        return waiting

    async def needed(self, waiting: WaitingKey) -> int:
        """How many signatures are missing. One of a key of the person's own is enough; else two admins', or as many as
        there are with a key."""
        person, signers = waiting.key.owner, {each.by for each in waiting.signatures}
        if person in signers:
            return 0
        if await self.keys(person) and not signers:
            return 1
        others = await self._admins_with_keys(person)
        return max(0, min(ADMINS, len(others | signers)) - len(signers))

    def may_sign(self, waiting: WaitingKey, signer: User) -> bool:
        is_new = all(each.by != signer.name for each in waiting.signatures)
        return is_new and (signer.name == waiting.key.owner or _is_admin(signer))

    async def _admins_with_keys(self, but: str) -> set[str]:
        """Human beings: a second account of the same person is none."""
        users = {record.id: decoded(record, User) async for record in self._records("user")}
        person = users.get(but)
        itself = _identity(person) if person is not None else but
        owners = {key.owner for key in await self.keys()}
        found = {_identity(users[name]) for name in owners if name in users and _is_admin(users[name])}
        return found - {itself}

    async def sign(self, waiting_id: str, assertion: Assertion, ceremony: Ceremony, signer: User) -> WaitingKey | None:
        """One more signature; what is still missing, or None: the change counts from now on."""
        record = await self._found("passkey-waiting", waiting_id)
        waiting = read(record, WaitingKey)
        if record is None or waiting is None:
            raise UserError("That passkey does not wait for a signature any more.")
        if not self.may_sign(waiting, signer):
            raise AccessDenied(f"{signer.name} cannot sign for {waiting.key.owner}: an admin who has not yet can.")
        if signer.name != waiting.key.owner and await self._is_same_person(waiting, signer):
            raise AccessDenied("Two admins are two people, and not this one: another person has to sign.")
        await self.used(assertion, challenge_of_waiting(waiting, ceremony.id), ceremony, signer.name)
        signatures = (*waiting.signatures, KeySignature(signer.name, assertion))
        signed = msgspec.structs.replace(waiting, signatures=signatures)
        if await self.needed(signed) == 0:
            await self._complete(signed, [RecordStep(kind=record.kind, id=record.id, was=record.data, now=None)])
            return None
        kept = record_of("passkey-waiting", waiting.id, signed, waiting.key.owner, record.expires_at)
        if not await self._store.replace_record(kept, was=record.data):
            raise AccessDenied("Somebody else signed at the same moment: sign again.")
        return signed

    async def _is_same_person(self, waiting: WaitingKey, signer: User) -> bool:
        signed_by = [await self.user(each.by) for each in waiting.signatures]
        owner = await self.user(waiting.key.owner)
        return _identity(signer) in {_identity(each) for each in (*signed_by, owner) if each is not None}

    async def _complete(self, waiting: WaitingKey, steps: Sequence[RecordStep]) -> None:
        key = waiting.key
        record = await self._found("passkey", key.id)
        was = None if record is None else record.data
        now = record_of("passkey", key.id, key, key.owner) if waiting.change == "registered" else None
        if (was is None) == (now is None):
            raise UserError("That passkey was registered or removed in the meantime.")
        owner = await self._found("user", key.owner)
        if owner is None:
            raise UserError(f"There is no user {key.owner} any more.")
        change = RecordStep(kind="passkey", id=key.id, was=was, now=now)
        facts: list[AnyFact] = [_fact(waiting.change, key, waiting.by, self._now(), waiting.signatures)]
        if not await self._change([unchanged(owner), *steps, change], facts):
            raise UserError("Something about this person or passkey changed at the same moment: try again.")

    async def forget(self, owner: str, *, by: str | None) -> int:
        """Take all keys of a person away without a signature: for who has lost the last one. It is recorded so, and
        whoever keeps a trust file sees it."""
        keys = await self.keys(owner)
        for key in keys:
            record = await self._found("passkey", key.id)
            if record is not None:
                gone = RecordStep(kind="passkey", id=key.id, was=record.data, now=None)
                await self._change([gone], [_fact("removed", key, by, self._now())])
        return len(keys)

    async def withdraw(self, waiting_id: str) -> None:
        """Whoever proposed it, or an admin, does not want it any more."""
        await self._store.take_record("passkey-waiting", waiting_id)


def challenge_of(nonce: str) -> bytes:
    """Where nothing but presence is asked for: to log in, to confirm, to register."""
    return hashlib.sha256(f"placet presence 1 {nonce}".encode()).digest()


def challenge_of_waiting(waiting: WaitingKey, nonce: str) -> bytes:
    key = waiting.key
    return challenge_of_key(waiting.change, key.owner, key.id, key.public_key, key.rp_id, nonce)


def handle_of(name: str) -> str:
    """By what an authenticator tells its users apart: nothing that says who it is."""
    return as_text(hashlib.sha256(f"placet user {name}".encode()).digest())


def _identity(user: User) -> str:
    return user.same_as or user.name


def _is_admin(user: User) -> bool:
    return user.role == "admin" and user.is_active


def _fact(
    change: KeyChange, key: Passkey, by: str | None, at: float, signatures: Sequence[KeySignature] = ()
) -> PasskeyChanged:
    return PasskeyChanged(key.id, change, key.owner, key.name, key.public_key, key.rp_id, by, at, list(signatures))
