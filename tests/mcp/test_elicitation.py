"""A server that asks for input in the middle of a call: a question like any other, which survives what runs survive."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import ElicitResult

from placet import Agent, Runner, RunState, StaleApproval, UserError
from placet.core.approvals import ApprovalRecord
from placet.declare.run_config import RunConfig
from placet.desk import Desk
from placet.testing import ManualClock, ScriptedModel
from tests.mcp.scenes import DONE, Effects, agent_with, call, outputs, own_shop, running, stdio_shop

SHIP = call("ship", "c1", order_id="7")
ADDRESS = {"street": "Main", "number": 5}


async def paused_at(agent: Agent[Any]) -> RunState[Any]:
    """The state of a run that waits, stored and loaded again."""
    return await RunState.from_string(agent, (await Runner.run(agent, "go")).to_state().to_string())


async def test_what_a_server_asks_waits_like_any_other_question_and_shows_what_it_wants(effects: Effects) -> None:
    agent = agent_with(own_shop(), steps=[[SHIP, call("add", "c2", a=1, b=2)], DONE])

    result = await Runner.run(agent, "go")

    (item,) = result.interruptions
    (question,) = item.questions.values()
    assert (item.kind, item.name, item.arguments) == ("elicitation", "ship", '{"order_id": "7"}')
    assert question["message"] == "Where should order 7 go?"
    assert question["requestedSchema"]["required"] == ["street", "number"]
    assert outputs(result) == {"c2": "3"}
    assert effects.lines == []


async def test_the_answer_reaches_the_server_in_another_process_than_the_one_that_asked(effects: Effects) -> None:
    agent = agent_with(stdio_shop(effects), steps=[[SHIP], DONE])
    state = await paused_at(agent)
    state.respond(state.get_interruptions()[0], ADDRESS, by="ana")

    result = await Runner.run(agent, state)

    assert outputs(result) == {"c1": "order 7 goes to Main 5"}
    assert effects.lines == ["ship 7 Main 5"]


async def test_the_answer_reaches_a_server_that_was_restarted_meanwhile(effects: Effects) -> None:
    with running(effects, "http") as process:
        port = process.port
        agent = agent_with(process.server(), steps=[[SHIP], DONE])
        state = await paused_at(agent)
    with running(effects, "http", port=port):
        state.respond("c1", ADDRESS)
        result = await Runner.run(agent, state)

    assert outputs(result) == {"c1": "order 7 goes to Main 5"}
    assert effects.lines == ["ship 7 Main 5"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"street": "Main"}, "number: is required"),
        ({"street": "Main", "number": "five"}, "number: should be integer"),
        ({"street": "", "number": 5}, "street: should have at least 1 characters"),
        ("Main 5", "an answer is a mapping"),
        (None, "an answer is a mapping"),
        ({"action": "accept", "content": {"street": "Main"}}, "number: is required"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_where_it_is_given(answer: Any, words: str) -> None:
    agent = agent_with(own_shop(), steps=[[SHIP], DONE])
    state = await paused_at(agent)

    with pytest.raises(UserError, match=words):
        state.respond("c1", answer)
    assert len(state.get_interruptions()) == 1


@pytest.mark.parametrize(
    ("say", "action"),
    [
        (lambda state: state.reject("c1"), "decline"),
        (lambda state: state.respond("c1", {"action": "decline"}), "decline"),
        (lambda state: state.respond("c1", {"action": "cancel"}), "cancel"),
    ],
)
async def test_a_rejection_declines_and_the_server_goes_on_with_that(effects: Effects, say: Any, action: str) -> None:
    agent = agent_with(own_shop(), steps=[[SHIP], DONE])
    state = await paused_at(agent)
    say(state)

    result = await Runner.run(agent, state)

    assert outputs(result) == {"c1": f"order 7 was not shipped: {action}"}
    assert effects.lines == [f"not shipped 7 {action}"]


async def test_values_may_be_given_under_the_key_or_with_their_action(effects: Effects) -> None:
    for given in ({"action": "accept", "content": ADDRESS}, None):
        agent = agent_with(own_shop(), steps=[[SHIP], DONE])
        state = await paused_at(agent)
        (key,) = state.get_interruptions()[0].questions
        state.respond("c1", {key: ADDRESS} if given is None else given)
        await Runner.run(agent, state)

    assert effects.lines == ["ship 7 Main 5"] * 2


async def test_several_rounds_are_several_questions_each_with_its_own_id(effects: Effects) -> None:
    agent = agent_with(own_shop(), steps=[[call("ship_carefully", "c1", order_id="7")], DONE])
    first = await paused_at(agent)
    first.respond("c1", ADDRESS)
    second_run = await Runner.run(agent, first)
    second = await RunState.from_string(agent, second_run.to_state().to_string())
    second.respond("c1", {"sure": True})

    result = await Runner.run(agent, second)

    ids = [state.get_interruptions()[0].request_id[-3:] for state in (first, second)]
    assert ids == ["_q1", "_q2"]
    assert [q["message"] for q in second_run.interruptions[0].questions.values()] == ["Really to Main?"]
    assert outputs(result) == {"c1": "order 7: Main, sent"}
    assert effects.lines == ["ship 7 Main True"]


async def test_an_answer_to_the_first_question_is_none_to_the_second() -> None:
    agent = agent_with(own_shop(), steps=[[call("ship_carefully", "c1", order_id="7")], DONE])
    paused = await Runner.run(agent, "go")
    state = paused.to_state()
    state.respond("c1", ADDRESS)
    later = (await Runner.run(agent, state)).to_state()

    with pytest.raises(StaleApproval, match="asked about anew"):
        later.respond(paused.interruptions[0], ADDRESS)
    late = paused.to_state()
    late.respond("c1", {"street": "Other", "number": 1})
    with pytest.raises(StaleApproval, match="contradicts"):
        await Runner.run(agent, late)


async def test_a_page_to_go_to_is_agreed_to_or_declined_and_takes_no_values(effects: Effects) -> None:
    for verdict in ("approve", "reject"):
        agent = agent_with(own_shop(), steps=[[call("pay_by_card", "c1", order_id="9")], DONE])
        state = await paused_at(agent)
        (question,) = state.get_interruptions()[0].questions.values()
        with pytest.raises(UserError, match="takes no values"):
            state.respond("c1", {"card": "4242"})
        getattr(state, verdict)("c1")
        await Runner.run(agent, state)

    assert question == {"mode": "url", "message": "Enter your card there.", "url": "https://pay.example/9"}
    assert effects.lines == ["card 9 accept 9", "card 9 decline 9"]


async def test_a_mere_yes_is_no_answer_to_a_form_and_neither_is_an_edit_or_a_standing_word() -> None:
    agent = agent_with(own_shop(), steps=[[SHIP], DONE])
    state = await paused_at(agent)

    with pytest.raises(UserError, match="an approval gives none: answer it with respond"):
        state.approve("c1")
    with pytest.raises(UserError, match="answer with respond"):
        state.approve("c1", arguments={"order_id": "8"})
    with pytest.raises(UserError, match="this question only"):
        state.reject("c1", always_reject=True)


async def test_an_approved_call_that_asks_counts_as_approved_whatever_is_answered(effects: Effects) -> None:
    agent = agent_with(own_shop(require_approval="always"), steps=[[SHIP], DONE])
    state = await paused_at(agent)
    state.approve("c1", by="ana")
    asking = await Runner.run(agent, state)
    state = asking.to_state()
    state.reject("c1", by="ben")

    result = await Runner.run(agent, state)

    assert [item.kind for item in asking.interruptions] == ["elicitation"]
    assert asking.context_wrapper.is_tool_approved("ship", "c1") is True
    assert result.context_wrapper.approvals == {"ship": ApprovalRecord(("c1",), (), None)}
    assert effects.lines == ["not shipped 7 decline"]


async def test_resuming_an_answered_question_twice_reaches_the_server_once(effects: Effects) -> None:
    agent = agent_with(own_shop(), steps=[[SHIP], DONE])
    state = await paused_at(agent)
    state.respond("c1", ADDRESS)

    first = await Runner.run(agent, state)
    second = await Runner.run(agent, state)

    assert first.final_output == second.final_output == "done"
    assert effects.lines == ["ship 7 Main 5"]


async def test_at_a_desk_the_question_is_shown_and_answered_by_respond(effects: Effects, tmp_path: Any) -> None:
    agent = agent_with(own_shop(), steps=[[SHIP], DONE])
    async with Desk(f"sqlite:///{tmp_path}/desk.db", agents=[agent]) as desk:
        run = await desk.start("ops", "go")
        await desk.wait(run.id, until="paused", timeout=90)
        (request,) = await desk.pending(run_id=run.id)
        with pytest.raises(UserError, match="number: is required"):
            await desk.decide(request.id, "respond", output={"street": "Main"})
        answered = await desk.decide(request.id, "respond", output=ADDRESS, by="ana")
        ended = await desk.wait(run.id, until="ended", timeout=90)

    assert request.kind == "elicitation"
    assert [q["message"] for q in (request.questions or {}).values()] == ["Where should order 7 go?"]
    assert (answered.status, answered.decided_by) == ("answered", "ana")
    assert ended.final_output == "done"
    assert effects.lines == ["ship 7 Main 5"]


async def test_a_question_that_nobody_answers_in_time_ends_the_call_with_a_sentence(effects: Effects) -> None:
    clock = ManualClock(1000.0)
    agent = agent_with(own_shop(decide_within=60), steps=[[SHIP], DONE])
    config = RunConfig(clock=clock)
    state = (await Runner.run(agent, "go", run_config=config)).to_state()
    clock.advance(61)

    result = await Runner.run(agent, state, run_config=config)

    assert outputs(result)["c1"].startswith("This call was stopped: it asked for input, and no answer came in time.")
    assert effects.lines == []


async def test_a_call_whose_tool_changed_while_it_asked_is_in_doubt_and_is_not_gone_on_with(effects: Effects) -> None:
    model = ScriptedModel([[SHIP], DONE])
    before = Agent(name="ops", model=model, mcp_servers=[own_shop(version="1")])
    state = await paused_at(before)
    state.respond("c1", ADDRESS)
    after = Agent(name="ops", model=model, mcp_servers=[own_shop(version="2")])

    result = await Runner.run(after, await RunState.from_string(after, state.to_string()))

    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert effects.lines == []


async def test_inside_an_agent_behind_a_tool_the_question_surfaces_on_the_outer_run(effects: Effects) -> None:
    inner = agent_with(own_shop(), steps=[[SHIP], DONE], name="clerk")
    outer = Agent(
        name="boss",
        tools=[inner.as_tool("clerk", "Ask the clerk.")],
        model=ScriptedModel([[call("clerk", "o1", input="ship 7")], DONE]),
    )
    state = await paused_at(outer)
    (item,) = state.get_interruptions()
    state.respond(item, ADDRESS)

    result = await Runner.run(outer, state)

    assert (item.kind, item.name) == ("elicitation", "ship")
    assert result.final_output == "done"
    assert effects.lines == ["ship 7 Main 5"]


# -- servers of older protocols ---------------------------------------------------------------------------------------


async def test_a_server_of_an_older_protocol_is_answered_by_the_callback_inside_the_call(effects: Effects) -> None:
    async def answer(_context: Any, params: Any) -> ElicitResult:
        assert params.message == "Your name?"
        return ElicitResult(action="accept", content={"name": "Ana"})

    server = own_shop(protocol="legacy", elicitation_callback=answer)
    agent = agent_with(server, steps=[[call("ask_in_the_call", "c1")], DONE])

    result = await Runner.run(agent, "go")

    assert outputs(result)["c1"] == "accept name='Ana'"


async def test_without_a_callback_the_model_reads_why_the_call_failed(effects: Effects) -> None:
    agent = agent_with(own_shop(protocol="legacy"), steps=[[call("ask_in_the_call", "c1")], DONE])

    result = await Runner.run(agent, "go")

    assert result.final_output == "done"
    assert "the call cannot wait for a person" in outputs(result)["c1"]
    assert "elicitation_callback" in outputs(result)["c1"]
    assert effects.lines == []


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_page_that_an_older_server_wants_visited_first_is_a_question_too(
    effects: Effects, verdict: str
) -> None:
    agent = agent_with(own_shop(protocol="legacy"), steps=[[call("needs_login", "c1")], DONE])
    state = await paused_at(agent)
    (item,) = state.get_interruptions()
    effects.path.write_text("login\n")
    getattr(state, verdict)(item)

    result = await Runner.run(agent, state)

    assert item.questions == {
        "login-1": {
            "mode": "url",
            "message": "Log in first.",
            "url": "https://login.example",
            "elicitationId": "login-1",
        }
    }
    expected = "logged in" if verdict == "approve" else "A person declined what the server asked for"
    assert expected in outputs(result)["c1"]
