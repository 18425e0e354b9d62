"""Request, decision, execution: what a wait looks like in a trace, also when another process ends it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import StatusCode

from placet import Agent, Grant, MemoryStore, NeedsInput, Runner, RunState, ToolContext, ToolError, function_tool
from placet.facts.events import DecisionMade
from placet.facts.ids import split_call_id
from placet.runtime.journal import fold_log
from placet.sessions.memory import InMemorySession
from tests.tracing.scenes import (
    DONE,
    PATIENCE,
    Traces,
    ask,
    attributes,
    call,
    gated,
    is_child,
    links,
    scripted,
    seconds,
    to,
    tool,
)

ROOT = Path(__file__).resolve().parents[2]


def clerk(*, resumed: bool = False, **options: Any) -> Agent[Any]:
    """An agent that asks for one payment and is done; `resumed`: as the process sees it that only goes on."""
    steps = [DONE] if resumed else [[call("pay", "c1", n=7)], DONE]
    return scripted(steps, gated(**options))


async def paused(traces: Traces, agent: Agent[Any], **options: Any) -> RunState[Any]:
    result = await traces.go(agent, "go", **options)
    assert result.interruptions
    state: RunState[Any] = result.to_state()
    return state


async def test_a_paused_drive_ends_with_its_question_and_says_that_the_run_waits(traces: Traces) -> None:
    state = await paused(traces, clerk(decide_within=90))

    assert traces.tree() == [
        "invoke_agent Clerk",
        "invoke_agent Clerk / chat",
        "invoke_agent Clerk / request_approval pay",
    ]
    assert attributes(traces.one("invoke_agent Clerk"))["placet.run.status"] == "waiting"
    assert attributes(traces.one("request_approval pay")) == {
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.id": "c1",
        "placet.call.id": f"{state.run_id}_t1c0",
        "placet.request.id": f"{state.run_id}_t1c0_q1",
        "placet.request.kind": "approval",
        "placet.request.expires_at": 1_800_000_090.0,
    }


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_drive_that_resumes_tells_the_wait_and_the_execution_and_is_linked_to_the_paused_one(
    traces: Traces, streamed: bool
) -> None:
    agent = clerk()
    state = await paused(traces, agent)
    traces.clock.advance(60)
    state.approve(state.get_interruptions()[0], by="ann")
    traces.clock.advance(5)

    await traces.go(agent, state, streamed)

    first, second = traces.all("invoke_agent Clerk")
    asked, approval = traces.one("request_approval pay"), traces.one("approval pay")
    execution = traces.one("execute_tool pay")
    assert links(second) == [to("paused_at", asked)]
    assert is_child(asked, first)
    assert is_child(approval, second)
    assert is_child(execution, second)
    assert links(approval) == [to("request", asked)]
    assert links(execution) == [to("approval", approval)]
    assert seconds(first) == (0, 0)
    assert seconds(approval) == (0, 60)
    assert seconds(execution) == (65, 65)
    assert attributes(approval) == {
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.id": "c1",
        "placet.call.id": f"{state.run_id}_t1c0",
        "placet.request.id": f"{state.run_id}_t1c0_q1",
        "placet.request.kind": "approval",
        "placet.request.status": "approved",
        "placet.request.waited_seconds": 60.0,
        "placet.decision.verdict": "approve",
        "placet.decision.by": "ann",
    }
    assert {span.context.trace_id for span in traces.spans} == {first.context.trace_id}
    assert attributes(second)["placet.run.status"] == "ended"
    assert attributes(second)["placet.drive.position"] > 0


async def test_another_process_links_to_the_drive_that_paused_without_being_told_any_id(traces: Traces) -> None:
    state = await paused(traces, clerk())

    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.tracing.another_process",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    order = json.dumps({"text": state.to_string(), "seconds": 3600})
    out, _ = await asyncio.wait_for(program.communicate(order.encode()), 120)

    told = json.loads(out)
    drive, approval = told["spans"]["invoke_agent Clerk"], told["spans"]["approval pay"]
    asked = traces.one("request_approval pay")
    assert told["final_output"] == "done"
    assert drive["links"] == [list(to("paused_at", asked))]
    assert drive["trace"] == traces.one("invoke_agent Clerk").context.trace_id
    assert approval["links"] == [list(to("request", asked))]
    assert approval["seconds"] == [0, 3600]
    assert approval["attributes"]["placet.request.waited_seconds"] == 3600
    assert told["spans"]["execute_tool pay"]["links"] == [["approval", approval["trace"], approval["span"]]]


async def test_a_rejected_call_has_a_wait_and_no_execution(traces: Traces) -> None:
    agent = clerk()
    state = await paused(traces, agent)
    traces.clock.advance(2.5)
    state.reject(state.get_interruptions()[0], by="bob", rejection_message="no")

    await traces.go(agent, state)

    approval = traces.one("approval pay")
    assert attributes(approval)["placet.request.status"] == "rejected"
    assert attributes(approval)["placet.decision.verdict"] == "reject"
    assert attributes(approval)["placet.decision.by"] == "bob"
    assert attributes(approval)["placet.request.waited_seconds"] == 2.5
    assert approval.status.status_code is StatusCode.UNSET
    assert not traces.all("execute_tool pay")


async def test_an_edited_call_says_so_in_its_wait_and_in_its_execution(traces: Traces) -> None:
    agent = clerk()
    state = await paused(traces, agent)
    state.approve(state.get_interruptions()[0], arguments={"n": 1})

    await traces.go(agent, state)

    assert attributes(traces.one("approval pay"))["placet.request.status"] == "edited"
    assert attributes(traces.one("approval pay"))["placet.decision.verdict"] == "edit"
    assert "placet.decision.by" not in attributes(traces.one("approval pay"))
    assert attributes(traces.one("execute_tool pay"))["placet.decision.verdict"] == "edit"


async def test_an_answer_in_the_tools_place_is_a_wait_and_no_execution(traces: Traces) -> None:
    agent = clerk()
    state = await paused(traces, agent)
    state.respond(state.get_interruptions()[0], "it was paid yesterday", by="ann")

    await traces.go(agent, state)

    assert attributes(traces.one("approval pay"))["placet.request.status"] == "answered"
    assert attributes(traces.one("approval pay"))["placet.decision.verdict"] == "respond"
    assert not traces.all("execute_tool pay")


async def test_a_question_that_nobody_answered_in_time_is_a_wait_without_a_decision(traces: Traces) -> None:
    agent = clerk(decide_within=60)
    state = await paused(traces, agent)
    traces.clock.advance(75)

    await traces.go(agent, state)

    approval = traces.one("approval pay")
    assert attributes(approval)["placet.request.status"] == "expired"
    assert "placet.decision.verdict" not in attributes(approval)
    assert seconds(approval) == (0, 75)


async def test_an_escalated_question_says_when(traces: Traces) -> None:
    agent = clerk(decide_within=60, at_deadline="escalate")
    state = await paused(traces, agent)
    traces.clock.advance(75)
    state = (await traces.go(agent, state)).to_state()
    traces.clock.advance(5)
    state.approve(state.get_interruptions()[0])

    await traces.go(agent, state)

    approval = traces.one("approval pay")
    assert [(event.name, event.timestamp / 1e9 - 1_800_000_000) for event in approval.events] == [
        ("placet.request.escalated", 75)
    ]
    assert seconds(approval) == (0, 80)


async def test_a_question_that_a_newer_message_took_the_place_of_is_a_wait_that_was_superseded(traces: Traces) -> None:
    agent, session = clerk(), InMemorySession("s")
    await paused(traces, agent, session=session)
    traces.clock.advance(30)
    config = traces.config(config={"on_pending": "supersede"})

    await traces.go(agent, "never mind", session=session, run_config=config)

    assert attributes(traces.one("approval pay"))["placet.request.status"] == "superseded"
    assert attributes(traces.one("approval pay"))["placet.request.waited_seconds"] == 30


async def test_a_question_in_a_nested_run_that_was_superseded_is_told_below_the_call_that_ended(
    traces: Traces,
) -> None:
    inner, session = clerk(), InMemorySession("s")
    agent = scripted([[ask("ask", "c1")], DONE], inner.as_tool("ask", "…"), name="Chief")
    await paused(traces, agent, session=session)
    config = traces.config(config={"on_pending": "supersede"})

    await traces.go(agent, "never mind", session=session, run_config=config)

    assert "invoke_agent Chief / execute_tool ask / invoke_agent Clerk / approval pay" in traces.tree()
    assert attributes(traces.one("approval pay"))["placet.request.status"] == "superseded"
    assert attributes(traces.all("execute_tool ask")[1])["placet.call.outcome"] == "superseded"


async def test_a_nested_run_that_waits_is_not_blamed_for_the_failure_of_its_sibling(traces: Traces) -> None:
    @function_tool(failure_error_function=None)
    async def fatal() -> str:
        raise OSError("disk")

    inner = clerk()
    agent = scripted([[ask("ask", "c1"), call("fatal", "c2")]], inner.as_tool("ask", "…"), fatal, name="Chief")

    with pytest.raises(ToolError):
        await traces.go(agent, "go")

    nested = traces.one("invoke_agent Clerk")
    assert attributes(nested)["placet.run.status"] == "waiting"
    assert nested.status.status_code is StatusCode.UNSET
    assert traces.one("invoke_agent Chief").status.status_code is StatusCode.ERROR


async def test_what_was_approved_too_long_ago_is_asked_anew_and_both_questions_are_told(traces: Traces) -> None:
    agent = clerk(approval_valid_for=10)
    state = await paused(traces, agent)
    state.approve(state.get_interruptions()[0], by="ann")
    traces.clock.advance(11)
    state = (await traces.go(agent, state)).to_state()
    state.approve(state.get_interruptions()[0], by="bob")

    await traces.go(agent, state)

    first, second = traces.all("approval pay")
    assert [attributes(each)["placet.request.status"] for each in (first, second)] == ["asked_anew", "approved"]
    assert [attributes(each)["placet.decision.by"] for each in (first, second)] == ["ann", "bob"]
    assert len(traces.all("request_approval pay")) == 2
    assert links(traces.one("execute_tool pay")) == [to("approval", second)]


async def test_a_standing_decision_is_an_event_and_its_uses_name_it(traces: Traces) -> None:
    agent = scripted([[call("pay", "c1")], [call("pay", "c2")], DONE], gated())
    state = await paused(traces, agent)
    state.approve(state.get_interruptions()[0], Grant(uses=5), by="ann")

    await traces.go(agent, state)

    first, second = traces.all("approval pay")
    (event,) = traces.all("invoke_agent Clerk")[1].events
    about = dict(event.attributes or {})
    assert event.name == "placet.grant"
    assert about["placet.decision.by"] == "ann"
    assert about["placet.grant.tool"] == "function:pay"
    assert attributes(second)["placet.decision.grant"] == about["placet.grant.id"]
    assert attributes(second)["placet.request.waited_seconds"] == 0
    assert attributes(first)["placet.request.status"] == attributes(second)["placet.request.status"] == "approved"


async def test_a_call_in_doubt_is_a_question_of_its_own_kind_and_a_second_attempt(traces: Traces) -> None:
    started = asyncio.Event()

    @function_tool
    async def pay() -> str:
        if started.is_set():
            return "paid"
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted([[call("pay", "c1")], DONE], pay)
    cut = Runner.run_streamed(agent, "go", run_config=traces.config())
    await asyncio.wait_for(started.wait(), PATIENCE)
    cut.cancel()
    async for _ in cut.stream_events():
        pass
    state = cut.to_state()
    state.approve(state.get_interruptions()[0], by="ann")

    await traces.go(agent, state)

    first, second = traces.all("execute_tool pay")
    assert attributes(traces.one("approval pay"))["placet.request.kind"] == "in_doubt"
    assert [attributes(each)["placet.call.outcome"] for each in (first, second)] == ["in_doubt", "finished"]
    assert [attributes(each)["placet.call.attempt"] for each in (first, second)] == [1, 2]
    assert links(traces.all("invoke_agent Clerk")[1]) == [to("paused_at", traces.one("request_approval pay"))]


async def test_decisions_that_come_one_by_one_are_told_each_in_the_drive_that_acts_on_it(traces: Traces) -> None:
    agent = scripted([[call("pay", "c1"), call("pay", "c2"), call("look", "c3")], DONE], gated(), tool())
    state = await paused(traces, agent)
    asked = traces.all("request_approval pay")
    traces.clock.advance(10)
    state.approve(state.get_interruptions()[0])
    state = (await traces.go(agent, state)).to_state()
    traces.clock.advance(10)
    state.reject(state.get_interruptions()[0])

    await traces.go(agent, state)

    drives = traces.all("invoke_agent Clerk")
    approvals = traces.all("approval pay")
    ends = [seconds(each)[1] for each in approvals]
    assert sorted(ends) == [10, 20]
    assert [is_child(each, drives[1]) for each in approvals] == [True, False]
    assert [is_child(each, drives[2]) for each in approvals] == [False, True]
    assert set(links(drives[1])) == {to("paused_at", each) for each in asked}
    assert links(drives[2]) == [to("paused_at", asked[1])]
    assert attributes(drives[1])["placet.run.status"] == "waiting"


async def test_a_pause_two_levels_deep_is_told_where_it_is_and_goes_on_below_the_same_calls(traces: Traces) -> None:
    deepest = scripted([[call("pay", "c3")], DONE], gated(), name="Deepest")
    middle = scripted([[ask("ask_deepest", "c2")], DONE], deepest.as_tool("ask_deepest", "…"), name="Middle")
    agent = scripted([[ask("ask_middle", "c1")], DONE], middle.as_tool("ask_middle", "…"))
    state = await paused(traces, agent)
    before = {span.context.span_id for span in traces.spans}
    traces.clock.advance(60)
    state.approve(state.get_interruptions()[0])

    await traces.go(agent, state)

    place = (
        "invoke_agent Clerk / execute_tool ask_middle / invoke_agent Middle"
        " / execute_tool ask_deepest / invoke_agent Deepest"
    )
    tree = traces.tree()
    assert [f"{place} / {each}" in tree for each in ("request_approval pay", "approval pay", "execute_tool pay")] == [
        True
    ] * 3
    first, second = traces.all("execute_tool ask_deepest")
    assert [attributes(each)["placet.call.outcome"] for each in (first, second)] == ["waiting", "finished"]
    assert [attributes(each)["placet.call.is_continued"] for each in (first, second)] == [False, True]
    assert links(second) == [to("continues", first)]
    assert attributes(traces.all("invoke_agent Middle")[0])["placet.run.status"] == "waiting"
    assert attributes(traces.all("invoke_agent Middle")[1])["placet.run.status"] == "ended"
    assert links(traces.all("invoke_agent Clerk")[1]) == [to("paused_at", traces.one("request_approval pay"))]
    assert len(traces.spans) == len({span.context.span_id for span in traces.spans})
    assert before < {span.context.span_id for span in traces.spans}


async def test_a_drive_after_an_error_is_linked_to_the_last_model_call_of_the_one_before(traces: Traces) -> None:
    agent = scripted([[call("look")], ConnectionError("gone"), DONE], tool())
    with pytest.raises(ConnectionError) as caught:
        await traces.go(agent, "go")

    await traces.go(agent, caught.value.state)  # type: ignore[attr-defined]

    _, failed, again = traces.all("chat")
    assert links(traces.all("invoke_agent Clerk")[1]) == [to("continues", failed)]
    assert is_child(again, traces.all("invoke_agent Clerk")[1])


async def test_a_fork_has_a_trace_of_its_own_that_is_linked_to_where_it_was_forked(traces: Traces) -> None:
    agent = scripted([[call("pay", "c1")], DONE, DONE], gated())
    state = await paused(traces, agent)
    fork = state.fork()
    fork.approve(fork.get_interruptions()[0])

    await traces.go(agent, fork)

    asked, approval = traces.one("request_approval pay"), traces.one("approval pay")
    forked: ReadableSpan = traces.all("invoke_agent Clerk")[1]
    assert forked.context.trace_id != asked.context.trace_id
    assert links(forked) == [to("paused_at", asked)]
    assert links(approval) == [to("request", asked)]
    assert attributes(approval)["placet.request.id"] == attributes(asked)["placet.request.id"]


async def test_a_drive_in_which_nothing_happens_leaves_no_span(traces: Traces) -> None:
    agent = clerk()
    state = await paused(traces, agent)
    before = len(traces.spans)

    await traces.go(agent, state)

    assert len(traces.spans) == before


async def test_a_run_is_sampled_as_a_whole_however_often_it_is_taken_up() -> None:
    kept = []
    for _ in range(24):
        traces, agent = Traces(TraceIdRatioBased(0.5)), clerk()
        state = await paused(traces, agent)
        state.approve(state.get_interruptions()[0])
        await traces.go(agent, state)
        kept.append(len(traces.all("invoke_agent Clerk")))

    assert set(kept) == {0, 2}


async def test_a_decision_that_reaches_the_store_while_the_run_is_driven_is_told(traces: Traces) -> None:
    store = MemoryStore()

    @function_tool
    async def look(ctx: ToolContext[Any]) -> str:
        await decide_from_outside(store, split_call_id(ctx.call)[0], traces.clock.now())
        return "seen"

    agent = scripted([[call("pay", "c1"), call("look", "c2")], DONE], gated(), look)

    result = await traces.go(agent, "go", store=store)

    assert result.final_output == "done"
    assert attributes(traces.one("execute_tool look"))["placet.call.outcome"] == "finished"
    assert attributes(traces.one("approval pay"))["placet.decision.by"] == "ann"


async def decide_from_outside(store: MemoryStore, run_id: str, now: float) -> None:
    """Approve what waits, as a desk does: an append without the right to drive."""
    stored = await store.load(run_id)
    assert stored is not None
    assert stored.log is not None
    (held,) = fold_log(stored.log).ledger.open_entries()
    after = stored.log.copy()
    word = DecisionMade(held.call, held.request, held.digest, "approve", "ann", now)
    line = after.next_line(now, [word])
    after.append(line)
    await store.append(None, stored.log, [line], fold_log(after))


async def test_a_call_that_asks_has_two_executions_and_a_wait_for_input_between_them(traces: Traces) -> None:
    form = {"mode": "form", "message": "How much?", "requestedSchema": {"type": "object"}}

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> Any:
        return NeedsInput({"amount": form}) if ctx.answers is None else "paid"

    agent = scripted([[call("pay", "c1")], DONE], pay)
    state = await paused(traces, agent)
    traces.clock.advance(30)
    state.respond("c1", {}, by="ana")

    await traces.go(agent, state)

    bodies = traces.all("execute_tool pay")
    (asked,), (wait,) = traces.all("request_input pay"), traces.all("input pay")
    assert [attributes(body)["placet.call.outcome"] for body in bodies] == ["input_asked", "finished"]
    assert [body.status.status_code for body in bodies] == [StatusCode.UNSET, StatusCode.UNSET]
    assert attributes(asked)["placet.request.kind"] == "elicitation"
    assert attributes(wait)["placet.decision.verdict"] == "respond"
    assert seconds(wait) == (0, 30)
