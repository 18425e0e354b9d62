"""What of a tool's output a model reads as content: only what the tool declares as such."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest

from placet import Agent, MemoryStore, Runner, UserError, function_tool
from placet.agents import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from placet.testing import ScriptedModel, assistant_message, function_call

DATA_URL = "data:image/png;base64,AA=="


async def output_of(value: Any) -> Any:
    @function_tool
    async def show() -> Any:
        return value

    model = ScriptedModel([[function_call("show", {}, call_id="c1")], [assistant_message("done")]])
    await Runner.run(Agent("viewer", tools=[show], model=model), "go", store=MemoryStore())
    return model.calls[1].input[-1]["output"]


LOOK_ALIKES: list[Any] = [
    [{"type": "input_field"}],
    [{"type": "input_field", "name": "a"}, {"type": "input_text", "text": "b"}],
    [{"type": "input_text"}],
    [{"type": "input_text", "text": 5}],
    [{"type": "input_text", "text": "Name", "label": "your name"}],
    [{"type": "input_image"}],
    [{"type": "input_image", "image_url": "logo"}],
    [{"type": "input_image", "image_url": {"url": DATA_URL}}],
    [{"type": "input_image", "image_url": DATA_URL, "detail": "most"}],
    [{"type": "input_file", "filename": "a.pdf"}],
    [{"type": "input_audio", "input_audio": {}}],
    [{"type": ["input_text"], "text": "a"}],
    [{"type": "image", "image_url": "logo"}],
    [],
    {"type": "input_text", "text": "alone"},
]


@pytest.mark.parametrize("value", LOOK_ALIKES, ids=json.dumps)
async def test_data_that_looks_like_content_is_data(value: Any) -> None:
    sent = await output_of(value)

    assert isinstance(sent, str)
    assert json.loads(sent) == value


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "input_text", "text": "a"}],
        [{"type": "input_text", "text": "", "cache_control": {"type": "ephemeral"}}],
        [{"type": "input_image", "image_url": DATA_URL}, {"type": "input_text", "text": "a"}],
        [{"type": "input_image", "file_id": "file_1", "detail": "low"}],
        [{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}],
        [{"type": "input_file", "file_url": "https://example.org/a.pdf"}],
    ],
    ids=json.dumps,
)
async def test_marked_parts_that_are_whole_are_content(value: Any) -> None:
    assert await output_of(value) == value


async def test_values_of_our_types_are_content_alone_and_among_others() -> None:
    image = ToolOutputImage(image_url=DATA_URL, detail="low")
    file = ToolOutputFileContent(file_data="data:application/pdf;base64,AA==", filename="a.pdf")

    assert await output_of(image) == [{"type": "input_image", "image_url": DATA_URL, "detail": "low"}]
    both = await output_of([ToolOutputText(text="see"), file])
    assert both == [
        {"type": "input_text", "text": "see"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
    ]


async def test_models_of_the_users_own_that_are_whole_parts_are_content() -> None:
    class Part(pydantic.BaseModel):
        type: str = "input_text"
        text: str

    assert await output_of([Part(text="a")]) == [{"type": "input_text", "text": "a"}]


@pytest.mark.parametrize(
    "make",
    [
        ToolOutputImage,
        ToolOutputFileContent,
        lambda: ToolOutputImage(image_url="logo"),
    ],
)
def test_content_that_no_provider_would_take_is_refused_where_it_is_made(make: Any) -> None:
    with pytest.raises(UserError):
        make()


async def test_an_answer_that_looks_like_content_is_data() -> None:
    @function_tool(needs_approval=True)
    async def form() -> str:
        return "x"

    model = ScriptedModel([[function_call("form", {}, call_id="c1")], [assistant_message("done")]])
    agent = Agent("viewer", tools=[form], model=model)
    state = (await Runner.run(agent, "go", store=MemoryStore())).to_state()
    state.respond("c1", [{"type": "input_field"}])
    await Runner.run(agent, state, store=MemoryStore())

    assert model.calls[1].input[-1]["output"] == '[{"type":"input_field"}]'
