"""The shell and patch tools in a run: a person sees the commands or the diff, or a callback decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import Agent, MemoryStore, RunConfig, Runner, RunState, UserError
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call
from placet.tools import (
    ApplyPatchOperation,
    ApplyPatchResult,
    ApplyPatchTool,
    LocalEditor,
    LocalShell,
    ShellActionRequest,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
)


def shell_call(*commands: str) -> Any:
    return function_call(
        "shell", {"commands": list(commands), "timeout_ms": None, "max_output_length": None}, call_id="s"
    )


def patch_call(path: str = "a.txt", diff: str = "@@\n-one\n+1\n", kind: str = "update_file") -> Any:
    operations = [{"type": kind, "path": path, "diff": diff}]
    return function_call("apply_patch", {"operations": operations}, call_id="p")


def an_agent(*calls: Any, tools: list[Any]) -> Agent[Any]:
    return Agent("Coder", tools=tools, model=ScriptedModel([list(calls), [assistant_message("done")]]))


def last_output(result: Any) -> str:
    return str([item for item in result.new_items if item.type == "tool_call_output_item"][-1].output)


async def test_commands_wait_for_a_person_and_run_in_another_process_after_the_yes(tmp_path: Path) -> None:
    agent = an_agent(shell_call("echo hi > file"), tools=[ShellTool(LocalShell(tmp_path))])
    paused = await Runner.run(agent, "go")
    assert paused.interruptions[0].name == "shell"
    assert not (tmp_path / "file").exists()

    state = await RunState.from_string(agent, paused.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)

    assert result.final_output == "done"
    assert (tmp_path / "file").read_text() == "hi\n"
    assert last_output(result) == "$ echo hi > file\n[exit code 0]"


async def test_a_rejected_patch_changes_nothing_and_an_approved_one_is_applied(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    for verdict in ("reject", "approve"):
        agent = an_agent(patch_call(), tools=[ApplyPatchTool(LocalEditor(tmp_path))])
        state = (await Runner.run(agent, "go")).to_state()
        getattr(state, verdict)(state.get_interruptions()[0])
        await Runner.run(agent, state)

        assert (tmp_path / "a.txt").read_text() == ("one\n" if verdict == "reject" else "1\n")


async def test_a_rule_judges_the_action_and_silence_asks(tmp_path: Path) -> None:
    seen: list[ShellActionRequest] = []

    def rule(_ctx: Any, action: ShellActionRequest, _call_id: str) -> Any:
        seen.append(action)
        return False if action.commands == ["ls"] else None

    free = await Runner.run(
        an_agent(shell_call("ls"), tools=[ShellTool(LocalShell(tmp_path), needs_approval=rule)]), "go"
    )
    asks = await Runner.run(
        an_agent(shell_call("rm x"), tools=[ShellTool(LocalShell(tmp_path), needs_approval=rule)]), "go"
    )

    assert free.final_output == "done"
    assert len(asks.interruptions) == 1
    assert [each.commands for each in seen] == [["ls"], ["rm x"]]


async def test_a_rule_about_patches_is_asked_for_each_operation(tmp_path: Path) -> None:
    def only_texts(_ctx: Any, operation: ApplyPatchOperation, _call_id: str) -> bool:
        return not operation.path.endswith(".txt")

    def tool() -> ApplyPatchTool:
        return ApplyPatchTool(LocalEditor(tmp_path), needs_approval=only_texts)

    free = await Runner.run(an_agent(patch_call("n.txt", "+x\n", "create_file"), tools=[tool()]), "go")
    asks = await Runner.run(an_agent(patch_call("n.py", "+x\n", "create_file"), tools=[tool()]), "go")

    assert free.final_output == "done"
    assert (tmp_path / "n.txt").exists()
    assert len(asks.interruptions) == 1
    assert not (tmp_path / "n.py").exists()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_callback_decides_in_a_persons_place(tmp_path: Path, is_async: bool) -> None:
    def judge(_ctx: Any, item: Any) -> Any:
        return {"approve": "safe" in item.arguments, "reason": "only safe ones"}

    async def judge_later(ctx: Any, item: Any) -> Any:
        return judge(ctx, item)

    callback = judge_later if is_async else judge
    yes = await Runner.run(
        an_agent(shell_call("echo safe > f"), tools=[ShellTool(LocalShell(tmp_path), on_approval=callback)]), "go"
    )
    no = await Runner.run(
        an_agent(shell_call("echo other > g"), tools=[ShellTool(LocalShell(tmp_path), on_approval=callback)]), "go"
    )

    assert (yes.final_output, no.final_output) == ("done", "done")
    assert (tmp_path / "f").exists()
    assert not (tmp_path / "g").exists()
    assert last_output(no) == "only safe ones"


@pytest.mark.parametrize("answer", [None, True, {}, {"approve": "yes"}, {"approve": None}, ValueError("broken")])
async def test_a_callback_that_does_not_decide_leaves_it_to_a_person(tmp_path: Path, answer: Any) -> None:
    def judge(_ctx: Any, _item: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    result = await Runner.run(
        an_agent(shell_call("echo x > f"), tools=[ShellTool(LocalShell(tmp_path), on_approval=judge)]), "go"
    )

    assert len(result.interruptions) == 1
    assert not (tmp_path / "f").exists()


async def test_an_executor_of_ones_own_is_given_the_request_and_its_answer_is_read(tmp_path: Path) -> None:
    async def elsewhere(request: Any) -> ShellResult:
        assert request.data.call_id == "s"
        return ShellResult([ShellCommandOutput(stdout="ran elsewhere\n", command=request.data.action.commands[0])])

    result = await Runner.run(an_agent(shell_call("make"), tools=[ShellTool(elsewhere, needs_approval=False)]), "go")

    assert last_output(result) == "$ make\nran elsewhere\n[exit code 0]"


async def test_malformed_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    call = function_call("shell", {"commands": "ls"}, call_id="s")

    result = await Runner.run(an_agent(call, tools=[ShellTool(LocalShell(tmp_path), needs_approval=False)]), "go")

    assert "commands: a list of texts is needed" in last_output(result)


async def test_an_edit_by_the_reviewer_runs_other_commands(tmp_path: Path) -> None:
    agent = an_agent(shell_call("rm -rf important"), tools=[ShellTool(LocalShell(tmp_path))])
    state = (await Runner.run(agent, "go")).to_state()
    arguments = {"commands": ["echo spared > f"], "timeout_ms": None, "max_output_length": None}
    state.approve(state.get_interruptions()[0], arguments=arguments)

    await Runner.run(agent, state)

    assert (tmp_path / "f").read_text() == "spared\n"


def test_what_is_no_executor_or_editor_is_refused_where_it_is_written() -> None:
    with pytest.raises(UserError, match="executor"):
        ShellTool("bash")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="create_file"):
        ApplyPatchTool(object())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="on_approval"):
        ShellTool(print, on_approval=True)  # type: ignore[arg-type]


async def test_a_patch_that_does_not_apply_is_a_failed_call_and_the_model_reads_why(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    agent = an_agent(patch_call(), tools=[ApplyPatchTool(LocalEditor(tmp_path), needs_approval=False)])

    result = await Runner.run(agent, "go")

    assert "hunk 1 does not fit" in last_output(result)
    assert (tmp_path / "a.txt").read_text() == "two\n"


async def test_an_editor_of_ones_own_applies_one_operation_after_the_other_until_one_fails(tmp_path: Path) -> None:
    seen: list[str] = []

    class Editor:
        def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
            seen.append(operation.path)
            return ApplyPatchResult("failed" if operation.path == "b" else "completed", f"saw {operation.path}")

        update_file = delete_file = create_file

    operations = [{"type": "create_file", "path": path, "diff": "+x\n"} for path in "abc"]
    call = function_call("apply_patch", {"operations": operations}, call_id="p")

    result = await Runner.run(an_agent(call, tools=[ApplyPatchTool(Editor(), needs_approval=False)]), "go")

    assert seen == ["a", "b"]
    assert last_output(result) == "saw a\nsaw b"


def make_shell(**options: Any) -> Any:
    return ShellTool(lambda _request: "ran", **options)


def make_patch(**options: Any) -> Any:
    class Editor:
        def create_file(self, operation: ApplyPatchOperation) -> str:
            return "created"

        update_file = delete_file = create_file

    return ApplyPatchTool(Editor(), **options)


@pytest.mark.parametrize("make", [make_shell, make_patch])
@pytest.mark.parametrize("rule", ["never", "always", None, 0, 1, []])
def test_a_rule_that_is_none_is_refused_where_it_is_written(make: Any, rule: Any) -> None:
    with pytest.raises(UserError, match="needs_approval is True, False or a function"):
        make(needs_approval=rule)


@pytest.mark.parametrize(("make", "call"), [(make_shell, shell_call("ls")), (make_patch, patch_call())])
async def test_deadlines_are_as_for_other_tools(make: Any, call: Any) -> None:
    clock = ManualClock()
    config = RunConfig(clock=clock)
    late = an_agent(call, tools=[make(decide_within=60)])
    state = (await Runner.run(late, "go", run_config=config, store=MemoryStore())).to_state()
    clock.advance(61)
    ended = await Runner.run(late, state, run_config=config, store=MemoryStore())
    assert "it was not decided" in last_output(ended)

    unused = an_agent(call, tools=[make(approval_valid_for=60)])
    state = (await Runner.run(unused, "go", run_config=config, store=MemoryStore())).to_state()
    state.approve(state.get_interruptions()[0])
    clock.advance(61)
    asked = await Runner.run(unused, state, run_config=config, store=MemoryStore())
    assert len(asked.interruptions) == 1

    escalated = an_agent(call, tools=[make(decide_within=60, at_deadline="escalate")])
    state = (await Runner.run(escalated, "go", run_config=config, store=MemoryStore())).to_state()
    clock.advance(61)
    waits = await Runner.run(escalated, state, run_config=config, store=MemoryStore())
    assert len(waits.interruptions) == 1


@pytest.mark.parametrize("make", [make_shell, make_patch])
def test_a_deadline_that_is_none_is_refused_where_it_is_written(make: Any) -> None:
    with pytest.raises(UserError, match="at_deadline"):
        make(at_deadline="approve")
    with pytest.raises(UserError, match="decide_within"):
        make(decide_within=-1)


@pytest.mark.parametrize(
    ("make", "name", "arguments"),
    [
        (make_shell, "shell", {"commands": ["ls"], "folder": "/"}),
        (make_shell, "shell", {"commands": []}),
        (make_shell, "shell", {"commands": ["ls"], "timeout_ms": True}),
        (
            make_patch,
            "apply_patch",
            {"operations": [{"type": "delete_file", "path": "a", "diff": None, "force": True}]},
        ),
    ],
)
async def test_what_would_not_run_as_it_is_shown_reaches_nobody(make: Any, name: str, arguments: Any) -> None:
    agent = an_agent(function_call(name, arguments, call_id="c"), tools=[make()])
    result = await Runner.run(agent, "go", store=MemoryStore())

    assert result.interruptions == []
    assert "invalid" in last_output(result)


async def test_limits_that_are_left_out_are_not_missed() -> None:
    agent = an_agent(function_call("shell", {"commands": ["ls"]}, call_id="c"), tools=[make_shell()])
    result = await Runner.run(agent, "go", store=MemoryStore())

    assert [item.arguments for item in result.interruptions] == ['{"commands": ["ls"]}']
