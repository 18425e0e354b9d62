"""Messages cut into events at generated places: put together they are what was said."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.models.anthropic_messages_response import MessageAssembly, as_response

TEXT = st.text('Hello é\n"{', min_size=1, max_size=8)
VALUES = st.none() | st.booleans() | st.integers(-999, 999) | st.floats(-9, 9) | TEXT | st.lists(TEXT, max_size=2)
INPUT = st.dictionaries(st.text("abn", min_size=1, max_size=2), VALUES, max_size=3)
CITATIONS = st.lists(st.fixed_dictionaries({"type": st.just("char_location"), "cited_text": TEXT}), max_size=2)
BLOCKS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT, "citations": CITATIONS}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXT, "signature": TEXT}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": TEXT}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": TEXT, "name": st.just("pay"), "input": INPUT}),
    st.fixed_dictionaries({"type": st.just("server_tool_use"), "id": TEXT, "name": st.just("s"), "input": INPUT}),
    st.fixed_dictionaries({"type": st.just("daydream"), "dream": TEXT, "depth": st.integers()}),
)


def cut(draw: Any, text: str) -> list[str]:
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def deltas(draw: Any, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            words = [{"type": "text_delta", "text": piece} for piece in cut(draw, block["text"])]
            cited = [{"type": "citations_delta", "citation": each} for each in block["citations"]]
            return {**block, "text": "", "citations": []}, [*cited, *words]
        case "thinking":
            words = [{"type": "thinking_delta", "thinking": piece} for piece in cut(draw, block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*words, signed]
        case "tool_use" | "server_tool_use":
            given_ = json.dumps(block["input"], separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])))
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in cut(draw, given_)
            ]
        case "daydream":
            return {**block, "dream": ""}, [
                {"type": "dream_delta", "dream": each} for each in cut(draw, block["dream"])
            ]
        case _:
            return block, []


@st.composite
def messages(draw: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A whole message, and the same as the events of a stream."""
    blocks = draw(st.lists(BLOCKS, max_size=5))
    usage = {"input_tokens": 5, "output_tokens": 7}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "usage": {"input_tokens": 5, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**head, "content": [], "stop_reason": None}}]
    for index, block in enumerate(blocks):
        start, added = deltas(draw, block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in added]
        events.append({"type": "content_block_stop", "index": index})
        if draw(st.booleans()):
            events.append({"type": draw(st.sampled_from(["ping", "weather_report"]))})
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]
    return {**head, "content": blocks, "stop_reason": "end_turn", "usage": usage}, events


@given(messages())
@settings(max_examples=200, deadline=None, print_blob=True)
def test_streamed_the_message_is_what_it_is_as_a_whole(message: Any) -> None:
    whole, events = message
    assembly = MessageAssembly()
    for event in events:
        assembly.add(event)

    assert as_response(assembly.whole(), "mark") == as_response(whole, "mark")
