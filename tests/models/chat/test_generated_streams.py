"""Answers cut into pieces by generated servers, each with its own habits: put together they are what was said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.models.openai_chat_response import ChatAssembly, as_response

SERVER = "llm.example"
NAMES = st.sampled_from(["pay", "look_up", "send_mail"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text('abé"\\{}[]: \n', max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab{", max_size=2), inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.text("abn", min_size=1, max_size=2), VALUES, min_size=1, max_size=3).map(json.dumps)


@dataclass(frozen=True)
class Habits:
    """How a server streams calls. Each is one that can be read without guessing."""

    numbers: bool
    """Every piece has the call's number."""
    ids: str
    """`none`, `first` or `every`."""
    names: str
    """`first` or `every`."""
    whole: bool
    """Each call comes in one piece."""
    again: bool
    """At the end of each call, the whole of it once more."""

    @property
    def mixes(self) -> bool:
        """Pieces of several calls may come mixed: each says whose it is."""
        return self.numbers or self.ids == "every"


HABITS = st.builds(
    Habits,
    numbers=st.booleans(),
    ids=st.sampled_from(["none", "first", "every"]),
    names=st.sampled_from(["first", "every"]),
    whole=st.booleans(),
    again=st.booleans(),
).filter(lambda habits: habits.numbers or habits.ids != "none" or habits.whole)


def cut(draw: Any, text: str, *, whole: bool) -> list[str]:
    if whole:
        return [text]
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def pieces(draw: Any, index: int, call: dict[str, Any], habits: Habits) -> list[dict[str, Any]]:
    name, text = call["function"]["name"], call["function"]["arguments"]
    texts = cut(draw, text, whole=habits.whole)
    if habits.again and (habits.numbers or habits.ids == "every"):
        texts.append(text)
    found = []
    for place, piece in enumerate(texts):
        is_first = place == 0
        delta: dict[str, Any] = {"function": {"arguments": piece}}
        if habits.numbers:
            delta["index"] = index
        if habits.ids == "every" or (habits.ids == "first" and is_first):
            delta |= {"id": call["id"], "type": "function"}
        if habits.names == "every" or is_first:
            delta["function"]["name"] = name
        found.append(delta)
    return found


def mixed(draw: Any, streams: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The pieces of all calls, each call's in its order; calls begin in their order."""
    found = [stream[0] for stream in streams]
    rest = [stream[1:] for stream in streams]
    while any(rest):
        chosen = draw(st.sampled_from([index for index, stream in enumerate(rest) if stream]))
        found.append(rest[chosen].pop(0))
    return found


@st.composite
def answers(draw: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A whole completion, and the same as the chunks of a stream."""
    habits = draw(HABITS)
    calls = []
    for index in range(draw(st.integers(0, 4))):
        call: dict[str, Any] = {"type": "function", "function": {"name": draw(NAMES), "arguments": draw(ARGUMENTS)}}
        if habits.ids != "none":
            call["id"] = f"call_{index}"
        calls.append(call)
    if not habits.numbers and habits.ids == "none":  # two alike, one after the other, could be one that is said twice
        calls = [call for index, call in enumerate(calls) if index == 0 or call != calls[index - 1]]
    text = draw(st.text("Hello é\n", max_size=8))
    thought = draw(st.text("Hm. ", max_size=5))
    streams = [pieces(draw, index, call, habits) for index, call in enumerate(calls)]
    deltas = [{"reasoning_content": piece} for piece in cut(draw, thought, whole=False)]
    deltas += [{"content": piece} for piece in cut(draw, text, whole=False)]
    ordered = mixed(draw, streams) if habits.mixes and streams else [piece for each in streams for piece in each]
    deltas += [{"tool_calls": [piece]} for piece in ordered]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    message = {"role": "assistant", "content": text, "reasoning_content": thought, "tool_calls": calls}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}, chunks


@given(answers())
@settings(max_examples=300, deadline=None, print_blob=True)
def test_streamed_by_any_server_the_answer_is_what_it_is_as_a_whole(answer: Any) -> None:
    whole, chunks = answer
    assembly = ChatAssembly()
    for chunk in chunks:
        assembly.add(chunk)

    assert as_response(assembly.whole(), SERVER).output == as_response(whole, SERVER).output
