"""Plays a script in a way, as its users would, and holds what happens against the witness at every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from placet import (
    Agent,
    DeliveryUnknown,
    MaxTurnsExceeded,
    MemoryStore,
    ModelBehaviorError,
    NotPending,
    RequestNotTaken,
    RunConfig,
    RunConflict,
    RunFinished,
    Runner,
    RunResult,
    RunState,
    StaleApproval,
    ToolApprovalItem,
    ToolError,
)
from placet.core.log import read_line
from placet.facts.events import RunStopped
from placet.facts.ids import split_call_id
from placet.testing import ManualClock
from tests.generated.provider import CONVERSATION, RESPONSE_BEFORE, StrictProvider
from tests.generated.script import Leg, Script, Way, Word
from tests.generated.witness import THE_WORLD, Effects, Expectation, Place, edited, make_agent, standing

KEY = "the seal of the generated scripts"
BEGINNING = "Begin."
EXPECTED_ERRORS = (RequestNotTaken, ConnectionError, ModelBehaviorError, DeliveryUnknown, ToolError, MaxTurnsExceeded)
OPTIONS: dict[str, dict[str, Any]] = {
    "own": {},
    "chained": {"previous_response_id": RESPONSE_BEFORE},
    "auto": {"auto_previous_response_id": True},
    "conversation": {"conversation_id": CONVERSATION},
}


@dataclass
class Trace:
    """What is compared between two ways of playing one script."""

    facts: list[Any]
    effects: list[Any]
    requests: list[Any]


@dataclass
class Snapshot:
    state: RunState[Any]
    text: str
    """What it was when it was taken: it must never change."""
    pending: list[Place] = field(default_factory=list)


class Play:
    def __init__(self, script: Script, way: Way) -> None:
        self.script = script
        self.way = way
        self.provider = StrictProvider(script)
        self.effects = Effects()
        self.expected = Expectation(script)
        self.store = MemoryStore()
        self.config = RunConfig(clock=ManualClock(), max_tool_concurrency=script.concurrency)
        self.snapshots: list[Snapshot] = []
        self.last: RunResult | None = None
        self.pauses = 0
        """How often the open turn has paused so far."""

    def agent(self) -> Agent[Any]:
        return make_agent(self.provider)

    # -- the whole ----------------------------------------------------------------------------------------------------

    async def run(self) -> Trace:
        THE_WORLD.set(self.effects)
        given: str | RunState[Any] = BEGINNING
        options: dict[str, Any] = {**OPTIONS[self.script.delivery], "max_turns": self.script.turn_limit}
        for number in range(100):
            leg = self.way.leg(number) if number % 2 else replace(self.way.leg(number), stops_after_turn=False)
            result, error = await self._drive(given, leg, options)
            self._follow(error)
            if result is not None and result.to_state().has_ended:
                await self._check_end(result, given, leg)
                return self._trace(result)
            if error is not None:
                given, options = await self._recover(given, error, leg)
            else:
                assert result is not None
                given, options = await self._decide(result, leg), {}
        raise AssertionError("the run does not come to its end")

    def _follow(self, error: BaseException | None) -> None:
        """After a drive: nobody complained, and exactly what should have happened did."""
        assert self.provider.complaints == []
        while self.expected.turn < self.provider.answered - 1:
            self.expected.begin_turn()
            self.pauses = 0
        if isinstance(error, ToolError) and (self.script.concurrency is not None or self._has_unfit()):
            assert Counter(self.effects.done) <= self.expected.effects()  # what waited for a place was not begun
        else:
            assert Counter(self.effects.done) == self.expected.effects()

    # -- driving ------------------------------------------------------------------------------------------------------

    async def _drive(
        self, given: str | RunState[Any], leg: Leg, options: dict[str, Any]
    ) -> tuple[RunResult | None, BaseException | None]:
        """One resumption, perhaps by two at the same time: then one of them drives."""
        before = given.to_string() if isinstance(given, RunState) else None
        outcomes = [self._drive_once(given, leg, options)]
        if leg.twice == "at_once" and isinstance(given, RunState) and not options:
            outcomes.append(self._drive_once(given, Leg(streamed=not leg.streamed), options))
        found = await asyncio.gather(*outcomes)
        if before is not None:
            assert isinstance(given, RunState)
            assert given.to_string() == before, "a run changed the state that it was given"
        found = [each for each in found if not isinstance(each[1], RunConflict)]
        assert found, "nobody drove the run"
        result, error = max(found, key=length)  # where one came after the other, the later one counts
        if leg.twice == "after" and isinstance(given, RunState) and result is not None and not leg.stops_after_turn:
            again, problem = await self._drive_once(given, Leg(streamed=not leg.streamed), {})
            assert problem is None
            assert again is not None
            assert places(again.interruptions) == places(result.interruptions)
            assert again.final_output == result.final_output
        return result, error

    async def _drive_once(
        self, given: str | RunState[Any], leg: Leg, options: dict[str, Any]
    ) -> tuple[RunResult | None, BaseException | None]:
        try:
            if leg.streamed:
                return await self._stream(given, leg, options), None
            return await Runner.run(self.agent(), given, store=self.store, run_config=self.config, **options), None
        except (*EXPECTED_ERRORS, RunConflict) as error:
            return None, error

    async def _stream(self, given: str | RunState[Any], leg: Leg, options: dict[str, Any]) -> RunResult:
        result = Runner.run_streamed(self.agent(), given, store=self.store, run_config=self.config, **options)
        if leg.stops_after_turn and not options:
            result.cancel(mode="after_turn")
        events = 0
        async for _ in result.stream_events():
            if events == leg.peek:
                self._keep(result.to_state())
            events += 1
        return result

    def _keep(self, state: RunState[Any]) -> None:
        items = state.get_interruptions()
        self.snapshots.append(Snapshot(state, state.to_string(), places(items)))

    # -- after an error -----------------------------------------------------------------------------------------------

    async def _recover(
        self, given: str | RunState[Any], error: BaseException, leg: Leg
    ) -> tuple[RunState[Any], dict[str, Any]]:
        """Resume what the error carries, or what was held before. Nothing that was said is said again."""
        state: RunState[Any] = error.state  # type: ignore[attr-defined]
        assert places(state.get_interruptions()) == self.expected.pending()
        if isinstance(error, ToolError):
            assert any(map(self.expected.ends_drive, self._places_of_turn()))
        else:
            assert not self.expected.pending()
        if leg.from_held and isinstance(given, RunState):
            state = given
        else:
            state = await self._trip(state, leg.trip_after)
            self._maybe_lose_the_store(leg)
        if isinstance(error, DeliveryUnknown):
            _, again = await self._drive_once(state, Leg(), {})
            assert isinstance(again, DeliveryUnknown)
            return state, {"resend": not self.provider.lost_was_taken}
        if isinstance(error, MaxTurnsExceeded):
            assert self.provider.answered == self.script.turn_limit
            return state, {"max_turns": None}
        return state, {}

    def _places_of_turn(self) -> list[Place]:
        turn = self.expected.turn
        return [(turn, index) for index in range(len(self.script.turns[turn].calls))]

    # -- at a pause ---------------------------------------------------------------------------------------------------

    async def _decide(self, result: RunResult, leg: Leg) -> RunState[Any]:
        self.last = result
        self._check_pause(result)
        self._keep(result.to_state())
        if leg.bystander:
            self._decide_the_opposite_elsewhere(result.to_state())
        if leg.contrary:
            await self._contradict(StaleApproval)
        if leg.older and self.expected.pending():
            await self._resume_an_older_snapshot()
        state = await self._trip(result.to_state(), leg.trip_before)
        due = sorted(
            (place for place in self.expected.pending() if self.expected.call(place).portion <= self.pauses),
            key=lambda place: (self.expected.call(place).rank, place),
        )
        self.pauses += 1
        if leg.merges and len(due) > 1:
            other = await self._trip(result.to_state(), leg.trip_before)
            self._say(state, due[: len(due) // 2], leg)
            self._say(other, due[len(due) // 2 :], leg)
            assert state.merge(other) is state
        else:
            self._say(state, due, leg)
        state = await self._trip(state, leg.trip_after)
        self.expected.resume()
        self._maybe_lose_the_store(leg)
        return state

    def _has_unfit(self) -> bool:
        """Whether a call of the turn ended the drive before its siblings were begun."""
        return any(self.expected.call(place).is_unfit for place in self._places_of_turn())

    def _check_pause(self, result: RunResult) -> None:
        """The reviewer sees all that waits, and exactly what will run."""
        pending = self.expected.pending()
        assert places(result.interruptions) == pending
        for place, item in zip(pending, result.interruptions, strict=True):
            call = self.expected.call(place)
            assert (item.name, item.arguments, item.kind) == (call.tool, call.shown, "approval")
            assert (item.proposed_arguments or item.arguments) == call.arguments
            assert (item.call_id or None) == (call.label or None)
        assert result.final_output is None

    def _say(self, state: RunState[Any], due: list[Place], leg: Leg) -> None:
        for place in due:
            for word in self.expected.call(place).words:
                self._say_word(state, place, word, self._name(state, place, leg))
            self.expected.say(place, self.expected.call(place).words[-1])

    def _name(self, state: RunState[Any], place: Place, leg: Leg) -> ToolApprovalItem | str:
        item = item_at(state.get_interruptions(), place)
        labels = [each.call_id for each in state.get_interruptions()]
        if leg.named_by == "id":
            return item.id
        if leg.named_by == "label" and item.call_id and labels.count(item.call_id) == 1:
            return item.call_id
        if leg.named_by == "result":
            assert self.last is not None
            return item_at(self.last.interruptions, place)
        return item

    def _say_word(self, state: RunState[Any], place: Place, word: Word, item: ToolApprovalItem | str) -> None:
        call = self.expected.call(place)
        match word.verb:
            case "approve":
                state.approve(item, standing(word, call), by="a reviewer")
            case "reject":
                state.reject(item, standing(word, call), rejection_message=word.text, by="a reviewer")
            case "edit":
                state.approve(item, arguments=edited(call, word), by="a reviewer")
            case "respond":
                state.respond(item, word.text, by="a reviewer")

    async def _trip(self, state: RunState[Any], how: str) -> RunState[Any]:
        """Through a text, to an agent that was built anew."""
        clock = self.config.clock
        if how == "text":
            return await RunState.from_string(self.agent(), state.to_string(), clock=clock)
        if how == "sealed":
            return await RunState.from_string(self.agent(), state.to_string(key=KEY), key=KEY, clock=clock)
        if how == "json":
            return await RunState.from_json(self.agent(), state.to_json(key=KEY), key=KEY, clock=clock)
        return state

    def _maybe_lose_the_store(self, leg: Leg) -> None:
        if leg.new_process:
            self.store = MemoryStore()

    # -- others -------------------------------------------------------------------------------------------------------

    def _decide_the_opposite_elsewhere(self, state: RunState[Any]) -> None:
        for item in state.get_interruptions():
            state.reject(item, always_reject=True, rejection_message="somebody else's word")
        twin = state.fork()
        for item in twin.get_interruptions():
            twin.approve(item, always_approve=True)
        assert len(twin.get_interruptions()) == len(state.get_interruptions())
        with pytest.raises(NotPending) as refusal:
            state.approve(f"{state.run_id}:99.0")
        assert len(refusal.value.pending) == len(state.get_interruptions())

    async def _contradict(self, wanted: type[Exception]) -> None:
        """Resume an old snapshot with the opposite of what was decided: it is refused, and nothing happens."""
        for snapshot in self.snapshots:
            decided = [place for place in snapshot.pending if place in self.expected.settled]
            if not decided:
                continue
            state = await self._trip(snapshot.state, "text")
            item = item_at(state.get_interruptions(), decided[0])
            if self.expected.settled[decided[0]].verb == "reject":
                state.approve(item)
            else:
                state.reject(item)
            requests, effects = len(self.provider.requests), list(self.effects.done)
            with pytest.raises(wanted):
                await Runner.run(self.agent(), state, store=self.store, run_config=self.config)
            assert (len(self.provider.requests), self.effects.done) == (requests, effects)
            return

    async def _resume_an_older_snapshot(self) -> None:
        for snapshot in (self.snapshots[0], self.snapshots[-1], self.snapshots[len(self.snapshots) // 2]):
            requests, effects = len(self.provider.requests), list(self.effects.done)
            result = await Runner.run(self.agent(), snapshot.state, store=self.store, run_config=self.config)
            assert places(result.interruptions) == self.expected.pending()
            assert (len(self.provider.requests), self.effects.done) == (requests, effects)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _check_end(self, result: RunResult, given: str | RunState[Any], leg: Leg) -> None:
        assert result.final_output == "done"
        assert result.interruptions == []
        assert self.provider.answered == len(self.script.turns)
        assert len(self.provider.carried) == len(self.script.turns) - 1
        for turn, outputs in enumerate(self.provider.carried):
            for index, output in enumerate(outputs):
                self.expected.check_output((turn, index), output)
        await self._check_that_the_end_stands(result, given)
        for snapshot in self.snapshots:
            assert snapshot.state.to_string() == snapshot.text, "a snapshot changed after it was taken"

    async def _check_that_the_end_stands(self, result: RunResult, given: str | RunState[Any]) -> None:
        """Whatever of the run is resumed now gives the recorded result, and does nothing."""
        states = [result.to_state(), *(snapshot.state for snapshot in self.snapshots)]
        states += [given] if isinstance(given, RunState) else []
        effects = list(self.effects.done)
        for state in states:
            again = await Runner.run(self.agent(), state, store=self.store, run_config=self.config)
            assert (again.final_output, again.interruptions) == ("done", [])
            await self._check_that_an_ended_state_travels(again.to_state())
        await self._contradict(RunFinished)
        assert self.effects.done == effects
        assert self.provider.complaints == []

    async def _check_that_an_ended_state_travels(self, state: RunState[Any]) -> None:
        loaded = await self._trip(state, "text")
        assert (state.has_ended, state.get_interruptions()) == (True, [])
        assert (loaded.has_ended, loaded.get_interruptions()) == (True, [])

    def _trace(self, result: RunResult) -> Trace:
        return Trace(facts_of(result.to_state()), list(self.effects.done), self.provider.requests)


def length(outcome: tuple[RunResult | None, BaseException | None]) -> int:
    result, error = outcome
    state: RunState[Any] = result.to_state() if result is not None else error.state  # type: ignore[union-attr]
    return len(state._log)


def places(items: list[ToolApprovalItem]) -> list[Place]:
    """Where the calls stand, read from their ids: turns count from one there."""
    found = [tuple(map(int, split_call_id(item.id)[1].split("."))) for item in items]
    return [(turn - 1, index) for turn, index in found]


def item_at(items: list[ToolApprovalItem], place: Place) -> ToolApprovalItem:
    return items[places(items).index(place)]


def facts_of(state: RunState[Any]) -> list[Any]:
    """The facts of the log in order, without what differs between two runs of one script: ids that were minted, and
    how often a drive was stopped by an error (who resumes in vain is stopped again)."""
    names: dict[str, str] = {}
    facts = [fact for line in state._log.lines for fact in read_line(line).facts if not isinstance(fact, RunStopped)]
    return [_without_ids(msgspec.to_builtins(fact), names) for fact in facts]


def _without_ids(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, float):  # a decision is a millisecond later where its author had another one before them
        return round(value, 2)
    if isinstance(value, str) and value.startswith("grant_"):
        return names.setdefault(value, f"grant {len(names)}")
    return [_without_ids(each, names) for each in value] if isinstance(value, list) else value


async def play(script: Script, way: Way) -> Trace:
    return await Play(script, way).run()


async def check(script: Script, way: Way, other: Way) -> None:
    """The script keeps its promises in both ways, and leaves the same log in both."""
    one, two = await play(script, way), await play(script, other)
    assert one.facts == two.facts
    assert one.effects == two.effects
    assert one.requests == two.requests
