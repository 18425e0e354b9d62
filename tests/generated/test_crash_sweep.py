"""Every single append fails once, before and after its write, and every run is cancelled once at every step: whoever
started it goes on from what they have, and nothing is lost, done twice or sent twice.
"""

import asyncio
from dataclasses import replace
from typing import Any, Literal

import pytest

from placet import MemoryStore, Runner, RunResult
from placet.testing import CrashingStore
from tests.generated.script import CallPlan, Delivery, Script, Turn, Word
from tests.generated.survival import (
    RESOLUTIONS,
    Drive,
    Source,
    Struck,
    Survival,
    drive_plainly,
    drive_streamed,
    survive,
)

APPROVE, REJECT, EDIT, RESPOND = (
    Word("approve"),
    Word("reject", "No."),
    Word("edit", "better"),
    Word("respond", "Ask me."),
)
END = Turn()

PARALLEL = Script(
    (
        Turn((
            CallPlan("free", 0, ticks=2),
            CallPlan("gated", 1, label="x", words=(APPROVE,), ticks=1),
            CallPlan("gated", 2, label="x", words=(REJECT,)),
            CallPlan("free", 3),
        )),
        END,
    )
)  # fmt: skip
SEVERAL_TURNS = Script(
    (
        Turn((CallPlan("gated", 0, words=(EDIT,)), CallPlan("missing", 1))),
        Turn((CallPlan("free", 10, body="raises"), CallPlan("gated", 11, words=(RESPOND,)))),
        Turn((CallPlan("gated", 20, label="x"), CallPlan("ruled", 21, label="x", rule="free", ticks=1))),
        END,
    )
)
ONE_AT_A_TIME = Script((Turn(tuple(CallPlan("gated", n, ticks=1) for n in range(3))), END), concurrency=1)
SCRIPTS = {"parallel": PARALLEL, "several turns": SEVERAL_TURNS, "one at a time": ONE_AT_A_TIME}
DELIVERIES: tuple[Delivery, ...] = ("own", "chained", "auto", "conversation")

every_script = pytest.mark.parametrize("name", SCRIPTS)
every_delivery = pytest.mark.parametrize("delivery", DELIVERIES)


def the_script(name: str, delivery: Delivery) -> Script:
    return replace(SCRIPTS[name], delivery=delivery)


# -- a store that fails -----------------------------------------------------------------------------------------------


@pytest.mark.promise("P1", "P2", "P4", "P5", "P6", "P7")
@every_script
@every_delivery
@pytest.mark.parametrize("source", ["held", "error"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_append_that_fails_loses_nothing_and_repeats_nothing(
    name: str, delivery: Delivery, source: Source, when: Literal["before", "after"]
) -> None:
    script, blows = the_script(name, delivery), 0
    for number in range(1, await appends_of(script) + 1):
        for drive, resolution in zip((drive_plainly, drive_streamed, drive_plainly), RESOLUTIONS, strict=True):
            store = CrashingStore(MemoryStore())
            store.crash_at(number, when)
            try:
                survival = await survive(script, drive, store=store, source=source, resolution=resolution)
            except Exception as error:
                error.add_note(f"crash {when} append {number}, {resolution}")
                raise
            blows += survival.blows

    assert blows >= 3, "the store never failed"


async def appends_of(script: Script) -> int:
    store = CrashingStore(MemoryStore())
    await survive(script, drive_plainly, store=store)
    return store.appends


# -- a cancellation ---------------------------------------------------------------------------------------------------


class Cancelling:
    """Drives, and cancels once: when the event loop has gone round so many times, counted over all drives."""

    def __init__(self, after: int, *, streamed: bool, again_after: int | None = None) -> None:
        self.rounds = 0
        self._after = after
        self._streamed = streamed
        self._again_after = again_after

    async def __call__(self, *args: Any, **options: Any) -> RunResult:
        return await (self._stream if self._streamed else self._run)(*args, **options)

    async def _run(self, *args: Any, **options: Any) -> RunResult:
        task = asyncio.ensure_future(Runner.run(*args, **options))
        if not await self._is_due(task):
            return task.result()
        task.cancel()
        for _ in range(self._again_after or 0):
            await asyncio.sleep(0)
        if self._again_after is not None:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            return task.result()  # it had just come to its end; anything but that and a cancellation is raised here
        try:
            await task
        except asyncio.CancelledError as error:
            raise Struck(getattr(error, "state", None)) from None
        raise AssertionError

    async def _stream(self, *args: Any, **options: Any) -> RunResult:
        result = Runner.run_streamed(*args, **options)
        reader = asyncio.ensure_future(read(result))
        is_due = await self._is_due(reader)
        if is_due:
            result.cancel()
        await reader
        if is_due and result.final_output is None:
            raise Struck(result.to_state() if result.run_id else None)
        return result

    async def _is_due(self, task: asyncio.Future[Any]) -> bool:
        while not task.done():
            await asyncio.sleep(0)
            self.rounds += 1
            if self.rounds == self._after:
                return not task.done()
        return False


async def read(result: Any) -> None:
    async for _ in result.stream_events():
        pass


@pytest.mark.promise("P1", "P2", "P4", "P5", "P6", "P7")
@pytest.mark.parametrize(
    ("name", "delivery"), [*((name, "own") for name in SCRIPTS), *(("parallel", each) for each in DELIVERIES[1:])]
)
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "streamed"])
async def test_a_cancellation_at_any_step_loses_nothing_and_repeats_nothing(
    name: str, delivery: Delivery, streamed: bool
) -> None:
    script, blows = the_script(name, delivery), 0
    for after in range(1, await rounds_of(script, streamed=streamed) + 1):
        drive = Cancelling(after, streamed=streamed)
        blows += (await cancelled(script, drive, after)).blows

    assert blows > 10, "nothing was cancelled"


@pytest.mark.parametrize("name", ["parallel", "one at a time"])
@pytest.mark.parametrize("again_after", [0, 1, 2])
async def test_a_second_cancellation_during_the_first_loses_nothing_either(name: str, again_after: int) -> None:
    script, blows = SCRIPTS[name], 0
    for after in range(1, await rounds_of(script, streamed=False) + 1):
        drive = Cancelling(after, streamed=False, again_after=again_after)
        blows += (await cancelled(script, drive, after)).blows

    assert blows > 10, "nothing was cancelled"


async def cancelled(script: Script, drive: Drive, after: int) -> Survival:
    source: Source = "held" if after % 2 else "error"
    resolution = RESOLUTIONS[after % len(RESOLUTIONS)]
    try:
        return await survive(script, drive, source=source, resolution=resolution)
    except Exception as error:
        error.add_note(f"cancelled after {after} rounds, resumed what was {source}, {resolution}")
        raise


async def rounds_of(script: Script, *, streamed: bool) -> int:
    drive = Cancelling(0, streamed=streamed)
    await survive(script, drive)
    return drive.rounds
