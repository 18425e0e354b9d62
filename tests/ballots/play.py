"""Generated offices: votes, changed minds, edits, votes taken back, delegations, people who leave, two desks.

A witness counts beside, by trying every way to seat people. It knows nothing of how Placet counts.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from placet.core.approvals import Entry
from placet.core.casting import Known, as_vote, facts_of_votes, why_not_carried
from placet.core.deciding import facts_to_revoke
from placet.core.fold import fold
from placet.core.log import Log
from placet.core.state import RunFold
from placet.core.votes import Person
from placet.declare.decisions import DecisionInput, facts_of_decision
from placet.desk import Desk
from placet.facts.errors import AccessDenied, PlacetError, StaleApproval
from placet.facts.events import (
    AnyFact,
    ApproversRequired,
    CallHeld,
    RequestSent,
    ResponseReceived,
    RunStarted,
    Usage,
)
from placet.facts.ids import request_id
from placet.facts.requirements import Requirement, Step
from placet.facts.voting_settings import Delegation, VotingSettings
from placet.ports import DeskStore, RecordStep, StoredRecord
from placet.runtime.casting import not_carried
from placet.runtime.journal import load_recent
from placet.testing import ManualClock, function_call

CALL = "1.0"
PEOPLE = ("ana", "ben", "cleo", "dan")
GROUPS = ("finance", "board")
BEGIN = 1_000.0
Outcome = Literal["taken", "denied", "stale"]


@dataclass
class Human:
    groups: set[str]
    is_active: bool = True


@dataclass
class Script:
    """What an office is like, by its seed."""

    seed: int
    dice: random.Random = field(init=False)
    requirement: Requirement = field(init=False)
    starter: str | None = field(init=False)
    deadline: float | None = field(init=False)
    people: dict[str, Human] = field(init=False)
    delegations: list[Delegation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = dice = random.Random(self.seed)
        self.requirement = Requirement(
            tuple(tuple(self._step() for _ in range(dice.choice([1, 1, 2]))) for _ in range(dice.choice([1, 1, 2]))),
            dice.choice([None, None, (), ("board",)]),
        )
        if self.requirement.break_glass is not None and dice.random() < 0.5:
            self.requirement = msgspec.structs.replace(self.requirement, break_glass_lifts=("starter",))
        self.starter = dice.choice([*PEOPLE, "web-form"])
        self.deadline = BEGIN + dice.randint(5, 25) if dice.random() < 0.25 else None
        self.people = {name: Human({g for g in GROUPS if dice.random() < 0.6}) for name in PEOPLE}

    def _step(self) -> Step:
        dice = self.dice
        groups = dice.choice([(), ("finance",), ("board",), GROUPS])
        apart = dice.choice([(), (), ("starter",), ("editor",), ("starter", "editor")])
        return Step(dice.choice([1, 1, 2, 3]), dice.choice([1, 1, 2]), groups, apart)

    def facts(self) -> list[AnyFact]:
        item = function_call("pay", {"n": 0}, call_id="c1")
        at_end = "reject" if self.deadline is not None else None
        return [
            RunStarted("Clerk", "go", 10, by=self.starter),
            RequestSent(),
            ResponseReceived(None, [item], Usage(1)),
            CallHeld(CALL, "v2-0", "function:pay", "f", None, self.deadline, at_end),
            ApproversRequired(CALL, self.requirement),
        ]


# -- the witness ------------------------------------------------------------------------------------------------------


@dataclass
class Witness:
    """What should stand, by plain bookkeeping."""

    script: Script
    number: int = 1
    version: int = 0
    """Which arguments the question is about."""
    editor: str | None = None
    ayes: dict[str, bool] = field(default_factory=dict)
    casters: dict[str, str] = field(default_factory=dict)
    """Who cast the vote of each."""
    alone: set[str] = field(default_factory=set)
    """Who went ahead alone."""
    decided: Literal["approve", "deny"] | None = None
    edited_at_once: int | None = None

    def fits(self, step: Step, name: str, *, editor: str | None, caster: str | None = None) -> bool:
        apart = {"starter": self.script.starter, "editor": editor}
        kept_out = {apart[part] for part in step.distinct_from if apart[part] is not None}
        by = caster or self.casters.get(name, name)
        return self.belongs(step, name, by) and not {name, by} & kept_out

    def belongs(self, step: Step, name: str, caster: str | None = None) -> bool:
        human = self.script.people[name]
        by = self.script.people[caster or self.casters.get(name, name)]
        return human.is_active and by.is_active and (not step.groups or bool(human.groups & set(step.groups)))

    def may_go_alone(self, name: str, editor: str | None) -> bool:
        needed = self.script.requirement
        if needed.break_glass is None:
            return False
        kept = {part for step in itertools.chain(*needed.alternatives) for part in step.distinct_from}
        apart = tuple(part for part in ("starter", "editor") if part in kept - set(needed.break_glass_lifts))
        return self.fits(Step(groups=needed.break_glass, distinct_from=apart), name, editor=editor, caster=name)

    def count(self, ayes: dict[str, bool], editor: str | None) -> str | None:
        for step in itertools.chain(*self.script.requirement.alternatives):
            if sum(not yes and self.belongs(step, name) for name, yes in ayes.items()) >= step.deny:
                return "deny"
        willing = [name for name, yes in ayes.items() if yes]
        if any(name in self.alone and self.may_go_alone(name, editor) for name in willing):
            return "approve"
        for steps in self.script.requirement.alternatives:
            if self._seated(steps, willing, editor) == sum(step.approve for step in steps):
                return "approve"
        return None

    def _seated(self, steps: tuple[Step, ...], willing: list[str], editor: str | None) -> int:
        """How many places different people can take, by trying all ways."""
        places = [step for step in steps for _ in range(step.approve)]
        best = 0
        for size in range(min(len(places), len(willing)), 0, -1):
            for chosen in itertools.combinations(range(len(places)), size):
                for order in itertools.permutations(willing, size):
                    if all(self.fits(places[i], who, editor=editor) for i, who in zip(chosen, order, strict=True)):
                        return max(best, size)
        return best

    def could_count(self, name: str, yes: bool, editor: str | None, caster: str) -> bool:
        """Whether there is any step in which a vote of this person counts."""
        steps = itertools.chain(*self.script.requirement.alternatives)
        return any(
            self.fits(step, name, editor=editor, caster=caster) if yes else self.belongs(step, name, caster)
            for step in steps
        )

    def has_another_hat(self, caster: str, name: str) -> bool:
        return any(self.casters.get(voter, voter) == caster and voter != name for voter in self.ayes)

    def voter_for(self, who: str) -> str | None:
        """Whose vote somebody takes back: their own, or the one that they cast."""
        if who in self.ayes:
            return who
        return next((voter for voter in reversed(list(self.ayes)) if self.casters.get(voter) == who), None)

    def vote(self, name: str, yes: bool, caster: str, *, alone: bool = False) -> None:
        self.ayes.pop(name, None)
        self.ayes[name], self.casters[name] = yes, caster
        self.alone = self.alone | {name} if alone else self.alone - {name}
        self.decided = self.count(self.ayes, self.editor)  # type: ignore[assignment]  # one of the two words, or none

    def edit(self, name: str, version: int) -> None:
        self.casters, self.alone = {name: name}, set()
        if self.count({name: True}, name) == "approve":
            self.decided, self.edited_at_once = "approve", version
            self.ayes = {name: True}
            return
        self.number += 1
        self.version, self.editor, self.ayes = version, name, {name: True}

    def take_back(self, name: str, now: float) -> None:
        if self.decided is not None:
            self.number += 1
            if self.script.deadline is not None and now >= self.script.deadline:
                self.script.deadline = None  # the first question's time is over: the new one has none
        if self.edited_at_once is not None:
            self.ayes = {}
        self.ayes.pop(name, None)
        self.decided = self.edited_at_once = None

    @property
    def runs(self) -> bool:
        """Whether the call may begin now."""
        editor = self.editor if self.edited_at_once is None else next(iter(self.ayes))
        return self.decided == "approve" and self.count(self.ayes, editor) == "approve"


# -- offices ----------------------------------------------------------------------------------------------------------


class Office(Protocol):
    """Something that counts votes, in memory or on a store."""

    async def say(
        self, by: str, verdict: Any, number: int, version: int | None, *, late_look: bool, **how: Any
    ) -> None: ...

    async def delegate(self, made: Delegation) -> None: ...

    async def take_back(self, by: str, number: int) -> None: ...

    async def change(self, name: str, human: Human) -> None: ...

    async def stands(self) -> tuple[int, str | None, bool]:
        """The question's number, what is decided, and whether the call may begin."""
        ...


