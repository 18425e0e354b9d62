"""A run that is struck once, by a store that fails or by a cancellation, and whoever started it: they resume what they
have until the run ends, and resolve what is in doubt as a person would.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from placet import MemoryStore, RunConfig, Runner, RunResult, RunState, Store, StoreError
from placet.testing import ManualClock
from tests.generated.play import BEGINNING, OPTIONS, places
from tests.generated.provider import StrictProvider
from tests.generated.script import CallPlan, Script, Word
from tests.generated.witness import THE_WORLD, Effects, Expectation, Place, edited, make_agent

Resolution: TypeAlias = Literal["respond", "run again", "give up"]
Source: TypeAlias = Literal["held", "error"]
RESOLUTIONS: tuple[Resolution, ...] = ("respond", "run again", "give up")

Drive: TypeAlias = Callable[..., Awaitable[RunResult]]


class Struck(Exception):
    """The drive did not come to its end; `state` is what is left in the hands of whoever started it."""

    def __init__(self, state: RunState[Any] | None) -> None:
        super().__init__()
        self.state = state


class YieldingStore:
    """Lets others run before and after everything that the store does: so a cancellation can fall on either side."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def with_pauses(*args: Any) -> Any:
            await asyncio.sleep(0)
            found = await method(*args)
            await asyncio.sleep(0)
            return found

        return with_pauses


async def drive_plainly(*args: Any, **options: Any) -> RunResult:
    try:
        return await Runner.run(*args, **options)
    except StoreError as error:
        raise Struck(error.state) from error  # type: ignore[arg-type]


async def drive_streamed(*args: Any, **options: Any) -> RunResult:
    result = Runner.run_streamed(*args, **options)
    try:
        async for _ in result.stream_events():
            pass
    except StoreError as error:
        raise Struck(error.state) from error  # type: ignore[arg-type]
    return result


class Survival:
    """One script, driven to its end through one blow."""

    def __init__(self, script: Script, store: Store, *, source: Source, resolution: Resolution) -> None:
        self.script = script
        self.store = store
        self.source = source
        self.resolution = resolution
        self.provider = StrictProvider(script, client_may_forget=True)
        self.effects = Effects()
        self.config = RunConfig(clock=ManualClock(), max_tool_concurrency=script.concurrency)
        self.asked: Counter[Place] = Counter()
        self.doubted: Counter[Place] = Counter()
        self.blows = 0

    async def run(self, drive: Drive) -> RunResult:
        THE_WORLD.set(self.effects)
        given: str | RunState[Any] = BEGINNING
        options: dict[str, Any] = OPTIONS[self.script.delivery]
        for _ in range(50):
            try:
                result = await drive(
                    make_agent(self.provider), given, store=self.store, run_config=self.config, **options
                )
            except Struck as blow:
                given = self._what_is_left(given, blow.state)
            else:
                if result.final_output is not None:
                    self._check(result)
                    return result
                given = self._decide(result.to_state())
            options = {} if isinstance(given, RunState) else options
        raise AssertionError("the run does not come to its end")

    def _what_is_left(self, given: str | RunState[Any], state: RunState[Any] | None) -> str | RunState[Any]:
        self.blows += 1
        if state is not None and (self.source == "error" or not isinstance(given, RunState)):
            return state
        if not isinstance(given, RunState):  # there is nothing to resume: then nothing may have happened
            assert self.effects.done == []
            assert self.provider.answered == 0
        return given

    def _decide(self, state: RunState[Any]) -> RunState[Any]:
        items = state.get_interruptions()
        for place, item in zip(places(items), items, strict=True):
            call = self.script.turns[place[0]].calls[place[1]]
            if item.kind == "in_doubt":
                self.doubted[place] += 1
                self._resolve(state, item)
            else:
                self.asked[place] += 1
                say(state, item, call)
        return state

    def _resolve(self, state: RunState[Any], item: Any) -> None:
        match self.resolution:
            case "respond":
                state.respond(item, "It happened.")
            case "run again":
                state.approve(item)
            case "give up":
                state.reject(item, rejection_message="Let it be.")

    # -- what must be true at the end ---------------------------------------------------------------------------------

    def _check(self, result: RunResult) -> None:
        assert self.provider.complaints == []
        assert self.provider.forgotten <= self.blows
        assert result.final_output == "done"
        assert self.provider.answered == len(self.script.turns)
        self._check_effects()
        self._check_outputs()
        asked_for = {place: self.asked[place] for place in self._places() if self._call(place).asks}
        assert set(asked_for.values()) <= {1}, f"a decision was lost, or never asked for: {asked_for}"
        assert set(self.asked) == set(asked_for)
        assert set(self.doubted.values()) <= {1}, f"one blow, and a person was asked again and again: {self.doubted}"

    def _call(self, place: Place) -> CallPlan:
        return self.script.turns[place[0]].calls[place[1]]

    def _places(self) -> list[Place]:
        return [(turn, index) for turn, each in enumerate(self.script.turns) for index in range(len(each.calls))]

    def _expected(self) -> Expectation:
        settled = {place: self._call(place).words[-1] for place in self._places() if self._call(place).asks}
        return Expectation(self.script, turn=len(self.script.turns) - 1, settled=settled)

    def _check_effects(self) -> None:
        """Once each; where it was in doubt, as often as it may have happened; and with the approved arguments."""
        expected, done = self._expected(), Counter(self.effects.done)
        assert set(done) <= set(expected.effects())
        for place in self._places():
            effect = expected.runs(place)
            if effect is None:
                continue
            if not self.doubted[place]:
                assert done[effect] == 1, f"{effect} happened {done[effect]} times"
            elif self.resolution == "run again":
                assert 1 <= done[effect] <= 2, f"{effect} happened {done[effect]} times"
            else:
                assert done[effect] <= 1, f"{effect} happened {done[effect]} times"

    def _check_outputs(self) -> None:
        expected = self._expected()
        for turn, outputs in enumerate(self.provider.carried):
            for index, output in enumerate(outputs):
                if self.doubted[turn, index] and self.resolution == "respond":
                    assert output == "It happened."
                elif self.doubted[turn, index] and self.resolution == "give up":
                    assert output == "Let it be."
                else:
                    expected.check_output((turn, index), output)


def say(state: RunState[Any], item: Any, call: CallPlan) -> None:
    word: Word = call.words[-1]
    match word.verb:
        case "approve":
            state.approve(item)
        case "reject":
            state.reject(item, rejection_message=word.text)
        case "edit":
            state.approve(item, arguments=edited(call, word))
        case "respond":
            state.respond(item, word.text)


async def survive(
    script: Script,
    drive: Drive,
    *,
    store: Store | None = None,
    source: Source = "error",
    resolution: Resolution = "respond",
) -> Survival:
    survival = Survival(script, store or YieldingStore(MemoryStore()), source=source, resolution=resolution)
    async with asyncio.timeout(120):
        await survival.run(drive)
    return survival
