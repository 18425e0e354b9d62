"""A process is killed between a request and its answer: whoever goes on delivers everything once, and loses nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from placet import RunConfig, RunConflict, RunContextWrapper, RunState
from placet.stores.opening import open_store
from placet.testing import function_call
from placet.testing.provider import FakeProvider, Gate, held
from tests.models.runs.scenes import AT_ONCE, DONE, drive, model_at, shop

LOOK_UP = [function_call("look_up", {"order": "8"}, call_id="c1")]


@pytest.mark.promise("P1", "P2")
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("at", [0, 1], ids=["first request", "later request"])
@pytest.mark.parametrize("way", ["own", "auto", "conversation"])
async def test_a_process_that_dies_while_the_model_answers(way: str, at: int, streamed: bool, tmp_path: Path) -> None:
    gate = Gate()
    answers: list[Any] = [LOOK_UP, DONE]
    answers[at] = held(answers[at], gate)
    if way != "conversation":  # the lost answer is an abandoned branch: the model is asked once more
        answers.insert(at + 1, [LOOK_UP, DONE][at])
    provider = FakeProvider(answers)
    url_of_store = f"sqlite:///{tmp_path / 'runs.db'}"
    async with provider.serve() as url:
        model, client = model_at("responses", url)
        async with client, open_store(url_of_store, lease_ttl=2) as store:
            agent = shop(model).agent
            state = _new_state(agent, way, provider)
            order = {"url": url, "store": url_of_store, "streamed": streamed, "text": state.to_string()}
            await _killed_at(gate, order)
            result = await _as_soon_as_it_may(agent, state, streamed=streamed, store=store)

    assert result.final_output == "It is done."
    assert provider.refusals == []
    provider.assert_complete()
    if way == "conversation":
        kinds = [item["type"] for item in provider.conversation_items(str(state._run.server_id))]
        assert kinds == ["message", "function_call", "function_call_output", "message"]


def _new_state(agent: Any, way: str, provider: FakeProvider) -> RunState[Any]:
    options: dict[str, Any] = {"auto_previous_response_id": True} if way == "auto" else {}
    if way == "conversation":
        options = {"conversation_id": provider.create_conversation()}
    return RunState(RunContextWrapper(None), "hello", agent, **options)


async def _killed_at(gate: Gate, order: dict[str, Any]) -> None:
    """Another process drives the run; when the provider has its request and holds the answer back, it is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.models.runs.doomed", stdin=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        await asyncio.wait_for(gate.reached(), 120)
    finally:
        process.kill()
        await process.wait()
        gate.open()


async def _as_soon_as_it_may(agent: Any, state: RunState[Any], *, streamed: bool, store: Any) -> Any:
    """The dead process' right to drive the run has to run out first."""
    async with asyncio.timeout(120):
        while True:
            try:
                config = RunConfig(retry=AT_ONCE)
                return await drive(agent, state, streamed=streamed, store=store, run_config=config)
            except RunConflict:
                await asyncio.sleep(0.2)
