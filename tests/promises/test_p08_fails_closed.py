"""P8: only an explicit «no approval needed» runs without a decision."""

import pytest

from placet import FunctionTool, ModelBehaviorError, RunConfig, UserError, function_tool
from placet.testing import function_call
from tests.promises.scenes import DONE, drive, scene

pytestmark = pytest.mark.promise("P8")


class Undecided:
    def __bool__(self):
        return False


def raising(ctx, params, call_id):
    raise RuntimeError("no idea")


async def answering_none_late(ctx, params, call_id):
    return None


async def drive_one(rule, arguments='{"path": "/a"}'):
    effects = []

    @function_tool(needs_approval=rule)
    async def wipe(path: str) -> str:
        effects.append(path)
        return "wiped"

    ops = scene([function_call("wipe", arguments, call_id="w1")], DONE, tools=(wipe,))
    return await drive(ops.agent, "go"), effects


@pytest.mark.parametrize(
    "rule",
    [
        lambda ctx, params, call_id: None,
        lambda ctx, params, call_id: 0,
        lambda ctx, params, call_id: "",
        lambda ctx, params, call_id: "never",
        lambda ctx, params, call_id: [],
        lambda ctx, params, call_id: Undecided(),
        lambda ctx, params, call_id: True,
        lambda: False,
        raising,
        answering_none_late,
    ],
    ids=["none", "zero", "empty", "word", "list", "falsy object", "true", "wrong signature", "raises", "async none"],
)
async def test_whatever_a_rule_answers_but_false_asks_a_person(rule):
    result, effects = await drive_one(rule)

    assert effects == []
    assert [item.call_id for item in result.interruptions] == ["w1"]


async def test_the_reviewer_is_told_why_a_rule_that_failed_asks():
    raised, _ = await drive_one(raising)
    silent, _ = await drive_one(lambda ctx, params, call_id: None)

    assert "RuntimeError: no idea" in raised.interruptions[0].why
    assert "NoneType" in silent.interruptions[0].why


@pytest.mark.parametrize(
    "arguments",
    ["{not json", "[]", '"text"', "null", '{"path": "/a", "path": "/b"}', '{"path": NaN}'],
    ids=["broken", "list", "text", "null", "repeated key", "not a number"],
)
async def test_a_rule_never_judges_arguments_that_are_not_one_json_object(arguments):
    judged = []

    def rule(ctx, params, call_id):
        judged.append(params)
        return False

    result, effects = await drive_one(rule, arguments)

    assert judged == []
    assert effects == []
    assert len(result.interruptions) == 1


@pytest.mark.parametrize("rule", [False, lambda ctx, params, call_id: False], ids=["declared", "answered"])
async def test_an_explicit_false_runs_at_once(rule):
    result, effects = await drive_one(rule)

    assert effects == ["/a"]
    assert result.final_output == "done"


async def test_an_async_rule_is_given_context_arguments_and_label():
    seen = []

    async def rule(ctx, params, call_id):
        seen.append((ctx.context, params, call_id))
        return params["path"] != "/var"

    @function_tool(needs_approval=rule)
    async def wipe(path: str) -> str:
        return f"wiped {path}"

    calls = [function_call("wipe", {"path": path}, call_id=label) for path, label in (("/var", "w1"), ("/home", "w2"))]
    ops = scene(calls, DONE, tools=(wipe,))

    result = await drive(ops.agent, "go", context={"user": "ann"})

    assert sorted(seen, key=lambda each: each[2]) == [
        ({"user": "ann"}, {"path": "/var"}, "w1"),
        ({"user": "ann"}, {"path": "/home"}, "w2"),
    ]
    assert [item.call_id for item in result.interruptions] == ["w2"]


@pytest.mark.parametrize("word", ["never", "always", None, 0, 1, []], ids=repr)
def test_an_unknown_policy_word_is_refused_where_it_is_written(word):
    with pytest.raises(UserError, match="needs_approval"):

        @function_tool(needs_approval=word)
        async def wipe(path: str) -> str:
            return path


async def test_a_rule_that_was_replaced_by_a_word_after_its_declaration_asks():
    effects = []

    async def invoke(ctx, text):
        effects.append(text)
        return "ran"

    tool = FunctionTool("wipe", "", {"type": "object", "properties": {}}, invoke)
    tool.needs_approval = "never"
    ops = scene([function_call("wipe", {}, call_id="w1")], DONE, tools=(tool,))

    result = await drive(ops.agent, "go")

    assert effects == []
    assert len(result.interruptions) == 1


async def test_a_tool_that_does_not_exist_never_reaches_a_person():
    ops = scene([function_call("nowhere", {}, call_id="n1")], DONE)

    result = await drive(ops.agent, "go")

    assert result.final_output == "done"
    assert ops.sent(1) == [("n1", "Tool 'nowhere' not found.")]


async def test_a_tool_that_does_not_exist_may_end_the_run_by_configuration():
    ops = scene([function_call("nowhere", {}, call_id="n1")])

    with pytest.raises(ModelBehaviorError, match="'nowhere' not found"):
        await drive(ops.agent, "go", run_config=RunConfig(tool_not_found_behavior="raise_error"))


async def test_a_free_tool_with_malformed_arguments_answers_the_model_with_the_error():
    result, effects = await drive_one(False, "{not json")

    assert effects == []
    assert result.final_output == "done"
    assert "not one JSON object" in result.new_items[1].output


async def test_a_disabled_tool_is_as_good_as_none():
    effects = []

    @function_tool(is_enabled=lambda ctx, agent: None)
    async def wipe() -> str:
        effects.append("wiped")
        return "wiped"

    ops = scene([function_call("wipe", {}, call_id="w1")], DONE, tools=(wipe,))

    await drive(ops.agent, "go")

    assert effects == []
    assert "wipe" not in [tool.name for tool in ops.model.calls[0].request.tools]
    assert ops.sent(1) == [("w1", "Tool 'wipe' not found.")]
