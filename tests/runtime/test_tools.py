"""Function tools through a run: how they are called, what the model reads, how they fail and recover."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import enum
import threading
from typing import Any

import pydantic
import pytest

from placet import (
    Agent,
    CannotTell,
    DidNotHappen,
    Happened,
    Limits,
    ModelBehaviorError,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolContext,
    ToolError,
    ToolOutputError,
    ToolTimeoutError,
    UserError,
    function_tool,
)
from placet.testing import function_call
from tests.runtime.scenes import (
    PATIENCE,
    Interrupted,
    OwnStore,
    Tools,
    call,
    done,
    events_of,
    go,
    model_of,
    outputs,
    reloaded,
    scripted,
    within,
)


class Address(pydantic.BaseModel):
    street: str


COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("COLOUR", default="none")


async def output_of(tool: Any, arguments: Any = None, **options: Any) -> Any:
    """What the model reads of one call of this tool."""
    agent = scripted([[function_call(tool.name, arguments, call_id="c1")], done()], tool)
    await go(agent, "go", **options)
    return outputs(agent)[0]


# -- calling -----------------------------------------------------------------------------------------------------------


async def test_a_plain_function_runs_off_the_loop_in_a_thread_with_the_callers_contextvars() -> None:
    seen: list[Any] = []

    @function_tool
    def look(n: int) -> str:
        seen.append((threading.get_ident(), COLOUR.get()))
        return f"saw {n}"

    COLOUR.set("green")
    output = await output_of(look, {"n": 3})

    assert output == "saw 3"
    assert seen[0][0] != threading.get_ident()
    assert seen[0][1] == "green"


async def test_a_plain_function_that_blocks_does_not_block_the_loop() -> None:
    release, entered = threading.Event(), threading.Event()

    @function_tool
    def block() -> str:
        entered.set()
        assert release.wait(5)
        return "free"

    @function_tool
    async def free() -> str:
        await asyncio.to_thread(entered.wait, PATIENCE)
        release.set()
        return "freed"

    agent = scripted([[call("block"), call("free")], done()], block, free)
    await go(agent, "go")

    assert outputs(agent) == ["free", "freed"]


async def test_an_async_function_runs_on_the_loop_with_the_callers_contextvars() -> None:
    seen: list[Any] = []

    @function_tool
    async def look() -> str:
        seen.append((threading.get_ident(), COLOUR.get(), asyncio.get_running_loop()))
        return "ok"

    COLOUR.set("blue")
    await output_of(look)

    assert seen == [(threading.get_ident(), "blue", asyncio.get_running_loop())]


async def test_what_a_plain_function_returns_may_be_awaitable() -> None:
    async def later() -> str:
        return "later"

    @function_tool
    def look() -> Any:
        return later()

    assert await output_of(look) == "later"


async def test_a_first_parameter_for_the_context_is_given_and_is_no_parameter_of_the_tool() -> None:
    seen: list[Any] = []

    @function_tool
    async def look(ctx: RunContextWrapper[dict[str, str]], n: int) -> str:
        seen.append((ctx.context, n))
        return "ok"

    await output_of(look, {"n": 1}, context={"who": "me"})

    assert seen == [({"who": "me"}, 1)]
    assert list(look.params_json_schema["properties"]) == ["n"]


async def test_the_context_of_a_body_has_every_field_that_one_made_by_hand_has() -> None:
    seen: list[ToolContext[Any]] = []

    @function_tool
    def look(ctx: ToolContext[Any]) -> str:
        seen.append(ctx)
        return "saw"

    await output_of(look, context="mine")
    made = ToolContext("mine", tool_name="look", tool_call_id="c1", tool_arguments="{}")

    assert fields_of(seen[0]) >= {*fields_of(made), "context", "agent", "call", "tool_call"}
    assert type(seen[0]) is ToolContext


def fields_of(context: ToolContext[Any]) -> set[str]:
    slots = [*ToolContext.__slots__, *RunContextWrapper.__slots__]
    return {name for name in slots if hasattr(context, name)}


async def test_a_tool_context_knows_its_call() -> None:
    seen: list[ToolContext[Any]] = []

    @function_tool
    def look(ctx: ToolContext[Any], n: int) -> str:
        seen.append(ctx)
        return "ok"

    agent = scripted([[call("look", 4, "label")], done()], look)
    result = await go(agent, "go", context=[1])
    ctx = seen[0]

    assert (ctx.tool_name, ctx.tool_call_id, ctx.tool_arguments) == ("look", "label", '{"n": 4}')
    assert (ctx.attempt, ctx.agent, ctx.context) == (1, agent, [1])
    assert (ctx.call, ctx.idempotency_key) == (f"{result.run_id}_t1c0", f"{result.run_id}:1.0")
    assert ctx.tool_call == call("look", 4, "label")


async def test_the_idempotency_keys_of_different_calls_differ_also_when_their_labels_do_not() -> None:
    keys: list[str] = []

    @function_tool
    def look(ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        return "ok"

    agent = scripted([[call("look", None, "x"), call("look", None, "x")], [call("look", None, "x")], done()], look)
    await go(agent, "go")
    again = scripted([[call("look", None, "x")], done()], look)
    await go(again, "go")

    assert len(set(keys)) == 4


async def test_tools_of_one_run_share_the_runs_ledger_and_usage() -> None:
    seen: list[ToolContext[Any]] = []

    @function_tool
    async def look(ctx: ToolContext[Any]) -> str:
        seen.append(ctx)
        return "ok"

    agent = scripted([[call("look", None, "x"), call("look", None, "y")], done()], look)
    result = await go(agent, "go")

    assert seen[0].usage is seen[1].usage
    assert seen[0].usage.requests == result.context_wrapper.usage.requests == 2


async def test_defaults_are_filled_in_and_types_are_converted() -> None:
    seen: list[Any] = []

    @function_tool
    async def send(to: Address, times: int = 2) -> str:
        seen.append((to, times))
        return "ok"

    await output_of(send, {"to": {"street": "Main"}})

    assert seen == [(Address(street="Main"), 2)]


async def test_name_and_description_can_be_overridden_and_reach_the_model() -> None:
    @function_tool(name_override="other", description_override="Does it.")
    async def body() -> str:
        """Not this."""
        return "ok"

    agent = scripted([[call("other", None, "a")], done()], body)
    await go(agent, "go")
    spec = model_of(agent).calls[0].request.tools[0]

    assert (spec.name, spec.description) == ("other", "Does it.")


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", ["{", "[]", "null", '{"n": "many"}', '{"n": 1, "n": 2}', '{"n": 1, "extra": 2}', '{"n": NaN}', "5"]
)
async def test_a_free_tool_with_malformed_arguments_answers_the_model_with_the_validation_error(arguments: str) -> None:
    tools = Tools()
    text = await output_of(tools.free(), arguments)

    assert tools.ran == []
    assert "invalid" in text


async def test_the_validation_error_names_the_parameter() -> None:
    assert "n" in (await output_of(Tools().free(), {"n": "many"})).split("\n", 1)[1]


@pytest.mark.parametrize(
    "rule", [False, True, lambda *_: False, lambda *_: True], ids=["free", "gated", "predicate no", "predicate yes"]
)
async def test_arguments_over_the_limit_never_run_and_the_model_reads_the_limit(rule: Any) -> None:
    ran: list[str] = []

    @function_tool(needs_approval=rule)
    async def write(text: str) -> str:
        ran.append(text)
        return "ok"

    output = await output_of(write, {"text": "x" * 100}, run_config=RunConfig(limits=Limits(argument=50)))

    assert ran == []
    assert "50 bytes" in output


async def test_the_argument_limit_counts_bytes() -> None:
    @function_tool
    async def write(text: str) -> str:
        return "ok"

    arguments = '{"text": "' + "€" * 20 + '"}'
    output = await output_of(write, arguments, run_config=RunConfig(limits=Limits(argument=50)))

    assert len(arguments) < 50 < len(arguments.encode())
    assert "50 bytes" in output


# -- tools that are not there ------------------------------------------------------------------------------------------


async def test_a_tool_that_does_not_exist_is_answered_and_its_siblings_run() -> None:
    tools = Tools()
    agent = scripted([[call("ghost", 1, "a"), call("look", 2, "b")], done()], tools.free())
    result = await go(agent, "go")

    assert outputs(agent) == ["Tool 'ghost' not found.", "look 2"]
    assert result.final_output == "done"


async def test_a_tool_that_does_not_exist_may_end_the_drive_with_a_state() -> None:
    tools = Tools()
    agent = scripted([[call("ghost", 1, "a"), call("look", 2, "b")], done()], tools.free())
    with pytest.raises(ModelBehaviorError, match="Tool 'ghost' not found") as caught:
        await go(agent, "go", run_config=RunConfig(tool_not_found_behavior="raise_error"))
    result = await go(agent, caught.value.state)

    assert result.final_output == "done"
    assert outputs(agent) == ["Tool 'ghost' not found.", "look 2"]


def test_an_unknown_behavior_is_refused_where_it_is_written() -> None:
    with pytest.raises(UserError):
        RunConfig(tool_not_found_behavior="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("answer", [True, False, None, 1], ids=repr)
async def test_a_tool_is_shown_and_can_be_called_only_while_it_is_enabled(answer: Any, is_async: bool) -> None:
    async def later(ctx: Any, agent: Any) -> Any:
        return answer

    tools = Tools()
    agent = scripted([[call("look", 1, "a")], done()], tools.free(is_enabled=later if is_async else lambda *_: answer))
    await go(agent, "go")
    shown = [spec.name for spec in model_of(agent).calls[0].request.tools]

    assert shown == (["look"] if answer is True else [])
    assert bool(tools.ran) is (answer is True)
    assert outputs(agent) == (["look 1"] if answer is True else ["Tool 'look' not found."])


async def test_a_disabled_tool_is_neither_shown_nor_run() -> None:
    tools = Tools()
    agent = scripted([[call("look", 1, "a")], done()], tools.free(is_enabled=False))
    await go(agent, "go")

    assert model_of(agent).calls[0].request.tools == []
    assert outputs(agent) == ["Tool 'look' not found."]


async def test_whether_a_tool_is_enabled_may_depend_on_the_context_and_the_agent() -> None:
    seen: list[Any] = []

    def rule(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
        seen.append((ctx.context, agent.name))
        return True

    await output_of(Tools().free(is_enabled=rule), {"n": 1}, context="ctx")

    assert set(seen) == {("ctx", "Clerk")}


# -- what is written wrongly -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"recovery": "hope"},
        {"recovery": None},
        {"recovery": True},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
    ],
    ids=str,
)
def test_a_wrong_word_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Tools().free(**options)


def test_two_tools_of_one_name_are_refused() -> None:
    tools = Tools()
    with pytest.raises(UserError, match="'look'"):
        Agent("Clerk", tools=[tools.free(), tools.free()])


@pytest.mark.parametrize("limit", [0, -1])
def test_a_concurrency_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(UserError):
        RunConfig(max_tool_concurrency=limit)


# -- what a tool returns -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int
    y: list[int]


class Receipt(pydantic.BaseModel):
    id: int
    note: str = "ü"


class Size(enum.Enum):
    BIG = "big"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("text", "text"),
        ("Zoë 😀", "Zoë 😀"),
        ("", ""),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([1, 2], "[1,2]"),
        ((1, 2), "[1,2]"),
        (5, "5"),
        (True, "true"),
        (Point(1, [2]), '{"x":1,"y":[2]}'),
        (Receipt(id=3), '{"id":3,"note":"ü"}'),
        ({"r": Receipt(id=3), "p": Point(1, [])}, '{"r":{"id":3,"note":"ü"},"p":{"x":1,"y":[]}}'),
        (Size.BIG, '"big"'),
        ([{"type": "input_text", "text": "x"}], [{"type": "input_text", "text": "x"}]),
        (
            [{"type": "input_image", "image_url": "https://u"}, {"type": "input_text", "text": "ü"}],
            [{"type": "input_image", "image_url": "https://u"}, {"type": "input_text", "text": "ü"}],
        ),
        ([{"type": "other"}], '[{"type":"other"}]'),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_an_output_as_the_model_reads_it(value: Any, read: Any, is_async: bool) -> None:
    async def later() -> Any:
        return value

    def now() -> Any:
        return value

    tool = function_tool(name_override="give")(later if is_async else now)

    assert await output_of(tool) == read


async def test_bytes_that_are_text_are_read_as_such() -> None:
    @function_tool
    async def give() -> bytes:
        return "Zoë".encode()

    assert "Zoë" in await output_of(give)


class Stubborn:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def _cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Stubborn(),
        b"\xff\xfe",
        "\ud800",
        {"a": "\udfff"},
        [{"type": "input_text", "text": "\ud800"}],
        {"a": object()},
        _cycle(),
        lambda: 1,
    ],
    ids=[
        "object",
        "stubborn",
        "bytes",
        "surrogate",
        "surrogate inside",
        "surrogate in a part",
        "object inside",
        "cycle",
        "function",
    ],
)
async def test_an_output_that_cannot_be_written_down_tells_the_model_that_the_tool_ran_and_nothing_is_lost(
    value: Any,
) -> None:
    tools = Tools()

    @function_tool
    async def give() -> Any:
        tools.ran.append(("give", 0))
        return value

    agent = scripted([[call("give", None, "a"), call("look", 1, "b")], done()], give, tools.free())
    result = await go(agent, "go")

    assert result.final_output == "done"
    assert "'give' ran" in outputs(agent)[0]
    assert outputs(agent)[1] == "look 1"
    assert sorted(tools.ran) == [("give", 0), ("look", 1)]
    assert (await reloaded(agent, result.to_state())).has_ended


async def test_an_output_that_cannot_be_written_down_may_end_the_drive_and_is_recorded_first() -> None:
    tools = Tools()

    @function_tool(failure_error_function=None)
    async def give() -> Any:
        tools.ran.append(("give", 0))
        return object()

    agent = scripted([[call("give", None, "a")], done()], give)
    with pytest.raises(ToolOutputError) as caught:
        await go(agent, "go")
    result = await go(agent, caught.value.state)

    assert result.final_output == "done"
    assert tools.ran == [("give", 0)]


@pytest.mark.parametrize(
    "value",
    ["x" * 60, "€" * 20, {"a": "x" * 60}, [{"type": "input_text", "text": "x" * 60}]],
    ids=["text", "bytes not characters", "json", "parts"],
)
async def test_an_output_over_the_limit_tells_the_model_that_the_tool_ran_and_names_the_limit(value: Any) -> None:
    @function_tool
    async def give() -> Any:
        return value

    output = await output_of(give, run_config=RunConfig(limits=Limits(output=50)))

    assert "ran" in output
    assert "50 bytes" in output


# -- failing -----------------------------------------------------------------------------------------------------------


async def test_an_error_of_a_body_is_data_for_the_model() -> None:
    @function_tool
    async def fail() -> str:
        raise ValueError("the disk is full")

    assert "the disk is full" in await output_of(fail)


@pytest.mark.parametrize("text", ["bad \udc80 name", "\ud800"], ids=ascii)
async def test_an_error_whose_text_is_not_valid_unicode_is_data_for_the_model_too(text: str) -> None:
    tools = Tools()

    @function_tool
    async def fail() -> str:
        tools.ran.append(("fail", 0))
        raise OSError(text)  # as file names give it, under surrogateescape

    output = await output_of(fail)

    assert tools.ran == [("fail", 0)]
    assert isinstance(output, str)
    output.encode()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_custom_text_for_failures(is_async: bool) -> None:
    async def later(ctx: Any, error: Exception) -> str:
        return f"{ctx.tool_name}: {error}"

    def now(ctx: Any, error: Exception) -> str:
        return f"{ctx.tool_name}: {error}"

    @function_tool(failure_error_function=later if is_async else now)
    async def fail() -> str:
        raise ValueError("no")

    assert await output_of(fail) == "fail: no"


async def test_a_text_function_that_itself_raises_ends_the_drive_and_the_call_is_recorded() -> None:
    tools = Tools()

    def broken(ctx: Any, error: Exception) -> str:
        raise LookupError("broken text")

    @function_tool(failure_error_function=broken)
    async def fail() -> str:
        tools.ran.append(("fail", 0))
        raise ValueError("first")

    agent = scripted([[call("fail", None, "a")], done()], fail)
    with pytest.raises(ToolError, match="failure_error_function") as caught:
        await go(agent, "go")
    result = await go(agent, caught.value.state)

    assert isinstance(caught.value.__cause__, LookupError)
    assert result.final_output == "done"
    assert tools.ran == [("fail", 0)]
    assert "first" in outputs(agent)[0]


@pytest.mark.parametrize("streamed", [False, True])
async def test_without_a_text_function_the_error_ends_the_drive_with_a_state_and_siblings_are_recorded(
    streamed: bool,
) -> None:
    tools = Tools()
    go_on = asyncio.Event()

    @function_tool(failure_error_function=None)
    async def fail() -> str:
        go_on.set()
        raise ValueError("the disk is full")

    @function_tool
    async def slow() -> str:
        await go_on.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        tools.ran.append(("slow", 0))
        return "slow is done"

    agent = scripted(
        [[call("fail", None, "a"), call("slow", None, "b"), call("pay", 1, "c")], done()], fail, slow, tools.gated()
    )
    with pytest.raises(ToolError, match="the disk is full") as caught:
        await go(agent, "go", streamed)
    state: Any = caught.value.state
    item = state.get_interruptions()[0]
    state = await reloaded(agent, state)
    state.approve(item)
    result = await go(agent, state)

    assert isinstance(caught.value.__cause__, ValueError)
    assert result.final_output == "done"
    assert tools.ran == [("slow", 0), ("pay", 1)]
    assert "the disk is full" in outputs(agent)[0]
    assert outputs(agent)[1:] == ["slow is done", "pay 1"]


async def test_a_placet_error_raised_in_a_tool_ends_the_drive_as_itself() -> None:
    @function_tool(failure_error_function=None)
    async def fail() -> str:
        raise UserError("mine")

    with pytest.raises(UserError, match="mine") as caught:
        await output_of(fail)

    assert caught.value.state is not None


async def test_a_timeout_is_data_for_the_model_and_says_what_is_unknown() -> None:
    @function_tool(timeout=0.01)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    output = await output_of(slow)

    assert "timed out" in output
    assert "0.01" in output


async def test_a_timeout_may_end_the_drive() -> None:
    @function_tool(timeout=0.01, failure_error_function=None)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(ToolTimeoutError) as caught:
        await output_of(slow)

    assert caught.value.state is not None


async def test_a_timeout_error_of_the_body_itself_is_not_taken_for_the_tools_timeout() -> None:
    @function_tool(timeout=60)
    async def slow() -> str:
        raise TimeoutError("the bank did not answer")

    output = await output_of(slow)

    assert "the bank did not answer" in output
    assert "timed out after" not in output


async def test_a_body_that_cancels_itself_fails_alone() -> None:
    tools = Tools()

    @function_tool
    async def odd() -> str:
        raise asyncio.CancelledError

    agent = scripted([[call("odd", None, "a"), call("look", 1, "b")], done()], odd, tools.free())
    result = await go(agent, "go")

    assert result.final_output == "done"
    assert "cancelled" in outputs(agent)[0]
    assert outputs(agent)[1] == "look 1"


# -- side by side ------------------------------------------------------------------------------------------------------


async def test_calls_of_one_turn_run_at_the_same_time() -> None:
    barrier = asyncio.Barrier(5)

    @function_tool
    async def meet(n: int) -> str:
        await barrier.wait()
        return f"met {n}"

    agent = scripted([[call("meet", n, f"c{n}") for n in range(5)], done()], meet)
    await go(agent, "go")

    assert outputs(agent) == [f"met {n}" for n in range(5)]


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("gated", [False, True])
async def test_no_more_bodies_run_at_the_same_time_than_allowed(limit: int, gated: bool) -> None:
    at_work: set[int] = set()
    peak = 0
    full = asyncio.Event()

    @function_tool(needs_approval=gated)
    async def work(n: int) -> str:
        nonlocal peak
        at_work.add(n)
        peak = max(peak, len(at_work))
        if len(at_work) == limit:
            full.set()
        await full.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        at_work.discard(n)
        return f"{n}"

    agent = scripted([[call("work", n, f"c{n}") for n in range(7)], done()], work)
    config = RunConfig(max_tool_concurrency=limit)
    result = await go(agent, "go", run_config=config)
    if gated:
        state = result.to_state()
        for item in state.get_interruptions():
            state.approve(item)
        result = await go(agent, state, run_config=config)

    assert result.final_output == "done"
    assert peak == limit
    assert outputs(agent) == [str(n) for n in range(7)]


async def test_an_error_that_ends_the_drive_starts_no_waiting_call_and_resuming_runs_each_once() -> None:
    ran: list[int] = []

    @function_tool(failure_error_function=None)
    async def work(n: int) -> str:
        ran.append(n)
        if n == 0:
            raise ValueError("first")
        return f"{n}"

    agent = scripted([[call("work", n, f"c{n}") for n in range(4)], done()], work)
    config = RunConfig(max_tool_concurrency=1)
    with pytest.raises(ToolError) as caught:
        await go(agent, "go", run_config=config)
    before = list(ran)
    await go(agent, caught.value.state, run_config=config)

    assert before == [0]
    assert ran == [0, 1, 2, 3]


async def test_a_sibling_that_is_slow_does_not_delay_the_record_of_the_others() -> None:
    store, release, seen = OwnStore(), asyncio.Event(), asyncio.Event()

    @function_tool
    async def quick() -> str:
        seen.set()
        return "quick"

    @function_tool
    async def slow() -> str:
        await release.wait()
        return "slow"

    agent = scripted([[call("quick", None, "a"), call("slow", None, "b")], done()], quick, slow)
    result = Runner.run_streamed(agent, "go", store=store)
    names: list[str] = []
    async for event in result.stream_events():
        if event.type == "run_item_stream_event" and event.name == "tool_output":
            names.append(event.item.call_id)
            release.set()

    assert names == ["a", "b"]


# -- recovering --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_may_be_repeated_is_repeated(streamed: bool) -> None:
    scene = Interrupted(recovery="retry")
    state = await scene.cut()
    waiting = state.get_interruptions()
    result = await go(scene.agent, await reloaded(scene.agent, state), streamed)

    assert waiting == []
    assert result.final_output == "done"
    assert scene.seen == [7, 7]
    assert [ctx.attempt for ctx in scene.contexts] == [1, 2]
    assert scene.contexts[0].idempotency_key == scene.contexts[1].idempotency_key


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_recovery_function_that_finds_the_result_supplies_it(is_async: bool) -> None:
    asked: list[Any] = []

    def find(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Happened:
        asked.append((ctx.idempotency_key, ctx.tool_call_id, arguments))
        return Happened({"receipt": 5})

    async def later(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Happened:
        return find(ctx, arguments)

    scene = Interrupted(recovery=later if is_async else find)
    state = await scene.cut()
    result = await go(scene.agent, state)

    assert result.final_output == "done"
    assert scene.seen == [7]
    assert outputs(scene.agent) == ['{"receipt":5}']
    assert asked == [(f"{state.run_id}:1.0", "c1", {"n": 7})]


async def test_a_recovery_function_that_finds_nothing_lets_the_call_run() -> None:
    scene = Interrupted(recovery=lambda ctx, arguments: DidNotHappen())
    result = await go(scene.agent, await scene.cut())

    assert result.final_output == "done"
    assert scene.seen == [7, 7]


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    "find",
    [
        lambda *_: CannotTell(),
        lambda *_: None,
        lambda *_: True,
        lambda *_: "Happened",
        lambda *_: _raise(OSError("no line")),
    ],
    ids=["cannot tell", "none", "true", "text", "raises"],
)
async def test_a_recovery_function_that_cannot_tell_leaves_it_to_a_person(find: Any) -> None:
    scene = Interrupted(recovery=find)
    result = await go(scene.agent, await scene.cut())
    item = result.interruptions[0]

    assert (item.kind, len(result.interruptions)) == ("in_doubt", 1)
    assert item.why
    assert scene.seen == [7]


async def test_a_recovered_result_that_cannot_be_written_down_is_told_and_nothing_runs_again() -> None:
    scene = Interrupted(recovery=lambda *_: Happened(object()))
    result = await go(scene.agent, await scene.cut())

    assert result.final_output == "done"
    assert scene.seen == [7]
    assert "ran" in outputs(scene.agent)[0]


async def test_a_recovery_function_is_given_the_edited_arguments() -> None:
    asked: list[Any] = []

    def find(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Happened:
        asked.append((arguments, ctx.tool_arguments))
        return Happened("receipt")

    scene = Interrupted(recovery=find, needs_approval=True)
    state = (await go(scene.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"n": 1})
    await go(scene.agent, await scene.cut(state))

    assert asked == [({"n": 1}, '{"n":1}')]
    assert outputs(scene.agent)[0].endswith("\nreceipt")


async def test_retrying_an_edited_call_runs_the_edited_arguments() -> None:
    scene = Interrupted(recovery="retry", needs_approval=True)
    state = (await go(scene.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"n": 1})
    await go(scene.agent, await scene.cut(state))

    assert scene.seen == [1, 1]


async def test_several_claimed_calls_are_each_recovered() -> None:
    seen: list[int] = []
    both = asyncio.Barrier(3)

    @function_tool(recovery="retry")
    async def work(n: int) -> str:
        seen.append(n)
        if len(seen) <= 2:
            await both.wait()
            await asyncio.Event().wait()
        return f"{n}"

    agent = scripted([[call("work", 1, "a"), call("work", 2, "b")], done()], work)
    result = Runner.run_streamed(agent, "go")
    await within(both.wait())
    result.cancel()
    await events_of(result)
    final = await go(agent, result.to_state())

    assert final.final_output == "done"
    assert seen == [1, 2, 1, 2]
    assert outputs(agent) == ["1", "2"]


async def test_a_tool_that_is_gone_when_its_call_must_be_recovered_is_named_and_the_state_stays() -> None:
    scene = Interrupted(recovery="retry")
    state = await scene.cut()
    bare = Agent(scene.agent.name, model=scene.agent.model)
    with pytest.raises(UserError, match="'pay'"):
        await go(bare, state)
    result = await go(scene.agent, state)

    assert result.final_output == "done"


# -- identity ----------------------------------------------------------------------------------------------------------


def test_a_fingerprint_covers_schema_and_version_and_not_the_prose() -> None:
    def one(n: int) -> str:
        """Pay.

        Args:
            n: how much
        """
        return ""

    def reworded(n: int) -> str:
        """Pay, in other words.

        Args:
            n: the amount
        """
        return ""

    def other(n: float) -> str:
        return ""

    def made(function: Any, **options: Any) -> str:
        return function_tool(name_override="pay", **options)(function).fingerprint

    assert made(one) == made(reworded)
    assert len({made(one), made(other), made(one, version="1"), made(one, version="2")}) == 4


def test_parameters_named_title_or_description_are_part_of_the_fingerprint() -> None:
    def one(title: str) -> str:
        return ""

    def other(description: str) -> str:
        return ""

    def made(function: Any) -> str:
        return function_tool(name_override="pay")(function).fingerprint

    assert made(one) != made(other)


def test_values_named_title_in_defaults_and_enums_are_part_of_the_fingerprint() -> None:
    from placet import FunctionTool

    async def invoke(ctx: Any, text: str) -> str:
        return ""

    def made(default: Any) -> str:
        schema = {"type": "object", "properties": {"a": {"type": "object", "default": default}}}
        return FunctionTool("pay", "", schema, invoke).fingerprint

    assert made({"title": "x"}) != made({"title": "y"})
