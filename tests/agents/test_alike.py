"""What programs written for the SDK count on without saying so."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest
from openai.types.responses import ResponseTextDeltaEvent

from placet.agents import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    HandoffCallItem,
    HandoffInputData,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MessageOutputItem,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunState,
    ToolCallItem,
    ToolCallOutputItem,
    ToolOrigin,
    ToolOriginType,
    ToolOutputImage,
    ToolOutputText,
    ToolsToFinalOutputResult,
    ToolTimeoutError,
    Usage,
    function_tool,
    handoff,
    input_guardrail,
    nest_handoff_history,
    tool_namespace,
)
from placet.agents.extensions.handoff_filters import remove_all_tools
from placet.agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from tests.models.runs.scenes import DONE, responses_model

CALL = [function_call("look", {"n": 1}, call_id="c1")]
BYE = [assistant_message("bye")]


class Found(pydantic.BaseModel):
    n: int


@function_tool
def look(n: int) -> Found:
    """Look."""
    return Found(n=n)


async def test_the_tools_own_object_reaches_hooks_results_and_items():
    seen: list[Any] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_end(self, context, agent, tool, result):  # type: ignore[no-untyped-def]
            seen.append(result)

    def behavior(_ctx: Any, results: list[Any]) -> ToolsToFinalOutputResult:
        seen.append(results[0].output)
        return ToolsToFinalOutputResult(is_final_output=False)

    model = ScriptedModel([CALL, BYE])
    agent = Agent(name="A", tools=[look], model=model, tool_use_behavior=behavior)
    result = await Runner.run(agent, "hi", hooks=Hooks())
    item = next(each for each in result.new_items if isinstance(each, ToolCallOutputItem))

    assert [*seen, item.output] == [Found(n=1)] * 3
    assert item.raw_item["output"] == '{"n":1}'
    again = await RunState.from_string(agent, result.to_state().to_string())
    assert again.to_string()  # the log holds what the model reads, and nothing else


async def test_raw_items_are_read_as_objects_and_as_dicts():
    result = await Runner.run(Agent(name="A", tools=[look], model=ScriptedModel([CALL, BYE])), "hi")
    call = next(each for each in result.new_items if isinstance(each, ToolCallItem))

    assert call.raw_item.name == call.raw_item["name"] == "look"
    assert result.raw_responses[1].output[0].content[0].text == "bye"
    assert ItemHelpers.text_message_outputs(result.new_items) == "bye"
    with pytest.raises(AttributeError, match=r"it has .*call_id"):
        _ = call.raw_item.nothing


async def test_an_agents_hooks_are_told_when_it_hands_over():
    told: list[tuple[str, str, str]] = []

    class Hooks(AgentHooks[Any]):
        def __init__(self, owner: str) -> None:
            self.owner = owner

        async def on_handoff(self, context, agent, source):  # type: ignore[no-untyped-def]
            told.append((self.owner, source.name, agent.name))

    model = ScriptedModel([[function_call("transfer_to_b", {}, call_id="h")], BYE])
    b = Agent(name="B", model=model, hooks=Hooks("B"))
    await Runner.run(Agent(name="A", model=model, handoffs=[b], hooks=Hooks("A")), "hi")

    assert told == [("A", "A", "B")]


async def test_nothing_is_told_after_a_stream_was_cancelled():
    result = Runner.run_streamed(Agent(name="A", tools=[look], model=ScriptedModel([CALL, BYE])), "hi")
    heard = 0
    async for _ in result.stream_events():
        heard += 1
        result.cancel()

    assert heard == 1
    assert result.is_complete


@pytest.mark.parametrize("as_dict", [False, True])
async def test_a_tool_may_return_an_image(as_dict):
    @function_tool
    def shoot() -> Any:
        if as_dict:
            return [{"type": "image", "image_url": "data:x"}, {"type": "text", "text": "here"}]
        return [ToolOutputImage(image_url="data:x"), ToolOutputText(text="here")]

    model = ScriptedModel([[function_call("shoot", {}, call_id="c")], BYE])
    await Runner.run(Agent(name="A", tools=[shoot], model=model), "hi")

    assert model.last_call is not None
    assert model.last_call.input[-1]["output"] == [
        {"type": "input_image", "image_url": "data:x"},
        {"type": "input_text", "text": "here"},
    ]


async def test_data_that_only_looks_like_a_part_stays_data():
    @function_tool
    def describe() -> Any:
        return {"type": "text", "lang": "de"}

    model = ScriptedModel([[function_call("describe", {}, call_id="c")], BYE])
    await Runner.run(Agent(name="A", tools=[describe], model=model), "hi")

    assert model.last_call is not None
    assert model.last_call.input[-1]["output"] == '{"type":"text","lang":"de"}'


async def test_a_tripwire_says_which_guardrail_and_what_the_run_had_done():
    @input_guardrail
    async def strict(ctx, agent, given):  # type: ignore[no-untyped-def]
        return GuardrailFunctionOutput(output_info={"why": "no"}, tripwire_triggered=True)

    agent = Agent(name="A", model=ScriptedModel([BYE]), input_guardrails=[strict])
    with pytest.raises(InputGuardrailTripwireTriggered) as raised:
        await Runner.run(agent, "hi")

    assert raised.value.guardrail_result.guardrail.get_name() == "strict"  # type: ignore[attr-defined]
    assert raised.value.output.output_info == {"why": "no"}  # type: ignore[attr-defined]
    assert raised.value.run_data.last_agent is agent  # type: ignore[attr-defined]


async def test_a_filter_gets_items_of_the_run_and_may_take_tools_out():
    kinds: list[str] = []

    def only_words(data: HandoffInputData) -> HandoffInputData:
        kinds.extend(type(item).__name__ for item in (*data.pre_handoff_items, *data.new_items))
        return remove_all_tools(data)

    model = ScriptedModel([[*CALL, function_call("transfer_to_b", {}, call_id="h")], BYE])
    b = Agent(name="B", model=model)
    await Runner.run(Agent(name="A", model=model, tools=[look], handoffs=[handoff(b, input_filter=only_words)]), "hi")

    assert kinds == ["ToolCallItem", "ToolCallItem", "ToolCallOutputItem", "ToolCallOutputItem"]
    assert model.last_call is not None
    assert model.last_call.input == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("by", ["configuration", "handoff", "filter"])
async def test_a_handoff_may_tell_the_conversation_as_a_story(by):
    model = ScriptedModel([[*CALL, function_call("transfer_to_b", {}, call_id="h")], BYE])
    b = Agent(name="B", model=model)
    options: dict[str, Any] = {
        "handoff": {"nest_handoff_history": True},
        "filter": {"input_filter": nest_handoff_history},
    }
    a = Agent(name="A", model=model, tools=[look], handoffs=[handoff(b, **options.get(by, {}))])
    await Runner.run(a, "hi", run_config=RunConfig(nest_handoff_history=by == "configuration"))

    assert model.last_call is not None
    (told,) = model.last_call.input
    assert told["role"] == "assistant"
    assert "<CONVERSATION HISTORY>\n1. user: hi\n2. " in told["content"]
    assert '"name": "look"' in told["content"]


async def test_usage_tells_of_each_request():
    usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15, cached_tokens=3)
    model = ScriptedModel([ModelStep(CALL, usage), ModelStep(BYE, usage)])
    found = (await Runner.run(Agent(name="A", tools=[look], model=model), "hi")).context_wrapper.usage

    assert (found.requests, found.total_tokens, found.input_tokens_details.cached_tokens) == (2, 30, 6)
    assert [each.total_tokens for each in found.request_usage_entries] == [15, 15]


async def test_a_streams_deltas_are_events_of_the_responses_api():
    result = Runner.run_streamed(Agent(name="A", model=ScriptedModel([BYE])), "hi")
    said = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
    ]

    assert said == ["bye"]


async def test_a_session_is_read_as_far_as_its_settings_say():
    from placet.agents import SessionSettings, SQLiteSession

    session = SQLiteSession("s")
    await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
    model = ScriptedModel([BYE, BYE])
    agent = Agent(name="A", model=model)
    await Runner.run(agent, "new", session=session, run_config=RunConfig(session_settings=SessionSettings(limit=2)))

    assert model.last_call is not None
    assert [item["content"] for item in model.last_call.input] == ["3", "4", "new"]
    assert len(await session.get_items()) == 7

    def without_history(history: list[Any], new: list[Any]) -> list[Any]:
        return [*history[:1], *new]

    await Runner.run(agent, "newer", session=session, run_config=RunConfig(session_input_callback=without_history))

    assert [item["content"] for item in model.last_call.input] == ["0", "newer"]
    assert len(await session.get_items()) == 9


def test_types_may_be_named_as_the_sdk_names_them():
    assert RunState[dict[str, Any], Agent[Any]] is not None

    class Holder(pydantic.BaseModel):
        context: RunContextWrapper[dict[str, str]]

    wrapper = RunContextWrapper({"a": "b"})
    assert Holder(context=wrapper).context is wrapper
    assert Holder.model_json_schema()["properties"]["context"] is not None


async def test_a_waiting_call_can_be_looked_at_by_its_item():
    @function_tool(needs_approval=True)
    def pay(n: int) -> str:
        return "paid"

    model = ScriptedModel([[function_call("pay", {"n": 1}, call_id="c")], BYE])
    agent = Agent(name="A", tools=[pay], model=model)
    state = (await Runner.run(agent, "hi")).to_state()
    (item,) = state.get_interruptions()

    assert (item.qualified_name, item.tool_namespace, item.raw_item.call_id) == ("pay", None, "c")
    state.reject(item, always_reject=True, rejection_message="never")
    result = await asyncio.wait_for(Runner.run(agent, state), 120)
    assert isinstance(result.new_items[-1], MessageOutputItem)
    assert result.context_wrapper.get_rejection_message("pay", "c") == "never"


@pytest.mark.parametrize("policy", [None, "preserve", "omit"])
async def test_thoughts_are_sent_back_with_or_without_their_ids(policy):
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    model = ScriptedModel([[thought, function_call("ping", {}, call_id="c1")], [assistant_message("ok")]])

    @function_tool
    def ping() -> str:
        """Ping."""
        return "pong"

    await Runner.run(
        Agent(name="A", tools=[ping], model=model), "go", run_config=RunConfig(reasoning_item_id_policy=policy)
    )

    sent = next(item for item in model.last_call.input if item.get("type") == "reasoning")
    assert ("id" in sent) is (policy != "omit")


async def test_a_formatter_says_what_the_model_reads_of_a_tool_that_is_not_there():
    told = []

    def formatter(args):
        told.append((args.kind, args.tool_type, args.tool_name, args.call_id, args.default_message))
        return "use another one"

    model = ScriptedModel([[function_call("nowhere", {}, call_id="c1")], [assistant_message("ok")]])
    await Runner.run(Agent(name="A", model=model), "go", run_config=RunConfig(tool_error_formatter=formatter))

    assert told == [("tool_not_found", "function", "nowhere", "c1", "Tool 'nowhere' not found.")]
    assert model.last_call.input[-1]["output"] == "use another one"


def test_a_handoff_is_no_tool_call():
    """`isinstance(item, ToolCallItem)` comes first in many programs."""
    assert not issubclass(HandoffCallItem, ToolCallItem)
    assert not issubclass(MCPApprovalRequestItem, ToolCallItem)
    assert not issubclass(MCPApprovalResponseItem, ToolCallOutputItem)


@pytest.mark.parametrize("behavior", ["error_as_result", "raise_exception"])
async def test_a_tool_that_takes_too_long_is_read_or_raised(behavior):
    @function_tool(timeout=0.01, timeout_behavior=behavior, timeout_error_function=lambda _ctx, _error: "too slow")
    async def slow() -> str:
        """Slow."""
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([[function_call("slow", {}, call_id="c1")], [assistant_message("ok")]])
    agent = Agent(name="A", tools=[slow], model=model)
    if behavior == "raise_exception":
        with pytest.raises(ToolTimeoutError):
            await Runner.run(agent, "go")
        return
    await Runner.run(agent, "go")
    assert model.last_call.input[-1]["output"] == "too slow"


async def test_an_output_says_where_its_tool_came_from():
    inner = Agent(name="Inner", model=ScriptedModel([[assistant_message("in")]]))
    calls = [function_call("ping", {}, call_id="c1"), function_call("ask", {"input": "x"}, call_id="c2")]
    model = ScriptedModel([calls, [assistant_message("ok")]])

    @function_tool
    def ping() -> str:
        """Ping."""
        return "pong"

    agent = Agent(name="A", tools=[ping, inner.as_tool("ask", "Ask.")], model=model)
    result = await Runner.run(agent, "go")

    found = {item.call_id: item.tool_origin for item in result.new_items if isinstance(item, ToolCallOutputItem)}
    assert found["c1"] == ToolOrigin(ToolOriginType.FUNCTION)
    assert found["c2"] == ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name="Inner", agent_tool_name="ask")


@pytest.mark.promise("P9")
async def test_a_grant_for_a_tool_of_one_group_does_not_reach_that_of_another():
    ran = []

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    tools = [
        *tool_namespace(name="shop", description="The shop.", tools=[pay]),
        *tool_namespace(name="bank", description=None, tools=[pay]),
    ]
    first = {"type": "function_call", "name": "pay", "namespace": "shop", "arguments": "{}", "call_id": "c1"}
    model = ScriptedModel([[first], [{**first, "namespace": "bank", "call_id": "c2"}]])
    agent = Agent(name="A", tools=tools, model=model)
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await Runner.run(agent, state)

    assert [item.qualified_name for item in result.interruptions] == ["bank.pay"]
    assert ran == ["pay"]


async def test_groups_of_tools_are_told_as_groups():
    @function_tool
    def pay() -> str:
        """Pay."""
        return "paid"

    @function_tool(defer_loading=True, allowed_callers=["programmatic"])
    def look() -> str:
        """Look."""
        return "seen"

    async with responses_model([DONE]) as (provider, model):
        grouped = tool_namespace(name="shop", description="S.", tools=[pay, look])
        await Runner.run(Agent(name="A", tools=[*grouped, pay], model=model), "go")

    told = provider.model_requests[0].body["tools"]
    assert [(each["type"], each["name"]) for each in told] == [("namespace", "shop"), ("function", "pay")]
    assert [each["name"] for each in told[0]["tools"]] == ["pay", "look"]
    assert told[0]["tools"][1]["defer_loading"] is True
    assert told[0]["tools"][1]["allowed_callers"] == ["programmatic"]
    assert provider.refusals == []
