"""Calls that the Responses API writes as items of their own kind: a person decides about them as about any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, HostedTool, ModelSettings, Runner, RunState, UserError, function_tool
from placet.facts.preview import preview
from placet.testing import ScriptedModel, assistant_message
from placet.testing.provider import FakeProvider
from placet.tools import (
    ApplyPatchTool,
    ComputerTool,
    LocalEditor,
    LocalShell,
    LocalShellCommandRequest,
    LocalShellTool,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
)
from tests.models.runs.scenes import DONE, drive, responses_model

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


def shell_call(*commands: str, **limits: Any) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": "s1", "action": {"commands": list(commands), **limits}}


def patch_call(path: str, diff: str, kind: str = "update_file") -> dict[str, Any]:
    return {
        "type": "apply_patch_call",
        "call_id": "p1",
        "operation": {"type": kind, "path": path, "diff": diff},
    }


def sent(provider: FakeProvider, kind: str) -> dict[str, Any]:
    """The item of this type in the last request."""
    [found] = [item for item in provider.model_requests[-1].input if item.get("type") == kind]
    return dict(found)


@BOTH
async def test_commands_of_the_providers_own_shell_wait_and_run_after_the_yes(tmp_path: Path, streamed: bool) -> None:
    call = shell_call("echo hi > file; echo out; echo err >&2; exit 3", "cat file", max_output_length=500)
    async with responses_model([[call], DONE]) as (provider, model):
        agent = Agent(name="Coder", model=model, tools=[ShellTool(LocalShell(tmp_path), native=True)])
        paused = await drive(agent, "go", streamed=streamed)
        [item] = paused.interruptions
        asked = (item.name, json.loads(item.arguments)["commands"][1], item.call_id)
        assert not (tmp_path / "file").exists()

        state = await RunState.from_string(agent, paused.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        result = await drive(agent, state, streamed=streamed)

    assert asked == ("shell", "cat file", "s1")
    assert result.final_output == "It is done."
    assert provider.model_requests[0].body["tools"] == [{"type": "shell", "environment": {"type": "local"}}]
    assert sent(provider, "shell_call_output") == {
        "type": "shell_call_output",
        "call_id": "s1",
        "output": [
            {"stdout": "out\n", "stderr": "err\n", "outcome": {"type": "exit", "exit_code": 3}},
            {"stdout": "hi\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        ],
        "max_output_length": 500,
    }
    assert provider.refusals == []


@BOTH
async def test_a_patch_of_the_providers_own_kind_waits_and_is_applied_after_the_yes(
    tmp_path: Path, streamed: bool
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with responses_model([[patch_call("a.txt", "@@\n-one\n+1\n")], DONE]) as (provider, model):
        agent = Agent(name="Coder", model=model, tools=[ApplyPatchTool(LocalEditor(tmp_path), native=True)])
        paused = await drive(agent, "go", streamed=streamed)
        assert (tmp_path / "a.txt").read_text() == "one\n"
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        await drive(agent, state, streamed=streamed)

    assert (tmp_path / "a.txt").read_text() == "1\n"
    assert provider.model_requests[0].body["tools"] == [{"type": "apply_patch"}]
    output = sent(provider, "apply_patch_call_output")
    assert (output["status"], output["output"]) == ("completed", "Updated a.txt")
    assert provider.refusals == []


async def test_a_rejection_is_read_as_what_went_wrong_in_the_providers_own_shape(tmp_path: Path) -> None:
    tools = [ShellTool(LocalShell(tmp_path), native=True), ApplyPatchTool(LocalEditor(tmp_path), native=True)]
    calls = [shell_call("touch f"), patch_call("g", "+x\n", "create_file")]
    async with responses_model([calls, DONE]) as (provider, model):
        agent = Agent(name="Coder", model=model, tools=tools)
        paused = await Runner.run(agent, "go")
        state = paused.to_state()
        for item in paused.interruptions:
            state.reject(item, rejection_message="Not today.")
        await Runner.run(agent, state)

    assert not (tmp_path / "f").exists()
    assert not (tmp_path / "g").exists()
    [content] = sent(provider, "shell_call_output")["output"]
    assert content == {"stdout": "", "stderr": "Not today.", "outcome": {"type": "exit", "exit_code": 1}}
    output = sent(provider, "apply_patch_call_output")
    assert (output["status"], output["output"]) == ("failed", "Not today.")
    assert provider.refusals == []


async def test_edited_commands_run_in_the_place_of_the_models_and_it_reads_so(tmp_path: Path) -> None:
    async with responses_model([[shell_call("echo bad")], DONE]) as (provider, model):
        agent = Agent(name="Coder", model=model, tools=[ShellTool(LocalShell(tmp_path), native=True)])
        paused = await Runner.run(agent, "go")
        state = paused.to_state()
        edited = {"commands": ["echo good"], "timeout_ms": None, "max_output_length": None}
        state.approve(paused.interruptions[0], arguments=edited)
        await Runner.run(agent, state)

    [content] = sent(provider, "shell_call_output")["output"]
    first, *rest = content["stdout"].splitlines()
    assert "A reviewer changed the arguments" in first
    assert rest == ["good"]
    assert sent(provider, "shell_call")["action"]["commands"] == ["echo bad"]
    assert provider.refusals == []


async def test_a_command_that_took_too_long_and_a_plain_text_are_told_in_the_providers_shape() -> None:
    late = ShellResult([ShellCommandOutput("so far", "", ShellCallOutcome("timeout"))])
    for given, expected in (
        (late, {"stdout": "so far", "stderr": "", "outcome": {"type": "timeout"}}),
        ("all well", {"stdout": "all well", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}),
    ):
        async with responses_model([[shell_call("x")], DONE]) as (provider, model):
            tool = ShellTool(lambda _request, found=given: found, needs_approval=False, native=True)
            await Runner.run(Agent(name="Coder", model=model, tools=[tool]), "go")
        assert sent(provider, "shell_call_output")["output"] == [expected]
        assert provider.refusals == []


@pytest.mark.parametrize("store", [True, False])
async def test_the_server_keeps_the_history_or_nothing_and_each_output_is_delivered_once(
    tmp_path: Path, store: bool
) -> None:
    async with responses_model([[shell_call("echo 1")], [{**shell_call("echo 2"), "call_id": "s2"}], DONE]) as (
        provider,
        model,
    ):
        tool = ShellTool(LocalShell(tmp_path), needs_approval=False, native=True)
        agent = Agent(name="Coder", model=model, tools=[tool], model_settings=ModelSettings(store=store))
        await Runner.run(agent, "go", auto_previous_response_id=store)

    outputs = [
        [item.get("call_id") for item in request.input if item.get("type") == "shell_call_output"]
        for request in provider.model_requests
    ]
    assert outputs == ([[], ["s1"], ["s2"]] if store else [[], ["s1"], ["s1", "s2"]])
    assert provider.refusals == []


async def test_a_label_that_the_provider_repeats_is_made_unique_in_call_and_output(tmp_path: Path) -> None:
    async with responses_model([[shell_call("echo 1"), shell_call("echo 2")], DONE]) as (provider, model):
        tool = ShellTool(LocalShell(tmp_path), needs_approval=False, native=True)
        await Runner.run(Agent(name="Coder", model=model, tools=[tool]), "go")

    last = provider.model_requests[-1].input
    calls = [item["call_id"] for item in last if item.get("type") == "shell_call"]
    outputs = [item["call_id"] for item in last if item.get("type") == "shell_call_output"]
    assert calls == outputs
    assert len(set(calls)) == 2
    assert provider.refusals == []


async def test_a_native_call_is_never_given_to_a_function_of_the_same_name() -> None:
    ran: list[Any] = []

    @function_tool
    def shell(commands: list[str], timeout_ms: int | None = None, max_output_length: int | None = None) -> str:
        ran.append(commands)
        return "ran"

    async with responses_model([[shell_call("rm -rf x")], DONE]) as (provider, model):
        await Runner.run(Agent(name="Coder", model=model, tools=[shell]), "go")

    assert ran == []
    assert "not found" in sent(provider, "shell_call_output")["output"][0]["stderr"]
    assert provider.refusals == []


async def test_commands_that_run_in_a_container_of_the_providers_ask_nobody() -> None:
    there = {"type": "container_reference", "container_id": "cntr_1"}
    call = {**shell_call("ls"), "environment": there}
    done = {
        "type": "shell_call_output",
        "call_id": "s1",
        "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    }
    async with responses_model([[call, done, *DONE]]) as (provider, model):
        result = await Runner.run(Agent(name="Coder", model=model), "go")

    assert result.final_output == "It is done."
    assert len(provider.model_requests) == 1


async def test_a_model_without_the_kind_is_offered_a_function_and_reads_the_calls_of_one(tmp_path: Path) -> None:
    """A conversation may go on with another provider: native calls and their outputs are a function's there."""
    from openai import AsyncOpenAI

    from placet import OpenAIChatCompletionsModel

    tool = ShellTool(LocalShell(tmp_path), needs_approval=False, native=True)
    async with responses_model([[shell_call("echo hi")], DONE]) as (_, model):
        first = await Runner.run(Agent(name="Coder", model=model, tools=[tool]), "go")
    provider = FakeProvider([[assistant_message("I see.")]])
    async with provider.serve() as url, AsyncOpenAI(base_url=url, api_key="secret") as client:
        agent = Agent(name="Coder", model=OpenAIChatCompletionsModel("gpt-test", client), tools=[tool])
        await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": "And?"}])

    body = provider.model_requests[-1].body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["shell"]
    [call] = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
    assert json.loads(call["function"]["arguments"])["commands"] == ["echo hi"]
    [output] = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    assert output == "hi\n[exit code 0]"
    assert provider.refusals == []


