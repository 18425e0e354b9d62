"""Arguments of the wrong kind are refused where they are written, by a sentence that names them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pydantic
import pytest

from placet import (
    Agent,
    Grant,
    InMemorySession,
    MemoryStore,
    ModelSettings,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    UserError,
    function_tool,
    handoff,
)
from placet.desk import Desk
from placet.stores.opening import open_store
from placet.testing import ScriptedModel, assistant_message


def tool(**options: Any) -> object:
    @function_tool(**options)
    def look(order: str) -> str:
        """Look."""
        return order

    return look


class Report(pydantic.BaseModel):
    text: str


DECLARED: list[tuple[str, Callable[[], object]]] = [
    (
        "Agent 'A': output_type is a type that pydantic knows, an OutputSchema, or None, not 5.",
        lambda: Agent("A", output_type=5),
    ),  # type: ignore[arg-type]
    ("output_type is a type", lambda: Agent("A", output_type=Report(text="x"))),  # type: ignore[arg-type]
    ("output_type is a type", lambda: Agent("A", output_type="Report")),  # type: ignore[arg-type]
    ("model is the name of a model or a Model", lambda: Agent("A", model=5)),  # type: ignore[arg-type]
    ("not the class ScriptedModel", lambda: Agent("A", model=ScriptedModel)),  # type: ignore[arg-type]
    ("model_settings is a ModelSettings", lambda: Agent("A", model_settings=[1])),  # type: ignore[arg-type]
    ("ModelSettings has no setting 'warmth'", lambda: Agent("A", model_settings={"warmth": 1})),  # type: ignore[arg-type]
    ("input_guardrails is a list", lambda: Agent("A", input_guardrails=[lambda: 1])),  # type: ignore[list-item]
    ("output_guardrails is a list", lambda: Agent("A", output_guardrails=5)),  # type: ignore[arg-type]
    ("hooks is an object with the methods of AgentHooks", lambda: Agent("A", hooks=5)),  # type: ignore[arg-type]
    ("key is a text that is not empty", lambda: Agent("A", key="")),
    ("handoff_description is a text", lambda: Agent("A", handoff_description=5)),  # type: ignore[arg-type]
    ("reset_tool_choice is True or False", lambda: Agent("A", reset_tool_choice="no")),  # type: ignore[arg-type]
    ("Agent 'A' as a tool: max_turns is a whole number", lambda: Agent("A").as_tool(max_turns=0)),
    ("tool_name is a text", lambda: Agent("A").as_tool(5)),  # type: ignore[arg-type]
    ("parameters is a type", lambda: Agent("A").as_tool(parameters=5)),  # type: ignore[arg-type]
    ("custom_output_extractor is a function", lambda: Agent("A").as_tool(custom_output_extractor=5)),  # type: ignore[arg-type]
    ("hooks is an object with the methods of RunHooks", lambda: Agent("A").as_tool(hooks=5)),  # type: ignore[arg-type]
    ("handoff: agent is an Agent, not 5.", lambda: handoff(5)),
    ("handoff to 'A': input_type is a type", lambda: handoff(Agent("A"), input_type=5)),
    ("on_handoff is a function", lambda: handoff(Agent("A"), on_handoff=5)),  # type: ignore[arg-type]
    ("input_filter is a function", lambda: handoff(Agent("A"), input_filter=5)),  # type: ignore[arg-type]
    ("A tool's name is a text", lambda: tool(name_override=5)),
    ("Tool 'look': timeout is a number of seconds above 0", lambda: tool(timeout="x")),
    ("timeout is a number of seconds above 0", lambda: tool(timeout=-1)),
    ("decide_within is a number of seconds above 0", lambda: tool(decide_within="x")),
    ("approval_valid_for is a number of seconds above 0", lambda: tool(approval_valid_for=-1)),
    ("version is a text", lambda: tool(version=5)),
    ("is_enabled is True, False or a function", lambda: tool(is_enabled="x")),
    ("failure_error_function is a function", lambda: tool(failure_error_function=5)),
    ("tool_input_guardrails is a list", lambda: tool(tool_input_guardrails=5)),
    ("strict_json_schema is True or False", lambda: tool(strict_mode="x")),
    ("RunConfig: model is the name", lambda: RunConfig(model=5)),  # type: ignore[arg-type]
    ("model_settings is a ModelSettings, or None", lambda: RunConfig(model_settings=5)),  # type: ignore[arg-type]
    ("max_nesting is a whole number", lambda: RunConfig(max_nesting="x")),  # type: ignore[arg-type]
    ("max_tool_concurrency is a whole number", lambda: RunConfig(max_tool_concurrency=True)),
    ("limits is a Limits", lambda: RunConfig(limits=5)),  # type: ignore[arg-type]
    ("observers is a list of observers", lambda: RunConfig(observers=5)),  # type: ignore[arg-type]
    ("trace_metadata is a mapping", lambda: RunConfig(trace_metadata=5)),  # type: ignore[arg-type]
    ("tool_error_formatter is a function", lambda: RunConfig(tool_error_formatter="x")),  # type: ignore[arg-type]
    ("A grant's arguments are", lambda: Grant(arguments=5)),  # type: ignore[arg-type]
    ("SQLiteSession: session_id is a text", lambda: SQLiteSession(5)),  # type: ignore[arg-type]
    ("InMemorySession: session_id is a text", lambda: InMemorySession(5)),  # type: ignore[arg-type]
    ("MemoryStore: max_waiting is a whole number", lambda: MemoryStore(max_waiting="x")),  # type: ignore[arg-type]
    ("open_store: lease_ttl is a number of seconds", lambda: open_store("sqlite:///x.db", lease_ttl=0)),
    ("Desk: agents is a list of agents", lambda: Desk("sqlite://:memory:", agents=Agent("A"))),  # type: ignore[arg-type]
    ("max_concurrent is a whole number", lambda: Desk("sqlite://:memory:", max_concurrent=0)),
    ("run_config is a RunConfig", lambda: Desk("sqlite://:memory:", run_config={})),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("words", "write"), DECLARED, ids=[words for words, _ in DECLARED])
def test_a_declaration_with_a_slip_is_refused_by_name(words: str, write: Callable[[], object]) -> None:
    with pytest.raises(UserError) as refused:
        write()

    assert words in refused.value.message


@pytest.mark.parametrize("given", [str, Report, list[int], dict[str, Report], int | None, Report | None])
def test_every_kind_of_type_is_an_output_type(given: Any) -> None:
    assert Agent("A", output_type=given).output_type is given


def test_what_fits_is_taken_as_it_is() -> None:
    agent = Agent("A", model="gpt-5", model_settings=ModelSettings(), key="a", tools=[tool(timeout=1, version="2")])  # type: ignore[list-item]

    assert agent.clone(name="B").as_tool("ask", max_turns=None).max_turns is None


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("resend is True or False", {"resend": "yes"}),
    ("a new run has none", {"resend": True}),
    ("hooks is an object with the methods of RunHooks", {"hooks": 5}),
    ("auto_previous_response_id is True or False", {"auto_previous_response_id": "yes"}),
    ("error_handlers is a dict of functions by kind of error (max_turns, model_refusal", {"error_handlers": 5}),
    ("error_handlers is a dict", {"error_handlers": {"max_turn": print}}),
    ("error_handlers['max_turns'] is a function", {"error_handlers": {"max_turns": 5}}),
    ("open_store(url)", {"store": "sqlite:///x.db"}),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("words", "options"), OPTIONS, ids=[words for words, _ in OPTIONS])
async def test_an_option_of_a_run_with_a_slip_is_refused_before_anything_is_asked(
    words: str, options: dict[str, Any], streamed: bool
) -> None:
    model = ScriptedModel([[assistant_message("hi")]])
    agent = Agent("A", model=model)
    run = Runner.run_streamed if streamed else Runner.run_sync  # what is wrong is said before anything needs a loop
    with pytest.raises(UserError) as refused:
        await asyncio.to_thread(run, agent, "x", **options) if not streamed else run(agent, "x", **options)

    assert words in refused.value.message
    assert model.calls == []


async def test_a_word_about_a_request_that_nobody_asked_about_is_refused_and_changes_nothing() -> None:
    model = ScriptedModel([RuntimeError("down"), [assistant_message("hi")]])
    agent = Agent("A", model=model)
    with pytest.raises(RuntimeError) as stopped:
        await Runner.run(agent, "x")
    state: RunState[Any] = stopped.value.state  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="This run has no such request") as refused:
        await Runner.run(agent, state, resend=True)
    result = await Runner.run(agent, refused.value.state)

    assert result.final_output == "hi"


DESK: list[tuple[str, Callable[[Desk], Awaitable[object]]]] = [
    ("max_turns is a whole number", lambda desk: desk.start("A", "x", max_turns=0)),
    ("agent is a text", lambda desk: desk.start(5, "x")),  # type: ignore[arg-type]
    ("by is a text", lambda desk: desk.start("A", "x", by=5)),  # type: ignore[arg-type]
    ("run_id is a text that begins with 'run_'", lambda desk: desk.start("A", "x", run_id="mine")),
    ("ended_before is a number", lambda desk: desk.purge("yesterday")),  # type: ignore[arg-type]
    ("A page holds between 1 and 10000 rows, not 'x'", lambda desk: desk.runs(limit="x")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("words", "ask"), DESK, ids=[words for words, _ in DESK])
async def test_a_desk_refuses_a_slip_by_name(words: str, ask: Callable[[Desk], Awaitable[object]]) -> None:
    async with Desk("sqlite://:memory:", agents=[Agent("A", model=ScriptedModel([]))], run=False) as desk:
        with pytest.raises(UserError) as refused:
            await ask(desk)
        runs = (await desk.runs()).rows

    assert words in refused.value.message
    assert runs == []


# -- a stream that never began ----------------------------------------------------------------------------------------


async def test_a_stream_that_was_cancelled_before_it_began_says_so() -> None:
    streamed = Runner.run_streamed(Agent("A", model=ScriptedModel([])), "x")
    with pytest.raises(UserError, match="has not begun yet"):
        streamed.to_state()
    streamed.cancel()
    events = [event async for event in streamed.stream_events()]
    with pytest.raises(UserError, match="was cancelled before it began") as refused:
        streamed.to_state()

    assert (events, streamed.is_complete, streamed.final_output, streamed.interruptions) == ([], True, None, [])
    assert "run its input, or the state that it was given, again" in refused.value.message


async def test_a_stream_that_failed_before_it_began_says_why() -> None:
    class Away(MemoryStore):
        async def lease(self, run_id: str, driver: object) -> Any:
            raise UserError("the store is not for you")

    streamed = Runner.run_streamed(Agent("A", model=ScriptedModel([])), "x", store=Away())
    with pytest.raises(UserError, match="not for you"):
        async for _ in streamed.stream_events():
            pass
    await asyncio.sleep(0)
    with pytest.raises(UserError, match="ended before it began: the store is not for you"):
        streamed.to_state()
