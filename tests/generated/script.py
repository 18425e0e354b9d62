"""What a generated script is: what the model asks for, what people say, what fails; and the ways of playing one.

One generator serves both sources of chance: hypothesis, which shrinks, and a seed, which is quick. A script says *what*
happens, a way says *how* it is carried (streamed, through texts, in two processes …): two ways of playing one script
must leave the same log.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from placet.testing import assistant_message, function_call, reasoning

T = TypeVar("T")

Delivery: TypeAlias = Literal["own", "chained", "auto", "conversation"]
Verb: TypeAlias = Literal["approve", "reject", "edit", "respond"]
Always: TypeAlias = Literal["no", "run", "once", "same_text", "agent_once"]
Failure: TypeAlias = Literal[
    "refused",  # the provider says that it did not take the request
    "lost",  # the connection broke, and the provider did not take it
    "lost_taken",  # the connection broke, and the provider took it without answering
    "lost_answered",  # the connection broke, and the provider's answer is on its side
    "unknown_taken",  # the same as lost_taken and lost, and nobody can look into the conversation
    "unknown_lost",
    "nonsense",  # an answer with which no run can go on
]
ANYWHERE: tuple[Failure, ...] = ("refused", "lost", "lost_taken", "nonsense")
IN_CONVERSATIONS: tuple[Failure, ...] = (*ANYWHERE, "lost_answered", "unknown_taken", "unknown_lost")

GATED = ("gated", "strict")
UNFIT = ('{"n": "seven"}', "", '{"n": true, "text": "a", "body": "returns", "ticks": 0, "rule": "free"}')
"""JSON objects that do not fit the parameters: the model is told so, and nobody is asked."""
BROKEN = ("{", "[1]", "null", '{"n": 1, "n": 2}', *UNFIT)


@dataclass(frozen=True)
class Word:
    """What a reviewer says about a call."""

    verb: Verb
    text: str | None = None
    """The rejection's message, the edit's new text, or the answer."""
    always: Always = "no"


@dataclass(frozen=True)
class CallPlan:
    """One call: as the model makes it, what its body does, and what is said about it if somebody is asked."""

    tool: str
    n: int
    text: str = "a"
    label: str | None = None
    broken: str | None = None
    """Arguments that do not fit, in the place of the right ones."""
    rule: str = "ask"
    """What the rule of `ruled` answers."""
    body: Literal["returns", "raises"] = "returns"
    ticks: int = 0
    """How long the body takes, in turns of the event loop: this fixes the order in which bodies end."""
    words: tuple[Word, ...] = (Word("approve"),)
    """The last one counts."""
    portion: int = 0
    """In which pause of its turn it is decided."""
    rank: int = 0
    """Its place in the order of deciding."""
    loosely: bool = False
    """The model writes numbers as texts, and leaves defaults out."""

    @property
    def arguments(self) -> str:
        if self.broken is not None:
            return self.broken
        found = arguments_of(self.n, self.text, self.body, self.ticks, self.rule)
        if self.loosely:
            found["n"] = str(self.n)
            found = {name: value for name, value in found.items() if value != DEFAULTS.get(name)}
        return json.dumps(found)

    @property
    def shown(self) -> str:
        """What a reviewer sees: what would run."""
        if not self.loosely or self.broken is not None:
            return self.arguments
        found = arguments_of(self.n, self.text, self.body, self.ticks, self.rule)
        return json.dumps(found, sort_keys=True, separators=(",", ":"))

    @property
    def is_unfit(self) -> bool:
        return self.broken in UNFIT

    @property
    def asks(self) -> bool:
        if self.is_unfit:
            return False
        return self.tool in GATED or (self.tool == "ruled" and (self.broken is not None or self.rule != "free"))

    def item(self) -> dict[str, Any]:
        return function_call(self.tool, self.arguments, call_id=self.label)


def arguments_of(n: int, text: str, body: str = "returns", ticks: int = 0, rule: str = "ask") -> dict[str, Any]:
    return {"n": n, "text": text, "body": body, "ticks": ticks, "rule": rule}


DEFAULTS: dict[str, Any] = {"body": "returns", "ticks": 0, "rule": "ask"}


@dataclass(frozen=True)
class Turn:
    calls: tuple[CallPlan, ...] = ()
    """None: the model's last answer."""
    talks: bool = False
    """The model also says something beside its calls."""
    failures: tuple[Failure, ...] = ()
    """What becomes of the requests before the one that is answered."""

    def output(self) -> list[dict[str, Any]]:
        said = [reasoning("hm"), assistant_message("well")] if self.talks else []
        return [*said, *(call.item() for call in self.calls)] or [assistant_message("done")]


@dataclass(frozen=True)
class Script:
    turns: tuple[Turn, ...]
    delivery: Delivery = "own"
    concurrency: int | None = None
    turn_limit: int | None = None
    """The run is begun with this limit, and resumed without one when it has used it up."""


