"""Subscriptions over the API: who is told of what happens, and what did not get through."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Meta

from placet.channels.targets import ChannelName
from placet.desk.api.operations import ApiAnswer, ApiRequest, Operation
from placet.desk.api.shapes import Given, Name, Note, Nothing, Shown
from placet.desk.web.context import Web
from placet.desk.web.problems import Problem
from placet.service.known_groups import known_groups, nobody_in
from placet.service.subscriptions import Every, Filters, Letter, Subscription

Url: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2000)]
Names: TypeAlias = Annotated[list[Name], Meta(max_length=50)]


class SubscriptionShape(Shown, frozen=True, kw_only=True):
    """Somebody who is told of what happens."""

    id: str
    channel: ChannelName
    name: str
    url: str
    events: list[str]
    """Empty: all. So are the next three."""
    agents: list[str]
    tools: list[str]
    groups: list[str]
    shows_arguments: bool
    every: Every | None
    """What happens is told together, once an hour or a day."""
    created_at: datetime
    created_by: str | None
    suspended: str | None
    """Why nothing is sent, if nothing is."""
    gap_until: datetime | None
    """While it was suspended, runs that ended before this time were forgotten: it will not hear of them."""
    behind_since: datetime | None
    """When the first thing happened that it was not told of, or that was not looked at for it, yet."""
    waiting: int
    """Messages that did not get through yet, and are tried again."""
    dead: int
    """Messages that were given up."""


class NewSecretShape(Shown, frozen=True, kw_only=True):
    subscription: SubscriptionShape
    secret: str | None
    """Of a webhook: with it the receiver checks that a message comes from here. It is shown this once."""
    warnings: list[str]
    """Such as a group that nobody is in."""


class ChangedSubscription(SubscriptionShape, frozen=True, kw_only=True):
    warnings: list[str]
    """Such as a group that nobody is in."""


class SubscriptionList(Shown, frozen=True, kw_only=True):
    data: list[SubscriptionShape]


class LetterShape(Shown, frozen=True, kw_only=True):
    """A message that did not get through."""

    id: str
    message_id: str
    type: str
    about: str
    """The request or the run."""
    happened_at: datetime
    tries: int
    error: str
    is_dead: bool
    """It is not tried again, unless somebody sends it again."""


class LetterList(Shown, frozen=True, kw_only=True):
    data: list[LetterShape]


class TestShape(Shown, frozen=True, kw_only=True):
    is_delivered: bool
    error: str | None


class SentAgainShape(Shown, frozen=True, kw_only=True):
    count: int


class NewSubscription(Given, frozen=True, kw_only=True):
    name: Name
    url: Url
    """Where messages go, and how: `https://…` (a webhook), `slack:#channel`, `mailto:…`, `apprise:NAME`."""
    events: Names = msgspec.field(default_factory=list)
    agents: Names = msgspec.field(default_factory=list)
    tools: Names = msgspec.field(default_factory=list)
    groups: Names = msgspec.field(default_factory=list)
    shows_arguments: bool = False
    every: Every | None = None


class SubscriptionUpdate(Given, frozen=True, kw_only=True):
    """What is left out stays as it is."""

    name: Name | None = None
    url: Url | None = None
    events: Names | None = None
    agents: Names | None = None
    tools: Names | None = None
    groups: Names | None = None
    shows_arguments: bool | None = None
    every: Every | Literal["at_once"] | None = None


class Suspension(Given, frozen=True, kw_only=True):
    reason: Note | None = None


class Resumption(Given, frozen=True, kw_only=True):
    from_now: bool = False
    """What happened while it was suspended is not told."""


async def shape_of(web: Web, found: Subscription) -> SubscriptionShape:
    subscriptions, filters = web.desk.outbox.subscriptions, found.filters
    since = await subscriptions.behind_since(found.id)
    return SubscriptionShape.of(
        found,
        events=filters.events,
        agents=filters.agents,
        tools=filters.tools,
        groups=filters.groups,
        behind_since=None if since is None else datetime.fromtimestamp(since).astimezone(),
        waiting=len(await subscriptions.parked(found.id)),
        dead=len(await subscriptions.dead(found.id)),
    )


async def list_all(ask: ApiRequest[Nothing, Nothing]) -> SubscriptionList:
    found = await ask.web.desk.outbox.subscriptions.all()
    return SubscriptionList(data=[await shape_of(ask.web, each) for each in found])


async def add(ask: ApiRequest[Nothing, NewSubscription]) -> ApiAnswer:
    given = ask.body
    filters = Filters(events=given.events, agents=given.agents, tools=given.tools, groups=given.groups)
    made = await ask.web.desk.outbox.subscriptions.add(
        given.name,
        given.url,
        filters,
        by=ask.actor.name,
        shows_arguments=given.shows_arguments,
        every=given.every,
    )
    secret = made.secrets[0].key if made.secrets else None
    warnings = await _warned_of(ask.web, given.groups)
    value = NewSecretShape(subscription=await shape_of(ask.web, made), secret=secret, warnings=warnings)
    return ApiAnswer(value, headers={"Location": f"/v1/subscriptions/{quote(made.id)}"})


async def show(ask: ApiRequest[Nothing, Nothing]) -> SubscriptionShape:
    return await shape_of(ask.web, await _found(ask.web, ask.part("subscription_id")))


async def _warned_of(web: Web, groups: list[str] | None) -> list[str]:
    return nobody_in(groups, await known_groups(web.desk.store)) if groups else []


async def update(ask: ApiRequest[Nothing, SubscriptionUpdate]) -> ChangedSubscription:
    found = await _found(ask.web, ask.part("subscription_id"))
    change = changed_by(ask.body)
    changed = await ask.web.desk.outbox.subscriptions.change(found.id, change, by=ask.actor.name)
    shown = await _shown(ask.web, changed, found.id)
    warnings = await _warned_of(ask.web, ask.body.groups)
    return ChangedSubscription(**msgspec.structs.asdict(shown), warnings=warnings)


def changed_by(given: SubscriptionUpdate) -> Callable[[Subscription], Subscription]:
    values = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    if values.get("every") == "at_once":
        values["every"] = None
    inner = {name: values.pop(name) for name in ("events", "agents", "tools", "groups") if name in values}

    def changed(found: Subscription) -> Subscription:
        filters = msgspec.structs.replace(found.filters, **inner)
        return msgspec.structs.replace(found, filters=filters, **values)

    return changed


async def remove(ask: ApiRequest[Nothing, Nothing]) -> None:
    found = await _found(ask.web, ask.part("subscription_id"))
    await ask.web.desk.outbox.subscriptions.remove(found.id, by=ask.actor.name)


async def rotate(ask: ApiRequest[Nothing, Nothing]) -> NewSecretShape:
    found = await _found(ask.web, ask.part("subscription_id"))
    changed = await ask.web.desk.outbox.subscriptions.rotate(found.id, by=ask.actor.name)
    if changed is None:
        raise _unknown(found.id)
    shown = await shape_of(ask.web, changed)
    return NewSecretShape(subscription=shown, secret=changed.secrets[0].key, warnings=[])


async def test(ask: ApiRequest[Nothing, Nothing]) -> TestShape:
    result = await ask.web.desk.outbox.test(await _found(ask.web, ask.part("subscription_id")))
    return TestShape(is_delivered=result.error is None, error=result.error)


async def suspend(ask: ApiRequest[Nothing, Suspension]) -> SubscriptionShape:
    found = await _found(ask.web, ask.part("subscription_id"))
    why = ask.body.reason or f"{ask.actor.name} suspended it"
    changed = await ask.web.desk.outbox.subscriptions.suspend(found.id, why, by=ask.actor.name)
    return await _shown(ask.web, changed, found.id)


async def resume(ask: ApiRequest[Nothing, Resumption]) -> SubscriptionShape:
    found = await _found(ask.web, ask.part("subscription_id"))
    changed = await ask.web.desk.outbox.subscriptions.resume(found.id, by=ask.actor.name, from_now=ask.body.from_now)
    return await _shown(ask.web, changed, found.id)


async def list_letters(ask: ApiRequest[Nothing, Nothing]) -> LetterList:
    found = await _found(ask.web, ask.part("subscription_id"))
    subscriptions = ask.web.desk.outbox.subscriptions
    dead = [_letter(each, is_dead=True) for each in await subscriptions.dead(found.id)]
    return LetterList(data=dead + [_letter(each, is_dead=False) for each in await subscriptions.parked(found.id)])


def _letter(found: Letter, *, is_dead: bool) -> LetterShape:
    return LetterShape.of(
        found, about=found.key, is_dead=is_dead, happened_at=datetime.fromtimestamp(found.at).astimezone()
    )


async def send_again(ask: ApiRequest[Nothing, Nothing]) -> SentAgainShape:
    found, wanted = await _found(ask.web, ask.part("subscription_id")), ask.part("letter_id")
    if "\x00" in wanted or not await ask.web.desk.outbox.subscriptions.send_again(found.id, wanted):
        raise Problem(404, "not_found", f"There is no dead letter {wanted[:80]!r}.")
    return SentAgainShape(count=1)


async def send_all_again(ask: ApiRequest[Nothing, Nothing]) -> SentAgainShape:
    found = await _found(ask.web, ask.part("subscription_id"))
    return SentAgainShape(count=await ask.web.desk.outbox.subscriptions.send_all_again(found.id))


async def _shown(web: Web, changed: Subscription | None, wanted: str) -> SubscriptionShape:
    if changed is None:
        raise _unknown(wanted)
    return await shape_of(web, changed)


async def _found(web: Web, wanted: str) -> Subscription:
    found = None if "\x00" in wanted else await web.desk.outbox.subscriptions.find(wanted)
    if found is None:
        raise _unknown(wanted)
    return found


def _unknown(wanted: str) -> Problem:
    return Problem(404, "not_found", f"There is no subscription {wanted[:80]!r} at this desk.")


ONE = "/v1/subscriptions/{subscription_id}"
TAG = "subscriptions"
OPERATIONS = (
    Operation("GET", "/v1/subscriptions", list_all, "Who is told", TAG, role="admin", answer=SubscriptionList),
    Operation(
        "POST",
        "/v1/subscriptions",
        add,
        "Have somebody told of what happens",
        TAG,
        role="admin",
        body=NewSubscription,
        answer=NewSecretShape,
        status=201,
        details="From now on. How `url` begins says by which channel. Messages to webhooks are signed by the Standard "
        "Webhooks specification, with the secret that is in the answer and nowhere else. They name ids and a link; "
        "arguments only where `shows_arguments` says so.",
        shows_secret=True,
    ),
    Operation("GET", ONE, show, "One who is told", TAG, role="admin", answer=SubscriptionShape, problems=(404,)),
    Operation(
        "PATCH",
        ONE,
        update,
        "Change who is told of what",
        TAG,
        role="admin",
        body=SubscriptionUpdate,
        answer=ChangedSubscription,
        problems=(404,),
    ),
    Operation("DELETE", ONE, remove, "Tell them nothing more", TAG, role="admin", status=204, problems=(404,)),
    Operation(
        "POST",
        f"{ONE}/secret",
        rotate,
        "A new secret",
        TAG,
        role="admin",
        body=Nothing,
        answer=NewSecretShape,
        problems=(404,),
        details="For a day each message carries two signatures, by the new secret and by the one before.",
        shows_secret=True,
    ),
    Operation(
        "POST",
        f"{ONE}/test",
        test,
        "Send a message that means nothing",
        TAG,
        role="admin",
        body=Nothing,
        answer=TestShape,
        problems=(404,),
        details="It is sent at once, by the process that answers, and the answer says what came of it.",
    ),
    Operation(
        "POST",
        f"{ONE}/suspend",
        suspend,
        "Send nothing for now",
        TAG,
        role="admin",
        body=Suspension,
        answer=SubscriptionShape,
        problems=(404,),
    ),
    Operation(
        "POST",
        f"{ONE}/resume",
        resume,
        "Send again",
        TAG,
        role="admin",
        body=Resumption,
        answer=SubscriptionShape,
        problems=(404,),
    ),
    Operation(
        "GET",
        f"{ONE}/letters",
        list_letters,
        "What did not get through",
        TAG,
        role="admin",
        answer=LetterList,
        problems=(404,),
    ),
    Operation(
        "POST",
        f"{ONE}/letters/send",
        send_all_again,
        "Send all dead letters again",
        TAG,
        role="admin",
        body=Nothing,
        answer=SentAgainShape,
        problems=(404,),
    ),
    Operation(
        "POST",
        f"{ONE}/letters/{{letter_id}}/send",
        send_again,
        "Send a dead letter again",
        TAG,
        role="admin",
        body=Nothing,
        answer=SentAgainShape,
        problems=(404,),
    ),
)
