"""How clients wait: with a handle, with the call held open, as a task, at the card."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gate.mcp.scenes import PATIENCE, Scene, client_of, text_of, until

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
REFUND = {"order_id": "7", "cents": 4200}


@ERAS
async def test_a_client_that_hears_of_progress_waits_with_its_call_open(at: Scene, mode: str) -> None:
    heard: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with (
        at.gateway({"shop": at.shop_here()}, progress_every=0.01) as gateway,
        client_of(gateway, mode) as client,
    ):
        call = asyncio.create_task(client.call_tool("refund", REFUND, progress_callback=hear))
        await at.waiting()
        await until(lambda: len(heard) >= 2)
        await at.decide()
        done = await call

    assert text_of(done) == "refunded 7"
    assert at.effects == ["refund 7 4200"]
    assert "A person is asked" in str(heard[0])
    assert [number for number, _ in heard] == sorted({number for number, _ in heard})


async def test_a_client_that_cancels_before_the_claim_withdraws_its_question(at: Scene) -> None:
    async def hear(*_: object) -> None: ...

    async with at.gateway({"shop": at.shop_here()}) as gateway, client_of(gateway) as client:
        call = asyncio.create_task(client.call_tool("refund", REFUND, progress_callback=hear))
        await at.waiting()
        call.cancel()
        await at.nothing_waits()

    assert at.effects == []


async def test_a_client_that_goes_away_leaves_its_question(at: Scene) -> None:
    async def hear(*_: object) -> None: ...

    async with at.gateway({"shop": at.shop_here()}) as gateway:
        async with client_of(gateway) as client:
            call = asyncio.create_task(
                client.session._dispatcher.send_raw_request(  # a call that is not cancelled when its client goes
                    "tools/call",
                    {"name": "refund", "arguments": REFUND, "_meta": {"progressToken": 1}},
                    {"cancel_on_abandon": False},
                )
            )
            await at.waiting()
        await asyncio.gather(call, return_exceptions=True)
        waiting = await at.desk.pending()
        await at.decide()
        async with asyncio.timeout(PATIENCE), client_of(gateway) as again:
            while True:
                seen = text_of(await again.call_tool("placet_check", {}))
                if "finished" in seen:
                    break
                await asyncio.sleep(0.02)
            done = await again.call_tool("placet_check", {"handle": seen.split()[0]})

    assert len(waiting) == 1
    assert text_of(done) == "refunded 7"
    assert at.effects == ["refund 7 4200"]
