"""Answers of the Responses API, plain and streamed, over HTTP: whole, cut short, refused, and newer than this code."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from placet import (
    Agent,
    ImageGenerationTool,
    MessageOutputItem,
    ModelBehaviorError,
    ModelRefusalError,
    ModelSettings,
    ProviderError,
    RunConfig,
    Runner,
    RunState,
    Usage,
)
from placet.testing import ModelStep, assistant_message, function_call
from placet.testing.provider import Answer, ProviderStep, failed, incomplete, raw
from tests.models.runs.scenes import AT_ONCE, DONE, drive, responses_model, shop

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
REFUSAL: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "refusal", "refusal": "I cannot help with that."}],
}


@BOTH
async def test_an_answer_has_its_text_its_ids_and_what_it_cost(streamed: bool) -> None:
    usage = Usage(1, 100, 20, 120, 60, 8, 30)
    async with responses_model([ModelStep(DONE, response_id="resp_a", usage=usage)]) as (provider, model):
        result = await drive(shop(model).agent, "hello", streamed=streamed)

    [response] = result.raw_responses
    assert result.final_output == "It is done."
    assert (response.response_id, result.last_response_id) == ("resp_a", "resp_a")
    assert response.request_id is not None
    assert response.request_id.startswith("req_")
    assert (response.usage, result.context_wrapper.usage) == (usage, usage)
    assert provider.model_requests[0].body["instructions"] == "Be kind."


@BOTH
async def test_a_refusal_is_readable_as_such(streamed: bool) -> None:
    async with responses_model([[REFUSAL]]) as (_, model):
        result = await drive(Agent(name="Shop", model=model), "hello", streamed=streamed)

    [item] = result.new_items
    assert isinstance(item, MessageOutputItem)
    assert item.refusal == result.final_output == "I cannot help with that."


class Price(pydantic.BaseModel):
    cents: int


@BOTH
async def test_a_refusal_where_data_was_asked_for_is_an_error_that_says_so(streamed: bool) -> None:
    async with responses_model([[REFUSAL], [assistant_message('{"cents": 42}')]]) as (_, model):
        agent = Agent(name="Shop", model=model, output_type=Price)
        with pytest.raises(ModelRefusalError) as caught:
            await drive(agent, "hello", streamed=streamed)
        result = await Runner.run(agent, caught.value.state)  # type: ignore[arg-type]  # it is attached

    assert caught.value.refusal == "I cannot help with that."
    assert result.final_output == Price(cents=42)


@BOTH
@pytest.mark.parametrize("output_type", [Price, list[int]], ids=["object", "list"])
async def test_structured_output_is_asked_for_in_strict_mode(output_type: Any, streamed: bool) -> None:
    text, expected = ('{"cents": 42}', Price(cents=42)) if output_type is Price else ('{"response": [1, 2]}', [1, 2])
    async with responses_model([[assistant_message(text)]]) as (provider, model):
        result = await drive(Agent(name="Shop", model=model, output_type=output_type), "hello", streamed=streamed)

    found = provider.model_requests[0].body["text"]["format"]
    assert (found["type"], found["strict"], found["schema"]["type"]) == ("json_schema", True, "object")
    assert result.final_output == expected
    assert provider.refusals == []


@BOTH
@pytest.mark.parametrize(
    ("reason", "words"), [("max_output_tokens", "limit of output tokens"), ("content_filter", "content filter")]
)
async def test_an_answer_cut_short_is_an_error_that_names_the_reason_and_can_be_gone_on_from(
    reason: Any, words: str, streamed: bool
) -> None:
    async with responses_model([incomplete([assistant_message("It i")], reason), DONE]) as (provider, model):
        agent = shop(model).agent
        with pytest.raises(ModelBehaviorError, match=words) as caught:
            await drive(agent, "hello", streamed=streamed)
        state: Any = await RunState.from_string(agent, caught.value.state.to_string())  # type: ignore[attr-defined]
        result = await drive(agent, state, streamed=streamed)

    assert result.final_output == "It is done."
    assert result.context_wrapper.usage.requests == 2
    assert provider.refusals == []


@BOTH
async def test_a_call_that_was_cut_short_never_runs(streamed: bool) -> None:
    cut = incomplete([function_call("look_up", '{"order": "7', call_id="c1")])
    async with responses_model([cut, DONE]) as (_, model):
        scene = shop(model)
        with pytest.raises(ModelBehaviorError, match="incomplete") as caught:
            await drive(scene.agent, "hello", streamed=streamed)
        result = await drive(scene.agent, caught.value.state, streamed=streamed)

    assert (scene.effects, result.final_output) == ([], "It is done.")


@BOTH
async def test_a_response_that_failed_is_asked_for_again_if_that_may_help(streamed: bool) -> None:
    async with responses_model([failed("Sorry."), DONE]) as (provider, model):
        config = RunConfig(retry=AT_ONCE)
        result = await drive(shop(model).agent, "hello", streamed=streamed, run_config=config)

    assert result.final_output == "It is done."
    assert len(provider.model_requests) == 2


@BOTH
async def test_a_response_that_failed_for_good_is_an_error_in_the_providers_words(streamed: bool) -> None:
    async with responses_model([failed("The image is too small.", code="image_too_small")]) as (_, model):
        with pytest.raises(ProviderError, match="The image is too small") as caught:
            await drive(shop(model).agent, "hello", streamed=streamed)

    assert caught.value.state is not None


# -- newer than this code

NEW_ITEM: dict[str, Any] = {
    "type": "telepathy_call",
    "id": "tp_1",
    "thoughts": [{"about": "order 7", "weight": 0.5}],
    "status": "completed",
    "nothing": None,
}
NEW_FIELDS = {"mood": {"kind": "calm", "since": None}, "a_flag": True}


@BOTH
async def test_unknown_fields_and_item_types_travel_through_a_pause_and_a_resume_unchanged(streamed: bool) -> None:
    call = {**function_call("refund", {"order": "7"}, call_id="c1"), **NEW_FIELDS}
    message = {**assistant_message("One moment."), "mood": {"kind": "calm"}}
    async with responses_model([[NEW_ITEM, message, call], DONE]) as (provider, model):
        agent = shop(model).agent
        paused = await drive(agent, "hello", streamed=streamed)
        state: Any = await RunState.from_string(agent, paused.to_state().to_string())
        for item in state.get_interruptions():
            state.approve(item)
        await drive(agent, state, streamed=streamed)

    _, new, said, called, _ = provider.model_requests[-1].input
    assert new == NEW_ITEM
    assert said["mood"] == {"kind": "calm"}
    assert {name: called[name] for name in NEW_FIELDS} == NEW_FIELDS


async def test_unknown_fields_of_the_response_itself_are_no_hindrance() -> None:
    async with responses_model([ProviderStep(Answer(DONE, extra={"horoscope": {"sign": "leo"}}))]) as (_, model):
        result = await Runner.run(shop(model).agent, "hello")

    assert result.final_output == "It is done."


@BOTH
async def test_events_that_nobody_knows_are_told_and_passed_over(streamed: bool) -> None:
    body = {"id": "resp_1", "object": "response", "status": "completed", "output": DONE, "usage": None}
    events = [{"type": "response.premonition", "sequence_number": 0}, {"type": "response.completed", "response": body}]
    async with responses_model([raw(events if streamed else body)]) as (_, model):
        result = await drive(shop(model).agent, "hello", streamed=streamed)

    assert result.final_output == "It is done."


async def test_a_server_that_tells_its_items_only_one_by_one_is_understood() -> None:
    body = {"id": "resp_1", "object": "response", "status": "completed", "output": [], "usage": None}
    [message] = DONE
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": {**message, "mood": "calm"}},
        {"type": "response.completed", "response": body},
    ]
    async with responses_model([raw(events)]) as (_, model):
        result = await drive(shop(model).agent, "hello", streamed=True)

    assert result.final_output == "It is done."
    assert result.new_items[0].raw_item["mood"] == "calm"


# -- reasoning


@BOTH
@pytest.mark.parametrize("store", [None, False], ids=["stored", "not stored"])
async def test_reasoning_is_kept_and_sent_back_as_the_api_wants_it(store: bool | None, streamed: bool) -> None:
    thought: dict[str, Any] = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    steps = [[thought, function_call("refund", {"order": "7"}, call_id="c1")], DONE]
    async with responses_model(steps) as (provider, model):
        agent = shop(model, model_settings=ModelSettings(store=store, reasoning={"effort": "low"})).agent
        paused = await drive(agent, "hello", streamed=streamed)
        state: Any = await RunState.from_string(agent, paused.to_state().to_string())
        state.approve("c1")
        result = await drive(agent, state, streamed=streamed)

    sent = provider.model_requests[-1].input[1]
    assert (provider.refusals, result.final_output) == ([], "It is done.")
    assert sent["type"] == "reasoning"
    assert ("id" in sent) is (store is None)
    assert provider.model_requests[0].body.get("include") == (
        None if store is None else ["reasoning.encrypted_content"]
    )


async def test_images_and_files_go_in_as_they_are_given() -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
    ]
    async with responses_model([DONE]) as (provider, model):
        await Runner.run(shop(model).agent, [{"role": "user", "content": content}])

    assert provider.refusals == []
    assert provider.model_requests[0].input[0]["content"] == content


async def test_a_tool_choice_holds_for_the_first_request_and_then_the_model_may_answer() -> None:
    steps = [[function_call("look_up", {"order": "7"}, call_id="c1")], DONE]
    async with responses_model(steps) as (provider, model):
        agent = shop(model, model_settings=ModelSettings(tool_choice="required")).agent
        await Runner.run(agent, "hello")

    assert [request.body.get("tool_choice") for request in provider.model_requests] == ["required", None]


# -- what a provider did itself


@BOTH
async def test_an_answer_that_is_an_image_and_no_word_is_an_answer(streamed: bool) -> None:
    image: dict[str, Any] = {"type": "image_generation_call", "status": "completed", "result": "iVBORw0KGgo="}
    async with responses_model([[image]]) as (provider, model):
        tool = ImageGenerationTool({"type": "image_generation"})
        result = await drive(Agent(name="Painter", model=model, tools=[tool]), "A cat.", streamed=streamed)

    assert result.final_output == ""
    assert result.new_items[0].raw_item["result"] == "iVBORw0KGgo="
    assert provider.refusals == []


@pytest.mark.parametrize("kind", ["computer_call", "local_shell_call", "custom_tool_call"])
async def test_a_call_that_does_not_say_what_to_do_is_an_error_that_names_it(kind: str) -> None:
    """Gone on with, the next request would be refused: the call has no output."""
    body = {"id": "resp_1", "object": "response", "status": "completed", "usage": None}
    async with responses_model([raw({**body, "output": [{"type": kind, "call_id": "c1"}, *DONE]})]) as (_, model):
        with pytest.raises(ModelBehaviorError, match=kind):
            await Runner.run(shop(model).agent, "hello")


async def test_a_call_of_a_custom_tool_that_nobody_here_can_answer_is_answered_so() -> None:
    call = {"type": "custom_tool_call", "name": "edit", "input": "free text", "call_id": "c1"}
    async with responses_model([[call], DONE]) as (provider, model):
        await Runner.run(shop(model).agent, "hello")

    answer = provider.model_requests[-1].body["input"][-1]
    assert answer == {"type": "custom_tool_call_output", "call_id": "c1", "output": "Tool 'edit' not found."}
    assert provider.refusals == []


async def test_a_response_that_is_made_in_the_background_is_waited_for() -> None:
    settings = ModelSettings(extra_args={"background": True})
    async with responses_model([DONE]) as (provider, model):
        result = await Runner.run(shop(model, model_settings=settings).agent, "hello")

    assert result.final_output == "It is done."
    assert provider.requests[0].path.endswith("/responses")
    assert [each.method for each in provider.requests] == ["POST", "GET", "GET"]
    assert provider.refusals == []
