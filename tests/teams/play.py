"""Plays a team to its end: reviewers who decide in any order, writes that fail, stores that crash, users who do not
wait. The same seed is played streamed and not streamed, and must leave the same facts.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from placet import (
    InMemorySession,
    InputGuardrailTripwireTriggered,
    MemoryStore,
    NotPending,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunFinished,
    RunResult,
    RunState,
    StaleApproval,
    ToolApprovalItem,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from placet.core.log import Line, Log, read_line
from placet.core.state import RunFold
from placet.facts.events import InChild, InputAdded, RunStopped
from placet.facts.ids import split_call_id
from placet.ports import Lease
from placet.testing import Crash, CrashingStore, ManualClock, assistant_message
from tests.runtime.team_scenes import Item, assert_paired, go
from tests.teams.team import Effect, Team, number_in
from tests.teams.witness import REFUSED, Witness

TOOL_TRIPS = (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
MAX_DRIVES = 120
MINTED = ("grant_", "memory_")
"""What ids begin with that are new in each play: of standing decisions, and of places in memory."""
EARLIER: list[Item] = [{"role": "user", "content": "before"}, assistant_message("said before")]


class FlakySession(InMemorySession):
    """Some of its writes fail: before anything is written, half-way, or after all of it."""

    def __init__(self, seed: int) -> None:
        super().__init__("chat")
        self._chance = random.Random(f"session {seed}")

    async def add_items(self, items: Sequence[Item]) -> None:
        fails = self._chance.choices(["", "before", "half", "after"], [82, 6, 6, 6])[0]
        kept = {"": len(items), "before": 0, "half": len(items) // 2, "after": len(items)}[fails]
        await super().add_items(list(items)[:kept])
        if fails:
            raise OSError("the session is gone")


class CountingStore(CrashingStore):
    """Tells the witness of its crashes: an error that was under way already hides them from the caller."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(MemoryStore())
        self._witness = witness

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        try:
            await super().append(lease, log, lines, run)
        except Crash:
            self._witness.crashes += 1
            raise


@dataclass
class Snapshot:
    state: RunState[Any]
    text: str
    """What it was when it was taken: it must never change."""


@dataclass
class Trace:
    """What is compared between two ways of playing one team."""

    facts: dict[str, list[Any]]
    """Of each run, by its path."""
    ran: list[tuple[int, str]]
    requests: dict[tuple[str, int], list[Item]]
    pauses: list[list[str]]