@dataclass(frozen=True)
class Leg:
    """How one drive of the run, and the deciding before it, are carried."""

    streamed: bool = False
    peek: int = -1
    """At which event of the stream a snapshot is taken."""
    stops_after_turn: bool = False
    trip_before: Literal["none", "text", "sealed", "json"] = "none"
    trip_after: Literal["none", "text", "sealed", "json"] = "none"
    named_by: Literal["item", "id", "label", "result"] = "item"
    merges: bool = False
    """Two reviewers decide on copies, which are merged."""
    bystander: bool = False
    """Somebody decides the opposite on a copy, and throws it away."""
    contrary: bool = False
    """Somebody resumes an old snapshot with the opposite of what was decided."""
    older: bool = False
    """Somebody resumes an old snapshot without a word."""
    twice: Literal["no", "after", "at_once"] = "no"
    new_process: bool = False
    """The store is lost, and only the state is left."""
    from_held: bool = False
    """After an error: resume what was given, not what the error carries."""


@dataclass(frozen=True)
class Way:
    legs: tuple[Leg, ...] = (Leg(),)

    def leg(self, number: int) -> Leg:
        return self.legs[number % len(self.legs)]


PLAIN = Way()


# -- the generator ----------------------------------------------------------------------------------------------------


class Chance(Protocol):
    """Where choices come from. The first option, the lowest number and «no» are the simplest."""

    def one_of(self, options: Sequence[T]) -> T: ...
    def number(self, lowest: int, highest: int) -> int: ...
    def happens(self, percent: int) -> bool: ...


class Seeded:
    """Choices by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one_of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def number(self, lowest: int, highest: int) -> int:
        return self._random.randint(lowest, highest)

    def happens(self, percent: int) -> bool:
        return self._random.randrange(100) >= 100 - percent


def several(chance: Chance, lowest: int, highest: int, make: Callable[[int], T]) -> tuple[T, ...]:
    return tuple(make(index) for index in range(chance.number(lowest, highest)))


def a_word(chance: Chance, *, is_last: bool) -> Word:
    verb = chance.one_of(("approve", "reject", "edit", "respond"))
    may_stand = is_last and verb in ("approve", "reject")
    always = chance.one_of(("run", "once", "same_text", "agent_once")) if may_stand and chance.happens(35) else "no"
    if verb == "approve":
        return Word(verb, None, always)
    if verb == "reject":
        return Word(verb, chance.one_of((None, "", "No, because.")), always)
    return Word(verb, chance.one_of(("b", "changed ✓")))


def a_call(chance: Chance, n: int) -> CallPlan:
    minds = several(chance, 0, 2, lambda _: a_word(chance, is_last=False)) if chance.happens(25) else ()
    return CallPlan(
        tool=chance.one_of(("gated", "free", "gated", "ruled", "strict", "missing")),
        n=n,
        text=chance.one_of(("a", "b")),
        label=chance.one_of((f"call_{n}", "x", None, "")) if chance.happens(40) else f"call_{n}",
        broken=chance.one_of(BROKEN) if chance.happens(10) else None,
        rule=chance.one_of(("ask", "free", "silence", "raise")),
        body="raises" if chance.happens(15) else "returns",
        ticks=chance.number(0, 3),
        words=(*minds, a_word(chance, is_last=True)),
        portion=chance.number(0, 2),
        rank=chance.number(0, 9),
        loosely=chance.happens(30),
    )


def a_turn(chance: Chance, number: int, failures: Sequence[Failure]) -> Turn:
    calls = list(several(chance, 1, 5, lambda index: a_call(chance, 10 * number + index)))
    if len(calls) > 1 and chance.happens(20):  # a twin: only its place tells it apart
        last, first = calls[-1], calls[0]
        calls[-1] = CallPlan(
            first.tool, first.n, first.text, first.label, first.broken, first.rule, first.body,
            first.ticks, last.words, last.portion, last.rank, first.loosely,
        )  # fmt: skip
    return Turn(tuple(calls), chance.happens(20), some_failures(chance, failures))


def some_failures(chance: Chance, kinds: Sequence[Failure]) -> tuple[Failure, ...]:
    return several(chance, 1, 2, lambda _: chance.one_of(kinds)) if chance.happens(25) else ()


def a_script(chance: Chance) -> Script:
    delivery = chance.one_of(("own", "chained", "auto", "conversation"))
    failures = IN_CONVERSATIONS if delivery == "conversation" else ANYWHERE
    turns = several(chance, 1, 4, lambda number: a_turn(chance, number, failures))
    return Script(
        turns=(*turns, Turn(failures=some_failures(chance, failures))),
        delivery=delivery,
        concurrency=chance.one_of((None, 1, 2)) if chance.happens(25) else None,
        turn_limit=chance.number(1, 3) if chance.happens(15) else None,
    )


def a_leg(chance: Chance) -> Leg:
    streamed = chance.happens(50)
    return Leg(
        streamed=streamed,
        peek=chance.number(0, 9) if streamed and chance.happens(40) else -1,
        stops_after_turn=streamed and chance.happens(15),
        trip_before=chance.one_of(("none", "text", "sealed", "json")),
        trip_after=chance.one_of(("none", "text", "sealed", "json")),
        named_by=chance.one_of(("item", "id", "label", "result")),
        merges=chance.happens(25),
        bystander=chance.happens(25),
        contrary=chance.happens(25),
        older=chance.happens(25),
        twice=chance.one_of(("no", "after", "at_once")),
        new_process=chance.happens(20),
        from_held=chance.happens(50),
    )


def a_way(chance: Chance) -> Way:
    return Way(several(chance, 1, 4, lambda _: a_leg(chance)))
