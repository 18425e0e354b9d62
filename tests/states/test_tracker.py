from __future__ import annotations

import copy
import json
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_input_item import FunctionCallOutput

from placet.facts.errors import UserError
from placet.facts.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ModelResponse,
    ReasoningItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from placet.states.tracker import OpenAIServerConversationTracker as Tracker

Item = dict[str, Any]

AGENT = SimpleNamespace(name="ops")
HELLO = {"role": "user", "content": "hello"}


def call(label: str, *, arguments: str = "{}", **more: Any) -> Item:
    return {"type": "function_call", "call_id": label, "name": "tool", "arguments": arguments, **more}


def output(label: str, text: Any = "done", **more: Any) -> Item:
    return {"type": "function_call_output", "call_id": label, "output": text, **more}


def message(text: str, **more: Any) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def response(*items: Any, id: str | None = None) -> ModelResponse:
    return ModelResponse(output=list(items), response_id=id)


def as_run_item(raw: Item) -> Any:
    kinds = {"function_call": ToolCallItem, "function_call_output": ToolCallOutputItem, "reasoning": ReasoningItem}
    return kinds.get(raw["type"], MessageOutputItem)(AGENT, raw)


def run_items(*raws: Item) -> list[Any]:
    return [as_run_item(raw) for raw in raws]


def pending(raw: Item) -> ToolApprovalItem:
    return ToolApprovalItem(AGENT, raw)


def rebuilt(value: Any) -> Any:
    """As it comes out of a string in another process: equal, and not one object the same."""
    if isinstance(value, list):
        return [rebuilt(each) for each in value]
    if isinstance(value, ModelResponse):
        return ModelResponse(rebuilt(value.output), response_id=value.response_id)
    if isinstance(value, dict):
        return json.loads(json.dumps(value))
    return type(value)(SimpleNamespace(name=value.agent.name), rebuilt(value.raw_item))


def hydrated(
    generated: list[Any], responses: list[Any], original: Any = "hello", tracker: Tracker | None = None, **more: Any
) -> Tracker:
    tracker = tracker or Tracker(previous_response_id="resp_0")
    tracker.hydrate_from_state(original_input=original, generated_items=generated, model_responses=responses, **more)
    return tracker


def deliver(tracker: Tracker, original: Any, generated: list[Any], answer: Any) -> list[Item]:
    """One request that succeeds."""
    sent = tracker.prepare_input(original, generated)
    tracker.mark_input_as_sent(sent)
    tracker.track_server_items(answer)
    return sent


# The three calls of one response: gated, free, gated


THREE_CALLS = [call("c_1", arguments='{"path": "/a"}'), call("d_1"), call("c_2", arguments='{"path": "/b"}')]
INTERRUPTED = [
    *run_items(*THREE_CALLS),
    pending(THREE_CALLS[0]),
    pending(THREE_CALLS[2]),
    as_run_item(output("d_1", "disk is full")),
]
REJECTIONS = run_items(output("c_1", "not approved"), output("c_2", "not approved"))
THREE_OUTPUTS = [output("d_1", "disk is full"), output("c_1", "not approved"), output("c_2", "not approved")]

SERVER_MODES = [
    {"previous_response_id": "resp_0"},
    {"conversation_id": "conv_1"},
    {"auto_previous_response_id": True},
]
in_every_mode = pytest.mark.parametrize("mode", SERVER_MODES, ids=["chained", "conversation", "auto"])


def interrupted_tracker(mode: dict[str, Any]) -> Tracker:
    return hydrated(rebuilt(INTERRUPTED), [response(*THREE_CALLS, id="resp_1")], tracker=Tracker(**mode))


@in_every_mode
def test_after_a_pause_the_free_calls_output_goes_out_together_with_the_rejections(mode: dict[str, Any]) -> None:
    tracker = interrupted_tracker(mode)

    prepared = tracker.prepare_input("hello", rebuilt([*INTERRUPTED, *REJECTIONS]))

    assert prepared == THREE_OUTPUTS


@in_every_mode
def test_what_a_response_acknowledged_is_not_sent_again(mode: dict[str, Any]) -> None:
    tracker = interrupted_tracker(mode)
    items = [*INTERRUPTED, *REJECTIONS]
    deliver(tracker, "hello", items, response(message("as you wish", id="msg_1"), id="resp_2"))

    prepared = tracker.prepare_input("hello", rebuilt([*items, as_run_item(message("as you wish", id="msg_1"))]))

    assert prepared == []
    assert tracker.server_tool_call_ids == {"c_1", "d_1", "c_2"}


@in_every_mode
def test_a_request_that_failed_once_is_prepared_again_with_the_same_outputs(mode: dict[str, Any]) -> None:
    tracker = interrupted_tracker(mode)
    items = [*INTERRUPTED, *REJECTIONS]
    failed = tracker.prepare_input("hello", items)
    tracker.mark_input_as_sent(failed)
    tracker.rewind_input(rebuilt(failed))

    prepared = tracker.prepare_input("hello", items)

    assert prepared == failed == THREE_OUTPUTS


