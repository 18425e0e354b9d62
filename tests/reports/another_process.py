"""Run as a program: takes a paused run's text on standard input, decides, resumes, prints what the model was sent."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from placet import PlacetError, RunState
from tests.promises.scenes import DONE, cleanup, diagnose, drive, scene

THREE_CALLS = [cleanup("/a", "c1"), diagnose("d1"), cleanup("/b", "c2")]


async def go_on(order: dict[str, Any]) -> dict[str, Any]:
    """Load, decide as ordered, resume. A request that fails once is retried from the state of its error."""
    steps = [ConnectionError("gone"), DONE] if order.get("fails_once") else [DONE]
    ops = scene(*steps)
    state: Any = await RunState.from_string(ops.agent, order["text"])
    for item in state.get_interruptions():
        match order["decisions"].get(item.call_id):
            case "approve":
                state.approve(item)
            case "reject":
                state.reject(item, rejection_message=f"not {item.call_id}")
    try:
        result = await drive(ops.agent, state, streamed=order.get("streamed", False))
    except (ConnectionError, PlacetError) as error:
        state = await RunState.from_string(ops.agent, error.state.to_string())  # type: ignore[union-attr]  # attached
        result = await drive(ops.agent, state, streamed=order.get("streamed", False))
    return {
        "requests": [[c.input, c.previous_response_id, c.conversation_id] for c in ops.model.calls],
        "effects": ops.effects,
        "final_output": result.final_output,
        "text": result.to_state().to_string(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(go_on(json.loads(sys.stdin.read())))))
