"""The recorded odd answers again, on their whole way: real HTTP, the official clients, the adapters."""

from __future__ import annotations

from typing import Any

import pytest

from placet import ModelRequest, ProviderError, ToolSpec
from placet.models.anthropic_messages import asked_of
from placet.testing.provider import raw
from tests.models.odd.shapes import Shape, shapes
from tests.models.wire import wired

REQUEST = ModelRequest(
    [{"role": "user", "content": "Pay!"}], tools=[ToolSpec("pay", "Pay.", {"type": "object"}, False)]
)
CASES = [pytest.param(api, shape, id=f"{api}-{shape}") for api in ("chat", "anthropic") for shape in shapes(api)]


def places(api: str) -> dict[str, str]:
    return {"SERVER": "127.0.0.1"} if api == "chat" else {"MARK": asked_of("claude-opus-5", REQUEST).mark}


@pytest.mark.parametrize(("api", "shape"), CASES)
async def test_an_odd_answer_over_http_becomes_the_items_that_it_means_or_an_error_in_words(
    api: str, shape: Shape
) -> None:
    body: Any = shape.stream if shape.stream is not None else shape.told["body"]
    async with wired(api) as wire:
        wire.provider.add(raw(body))
        if "error" in shape.told:
            with pytest.raises(ProviderError) as caught:
                await wire.ask(REQUEST, streamed=shape.stream is not None)

            assert shape.told["error"] in str(caught.value)
            return
        response = await wire.ask(REQUEST, streamed=shape.stream is not None)

    assert response.output == shape.items(**places(api))
    assert shape.told.get("incomplete", "") in (response.incomplete or "")
    assert response.request_id is not None
