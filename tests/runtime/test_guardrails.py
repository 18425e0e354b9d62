"""Guardrails: when each kind runs, what a tripwire stops, and that none erases what has happened."""

from __future__ import annotations

import asyncio

import pytest

from placet import (
    GuardrailFunctionOutput,
    InMemorySession,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    MemoryStore,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrail,
    ToolOutputGuardrailTripwireTriggered,
    UserError,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from placet.testing import Crash, CrashingStore
from tests.runtime.team_scenes import (
    SECONDS,
    Planned,
    Traces,
    approve_all,
    call,
    done,
    facts,
    go,
    model_of,
    outputs,
    reloaded,
    scripted,
    sent,
)

FINE = GuardrailFunctionOutput()
TRIP = GuardrailFunctionOutput("why", True)


class Rule:
    """A guardrail of a run that says what it is told to say and remembers what it saw."""

    def __init__(self, *words, default=FINE):
        self._words = list(words)
        self._default = default
        self.saw = []

    def __call__(self, _ctx, _agent, subject):
        self.saw.append(subject)
        word = self._words.pop(0) if self._words else self._default
        if isinstance(word, Exception):
            raise word
        return word


class ToolRule:
    """The same for a tool."""

    def __init__(self, judge):
        self._judge = judge
        self.saw = []

    def __call__(self, data):
        self.saw.append(getattr(data, "output", data.context.tool_arguments))
        return self._judge(data)


ALLOW = ToolGuardrailFunctionOutput.allow
REJECT = ToolGuardrailFunctionOutput.reject_content
RAISE = ToolGuardrailFunctionOutput.raise_exception


# -- the input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [True, False])
async def test_an_input_guardrail_sees_the_input_once_and_its_word_is_in_the_result(parallel):
    rule = Rule(GuardrailFunctionOutput({"score": 1}))
    agent = scripted("A", [done()], input_guardrails=[InputGuardrail(rule, "polite", parallel)])

    result = await go(agent, "hi")

    assert rule.saw == ["hi"]
    assert [(each.name, each.output.output_info) for each in result.input_guardrail_results] == [
        ("polite", {"score": 1})
    ]


async def test_a_guardrail_that_comes_first_keeps_the_model_from_being_asked():
    agent = scripted("A", [done()], input_guardrails=[InputGuardrail(Rule(TRIP), "strict", run_in_parallel=False)])

    with pytest.raises(InputGuardrailTripwireTriggered) as tripped:
        await go(agent, "hi")

    assert model_of(agent).calls == []
    assert tripped.value.guardrail_result.name == "strict"
    assert tripped.value.guardrail_result.output.output_info == "why"


async def test_a_guardrail_beside_the_first_request_keeps_its_calls_from_running_although_the_answer_came_first():
    traces, answered = Traces(), asyncio.Event()

    async def slow(_ctx, _agent, _input):
        await asyncio.wait_for(answered.wait(), SECONDS)
        return TRIP

    class Telling(Planned):
        async def get_response(self, request):
            response = await super().get_response(request)
            asyncio.get_running_loop().call_soon(answered.set)
            return response

    agent = scripted("A", [], traces.tool(), input_guardrails=[InputGuardrail(slow)])
    agent.model = Telling({"hi": [[call("pay", 1)]]})

    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, "hi")

    assert agent.model.asked == [("hi", 0)]
    assert traces.ran == []


async def test_a_guardrail_that_trips_while_the_model_is_asked_ends_the_asking():
    cancelled = asyncio.Event()

    class Slow(Planned):
        async def get_response(self, request):
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    agent = scripted("A", [], input_guardrails=[InputGuardrail(Rule(TRIP))])
    agent.model = Slow({})

    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, "hi")

    await asyncio.wait_for(cancelled.wait(), SECONDS)


async def test_a_run_that_was_stopped_stays_stopped_and_asks_nobody_again():
    rule = Rule(TRIP)
    agent = scripted("A", [done()], input_guardrails=[InputGuardrail(rule, run_in_parallel=False)])
    with pytest.raises(InputGuardrailTripwireTriggered) as first:
        await go(agent, "hi")

    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, await reloaded(agent, first.value.state))

    assert rule.saw == ["hi"]
    assert model_of(agent).calls == []