def test_a_native_tool_has_the_providers_name_for_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has the name 'shell'"):
        ShellTool(LocalShell(tmp_path), name="bash", native=True)


async def test_a_choice_of_the_native_tool_names_its_type(tmp_path: Path) -> None:
    async with responses_model([[shell_call("echo hi")], DONE]) as (provider, model):
        tool = ShellTool(LocalShell(tmp_path), needs_approval=False, native=True)
        settings = ModelSettings(tool_choice="shell")
        await Runner.run(Agent(name="Coder", model=model, tools=[tool], model_settings=settings), "go")

    assert provider.model_requests[0].body["tool_choice"] == {"type": "shell"}
    assert provider.refusals == []


async def test_a_scripted_model_may_send_native_items(tmp_path: Path) -> None:
    model = ScriptedModel([[shell_call("echo hi")], [assistant_message("done")]])
    tool = ShellTool(LocalShell(tmp_path), needs_approval=False, native=True)
    result = await Runner.run(Agent(name="Coder", model=model, tools=[tool]), "go")

    kinds = [item.type for item in result.new_items]
    assert kinds == ["tool_call_item", "tool_call_output_item", "message_output_item"]
    assert result.new_items[0].tool_name == "shell"
    assert isinstance(result.new_items[1].output, ShellResult)