class InMemory:
    """The counting itself, on a fold."""

    def __init__(self, script: Script, clock: ManualClock) -> None:
        self.script, self.clock = script, clock
        self.run = fold(script.facts())

    def known(self) -> Known:
        people = {n: Person(n, frozenset(h.groups), h.is_active) for n, h in self.script.people.items()}
        return Known(people=people, settings=VotingSettings(delegations=tuple(self.script.delegations)))

    async def delegate(self, made: Delegation) -> None:
        self.script.delegations.append(made)

    async def say(
        self, by: str, verdict: Any, number: int, version: int | None, *, late_look: bool, **how: Any
    ) -> None:
        entry = self.run.ledger.entry(CALL)
        assert entry is not None
        assert entry.ballot is not None
        arguments = None if version is None else {"n": version}
        given = DecisionInput(verdict=verdict, by=by, arguments=arguments)
        seen = entry if entry.request == number else _as_it_was(entry, number)
        decision, _ = facts_of_decision(seen, given, round(self.clock.now(), 3))
        on_behalf_of, breaks = how.get("on_behalf_of"), how.get("break_glass", False)
        given_reason = msgspec.structs.replace(decision, reason=how.get("reason"))
        vote = as_vote(given_reason, entry.ballot, assurance="password", on_behalf_of=on_behalf_of, breaks_glass=breaks)
        fold(facts_of_votes(self.run, [vote], self.known()), into=self.run)

    async def take_back(self, by: str, number: int) -> None:
        fold(facts_to_revoke(self.run, CALL, number, by, round(self.clock.now(), 3), None), into=self.run)

    async def change(self, name: str, human: Human) -> None:
        pass

    async def stands(self) -> tuple[int, str | None, bool]:
        entry = self.run.ledger.entry(CALL)
        assert entry is not None
        made = entry.decision
        runs = made is not None and made.verdict != "reject"
        runs = runs and made is not None and why_not_carried(self.run, entry, made, None, self.known()) is None
        return entry.request, None if made is None else made.verdict, runs


