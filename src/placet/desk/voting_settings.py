"""How a store is set where people vote: read and changed in one place, each change a fact of the operators' log.

All of it is one record, so that who counts votes reads it at one moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from placet.core.rotations import check_rotation
from placet.declare.predicates import check_predicate
from placet.desk.access.people import checked_groups
from placet.facts.checks import NAME, NUMBER, TEXT, check, optional
from placet.facts.codec import encode
from placet.facts.errors import UserError
from placet.facts.events import AnyFact, ApproversSet, DelegationEnded, DelegationMade, RotationSet
from placet.facts.ids import mint
from placet.facts.requirements import Requirement, needs_text
from placet.facts.voting_settings import NO_SETTINGS, ApproverRule, Delegation, Rotation, VotingSettings, rule_text
from placet.ports import DeskStore, RecordStep, StoredRecord
from placet.service.stuck import all_who_could, can_ever_be_fulfilled
from placet.stores.people import everybody
from placet.stores.sql.operators import SETTING, VOTING, read_voting

MAX_RULES = 200
MAX_RUNGS = 20
MAX_DELEGATIONS = 1000
MAX_ROTATIONS = 100
LONGEST_DELEGATION = 366 * 86400.0


async def change_settings(
    store: DeskStore, change: Callable[[VotingSettings], tuple[VotingSettings, AnyFact | None]], at: float
) -> VotingSettings:
    """Make a change of what stands at this moment; without a fact there is nothing to change."""
    while True:
        record = await store.record(SETTING, VOTING)
        known = read_voting(record)
        wanted, fact = change(known)
        if fact is None:
            return known
        now = StoredRecord(kind=SETTING, id=VOTING, data=encode(wanted).decode()) if wanted != NO_SETTINGS else None
        step = RecordStep(kind=SETTING, id=VOTING, was=None if record is None else record.data, now=now)
        if await store.change_records([step], [fact], at=at):
            return wanted


# -- who has to approve at which tool ---------------------------------------------------------------------------------


async def put_rule(
    store: DeskStore, rule: ApproverRule, *, by: str | None, at: float, reason: str | None
) -> list[ApproverRule]:
    """Besides the others, in the place of one with the same patterns."""
    check("Approvers: ", by=(by, optional(TEXT)), reason=(reason, optional(TEXT)))
    await refuse_useless(store, rule)

    def change(known: VotingSettings) -> tuple[VotingSettings, AnyFact | None]:
        others = [each for each in known.rules if (each.agent, each.tool) != (rule.agent, rule.tool)]
        if len(others) >= MAX_RULES:
            raise UserError(f"There are at most {MAX_RULES} rules about approvers: use wider patterns.")
        return _with_rules(known, (*others, rule), by, at, reason)

    return list((await change_settings(store, change, at)).rules)


async def remove_rule(
    store: DeskStore, agent: str, tool: str, *, by: str | None, at: float, reason: str | None
) -> bool:
    """Whether there was one with these patterns."""
    found = False

    def change(known: VotingSettings) -> tuple[VotingSettings, AnyFact | None]:
        nonlocal found
        left = tuple(each for each in known.rules if (each.agent, each.tool) != (agent, tool))
        found = left != known.rules
        return _with_rules(known, left, by, at, reason)

    await change_settings(store, change, at)
    return found


def _with_rules(
    known: VotingSettings, rules: tuple[ApproverRule, ...], by: str | None, at: float, reason: str | None
) -> tuple[VotingSettings, AnyFact | None]:
    fact = None if set(known.rules) == set(rules) else ApproversSet(list(rules), by, at, reason)
    return msgspec.structs.replace(known, rules=rules), fact


async def refuse_useless(store: DeskStore, rule: ApproverRule) -> None:
    """A rule that nobody could fulfil, or that says nothing, is refused where it is written."""
    known, where = await all_who_could(store), f"The rule for {rule.agent}:{rule.tool}"
    if not rule.agent or not rule.tool:
        raise UserError("A rule about approvers names an agent and a tool, by patterns: * is any.")
    if rule.requirement is None and not rule.rungs and rule.reject_after is None:
        raise UserError(f"{where} says nothing: who has to approve, or who is told when it waits.")
    _refuse_bad_ladder(where, rule, known.settings)
    if rule.requirement is None:
        return
    _refuse_bad_predicates(where, rule.requirement)
    if not can_ever_be_fulfilled(rule.requirement, known):
        raise UserError(
            f"{where} needs {needs_text(rule.requirement)}, and there are not enough people at this desk who could "
            "approve that: put people into the groups first."
        )


def _refuse_bad_ladder(where: str, rule: ApproverRule, settings: VotingSettings) -> None:
    times = [rung.after for rung in rule.rungs] + ([rule.reject_after] if rule.reject_after is not None else [])
    if any(not math.isfinite(each) or each <= 0 for each in times):
        raise UserError(f"{where}: each step of its ladder comes some seconds after the question.")
    if len(rule.rungs) > MAX_RUNGS:
        raise UserError(f"{where}: a ladder has at most {MAX_RUNGS} steps.")
    for rung in rule.rungs:
        if rung.kind == "on_call" and rung.to not in settings.rotations:
            raise UserError(f"{where} tells who is on call in '{rung.to}', and there is no such rotation.")
        if rung.kind == "escalate" and not rung.to:
            raise UserError(f"{where} escalates to nobody: name a group.")


def _refuse_bad_predicates(where: str, requirement: Requirement) -> None:
    for step in requirement.steps():
        if step.predicate is not None:
            try:
                check_predicate(step.predicate)
            except UserError as error:
                raise UserError(f"{where}: {error.message}") from None


# -- who votes for whom -----------------------------------------------------------------------------------------------


async def delegate(
    store: DeskStore,
    principal: str,
    to: str,
    *,
    begins: float | None,
    until: float,
    by: str | None,
    at: float,
    reason: str | None,
) -> Delegation:
    check(
        "Delegation: ",
        principal=(principal, NAME),
        to=(to, NAME),
        until=(until, NUMBER),
        begins=(begins, optional(NUMBER)),
        reason=(reason, optional(TEXT)),
    )
    begins = at if begins is None else begins
    if not begins < until or until <= at:
        raise UserError("A delegation ends after it begins, and in the future: say until when.")
    if until - begins > LONGEST_DELEGATION:
        raise UserError("A delegation lasts for a year at most: make another one then.")
    people = await everybody(store)
    for name in (principal, to):
        if name not in people:
            raise UserError(f"There is no user '{name}' at this desk.")
    if people[principal].identity == people[to].identity:
        raise UserError(f"{to} is the same person as {principal}: nobody votes twice.")
    made = Delegation(mint("dlg"), principal, to, begins, until, by, reason)

    def change(known: VotingSettings) -> tuple[VotingSettings, AnyFact | None]:
        standing = tuple(each for each in known.delegations if each.until > at)
        if len(standing) >= MAX_DELEGATIONS:
            raise UserError(f"There are {MAX_DELEGATIONS} delegations already: end some first.")
        return msgspec.structs.replace(known, delegations=(*known.delegations, made)), DelegationMade(made, at)

    await change_settings(store, change, at)
    return made


async def end_delegation(store: DeskStore, wanted: str, *, by: str | None, at: float, reason: str | None) -> bool:
    """Whether there was one. Votes that were cast under it stand, until they are taken back."""
    found = False

    def change(known: VotingSettings) -> tuple[VotingSettings, AnyFact | None]:
        nonlocal found
        found = any(each.id == wanted for each in known.delegations)
        left = tuple(each for each in known.delegations if each.id != wanted)
        fact = DelegationEnded(wanted, by, at, reason) if found else None
        return msgspec.structs.replace(known, delegations=left), fact

    await change_settings(store, change, at)
    return found


# -- who is on call ---------------------------------------------------------------------------------------------------


async def set_rotation(
    store: DeskStore, name: str, rotation: Rotation | None, *, by: str | None, at: float, reason: str | None
) -> Rotation | None:
    """This rotation from now on; None: there is none of this name any more."""
    (checked,) = checked_groups([name])
    if rotation is not None:
        await check_people(store, checked, rotation)

    def change(known: VotingSettings) -> tuple[VotingSettings, AnyFact | None]:
        rotations = {key: each for key, each in known.rotations.items() if key != checked}
        if rotation is not None:
            rotations[checked] = rotation
        else:
            _refuse_if_used(known, checked)
        if len(rotations) > MAX_ROTATIONS:
            raise UserError(f"There are at most {MAX_ROTATIONS} rotations.")
        fact = None if known.rotations.get(checked) == rotation else RotationSet(checked, rotation, by, at, reason)
        return msgspec.structs.replace(known, rotations=rotations), fact

    return (await change_settings(store, change, at)).rotations.get(checked)


async def check_people(store: DeskStore, name: str, rotation: Rotation) -> None:
    """UserError where nobody could tell who is on call, or somebody is no user."""
    check_rotation(name, rotation)
    people = await everybody(store)
    missing = next((each for each in rotation.people if each not in people), None)
    if missing is not None:
        raise UserError(f"Rotation '{name}': there is no user '{missing}' at this desk.")


def _refuse_if_used(known: VotingSettings, name: str) -> None:
    user = next((rule for rule in known.rules if any(rung.to == name for rung in rule.rungs)), None)
    if user is not None:
        raise UserError(f"Rotation '{name}' is used: {rule_text(user)}. Change that rule first.")
