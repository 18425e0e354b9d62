"""How the golden files were made. Run it only when the format gets a new version, and then under new names.

The files are committed as they are and must load and finish for ever: `tests/states/test_golden.py`. This script writes
only files that do not exist yet. The ids of runs are minted and differ from one making to the next; all times come from
a clock that stands still.

    python -m tests.golden.make
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from placet import Agent, Grant, MemoryStore, RunConfig, RunContextWrapper, Runner, RunState, ToolApprovalItem
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call, reasoning
from tests.golden.agents import clerk

FOLDER = Path(__file__).parent
KEY = "golden key, not a secret"
CLOCK = ManualClock(1_800_000_000.0)
CONFIG = RunConfig(clock=CLOCK)

TURN = [
    reasoning("Three things to do."),
    function_call(
        "refund", {"order": 7, "note": "für Zoë 😀"}, call_id="call_a", status="completed", unknown_field={"x": [1]}
    ),
    function_call("lookup", {"order": 7}, call_id="call_b"),
    function_call("refund", {"order": 8}, call_id="call_a"),
]


async def paused(steps: list[Any] | None = None, **options: Any) -> tuple[Agent[Any], RunState[Any]]:
    agent = clerk(ScriptedModel(steps if steps is not None else [TURN]))
    result = await Runner.run(agent, "Refund 7 and 8", run_config=CONFIG, store=MemoryStore(), **options)
    return agent, result.to_state()


async def gated_and_free() -> str:
    _, state = await paused(context={"customer": "Zoë", "limits": {"eur": 50}})
    return state.to_string()


async def staged() -> str:
    _, state = await paused(previous_response_id="resp_0")
    first, second = state.get_interruptions()
    state.approve(first, arguments={"order": 7, "note": "less"}, by="ann", reason="checked")
    state.reject(second, by="bob", rejection_message="Order 8 was refunded before.")
    return state.to_string()


async def grants() -> str:
    agent, state = await paused([TURN, [function_call("wipe", {"path": "drafts"}, call_id="call_c")]])
    first, second = state.get_interruptions()
    state.approve(first, always_approve=Grant(arguments={"order": 9}, uses=2), by="ann")
    state.approve(second, always_approve=True, by="ann")
    state = (await Runner.run(agent, state, run_config=CONFIG, store=MemoryStore())).to_state()
    state.reject(state.get_interruptions()[0], always_reject=True, rejection_message="Nothing is wiped here.")
    return state.to_string()


async def in_doubt() -> str:
    started = asyncio.Event()
    agent = clerk(ScriptedModel([[function_call("transfer", {"order": 1}, call_id="call_d")]]), started)
    result = Runner.run_streamed(agent, "Transfer", run_config=CONFIG, store=MemoryStore(), conversation_id="conv_1")
    await started.wait()
    result.cancel()
    async for _ in result.stream_events():
        pass
    return result.to_state().to_string()


async def asking() -> str:
    """One call asks and is answered, not yet gone on with; another still asks."""
    steps = [[function_call("book", {"city": city}, call_id=f"call_{city}") for city in ("Bern", "Genf")]]
    _, state = await paused(steps)
    state.respond("call_Bern", {"euros": 90}, by="ann", reason="within limits")
    return state.to_string()


async def by_hand() -> str:
    agent = clerk(ScriptedModel([]))
    state: RunState[Any] = RunState(RunContextWrapper({"customer": "Zoë"}), "Refund 7", agent, max_turns=4, clock=CLOCK)
    call = function_call("refund", {"order": 7}, call_id="call_a")
    state.approve(ToolApprovalItem(agent, call, tool_name="refund"), by="ann")
    return state.to_string()


async def sealed() -> str:
    _, state = await paused()
    state.approve(state.get_interruptions()[0])
    return state.to_string(key=KEY)


async def ended() -> str:
    _, state = await paused([[assistant_message("Nothing to do.")]])
    return state.to_string()


MAKERS = {
    "gated-and-free": gated_and_free,
    "staged": staged,
    "grants": grants,
    "in-doubt": in_doubt,
    "asking": asking,
    "by-hand": by_hand,
    "sealed": sealed,
    "ended": ended,
}


async def main() -> None:
    for name, maker in MAKERS.items():
        path = FOLDER / f"state-v1-{name}.json"
        if not path.exists():
            path.write_text(await maker() + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
