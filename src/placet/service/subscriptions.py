"""Subscriptions: who is told of what, how far each has been told, what is tried again, and what was given up.

All of it are records of the store, so every process on it sees the same, and a process that takes over knows it all.
What a person changes is written into the operators' log, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from placet.channels.everything_else import checked_name
from placet.channels.mail import checked_address
from placet.channels.push import browser_of
from placet.channels.slack_client import checked_place
from placet.channels.targets import ADDRESSES, ChannelName, channel_of, rest_of
from placet.channels.webhook import check_address, new_secret
from placet.clock import Clock
from placet.core.log import read_line
from placet.facts.errors import LimitExceeded, PlacetError, UserError
from placet.facts.events import SubscriptionChange, SubscriptionChanged
from placet.facts.ids import mint, split_request_id
from placet.ports import DeskStore, RecordStep, StoredRecord
from placet.service.outbox_events import BROKE_GLASS, EVENT_TYPES

DIGEST = "digest"
"""The type of a message that tells several things together."""
SUBSCRIPTION, CURSOR, PARKED, DEAD = "subscription", "outbox_cursor", "outbox_parked", "dead_letter"
CHAT_MESSAGE = "chat_message"
"""The kind of the records that say which message in a chat shows which question."""
OF_A_SUBSCRIPTION = (CURSOR, PARKED, DEAD, CHAT_MESSAGE)
MOST_SUBSCRIPTIONS = 100
MOST_BROWSERS = 500
"""Browsers that are told, of all people together."""
MOST_DEAD = 1000
"""Letters that are kept for one subscription: the oldest go first."""
OLD_SECRET_SECONDS = 24 * 3600.0
"""How long the secret before the newest still signs, too."""
LONGEST_NAME = 100
MOST_PATTERNS = 50
CLOCKS_DIFFER = 60.0
"""Seconds by which the clocks of two processes may differ."""

Every: TypeAlias = Literal["hour", "day"]
FOR_PEOPLE = ["request.waiting", "request.escalated", "run.stopped"]
"""What a person is told of where nothing else is chosen: what somebody should look at."""
FOLLOWED = (
    "request.escalated",
    "request.voted",
    "request.vote_taken_back",
    "request.decided",
    "request.reopened",
    "request.closed",
)
"""What changes a message about a question that stays where people see it."""
_FOLLOWING: dict[ChannelName, tuple[str, ...]] = {
    "slack": FOLLOWED,
    "push": ("request.decided", "request.reopened", "request.closed"),
}
_WITH_DIGESTS: tuple[ChannelName, ...] = ("mail", "apprise")


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are told. An empty list is all; `*` and `?` stand for any letters in names."""

    events: list[str] = []
    """Of `EVENT_TYPES`."""
    agents: list[str] = []
    tools: list[str] = []
    groups: list[str] = []
    """Only questions that need the word of one of these groups."""

    def want(self, event: str, agent: str, tool: str | None, groups: Sequence[str]) -> bool:
        return (
            (not self.events or event in self.events or self._is_concerned(event))
            and _fits(self.agents, [agent])
            and (tool is None or _fits(self.tools, [tool]))
            and _fits(self.groups, groups)
        )

    def _is_concerned(self, event: str) -> bool:
        """That somebody went ahead alone is told to all who are told anything about questions."""
        return event == BROKE_GLASS.type and any(each.startswith("request.") for each in self.events)