@pytest.mark.parametrize("parallel", [True, False])
async def test_input_guardrails_do_not_run_again_at_resumption(parallel):
    traces, rule = Traces(), Rule()
    agent = scripted(
        "A",
        [[call("pay", 1)], done()],
        traces.gated(),
        input_guardrails=[InputGuardrail(rule, run_in_parallel=parallel)],
    )

    result = await approve_all(agent, await go(agent, "hi"))

    assert result.final_output == "done"
    assert len(rule.saw) == 1
    assert len(result.input_guardrail_results) == 1


async def test_input_guardrails_are_those_of_the_first_agent_and_of_the_configuration():
    first, second, config = Rule(), Rule(), Rule()
    b = scripted("B", [done()], input_guardrails=[InputGuardrail(second)])
    a = scripted("A", [[call("transfer_to_b")]], handoffs=[b], input_guardrails=[InputGuardrail(first)])

    await go(a, "hi", run_config=RunConfig(input_guardrails=[InputGuardrail(config)]))

    assert (len(first.saw), len(second.saw), len(config.saw)) == (1, 0, 1)


async def test_a_guardrail_that_fails_ends_the_drive_and_is_asked_again_before_any_call_runs():
    traces, rule = Traces(), Rule(OSError("down"), TRIP)
    agent = scripted("A", [[call("pay", 1)], [call("pay", 1)]], traces.tool(), input_guardrails=[InputGuardrail(rule)])
    with pytest.raises(OSError, match="down") as failed:
        await go(agent, "hi")

    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, failed.value.state)

    assert traces.ran == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_between_the_first_answer_and_the_guardrails_word_lets_no_call_run_unjudged(when):
    number, crashed = 0, True
    while crashed:
        number, crashed = number + 1, False
        traces, store, rule = Traces(), CrashingStore(MemoryStore()), Rule(default=TRIP)
        agent = scripted("A", [[call("pay", 1)]] * 3, traces.tool(), input_guardrails=[InputGuardrail(rule)])
        store.crash_at(number, when)
        given = "hi"
        for _ in range(3):
            try:
                await go(agent, given, store=store)
            except Crash as crash:
                crashed, given = True, await reloaded(agent, crash.state)
            except InputGuardrailTripwireTriggered:
                break

        assert traces.ran == [], f"append {number}"
        assert rule.saw


@pytest.mark.parametrize("word", [None, True, "yes", ToolGuardrailFunctionOutput()])
async def test_a_guardrail_that_says_something_else_is_named(word):
    agent = scripted("A", [done()], input_guardrails=[InputGuardrail(Rule(word), "odd", run_in_parallel=False)])

    with pytest.raises(UserError, match="'odd'"):
        await go(agent, "hi")


async def test_a_tripwire_that_is_not_plainly_false_is_one():
    agent = scripted("A", [done()], input_guardrails=[InputGuardrail(Rule(GuardrailFunctionOutput(None, None)))])

    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, "hi")


async def test_a_message_that_a_guardrail_stopped_does_not_stop_the_next_one_on_its_session():
    session = InMemorySession("chat")

    def no_swearing(_ctx, _agent, given):
        return GuardrailFunctionOutput(None, "damn" in str(given))

    agent = scripted("A", [done()], input_guardrails=[InputGuardrail(no_swearing, run_in_parallel=False)])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, "damn", session=session)

    result = await go(agent, "please", session=session)

    assert result.final_output == "done"


def test_the_decorators_make_guardrails_with_the_names_of_their_functions():
    def rule(*_):
        return FINE

    assert input_guardrail(rule).get_name() == "rule"
    assert input_guardrail(name="other", run_in_parallel=False)(rule).get_name() == "other"
    assert output_guardrail(rule).get_name() == "rule"
    assert tool_input_guardrail(rule).get_name() == "rule"
    assert tool_output_guardrail(rule).get_name() == "rule"


# -- the output --------------------------------------------------------------------------------------------------------


