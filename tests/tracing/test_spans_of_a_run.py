"""What a run without pauses looks like in a trace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from placet import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    RequestNotTaken,
    Runner,
    Usage,
    function_tool,
    input_guardrail,
)
from placet.facts.events import PlainFact
from placet.sessions.memory import InMemorySession
from placet.testing import ModelStep, ScriptedModel, assistant_message, reasoning
from placet.tracing.spans import HANDLERS, UNTOLD
from tests.tracing.scenes import DONE, Traces, answer, ask, attributes, call, is_child, scripted, seconds, tool


async def test_a_plain_run_is_a_span_for_the_drive_with_its_model_calls_and_tool_calls_below_it(traces: Traces) -> None:
    agent = scripted([answer(call("look", "c1"), tokens=10), answer(*DONE, tokens=1)], tool())

    result = await traces.go(agent, "go")

    assert traces.tree() == [
        "invoke_agent Clerk",
        "invoke_agent Clerk / chat",
        "invoke_agent Clerk / chat",
        "invoke_agent Clerk / execute_tool look",
    ]
    run_id = result.to_state().run_id
    assert attributes(traces.one("invoke_agent Clerk")) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Clerk",
        "gen_ai.agent.id": "Clerk",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 22,
        "placet.run.id": run_id,
        "placet.run.status": "ended",
        "placet.drive.position": 0,
    }
    assert attributes(traces.all("chat")[0]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "Clerk",
        "gen_ai.agent.id": "Clerk",
        "gen_ai.response.id": "resp_1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "placet.turn": 1,
    }
    assert attributes(traces.one("execute_tool look")) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "placet.call.id": f"{run_id}_t1c0",
        "placet.call.attempt": 1,
        "placet.call.is_continued": False,
        "placet.call.outcome": "finished",
    }
    assert {span.name: span.kind for span in traces.spans} == {
        "invoke_agent Clerk": SpanKind.INTERNAL,
        "chat": SpanKind.CLIENT,
        "execute_tool look": SpanKind.INTERNAL,
    }
    assert all(span.status.status_code is StatusCode.UNSET for span in traces.spans)


async def test_spans_have_the_times_of_the_facts(traces: Traces) -> None:
    @function_tool
    async def slow() -> str:
        traces.clock.advance(7)
        return "at last"

    def thinking(_request: Any) -> ModelStep:
        traces.clock.advance(3)
        return ModelStep([call("slow")])

    agent = scripted([thinking, DONE], slow)

    await traces.go(agent, "go")

    assert seconds(traces.all("chat")[0]) == (0, 3)
    assert seconds(traces.one("execute_tool slow")) == (3, 10)
    assert seconds(traces.all("chat")[1]) == (10, 10)
    assert seconds(traces.one("invoke_agent Clerk")) == (0, 10)


async def test_tokens_that_were_cached_or_spent_on_reasoning_are_told_where_there_are_some(traces: Traces) -> None:
    usage = Usage(1, 100, 50, 150, 80, 40)
    agent = scripted([ModelStep([reasoning("hm"), *DONE], usage=usage)])

    await traces.go(agent, "go")

    about = attributes(traces.one("chat"))
    assert about["gen_ai.usage.cache_read.input_tokens"] == 80
    assert about["gen_ai.usage.reasoning.output_tokens"] == 40


async def test_parallel_calls_are_siblings_each_with_its_own_end(traces: Traces) -> None:
    quick_is_recorded = asyncio.Event()

    @function_tool
    async def quick() -> str:
        return "quick"

    @function_tool
    async def slow() -> str:
        await quick_is_recorded.wait()
        traces.clock.advance(5)
        return "slow"

    agent = scripted([[call("quick", "c1"), call("slow", "c2"), call("quick", "c3")], DONE], quick, slow)
    exported = traces.exporter.export

    def export(spans: Any) -> Any:
        if any(span.name == "execute_tool quick" for span in spans):
            quick_is_recorded.set()
        return exported(spans)

    traces.exporter.export = export  # type: ignore[method-assign]

    await traces.go(agent, "go")

    assert traces.tree()[-3:] == [
        "invoke_agent Clerk / execute_tool quick",
        "invoke_agent Clerk / execute_tool quick",
        "invoke_agent Clerk / execute_tool slow",
    ]
    assert [attributes(span)["gen_ai.tool.call.id"] for span in traces.all("execute_tool quick")] == ["c1", "c3"]
    assert seconds(traces.one("execute_tool slow")) == (0, 5)
    assert [seconds(span) for span in traces.all("execute_tool quick")] == [(0, 0), (0, 0)]


async def test_spans_that_a_tool_makes_are_below_its_own_also_in_a_thread(traces: Traces) -> None:
    inner = traces.provider.get_tracer("test")

    @function_tool
    async def on_the_loop() -> str:
        with inner.start_as_current_span("query"):
            await asyncio.sleep(0)
        return "ok"

    @function_tool
    def in_a_thread() -> str:
        with inner.start_as_current_span("read"):
            return "ok"

    agent = scripted([[call("on_the_loop"), call("in_a_thread")], DONE], on_the_loop, in_a_thread)

    await traces.go(agent, "go")

    assert is_child(traces.one("query"), traces.one("execute_tool on_the_loop"))
    assert is_child(traces.one("read"), traces.one("execute_tool in_a_thread"))
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_handoff_is_an_event_and_the_next_model_call_is_the_next_agents(traces: Traces) -> None:
    billing = scripted([DONE], name="Billing")
    agent = scripted([[call("look", "c1"), call("transfer_to_billing", "c2")]], tool(), handoffs=[billing])

    await traces.go(agent, "go")

    drive = traces.one("invoke_agent Clerk")
    assert [(event.name, dict(event.attributes or {})) for event in drive.events] == [
        ("placet.handoff", {"placet.handoff.from": "Clerk", "placet.handoff.to": "Billing"})
    ]
    assert [attributes(span)["gen_ai.agent.name"] for span in traces.all("chat")] == ["Clerk", "Billing"]
    assert [span.name for span in traces.spans if span.name.startswith("execute_tool")] == ["execute_tool look"]


async def test_a_tool_that_fails_has_a_failed_span_with_the_kind_of_its_error_and_the_run_goes_on(
    traces: Traces,
) -> None:
    @function_tool
    async def broken() -> str:
        raise KeyError("the text of the error")

    agent = scripted([[call("broken", "c1")], DONE], broken)

    result = await traces.go(agent, "go")

    span = traces.one("execute_tool broken")
    assert result.final_output == "done"
    assert attributes(span)["error.type"] == "KeyError"
    assert attributes(span)["placet.call.outcome"] == "failed"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert not span.events
    assert traces.one("invoke_agent Clerk").status.status_code is StatusCode.UNSET


async def test_a_tool_whose_failure_ends_the_drive_fails_the_drives_span_too(traces: Traces) -> None:
    @function_tool(timeout=0.01)
    async def stuck() -> str:
        await asyncio.Event().wait()
        return "never"

    @function_tool(failure_error_function=None)
    async def fatal() -> str:
        raise OSError("disk")

    agent = scripted([[call("stuck", "c1"), call("fatal", "c2")]], stuck, fatal)

    with pytest.raises(Exception, match="disk"):
        await traces.go(agent, "go")

    drive = traces.one("invoke_agent Clerk")
    assert attributes(traces.one("execute_tool stuck"))["error.type"] == "tool_timeout"
    assert attributes(traces.one("execute_tool fatal"))["error.type"] == "OSError"
    assert attributes(drive)["error.type"] == "tool_raised"
    assert attributes(drive)["placet.run.status"] == "stopped"
    assert drive.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    ("step", "error", "kind", "delivery"),
    [
        (ConnectionError("lost"), ConnectionError, "ConnectionError", "unknown"),
        (RequestNotTaken("no"), RequestNotTaken, "RequestNotTaken", "refused"),
        (ModelStep([]), ModelBehaviorError, "unusable_response", None),
    ],
)
async def test_a_model_call_that_fails_is_a_failed_span(
    traces: Traces, step: Any, error: type[Exception], kind: str, delivery: str | None
) -> None:
    agent = scripted([step])

    with pytest.raises(error):
        await traces.go(agent, "go")

    chat = traces.one("chat")
    assert chat.status.status_code is StatusCode.ERROR
    assert attributes(chat)["error.type"] == kind
    assert attributes(chat).get("placet.delivery") == delivery
    assert traces.one("invoke_agent Clerk").status.status_code is StatusCode.ERROR


async def test_a_run_that_uses_up_its_turns_ends_its_span_with_the_errors_code(traces: Traces) -> None:
    agent = scripted([[call("look")], [call("look")]], tool())

    with pytest.raises(MaxTurnsExceeded):
        await traces.go(agent, "go", max_turns=1)

    assert attributes(traces.one("invoke_agent Clerk"))["error.type"] == "max_turns_exceeded"


async def test_a_guardrail_is_an_event_and_the_model_call_that_it_cut_off_is_ended(traces: Traces) -> None:
    @input_guardrail
    async def no_spells(_ctx: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"found": "abracadabra"}, True)

    agent = scripted([DONE], input_guardrails=[no_spells])

    with pytest.raises(InputGuardrailTripwireTriggered):
        await traces.go(agent, "abracadabra")

    (event,) = traces.one("invoke_agent Clerk").events
    assert event.name == "placet.guardrail"
    assert dict(event.attributes or {}) == {
        "placet.guardrail.name": "no_spells",
        "placet.guardrail.kind": "input",
        "placet.guardrail.tripped": True,
    }
    assert len(traces.all("chat")) <= 1


async def test_a_call_of_a_tool_that_does_not_exist_is_an_event_and_no_execution(traces: Traces) -> None:
    agent = scripted([[call("nonsense", "c1")], DONE])

    await traces.go(agent, "go")

    (event,) = traces.one("invoke_agent Clerk").events
    assert event.name == "placet.call.denied"
    assert (event.attributes or {})["gen_ai.tool.name"] == "nonsense"
    assert not traces.all("execute_tool nonsense")


async def test_a_cancelled_stream_leaves_an_ended_span_that_is_no_failure_of_the_drive(traces: Traces) -> None:
    started = asyncio.Event()

    @function_tool
    async def wait_for_ever() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted([[call("wait_for_ever", "c1")]], wait_for_ever)
    result = Runner.run_streamed(agent, "go", run_config=traces.config())
    await asyncio.wait_for(started.wait(), 120)

    result.cancel()
    async for _ in result.stream_events():
        pass

    drive = traces.one("invoke_agent Clerk")
    assert drive.status.status_code is StatusCode.UNSET
    assert attributes(drive)["error.type"] == "CancelledError"
    assert attributes(traces.one("execute_tool wait_for_ever"))["placet.call.outcome"] == "in_doubt"
    assert traces.one("request_approval wait_for_ever").parent is not None


async def test_nested_runs_are_below_the_calls_of_their_agents_two_levels_deep(traces: Traces) -> None:
    deepest = scripted([answer(call("look", "c3"), tokens=1), answer(*DONE, tokens=10)], tool(), name="Deepest")
    middle = scripted(
        [answer(ask("ask_deepest", "c2"), tokens=100), answer(*DONE, tokens=100)],
        deepest.as_tool("ask_deepest", "…"),
        name="Middle",
    )
    agent = scripted(
        [answer(ask("ask_middle", "c1"), tokens=1000), answer(*DONE, tokens=1000)], middle.as_tool("ask_middle", "…")
    )

    await traces.go(agent, "go")

    outer = "invoke_agent Clerk / execute_tool ask_middle / invoke_agent Middle"
    inner = f"{outer} / execute_tool ask_deepest / invoke_agent Deepest"
    assert f"{inner} / execute_tool look" in traces.tree()
    assert traces.tree().count(f"{inner} / chat") == 2
    assert len(traces.spans) == 3 + 3 + 6
    used = {span.name: attributes(span).get("gen_ai.usage.input_tokens") for span in traces.spans}
    assert (used["invoke_agent Deepest"], used["invoke_agent Middle"]) == (11, 211)
    assert used["invoke_agent Clerk"] == 2211
    assert attributes(traces.one("invoke_agent Deepest"))["placet.run.path"] == "1.0/1.0"


async def test_a_nested_run_that_fails_is_ended_with_the_call_that_it_was_for(traces: Traces) -> None:
    inner = scripted([[call("look")], [call("look")]], tool(), name="Inner")
    agent = scripted([[ask("ask", "c1")], DONE], inner.as_tool("ask", "…", max_turns=1))

    result = await traces.go(agent, "go")

    assert result.final_output == "done"
    assert attributes(traces.one("invoke_agent Inner"))["placet.run.status"] == "stopped"
    assert attributes(traces.one("execute_tool ask"))["placet.call.outcome"] == "failed"


async def test_streamed_and_not_streamed_runs_have_the_same_spans() -> None:
    def seen(traces: Traces) -> list[Any]:
        return [
            (span.name, seconds(span), [event.name for event in span.events], _without_ids(attributes(span)))
            for span in traces.spans
        ]

    async def run(streamed: bool) -> list[Any]:
        traces = Traces()
        inner = scripted([[call("look", "c2")], DONE], tool(), name="Inner")
        agent = scripted([[call("look", "c1"), ask("ask", "c3")], DONE], tool(), inner.as_tool("ask", "…"))
        await traces.go(agent, "go", streamed)
        return seen(traces)

    assert await run(True) == await run(False)


def _without_ids(about: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key not in ("placet.run.id", "placet.call.id")}


async def test_attributes_of_ones_own_are_on_every_span_and_a_model_that_they_name_is_in_the_names(
    traces: Traces,
) -> None:
    agent = scripted([[call("look")], DONE], tool())
    own = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-9", "deployment": "blue"}

    await traces.go(agent, "go", run_config=traces.config(attributes=own))

    assert len(traces.all("chat gpt-9")) == 2
    assert all(own.items() <= attributes(span).items() for span in traces.spans)


async def test_a_session_is_the_conversation(traces: Traces) -> None:
    agent = scripted([DONE])

    await traces.go(agent, "go", session=InMemorySession("chat-7"))

    assert {attributes(span)["gen_ai.conversation.id"] for span in traces.spans} == {"chat-7"}


def test_every_kind_of_fact_is_told_or_known_not_to_be() -> None:
    kinds = set(PlainFact.__args__)

    assert set(HANDLERS) | UNTOLD == kinds
    assert not set(HANDLERS) & UNTOLD


async def test_an_agent_is_named_by_the_last_step_of_its_address(traces: Traces) -> None:
    strange = Agent("A/B > C", model=ScriptedModel([[assistant_message("hi")]]))

    await traces.go(strange, "go")

    assert traces.one("invoke_agent A/B > C").name


async def test_words_of_the_caller_about_a_run_are_on_all_of_its_spans(traces: Traces) -> None:
    agent = scripted([answer(call("look", "c1")), answer(*DONE)], tool())

    await Runner.run(agent, "go", run_config=traces.config(config={"trace_metadata": {"tenant": "acme"}}))

    assert len(traces.spans) == 4
    assert all(attributes(span)["placet.metadata.tenant"] == "acme" for span in traces.spans)
