"""Answers of Anthropic's API with all that it may say: what must become of each, whole and streamed alike."""

from __future__ import annotations

import msgspec
import pytest

from placet import ProviderError
from placet.facts.items import ModelResponse
from placet.models.anthropic_messages_response import MessageAssembly, as_message, as_response
from tests.models.odd.shapes import Shape, shapes

MARK = "0123456789"


def read(shape: Shape) -> ModelResponse:
    if shape.stream is None:
        return as_response(as_message(shape.told["body"]), MARK)
    assembly = MessageAssembly()
    for event in shape.stream:
        assembly.add(event)
    return as_response(as_message(assembly.whole()), MARK)


@pytest.mark.parametrize("shape", [each for each in shapes("anthropic") if "items" in each.told], ids=str)
def test_an_odd_answer_becomes_the_items_that_it_means(shape: Shape) -> None:
    response = read(shape)

    assert response.output == shape.items(MARK=MARK)
    assert shape.told.get("incomplete", "") in (response.incomplete or "")
    assert (response.incomplete is None) == ("incomplete" not in shape.told)
    usage = msgspec.structs.asdict(response.usage)
    assert {name: usage[name] for name in shape.told.get("usage", {})} == shape.told.get("usage", {})


@pytest.mark.parametrize("shape", [each for each in shapes("anthropic") if "error" in each.told], ids=str)
def test_an_answer_that_is_none_is_an_error_that_says_what_is_wrong(shape: Shape) -> None:
    with pytest.raises(ProviderError) as caught:
        read(shape)

    assert shape.told["error"] in str(caught.value)
