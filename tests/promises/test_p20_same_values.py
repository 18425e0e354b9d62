"""P20: rule, card, digest and tool function see the same values."""

import asyncio
import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any

import pydantic
import pytest

from placet import Agent, Grant, MemoryStore, RunConfig, Runner, RunState, function_tool, handoff, tool_input_guardrail
from placet.declare.guardrail import ToolGuardrailFunctionOutput
from placet.testing import ScriptedModel, function_call
from tests.promises.scenes import DONE, drive, facts, kinds, outputs, reloaded

pytestmark = pytest.mark.promise("P20")


def agent_with(*tools: Any, steps: Any, **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(list(steps))
    return Agent("ops", tools=list(tools), model=model, **options), model


def deploy_tool(ran, rule):
    @function_tool(needs_approval=rule, strict_mode=False)
    async def deploy(env: str = "prod", force: bool = False, cents: int = 0) -> str:
        ran.append((env, force, cents))
        return "deployed"

    return deploy


RULES = {
    "a default": (lambda p: p.get("env") == "prod", ["{}", "", " "]),
    "a truth value as text": (lambda p: p.get("force") is True, ['{"env": "test", "force": "yes"}']),
    "a number as text": (lambda p: p.get("cents", 0) == 666, ['{"env": "test", "cents": "666"}']),
    "a number with a point": (lambda p: type(p.get("cents")) is int and p["cents"] > 5, ['{"cents": 7.0}']),
}


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [pytest.param(rule, text, id=f"{name} {text!r}") for name, (rule, texts) in RULES.items() for text in texts],
)
async def test_a_rule_judges_what_the_function_would_get(rule, arguments):
    ran: list[Any] = []
    tool = deploy_tool(ran, lambda _ctx, params, _id: rule(params))
    agent, _ = agent_with(tool, steps=[[function_call("deploy", arguments, call_id="c1")], DONE])

    paused = await drive(agent, "go")

    assert ran == []
    assert len(paused.interruptions) == 1


async def test_card_digest_rule_and_function_see_the_same_values_also_in_another_process():
    seen, ran = [], []

    def rule(_ctx, params, _id):
        seen.append(params)
        return True

    tool = deploy_tool(ran, rule)
    agent, model = agent_with(tool, steps=[[function_call("deploy", {"cents": "666"}, call_id="c1")], DONE])
    paused = await drive(agent, "go")
    state = await reloaded(agent, paused)
    (item,) = state.get_interruptions()
    state.approve(item)
    result = await drive(agent, await reloaded(agent, state), store=MemoryStore())

    values = {"env": "prod", "force": False, "cents": 666}
    assert seen == [values]
    assert json.loads(item.arguments) == values
    assert json.loads(item.proposed_arguments) == {"cents": "666"}
    assert ran == [("prod", False, 666)]
    assert result.final_output == "done"
    sent = [each for each in model.calls[1].input if each.get("type") == "function_call"]
    assert json.loads(sent[0]["arguments"]) == {"cents": "666"}  # the history keeps the model's own call


async def test_arguments_that_validation_leaves_alone_are_shown_to_the_letter_and_stored_once():
    ran: list[Any] = []
    tool = deploy_tool(ran, True)
    text = '{"env": "test",  "force": true, "cents": 5}'
    agent, _ = agent_with(tool, steps=[[function_call("deploy", text, call_id="c1")], DONE])

    paused = await drive(agent, "go")

    (item,) = paused.interruptions
    assert item.arguments == text
    assert item.proposed_arguments is None
    assert "values" not in kinds(paused)