def _as_it_was(entry: Entry, number: int) -> Entry:
    return msgspec.structs.replace(entry, request=number)


class OnStore:
    """Two desks on a store."""

    def __init__(self, script: Script, store: DeskStore, run_id: str, clock: ManualClock) -> None:
        self.script, self.store, self.run_id, self.clock = script, store, run_id, clock
        self.desks = [Desk(store, run=False, clock=clock) for _ in range(2)]
        self.turn = 0

    async def begin(self) -> None:
        facts, log = self.script.facts(), Log(self.run_id, b"k" * 16)
        await self.store.append(None, log, [log.next_line(BEGIN, facts)], fold(facts))
        for name, human in self.script.people.items():
            await self.change(name, human)
        for each in (await self.store.voting_settings()).delegations:  # of an office before this one
            await self.desks[0].end_delegation(each.id)

    async def delegate(self, made: Delegation) -> None:
        self.script.delegations.append(made)
        await self.desks[1].delegate(made.principal, made.delegate, until=made.until, by=made.principal)

    async def say(
        self, by: str, verdict: Any, number: int, version: int | None, *, late_look: bool, **how: Any
    ) -> None:
        self.turn += 1
        desk = self.desks[self.turn % 2]
        found = await desk.find(request_id(self.run_id, CALL, number))
        if late_look:  # somebody else appends between the look and the word
            await self.desks[(self.turn + 1) % 2].resume(self.run_id, by="root")
        arguments = None if version is None else {"n": version}
        await desk.decide(found, verdict, by=by, arguments=arguments, assurance="password", **how)

    async def take_back(self, by: str, number: int) -> None:
        await self.desks[0].revoke(request_id(self.run_id, CALL, number), by=by)

    async def change(self, name: str, human: Human) -> None:
        key = f"{name}"
        before = await self.store.record("user", key)
        data = f'{{"name":"{name}","is_active":{str(human.is_active).lower()},"groups":{sorted(human.groups)!r}}}'
        now = StoredRecord(kind="user", id=key, data=data.replace("'", '"'))
        step = RecordStep(kind="user", id=key, was=None if before is None else before.data, now=now)
        assert await self.store.change_records([step], [], at=BEGIN)

    async def stands(self) -> tuple[int, str | None, bool]:
        found = await load_recent(self.store, self.run_id)
        assert found is not None
        run: RunFold = found[2]
        entry = run.ledger.entry(CALL)
        assert entry is not None
        made, runs = entry.decision, False
        if made is not None and made.verdict != "reject":
            runs = await not_carried(self.store, run, run.calls[CALL], None, ()) is None
        row = await self.desks[0].request(request_id(self.run_id, CALL, entry.request))  # compared with the log there
        assert entry.ballot is not None
        assert row.votes == entry.ballot.newest()
        return entry.request, None if made is None else made.verdict, runs


