"""The reference itself: the strict provider complains of what a provider would refuse, and of nothing else."""

from typing import Any

import pytest

from placet import ModelRequest
from tests.generated.provider import CONVERSATION, INPUT, Refused, StrictProvider
from tests.generated.script import CallPlan, Delivery, Script, Turn

CALLS = (CallPlan("free", 0, label="a"), CallPlan("free", 1, label="b"))


def output(label: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": label, "output": f"output {label}"}


def script(delivery: Delivery) -> Script:
    return Script((Turn(CALLS), Turn()), delivery)


def request(delivery: Delivery, items: list[Any], previous: str | None = None) -> ModelRequest:
    conversation = CONVERSATION if delivery == "conversation" else None
    return ModelRequest(input=items, previous_response_id=previous, conversation_id=conversation)


async def asked_once(delivery: Delivery) -> StrictProvider:
    """A provider that has asked for two calls."""
    provider = StrictProvider(script(delivery))
    await provider.get_response(request(delivery, [INPUT], "resp_before" if delivery == "chained" else None))
    return provider


SERVER_SIDE: tuple[Delivery, ...] = ("chained", "auto", "conversation")
BAD = {
    "a missing output": [output("a")],
    "an output twice": [output("a"), output("b"), output("b")],
    "an output without a call": [output("a"), output("b"), output("c")],
    "outputs in another order": [output("b"), output("a")],
    "the input again": [INPUT, output("a"), output("b")],
    "nothing": [],
}


@pytest.mark.parametrize("delivery", SERVER_SIDE)
async def test_exactly_the_outputs_are_taken_where_the_server_keeps_the_history(delivery: Delivery) -> None:
    provider = await asked_once(delivery)
    previous = None if delivery == "conversation" else "resp_1"
    await provider.get_response(request(delivery, [output("a"), output("b")], previous))

    assert provider.complaints == []
    assert provider.carried == [["output a", "output b"]]


@pytest.mark.parametrize("delivery", SERVER_SIDE)
@pytest.mark.parametrize("items", BAD.values(), ids=BAD)
async def test_anything_else_is_refused_where_the_server_keeps_the_history(delivery: Delivery, items: Any) -> None:
    provider = await asked_once(delivery)
    previous = None if delivery == "conversation" else "resp_1"

    with pytest.raises(Refused):
        await provider.get_response(request(delivery, items, previous))
    assert len(provider.complaints) == 1


async def test_the_whole_history_is_taken_where_the_client_keeps_it() -> None:
    provider = await asked_once("own")
    history = [INPUT, *(call.item() for call in CALLS)]
    await provider.get_response(request("own", [*history, output("a"), output("b")]))

    assert provider.complaints == []


@pytest.mark.parametrize("items", BAD.values(), ids=BAD)
async def test_anything_else_is_refused_where_the_client_keeps_the_history(items: Any) -> None:
    provider = await asked_once("own")
    history = [INPUT, *(call.item() for call in CALLS)]

    with pytest.raises(Refused):
        await provider.get_response(request("own", [*history, *items]))


async def test_a_history_that_was_changed_is_refused() -> None:
    provider = await asked_once("own")
    history = [{**INPUT, "content": "Start."}, *(call.item() for call in CALLS)]

    with pytest.raises(Refused):
        await provider.get_response(request("own", [*history, output("a"), output("b")]))


async def test_a_chain_that_goes_on_from_another_response_is_refused() -> None:
    provider = await asked_once("chained")

    with pytest.raises(Refused):
        await provider.get_response(request("chained", [output("a"), output("b")], "resp_before"))
