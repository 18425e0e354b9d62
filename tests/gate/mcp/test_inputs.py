"""What a server asks in the middle of a call: it reaches whoever waits, in the words of their protocol, or the desk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.types import ElicitResult

from tests.gate.mcp.scenes import Scene, client_of, handle_of, text_of, until

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
SERVERS = pytest.mark.parametrize("protocol", ["legacy", "modern"])
MAIN_STREET = {"street": "Main", "number": 3, "gift": False}


class Person:
    """Answers forms at the client."""

    def __init__(self, action: Any = "accept", content: dict[str, Any] | None = None) -> None:
        self.asked: list[Any] = []
        self._result = ElicitResult(action=action, content=content or (MAIN_STREET if action == "accept" else None))

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return self._result


@ERAS
@SERVERS
@pytest.mark.parametrize("way", ["open", "handle"])
@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_a_servers_question_reaches_the_client_that_waits(
    at: Scene, mode: str, protocol: Any, way: str, action: Any
) -> None:
    person = Person(action)
    async with (
        at.gateway({"shop": at.shop_here(protocol=protocol)}, wait=[way]) as gateway,
        client_of(gateway, mode, elicitation_callback=person) as client,
    ):
        call = asyncio.create_task(client.call_tool("ship", {"order_id": "7"}))
        if way == "handle":
            told = await call
            await at.decide()
            done = await client.call_tool("placet_check", {"handle": handle_of(told)})
        else:
            await at.decide()
            done = await call

    assert len(person.asked) == 1
    assert person.asked[0].message == "Where should order 7 go?"
    if action == "accept":
        assert text_of(done) == "order 7 goes to Main 3"
        assert at.effects == ["ship 7 Main 3"]
    else:
        assert at.effects == ["not shipped 7 decline"]


@ERAS
@SERVERS
async def test_a_call_about_which_nobody_is_asked_may_ask_too(at: Scene, mode: str, protocol: Any) -> None:
    person = Person()
    server = at.shop_here(protocol=protocol, require_approval="never")
    async with at.gateway({"shop": server}) as gateway:
        await at.pin(gateway)
        async with client_of(gateway, mode, elicitation_callback=person) as client:
            done = await client.call_tool("ship", {"order_id": "7"})

    assert text_of(done) == "order 7 goes to Main 3"
    assert await at.desk.pending() == []


@SERVERS
async def test_several_questions_one_after_the_other_are_one_call(at: Scene, protocol: Any) -> None:
    async def answer(_context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"sure": True} if "Really" in params.message else MAIN_STREET)

    async with (
        at.gateway({"shop": at.shop_here(protocol=protocol)}, wait=["open"]) as gateway,
        client_of(gateway, "auto", elicitation_callback=answer) as client,
    ):
        call = asyncio.create_task(client.call_tool("ship_carefully", {"order_id": "7"}))
        await at.decide()
        done = await call

    assert text_of(done) == "order 7: Main, sent"
    assert at.effects == ["ship 7 Main True"]


@ERAS
@SERVERS
async def test_a_client_that_cannot_be_asked_is_not_and_the_server_learns_it(
    at: Scene, mode: str, protocol: Any
) -> None:
    async with (
        at.gateway({"shop": at.shop_here(protocol=protocol)}, wait=["open"]) as gateway,
        client_of(gateway, mode) as client,
    ):
        call = asyncio.create_task(client.session.call_tool("ship", {"order_id": "7"}))
        await at.decide()
        [done] = await asyncio.gather(call, return_exceptions=True)

    assert isinstance(done, Exception) or done.is_error
    assert at.effects == []


async def test_a_question_waits_for_the_client_that_comes_back(at: Scene) -> None:
    """The connection on which the call was made is gone when the server asks."""
    person = Person()
    async with at.gateway({"shop": at.shop_here(protocol="modern")}, wait=["handle"]) as gateway:
        async with client_of(gateway, "auto", elicitation_callback=person) as client:
            told = await client.call_tool("ship", {"order_id": "7"})
        await at.decide()
        [calls] = gateway._guests.values()
        await until(lambda: any(each.inputs.open for each in calls.remembered()))
        async with client_of(gateway, "legacy", elicitation_callback=person) as client:
            done = await client.call_tool("placet_check", {"handle": handle_of(told)})

    assert len(person.asked) == 1
    assert text_of(done) == "order 7 goes to Main 3"


# -- at the desk ------------------------------------------------------------------------------------------------------


@ERAS
@SERVERS
async def test_the_desk_answers_where_the_configuration_says_so(at: Scene, mode: str, protocol: Any) -> None:
    server = at.shop_here(protocol=protocol, elicitation="desk")
    async with at.gateway({"shop": server}, wait=["open"]) as gateway, client_of(gateway, mode) as client:
        call = asyncio.create_task(client.call_tool("ship", {"order_id": "7"}))
        await at.decide()
        [form] = await at.waiting()
        await at.decide("respond", output='{"street": ""}')  # it does not fit: asked anew
        await until_other(at, form.id)
        await at.decide("respond", output='{"street": "Main", "number": 3}')
        done = await call

    assert form.tool == "shop/asks"
    assert form.arguments["message"] == "Where should order 7 go?"
    assert text_of(done) == "order 7 goes to Main 3"
    assert at.effects == ["ship 7 Main 3"]


@pytest.mark.parametrize(("verdict", "action"), [("reject", "decline"), ("approve", "cancel")])
async def test_at_the_desk_a_rejection_declines_and_an_approval_is_no_answer(
    at: Scene, verdict: str, action: str
) -> None:
    server = at.shop_here(protocol="modern", elicitation="desk")
    async with at.gateway({"shop": server}, wait=["open"]) as gateway, client_of(gateway, "auto") as client:
        call = asyncio.create_task(client.call_tool("ship", {"order_id": "7"}))
        await at.decide()
        await at.waiting()
        await at.decide(verdict)
        await call

    assert at.effects == [f"not shipped 7 {action}"]


async def until_other(at: Scene, request: str) -> None:
    async with asyncio.timeout(60):
        while [each.id for each in await at.desk.pending()] in ([], [request]):  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.02)
