"""Answers of the many servers that speak Chat Completions, as they were seen: what must become of each."""

from __future__ import annotations

import msgspec
import pytest

from placet import ProviderError
from placet.facts.items import ModelResponse
from placet.models.openai_chat_response import ChatAssembly, as_response
from tests.models.odd.shapes import Shape, shapes

SERVER = "llm.example"


def read(shape: Shape) -> ModelResponse:
    if shape.stream is None:
        return as_response(shape.told["body"], SERVER)
    assembly = ChatAssembly()
    for chunk in shape.stream:
        assembly.add(chunk)
    return as_response(assembly.whole(), SERVER)


@pytest.mark.parametrize("shape", [each for each in shapes("chat") if "items" in each.told], ids=str)
def test_an_odd_answer_becomes_the_items_that_it_means(shape: Shape) -> None:
    response = read(shape)

    assert response.output == shape.items(SERVER=SERVER)
    assert shape.told.get("incomplete", "") in (response.incomplete or "")
    assert (response.incomplete is None) == ("incomplete" not in shape.told)
    usage = msgspec.structs.asdict(response.usage)
    assert {name: usage[name] for name in shape.told.get("usage", {})} == shape.told.get("usage", {})


@pytest.mark.parametrize("shape", [each for each in shapes("chat") if "error" in each.told], ids=str)
def test_an_answer_that_is_none_is_an_error_that_says_what_is_wrong(shape: Shape) -> None:
    with pytest.raises(ProviderError) as caught:
        read(shape)

    assert shape.told["error"] in str(caught.value)


def test_usage_is_read_with_its_details() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}

    response = as_response({"id": "chatcmpl-1", "choices": [choice], "usage": usage}, SERVER, "req_1")

    assert msgspec.structs.astuple(response.usage) == (1, 10, 5, 15, 4, 2, 3)
    assert (response.response_id, response.request_id) == ("chatcmpl-1", "req_1")


@pytest.mark.parametrize("usage", [None, "many", {"prompt_tokens": "ten"}, {}])
def test_usage_that_a_server_leaves_out_counts_the_request_all_the_same(usage: object) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}

    response = as_response({"choices": [choice], "usage": usage}, SERVER)

    assert msgspec.structs.astuple(response.usage) == (1, 0, 0, 0, 0, 0, 0)


def test_how_likely_each_word_was_stays_with_the_text_streamed_or_not() -> None:
    one, two = {"token": "Hel", "logprob": -0.1}, {"token": "lo", "logprob": -0.2}
    whole = {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop", "logprobs": {"content": [one, two]}}
    assembly = ChatAssembly()
    for word, likely in (("Hel", one), ("lo", two)):
        assembly.add({"choices": [{"index": 0, "delta": {"content": word}, "logprobs": {"content": [likely]}}]})
    assembly.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]})

    plain = as_response({"choices": [whole]}, SERVER).output
    streamed = as_response(assembly.whole(), SERVER).output

    assert plain == streamed
    assert plain[0]["content"][0]["logprobs"] == [one, two]
