"""Tools that take free text: the model's provider has a kind of its own for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet import Agent, ModelSettings, Runner, RunState, UserError, function_tool
from placet.testing import ScriptedModel, assistant_message
from placet.tools import CustomTool
from tests.models.runs.scenes import DONE, drive, responses_model

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
CALL = {"type": "custom_tool_call", "name": "edit", "input": "s/a/b/", "call_id": "c1"}
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "s/.*/"}


class Editor:
    def __init__(self, **options: Any) -> None:
        self.took: list[str] = []
        self.tool = CustomTool("edit", "Edits.", self.edit, **options)

    async def edit(self, ctx: Any, text: str) -> str:
        self.took.append(text)
        return f"edited by {text}"


@BOTH
async def test_free_text_waits_for_a_person_and_reaches_the_function_as_it_is(streamed: bool) -> None:
    editor = Editor(format=GRAMMAR, needs_approval=True)
    async with responses_model([[CALL], DONE]) as (provider, model):
        agent = Agent(name="Writer", model=model, tools=[editor.tool])
        paused = await drive(agent, "go", streamed=streamed)
        [item] = paused.interruptions
        asked = (item.name, json.loads(item.arguments), item.call_id)
        assert editor.took == []

        state = await RunState.from_string(agent, paused.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        result = await drive(agent, state, streamed=streamed)

    assert asked == ("edit", {"input": "s/a/b/"}, "c1")
    assert (editor.took, result.final_output) == (["s/a/b/"], "It is done.")
    assert provider.model_requests[0].body["tools"] == [
        {"type": "custom", "name": "edit", "description": "Edits.", "format": GRAMMAR}
    ]
    assert provider.model_requests[-1].input[-1] == {
        "type": "custom_tool_call_output",
        "call_id": "c1",
        "output": "edited by s/a/b/",
    }
    assert provider.refusals == []


@BOTH
async def test_a_rejected_text_never_reaches_the_function(streamed: bool) -> None:
    editor = Editor(needs_approval=True)
    async with responses_model([[CALL], DONE]) as (provider, model):
        agent = Agent(name="Writer", model=model, tools=[editor.tool])
        state = (await drive(agent, "go", streamed=streamed)).to_state()
        state.reject(state.get_interruptions()[0], rejection_message="not this")
        await drive(agent, state, streamed=streamed)

    assert editor.took == []
    assert provider.model_requests[-1].input[-1]["output"] == "not this"


async def test_an_edited_text_is_what_runs() -> None:
    editor = Editor(needs_approval=True)
    agent = Agent(name="Writer", model=ScriptedModel([[CALL], [assistant_message("ok")]]), tools=[editor.tool])
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"input": "s/x/y/"})
    await Runner.run(agent, state)

    assert editor.took == ["s/x/y/"]


async def test_a_rule_judges_the_text_itself() -> None:
    judged: list[str] = []

    def rule(_ctx: Any, text: str, _call_id: str) -> bool:
        judged.append(text)
        return False

    editor = Editor(needs_approval=rule)
    agent = Agent(name="Writer", model=ScriptedModel([[CALL], [assistant_message("ok")]]), tools=[editor.tool])
    await Runner.run(agent, "go")

    assert (judged, editor.took) == (["s/a/b/"], ["s/a/b/"])


async def test_a_function_of_that_name_does_not_take_a_custom_call() -> None:
    """Free text is no argument of a function: whoever approved the one did not approve the other."""
    ran: list[str] = []

    @function_tool(name_override="edit")
    def function(input: str) -> str:
        ran.append(input)
        return "ran"

    model = ScriptedModel([[CALL], [assistant_message("ok")]])
    await Runner.run(Agent(name="Writer", model=model, tools=[function]), "go")

    assert ran == []
    assert model.calls[-1].input[-1]["output"] == "Tool 'edit' not found."


async def test_a_custom_tool_can_be_chosen() -> None:
    async with responses_model([[CALL], DONE]) as (provider, model):
        settings = ModelSettings(tool_choice="edit")
        await Runner.run(Agent(name="Writer", model=model, tools=[Editor().tool], model_settings=settings), "go")

    assert provider.model_requests[0].body["tool_choice"] == {"type": "custom", "name": "edit"}
    assert provider.refusals == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": {"type": "xml"}}, "format has a 'type'"),
        ({"format": {"type": "text", "x": object()}}, "plain JSON"),
        ({"needs_approval": "always"}, "needs_approval is True, False or a function"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Editor(**options)