def test_a_shell_in_a_container_of_the_providers_is_a_hosted_tool_and_one_here_is_not() -> None:
    HostedTool({"type": "shell", "environment": {"type": "container_auto"}})

    with pytest.raises(UserError, match="ShellTool"):
        HostedTool({"type": "shell", "environment": {"type": "local"}})


async def test_what_a_person_answers_in_a_shells_place_is_its_output(tmp_path: Path) -> None:
    async with responses_model([[shell_call("date")], DONE]) as (provider, model):
        agent = Agent(name="Coder", model=model, tools=[ShellTool(LocalShell(tmp_path), native=True)])
        paused = await Runner.run(agent, "go")
        state = paused.to_state()
        state.respond(paused.interruptions[0], "Monday")
        await Runner.run(agent, state)

    [content] = sent(provider, "shell_call_output")["output"]
    assert content == {"stdout": "Monday", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    assert provider.refusals == []


@pytest.mark.parametrize(
    "output",
    [
        {"type": "shell_call_output", "call_id": "s1", "output": "text"},
        {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "", "stderr": ""}]},
        {
            "type": "shell_call_output",
            "call_id": "s1",
            "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit"}}],
        },
        {"type": "apply_patch_call_output", "call_id": "s1", "output": "no status", "status": "incomplete"},
        {"type": "function_call_output", "call_id": "s1", "output": "another kind"},
    ],
)
async def test_the_fake_provider_refuses_outputs_of_another_shape(output: dict[str, Any]) -> None:
    import openai

    provider = FakeProvider([[*DONE]])
    client = provider.openai_client()
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(model="gpt-test", input=[shell_call("ls"), output])  # type: ignore[list-item]  # wrong on purpose


PICTURE = "iVBORw0KGgo="