class Play:
    def __init__(self, seed: int, *, flipped: bool) -> None:
        self.team = Team(seed)
        self.witness = Witness(self.team)
        self.chance = random.Random(f"play {seed}")
        self._flipped = flipped
        self.session = FlakySession(seed) if self._happens(70) else None
        self.clock = ManualClock()
        self.store = CountingStore(self.witness)
        self.earlier: list[Item] = []
        self.snapshots: list[Snapshot] = []
        self.pauses: list[list[str]] = []

    def _happens(self, percent: int) -> bool:
        return self.chance.randrange(100) < percent

    # -- the whole ----------------------------------------------------------------------------------------------------

    async def run(self) -> Trace:
        if self.session is not None and self._happens(50):
            self.earlier = EARLIER
            self.session._items += EARLIER
        given: str | RunState[Any] = self.team.root.topic
        on_pending = "error"
        for _ in range(MAX_DRIVES):
            try:
                result = await self._drive(given, on_pending)
            except InputGuardrailTripwireTriggered as error:
                return await self._check_stopped(error.state)
            except (Crash, OSError, OutputGuardrailTripwireTriggered, *TOOL_TRIPS) as error:
                given, on_pending = await self._after(error, given), "error"
                continue
            await self._check_session(result)
            if result.to_state().has_ended:
                return await self._check_end(result)
            self._check_pause(result)
            self._check_message(on_pending)
            given, on_pending = await self._answer(result)
        raise AssertionError("the run does not come to its end")

    async def _drive(self, given: str | RunState[Any], on_pending: Any) -> RunResult:
        if self._happens(15):
            self.store.crash_at(self.chance.randint(1, 12), self.chance.choice(["before", "after"]))
        before = given.to_string() if isinstance(given, RunState) else None
        try:
            return await self._go(given, on_pending, streamed=self._happens(50) is not self._flipped)
        finally:
            self.witness.check()
            if isinstance(given, RunState):
                assert given.to_string() == before, "a run changed the state that it was given"

    async def _go(self, given: Any, on_pending: Any = "error", *, streamed: bool = False) -> RunResult:
        config = RunConfig(clock=self.clock, on_pending=on_pending)
        return await go(
            self.witness.deploy(),
            given,
            streamed=streamed,
            run_config=config,
            session=self.session,
            store=self.store,
            **({"max_turns": None} if given == self.team.root.topic else {}),
        )

    async def _after(self, error: Any, given: str | RunState[Any]) -> RunState[Any]:
        """Whatever ended the drive: what the error carries is enough to go on."""
        await self._check_session_while_failing()
        state: RunState[Any] = error.state
        if state is None:  # the store failed before the drive began: whoever resumed still has what they gave
            assert isinstance(given, RunState)
            state = given
        if isinstance(error, OutputGuardrailTripwireTriggered):
            state.add_input(self._a_message())
        return await self._trip(state)

    async def _trip(self, state: RunState[Any]) -> RunState[Any]:
        """Perhaps through a text, to agents that were built anew."""
        if self._happens(50):
            return await RunState.from_string(self.witness.deploy(), state.to_string(), clock=self.clock)
        return state

    def _a_message(self) -> str:
        self.witness.messages.append(f"message {len(self.witness.messages)}")
        return self.witness.messages[-1]

    # -- at a pause ---------------------------------------------------------------------------------------------------

    def _check_pause(self, result: RunResult) -> None:
        """Everything that waits has not been answered yet, by a word or by a standing one."""
        assert result.interruptions
        assert result.final_output is None
        self.pauses.append([split_call_id(item.id)[1] for item in result.interruptions])
        for item in result.interruptions:
            n = number_in(json.loads(str(item.arguments)))
            place = self.team.places[n]
            assert item.name == place.call.tool
            if item.kind == "approval":
                assert n not in self.witness.words, f"{n} was asked about although it was decided"
                assert not self.witness.granted(n), f"{n} was asked about in spite of a standing word"
                assert place.call.is_gated
                assert self.witness.times(n) == 0
            else:
                assert self.witness.crashes > len(self.witness.doubts[n]), f"{n} is in doubt without a reason"

    def _check_message(self, on_pending: str) -> None:
        """A message that took the place of what waited has ended it; one that was put behind it has not."""
        before, now = self.pauses[-2:] if len(self.pauses) > 1 else ([], [])
        if on_pending == "supersede":
            assert not set(before) & set(now)
        elif on_pending == "queue":
            assert before == now

    async def _answer(self, result: RunResult) -> tuple[str | RunState[Any], str]:
        if self._happens(20):
            await self._resume_an_older_snapshot(result)
        self.snapshots.append(Snapshot(result.to_state(), result.to_state().to_string()))
        await self._say_something_late(result.to_state())
        if self.session is not None and self._happens(18):
            await self._say_what_is_refused(result)
            return self._say_more(result)
        state = await self._trip(result.to_state())
        waiting = state.get_interruptions()
        self.chance.shuffle(waiting)
        for item in waiting[: self.chance.randint(1, len(waiting))]:
            self._decide(state, item)
        if self._happens(10):
            self.store = CountingStore(self.witness)  # the process is gone, and only the state is left
        return await self._trip(state), "error"

    async def _say_what_is_refused(self, result: RunResult) -> None:
        """A message that a guardrail stops leaves no trace: what waits waits on."""
        before = await self._kept(result)
        with pytest.raises((InputGuardrailTripwireTriggered, Crash)):
            await self._go(REFUSED, self.chance.choice(["supersede", "queue"]))
        assert await self._kept(result) == before

    async def _kept(self, result: RunResult) -> tuple[int, bytes]:
        stored = await self.store.load(result.run_id)
        assert stored is not None
        return stored.length, stored.head

    def _say_more(self, result: RunResult) -> tuple[str, str]:
        """A user does not wait for the reviewers."""
        on_pending = self.chance.choice(["supersede", "queue"])
        if on_pending == "supersede":
            for item in result.interruptions:
                self._supersede(number_in(json.loads(str(item.arguments))))
        return self._a_message(), on_pending

    def _supersede(self, n: int) -> None:
        while n in self.team.places:
            self.witness.superseded.add(n)
            n = self.team.places[n].job.n

    def _decide(self, state: RunState[Any], item: ToolApprovalItem) -> None:
        n = number_in(json.loads(str(item.arguments)))
        place = self.team.places[n]
        named: Any = item if self._happens(50) else item.id
        if item.kind == "in_doubt":
            word = self.chance.choice(["approve", "reject", "respond"])
            self.witness.doubts[n].append(word)
            self._say(state, named, word, {"respond": f"it was {n}", "reject": f"given up {n}"}.get(word, ""))
            return
        verbs = ["approve", "reject", "respond", "edit" if isinstance(place.call, Effect) else "approve"]
        word = self.chance.choices(verbs, [55, 15, 15, 15])[0]
        self.witness.words[n] = word
        always = word in ("approve", "reject") and self._happens(20)
        if word == "edit":
            state.approve(named, arguments={"n": n, "text": "edited"})
        elif always:
            self._decide_for_good(state, named, word, n)
        else:
            self._say(state, named, word, {"respond": f"by hand {n}"}.get(word, f"no {n}"))

    def _decide_for_good(self, state: RunState[Any], named: Any, word: str, n: int) -> None:
        """Perhaps only for a moment: another decision about the same call takes the standing one back."""
        if word == "approve":
            state.approve(named, always_approve=True)
        else:
            state.reject(named, always_reject=True, rejection_message="never")
        if self._happens(30):
            self._say(state, named, word, f"no {n}")
            return
        self.witness.granted(n).add(word)
        self.witness.decided_for_good.add(n)

    def _say(self, state: RunState[Any], item: Any, word: str, text: str) -> None:
        match word:
            case "approve":
                state.approve(item)
            case "reject":
                state.reject(item, rejection_message=text)
            case "respond":
                state.respond(item, text)

    # -- what others do with what is old ------------------------------------------------------------------------------

    async def _resume_an_older_snapshot(self, result: RunResult) -> None:
        """Whoever resumes an older state, without a new word, comes to where the run stands, and does nothing."""
        if not self.snapshots:
            return
        old = self.chance.choice(self.snapshots)
        requests, ran = self.witness.asked.copy(), list(self.witness.ran)
        with contextlib.suppress(Crash):
            again = await self._go(old.state)
            assert [item.id for item in again.interruptions] == [item.id for item in result.interruptions]
        assert (self.witness.asked, self.witness.ran) == (requests, ran)

    async def _say_something_late(self, now: RunState[Any]) -> None:
        """An approval of what has ended without running is refused, and changes nothing."""
        waits = {item.id for item in now.get_interruptions()}
        for snapshot in self.snapshots[-3:]:
            late = await RunState.from_string(self.witness.deploy(), snapshot.text, clock=self.clock)
            for item in late.get_interruptions():
                n = number_in(json.loads(str(item.arguments)))
                has_waited = item.kind == "approval" and item.id not in waits
                if has_waited and self.witness.words.get(n) in (None, "reject") and not self.witness.granted(n):
                    late.approve(item)
                    await self._is_refused(late)
                    return

    async def _is_refused(self, late: RunState[Any]) -> None:
        requests, ran = self.witness.asked.copy(), list(self.witness.ran)
        with pytest.raises((NotPending, StaleApproval, RunFinished, Crash)):
            await self._go(late)
        assert (self.witness.asked, self.witness.ran) == (requests, ran)

    # -- the session --------------------------------------------------------------------------------------------------

    def _root_said(self) -> tuple[list[Item], list[Item]]:
        """The last request about the outermost run, and its answer."""
        root = self.team.root.topic
        turn = max((turn for topic, turn in self.witness.requests if topic == root), default=None)
        if turn is None:
            return [*self.earlier, {"role": "user", "content": root}], []
        return self.witness.requests[root, turn], self.witness.answers[root, turn]

    async def _check_session(self, result: RunResult) -> None:
        """Between two drives it holds the whole conversation but the open turn."""
        if self.session is None:
            return
        items = await self.session.get_items()
        assert_paired(items)
        request, answer = self._root_said()
        assert items == (request + answer if result.to_state().has_ended else request)

    async def _check_session_while_failing(self) -> None:
        """Whatever failed: nothing stands there twice or in the wrong place."""
        if self.session is None:
            return
        items = await self.session.get_items()
        request, _ = self._root_said()
        length = min(len(items), len(request))
        assert items[:length] == request[:length]

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _check_end(self, result: RunResult) -> Trace:
        assert result.final_output == f"{self.team.root.topic}: done"
        assert result.interruptions == []
        trace = self._trace(result.to_state())
        await self._say_something_late(result.to_state())
        for snapshot in [*self.snapshots, Snapshot(result.to_state(), result.to_state().to_string())]:
            assert snapshot.state.to_string() == snapshot.text, "a snapshot changed after it was taken"
            again = await self._go(snapshot.state)
            assert again.final_output == result.final_output
        assert (self.witness.ran, self.witness.requests) == (trace.ran, trace.requests)
        await self._check_session(result)
        return trace

    async def _check_stopped(self, state: Any) -> Trace:
        """An input guardrail stopped the whole: nothing happened, and nothing will."""
        assert self.team.root.trips == "input"
        with pytest.raises((InputGuardrailTripwireTriggered, Crash)):
            await self._go(await self._trip(state))
        assert self.witness.ran == []
        if self.session is not None:
            assert await self.session.get_items() == self.earlier
        return self._trace(state)

    def _trace(self, state: RunState[Any]) -> Trace:
        return Trace(facts_of(state), list(self.witness.ran), dict(self.witness.requests), self.pauses)


def facts_of(state: RunState[Any]) -> dict[str, list[Any]]:
    """The facts of each run of the team in order, without the ids that were minted, and without the stops."""
    found: dict[str, list[Any]] = defaultdict(list)
    names: dict[str, str] = {}
    for line in state._log.lines:
        for fact in read_line(line).facts:
            path, plain = (fact.path, fact.fact) if isinstance(fact, InChild) else ("", fact)
            if isinstance(plain, InputAdded):
                plain = InputAdded(plain.items)
            if not isinstance(plain, RunStopped):
                found[path].append(_without_ids(msgspec.to_builtins(plain), names))
    return dict(found)


def _without_ids(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str) and value.startswith(MINTED):
        return names.setdefault(value, f"{value.partition('_')[0]} {len(names)}")
    return [_without_ids(each, names) for each in value] if isinstance(value, list) else value


async def check(seed: int) -> None:
    """The team of this seed keeps its promises, and leaves the same behind streamed and not."""
    one, other = await Play(seed, flipped=False).run(), await Play(seed, flipped=True).run()
    assert one.facts == other.facts
    assert one == other