def _fits(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return not wanted or any(fnmatchcase(each, pattern) for each in found for pattern in wanted)


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    until: float | None = None
    """When it stops to sign; None: it is the newest."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    url: str
    secrets: list[Secret]
    filters: Filters
    created_at: float
    created_by: str | None = None
    shows_arguments: bool = False
    suspended: str | None = None
    """Why nothing is sent: the receiver is gone, or did not answer for days, or somebody wants it so."""
    channel: ChannelName = "webhook"
    gap_until: float | None = None
    """While it was suspended, runs that ended before this time were forgotten: what it was not told of them is lost."""

    resumed_at: float = 0.0
    every: Every | None = None
    """What happens is told together, once an hour or a day; None: at once."""

    @property
    def target(self) -> str:
        """Where it goes, for lists and logs: without what may be a secret or say too much of a person."""
        if self.channel == "mail":
            return rest_of(self.url).rpartition("@")[2]
        if self.channel in ("slack", "apprise"):
            return rest_of(self.url)
        if self.channel == "push":
            return urlsplit(browser_of(self.url).endpoint).hostname or ""
        return urlsplit(self.url).hostname or ""

    def wants(self, event: str, agent: str, tool: str | None, groups: Sequence[str]) -> bool:
        """Whether it is told of this. A message that stays on a screen is told of all that becomes of its question."""
        if event in _FOLLOWING.get(self.channel, ()):
            return msgspec.structs.replace(self.filters, events=[]).want(event, agent, tool, groups)
        return self.filters.want(event, agent, tool, groups)


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that did not get through at once, or at all."""

    id: str
    key: str
    """What it is about: messages with one key are sent in their order."""
    message_id: str
    type: str
    body: str
    tries: int
    next_at: float
    error: str
    at: float = 0.0
    """When what it tells of happened."""
    since: float = 0.0
    """When it did not get through for the first time."""


class Subscriptions:
    """What operators do about subscriptions."""

    def __init__(self, store: DeskStore, clock: Clock, allowed: Sequence[str] = ()) -> None:
        self._store = store
        self._clock = clock
        self._allowed = allowed

    async def all(self) -> list[Subscription]:
        return [read_subscription(each.data) for each in await self._store.records(SUBSCRIPTION)]

    async def find(self, subscription_id: str) -> Subscription | None:
        found = await self._store.record(SUBSCRIPTION, subscription_id)
        return None if found is None else read_subscription(found.data)

    async def add(
        self,
        name: str,
        url: str,
        filters: Filters,
        *,
        by: str | None = None,
        shows_arguments: bool = False,
        every: Every | None = None,
    ) -> Subscription:
        """It begins with what happens from now on. How the address begins says which channel it is."""
        url = url.strip()
        channel = channel_of(url)
        most = MOST_BROWSERS if channel == "push" else MOST_SUBSCRIPTIONS
        if sum((each.channel == "push") == (channel == "push") for each in await self.all()) >= most:
            raise LimitExceeded(f"There are {most} channels already: remove one first.")
        if channel != "webhook" and not filters.events:
            filters = msgspec.structs.replace(filters, events=FOR_PEOPLE)
        made = Subscription(
            id=mint("hook"),
            name=name.strip(),
            url=url,
            secrets=[Secret(key=new_secret())] if channel == "webhook" else [],
            filters=filters,
            created_at=self._clock.now(),
            created_by=by,
            shows_arguments=shows_arguments,
            channel=channel,
            every=every,
        )
        self._check(made)
        await self._refuse_taken_name(made)
        cursor = cursor_record(made.id, await self._store.latest_sequence())
        steps = [
            RecordStep(kind=CURSOR, id=made.id, was=None, now=cursor),
            RecordStep(kind=SUBSCRIPTION, id=made.id, was=None, now=subscription_record(made)),
        ]
        await self._store.change_records(steps, [self._fact(made, "made", by)], at=self._now())
        return made

    async def _refuse_taken_name(self, wanted: Subscription) -> None:
        """Commands mean a channel by its name. Browsers that are told bear what their people call them."""
        if wanted.channel == "push":
            return
        for each in await self.all():
            if each.id != wanted.id and each.channel != "push" and each.name.strip() == wanted.name.strip():
                raise UserError(f"There is a channel {each.name[:80]!r} already ({each.id}): choose another name.")

    def _check(self, wanted: Subscription) -> None:
        if channel_of(wanted.url) != wanted.channel:
            raise UserError(f"This is a {wanted.channel}, and stays one: add another for {wanted.url[:80]!r}.")
        self._check_address(wanted)
        if not wanted.name.strip() or len(wanted.name) > LONGEST_NAME or not wanted.name.isprintable():
            raise UserError(f"A channel has a name: a line of at most {LONGEST_NAME} letters.")
        if wanted.every is not None and wanted.channel not in _WITH_DIGESTS:
            raise UserError(f"Only {' and '.join(_WITH_DIGESTS)} can tell what happened together, once an hour or day.")
        unknown = [event for event in wanted.filters.events if event not in EVENT_TYPES]
        if unknown:
            raise UserError(f"There is no event {unknown[0][:80]!r}: choose from {', '.join(EVENT_TYPES)}.")
        filters = wanted.filters
        for patterns in (filters.agents, filters.tools, filters.groups):
            if len(patterns) > MOST_PATTERNS or not all(patterns):
                raise UserError(f"A filter is a list of at most {MOST_PATTERNS} names, in which * and ? stand for any.")

    def _check_address(self, wanted: Subscription) -> None:
        match wanted.channel:
            case "mail":
                checked_address(rest_of(wanted.url))
            case "slack":
                checked_place(rest_of(wanted.url))
            case "push":
                check_address(browser_of(wanted.url).endpoint, self._allowed)
            case "apprise":
                checked_name(rest_of(wanted.url))
            case _:
                if not wanted.url.lower().startswith(("https:", "http:")):
                    raise UserError(f"{wanted.url[:80]!r} is no address of a channel: write {ADDRESSES}.")
                check_address(wanted.url, self._allowed)

    def _fact(
        self, about: Subscription, change: SubscriptionChange, by: str | None, detail: str | None = None
    ) -> SubscriptionChanged:
        return SubscriptionChanged(
            about.id, change, about.channel, about.name, about.target, by, self._now(), detail or _words(about)
        )

    def _now(self) -> float:
        return round(self._clock.now(), 3)

    async def remove(self, subscription_id: str, *, by: str | None = None) -> bool:
        while (stored := await self._store.record(SUBSCRIPTION, subscription_id)) is not None:
            step = RecordStep(kind=SUBSCRIPTION, id=subscription_id, was=stored.data, now=None)
            fact = self._fact(read_subscription(stored.data), "removed", by)
            without = [(kind, subscription_id) for kind in OF_A_SUBSCRIPTION]
            if await self._store.change_records([step], [fact], at=fact.at, without=without):
                return True
        return False

    async def forget_letters(self, subscription_id: str) -> None:
        """What a sender wrote at the moment in which its subscription was removed."""
        for kind in OF_A_SUBSCRIPTION:
            await self._store.remove_records(kind, subscription_id)

    async def rotate(self, subscription_id: str, *, by: str | None = None) -> Subscription | None:
        """A new secret. The one before signs beside it for a day."""
        now = self._clock.now()

        def changed(found: Subscription) -> Subscription:
            if not found.secrets:
                raise UserError(f"Only webhooks have a secret, and this is a {found.channel}.")
            before = Secret(key=found.secrets[0].key, until=now + OLD_SECRET_SECONDS)
            return msgspec.structs.replace(found, secrets=[Secret(key=new_secret()), before])

        return await self.change(subscription_id, changed, "secret changed", by=by)

    async def suspend(self, subscription_id: str, why: str, *, by: str | None = None) -> Subscription | None:
        return await self.change(
            subscription_id, lambda found: msgspec.structs.replace(found, suspended=why), "suspended", by=by
        )

    async def resume(
        self, subscription_id: str, *, by: str | None = None, from_now: bool = False
    ) -> Subscription | None:
        """It goes on where it stood, or (`from_now`) with what happens from now on: what lies between is not told."""
        cursor = cursor_record(subscription_id, await self._store.latest_sequence())
        found = await self.change(
            subscription_id,
            lambda found: msgspec.structs.replace(found, suspended=None, gap_until=None, resumed_at=self._now()),
            "resumed",
            by=by,
            detail="with what happens from now on" if from_now else "where it stood",
        )
        if found is not None and from_now:
            await self._store.remove_records(PARKED, subscription_id)
            await self._store.replace_record(cursor)
        return found

    async def change(
        self,
        subscription_id: str,
        changed: Callable[[Subscription], Subscription],
        change: SubscriptionChange = "changed",
        *,
        by: str | None = None,
        detail: str | None = None,
    ) -> Subscription | None:
        while (stored := await self._store.record(SUBSCRIPTION, subscription_id)) is not None:
            found = changed(read_subscription(stored.data))
            self._check(found)
            if found.name != read_subscription(stored.data).name:
                await self._refuse_taken_name(found)
            record = subscription_record(found)
            if record.data == stored.data:
                return found
            step = RecordStep(kind=SUBSCRIPTION, id=found.id, was=stored.data, now=record)
            if await self._store.change_records([step], [self._fact(found, change, by, detail)], at=self._now()):
                return found
        return None

    async def dead(self, subscription_id: str) -> list[Letter]:
        return [read_letter(each) for each in await self._store.records(DEAD, owner=subscription_id)]

    async def parked(self, subscription_id: str) -> list[Letter]:
        return [read_letter(each) for each in await self._store.records(PARKED, owner=subscription_id)]

    async def send_again(self, subscription_id: str, letter_id: str) -> bool:
        """Whoever sends for the subscription finds it within a second."""
        record = await self._store.record(DEAD, letter_id)
        if record is None or record.owner != subscription_id:
            return False
        letter = msgspec.structs.replace(read_letter(record), tries=0, next_at=0.0)
        await self._store.add_record(letter_record(PARKED, subscription_id, letter))  # before the other goes: twice is
        await self._store.take_record(DEAD, letter_id)  # better than never
        return True

    async def send_all_again(self, subscription_id: str) -> int:
        """All dead letters, oldest first; how many."""
        return sum([await self.send_again(subscription_id, each.id) for each in await self.dead(subscription_id)])

    async def behind_since(self, subscription_id: str) -> float | None:
        """When the first thing happened that was not looked at yet for this subscription; None: it knows all."""
        cursor = await self._store.record(CURSOR, subscription_id)
        entries = [] if cursor is None else await self._store.feed(read_cursor(cursor), 1)
        try:
            return read_line(entries[0].text).at if entries else None
        except PlacetError:  # words of newer code
            return 0.0

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def before_forgetting(self, ended_before: float) -> float:
        """Up to when ended runs may be forgotten: what somebody is still to be told stays, but not for those who are
        suspended: they get a gap that people see."""
        bound = ended_before
        for each in await self.all():
            since = await self.behind_since(each.id)
            if since is None or since >= ended_before:
                continue
            if each.suspended is None:
                bound = min(bound, since - CLOCKS_DIFFER)
            else:
                await self._note_gap(each.id, ended_before)
        return bound

    async def _note_gap(self, subscription_id: str, until: float) -> None:
        def changed(found: Subscription) -> Subscription:
            return msgspec.structs.replace(found, gap_until=max(until, found.gap_until or 0.0))

        await self.change(subscription_id, changed, detail="there is a gap: runs were forgotten before it was told")

    async def forget_run(self, run_id: str) -> None:
        """Letters about a run that was erased or deleted go with it."""
        for each in await self.all():
            for kind in (PARKED, DEAD):
                for record in await self._store.records(kind, owner=each.id, limit=MOST_DEAD):
                    if is_about(read_letter(record), run_id):
                        await self._store.take_record(kind, record.id)


def is_about(letter: Letter, run_id: str) -> bool:
    if letter.type == DIGEST:
        return f'"{run_id}"' in letter.body
    asked = split_request_id(letter.key)
    return (letter.key if asked is None else asked[0]) == run_id


def _words(found: Subscription) -> str:
    """What is told, in one line, for the log."""
    filters = found.filters
    parts = [*(filters.events or ["everything"]), *([f"each {found.every}"] if found.every is not None else [])]
    for name, patterns in (("agents", filters.agents), ("tools", filters.tools), ("groups", filters.groups)):
        parts += [f"{name} {', '.join(patterns)}"] if patterns else []
    why = [f"suspended: {found.suspended}"] if found.suspended is not None else []
    return "; ".join([", ".join(parts), *(["with arguments"] if found.shows_arguments else []), *why])


def _dump(found: msgspec.Struct) -> str:
    return msgspec.json.encode(found).decode()


def read_subscription(data: str) -> Subscription:
    return msgspec.json.decode(data, type=Subscription)


def subscription_record(found: Subscription) -> StoredRecord:
    return StoredRecord(kind=SUBSCRIPTION, id=found.id, data=_dump(found))


def cursor_record(subscription_id: str, sequence: int) -> StoredRecord:
    return StoredRecord(kind=CURSOR, id=subscription_id, data=str(sequence), owner=subscription_id)


def read_cursor(record: StoredRecord) -> int:
    return int(record.data)


def letter_record(kind: str, subscription_id: str, letter: Letter) -> StoredRecord:
    return StoredRecord(kind=kind, id=letter.id, data=_dump(letter), owner=subscription_id)


def read_letter(record: StoredRecord) -> Letter:
    return msgspec.json.decode(record.data, type=Letter)
