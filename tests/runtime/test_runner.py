"""The runner: results, hooks, instructions, structured output, errors with a state, models that answer nonsense."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

from placet import (
    Agent,
    AgentHooks,
    DeliveryUnknown,
    LimitExceeded,
    Limits,
    MaxTurnsExceeded,
    MemoryStore,
    MessageOutputItem,
    ModelBehaviorError,
    ModelResponse,
    ModelSettings,
    ReasoningItem,
    Reconciled,
    RequestNotTaken,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ToolCallItem,
    ToolCallOutputItem,
    ToolRaised,
    Usage,
    UserError,
    default_store,
    function_tool,
)
from placet.testing import ModelStep, ScriptedModel, assistant_message, function_call, reasoning
from tests.runtime.scenes import OwnStore, Tools, call, done, go, model_of, outputs, reloaded, scripted, shown

# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_result_tells_all_that_happened(streamed: bool) -> None:
    tools = Tools()
    agent = scripted(
        [[reasoning("hm"), call("look", 1, "a"), {"type": "web_search_call", "id": "w"}], done("bye")], tools.free()
    )
    result = await go(agent, "hello", streamed)

    assert result.final_output == "bye"
    assert result.interruptions == []
    assert [type(item) for item in result.new_items] == [
        ReasoningItem,
        ToolCallItem,
        ToolCallItem,
        ToolCallOutputItem,
        MessageOutputItem,
    ]
    assert result.new_items[3].output == "look 1"
    assert result.new_items[4].text == "bye"
    assert all(item.agent is agent for item in result.new_items)
    assert [response.response_id for response in result.raw_responses] == ["resp_1", "resp_2"]
    assert result.last_response_id == "resp_2"
    assert result.last_agent is agent
    assert result.input == [{"role": "user", "content": "hello"}]


async def test_to_input_list_is_the_input_of_a_next_run() -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], done("one"), done("two")], tools.free())
    first = await go(agent, "hello")
    second = await go(agent, [*first.to_input_list(), {"role": "user", "content": "and?"}])
    sent = model_of(agent).calls[2].input

    assert second.final_output == "two"
    assert [item.get("type") or item["role"] for item in sent] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
        "user",
    ]


async def test_final_output_as_checks_only_if_asked() -> None:
    result = await go(scripted([done("text")]), "go")

    assert result.final_output_as(str, raise_if_incorrect_type=True) == "text"
    assert result.final_output_as(int) == "text"
    with pytest.raises(TypeError, match="int"):
        result.final_output_as(int, raise_if_incorrect_type=True)


async def test_the_last_message_of_a_response_is_the_final_output() -> None:
    assert (await go(scripted([[assistant_message("one"), assistant_message("two")]]), "go")).final_output == "two"


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "refusal", "refusal": "I will not"}],
        "I will not",
        [{"type": "output_text", "text": "I will "}, {"type": "output_text", "text": "not"}],
    ],
    ids=str,
)
async def test_texts_of_several_shapes_are_read(content: Any) -> None:
    agent = scripted([[{"type": "message", "role": "assistant", "content": content}]])

    assert (await go(agent, "go")).final_output == "I will not"


@pytest.mark.parametrize(
    "given", [5, [5], [object()], ["text"], [{"role": "user", "content": {1, 2}}], None], ids=shown
)
async def test_input_that_cannot_be_written_down_is_refused(given: Any) -> None:
    with pytest.raises(UserError):
        await go(scripted([done()]), given)


async def test_an_agent_without_a_model_asks_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "gpt-of-choice")
    with pytest.raises(UserError, match="The model 'gpt-of-choice' needs a key"):
        await go(Agent("Clerk"), "go")


async def test_a_model_of_the_configuration_takes_the_place_of_the_agents() -> None:
    other = ScriptedModel([done("other")])
    result = await go(scripted([]), "go", run_config=RunConfig(model=other))

    assert result.final_output == "other"


async def test_settings_of_the_configuration_are_laid_over_the_agents() -> None:
    agent = scripted([done()], model_settings=ModelSettings(temperature=0.1, max_tokens=5))
    await go(agent, "go", run_config=RunConfig(model_settings=ModelSettings(temperature=0.9)))
    settings = model_of(agent).calls[0].request.model_settings

    assert (settings.temperature, settings.max_tokens) == (0.9, 5)


async def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="max_turn"):
        await Runner.run(scripted([done()]), "go", max_turn=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [{"previous_response_id": "r"}, {"auto_previous_response_id": True}], ids=str)
async def test_a_run_continues_a_conversation_or_a_response_but_not_both(options: Any) -> None:
    with pytest.raises(UserError, match="conversation_id"):
        await go(scripted([done()]), "go", conversation_id="c", **options)


async def test_a_run_is_kept_in_the_store_that_was_given() -> None:
    store = MemoryStore()
    agent = scripted([[call("pay", 1, "a")]], Tools().gated())
    result = await go(agent, "go", store=store)

    assert await store.load(result.run_id) is not None
    assert await default_store().load(result.run_id) is None


# -- sync --------------------------------------------------------------------------------------------------------------


def test_run_sync_works_where_no_loop_runs() -> None:
    tools = Tools()
    agent = scripted([[call("pay", 1, "a")], done()], tools.gated())
    result = Runner.run_sync(agent, "go")
    state = result.to_state()
    state.approve(state.get_interruptions()[0])

    assert Runner.run_sync(agent, state).final_output == "done"
    assert tools.ran == [("pay", 1)]


async def test_run_sync_is_refused_where_a_loop_runs() -> None:
    agent = scripted([done()])
    with pytest.raises(UserError, match=r"await Runner\.run"):
        Runner.run_sync(agent, "go")

    assert model_of(agent).calls == []


# -- instructions, structured output -----------------------------------------------------------------------------------


async def test_instructions_may_be_a_text_or_a_function_sync_or_async() -> None:
    async def later(ctx: Any, agent: Agent[Any]) -> str:
        return f"{agent.name} helps {ctx.context}"

    for instructions, expected in (
        (None, None),
        ("Be brief.", "Be brief."),
        (lambda ctx, agent: f"{agent.name} serves {ctx.context}", "Clerk serves Zoë"),
        (later, "Clerk helps Zoë"),
    ):
        agent = scripted([done()], instructions=instructions)
        await go(agent, "go", context="Zoë")

        assert model_of(agent).calls[0].request.system_instructions == expected


async def test_dynamic_instructions_are_asked_before_every_request() -> None:
    asked: list[int] = []

    def instructions(ctx: Any, agent: Any) -> str:
        asked.append(ctx.usage.requests)
        return "x"

    agent = scripted([[call("look", 1, "a")], done()], Tools().free(), instructions=instructions)
    await go(agent, "go")

    assert asked == [0, 1]


async def test_instructions_that_raise_end_the_drive_with_a_state() -> None:
    is_broken = [True]

    def instructions(ctx: Any, agent: Any) -> str:
        if is_broken[0]:
            raise LookupError("no template")
        return "fine"

    agent = scripted([done()], instructions=instructions)
    with pytest.raises(LookupError) as caught:
        await go(agent, "go")
    is_broken[0] = False

    assert (await go(agent, caught.value.state)).final_output == "done"  # type: ignore[attr-defined]


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_final_output_is_of_the_agents_output_type(streamed: bool) -> None:
    agent = scripted([done('{"city": "Bern", "degrees": 3}')], output_type=Weather)
    result = await go(agent, "go", streamed)
    schema = model_of(agent).calls[0].request.output_schema

    assert result.final_output == Weather(city="Bern", degrees=3)
    assert schema is not None
    assert set(schema["properties"]) == {"city", "degrees"}  # type: ignore[call-overload]


async def test_a_typed_final_output_survives_storing() -> None:
    agent = scripted(
        [[call("pay", 1, "a")], done('[{"city": "Bern", "degrees": 3}]')], Tools().gated(), output_type=list[Weather]
    )
    state = (await go(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = await go(agent, await reloaded(agent, state))
    again = await go(agent, await reloaded(agent, result.to_state()), store=OwnStore())

    assert result.final_output == again.final_output == [Weather(city="Bern", degrees=3)]


@pytest.mark.parametrize("text", ["sunny", "{}", '{"city": "Bern", "degrees": "cold"}', ""])
async def test_an_answer_that_is_not_of_the_output_type_is_an_error_and_can_be_asked_again(text: str) -> None:
    agent = scripted([done(text), done('{"city": "Bern", "degrees": 3}')], output_type=Weather)
    with pytest.raises(ModelBehaviorError, match="output_type") as caught:
        await go(agent, "go")
    result = await go(agent, caught.value.state)

    assert result.final_output == Weather(city="Bern", degrees=3)


# -- hooks -------------------------------------------------------------------------------------------------------------


class Recorder(RunHooks[Any]):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.heard.append(f"start {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard.append(f"end {output}")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.heard.append(f"ask {system_prompt} {len(input_items)}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.heard.append(f"answer {response.response_id}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard.append(f"call {tool.name} {context.tool_call_id}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(f"result {tool.name} {result}")


HEARD = [
    "start Clerk",
    "ask Hi 1",
    "answer resp_1",
    "call look a",
    "result look look 1",
    "ask Hi 3",
    "answer resp_2",
    "end bye",
]


@pytest.mark.parametrize("streamed", [False, True])
async def test_hooks_hear_what_happens_in_order(streamed: bool) -> None:
    hooks = Recorder()
    agent = scripted([[call("look", 1, "a")], done("bye")], Tools().free(), instructions="Hi")
    await go(agent, "go", streamed, hooks=hooks)

    assert hooks.heard == HEARD


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agents_own_hooks_hear_the_same(streamed: bool) -> None:
    heard = Recorder()

    class Own(AgentHooks[Any]):
        on_start = staticmethod(heard.on_agent_start)
        on_end = staticmethod(heard.on_agent_end)
        on_llm_start = staticmethod(heard.on_llm_start)
        on_llm_end = staticmethod(heard.on_llm_end)
        on_tool_start = staticmethod(heard.on_tool_start)
        on_tool_end = staticmethod(heard.on_tool_end)

    agent = scripted([[call("look", 1, "a")], done("bye")], Tools().free(), instructions="Hi", hooks=Own())
    await go(agent, "go", streamed)

    assert heard.heard == HEARD


async def test_hooks_do_not_hear_the_start_again_at_resumption_nor_of_bodies_that_never_ran() -> None:
    hooks = Recorder()
    agent = scripted([[call("pay", 1, "a")], done("bye")], Tools().gated())
    state = (await go(agent, "go", hooks=hooks)).to_state()
    hooks.heard.clear()
    state.reject(state.get_interruptions()[0])
    await go(agent, state, hooks=hooks)

    assert hooks.heard == ["ask None 3", "answer resp_2", "end bye"]


@pytest.mark.parametrize(
    "name", ["on_agent_start", "on_llm_start", "on_llm_end", "on_tool_start", "on_tool_end", "on_agent_end"]
)
async def test_a_hook_that_raises_ends_the_drive_and_nothing_is_lost(name: str) -> None:
    class Broken(RunHooks[Any]):
        pass

    async def broken(self: Any, *_: Any) -> None:
        raise LookupError(name)

    setattr(Broken, name, broken)
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], done("bye"), done("bye")], tools.free())
    raised = ToolRaised if "_tool_" in name else LookupError  # around a tool it counts as the tool's, with its cause
    with pytest.raises(raised, match=name) as caught:
        await go(agent, "go", hooks=Broken())
    assert isinstance(caught.value.__cause__ if raised is ToolRaised else caught.value, LookupError)
    result = await go(agent, caught.value.state)  # type: ignore[attr-defined]

    assert result.final_output == "bye"
    assert len([each for each in tools.ran if each == ("look", 1)]) <= 1
    if name != "on_tool_start":
        assert tools.ran == [("look", 1)]


# -- usage -------------------------------------------------------------------------------------------------------------


async def test_usage_is_summed_over_pauses_in_any_process() -> None:
    usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15, cached_tokens=2, reasoning_tokens=1)
    agent = scripted(
        [
            ModelStep([call("pay", 1, "a")], usage=usage),
            ModelStep([call("pay", 2, "b")], usage=usage),
            ModelStep(done(), usage=usage),
        ],
        Tools().gated(),
    )
    result = await go(agent, "go")
    for _ in range(2):
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await go(agent, state, store=OwnStore())

    assert result.context_wrapper.usage == Usage(3, 30, 15, 45, 6, 3)


async def test_a_resumed_run_does_not_change_the_usage_of_an_earlier_snapshot() -> None:
    agent = scripted([[call("pay", 1, "a")], done()], Tools().gated())
    first = await go(agent, "go")
    state = first.to_state()
    state.approve(state.get_interruptions()[0])
    await go(agent, state)

    assert state.context.usage.requests == 1
    assert first.context_wrapper.usage.requests == 1


# -- errors carry the state --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_errors_of_our_own_carry_the_state(streamed: bool) -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], done()], tools.free())
    with pytest.raises(MaxTurnsExceeded) as caught:
        await go(agent, "go", streamed, max_turns=1)
    state = caught.value.state
    assert isinstance(state, RunState)
    result = await go(agent, await reloaded(agent, state), streamed, max_turns=5)

    assert result.final_output == "done"
    assert tools.ran == [("look", 1)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_foreign_exceptions_carry_the_state_too(streamed: bool) -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], ConnectionError("no line"), done()], tools.free())
    with pytest.raises(ConnectionError, match="no line") as caught:
        await go(agent, "go", streamed)
    result = await go(agent, caught.value.state, streamed)  # type: ignore[attr-defined]

    assert result.final_output == "done"
    assert tools.ran == [("look", 1)]
    assert outputs(agent) == ["look 1"]


async def test_an_exception_that_cannot_hold_a_state_passes_as_it_is() -> None:
    class Rigid(Exception):
        __slots__ = ()

        @property
        def state(self) -> None:
            return None

    with pytest.raises(Rigid):
        await go(scripted([Rigid()]), "go")


async def test_the_log_limit_is_an_error_that_names_it_and_carries_a_state() -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], done("x" * 2_000), done()], tools.free())
    with pytest.raises(LimitExceeded, match="1000 bytes") as caught:
        await go(agent, "go", run_config=RunConfig(limits=Limits(log=1_000)))
    result = await go(agent, caught.value.state)

    assert result.final_output == "done"
    assert tools.ran == [("look", 1)]


# -- delivery ----------------------------------------------------------------------------------------------------------

MODES: dict[str, dict[str, Any]] = {
    "own": {},
    "chained": {"previous_response_id": "resp_0"},
    "auto": {"auto_previous_response_id": True},
    "conversation": {"conversation_id": "conv"},
}


@pytest.mark.parametrize("mode", MODES)
async def test_each_way_of_delivering_sends_what_it_should(mode: str) -> None:
    agent = scripted([[call("look", 1, "a")], [call("look", 2, "b")], done()], Tools().free())
    await go(agent, "go", **MODES[mode])
    requests = model_of(agent).calls

    sizes, previous = [len(each.input) for each in requests], [each.previous_response_id for each in requests]
    if mode == "own":
        assert (sizes, previous) == ([1, 3, 5], [None, None, None])
    else:
        assert sizes == [1, 1, 1]
        assert (
            previous
            == {
                "chained": ["resp_0", "resp_1", "resp_2"],
                "auto": [None, "resp_1", "resp_2"],
                "conversation": [None, None, None],
            }[mode]
        )
    assert {each.conversation_id for each in requests} == ({"conv"} if mode == "conversation" else {None})


@pytest.mark.parametrize("mode", ["own", "chained", "auto"])
@pytest.mark.parametrize("error", [ConnectionError("lost"), RequestNotTaken("busy")], ids=["lost", "refused"])
async def test_a_failed_request_is_sent_again_with_the_same_content(mode: str, error: Exception) -> None:
    agent = scripted([[call("look", 1, "a")], error, done()], Tools().free())
    with pytest.raises(type(error)) as caught:
        await go(agent, "go", **MODES[mode])
    result = await go(agent, caught.value.state)  # type: ignore[attr-defined]
    _, failed, again = model_of(agent).calls

    assert result.final_output == "done"
    assert (again.input, again.previous_response_id) == (failed.input, failed.previous_response_id)


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_unknown_delivery_into_a_conversation_stops_the_run_until_a_person_settles_it(streamed: bool) -> None:
    agent = scripted(
        [[call("look", 1, "a")], ModelStep(raises=ConnectionError("lost"), delivered=None), done()], Tools().free()
    )
    with pytest.raises(DeliveryUnknown, match="resend=True") as caught:
        await go(agent, "go", streamed, conversation_id="conv")
    assert isinstance(caught.value.__cause__, ConnectionError)
    state = await reloaded(agent, caught.value.state)  # type: ignore[arg-type]
    with pytest.raises(DeliveryUnknown):
        await go(agent, state, streamed)
    asked = len(model_of(agent).calls)
    result = await go(agent, state, streamed, resend=True)

    assert asked == 2
    assert result.final_output == "done"
    assert outputs(agent) == ["look 1"]


async def test_told_that_a_request_was_taken_nothing_of_it_is_sent_again() -> None:
    agent = scripted(
        [[call("look", 1, "a")], ModelStep(raises=ConnectionError("lost"), delivered=None), done()], Tools().free()
    )
    with pytest.raises(DeliveryUnknown) as caught:
        await go(agent, "go", conversation_id="conv")
    result = await go(agent, caught.value.state, resend=False)

    assert result.final_output == "done"
    assert model_of(agent).calls[2].input == []


@pytest.mark.parametrize(("taken", "sent_again"), [(True, []), (False, ["look 1"])])
async def test_a_conversation_that_shows_what_became_of_a_request_settles_it(
    taken: bool, sent_again: list[str]
) -> None:
    agent = scripted(
        [[call("look", 1, "a")], ModelStep(raises=ConnectionError("lost"), delivered=taken), done()], Tools().free()
    )
    with pytest.raises(ConnectionError) as caught:
        await go(agent, "go", conversation_id="conv")
    result = await go(agent, caught.value.state)  # type: ignore[attr-defined]

    assert result.final_output == "done"
    assert outputs(agent, 2) == sent_again


class Reading(ScriptedModel):
    """A model whose conversation is read by a function of the test's."""

    def __init__(self, steps: Any, find: Any) -> None:
        super().__init__(steps)
        self._find = find

    async def find_request(self, request: Any) -> Reconciled | None:
        return self._find(request)  # type: ignore[no-any-return]