class Screen:
    """A computer that writes down what is done to it."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def screenshot(self) -> str:
        return PICTURE

    def click(self, x: int, y: int, button: str) -> None:
        self.done.append(("click", x, y, button))

    def double_click(self, x: int, y: int) -> None:
        self.done.append(("double_click", x, y))

    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        self.done.append(("scroll", x, y, scroll_x, scroll_y))

    async def type(self, text: str) -> None:
        self.done.append(("type", text))

    def wait(self) -> None:
        self.done.append(("wait",))

    def move(self, x: int, y: int) -> None:
        self.done.append(("move", x, y))

    def keypress(self, keys: list[str]) -> None:
        self.done.append(("keypress", *keys))

    def drag(self, path: list[tuple[int, int]]) -> None:
        self.done.append(("drag", *path))


CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "Look twice."}


def computer_call(*actions: dict[str, Any], checks: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"type": "computer_call", "call_id": "c1", "actions": list(actions), "pending_safety_checks": list(checks)}


CLICK = {"type": "click", "x": 1, "y": 2, "button": "left"}


@BOTH
async def test_actions_on_a_computer_wait_and_a_screenshot_answers_them(streamed: bool) -> None:
    screen = Screen()
    actions = (CLICK, {"type": "type", "text": "hi"}, {"type": "drag", "path": [{"x": 1, "y": 1}, {"x": 2, "y": 3}]})
    async with responses_model([[computer_call(*actions, checks=(CHECK,))], DONE]) as (provider, model):
        agent = Agent(name="Clerk", model=model, tools=[ComputerTool(screen)])
        paused = await drive(agent, "go", streamed=streamed)
        [item] = paused.interruptions
        assert screen.done == []
        assert json.loads(item.arguments)["safety_checks"] == [CHECK]
        state = await RunState.from_string(agent, paused.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        await drive(agent, state, streamed=streamed)

    assert screen.done == [("click", 1, 2, "left"), ("type", "hi"), ("drag", (1, 1), (2, 3))]
    assert provider.model_requests[0].body["tools"] == [{"type": "computer"}]
    assert sent(provider, "computer_call_output") == {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PICTURE}"},
        "acknowledged_safety_checks": [CHECK],
    }
    assert provider.refusals == []


async def test_a_safety_check_asks_a_person_where_the_tool_itself_would_not() -> None:
    screen = Screen()
    calls = [[computer_call(CLICK)], [{**computer_call(CLICK, checks=(CHECK,)), "call_id": "c2"}], DONE]
    async with responses_model(calls) as (_, model):
        agent = Agent(name="Clerk", model=model, tools=[ComputerTool(screen, needs_approval=False)])
        paused = await Runner.run(agent, "go")

    assert [item.call_id for item in paused.interruptions] == ["c2"]
    assert len(screen.done) == 1


async def test_a_rejected_action_is_not_done_and_the_model_reads_why() -> None:
    screen = Screen()
    async with responses_model([[computer_call(CLICK, checks=(CHECK,))], DONE]) as (provider, model):
        agent = Agent(name="Clerk", model=model, tools=[ComputerTool(screen)])
        paused = await Runner.run(agent, "go")
        state = paused.to_state()
        state.reject(paused.interruptions[0], rejection_message="Not that button.")
        await Runner.run(agent, state)

    assert screen.done == []
    assert sent(provider, "computer_call_output")["output"]["type"] == "computer_screenshot"
    last = provider.model_requests[-1].input[-1]
    assert last["role"] == "developer"
    assert last["content"].endswith("was not carried out: Not that button.")
    assert provider.refusals == []


@BOTH
async def test_a_program_of_the_local_shell_waits_and_its_output_goes_back(streamed: bool) -> None:
    seen: list[Any] = []

    async def executor(request: LocalShellCommandRequest) -> str:
        seen.append((request.data.action.command, request.action.working_directory))
        return "two files"

    action = {"type": "exec", "command": ["ls", "-l", "my dir"], "env": {"LANG": "C"}, "working_directory": "/srv"}
    call = {"type": "local_shell_call", "call_id": "l1", "action": action}
    async with responses_model([[call], DONE]) as (provider, model):
        agent = Agent(name="Coder", model=model, tools=[LocalShellTool(executor)])
        paused = await drive(agent, "go", streamed=streamed)
        assert seen == []
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        result = await drive(agent, state, streamed=streamed)

    assert seen == [(["ls", "-l", "my dir"], "/srv")]
    assert provider.model_requests[0].body["tools"] == [{"type": "local_shell"}]
    expected = {"type": "local_shell_call_output", "id": "l1", "output": "two files"}
    assert sent(provider, "local_shell_call_output") == expected
    [output] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert output.call_id == "l1"
    assert provider.refusals == []


def test_cards_show_programs_and_actions_line_by_line() -> None:
    program = preview({"command": ["rm", "my file"], "env": {"A": "1"}})
    screen = preview({"actions": [CLICK], "safety_checks": [CHECK]})

    assert program == [("command", "rm 'my file'"), ("place", 'env: {"A":"1"}')]
    assert screen is not None
    assert [line.kind for line in screen] == ["removed", "file"]
    assert screen[1].text == 'click x=1 y=2 button="left"'


async def test_the_fake_provider_wants_a_screenshot_and_its_checks_acknowledged() -> None:
    import openai

    picture = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
    output = {"type": "computer_call_output", "call_id": "c1", "output": picture}
    call = {**computer_call(CLICK, checks=(CHECK,)), "id": "cu_1"}
    client = FakeProvider([[*DONE]]).openai_client()
    for wrong in (output, {**output, "output": "text", "acknowledged_safety_checks": [CHECK]}):
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="gpt-test", input=[call, wrong])  # type: ignore[list-item]  # wrong on purpose
