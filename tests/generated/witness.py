"""The independent witness: what must have happened, worked out from the script alone, and what did happen.

The bodies of the tools write into a list that no part of the runtime knows.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from placet import Agent, FunctionTool, Grant, Model, RunContextWrapper, function_tool
from placet.declare.tool import Recovery
from tests.generated.script import Always, CallPlan, Script, Word, arguments_of

Place = tuple[int, int]
"""A call: its turn (from 0) and its place in it."""


# -- what did happen --------------------------------------------------------------------------------------------------


class Effects:
    """The world outside: what bodies did to it."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int, str]] = []

    async def perform(self, tool: str, n: int, text: str, body: str, ticks: int) -> str:
        self.done.append((tool, n, text))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if body == "raises":
            raise ValueError(f"{tool} {n} is broken")
        return f"{tool} {n} {text}"


def rule(_ctx: RunContextWrapper[Any], params: dict[str, Any], _call_id: str) -> Any:
    match params["rule"]:
        case "free":
            return False
        case "silence":
            return None
        case "raise":
            raise RuntimeError("the rule is broken")
        case _:
            return True


THE_WORLD: ContextVar[Effects] = ContextVar("the_world")
"""Whose effects the bodies of the running play are: the tools themselves know nothing of it."""


def _tool(name: str, **options: Any) -> FunctionTool:
    async def run(n: int, text: str, body: str = "returns", ticks: int = 0, rule: str = "ask") -> str:
        return await THE_WORLD.get().perform(name, n, text, body, ticks)

    return function_tool(name_override=name, **options)(run)


TOOLS = (
    _tool("free"),
    _tool("gated", needs_approval=True),
    _tool("ruled", needs_approval=rule),
    _tool("strict", needs_approval=True, failure_error_function=None),
)


def make_agent(model: Model, recovery: Recovery = "ask") -> Agent[Any]:
    """A new agent with new tools each time: nothing may hang on the objects."""
    return Agent("Clerk", tools=[dataclasses.replace(tool, recovery=recovery) for tool in TOOLS], model=model)


# -- what must happen -------------------------------------------------------------------------------------------------

GRANTS: dict[Always, bool | Grant] = {
    "no": False,
    "run": True,
    "once": Grant(uses=1),
    "agent_once": Grant(scope="agent", uses=1),
}


def standing(word: Word, call: CallPlan) -> bool | Grant:
    """The `always_…` that goes with the word."""
    return Grant(arguments={"text": call.text}) if word.always == "same_text" else GRANTS[word.always]


@dataclass
class StandingWord:
    tool: str
    word: Word
    text: str
    left: int | None

    def covers(self, call: CallPlan) -> bool:
        return self.left != 0 and self.is_about(call)

    def is_about(self, call: CallPlan) -> bool:
        if call.tool != self.tool:
            return False
        if self.word.always == "same_text":
            return call.broken is None and call.text == self.text
        return True


@dataclass
class Expectation:
    """Follows what people say, and knows from that what waits, what runs, and what the model reads."""

    script: Script
    turn: int = -1
    """The turn that is open."""
    settled: dict[Place, Word] = field(default_factory=dict)
    """What was decided about each call that needed a decision, by a person or by a standing word."""
    decided_by_hand: set[Place] = field(default_factory=set)
    grants: list[StandingWord] = field(default_factory=list)
    staged: dict[Place, Word] = field(default_factory=dict)
    staged_grants: list[StandingWord] = field(default_factory=list)

    def call(self, place: Place) -> CallPlan:
        return self.script.turns[place[0]].calls[place[1]]

    def begin_turn(self) -> None:
        assert not self.pending(), "the model was asked although calls of the turn wait"
        self.turn += 1
        self._decide_by_grants()

    def pending(self) -> list[Place]:
        if self.turn < 0:
            return []
        calls = self.script.turns[self.turn].calls
        places = [(self.turn, index) for index, call in enumerate(calls) if call.asks]
        return [place for place in places if place not in self.settled]

    def say(self, place: Place, word: Word) -> None:
        call = self.call(place)
        self.staged[place] = word
        if word.always != "no":
            left = 1 if word.always in ("once", "agent_once") else None
            self.staged_grants.append(StandingWord(call.tool, word, call.text, left))

    def resume(self) -> None:
        self.settled.update(self.staged)
        self.decided_by_hand.update(self.staged)
        self.grants += self.staged_grants
        self.staged, self.staged_grants = {}, []
        self._decide_by_grants()

    def _decide_by_grants(self) -> None:
        for place in self.pending():
            found = next((grant for grant in reversed(self.grants) if grant.covers(self.call(place))), None)
            if found is not None:
                self.settled[place] = found.word
                found.left = None if found.left is None else found.left - 1

    # -- and from that ------------------------------------------------------------------------------------------------

    def runs(self, place: Place) -> tuple[str, int, str] | None:
        """What the body of this call does to the world, if it is reached."""
        call, word = self.call(place), self.settled.get(place)
        if call.tool == "missing" or (call.asks and (word is None or word.verb in ("reject", "respond"))):
            return None
        if word is not None and word.verb == "edit":
            return call.tool, call.n, str(word.text)
        return None if call.broken is not None else (call.tool, call.n, call.text)

    def effects(self) -> Counter[tuple[str, int, str]]:
        """What must have been done: everything that may run in the turns so far, once."""
        places = [(turn, index) for turn in range(self.turn + 1) for index in range(len(self.script.turns[turn].calls))]
        return Counter(effect for effect in map(self.runs, places) if effect is not None)

    def ends_drive(self, place: Place) -> bool:
        """Whether this call's failure is raised to whoever drives."""
        call, word = self.call(place), self.settled.get(place)
        if call.tool == "strict" and call.is_unfit:
            return True
        if call.tool != "strict" or word is None or word.verb in ("reject", "respond"):
            return False
        return word.verb == "approve" and (call.broken is not None or call.body == "raises")

    def _rejections(self, place: Place, word: Word) -> set[str]:
        """What the model may read of a rejected call: the word's own text, or else that of a standing word about it."""
        if word.text is not None:
            return {word.text}
        others = [
            grant.word for grant in self.grants if grant.is_about(self.call(place)) and grant.word.verb == "reject"
        ]
        return {"Tool execution was not approved.", *(each.text for each in others if each.text is not None)}

    def check_output(self, place: Place, output: Any) -> None:
        """The model reads what it should of this call."""
        call, word = self.call(place), self.settled.get(place)
        if call.tool == "missing":
            assert output == "Tool 'missing' not found."
        elif word is not None and word.verb == "reject":
            assert output in self._rejections(place, word)
        elif word is not None and word.verb == "respond":
            assert output == word.text
        elif word is not None and word.verb == "edit":
            note, _, rest = output.partition("\n")
            assert json.loads(note.removeprefix("A reviewer changed the arguments of this call to: ")) == edited(
                call, word
            )
            assert rest == f"{call.tool} {call.n} {word.text}"
        elif call.broken is not None:
            assert "arguments are" in output
        elif call.body == "raises":
            assert output.endswith(f"Error: {call.tool} {call.n} is broken")
        else:
            assert output == f"{call.tool} {call.n} {call.text}"


def edited(call: CallPlan, word: Word) -> dict[str, Any]:
    return arguments_of(call.n, str(word.text))
