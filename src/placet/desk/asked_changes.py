"""Changes of who may decide as questions: where a rule of the desk is about the desk itself, they wait for votes.

A rule for `desk/*` makes a change a call of who proposes it: it is asked about, decided, claimed and reported like any
other call, and carried out by whichever desk comes first. What is to be carried out is written down before it is asked.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from placet.core.approver_rules import rules_for
from placet.core.guest import GateCall, Guest, Proposal
from placet.desk import voting_settings
from placet.desk.access.accounts import Accounts
from placet.facts.codec import Json, JsonObject, encode
from placet.facts.errors import GateError, PlacetError, UserError
from placet.facts.ids import mint
from placet.facts.voting_settings import ApproverRule, Rotation, rotation_text, rule_text
from placet.ports import DeskStore, StoredRecord
from placet.stores.outages import Outage

if TYPE_CHECKING:
    from placet.clock import Clock
    from placet.service.guest_calls import GuestCalls

logger = logging.getLogger("placet.desk")

SOURCE = "desk"
CHANGE = "asked_change"
"""The kind of the records of changes that wait for votes."""
SWEEP_SECONDS = 1.0
_OPEN = ("waiting", "held", "in_doubt")
_AT_WORK = ("claimed", "left")


class AskedChange(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    by: str
    """Who proposed it."""
    tool: str
    arguments: JsonObject
    reason: str | None = None


def rule_change(rule: ApproverRule) -> JsonObject:
    """As people read it, and as it is carried out."""
    return {"says": rule_text(rule), "rule": _plain(rule)}


def rotation_change(name: str, rotation: Rotation) -> JsonObject:
    return {"name": name, "says": rotation_text(rotation), "rotation": _plain(rotation)}


def _plain(value: ApproverRule | Rotation) -> Json:
    """As JSON has it: arguments of calls are."""
    found: Json = msgspec.json.decode(encode(value))
    return found


async def is_asked(store: DeskStore, tool: str, by: str) -> bool:
    """Whether such a change waits for votes: a rule says so for the desk by its name."""
    rules = rules_for(await store.voting_settings(), f"{SOURCE}/{by}", tool)
    return any(rule.agent.startswith(f"{SOURCE}/") and rule.requirement is not None for rule in rules)


async def ask(
    store: DeskStore, guests: GuestCalls, tool: str, arguments: JsonObject, *, by: str, reason: str | None
) -> str | None:
    """The request under which people are asked about the change; None: nobody has to be."""
    if not await is_asked(store, tool, by):
        return None
    change = AskedChange(id=mint("chg"), by=by, tool=tool, arguments=arguments, reason=reason)
    await store.add_record(StoredRecord(kind=CHANGE, id=change.id, data=encode(change).decode()))
    try:
        return (await _proposed(guests, change)).request_id
    except GateError:  # too many wait already, say: then nothing was proposed
        await store.take_record(CHANGE, change.id)
        raise


async def _proposed(guests: GuestCalls, change: AskedChange) -> GateCall:
    """The call of this change, as it stands: it is asked about once, however often it is proposed."""
    proposal = Proposal(
        tool=change.tool,
        arguments=change.arguments,
        session=change.id,
        call_id="change",
        description="A change of who may decide at this desk.",
        context=change.reason,
        recovery="retry",
    )
    return await guests.propose(_guest(change), proposal)


def _guest(change: AskedChange) -> Guest:
    return Guest(name=change.by, source=SOURCE, edits=False, answers=False)


async def sweep_changes(store: DeskStore, guests: GuestCalls, clock: Clock) -> None:
    """Carry out what was approved, until cancelled."""
    outage = Outage(logger, "changes_interrupted", "changes_resumed")
    while True:
        try:
            for record in await store.records(CHANGE):
                await _one(store, guests, clock, record)
            outage.end()
        except Exception as error:  # noqa: BLE001  # mostly a store that is away: there is another time
            outage.note(error)
        await asyncio.sleep(SWEEP_SECONDS)


async def _one(store: DeskStore, guests: GuestCalls, clock: Clock, record: StoredRecord) -> None:
    try:
        await _carry_out(store, guests, clock, msgspec.json.decode(record.data, type=AskedChange))
    except GateError as error:  # one change's trouble is not the others'
        told = {"action": "change_left", "change": record.id, "error": error.message}
        logger.warning("change left", extra=told)


async def _carry_out(store: DeskStore, guests: GuestCalls, clock: Clock, change: AskedChange) -> None:
    call = await _proposed(guests, change)
    if call.status in _OPEN:
        return
    try:
        permit = await guests.claim(_guest(change), call.id)
    except GateError:  # another desk carries it out, or it was rejected
        if (await guests.look(_guest(change), call.id)).status in (*_OPEN, *_AT_WORK):
            return
    else:
        said: Json = None
        try:
            await apply(store, change, clock.now())
        except UserError as error:
            said = error.message
        outcome = "finished" if said is None else "failed"
        await guests.report(_guest(change), call.id, permit.token, outcome, said or "Done.")  # type: ignore[arg-type]
    await store.take_record(CHANGE, change.id)
    try:
        await guests.close_session(_guest(change), change.id)
    except PlacetError as error:  # it ends by itself when nobody uses it
        logger.warning("session left", extra={"action": "session_left", "error": str(error)})


async def apply(store: DeskStore, change: AskedChange, at: float) -> None:
    """Make the change, in the name of who proposed it."""
    given, by, at = change.arguments, change.by, round(at, 3)
    reason = change.reason or "approved by a vote"
    match change.tool:
        case "approvers.set":
            rule = msgspec.convert(given["rule"], ApproverRule)
            await voting_settings.put_rule(store, rule, by=by, at=at, reason=reason)
        case "approvers.remove":
            agent, tool = str(given["agent"]), str(given["tool"])
            await voting_settings.remove_rule(store, agent, tool, by=by, at=at, reason=reason)
        case "oncall.set":
            rotation = msgspec.convert(given["rotation"], Rotation)
            await voting_settings.set_rotation(store, str(given["name"]), rotation, by=by, at=at, reason=reason)
        case "oncall.remove":
            await voting_settings.set_rotation(store, str(given["name"]), None, by=by, at=at, reason=reason)
        case "groups.set":
            groups = msgspec.convert(given["groups"], list[str])
            await Accounts(store).change_user(str(given["name"]), groups=groups, by=by)
        case unknown:
            raise UserError(f"This desk knows no change '{unknown}': newer code proposed it.")
