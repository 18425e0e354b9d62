"""Bodies that ask a person something: what waits, what counts as an answer, and what is told of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from placet import (
    Agent,
    Failed,
    InMemorySession,
    NeedsInput,
    RunHooks,
    Runner,
    RunState,
    ToolContext,
    ToolOutcomeUnknown,
    UserError,
    function_tool,
)
from placet.cli.cards import card
from placet.cli.picture import marks_of
from placet.core.elicitation import answers_of, check_agreement, checked_answers
from placet.core.fold import fold
from placet.core.log import read_lines
from placet.core.story import story_of
from placet.declare.run_config import Limits, RunConfig
from placet.declare.toolset import MAX_NAME, as_model_name, name_apart
from placet.facts import events as e
from placet.facts.errors import IllegalTransition
from placet.mcp import MCPTool
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.cli.screens import screen_of

FORM = {
    "mode": "form",
    "message": "How much?",
    "requestedSchema": {
        "type": "object",
        "properties": {"cents": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
        "required": ["cents"],
    },
}
PAGE = {"mode": "url", "message": "Pay there.", "url": "https://pay.example"}
DONE = [assistant_message("done")]


def asking(questions: Any, state: str | None = None) -> tuple[Agent[Any], list[Any]]:
    """An agent whose tool asks these questions, and what its body was told each time that it ran."""
    told: list[Any] = []

    @function_tool(needs_approval=lambda ctx, params, call_id: params["guarded"])
    async def pay(ctx: ToolContext[Any], guarded: bool) -> Any:
        told.append((ctx.attempt, ctx.answers, ctx.asked_state))
        return NeedsInput(questions, state) if ctx.answers is None else f"told {ctx.answers}"

    steps = [[function_call("pay", {"guarded": False}, call_id="c1")], DONE]
    return Agent(name="ops", tools=[pay], model=ScriptedModel(steps)), told


async def paused(agent: Agent[Any]) -> RunState[Any]:
    return await RunState.from_string(agent, (await Runner.run(agent, "go")).to_state().to_string())


async def test_a_body_of_our_own_asks_and_is_begun_again_with_the_answers_and_what_it_wanted_back() -> None:
    agent, told = asking({"amount": FORM}, state="draft 1")
    state = await paused(agent)
    state.respond("c1", {"cents": 5}, by="ana")

    result = await Runner.run(agent, state)

    answer = {"amount": {"action": "accept", "content": {"cents": 5}}}
    assert told == [(1, None, None), (2, answer, "draft 1")]
    assert result.final_output == "done"


async def test_several_questions_are_answered_by_key_all_of_them() -> None:
    agent, told = asking({"amount": FORM, "page": PAGE})
    state = await paused(agent)

    with pytest.raises(UserError, match="asks 2 questions: answer all of them, by key: amount; page"):
        state.respond("c1", {"amount": {"cents": 5}})
    state.respond("c1", {"amount": {"cents": 5}, "page": {"action": "decline"}})
    await Runner.run(agent, state)

    assert told[1][1] == {"amount": {"action": "accept", "content": {"cents": 5}}, "page": {"action": "decline"}}


async def test_a_body_that_asks_nothing_or_too_much_is_broken_off() -> None:
    nothing, _ = asking({})
    much, _ = asking({"amount": {**FORM, "message": "x" * 5000}})
    config = RunConfig(limits=Limits(output=4000))

    results = [await Runner.run(nothing, "go"), await Runner.run(much, "go", run_config=config)]

    texts = [result.new_items[1].output for result in results]
    assert texts == [
        "Tool 'pay' asked a person for nothing: it was broken off.",
        "Tool 'pay' asked a person for something larger than the limit of 4000 bytes: it was broken off.",
    ]


async def test_hooks_hear_of_the_start_once_and_of_the_end_once() -> None:
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, *_: Any) -> None:
            heard.append("start")

        async def on_tool_end(self, *_: Any) -> None:
            heard.append("end")

    agent, _ = asking({"amount": FORM})
    state = (await Runner.run(agent, "go", hooks=Hooks())).to_state()
    state.respond("c1", {"cents": 5})
    await Runner.run(agent, state, hooks=Hooks())

    assert heard == ["start", "end"]


async def test_a_body_that_says_that_it_failed_has_failed_and_the_model_reads_its_words() -> None:
    @function_tool
    async def pay() -> Any:
        return Failed("no money")

    agent = Agent(name="ops", tools=[pay], model=ScriptedModel([[function_call("pay", {}, call_id="c1")], DONE]))

    result = await Runner.run(agent, "go")

    (ended,) = [fact for _, facts in result.to_state().to_json()["log"] for fact in facts if fact[0] == "end"]
    assert ended[2:] == ["failed", "no money"]


async def test_a_body_that_lost_sight_of_its_effect_is_in_doubt_and_a_sibling_goes_on() -> None:
    @function_tool
    async def pay() -> str:
        raise ToolOutcomeUnknown("the line broke")

    @function_tool
    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    steps = [[function_call("pay", {}, call_id="c1"), function_call("look", {}, call_id="c2")], DONE]
    agent = Agent(name="ops", tools=[pay, look], model=ScriptedModel(steps))

    result = await Runner.run(agent, "go")

    (item,) = result.interruptions
    assert (item.kind, item.why) == ("in_doubt", "the line broke")
    assert [each.output for each in result.new_items if hasattr(each, "output")] == ["seen"]


async def test_a_call_that_breaks_while_it_works_with_an_answer_gets_the_same_answer_when_it_is_run_again() -> None:
    told: list[Any] = []

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> Any:
        if ctx.answers is None:
            return NeedsInput({"amount": FORM}, "draft")
        told.append((ctx.attempt, ctx.answers["amount"]["content"], ctx.asked_state))
        if len(told) == 1:
            raise ToolOutcomeUnknown("the line broke")
        return "paid"

    agent = Agent(name="ops", tools=[pay], model=ScriptedModel([[function_call("pay", {}, call_id="c1")], DONE]))
    state = await paused(agent)
    state.respond("c1", {"cents": 5})
    broken = await Runner.run(agent, state)
    state = await RunState.from_string(agent, broken.to_state().to_string())
    state.approve("c1", by="ana")

    result = await Runner.run(agent, state)

    assert [item.kind for item in broken.interruptions] == ["in_doubt"]
    assert told == [(2, {"cents": 5}, "draft"), (3, {"cents": 5}, "draft")]
    assert result.final_output == "done"


async def test_a_superseded_or_cancelled_question_leaves_a_sentence_for_the_model() -> None:
    agent, _ = asking({"amount": FORM})
    session = InMemorySession("s")
    await Runner.run(agent, "go", session=session)

    result = await Runner.run(agent, "never mind", session=session, run_config=RunConfig(on_pending="supersede"))

    assert result.final_output == "done"
    (text,) = [item.output for item in result.new_items if hasattr(item, "output")]
    assert text.startswith("This call was broken off: a newer message took the place of what was asked in it.")


# -- answers ----------------------------------------------------------------------------------------------------------


def decision(verdict: Any, output: Any = None) -> e.DecisionMade:
    return e.DecisionMade("1.0", 1, "d", verdict, "ana", 0.0, output=output)


def test_a_rejection_declines_an_approval_agrees_and_an_answer_says_what_it_says() -> None:
    both = {"amount": FORM, "page": PAGE}

    assert answers_of(both, decision("reject")) == {"amount": {"action": "decline"}, "page": {"action": "decline"}}
    assert answers_of({"page": PAGE}, decision("approve")) == {"page": {"action": "accept"}}
    assert answers_of({"x": {"mode": "form"}}, decision("approve")) == {"x": {"action": "accept", "content": {}}}


def test_a_yes_is_enough_for_a_page_and_for_a_form_that_wants_nothing() -> None:
    check_agreement({"page": PAGE, "free": {"mode": "form", "requestedSchema": {"type": "object"}}})

    with pytest.raises(UserError, match="'amount' asks for values"):
        check_agreement({"page": PAGE, "amount": FORM})


def test_a_form_whose_value_is_called_action_is_not_taken_for_an_answer_with_its_action() -> None:
    form = {"mode": "form", "requestedSchema": {"type": "object", "properties": {"action": {"type": "string"}}}}

    assert checked_answers({"x": form}, {"action": "cancel"}) == {
        "x": {"action": "accept", "content": {"action": "cancel"}}
    }


def test_a_text_is_taken_as_json_and_any_other_text_is_refused() -> None:
    assert checked_answers({"x": FORM}, '{"cents": 5}')["x"]["content"] == {"cents": 5}
    with pytest.raises(UserError, match="an answer is a mapping"):
        checked_answers({"x": FORM}, "five")


# -- facts ------------------------------------------------------------------------------------------------------------


async def facts_of(agent: Agent[Any]) -> list[Any]:
    log = (await Runner.run(agent, "go")).to_state()._log
    return [fact for record in read_lines(log.lines) for fact in record.facts]


async def test_only_a_started_call_can_ask_and_its_arguments_cannot_be_edited_any_more() -> None:
    agent, _ = asking({"amount": FORM})
    facts = await facts_of(agent)
    run = fold(facts)
    call = run.calls["1.0"]
    asked = e.InputAsked("1.0", "d", "function:pay", "f", {"x": FORM})

    unstarted = fold([fact for fact in facts if not isinstance(fact, e.CallsStarted | e.InputAsked)])

    with pytest.raises(IllegalTransition, match="allowed"):
        fold([asked], into=unstarted)
    with pytest.raises(IllegalTransition, match="cannot be edited"):
        fold([e.DecisionMade("1.0", 1, call.digest, "edit", None, 0.0, arguments={})], into=run.copy())
    with pytest.raises(IllegalTransition, match="asks nothing"):
        fold([msgspec.structs.replace(asked, questions={})], into=run)


async def test_the_timeline_tells_of_the_question_and_of_the_answer() -> None:
    agent, _ = asking({"amount": FORM})
    state = await paused(agent)
    state.respond("c1", {"cents": 5}, by="ana")
    log = (await Runner.run(agent, state)).to_state()._log

    (call,) = story_of(read_lines(log.lines)).calls()

    assert [mark.word for mark in marks_of(call)] == [
        "allowed",
        "started",
        "asked for input",
        "answered by ana",
        "started",
        "finished",
    ]


async def test_a_card_shows_the_question_its_values_and_where_to_go() -> None:
    agent, _ = asking({"amount": FORM, "page": PAGE})
    (item,) = (await Runner.run(agent, "go")).interruptions

    screen, out = screen_of(100, "utf-8")
    request = {"id": item.id, "agent": "Agent", "tool": item.name, "arguments": item.arguments, "kind": item.kind}
    screen.show(card({**request, "questions": item.questions}, screen))
    shown = "\n".join(out.lines)

    assert "It asks: How much?" in shown
    assert '"minimum": 1' in shown
    assert "(may be left out)" in shown
    assert "https://pay.example" in shown


# -- names of tools ---------------------------------------------------------------------------------------------------


def test_names_become_ones_that_all_providers_take_and_stay_apart() -> None:
    names = ["read", "files.read", "files_read", "files/read", "x" * 70, "x" * 69 + "y", "naïve"]

    made = [as_model_name(name) for name in names]

    assert made[0] == "read"
    assert made[2] == "files_read"
    assert len(set(made)) == len(names)
    assert all(len(name) <= MAX_NAME and name.replace("_", "").replace("-", "").isalnum() for name in made)


def test_tools_are_named_apart_whatever_the_order_of_their_servers() -> None:
    class Server:
        def __init__(self, name: str) -> None:
            self.name = name

    @function_tool
    def read() -> str:
        """Read."""
        return ""

    @function_tool
    def write() -> str:
        """Write."""
        return ""

    one, two = (Server("one"), [read, write]), (Server("two"), [read])

    forwards = [tool.name for tool in name_apart([], [one, two])]
    backwards = [tool.name for tool in name_apart([], [two, one])]

    assert forwards == ["one__read", "write", "two__read"]
    assert sorted(forwards) == sorted(backwards)
    assert [tool.name for tool in name_apart(["write"], [one])] == ["read", "one__write"]


def test_names_that_are_alike_even_with_their_servers_are_told_apart_by_the_whole_identity() -> None:
    class Server:
        def __init__(self, name: str) -> None:
            self.name = name

    def tool(server: str, name: str) -> MCPTool:
        return MCPTool(name, "", {}, on_invoke_tool=None, server_name=server, tool_name=name)  # type: ignore[arg-type]

    found = [(Server("a"), [tool("a", "b__c"), tool("a", "c")]), (Server("a__b"), [tool("a__b", "c")])]

    names = [each.name for each in name_apart(["b__c"], found)]

    assert len(set(names)) == 3
    assert names[1] == "a__c"
    assert all(name.startswith("a__b__c_") for name in (names[0], names[2]))