def test_what_was_rewound_may_be_marked_again_without_preparing_it_anew() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]
    sent = tracker.prepare_input("hello", items)
    tracker.mark_input_as_sent(sent)
    tracker.rewind_input(sent)
    tracker.mark_input_as_sent(sent)
    tracker.track_server_items(response(id="resp_2"))

    prepared = tracker.prepare_input("hello", items)

    assert prepared == []


def test_what_is_in_flight_is_neither_offered_again_nor_acknowledged() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]
    tracker.mark_input_as_sent(tracker.prepare_input("hello", items))

    prepared = tracker.prepare_input("hello", items)

    assert prepared == []
    assert tracker.server_tool_call_ids == set()


def test_only_the_rewound_part_of_a_request_is_unsent_again() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]
    tracker.mark_input_as_sent(tracker.prepare_input("hello", items))
    tracker.rewind_input([output("c_1", "not approved")])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("c_1", "not approved")]


def test_rewinding_what_was_acknowledged_changes_nothing() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]
    sent = deliver(tracker, "hello", items, response(id="resp_2"))
    tracker.rewind_input(sent)

    prepared = tracker.prepare_input("hello", items)

    assert prepared == []


def test_no_response_is_no_acknowledgement() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]
    sent = tracker.prepare_input("hello", items)
    tracker.mark_input_as_sent(sent)
    tracker.track_server_items(None)
    tracker.rewind_input(sent)

    prepared = tracker.prepare_input("hello", items)

    assert prepared == THREE_OUTPUTS


# Several pauses


@in_every_mode
@pytest.mark.parametrize("fresh_tracker", [True, False])
def test_after_two_pauses_request_two_carries_output_one_and_request_three_only_output_two(
    mode: dict[str, Any], fresh_tracker: bool
) -> None:
    first, second = response(call("a"), id="resp_1"), response(call("b"), id="resp_2")
    tracker = hydrated(rebuilt([as_run_item(call("a")), pending(call("a"))]), [first], tracker=Tracker(**mode))
    items = [as_run_item(call("a")), pending(call("a")), as_run_item(output("a", "one"))]
    request_2 = deliver(tracker, "hello", items, second)
    items += [as_run_item(call("b")), pending(call("b"))]
    tracker = hydrated(rebuilt(items), rebuilt([first, second]), tracker=Tracker(**mode) if fresh_tracker else tracker)

    request_3 = deliver(tracker, "hello", rebuilt([*items, as_run_item(output("b", "two"))]), response(message("bye")))

    assert request_2 == [output("a", "one")]
    assert request_3 == [output("b", "two")]


def test_hydrating_twice_is_hydrating_once() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    hydrated(rebuilt(INTERRUPTED), [response(*THREE_CALLS, id="resp_1")], tracker=tracker)

    prepared = tracker.prepare_input("hello", [*INTERRUPTED, *REJECTIONS])

    assert prepared == THREE_OUTPUTS
    assert tracker.previous_response_id == "resp_1"


def test_hydrating_again_from_an_older_snapshot_forgets_what_came_after_it() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]
    deliver(tracker, "hello", items, response(call("e"), id="resp_2"))
    hydrated(items, [response(*THREE_CALLS, id="resp_1")], tracker=tracker)

    prepared = tracker.prepare_input("hello", items)

    assert prepared == THREE_OUTPUTS
    assert tracker.previous_response_id == "resp_1"


# What hydration infers


