"""Clients that are led to the card: an elicitation in URL mode says where to go, and its answer decides nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.types import ElicitResult

from tests.gate.mcp.scenes import Scene, client_of, handle_of, text_of

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
REFUND = {"order_id": "7", "cents": 4200}
INBOX = "https://desk.example.com"


class Browser:
    """A client that opens links."""

    def __init__(self, action: Any) -> None:
        self.opened: list[Any] = []
        self.went = asyncio.Event()
        self._action = action

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        self.opened.append(params)
        self.went.set()
        return ElicitResult(action=self._action)


@ERAS
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_whatever_the_client_answers_to_the_link_the_call_waits_for_the_person(
    at: Scene, mode: str, action: Any
) -> None:
    browser = Browser(action)
    async with (
        at.gateway({"shop": at.shop_here()}, wait=["url", "handle"], inbox=INBOX) as gateway,
        client_of(gateway, mode, elicitation_callback=browser) as client,
    ):
        told = await client.call_tool("refund", REFUND)
        [request] = await at.waiting()
        before = at.effects
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    [link] = browser.opened
    assert link.mode == "url"
    assert link.url == f"{INBOX}/inbox?open={request.id}"
    assert "A person is asked" in text_of(told)
    assert before == []
    assert text_of(done) == "refunded 7"
    assert at.effects == ["refund 7 4200"]


@ERAS
async def test_a_client_that_went_to_the_card_and_hears_of_progress_waits_there(at: Scene, mode: str) -> None:
    browser = Browser("accept")

    async def hear(*_: object) -> None: ...

    async with (
        at.gateway({"shop": at.shop_here()}, wait=["url", "open"], inbox=INBOX) as gateway,
        client_of(gateway, mode, elicitation_callback=browser) as client,
    ):
        call = asyncio.create_task(client.call_tool("refund", REFUND, progress_callback=hear))
        await browser.went.wait()
        [request] = await at.waiting()
        await at.decide()
        done = await call

    assert browser.opened[0].url.endswith(request.id)
    assert text_of(done) == "refunded 7"


async def test_a_client_is_led_to_the_card_and_then_asked_what_the_server_asks(at: Scene) -> None:
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.mode)
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={"street": "Main", "number": 3, "gift": False})

    async with (
        at.gateway({"shop": at.shop_here(protocol="legacy")}, wait=["url", "handle"], inbox=INBOX) as gateway,
        client_of(gateway, "auto", elicitation_callback=answer) as client,
    ):
        told = await client.call_tool("ship", {"order_id": "7"})
        await at.decide()
        done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert asked == ["url", "form"]
    assert text_of(done) == "order 7 goes to Main 3"


async def test_a_state_is_a_name_and_fits_its_own_tool_only(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway, "auto") as client:
        told = await client.call_tool("refund", REFUND)
        state = f"placet:{handle_of(told)}"
        found = []
        for tool, given in (("delete_order", state), ("refund", "placet:call_nowhere_0"), ("refund", "placet:")):
            answer = client.session.call_tool(tool, {"order_id": "7"}, request_state=given, input_responses={})
            [error] = await asyncio.gather(answer, return_exceptions=True)
            found.append(str(error))
        waiting = await at.desk.pending()

    assert "another tool" in found[0]
    assert all("no such call" in each for each in found[1:])
    assert len(waiting) == 1
    assert at.effects == []