# -- the play ---------------------------------------------------------------------------------------------------------

STEPS = 14
WHAT = ("yes", "yes", "yes", "for", "for", "for", "no", "edit", "back", "people", "stale", "alone", "give", "give")


async def play(script: Script, office: Office, clock: ManualClock) -> None:
    witness, dice = Witness(script), script.dice
    for place in range(STEPS):
        clock.advance(1.0)
        what = dice.choice(WHAT)
        who = dice.choice(PEOPLE)
        if what == "people":
            human = script.people[who]
            if dice.random() < 0.5:
                human.is_active = not human.is_active
            else:
                human.groups = {g for g in GROUPS if dice.random() < 0.6}
            await office.change(who, human)
        elif what == "give":
            other = dice.choice([name for name in PEOPLE if name != who])
            now = clock.now()
            await office.delegate(Delegation(f"dlg_{place}", who, other, now, now + dice.choice([1.5, 4.0, 20.0])))
        elif what == "back":
            await _take_back(office, witness, who, clock.now())
        else:
            await _say(script, office, witness, clock, what, who, place + 1)
        number, verdict, runs = await office.stands()
        decided = None if verdict is None else "deny" if verdict == "reject" else "approve"
        assert (number, decided) == (witness.number, witness.decided), (script.seed, place, what, who)
        assert runs == witness.runs, (script.seed, place, what, who)


@dataclass
class Words:
    """What somebody says."""

    what: str
    voter: str
    caster: str

    @property
    def yes(self) -> bool:
        return self.what not in ("no", "no for")

    @property
    def how(self) -> dict[str, Any]:
        found: dict[str, Any] = {} if self.voter == self.caster else {"on_behalf_of": self.voter}
        return found | ({"break_glass": True, "reason": "it burns"} if self.what == "alone" else {})