def test_an_output_is_on_the_server_when_a_later_response_is_given() -> None:
    items = run_items(call("a"), output("a"), call("b"), output("b"))
    tracker = hydrated(items, [response(call("a")), response(call("b"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("b")]
    assert tracker.server_tool_call_ids == {"a"}


def test_an_output_that_only_later_lists_show_is_still_on_the_server() -> None:
    whole = run_items(call("a"), output("a"), call("b"), output("b"))
    tracker = hydrated(whole[2:], [response(call("a")), response(call("b"))])

    prepared = tracker.prepare_input("hello", whole)

    assert prepared == [output("b")]


def test_an_output_without_any_response_is_unsent_and_the_original_input_is_not() -> None:
    tracker = hydrated(run_items(output("a")), [])

    prepared = tracker.prepare_input("hello", run_items(output("a")))

    assert prepared == [output("a")]
    assert tracker.server_tool_call_ids == set()


def test_an_output_to_which_the_server_gave_an_id_is_on_the_server() -> None:
    items = run_items(call("a"), output("a", id="fco_1"), call("b"), output("b"))
    tracker = hydrated(items, [response(call("a"), call("b"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("b")]
    assert tracker.server_item_ids == {"fco_1"}


def test_a_call_that_is_named_as_unsent_is_unsent_whatever_else_is_told() -> None:
    items = run_items(call("a"), output("a"), call("b"), output("b", id="fco_2"), call("c"), output("c"))
    responses = [response(call("a")), response(call("b")), response(call("c")), response(message("bye"))]
    tracker = hydrated(items, responses, unsent_tool_call_ids={"a", "b"})

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("a"), output("b", id="fco_2")]
    assert tracker.server_tool_call_ids == {"c"}


def test_a_named_output_in_the_original_input_is_unsent_too() -> None:
    original = [HELLO, output("a")]
    tracker = hydrated([], [], original, unsent_tool_call_ids=["a"])

    prepared = tracker.prepare_input(original, [])

    assert prepared == [output("a")]


def test_what_was_named_as_unsent_is_sent_once() -> None:
    items = run_items(call("a"), output("a", id="fco_1"))
    tracker = hydrated(items, [response(call("a")), response(message("bye"))], unsent_tool_call_ids={"a"})
    sent = deliver(tracker, "hello", items, response(message("thanks")))

    prepared = tracker.prepare_input("hello", items)

    assert sent == [output("a", id="fco_1")]
    assert prepared == []
    assert tracker.server_tool_call_ids == {"a"}


def test_naming_a_repeated_label_as_unsent_does_not_send_its_older_output_again() -> None:
    items = run_items(call("a"), output("a", "old"), call("a"), output("a", "new"))
    tracker = hydrated(items, [response(call("a")), response(call("a"))], unsent_tool_call_ids={"a"})

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("a", "new")]


def test_an_item_that_nobody_vouches_for_is_unsent() -> None:
    note = {"role": "user", "content": "hurry"}
    items = [*run_items(call("a"), message("from nowhere"), output("a")), note]
    tracker = hydrated(items, [response(call("a"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [message("from nowhere"), output("a"), note]


def test_items_of_the_session_are_on_the_server_but_not_the_outputs_of_the_open_turn() -> None:
    note = {"role": "user", "content": "hurry"}
    items = [note, *run_items(call("z"), output("z"), call("a"), output("a"))]
    session = [HELLO, note, call("z"), output("z"), call("a"), output("a")]
    tracker = hydrated(items, [response(call("a"))], session_items=session)

    prepared = tracker.prepare_input("hello", [*items, note])

    assert prepared == [output("a"), note]


def test_responses_that_the_openai_package_parsed_are_understood_as_they_are() -> None:
    said = ResponseOutputMessage(
        id="msg_1",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text="one moment", annotations=[], logprobs=None)],
    )
    thought = ResponseReasoningItem(id="rs_1", type="reasoning", summary=[], encrypted_content=None)
    asked = ResponseFunctionToolCall(
        id="fc_1", type="function_call", call_id="a", name="tool", arguments="{}", status="completed"
    )
    parsed = Response.model_construct(id="resp_7", output=[thought, said, asked])
    answer = FunctionCallOutput(type="function_call_output", call_id="a", output="done")
    items = [
        ReasoningItem(AGENT, thought),
        MessageOutputItem(AGENT, said),
        ToolCallItem(AGENT, asked),
        ToolCallOutputItem(AGENT, answer),
    ]
    tracker = Tracker(auto_previous_response_id=True)
    deliver(tracker, "hello", [], parsed)

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("a")]
    assert tracker.server_item_ids == {"msg_1", "rs_1", "fc_1"}
    assert tracker.previous_response_id == "resp_7"


def test_what_a_response_brought_is_recognized_without_its_ids_and_nulls() -> None:
    said = ResponseOutputMessage(
        id="msg_1",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text="one moment", annotations=[], logprobs=None)],
    )
    stripped = said.model_dump(mode="json", exclude_none=True, exclude={"id", "status"})
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(said, call("a", id="fc_1")))

    prepared = tracker.prepare_input("hello", run_items(stripped, call("a"), output("a")))

    assert prepared == [output("a")]


@pytest.mark.parametrize("placeholder", ["", "__fake_id__", None])
def test_a_placeholder_is_no_servers_id(placeholder: str | None) -> None:
    items = run_items(message("from nowhere", id=placeholder), output("a", id=placeholder))
    tracker = hydrated(items, [response(call("a"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [message("from nowhere", id=placeholder), output("a", id=placeholder)]
    assert tracker.server_item_ids == set()


def test_what_a_response_brought_under_a_placeholder_is_not_sent_back() -> None:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(message("hi", id="__fake_id__"), call("a", id="__fake_id__")))

    prepared = tracker.prepare_input(
        "hello", run_items(message("hi", id="__fake_id__"), call("a", id="__fake_id__"), output("a"))
    )

    assert prepared == [output("a")]


def test_a_message_of_our_own_that_repeats_the_models_words_is_sent() -> None:
    items = [as_run_item(message("ok", id="msg_1")), message("ok")]
    live, resumed = Tracker(conversation_id="conv_1"), hydrated(items[:1], [response(message("ok", id="msg_1"))])
    deliver(live, "hello", [], response(message("ok", id="msg_1")))

    assert live.prepare_input("hello", items) == [message("ok")]
    assert resumed.prepare_input("hello", items) == [message("ok")]


def test_a_generated_item_with_a_servers_id_is_never_sent_even_if_no_response_was_told() -> None:
    tracker = Tracker(conversation_id="conv_1")

    prepared = tracker.prepare_input("hello", run_items(message("hi", id="msg_1"), call("a", id="fc_1"), output("a")))

    assert prepared == [HELLO, output("a")]


def test_hydration_notes_the_ids_of_all_that_the_server_holds() -> None:
    original = [HELLO, message("hi", id="msg_1")]
    items = run_items(message("from an earlier run", id="msg_2"), call("a", id="fc_1"))
    tracker = hydrated(items, [response(call("a", id="fc_1"), message("well", id="msg_3"))], original)

    assert tracker.server_item_ids == {"msg_1", "msg_2", "msg_3", "fc_1"}


def test_a_pending_approval_is_never_sent() -> None:
    tracker = Tracker(conversation_id="conv_1")

    prepared = tracker.prepare_input("hello", [pending(call("a")), ToolApprovalItem(AGENT, call("b", id="fc_2"))])

    assert prepared == [HELLO]


def test_a_list_without_the_models_calls_and_messages_is_enough() -> None:
    items = [pending(call("a")), *run_items(output("b"))]
    tracker = hydrated(items, [response(message("hm"), call("a"), call("b"))])

    prepared = tracker.prepare_input("hello", [*items, output("a")])

    assert prepared == [output("b"), output("a")]


# Labels that a provider repeats


def test_a_label_that_a_later_response_repeats_is_unsent_again_after_hydration() -> None:
    items = run_items(call("x"), output("x", "first"), call("x"), output("x", "second"))
    tracker = hydrated(items, [response(call("x")), response(call("x"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("x", "second")]
    assert tracker.server_tool_call_ids == set()


def test_a_label_that_a_later_response_repeats_is_unsent_again_while_driving() -> None:
    tracker = Tracker(auto_previous_response_id=True)
    deliver(tracker, "hello", [], response(call("x"), id="resp_1"))
    items = run_items(call("x"), output("x", "same"))
    first = deliver(tracker, "hello", items, response(call("x"), id="resp_2"))
    after_first = set(tracker.server_tool_call_ids)
    before_second = tracker.prepare_input("hello", items)
    items += run_items(call("x"), output("x", "same"))
    second = deliver(tracker, "hello", items, response(message("bye"), id="resp_3"))

    assert first == second == [output("x", "same")]
    assert before_second == []
    assert after_first == set()
    assert tracker.server_tool_call_ids == {"x"}


def test_a_label_that_was_answered_before_hydration_is_unsent_again_when_it_is_called_again() -> None:
    items = run_items(call("x"), output("x", "same"), call("y"), output("y"))
    tracker = hydrated(items, [response(call("x")), response(call("y"))])
    deliver(tracker, "hello", items, response(call("x")))
    after_call = set(tracker.server_tool_call_ids)

    prepared = tracker.prepare_input("hello", [*items, *run_items(call("x"), output("x", "same"))])

    assert prepared == [output("x", "same")]
    assert after_call == {"y"}


def test_a_repeated_label_whose_second_call_still_waits_sends_nothing() -> None:
    waiting = [*run_items(call("x"), output("x")), pending(call("x"))]
    whole = [*run_items(call("x"), output("x"), call("x")), pending(call("x"))]
    for items in (waiting, whole):
        tracker = hydrated(items, [response(call("x")), response(call("x"))])

        assert tracker.prepare_input("hello", items) == []
        assert tracker.prepare_input("hello", [*items, output("x", "second")]) == [output("x", "second")]


def test_a_repeated_label_is_told_apart_when_only_outputs_were_kept() -> None:
    kept = run_items(output("x", "first"))
    tracker = hydrated(kept, [response(call("x")), response(call("x"))])

    assert tracker.prepare_input("hello", kept) == []
    assert tracker.prepare_input("hello", [*kept, output("x", "second")]) == [output("x", "second")]


def test_a_repeated_label_is_told_apart_when_only_the_last_turn_was_kept() -> None:
    last_turn = run_items(call("x"), output("x", "second"))
    tracker = hydrated(last_turn, [response(call("x")), response(call("x"))])

    prepared = tracker.prepare_input("hello", last_turn)

    assert prepared == [output("x", "second")]


def test_a_repeated_label_is_told_apart_when_only_the_last_response_was_kept() -> None:
    items = run_items(
        call("x", id="fc_1"), output("x", "first", id="fco_1"), call("x", id="fc_2"), output("x", "second")
    )
    tracker = hydrated(items, [response(call("x", id="fc_2"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("x", "second")]


def test_a_repeated_label_is_told_apart_when_only_outputs_and_the_last_response_were_kept() -> None:
    items = run_items(output("x", "first"), output("x", "second"))
    tracker = hydrated(items, [response(call("x"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("x", "second")]


def test_a_repeated_label_is_told_apart_when_calls_stand_before_all_outputs() -> None:
    items = run_items(call("x"), call("x"), output("x", "first"), output("x", "second"))
    tracker = hydrated(items, [response(call("x")), response(call("x"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("x", "second")]


def test_a_label_in_the_original_input_is_not_confused_with_the_same_label_in_a_response() -> None:
    original = [HELLO, call("x"), output("x", "history"), {"role": "user", "content": "again"}]
    items = run_items(call("x"), output("x", "now"))
    fresh, resumed = Tracker(conversation_id="conv_1"), hydrated(items, [response(call("x"))], original)
    first = deliver(fresh, original, [], response(call("x")))

    assert first == original
    assert fresh.prepare_input(original, items) == [output("x", "now")]
    assert resumed.prepare_input(original, items) == [output("x", "now")]


def test_an_output_in_the_original_input_does_not_answer_a_response_that_came_after_it() -> None:
    original = [HELLO, call("x"), output("x", "history")]
    tracker = hydrated([], [response(call("x"))], original)

    prepared = tracker.prepare_input(original, [])

    assert prepared == []


@pytest.mark.parametrize("resumed", [True, False])
def test_two_calls_under_one_label_in_one_response_get_both_outputs_once_each(resumed: bool) -> None:
    answer = response(call("x"), call("x"), id="resp_1")
    items = run_items(call("x"), call("x"), output("x", "same"))
    tracker = Tracker(previous_response_id="resp_0")
    deliver(tracker, "hello", [], answer)
    if resumed:
        tracker = hydrated(rebuilt(items), [answer])
    items += run_items(output("x", "same"))

    sent = deliver(tracker, "hello", items, response(message("bye"), id="resp_2"))

    assert sent == [output("x", "same"), output("x", "same")]
    assert tracker.prepare_input("hello", rebuilt(items)) == []
    assert tracker.server_tool_call_ids == {"x"}


def test_of_two_calls_under_one_label_the_one_that_ran_is_unsent_while_the_other_waits() -> None:
    items = [*run_items(call("x"), output("x", "ran"), call("x")), pending(call("x"))]
    tracker = hydrated(items, [response(call("x"), call("x"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("x", "ran")]


def test_an_acknowledgement_counts_for_one_request_only() -> None:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(call("x")))
    sent = deliver(tracker, "hello", run_items(call("x"), output("x")), response(call("x")))
    tracker.mark_input_as_sent(sent)  # late, and again
    tracker.track_server_items(response())

    assert tracker.server_tool_call_ids == set()


def test_a_named_label_is_answered_when_all_its_outputs_are() -> None:
    items = run_items(call("x"), call("x"), output("x", "1"), output("x", "2"))
    responses = [response(call("x"), call("x")), response(message("bye"))]
    tracker = hydrated(items, responses, unsent_tool_call_ids={"x"})
    tracker.mark_input_as_sent(tracker.prepare_input("hello", items)[:1])
    tracker.track_server_items(response())
    after_one = set(tracker.server_tool_call_ids)
    rest = deliver(tracker, "hello", items, response())

    assert after_one == set()
    assert rest == [output("x", "2")]
    assert tracker.server_tool_call_ids == {"x"}


def test_a_label_with_one_of_two_outputs_delivered_is_not_among_the_answered() -> None:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(call("x"), call("x")))
    deliver(tracker, "hello", run_items(output("x", "1")), response())

    assert tracker.server_tool_call_ids == set()


# A filter between preparing and marking


def sent_through(change: Any) -> tuple[Tracker, list[Any]]:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(call("x"), call("x"), call("y")))
    items = [
        *run_items(call("x"), call("x"), call("y"), output("x", "1"), output("x", "2"), output("y", "3")),
        {"role": "user", "content": "go on"},
        {"role": "user", "content": "go on"},
    ]
    tracker.mark_input_as_sent(change(tracker.prepare_input("hello", items)))
    tracker.track_server_items(response(message("bye")))
    return tracker, items


def as_objects(items: list[Item]) -> list[Any]:
    return [FunctionCallOutput(**item) if "output" in item else {"type": "message", **item} for item in items]


def redacted(items: list[Item]) -> list[Item]:
    return [{**item, "output": "[redacted]"} if "output" in item else item for item in items]


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        rebuilt,
        as_objects,
        redacted,
        lambda items: [items[0], *redacted(items[1:])],
        lambda items: items[::-1],
        lambda items: redacted(items)[::-1],
        lambda items: [{"role": "developer", "content": "be brief"}, *items],
        lambda items: [dict(reversed(item.items())) for item in items],
    ],
    ids=[
        "copies",
        "rebuilds",
        "objects",
        "rewrites outputs",
        "rewrites some",
        "reorders",
        "rewrites and reorders",
        "adds",
        "keys",
    ],
)
def test_nothing_is_sent_again_after_a_filter_that(change: Any) -> None:
    tracker, items = sent_through(change)

    prepared = tracker.prepare_input("hello", items)

    assert prepared == []


@pytest.mark.parametrize("dropped", range(5))
def test_what_a_filter_drops_stays_unsent(dropped: int) -> None:
    tracker, items = sent_through(lambda prepared: rebuilt(prepared[:dropped] + prepared[dropped + 1 :]))

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [[output("x", "1"), output("x", "2"), output("y", "3"), *items[-2:]][dropped]]


def test_a_filter_that_changes_what_it_was_given_does_not_change_the_ledger() -> None:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(call("x"), call("x")))
    items = run_items(call("x"), call("x"), output("x", "1"), output("x", "2"))
    prepared = tracker.prepare_input("hello", items)
    kept = copy.deepcopy(prepared[1])
    prepared[0]["output"] = prepared[1]["output"] = "changed in place"
    tracker.mark_input_as_sent([kept])

    assert tracker.prepare_input("hello", items) == [output("x", "1")]


def test_what_a_filter_added_and_the_caller_later_says_is_not_taken_for_sent() -> None:
    tracker = Tracker(conversation_id="conv_1")
    extra = {"role": "user", "content": "be brief"}
    tracker.mark_input_as_sent([*tracker.prepare_input("hello", []), extra])
    tracker.track_server_items(response(message("hi")))

    prepared = tracker.prepare_input("hello", [extra])

    assert prepared == [extra]


def test_marking_twice_is_marking_once() -> None:
    tracker = Tracker(conversation_id="conv_1")
    note = {"role": "user", "content": "go on"}
    sent = tracker.prepare_input("hello", [note])
    tracker.mark_input_as_sent(sent)
    tracker.mark_input_as_sent(sent)
    tracker.track_server_items(response(message("hi")))

    prepared = tracker.prepare_input("hello", [note, note])

    assert prepared == [note]


# The original input, and other items


def test_the_original_input_comes_first_and_a_text_is_a_users_message() -> None:
    tracker = Tracker(conversation_id="conv_1")

    prepared = tracker.prepare_input("hello", run_items(output("a")))

    assert prepared == [HELLO, output("a")]


def test_a_text_and_the_message_that_it_stands_for_are_the_same_input() -> None:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(message("hi")))

    assert tracker.prepare_input([HELLO], []) == []
    assert tracker.prepare_input([{"type": "message", **HELLO}], []) == []


def test_an_original_input_that_grew_is_sent_from_where_it_grew() -> None:
    tracker = Tracker(conversation_id="conv_1")
    more = {"role": "user", "content": "and another thing"}
    deliver(tracker, [HELLO], [], response(message("hi")))

    prepared = tracker.prepare_input([HELLO, more], run_items(message("hi")))

    assert prepared == [more]


def test_two_messages_that_say_the_same_are_two() -> None:
    tracker = Tracker(conversation_id="conv_1")
    again = {"role": "user", "content": "continue"}
    first = deliver(tracker, [again, again], [again], response(message("hi")))

    prepared = tracker.prepare_input([again, again], [again, again])

    assert first == [again, again, again]
    assert prepared == [again]


def test_an_original_input_with_ids_of_another_conversation_is_sent_whole() -> None:
    history = [HELLO, message("hi", id="msg_old"), {"role": "user", "content": "and now?"}]
    tracker = Tracker(conversation_id="conv_new")
    sent = deliver(tracker, history, [], response(message("well", id="msg_new")))

    assert sent == history
    assert tracker.prepare_input(history, run_items(message("well", id="msg_new"))) == []
    assert tracker.server_item_ids == {"msg_old", "msg_new"}


def test_the_models_message_comes_back_in_the_input_in_another_shape_and_is_known_by_its_id() -> None:
    more = {"role": "user", "content": "and now?"}
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, [HELLO], [], response(message("hi", id="msg_1")))

    prepared = tracker.prepare_input([HELLO, {"role": "assistant", "content": "hi", "id": "msg_1"}, more], [])

    assert prepared == [more]


def test_references_are_told_apart_by_what_they_refer_to() -> None:
    references = [{"type": "item_reference", "id": "msg_1"}, {"type": "item_reference", "id": "msg_2"}]
    tracker = Tracker(conversation_id="conv_1")
    tracker.prepare_input(references, [])
    tracker.mark_input_as_sent(references[1:])

    prepared = tracker.prepare_input(references, [])

    assert prepared == references[:1]


def test_handoffs_are_calls_and_outputs_like_others() -> None:
    items = [HandoffCallItem(AGENT, call("h", id="fc_1")), HandoffOutputItem(AGENT, output("h", '{"assistant": "b"}'))]
    tracker = hydrated(items, [response(call("h", id="fc_1"))])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("h", '{"assistant": "b"}')]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (
            {"type": "mcp_approval_request", "id": "mcpr_1", "name": "t", "arguments": "{}", "server_label": "s"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        ),
        (
            {"type": "local_shell_call", "id": "lsh_1", "call_id": "s", "action": {}, "status": "completed"},
            {"type": "local_shell_call_output", "id": "s", "output": "ok"},
        ),
        (
            {"type": "custom_tool_call", "call_id": "u", "name": "t", "input": "free text"},
            {"type": "custom_tool_call_output", "call_id": "u", "output": "ok"},
        ),
        (
            {"type": "computer_call", "id": "cu_1", "call_id": "v", "status": "completed"},
            {"type": "computer_call_output", "call_id": "v", "output": {"type": "computer_screenshot"}},
        ),
    ],
    ids=["mcp approval", "local shell", "custom tool", "computer"],
)
def test_every_kind_of_call_is_paired_with_its_output(asked: Item, answered: Item) -> None:
    items = run_items(asked, answered)
    open_turn = hydrated(items, [response(asked)])
    closed_turn = hydrated(items, [response(asked), response(message("bye"))])

    assert open_turn.prepare_input("hello", items) == [answered]
    assert closed_turn.prepare_input("hello", items) == []


@pytest.mark.parametrize("resumed", [True, False])
def test_the_output_of_a_tool_that_the_provider_ran_is_not_sent_back(resumed: bool) -> None:
    ran = [call("h"), output("h", "by the provider")]
    items = run_items(*ran, call("a"), output("a"))
    answer = response(*ran, call("a"))
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], answer)
    if resumed:
        tracker = hydrated(items, [answer])

    prepared = tracker.prepare_input("hello", items)

    assert prepared == [output("a")]
    assert tracker.server_tool_call_ids == {"h"}


def test_something_that_is_no_item_is_refused_by_name() -> None:
    tracker = Tracker(conversation_id="conv_1")

    with pytest.raises(UserError, match=r"item\.output is a set"):
        tracker.prepare_input("hello", [{"type": "function_call_output", "call_id": "a", "output": {1}}])
    with pytest.raises(UserError, match="is a int, not an object"):
        tracker.prepare_input([7], [])


# What the caller holds is the caller's


def test_preparing_twice_gives_the_same_and_counts_nothing_as_sent() -> None:
    tracker = interrupted_tracker(SERVER_MODES[0])
    items = [*INTERRUPTED, *REJECTIONS]

    assert tracker.prepare_input("hello", items) == tracker.prepare_input("hello", items) == THREE_OUTPUTS


def test_preparing_changes_nothing_that_it_is_given_and_gives_copies() -> None:
    original, raw = [copy.deepcopy(HELLO)], output("a", [{"type": "input_text", "text": "deep"}])
    before = copy.deepcopy((original, raw))
    tracker = Tracker(conversation_id="conv_1")
    prepared = tracker.prepare_input(original, run_items(raw))
    prepared[0]["content"] = "changed"
    prepared[1]["output"][0]["text"] = "changed"

    assert (original, raw) == before
    assert tracker.prepare_input(original, run_items(raw)) == [HELLO, raw]


# The response to chain to


def test_a_chained_conversation_goes_on_from_the_newest_response() -> None:
    tracker = Tracker(previous_response_id="resp_0")
    tracker.track_server_items(response(id="resp_1"))

    assert tracker.previous_response_id == "resp_1"
    assert hydrated([], [response(id="resp_8"), response(id="resp_9")]).previous_response_id == "resp_9"
    assert hydrated([], []).previous_response_id == "resp_0"


def test_automatic_chaining_begins_with_the_first_response() -> None:
    tracker = Tracker(auto_previous_response_id=True)
    before = tracker.previous_response_id
    tracker.track_server_items(response(id="resp_1"))

    assert before is None
    assert tracker.previous_response_id == "resp_1"


@pytest.mark.parametrize("mode", [{"conversation_id": "conv_1", "auto_previous_response_id": True}, {}])
def test_without_chaining_no_previous_response_is_kept(mode: dict[str, Any]) -> None:
    tracker = Tracker(**mode)
    tracker.track_server_items(response(id="resp_1"))

    assert tracker.previous_response_id is None
    assert tracker.conversation_id == mode.get("conversation_id")


def test_a_response_without_an_id_leaves_the_chain_where_it_was() -> None:
    tracker = Tracker(previous_response_id="resp_0")
    tracker.track_server_items(response(message("hi")))

    assert tracker.previous_response_id == "resp_0"


# Cost


def seconds_for(many: int) -> float:
    """A whole exchange with many calls under one label: the case in which looking for a match could cost most."""
    began = time.process_time()
    answer = response(*(call("x") for _ in range(many)))
    items = [*run_items(*answer.output), *(output("x", str(i)) for i in range(many))]
    tracker = hydrated(items, [answer])
    prepared = tracker.prepare_input("hello", items)
    tracker.mark_input_as_sent(prepared[::-1])
    tracker.rewind_input(redacted(prepared))
    tracker.mark_input_as_sent(prepared)
    tracker.track_server_items(response(message("bye")))

    assert len(prepared) == many
    assert tracker.prepare_input("hello", items) == []
    return time.process_time() - began


def test_the_cost_grows_with_the_items_and_not_with_their_square() -> None:
    few, many = min(seconds_for(250) for _ in range(3)), min(seconds_for(4_000) for _ in range(2))

    assert many / few < 64  # 16 when linear, 256 when quadratic


# Against a strict server: whatever happens around the requests, each carries exactly what it must


class StrictServer:
    """Accepts only what it does not hold yet, and goes on only when every call of its last response is answered."""

    def __init__(self) -> None:
        self.awaits: Counter[str] = Counter()
        self.texts: set[str] = set()

    def accept(self, request: list[Item], expected_texts: list[str]) -> None:
        outputs = [item for item in request if item.get("type") == "function_call_output"]
        texts = [item["output"] if "output" in item else item["content"] for item in request]
        assert Counter(item["call_id"] for item in outputs) == self.awaits, "an output is missing or too many"
        assert not self.texts & set(texts), "something was sent twice"
        assert sorted(texts) == sorted(expected_texts), "not what was new"
        self.texts |= set(texts)

    def answer(self, items: list[Item], number: int) -> ModelResponse:
        self.awaits = Counter(item["call_id"] for item in items if item["type"] == "function_call")
        return response(*items, id=f"resp_{number}")


class Caller:
    """Drives a tracker as a script says: pauses, restarts, failures and filters at any place."""

    def __init__(self, draw: Any, keeps_calls: bool, restarts: bool) -> None:
        self.draw, self.keeps_calls, self.restarts = draw, keeps_calls, restarts
        self.server = StrictServer()
        self.mode = draw(st.sampled_from(SERVER_MODES))
        self.tracker = Tracker(**self.mode)
        self.items: list[Any] = []
        self.responses: list[ModelResponse] = []

    def turn(self, number: int) -> None:
        new = self.append_outputs(number) if self.responses else ["hello"]
        if not self.restarts and self.draw(st.booleans()):
            new.append(f"note {number}")
            self.items.append({"role": "user", "content": new[-1]})
        self.request(new)
        answer = self.server.answer(self.draw(answers), number)
        self.responses.append(answer)
        self.tracker.track_server_items(answer)
        kept = [raw for raw in answer.output if self.keeps_calls or raw["type"] != "function_call"]
        self.items += run_items(*kept)

    def append_outputs(self, number: int) -> list[str]:
        """The calls end one by one, in any order; the process may be replaced in between."""
        labels = self.draw(st.permutations(sorted(self.server.awaits.elements())))
        texts = []
        for index, label in enumerate(labels):
            self.maybe_restart(number)
            texts.append(f"output {number}.{index}")
            self.items.append(as_run_item(output(label, texts[-1])))
        self.maybe_restart(number)
        return texts

    def maybe_restart(self, number: int) -> None:
        if not (self.restarts and self.draw(st.booleans())):
            return
        self.items, self.responses = rebuilt(self.items), rebuilt(self.responses)
        if self.keeps_calls and self.draw(st.booleans()):
            self.items = self.of_last_turn()
        tracker = self.draw(st.sampled_from([self.tracker, Tracker(**self.mode)]))
        self.tracker = hydrated(self.items, self.responses, tracker=tracker)

    def of_last_turn(self) -> list[Any]:
        of_last_response = len(self.responses[-1].output)
        produced = [i for i, item in enumerate(self.items) if not isinstance(item, ToolCallOutputItem)]
        return self.items[produced[-of_last_response] :] if of_last_response else []

    def request(self, expected: list[str]) -> None:
        for _ in range(self.draw(st.integers(0, 2))):
            refused = self.filtered(self.tracker.prepare_input("hello", self.items))
            self.tracker.mark_input_as_sent(refused)
            assert self.tracker.prepare_input("hello", self.items) == []
            self.tracker.rewind_input(self.filtered(refused))
        sent = self.filtered(self.tracker.prepare_input("hello", self.items))
        self.tracker.mark_input_as_sent(sent)
        self.server.accept(sent, expected)

    def filtered(self, items: list[Item]) -> list[Item]:
        return rebuilt(list(self.draw(st.permutations(items))))


labels = st.sampled_from(["a", "b", "c"])
ids = st.sampled_from([{}, {"id": "__fake_id__"}, {"id": ""}])
answers = st.lists(
    st.one_of(
        st.builds(lambda label, more: call(label, **more), labels, ids),
        st.builds(lambda text, more: message(text, **more), st.sampled_from(["ok", "hm"]), ids),
        st.builds(lambda n: message("ok", id=f"msg_{n}"), st.integers(0, 9)),
        st.builds(lambda n: {"type": "reasoning", "summary": [], "id": f"rs_{n}"}, st.integers(0, 9)),
    ),
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.integers(1, 5))
def test_a_strict_server_gets_every_output_once_and_with_the_very_next_request(
    data: st.DataObject, keeps_calls: bool, restarts: bool, turns: int
) -> None:
    caller = Caller(data.draw, keeps_calls, restarts)

    for number in range(turns):
        caller.turn(number)


@settings(max_examples=200, deadline=None)
@given(st.lists(labels, max_size=6), st.data())
def test_whatever_a_filter_drops_is_exactly_what_the_next_request_carries(
    called: list[str], data: st.DataObject
) -> None:
    tracker = Tracker(conversation_id="conv_1")
    deliver(tracker, "hello", [], response(*map(call, called)))
    outputs = [output(label, str(index)) for index, label in enumerate(called)]
    items = run_items(*map(call, called), *outputs)
    prepared = tracker.prepare_input("hello", items)
    kept = data.draw(st.permutations(prepared))[: data.draw(st.integers(0, len(prepared)))]
    tracker.mark_input_as_sent(rebuilt(list(kept)))
    tracker.track_server_items(response(message("well")))

    again = tracker.prepare_input("hello", rebuilt(items))

    assert prepared == outputs
    assert again == [item for item in outputs if item not in kept]