@pytest.mark.parametrize("text", ['{"n": true}', '{"n": false}', '{"many": [1, true]}', '{"deep": {"x": true}}'])
@pytest.mark.parametrize("gated", [True, False])
async def test_a_truth_value_for_a_number_is_refused_and_nobody_is_asked(text, gated):
    ran = []

    class Deep(pydantic.BaseModel):
        x: float = 0.0

    async def count(n: int = 0, many: list[int] = [], deep: Deep = Deep()) -> str:  # noqa: B006, B008  # pydantic copies them
        ran.append(n)
        return "counted"

    count.__annotations__["deep"] = Deep
    tool = function_tool(needs_approval=gated, strict_mode=False)(count)
    agent, model = agent_with(tool, steps=[[function_call("count", text, call_id="c1")], DONE])

    result = await drive(agent, "go")

    assert ran == []
    assert result.interruptions == []
    assert "invalid" in outputs(model.calls[1].input)[0][1]


async def test_invalid_arguments_of_a_gated_tool_answer_the_model_and_reach_no_person_and_no_rule():
    asked: list[Any] = []
    ran: list[Any] = []
    tool = deploy_tool(ran, lambda *_: asked.append(1) or True)
    agent, model = agent_with(tool, steps=[[function_call("deploy", {"cents": "many"}, call_id="c1")], DONE])

    result = await drive(agent, "go")

    assert (asked, ran, result.interruptions) == ([], [], [])
    assert "cents" in outputs(model.calls[1].input)[0][1]


async def test_a_default_that_is_made_anew_each_time_is_made_once_and_stored():
    ran, seen = [], []

    def rule(_ctx, params, _id):
        seen.append(params["key"])
        return True

    @function_tool(needs_approval=rule, strict_mode=False)
    async def pay(key: Annotated[str, pydantic.Field(default_factory=lambda: uuid.uuid4().hex)]) -> str:
        ran.append(key)
        return "paid"

    agent, _ = agent_with(pay, steps=[[function_call("pay", {}, call_id="c1")], DONE])
    paused = await drive(agent, "go")
    state = await reloaded(agent, paused)
    (item,) = state.get_interruptions()
    state.approve(item)
    await drive(agent, state, store=MemoryStore())

    assert ran == seen == [json.loads(item.arguments)["key"]]


class Colour(str, enum.Enum):  # noqa: UP042  # the older way, whose str() is not its value
    RED = "red"


class Line(pydantic.BaseModel):
    sku: str
    count: int = 1
    price: Decimal = Decimal("1.50")


@pytest.mark.parametrize("gated", [True, False])
async def test_types_that_json_does_not_have_reach_the_function_as_they_were_shown(gated):
    ran = []

    async def order(
        line: Line, when: dt.datetime, tags: set[str], colour: Colour = Colour.RED, who: int | str = 0
    ) -> str:
        ran.append((line, when, tags, colour, who))
        return "ordered"

    tool = function_tool(needs_approval=gated, strict_mode=False)(order)
    given = {"line": {"sku": "a", "count": "2"}, "when": "2026-01-02T03:04:05Z", "tags": ["b", "a", "b"]}
    agent, _ = agent_with(tool, steps=[[function_call("order", given, call_id="c1")], DONE])
    result = await drive(agent, "go")
    if gated:
        state = await reloaded(agent, result)
        (item,) = state.get_interruptions()
        shown = json.loads(item.arguments)
        assert shown["line"] == {"sku": "a", "count": 2, "price": "1.50"}
        assert shown["tags"] == ["a", "b"]
        assert shown["colour"] == "red"
        state.approve(item)
        await drive(agent, state, store=MemoryStore())

    when = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert ran == [(Line(sku="a", count=2), when, {"a", "b"}, Colour.RED, 0)]


async def test_where_json_cannot_hold_what_validation_makes_a_rule_cannot_judge_and_a_person_is_asked():
    ran = []

    @function_tool(needs_approval=lambda _ctx, params, _id: params["cents"] > 1000, strict_mode=False)
    async def pay(cents: Annotated[int, pydantic.AfterValidator(lambda euros: euros * 100)]) -> str:
        ran.append(cents)
        return "paid"

    agent, _ = agent_with(pay, steps=[[function_call("pay", {"cents": 50}, call_id="c1")], DONE])
    paused = await drive(agent, "go")

    assert ran == []
    assert "cents" in paused.interruptions[0].why
    state = await reloaded(agent, paused)
    state.approve(state.get_interruptions()[0])
    await drive(agent, state, store=MemoryStore())
    assert ran == [5000]


