"""Run as a program: a paused run's text and the provider's address on standard input; rejects everything, resumes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from placet import RunState
from tests.models.runs.scenes import drive, model_at, shop


async def go_on(order: dict[str, Any]) -> dict[str, Any]:
    model, client = model_at(order["api"], order["url"])
    async with client:
        scene = shop(model)
        state: Any = await RunState.from_string(scene.agent, order["text"])
        for item in state.get_interruptions():
            match order.get("decision", "reject"):
                case "approve":
                    state.approve(item)
                case _:
                    state.reject(item, rejection_message=f"not {item.call_id}")
        result = await drive(scene.agent, state, streamed=order["streamed"])
        return {"final_output": result.final_output, "effects": scene.effects}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(go_on(json.loads(sys.stdin.read())))))
