"""What a store knows of its policy: the version in force, files that did not load, and what each rule said beside what
people decided. Every process that reads the store tells the same.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from placet.core.log import read_line
from placet.core.policy import Mode, RuleVerdict
from placet.facts.errors import PlacetError
from placet.facts.events import DecisionMade, InChild, PlainFact, PolicyJudged
from placet.facts.ids import request_id
from placet.facts.operator_events import PolicyWay
from placet.policy.backtest import SAID, Said
from placet.ports import DeskStore, FeedEntry, StoredRecord

RUNNING, TEXT, PROBLEM, TALLY = "policy", "policy_text", "policy_problem", "policy_tally"
PROPOSED = "policy_proposed"
IN_FORCE = "in force"
BATCH = 500
_WORDS = (b'"policy"', b'"decide"')
_SAYS: Mapping[str, Said] = {"approve": "yes", "reject": "no", "edit": "edited", "respond": "answered"}


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that decides, as far as this store knows."""

    version: str
    origin: str
    way: PolicyWay
    by: str | None
    at: float
    request: str | None = None
    """Of a version that people voted on: the question."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that did not load: the one before stays in force."""

    file: str
    place: str
    """The machine and process that could not load it."""
    message: str
    at: float
    in_force: str


class RuleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule said in one mode, and what people said about the calls that they were asked about."""

    name: str
    mode: Mode
    verdict: RuleVerdict
    heard: int = 0
    """Calls about which it spoke."""
    yes: int = 0
    no: int = 0
    edited: int = 0
    answered: int = 0

    @property
    def decided(self) -> int:
        return self.yes + self.no + self.edited + self.answered

    @property
    def contradicted(self) -> int:
        """How often people said otherwise: they rejected what it allows, or approved what it denies."""
        return self.no if self.verdict == "allow" else self.yes if self.verdict == "deny" else 0

    @property
    def line(self) -> str:
        """What it amounts to, in one sentence."""
        would = "" if self.mode == "enforce" else "would have "
        times = {0: "never", 1: "once"}.get(self.contradicted, f"{self.contradicted} times")
        match self.verdict:
            case "allow" if self.mode != "enforce":
                return f"would have spared {self.yes} of {self.decided}, contradicted a rejection {times}"
            case "deny" if self.mode != "enforce":
                return f"would have denied {self.heard}, contradicted an approval {times}"
            case "allow":
                return f"let {self.heard} through"
            case "deny":
                return f"denied {self.heard}"
            case _:
                return f"{would}asked about {self.heard}; people approved {self.yes} and rejected {self.no}"


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of the feed so far. Keys end with the rule's name, which may hold anything."""

    after: int = 0
    heard: dict[str, int] = {}
    people: dict[str, int] = {}

    def figures(self) -> list[RuleFigures]:
        keys = dict.fromkeys([*self.heard, *(_without_said(key) for key in self.people)])
        return sorted(map(self._of, keys), key=lambda each: (each.name, each.mode, each.verdict))

    def _of(self, key: str) -> RuleFigures:
        mode, verdict, name = key.split("|", 2)
        words: dict[str, object] = {"name": name, "mode": mode, "verdict": verdict, "heard": self.heard.get(key, 0)}
        for said in SAID:
            words[said] = self.people.get(f"{mode}|{verdict}|{said}|{name}", 0)
        return msgspec.convert(words, RuleFigures)


def _without_said(key: str) -> str:
    mode, verdict, _, name = key.split("|", 3)
    return f"{mode}|{verdict}|{name}"


class PolicyState(msgspec.Struct, frozen=True, kw_only=True):
    in_force: InForce | None
    refused: list[Refused]
    rules: list[RuleFigures]


async def policy_state(store: DeskStore) -> PolicyState:
    record = await store.record(RUNNING, IN_FORCE)
    refused = [msgspec.json.decode(each.data, type=Refused) for each in await store.records(PROBLEM)]
    return PolicyState(
        in_force=None if record is None else msgspec.json.decode(record.data, type=InForce),
        refused=refused,
        rules=(await _tally(store))[1].figures(),
    )


async def text_of(store: DeskStore, version: str) -> str | None:
    """The text of a version that was in force in this store."""
    record = await store.record(TEXT, version)
    return None if record is None else record.data


def this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


# -- counting ---------------------------------------------------------------------------------------------------------


async def _tally(store: DeskStore) -> tuple[StoredRecord | None, Tally]:
    record = await store.record(TALLY, "all")
    return record, Tally() if record is None else msgspec.json.decode(record.data, type=Tally)


async def count_rules(store: DeskStore) -> int:
    """Take in a part of the feed; where it ends now. Of several processes one counts each part: the place moves only
    from where it was, together with the counts."""
    record, tally = await _tally(store)
    entries = await store.feed(tally.after, BATCH)
    if not entries:
        return tally.after
    heard, people = Counter(tally.heard), Counter(tally.people)
    for entry in entries:
        for fact in _facts(entry):
            if isinstance(fact, PolicyJudged):
                heard.update(f"{each.mode}|{each.verdict}|{each.name}" for each in fact.rules)
            elif isinstance(fact, DecisionMade) and fact.grant is None:
                await _count_decision(store, entry.run_id, fact, people)
    counted = Tally(after=entries[-1].sequence, heard=dict(heard), people=dict(people))
    data = msgspec.json.encode(counted).decode()
    fresh = StoredRecord(kind=TALLY, id="all", data=data)
    if record is None:
        await store.add_record(fresh)
    else:
        await store.replace_record(fresh, was=record.data)
    return counted.after


async def _count_decision(store: DeskStore, run_id: str, decision: DecisionMade, people: Counter[str]) -> None:
    asked = await store.request(request_id(run_id, decision.call, decision.request))
    if asked is None or asked.kind != "approval":
        return
    said = _SAYS[decision.verdict]
    people.update(f"{each.mode}|{each.verdict}|{said}|{each.name}" for each in asked.rules)


def _facts(entry: FeedEntry) -> Iterator[PlainFact]:
    if not any(word in entry.text for word in _WORDS):
        return
    try:
        facts = read_line(entry.text).facts
    except PlacetError:  # words of newer code: newer code counts them
        return
    for fact in facts:
        yield fact.fact if isinstance(fact, InChild) else fact