async def test_a_secret_parameter_reaches_the_function_and_not_its_mask():
    ran = []

    @function_tool(needs_approval=True, strict_mode=False)
    async def log_in(password: pydantic.SecretStr, host: str = "a") -> str:
        ran.append(password.get_secret_value())
        return "in"

    agent, _ = agent_with(log_in, steps=[[function_call("log_in", {"password": "pw"}, call_id="c1")], DONE])
    state = await reloaded(agent, await drive(agent, "go"))
    state.approve(state.get_interruptions()[0])
    await drive(agent, state, store=MemoryStore())

    assert ran == ["pw"]


async def test_an_edit_is_completed_by_validation_before_it_is_decided():
    ran: list[Any] = []
    tool = deploy_tool(ran, True)
    agent, model = agent_with(tool, steps=[[function_call("deploy", {"env": "a"}, call_id="c1")], DONE])
    state = await reloaded(agent, await drive(agent, "go"))
    state.approve(state.get_interruptions()[0], arguments={"cents": "5"})
    state = await reloaded(agent, state)
    result = await drive(agent, state, store=MemoryStore())

    (decided,) = [fact for fact in facts(result) if fact[0] == "decide"]
    assert {"env": "prod", "force": False, "cents": 5} in decided
    assert ran == [("prod", False, 5)]
    assert '"cents":5' in outputs(model.calls[1].input)[0][1]


async def test_a_grant_for_certain_arguments_looks_at_the_values_that_would_run():
    ran: list[Any] = []
    tool = deploy_tool(ran, True)
    steps = [
        [function_call("deploy", {"env": "test"}, call_id="c1")],
        [function_call("deploy", {"cents": "0"}, call_id="c2"), function_call("deploy", {"env": "test"}, call_id="c3")],
        DONE,
    ]
    agent, _ = agent_with(tool, steps=steps)
    state = (await drive(agent, "go")).to_state()
    bounds = Grant(arguments={"env": "test", "cents": 0})
    state.approve(state.get_interruptions()[0], always_approve=bounds)
    paused = await drive(agent, state)

    assert ran == [("test", False, 0), ("test", False, 0)]
    assert [item.call_id for item in paused.interruptions] == ["c2"]  # it would run on prod


async def test_a_tools_guardrails_judge_the_values_too():
    seen, ran = [], []

    @tool_input_guardrail
    def look(data):
        seen.append(json.loads(data.context.tool_arguments))
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[look], strict_mode=False)
    async def deploy(env: str = "prod") -> str:
        ran.append(env)
        return "deployed"

    agent, _ = agent_with(deploy, steps=[[function_call("deploy", "", call_id="c1")], DONE])
    await drive(agent, "go")

    assert seen == [{"env": "prod"}]
    assert ran == ["prod"]


async def test_on_approval_sees_the_values():
    seen, ran = [], []

    def decide(_ctx, item):
        seen.append(json.loads(item.arguments))
        return {"approve": True}

    tool = deploy_tool(ran, True)
    tool.on_approval = decide
    agent, _ = agent_with(tool, steps=[[function_call("deploy", "{}", call_id="c1")], DONE])
    await drive(agent, "go")

    assert seen == [{"env": "prod", "force": False, "cents": 0}]
    assert ran == [("prod", False, 0)]


async def test_a_retried_call_runs_with_the_values_of_its_first_attempt():
    keys: list[str] = []
    began = asyncio.Event()

    @function_tool(recovery="retry", strict_mode=False)
    async def pay(key: Annotated[str, pydantic.Field(default_factory=lambda: uuid.uuid4().hex)]) -> str:
        keys.append(key)
        if len(keys) == 1:
            began.set()
            await asyncio.Event().wait()
        return "paid"

    agent, _ = agent_with(pay, steps=[[function_call("pay", {}, call_id="c1")], DONE])
    result = Runner.run_streamed(agent, "go", store=MemoryStore())
    await asyncio.wait_for(began.wait(), 120)
    result.cancel()
    async for _ in result.stream_events():
        pass
    await drive(agent, await reloaded(agent, result.to_state()), store=MemoryStore())

    assert len(keys) == 2
    assert keys[0] == keys[1]