async def test_an_output_guardrail_sees_the_final_output_of_the_last_agent_and_its_word_is_in_the_result():
    first, last, config = Rule(), Rule(), Rule()
    b = scripted("B", [done("the end")], output_guardrails=[OutputGuardrail(last, "last")])
    a = scripted("A", [[call("transfer_to_b")]], handoffs=[b], output_guardrails=[OutputGuardrail(first)])

    result = await go(a, "hi", run_config=RunConfig(output_guardrails=[OutputGuardrail(config, "config")]))

    assert (first.saw, last.saw, config.saw) == ([], ["the end"], ["the end"])
    assert [each.name for each in result.output_guardrail_results] == ["last", "config"]


async def test_a_trip_at_the_end_keeps_the_evidence_of_the_approved_effect_and_repeats_nothing_at_resumption():
    traces, rule = Traces(), Rule(TRIP)
    agent = scripted(
        "A", [[call("pay", 1, "c1")], done("bad")], traces.gated(), output_guardrails=[OutputGuardrail(rule)]
    )
    paused = await go(agent, "hi")

    with pytest.raises(OutputGuardrailTripwireTriggered) as tripped:
        await approve_all(agent, paused)
    state = await reloaded(agent, tripped.value.state)
    result = await go(agent, state)

    assert ["end", "1.0", "finished", "pay 1 done"] in facts(state)
    assert not state.has_ended
    assert result.final_output == "bad", "the guardrail was asked anew and let it be"
    assert len(rule.saw) == 2
    assert traces.ran == ["pay 1"]


async def test_after_a_trip_at_the_end_a_message_can_be_added_and_the_model_answers_anew():
    rule = Rule(TRIP)
    agent = scripted("A", [done("bad"), done("better")], output_guardrails=[OutputGuardrail(rule)])
    with pytest.raises(OutputGuardrailTripwireTriggered) as tripped:
        await go(agent, "hi")
    state = tripped.value.state
    state.add_input("Say it politely.")

    result = await go(agent, state)

    assert result.final_output == "better"
    assert rule.saw == ["bad", "better"]


# -- tools: before -----------------------------------------------------------------------------------------------------


async def test_what_a_rule_denies_needs_nobodys_attention():
    traces, rule = Traces(), ToolRule(lambda _: REJECT("not that one"))
    agent = scripted(
        "A", [[call("pay", 1, "c1")], done()], traces.gated(tool_input_guardrails=[ToolInputGuardrail(rule, "limit")])
    )

    result = await go(agent, "hi")

    assert result.final_output == "done"
    assert traces.ran == []
    assert outputs(sent(agent)) == [("c1", "not that one")]
    assert [each.name for each in result.tool_input_guardrail_results] == ["limit"]


async def test_a_rule_is_asked_before_the_person_and_again_right_before_the_body():
    traces, rule = Traces(), ToolRule(lambda _: ALLOW())
    agent = scripted("A", [[call("pay", 1)], done()], traces.gated(tool_input_guardrails=[ToolInputGuardrail(rule)]))
    paused = await go(agent, "hi")
    before = len(rule.saw)

    await approve_all(agent, paused)

    assert (before, len(rule.saw)) == (1, 2)
    assert traces.ran == ["pay 1"]


async def test_what_a_rule_denies_after_the_approval_does_not_run():
    traces, words = Traces(), [ALLOW(), REJECT("too late in the day")]
    rule = ToolRule(lambda _: words.pop(0))
    agent = scripted(
        "A", [[call("pay", 1, "c1")], done()], traces.gated(tool_input_guardrails=[ToolInputGuardrail(rule)])
    )

    result = await approve_all(agent, await go(agent, "hi"))

    assert result.final_output == "done"
    assert traces.ran == []
    assert outputs(sent(agent)) == [("c1", "too late in the day")]


async def test_a_free_tools_rule_is_asked_once_and_denies_one_call_and_not_its_sibling():
    traces = Traces()
    rule = ToolRule(lambda data: REJECT("no") if '"n": 1' in data.context.tool_arguments else ALLOW())
    agent = scripted(
        "A",
        [[call("pay", 1, "c1"), call("pay", 2, "c2")], done()],
        traces.tool(tool_input_guardrails=[ToolInputGuardrail(rule)]),
    )

    await go(agent, "hi")

    assert traces.ran == ["pay 2"]
    assert outputs(sent(agent)) == [("c1", "no"), ("c2", "pay 2 done")]
    assert len(rule.saw) == 2


