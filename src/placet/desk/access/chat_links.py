"""Accounts of a chat that are linked to users of the desk: by a one-time word, confirmed on both sides.

Who is logged in at the desk gets a word. Who types it in the chat is asked there whether they are that user, and the
desk asks its user whether that is their account in the chat. Only both together make the link. A chat's account is its
workspace and its id there: never a name, never a mail address.
"""

from __future__ import annotations

import os

import msgspec

from placet.clock import Clock
from placet.desk.access.people import Actor, User
from placet.desk.access.secrets import digest, short_id
from placet.facts.codec import encode
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import ChatLinkChanged
from placet.ports import RecordStep, RecordStore, StoredRecord

LINK, WORD, TRIES = "chat_link", "chat_word", "chat_tries"
WORD_SECONDS = 600.0
MOST_TRIES = 5
"""Words that one account of a chat may type within `TRY_SECONDS`, wrong ones and right ones."""
TRY_SECONDS = 3600.0
_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""32 signs that are not taken for one another."""
NOT_USABLE = "This word is not known, was used already, or is too old: get another at the desk, on your account's page."


class ChatLink(msgspec.Struct, frozen=True, kw_only=True):
    """An account of a chat, and whose clicks its clicks are."""

    account: str
    """`slack:T…:U…`"""
    owner: str
    label: str
    """How the chat called it when it was linked. For people alone."""
    made_at: float


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A ceremony that is not over."""

    id: str
    owner: str
    expires_at: float
    account: str | None = None
    """Who typed the word."""
    label: str = ""
    is_confirmed_there: bool = False