async def test_the_input_of_an_agent_behind_a_tool_is_completed_and_shown():
    class Question(pydantic.BaseModel):
        text: str
        depth: int = 3

    inner_model = ScriptedModel([DONE])
    inner = Agent("inner", model=inner_model)
    tool = inner.as_tool("ask", parameters=Question, needs_approval=lambda _c, params, _i: params["depth"] == 3)
    agent, _ = agent_with(tool, steps=[[function_call("ask", {"text": "why"}, call_id="c1")], DONE])
    state = await reloaded(agent, await drive(agent, "go"))
    (item,) = state.get_interruptions()
    state.approve(item)
    await drive(agent, state, store=MemoryStore())

    assert json.loads(item.arguments) == {"text": "why", "depth": 3}
    assert json.loads(inner_model.calls[0].input[0]["content"]) == {"text": "why", "depth": 3}


async def test_a_handoffs_input_refuses_a_truth_value_for_a_number():
    class Reason(pydantic.BaseModel):
        level: int

    given: list[Any] = []
    other = Agent("other", model=ScriptedModel([DONE]))
    over = handoff(other, input_type=Reason, on_handoff=lambda _ctx, data: given.append(data))
    call = function_call("transfer_to_other", {"level": True}, call_id="c1")
    agent, model = agent_with(steps=[[call], DONE], handoffs=[over])
    await drive(agent, "go")

    assert given == []
    assert "level" in outputs(model.calls[1].input)[0][1]


async def test_an_approval_that_waited_under_the_first_digests_stays_good():
    """The first version took the digest of the model's own text: what waited under it runs as it would have."""
    ran: list[Any] = []
    tool = deploy_tool(ran, True)
    agent, _ = agent_with(tool, steps=[DONE])
    state = await RunState.from_json(agent, old_state(tool, "{}"))
    (item,) = state.get_interruptions()
    state.approve(item)
    result = await drive(agent, state, store=MemoryStore(), run_config=RunConfig(model=agent.model))

    assert ran == [("prod", False, 0)]
    assert result.final_output == "done"


async def test_altered_arguments_void_an_approval_under_the_first_digests_too():
    ran: list[Any] = []
    tool = deploy_tool(ran, True)
    agent, _ = agent_with(tool, steps=[DONE])
    state = await RunState.from_json(agent, old_state(tool, "{}"))
    state.approve(state.get_interruptions()[0])
    text = state.to_string().replace('"arguments":"{}"', '"arguments":"{\\"env\\":\\"x\\"}"')
    result = await drive(agent, await RunState.from_string(agent, text), store=MemoryStore())

    assert ran == []
    assert len(result.interruptions) == 1


def old_state(tool, arguments):
    """A state as the first version wrote it: a digest without a version, of the arguments as the model wrote them."""
    import hashlib

    from placet.core.log import Log
    from placet.facts.codec import canonical
    from placet.facts.events import CallHeld, RequestSent, ResponseReceived, RunStarted, Usage

    shown = ["", "ops", "function:deploy", tool.fingerprint, json.loads(arguments)]
    digest = hashlib.blake2b(canonical(shown), digest_size=16).hexdigest()
    call = {"type": "function_call", "name": "deploy", "arguments": arguments, "call_id": "c1"}
    log = Log("run_old", bytes(16))
    for made in (
        [RunStarted("ops", "go", 10), RequestSent()],
        [ResponseReceived("resp_1", [call], Usage(1))],
        [CallHeld("1.0", digest, "function:deploy", tool.fingerprint)],
    ):
        log.append(log.next_line(1.0, made))
    lines = [json.loads(line) for line in log.lines]
    return {"placet": 1, "run": "run_old", "key": log.key.hex(), "head": log.head.hex(), "log": lines}
