"""The report: of three calls in one response (gated, free, gated) the free one's output was dropped after a pause.

Whatever happens between the pause and the next request, that request carries exactly the three outputs.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.responses import ResponseFunctionToolCall
from openai.types.responses.response_input_item import FunctionCallOutput

from placet import (
    ModelResponse,
    OpenAIServerConversationTracker,
    RequestNotTaken,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from tests.promises.scenes import AUTO, CHAINED, CONVERSATION, DONE, drive, item_of, outputs, reloaded, scene
from tests.reports.another_process import THREE_CALLS

pytestmark = pytest.mark.promise("P1", "P2")

ROOT = Path(__file__).resolve().parents[2]
REJECTED = [("c1", "not c1"), ("d1", "disk is full"), ("c2", "not c2")]
APPROVED = [("c1", "cleaned /a"), ("d1", "disk is full"), ("c2", "cleaned /b")]
OUTPUTS = {"reject": REJECTED, "approve": APPROVED}
MODES = {"chained": CHAINED, "conversation": CONVERSATION, "auto": AUTO}


def decide(state: Any, label: str, word: str) -> None:
    item = item_of(state, label)
    state.approve(item) if word == "approve" else state.reject(item, rejection_message=f"not {label}")


# -- in this process, every combination --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("word", OUTPUTS)
@pytest.mark.parametrize("passes", [1, 2], ids=["one pass", "two passes"])
@pytest.mark.parametrize("failure", ["none", "refused", "lost"])
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_the_next_request_carries_exactly_the_three_outputs(mode, word, passes, failure, streamed):
    errors = {"none": [], "refused": [RequestNotTaken("busy")], "lost": [ConnectionError("gone")]}[failure]
    ops = scene(THREE_CALLS, *errors, DONE)
    result = await drive(ops.agent, "clean up", streamed=streamed, **mode)
    waiting = [item.call_id for item in result.interruptions]

    for labels in [waiting] if passes == 1 else [waiting[1:], waiting[:1]]:
        state = await reloaded(ops.agent, result)
        for label in labels:
            decide(state, label, word)
        try:
            result = await drive(ops.agent, state, streamed=streamed)
        except (RequestNotTaken, ConnectionError) as error:
            result = await drive(ops.agent, await reloaded(ops.agent, error.state), streamed=streamed)

    assert waiting == ["c1", "c2"]
    assert result.final_output == "done"
    for request in ops.model.calls[1:]:
        assert outputs(request.input) == OUTPUTS[word]
        assert len(request.input) == 3
        assert (request.previous_response_id, request.conversation_id) == (
            (None, "conv_1") if mode is CONVERSATION else ("resp_1", None)
        )
    assert len(ops.model.calls) == 2 + len(errors)
    assert ops.effects.count("diagnose") == 1
    assert len(ops.effects) == (3 if word == "approve" else 1)


# -- in another process ------------------------------------------------------------------------------------------------


async def in_another_process(order: dict[str, Any]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.reports.another_process",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(json.dumps(order).encode()), 120)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def paused_text(mode: dict[str, Any], *, streamed: bool = False) -> str:
    ops = scene(THREE_CALLS)
    return (await drive(ops.agent, "clean up", streamed=streamed, **mode)).to_state().to_string()


@pytest.mark.parametrize(
    ("mode", "word", "streamed", "fails_once"),
    [(CHAINED, "reject", False, False), (CONVERSATION, "approve", True, False), (CHAINED, "approve", False, True)],
    ids=["rejected", "approved, streamed, in a conversation", "approved, the request fails once"],
)
async def test_a_string_that_goes_into_another_process_loses_no_output(mode, word, streamed, fails_once):
    text = await paused_text(mode, streamed=streamed)

    done = await in_another_process(
        {"text": text, "decisions": {"c1": word, "c2": word}, "streamed": streamed, "fails_once": fails_once}
    )

    assert done["final_output"] == "done"
    assert [outputs(request) for request, _, _ in done["requests"]] == [OUTPUTS[word]] * (1 + fails_once)
    assert done["requests"][0][1:] == ([None, "conv_1"] if mode is CONVERSATION else ["resp_1", None])
    assert "diagnose" not in done["effects"]


async def test_two_passes_in_two_other_processes_lose_no_output():
    first = await in_another_process({"text": await paused_text(CHAINED), "decisions": {"c2": "reject"}})

    second = await in_another_process({"text": first["text"], "decisions": {"c1": "reject"}})

    assert first["requests"] == []
    assert [outputs(request) for request, _, _ in second["requests"]] == [REJECTED]
    assert first["effects"] == second["effects"] == []


# -- the tracker, directly ---------------------------------------------------------------------------------------------


def as_dicts(calls: list[Any]) -> list[Any]:
    return copy.deepcopy(calls)


def as_objects(calls: list[Any]) -> list[Any]:
    return [ResponseFunctionToolCall.model_validate(call) for call in calls]


def output_dict(label: str, text: str) -> Any:
    return {"type": "function_call_output", "call_id": label, "output": text}


def output_object(label: str, text: str) -> Any:
    return FunctionCallOutput(**output_dict(label, text))  # a TypedDict: what the client library takes


SHAPES = {"dicts": (as_dicts, output_dict), "openai objects": (as_objects, output_object)}


def interrupted_turn(shape: str) -> tuple[list[Any], list[Any]]:
    """The generated items of the pause, and the responses, for an agent that is nothing but an object with a name."""
    agent = SimpleNamespace(name="ops")
    calls, output = SHAPES[shape]
    first, free, second = calls(THREE_CALLS)
    items = [
        ToolCallItem(agent, first),
        ToolCallItem(agent, free),
        ToolCallItem(agent, second),
        ToolApprovalItem(agent, first),
        ToolApprovalItem(agent, second),
        ToolCallOutputItem(agent, output("d1", "disk is full"), "disk is full"),
    ]
    return items, [ModelResponse(output=[first, free, second], response_id="resp_1")]


def decided(shape: str, items: list[Any], word: str, labels: tuple[str, ...] = ("c1", "c2")) -> list[Any]:
    agent = SimpleNamespace(name="ops")
    texts = dict(OUTPUTS[word])
    return [*items, *(ToolCallOutputItem(agent, SHAPES[shape][1](label, texts[label])) for label in labels)]


def hydrated(mode: dict[str, Any], items: list[Any], responses: list[Any], **more: Any) -> Any:
    tracker = OpenAIServerConversationTracker(**mode)
    tracker.hydrate_from_state(original_input="clean up", generated_items=items, model_responses=responses, **more)
    return tracker


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("word", OUTPUTS)
def test_a_tracker_hydrated_from_the_interrupted_turn_prepares_all_three_outputs(mode, shape, word):
    items, responses = interrupted_turn(shape)
    tracker = hydrated(mode, items, responses)

    prepared = tracker.prepare_input("clean up", decided(shape, items, word))

    assert sorted(outputs(prepared)) == sorted(OUTPUTS[word])
    assert len(prepared) == 3
    assert tracker.server_tool_call_ids == set()


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_on_a_tracker_a_failed_request_is_rewound_and_an_answered_one_is_not_sent_again(shape, mode):
    items, responses = interrupted_turn(shape)
    tracker = hydrated(mode, items, responses)
    items = decided(shape, items, "reject")

    failed = tracker.prepare_input("clean up", items)
    tracker.mark_input_as_sent(failed)
    in_between = tracker.prepare_input("clean up", items)
    tracker.rewind_input(failed)
    again = tracker.prepare_input("clean up", items)
    tracker.mark_input_as_sent(again)
    tracker.track_server_items(ModelResponse(output=list(DONE), response_id="resp_2"))

    assert in_between == []
    assert sorted(outputs(again)) == sorted(REJECTED)
    assert tracker.prepare_input("clean up", items) == []
    assert tracker.server_tool_call_ids == {"c1", "c2", "d1"}
    assert tracker.previous_response_id == (None if mode is CONVERSATION else "resp_2")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tracker_that_was_hydrated_again_between_two_passes_prepares_all_three(shape):
    items, responses = interrupted_turn(shape)
    halfway = decided(shape, items, "reject", ("c2",))
    hydrated(CHAINED, items, responses).prepare_input("clean up", halfway)

    prepared = hydrated(CHAINED, halfway, responses).prepare_input(
        "clean up", decided(shape, halfway, "reject", ("c1",))
    )

    assert sorted(outputs(prepared)) == sorted(REJECTED)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_tracker_is_told_to_be_unsent_is_prepared_whatever_it_would_infer(shape):
    items, responses = interrupted_turn(shape)
    later = ModelResponse(output=list(DONE), response_id="resp_2")  # it would mean that the outputs were delivered
    items = decided(shape, items, "reject")

    inferred = hydrated(CHAINED, items, [*responses, later]).prepare_input("clean up", items)
    told = hydrated(CHAINED, items, [*responses, later], unsent_tool_call_ids=["d1"]).prepare_input("clean up", items)

    assert outputs(inferred) == []
    assert outputs(told) == [("d1", "disk is full")]