class ChatLinks:
    """The links of a desk, and the ceremonies that make them."""

    def __init__(self, store: RecordStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    # -- the ceremony -------------------------------------------------------------------------------------------------

    async def begin(self, owner: str) -> str:
        """A word for this user to type in the chat. One that they got before is worth nothing any more."""
        word = new_word()
        await self._store.remove_records(WORD, owner)
        expires_at = self._clock.now() + WORD_SECONDS
        await self._store.add_record(
            _begun(digest(word), Begun(id=short_id("lnk"), owner=owner, expires_at=expires_at))
        )
        return word

    async def begun(self, owner: str) -> Begun | None:
        """The ceremony of this user that is not over."""
        record = await self._record_of(owner)
        return None if record is None else _read(record)

    async def type_word(self, account: str, label: str, word: str) -> Begun:
        """Somebody typed a word in the chat. AccessDenied where it is none, or after too many tries."""
        await self._count_try(account)
        record = await self._store.record(WORD, digest(normal(word)))
        found = None if record is None else _read(record)
        if record is None or found is None or (found.account is not None and found.account != account):
            raise AccessDenied(NOT_USABLE)
        typed = msgspec.structs.replace(found, account=account, label=label[:100])
        if not await self._store.replace_record(_begun(record.id, typed), was=record.data):
            raise AccessDenied(NOT_USABLE)
        return typed

    async def answer_there(self, account: str, begun_id: str, *, is_me: bool) -> Begun:
        """What the account that typed the word says: it is this user, or is not. AccessDenied for anybody else."""
        found = [each for each in await self._store.records(WORD) if _read(each).id == begun_id]
        begun = _read(found[0]) if found else None
        if begun is None or begun.account != account:
            raise AccessDenied(NOT_USABLE)
        if not is_me:
            await self._store.take_record(WORD, found[0].id)
            return begun
        confirmed = msgspec.structs.replace(begun, is_confirmed_there=True)
        if not await self._store.replace_record(_begun(found[0].id, confirmed), was=found[0].data):
            raise AccessDenied(NOT_USABLE)
        return confirmed

    async def confirm_here(self, owner: str, account: str) -> ChatLink:
        """The user of the desk says that this is their account: now it is linked."""
        record, user = await self._record_of(owner), await self._store.record("user", owner)
        begun = None if record is None else _read(record)
        if record is None or user is None or begun is None or begun.account != account or not begun.is_confirmed_there:
            raise UserError("Nothing was linked: the word ran out, or somebody else typed it. Begin again.")
        chat = account.partition(":")[0]
        if any(each.account.startswith(f"{chat}:") for each in await self.of(owner)):
            raise UserError(f"{owner} has a linked account there already: unlink it first.")
        link = ChatLink(account=account, owner=owner, label=begun.label, made_at=self._clock.now())
        steps = [
            RecordStep(kind="user", id=owner, was=user.data, now=user),
            RecordStep(kind=WORD, id=record.id, was=record.data, now=None),
            RecordStep(kind=LINK, id=account, was=None, now=_record(LINK, account, link, owner)),
        ]
        if not await self._store.change_records(steps, [self._fact(link, "made", owner)], at=self._clock.now()):
            raise UserError("Nothing was linked: this chat account is linked to somebody already.")
        return link

    async def give_up(self, owner: str) -> None:
        await self._store.remove_records(WORD, owner)

    async def _record_of(self, owner: str) -> StoredRecord | None:
        return next(iter(await self._store.records(WORD, owner=owner)), None)

    async def _count_try(self, account: str) -> None:
        """Before it is known whether the word is right, and in the store: guesses in all processes count."""
        while True:
            record = await self._store.record(TRIES, account)
            count = 0 if record is None else int(record.data)
            if count >= MOST_TRIES:
                raise AccessDenied("Too many words: wait an hour, then get another at the desk.")
            until = self._clock.now() + TRY_SECONDS
            new = StoredRecord(kind=TRIES, id=account, data=str(count + 1), expires_at=until)
            is_counted = (
                await self._store.add_record(new)
                if record is None
                else await self._store.replace_record(new, was=record.data)
            )
            if is_counted:
                return

    # -- links --------------------------------------------------------------------------------------------------------

    async def find(self, account: str) -> ChatLink | None:
        record = await self._store.record(LINK, account)
        return None if record is None else msgspec.json.decode(record.data, type=ChatLink)

    async def of(self, owner: str) -> list[ChatLink]:
        return [msgspec.json.decode(each.data, type=ChatLink) for each in await self._store.records(LINK, owner=owner)]

    async def remove(self, account: str, *, owner: str, by: str) -> bool:
        """Whether this user had this account linked."""
        record = await self._store.record(LINK, account)
        if record is None or record.owner != owner:
            return False
        link = msgspec.json.decode(record.data, type=ChatLink)
        step = RecordStep(kind=LINK, id=account, was=record.data, now=None)
        return await self._store.change_records([step], [self._fact(link, "removed", by)], at=self._clock.now())

    async def actor_of(self, account: str) -> Actor | None:
        """Who is behind an account of the chat, with the rights that they have at this moment; None: nobody."""
        link = await self.find(account)
        record = None if link is None else await self._store.record("user", link.owner)
        if link is None or record is None:
            return None
        user = msgspec.json.decode(record.data, type=User)
        if not user.is_active:
            return None
        return Actor(name=user.name, role=user.role, via="slack", decides=user.decides, credential=account)

    def _fact(self, link: ChatLink, change: str, by: str) -> ChatLinkChanged:
        chat, _, account = link.account.partition(":")
        at = round(self._clock.now(), 3)
        return ChatLinkChanged(chat, "made" if change == "made" else "removed", account, link.owner, by, at)


def new_word() -> str:
    """40 random bits, in two groups of four: few enough to type, and worthless after ten minutes."""
    number = int.from_bytes(os.urandom(5))
    signs = "".join(_ALPHABET[number >> shift & 31] for shift in range(35, -1, -5))
    return f"{signs[:4]}-{signs[4:]}"


def normal(word: str) -> str:
    """As it was given out, however it was typed."""
    signs = "".join(each for each in word.upper() if each.isalnum())[:20]
    return f"{signs[:4]}-{signs[4:]}"


def _begun(record_id: str, begun: Begun) -> StoredRecord:
    return _record(WORD, record_id, begun, begun.owner, begun.expires_at)


def _read(record: StoredRecord) -> Begun:
    return msgspec.json.decode(record.data, type=Begun)


def _record(
    kind: str, record_id: str, value: msgspec.Struct, owner: str, expires_at: float | None = None
) -> StoredRecord:
    return StoredRecord(kind=kind, id=record_id, data=encode(value).decode(), owner=owner, expires_at=expires_at)
