"""The concurrency report once more, on a real server process: many calls in one turn, decided while others run."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Runner, RunState
from tests.mcp.scenes import DONE, Effects, agent_with, call, outputs, running, stdio_shop

POLICY = {"refund": "always", "delete_order": True, "slow": "never", "add": False}
CALLS = 24


def turn() -> list[Any]:
    """One response: refunds that wait, slow calls that run meanwhile, quick ones, and some that are to be refused."""
    found: list[Any] = []
    for number in range(CALLS):
        found.append(call("refund", f"r{number}", order_id=str(number), cents=number))
        found.append(call("add", f"a{number}", a=number, b=number))
    found += [call("slow", f"s{number}", name=f"s{number}", seconds=0.5) for number in range(4)]
    found += [call("delete_order", f"d{number}", order_id=str(number)) for number in range(4)]
    return found


@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.promise("P4", "P5", "P6", "P16")
async def test_calls_are_decided_while_others_run_and_each_effect_happens_as_it_was_decided(
    effects: Effects, kind: str
) -> None:
    with running(effects, "http") if kind == "http" else _nothing() as process:
        server = (
            process.server(require_approval=POLICY, cache_tools_list=True)
            if process is not None
            else stdio_shop(effects, require_approval=POLICY, cache_tools_list=True)
        )
        agent = agent_with(server, steps=[turn(), DONE])
        streamed = Runner.run_streamed(agent, "go")
        seen: list[str] = []
        async for event in streamed.stream_events():
            if getattr(event, "name", "") != "tool_approval_requested":
                continue
            label = event.item.call_id
            seen.append(label)
            if label.startswith("r") and int(label[1:]) % 2 == 0:  # while the slow ones run
                streamed.context_wrapper.approve_tool(event.item, by="ana")
            elif label.startswith("d"):
                streamed.context_wrapper.reject_tool(event.item, by="ana", rejection_message=f"keep {label}")
        left = [item.call_id for item in streamed.interruptions]
        state = await RunState.from_string(agent, streamed.to_state().to_string())
        for item in state.get_interruptions():
            state.approve(item, by="ben")
        result = await Runner.run(agent, state)

    odd = [n for n in range(CALLS) if n % 2]
    read = outputs(result)
    assert sorted(seen) == sorted([*(f"r{n}" for n in range(CALLS)), *(f"d{n}" for n in range(4))])
    assert left == [f"r{n}" for n in odd]
    assert sorted(effects.lines) == sorted(
        [*(f"refund {n} {n}" for n in range(CALLS)), *(f"{word} s{n}" for n in range(4) for word in ("begin", "end"))]
    )
    assert {label: read[label] for label in read if label[0] == "a"} == {f"a{n}": str(2 * n) for n in range(CALLS)}
    assert {label: read[label] for label in read if label[0] == "d"} == {f"d{n}": f"keep d{n}" for n in range(4)}
    assert len(read) == 2 * CALLS + 8
    assert result.final_output == "done"


class _nothing:  # noqa: N801  # a context manager, used like a function
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