@pytest.mark.parametrize("gated", [True, False])
async def test_a_rule_that_stops_the_run_stops_it_before_the_tool(gated):
    traces = Traces()
    rule = ToolInputGuardrail(ToolRule(lambda _: RAISE("why")), "stop")
    agent = scripted("A", [[call("pay", 1)], done()], traces.tool(needs_approval=gated, tool_input_guardrails=[rule]))

    with pytest.raises(ToolInputGuardrailTripwireTriggered) as tripped:
        await go(agent, "hi")

    assert traces.ran == []
    assert tripped.value.guardrail_result.output.output_info == "why"
    assert tripped.value.state is not None


@pytest.mark.promise("P10")
async def test_an_edit_that_a_rule_denies_goes_back_to_the_person_as_a_new_question():
    traces = Traces()
    rule = ToolRule(lambda data: REJECT("at most 10") if '"n":99' in data.context.tool_arguments else ALLOW())
    agent = scripted(
        "A", [[call("pay", 1, "c1")], done()], traces.gated(tool_input_guardrails=[ToolInputGuardrail(rule)])
    )
    paused = await go(agent, "hi")
    state = await reloaded(agent, paused)
    state.approve(state.get_interruptions()[0], arguments={"n": 99})

    again = await go(agent, state)
    (item,) = again.interruptions
    state = await reloaded(agent, again)
    state.approve(state.get_interruptions()[0], arguments={"n": 9})
    result = await go(agent, state)

    assert item.request_id != paused.interruptions[0].request_id
    assert "at most 10" in item.why
    assert item.arguments == '{"n": 1}'
    assert traces.ran == ["pay 9"]
    assert result.final_output == "done"


# -- tools: after ------------------------------------------------------------------------------------------------------


async def test_a_rule_puts_a_message_in_the_place_of_what_a_tool_returned():
    traces, rule = Traces(), ToolRule(lambda _: REJECT("(hidden)"))
    agent = scripted(
        "A", [[call("pay", 1, "c1")], done()], traces.tool(tool_output_guardrails=[ToolOutputGuardrail(rule, "mask")])
    )

    result = await go(agent, "hi")

    assert rule.saw == ["pay 1 done"]
    assert outputs(sent(agent)) == [("c1", "(hidden)")]
    assert "pay 1 done" not in str(facts(result))
    assert [(each.name, each.output.tripwire_triggered) for each in result.tool_output_guardrail_results] == [
        ("mask", True)
    ]


async def test_a_trip_after_an_approved_effect_keeps_its_evidence_and_the_effect_is_not_repeated():
    traces = Traces()
    rule = ToolOutputGuardrail(ToolRule(lambda _: RAISE()), "stop")
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.gated(tool_output_guardrails=[rule]))
    paused = await go(agent, "hi")

    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as tripped:
        await approve_all(agent, paused)
    state = await reloaded(agent, tripped.value.state)
    result = await go(agent, state)

    assert ["end", "1.0", "finished", "pay 1 done"] in facts(state)
    assert traces.ran == ["pay 1"]
    assert result.final_output == "done"


@pytest.mark.parametrize("word", ["error", None], ids=["raises", "says nothing"])
async def test_a_rule_that_fails_after_the_effect_does_not_make_the_effect_a_failure(word):
    def judge(_):
        if word == "error":
            raise OSError("the rule is down")

    traces = Traces()
    agent = scripted(
        "A", [[call("pay", 1, "c1")], done()], traces.tool(tool_output_guardrails=[ToolOutputGuardrail(judge)])
    )

    with pytest.raises((OSError, UserError)) as failed:
        await go(agent, "hi")
    result = await go(agent, failed.value.state)

    assert ["end", "1.0", "finished", "pay 1 done"] in facts(failed.value.state)
    assert traces.ran == ["pay 1"]
    assert result.final_output == "done"