async def test_an_answer_that_is_found_in_the_conversation_is_used() -> None:
    found = Reconciled(True, ModelResponse(done("found there"), Usage(requests=1), "resp_9"))
    agent = Agent("Clerk", model=Reading([ConnectionError("lost")], lambda request: found))
    result = await go(agent, "go", conversation_id="conv")

    assert result.final_output == "found there"
    assert result.last_response_id == "resp_9"


async def test_a_conversation_that_cannot_be_read_leaves_the_delivery_unknown() -> None:
    def find(request: Any) -> Any:
        raise OSError("still no line")

    agent = Agent("Clerk", model=Reading([ConnectionError("lost"), done()], find))
    with pytest.raises(DeliveryUnknown) as caught:
        await go(agent, "go", conversation_id="conv")

    assert (await go(agent, caught.value.state, resend=True)).final_output == "done"


# -- models that answer nonsense ---------------------------------------------------------------------------------------


class Odd:
    """A model that answers with what it is given, whatever that is, and then as it should."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    async def get_response(self, request: Any) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def stream_response(self, request: Any) -> Any:
        yield await self.get_response(request)


def response(output: Any, **more: Any) -> ModelResponse:
    return ModelResponse(output, **more)


NONSENSE: dict[str, Any] = {
    "an empty output": response([]),
    "no list": response("text"),
    "a tuple of nothing": response(()),
    "a dict for an output": response({"a": 1}),
    "none for an output": response(None),
    "an item that is no object": response([5]),
    "an item that is none": response([None]),
    "an item without a type": response([{"role": "assistant"}]),
    "an item whose type is a list": response([{"type": []}]),
    "a call without a name": response([{"type": "function_call", "arguments": "{}", "call_id": "a"}]),
    "a call with a name that is none": response([{"type": "function_call", "name": None, "arguments": "{}"}]),
    "arguments that are no text": response([{"type": "function_call", "name": "look", "arguments": {"n": 1}}]),
    "an item that cannot be written": response([{"type": "message", "content": object()}]),
    "text that is no text": response([assistant_message("\ud800")]),
    "only thoughts": response([reasoning("hm")]),
    "a text": "hello",
    "none": None,
    "a dict": {"output": []},
    "an int": 5,
    "usage that is none": response(done(), usage=None),
    "usage that is a dict": response(done(), usage={"requests": 1}),
    "usage of texts": response(done(), usage=Usage(input_tokens="many")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("streamed", [False, True])
async def test_nonsense_of_a_model_is_an_error_with_a_state_that_can_be_resumed(answer: Any, streamed: bool) -> None:
    tools = Tools()
    model = Odd(response([call("look", 1, "a")]), answer, response(done(), usage=Usage(requests=1)))
    agent = Agent("Clerk", tools=[tools.free()], model=model)
    with pytest.raises(ModelBehaviorError) as caught:
        await go(agent, "go", streamed)
    state = await reloaded(agent, caught.value.state)  # type: ignore[arg-type]
    result = await go(agent, state, streamed)

    assert result.final_output == "done"
    assert tools.ran == [("look", 1)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_of_a_model_is_raised_as_it_is(streamed: bool) -> None:
    agent = Agent("Clerk", model=Odd(ZeroDivisionError("x"), response(done())))
    with pytest.raises(ZeroDivisionError) as caught:
        await go(agent, "go", streamed)

    assert (await go(agent, caught.value.state, streamed)).final_output == "done"  # type: ignore[attr-defined]


async def test_a_stream_that_ends_without_a_response_can_be_resumed() -> None:
    class Silent(ScriptedModel):
        is_silent = True

        async def stream_response(self, request: Any) -> Any:
            if not self.is_silent:
                yield await self.get_response(request)

    agent = Agent("Clerk", model=Silent([done()]))
    with pytest.raises(Exception, match="ended before") as caught:
        await go(agent, "go", streamed=True)
    agent.model.is_silent = False  # type: ignore[union-attr]

    assert (await go(agent, caught.value.state, streamed=True)).final_output == "done"  # type: ignore[attr-defined]


async def test_a_response_id_that_is_no_text_is_no_id() -> None:
    agent = Agent("Clerk", model=Odd(response(done(), response_id=5)))

    assert (await go(agent, "go")).last_response_id is None


# -- objects of the openai package -------------------------------------------------------------------------------------


async def test_openai_objects_are_stored_as_plain_json_and_what_we_do_not_know_is_kept() -> None:
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

    wanted = ResponseFunctionToolCall.model_validate(
        {
            "type": "function_call",
            "name": "look",
            "arguments": '{"n": 1}',
            "call_id": "a",
            "id": "fc_1",
            "brand_new": {"x": 1},
        }
    )
    thought = ResponseReasoningItem.model_validate(
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    )
    message = ResponseOutputMessage.model_validate(
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "bye", "annotations": [], "logprobs": []}],
        }
    )
    unknown = {"type": "telepathy_call", "id": "t_1", "waves": [1, 2]}
    agent = scripted([[thought, unknown, wanted], [message]], Tools().free())
    result = await go(agent, "go")
    sent = model_of(agent).calls[1].input
    stored = (await reloaded(agent, result.to_state())).to_json()

    assert sent[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    assert sent[2] == unknown
    assert sent[3] == {
        "type": "function_call",
        "name": "look",
        "arguments": '{"n": 1}',
        "call_id": "a",
        "id": "fc_1",
        "brand_new": {"x": 1},
    }
    assert result.final_output == "bye"
    assert isinstance(stored, dict)
    assert all(isinstance(item.raw_item, dict) for item in result.new_items)
    assert result.new_items[2].raw_item.brand_new.x == 1  # its fields can be read as attributes, too


async def test_openai_objects_may_be_given_as_input() -> None:
    from openai.types.responses import ResponseOutputMessage

    message = ResponseOutputMessage.model_validate(
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}
    )
    agent = scripted([done()])
    await go(agent, [message, {"role": "user", "content": "x"}])

    assert model_of(agent).calls[0].input[0] == {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [],
    }


async def test_what_the_model_keeps_of_its_answer_does_not_change_the_log_when_it_is_changed() -> None:
    output = [function_call("pay", {"n": 1}, call_id="a")]
    usage = Usage(requests=1)
    agent = Agent("Clerk", tools=[Tools().gated()], model=Odd(response(output, usage=usage)))
    result = await go(agent, "go")
    output[0]["arguments"] = '{"n": 1000}'
    usage.requests = 99

    assert result.interruptions[0].arguments == '{"n": 1}'
    assert result.to_state().context.usage.requests == 1
    assert result.raw_responses[0].usage.requests == 1


async def test_what_a_model_does_to_its_request_does_not_change_the_history() -> None:
    tools = Tools()

    def spoil(request: Any) -> ModelStep:
        request.input.clear()
        return ModelStep([call("pay", 1, "a")])

    agent = scripted([spoil, done()], tools.gated())
    result = await go(agent, "hello")
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    final = await go(agent, state)

    assert final.to_input_list()[0] == {"role": "user", "content": "hello"}
    assert model_of(agent).calls[1].input[0] == {"role": "user", "content": "hello"}


async def test_two_runs_of_one_agent_at_the_same_time_do_not_meet() -> None:
    both = asyncio.Barrier(2)

    @function_tool
    async def meet() -> str:
        await both.wait()
        return "met"

    agents = [scripted([[call("meet", None, "x")], done(str(n))], meet) for n in range(2)]
    results = await asyncio.gather(*(go(agent, "go") for agent in agents))

    assert [result.final_output for result in results] == ["0", "1"]
    assert results[0].run_id != results[1].run_id


async def test_input_that_is_not_valid_unicode_is_refused_in_words() -> None:
    agent = Agent(name="Clerk", model=ScriptedModel([]))

    with pytest.raises(UserError, match="valid Unicode"):
        await Runner.run(agent, "half \ud800")
