"""What a team is asked to do, made from a seed: jobs within jobs, handoffs, rules that trip, and calls that are gated.

Two agents, A and B, hand over to each other, and each can ask either of them as a tool. So names are equal at every
depth, and every call has the same label: only our own ids tell calls apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from placet.testing import function_call

AgentName: TypeAlias = Literal["A", "B"]
Rail: TypeAlias = Literal["", "in_reject", "in_raise", "out_reject", "out_raise"]
"""What a guardrail of the tool says of a call. `in_raise` stops the run the first time, and then lets the call be."""
Trips: TypeAlias = Literal["", "input", "output"]
TOOLS = ("look", "jot", "pay", "wire")
GATED = frozenset({"pay", "wire"})
REPEATABLE = frozenset({"look", "wire"})
"""Tools that may be repeated after a crash without a question."""
MAX_CALLS = 22
MAX_DEPTH = 3


@dataclass(frozen=True)
class Effect:
    """A call of a tool whose body does something."""

    n: int
    tool: str
    rail: Rail

    @property
    def is_gated(self) -> bool:
        return self.tool in GATED


@dataclass(frozen=True)
class Handover:
    """A handoff to the other agent. Only the first of a turn takes place."""


@dataclass
class Turn:
    calls: list[Effect | Handover | Job] = field(default_factory=list)


@dataclass
class Job:
    """What one run is asked for: the outermost one, or one behind an agent tool."""

    n: int
    agent: AgentName
    is_gated: bool = False
    trips: Trips = ""
    turns: list[Turn] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"job {self.n}"

    @property
    def tool(self) -> str:
        return f"ask_{self.agent.lower()}"

    @property
    def can_trip(self) -> bool:
        """Whether a guardrail may stop this very run: one inside a job of it is only a failed call here."""
        rails = [each.rail for each in self.calls() if isinstance(each, Effect)]
        return self.trips != "" or "in_raise" in rails or "out_raise" in rails

    def calls(self) -> Iterator[Effect | Handover | Job]:
        for turn in self.turns:
            yield from turn.calls

    def within(self) -> Iterator[Effect]:
        """Everything that this job and the jobs in it would do."""
        for each in self.calls():
            if isinstance(each, Effect):
                yield each
            elif isinstance(each, Job):
                yield from each.within()


@dataclass(frozen=True)
class Place:
    """Where a call stands."""

    call: Effect | Job
    job: Job
    turn: int


class Team:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"team {seed}")
        self._numbers = iter(range(MAX_CALLS))
        self.root = self._a_job(next(self._numbers), 0)
        self.places: dict[int, Place] = {}
        self.jobs: dict[str, Job] = {}
        self._index(self.root)

    def _a_job(self, n: int, depth: int) -> Job:
        chance = self._chance
        trips: Trips = chance.choices(["", "input", "output"], [92, 3, 5])[0]
        job = Job(n, chance.choice(["A", "B"]), depth > 0 and chance.random() < 0.3, trips)
        for _ in range(chance.randint(1, 3 if depth == 0 else 2)):
            turn = Turn()
            for _ in range(chance.randint(1, 3)):
                self._add_call(turn, depth)
            if chance.random() < 0.35:
                self._add_handover(turn)
            if turn.calls:
                job.turns.append(turn)
        return job

    def _add_call(self, turn: Turn, depth: int) -> None:
        n = next(self._numbers, None)
        if n is None:
            return
        if depth < MAX_DEPTH and self._chance.random() < (0.5, 0.4, 0.3)[depth]:
            turn.calls.append(self._a_job(n, depth + 1))
            return
        rails: list[Rail] = ["", "in_reject", "out_reject", "in_raise", "out_raise"]
        rail = self._chance.choices(rails, [80, 8, 6, 3, 3])[0]
        turn.calls.append(Effect(n, self._chance.choice(TOOLS), rail))

    def _add_handover(self, turn: Turn) -> None:
        for _ in range(self._chance.choice([1, 1, 1, 2])):
            turn.calls.insert(self._chance.randint(0, len(turn.calls)), Handover())

    def _index(self, job: Job) -> None:
        self.jobs[job.topic] = job
        for number, turn in enumerate(job.turns):
            for call in turn.calls:
                if isinstance(call, Handover):
                    continue
                self.places[call.n] = Place(call, job, number)
                if isinstance(call, Job):
                    self._index(call)

    def __repr__(self) -> str:
        return "\n".join(_lines(self.root, ""))


def _lines(job: Job, margin: str) -> Iterator[str]:
    yield f"{margin}{job.topic} by {job.agent}{' gated' * job.is_gated} {job.trips and 'trips ' + job.trips}"
    for number, turn in enumerate(job.turns):
        for call in turn.calls:
            if isinstance(call, Job):
                yield f"{margin}  turn {number}:"
                yield from _lines(call, margin + "    ")
            else:
                yield f"{margin}  turn {number}: {call}"


def other(agent: AgentName) -> AgentName:
    return "B" if agent == "A" else "A"


def as_call(call: Effect | Handover | Job, agent: AgentName) -> dict[str, Any]:
    """The call as this agent's model makes it: always under the same label."""
    match call:
        case Effect(n, tool):
            return function_call(tool, {"n": n, "text": "as asked"}, call_id="x")
        case Handover():
            return function_call(f"transfer_to_{other(agent).lower()}", {}, call_id="x")
        case Job():
            return function_call(call.tool, {"input": call.topic}, call_id="x")


def number_in(arguments: Any) -> int:
    """Which call it is, read from its arguments."""
    return int(arguments["n"]) if "n" in arguments else int(str(arguments["input"]).removeprefix("job "))