def _words(script: Script, what: str, who: str) -> Words:
    if what != "for":
        return Words(what, who, who)
    trusting = [each.principal for each in script.delegations if each.delegate == who]
    others = trusting if trusting and script.dice.random() < 0.8 else [name for name in PEOPLE if name != who]
    voter = script.dice.choice(others)
    return Words("no for" if script.dice.random() < 0.2 else "yes for", voter, who)


async def _say(
    script: Script, office: Office, witness: Witness, clock: ManualClock, what: str, who: str, version: int
) -> None:
    is_late = script.deadline is not None and clock.now() >= script.deadline
    words = _words(script, what, who)
    verdict = {"edit": "edit"}.get(what, "approve" if words.yes else "reject")
    number = witness.number - 1 if what == "stale" else witness.number
    if number < 1:
        return
    look = script.dice.random() < 0.3
    made = version if what == "edit" else None
    outcome = await _outcome(office.say(who, verdict, number, made, late_look=look, **words.how))
    if what == "stale":
        assert outcome in ("stale", "taken"), outcome  # an equal word about a decision that was is no news
        return
    repeats = what != "edit" and witness.ayes.get(words.voter) is words.yes
    repeats = repeats and (words.voter in witness.alone) == (what == "alone")
    if witness.decided is not None:
        if witness.edited_at_once is not None:
            return  # a word about what was asked first is stale, or repeats what its author said then
        same = what != "edit" and words.yes == (witness.decided == "approve")
        assert outcome == ("taken" if same or repeats else "stale"), (outcome, what)
        return
    if is_late:
        assert outcome == "stale" or (repeats and outcome == "taken"), outcome
        return
    if repeats:
        assert outcome == "taken", outcome
        return
    _check(script, witness, words, outcome, clock.now())
    if outcome == "taken" and what == "edit":
        witness.edit(who, version)
    elif outcome == "taken":
        witness.vote(words.voter, words.yes, words.caster, alone=what == "alone")


def _check(script: Script, witness: Witness, words: Words, outcome: Outcome, now: float) -> None:
    """Whether a word that is news was taken, or denied, as it should be."""
    editor = witness.editor if words.what != "edit" else None
    has_leave = words.voter == words.caster or any(
        (each.principal, each.delegate) == (words.voter, words.caster) and each.begins <= now < each.until
        for each in script.delegations
    )
    is_second = words.what != "edit" and witness.has_another_hat(words.caster, words.voter)
    if not has_leave or is_second:
        assert outcome == "denied", (outcome, words)
    elif words.what == "alone":
        assert outcome == ("taken" if witness.may_go_alone(words.voter, editor) else "denied"), (outcome, words)
    elif outcome == "denied":
        if words.yes and any(len(steps) > 1 for steps in script.requirement.alternatives):
            return  # a later step may not be open yet
        assert not witness.could_count(words.voter, words.yes, editor, words.caster), words
    else:
        assert outcome == "taken", outcome


async def _take_back(office: Office, witness: Witness, who: str, now: float) -> None:
    outcome = await _outcome(office.take_back(who, witness.number))
    voter = witness.voter_for(who)
    if voter is None:
        assert outcome == "denied", outcome
    elif witness.decided == "deny":
        assert outcome == "stale", outcome
    else:
        assert outcome == "taken", outcome
        witness.take_back(voter, now)


async def _outcome(doing: Any) -> Outcome:
    try:
        await doing
    except AccessDenied:
        return "denied"
    except StaleApproval:
        return "stale"
    except PlacetError as error:
        raise AssertionError(f"an office said {error!r}") from error
    return "taken"


async def check_in_memory(seed: int) -> None:
    script, clock = Script(seed), ManualClock(BEGIN)
    await play(script, InMemory(script, clock), clock)


async def check_on(store: DeskStore, seed: int) -> None:
    script, clock = Script(seed), ManualClock(BEGIN)
    office = OnStore(script, store, f"run_{seed:026d}", clock)
    await office.begin()
    await play(script, office, clock)
