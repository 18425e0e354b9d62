"""What leaves the process: by default nothing that anybody said."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import placet.tracing
from placet import Agent, GuardrailFunctionOutput, ToolContext, function_tool, input_guardrail
from placet.testing import ModelStep, assistant_message, function_call, reasoning
from tests.docs.pages import DOCS
from tests.tracing.scenes import Traces, ask, attributes, call, everything_in, scripted

CANARY = "xyzzy-canary"
NO_ATTRIBUTES = {"placet.tracing", "placet.ports"}
"""Names of modules and loggers, which look the same."""


class Secretive:
    """A run in which everything that can be said says the canary: input, arguments, outputs, errors, reasons."""

    def __init__(self, traces: Traces, **settings: Any) -> None:
        self.traces = traces
        self.config = traces.config(config={"input_guardrails": [self._guardrail()]}, **settings)

    def _guardrail(self) -> Any:
        @input_guardrail
        async def fine(_ctx: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
            return GuardrailFunctionOutput({"seen": CANARY}, False)

        return fine

    def _agent(self) -> Agent[Any]:
        def rule(_ctx: Any, params: dict[str, Any], _call: str) -> bool:
            raise ValueError(f"cannot judge {params}")

        @function_tool(needs_approval=rule)
        async def pay(text: str) -> str:
            return f"paid {text}"

        @function_tool
        async def broken(ctx: ToolContext[Any], text: str) -> str:
            raise RuntimeError(f"broken by {text}")

        inner = scripted(
            [[call("broken", "c9", text=CANARY)], [assistant_message(f"inner {CANARY}")]], broken, name="Inner"
        )
        calls = [call("pay", f"c{n}", text=CANARY) for n in range(4)]
        return scripted(
            [
                ModelStep([reasoning(f"think {CANARY}"), *calls, ask("ask", "c5")]),
                [function_call("pay", f"not json {CANARY}", call_id="c6")],
                ModelStep(raises=ConnectionError(f"provider says {CANARY}")),
                [assistant_message(f"bye {CANARY}")],
            ],
            pay,
            broken,
            inner.as_tool("ask", "…"),
        )

    async def play(self) -> None:
        agent = self._agent()
        result = await self.traces.go(agent, f"hello {CANARY}", run_config=self.config)
        state = result.to_state()
        first, second, third, fourth = state.get_interruptions()
        state.approve(first, by="ann@example.org", reason=f"because {CANARY}")
        state.reject(second, by="ann@example.org", rejection_message=f"no {CANARY}", reason=CANARY)
        state.approve(third, by="ann@example.org", arguments={"text": f"other {CANARY}"})
        state.respond(fourth, f"answer {CANARY}", by="ann@example.org")
        result = await self.traces.go(agent, state, run_config=self.config)
        state = result.to_state()
        state.reject(state.get_interruptions()[0], always_reject=True, by="ann@example.org", reason=CANARY)
        with pytest.raises(ConnectionError) as caught:
            await self.traces.go(agent, state, run_config=self.config)
        await self.traces.go(agent, caught.value.state, run_config=self.config)  # type: ignore[attr-defined]


async def test_by_default_nothing_that_was_said_is_in_any_span(traces: Traces) -> None:
    await Secretive(traces).play()

    assert len(traces.spans) > 20
    assert CANARY not in everything_in(traces.spans)


async def test_content_is_captured_when_that_is_asked_for(traces: Traces) -> None:
    await Secretive(traces, capture_content=True).play()

    drive = attributes(traces.all("invoke_agent Clerk")[0])
    assert json.loads(drive["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"hello {CANARY}"}]}
    ]
    (said,) = json.loads(attributes(traces.all("chat")[0])["gen_ai.output.messages"])
    assert said["finish_reason"] == "tool_call"
    assert said["parts"][0]["type"] == "reasoning"
    assert said["parts"][1] == {"type": "tool_call", "id": "c0", "name": "pay", "arguments": {"text": CANARY}}
    approvals = {attributes(each)["placet.request.status"]: attributes(each) for each in traces.all("approval pay")}
    assert "cannot judge" in approvals["approved"]["placet.request.why"]
    assert approvals["approved"]["placet.decision.reason"] == f"because {CANARY}"
    assert approvals["edited"]["placet.decision.arguments"] == f'{{"text":"other {CANARY}"}}'
    assert approvals["answered"]["placet.decision.output"] == f"answer {CANARY}"
    executions = [attributes(each) for each in traces.all("execute_tool pay")]
    assert {each["gen_ai.tool.call.arguments"] for each in executions} == {
        json.dumps({"text": CANARY}),
        f'{{"text":"other {CANARY}"}}',
    }
    assert executions[0]["gen_ai.tool.call.result"] == f"paid {CANARY}"
    assert traces.one("execute_tool broken").status.description == f"broken by {CANARY}"
    final = attributes(traces.all("invoke_agent Clerk")[-1])["gen_ai.output.messages"]
    assert json.loads(final)[0]["parts"] == [{"type": "text", "content": f"bye {CANARY}"}]


async def test_a_history_given_as_input_is_captured_message_by_message(traces: Traces) -> None:
    given = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        function_call("look", "{}", call_id="c0"),
        {"type": "function_call_output", "call_id": "c0", "output": "seen"},
    ]

    await traces.go(scripted([[assistant_message("yes")]]), given, run_config=traces.config(capture_content=True))

    assert json.loads(attributes(traces.one("invoke_agent Clerk"))["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c0", "name": "look", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "seen"}]},
    ]


async def test_who_decided_can_be_left_out(traces: Traces) -> None:
    await Secretive(traces, reviewers=False, capture_content=True).play()

    assert "placet.decision.verdict" in everything_in(traces.spans)
    assert "ann@example.org" not in everything_in(traces.spans)


async def test_who_decided_is_told_by_default(traces: Traces) -> None:
    await Secretive(traces).play()

    assert {attributes(each)["placet.decision.by"] for each in traces.all("approval pay")} == {"ann@example.org"}


def test_the_documentation_names_exactly_the_attributes_events_and_spans_that_there_are() -> None:
    sources = "".join(path.read_text("utf-8") for path in Path(placet.tracing.__file__).parent.glob("*.py"))
    page = (DOCS / "tracing.md").read_text("utf-8")
    made = set(re.findall(r'"((?:placet|gen_ai|error)\.[a-z_.]+)"', sources)) - NO_ATTRIBUTES
    made |= {"placet.call.denied", "placet.call.failed"}  # put together from an outcome

    described = set(re.findall(r"`((?:placet|gen_ai|error)\.[a-z_.]+)`", page)) - NO_ATTRIBUTES
    described |= set(re.findall(r'"(gen_ai\.[a-z_.]+)"', page)) & made
    assert described == made
    assert set(re.findall(r'f"([a-z_]+) \{', sources)) == {
        "invoke_agent",
        "chat",
        "request_approval",
        "approval",
        "request_input",
        "input",
        "execute_tool",
    }
    named = ("invoke_agent", "request_approval", "approval", "request_input", "input", "execute_tool")
    assert {name for name in named if f"`{name} {{" not in page} == set()
