"""Run in the environment of openai-agents: pauses runs in all the shapes that it has and prints their states as JSON.

`write_sdk_states.py MCP_SERVER` prints one object: for each shape the state's text, and the interruptions that the SDK
itself sees. It knows nothing of Placet, and works with old versions of the SDK as far as they have the shape.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    HostedMCPTool,
    InputGuardrail,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    UserError,
    function_tool,
    handoff,
)
from agents.mcp import MCPServerStdio
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_output_item import McpApprovalRequest
from pydantic import BaseModel

CONFIG = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Answers from a list; every answer has an id and costs ten tokens and five."""

    def __init__(self, *answers: list[Any], name: str = "resp") -> None:
        self.answers, self.name, self.count = list(answers), name, 0

    async def get_response(self, *_request: Any, **_more: Any) -> ModelResponse:
        self.count += 1
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(self.answers.pop(0), usage, f"{self.name}_{self.count}")

    def stream_response(self, *_request: Any, **_more: Any) -> Any:
        raise NotImplementedError


def call(name: str, label: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{label}", call_id=label, name=name, arguments=json.dumps(arguments), type="function_call"
    )


def said(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(id="msg_1", content=[part], role="assistant", status="completed", type="message")


@function_tool(needs_approval=True)
def refund(order: int, note: str = "none") -> str:
    """Pay an order back."""
    return f"refunded {order}"


@function_tool
def look_up(order: int) -> str:
    """Look an order up."""
    return f"order {order} is open"


def desk(*answers: list[Any], **more: Any) -> Agent[Any]:
    return Agent(name="Desk", model=Scripted(*answers), tools=[refund, look_up], **more)


async def paused(agent: Agent[Any], given: Any = "Refund order 7", **more: Any) -> RunState[Any, Any]:
    result = await Runner.run(agent, given, run_config=more.pop("run_config", CONFIG), **more)
    assert result.interruptions
    return result.to_state()


async def plain() -> Any:
    return await paused(desk([call("refund", "c1", order=7)]))


async def after_turns() -> Any:
    """Two turns are over, and the third waits."""
    first, second = [call("look_up", "c1", order=1)], [call("look_up", "c2", order=2)]
    return await paused(desk(first, second, [said("Now."), call("refund", "c9", order=7)]))


async def repeated_label() -> Any:
    """The same in a provider's words that repeats a label. Newer versions of the SDK refuse it."""
    first, second = [call("look_up", "c1", order=1)], [call("look_up", "c1", order=2)]
    return await paused(desk(first, second, [call("refund", "c9", order=7)]))


def three() -> list[Any]:
    return [call("refund", "c1", order=1), call("look_up", "c2", order=2), call("refund", "c3", order=3)]


async def several() -> Any:
    return await paused(desk(three()))


async def some_decided() -> Any:
    state = await paused(desk([*three(), call("refund", "c4", order=4)]))
    first, second, _ = state.get_interruptions()
    state.approve(first)
    state.reject(second)
    return state


async def rejected_with_a_message() -> Any:
    state = await paused(desk([call("refund", "c1", order=7)]))
    state.reject(state.get_interruptions()[0], rejection_message="Not today.")
    return state


async def some_carried_out() -> Any:
    """Two were decided and the run was resumed: one ran, one was rejected, one still waits."""
    agent = desk([*three(), call("refund", "c4", order=4)])
    state = await paused(agent)
    first, second, _ = state.get_interruptions()
    state.approve(first)
    state.reject(second)
    return await paused(agent, state)


async def always_approved() -> Any:
    state = await paused(desk([call("refund", "c1", order=7)]))
    state.approve(state.get_interruptions()[0], always_approve=True)
    return state


async def always_rejected() -> Any:
    state = await paused(desk([call("refund", "c1", order=7)]))
    state.reject(state.get_interruptions()[0], always_reject=True)
    return state


async def always_from_an_earlier_turn() -> Any:
    """`refund` was approved for good in an earlier turn; another tool waits."""

    @function_tool(needs_approval=True)
    def close(order: int) -> str:
        """Close an order."""
        return f"closed {order}"

    agent = desk([call("refund", "c1", order=1)], [call("close", "c2", order=1)])
    agent.tools.append(close)
    state = await paused(agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    return await paused(agent, state)


def nesting(*outer: list[Any], depth: int = 1) -> Agent[Any]:
    inner = Agent(name="Inner", model=Scripted([call("refund", "i1", order=8)], name="inner"), tools=[refund, look_up])
    tool = inner.as_tool("ask_inner", "Ask the other agent")
    if depth == 2:
        middle = Agent(name="Middle", model=Scripted([call("ask_inner", "m1", input="refund 8")]), tools=[tool])
        tool = middle.as_tool("ask_middle", "Ask the one between")
    return Agent(name="Outer", model=Scripted(*outer, name="outer"), tools=[tool, refund, look_up])


async def nested() -> Any:
    return await paused(nesting([call("ask_inner", "c1", input="refund 8"), call("look_up", "c2", order=2)]))


async def nested_and_own() -> Any:
    return await paused(nesting([call("ask_inner", "c1", input="refund 8"), call("refund", "c2", order=2)]))


async def nested_and_approved() -> Any:
    state = await paused(nesting([call("ask_inner", "c1", input="refund 8")]))
    state.approve(state.get_interruptions()[0])
    return state


async def nested_twice() -> Any:
    return await paused(nesting([call("ask_middle", "c1", input="refund 8")], depth=2))


def handing(**more: Any) -> Agent[Any]:
    billing = Agent(name="Billing", model=Scripted([call("refund", "b1", order=7)], name="b"), tools=[refund, look_up])
    to_billing = handoff(billing, **more)
    first = [call("look_up", "c1", order=7)], [call("transfer_to_billing", "c2")]
    return Agent(name="Desk", model=Scripted(*first), tools=[look_up], handoffs=[to_billing])


async def handed_over() -> Any:
    return await paused(handing())


async def handed_over_and_filtered() -> Any:
    from agents.extensions.handoff_filters import remove_all_tools

    return await paused(handing(input_filter=remove_all_tools))


async def handed_over_and_nested_history() -> Any:
    return await paused(handing(), run_config=RunConfig(tracing_disabled=True, nest_handoff_history=True))


async def handoff_that_waits() -> Any:
    """The handoff of the turn takes place when the other call is decided."""
    agent = handing()
    agent.tools.append(refund)
    agent.model = Scripted([call("refund", "c1", order=7), call("transfer_to_billing", "c2")])
    return await paused(agent)


async def mcp() -> Any:
    program: Any = {"command": sys.executable, "args": [sys.argv[1], "stdio"]}
    patient = {"client_session_timeout_seconds": 60}
    async with MCPServerStdio(program, name="shop", require_approval="always", **patient) as server:
        agent = Agent(name="Desk", model=Scripted([call("refund", "c1", order_id="o7", cents=5)]), mcp_servers=[server])
        return await paused(agent)


def hosted() -> Agent[Any]:
    asked = McpApprovalRequest(
        id="mcpr_1", name="search", server_label="web", arguments='{"q":"x"}', type="mcp_approval_request"
    )
    config: Any = {"type": "mcp", "server_label": "web", "server_url": "https://x.test", "require_approval": "always"}
    return Agent(name="Desk", model=Scripted([asked]), tools=[HostedMCPTool(tool_config=config)])


async def hosted_mcp() -> Any:
    return await paused(hosted())


async def hosted_mcp_rejected() -> Any:
    state = await paused(hosted())
    state.reject(state.get_interruptions()[0])
    return state


def two_turns() -> Agent[Any]:
    return desk([call("look_up", "c1", order=1)], [call("look_up", "c2", order=2), call("refund", "c3", order=7)])


async def chained() -> Any:
    return await paused(two_turns(), previous_response_id="resp_0")


async def chained_by_itself() -> Any:
    return await paused(two_turns(), auto_previous_response_id=True)


async def in_a_conversation() -> Any:
    return await paused(two_turns(), conversation_id="conv_1")


async def guarded() -> Any:
    async def polite(_ctx: Any, _agent: Any, _given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info={"polite": True}, tripwire_triggered=False)

    return await paused(desk([call("refund", "c1", order=7)], input_guardrails=[InputGuardrail(polite, name="polite")]))


class Outcome(BaseModel):
    done: bool


async def structured() -> Any:
    return await paused(desk([call("refund", "c1", order=7)], output_type=Outcome))


async def with_a_context() -> Any:
    return await paused(desk([call("refund", "c1", order=7)]), context={"user": "ana"})


async def with_a_list_as_input() -> Any:
    given = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Good morning."},
        {"role": "user", "content": "Refund order 7"},
    ]
    return await paused(desk([call("refund", "c1", order=7)]), given)


async def with_a_session() -> Any:
    session = SQLiteSession("s1")
    await session.add_items([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning."}])
    return await paused(desk([call("refund", "c1", order=7)]), session=session)


async def with_pending_input() -> Any:
    state = await paused(desk([call("refund", "c1", order=7)]))
    state.add_input("And hurry.")
    return state


async def executed_without_an_output() -> Any:
    """The tool was approved and its function raised through the run: that it was begun is all that is known."""

    @function_tool(needs_approval=True, failure_error_function=None)
    def wire(order: int) -> str:
        """Wire money."""
        raise RuntimeError("the connection was lost")

    agent = Agent(name="Desk", model=Scripted([call("wire", "c1", order=7)]), tools=[wire])
    state = await paused(agent)
    state.approve(state.get_interruptions()[0])
    try:
        await Runner.run(agent, state, run_config=CONFIG)
    except UserError:
        return state
    raise AssertionError("it should have raised")


async def ended() -> Any:
    result = await Runner.run(desk([said("Nothing to do.")]), "Hi", run_config=CONFIG)
    return result.to_state()


async def not_begun() -> Any:
    return RunState(RunContextWrapper(None), "Refund order 7", desk([]), 5)


SHAPES = [
    plain, after_turns, repeated_label, several, some_decided, rejected_with_a_message, some_carried_out,
    always_approved, always_rejected, always_from_an_earlier_turn, nested, nested_and_own, nested_and_approved,
    nested_twice,
    handed_over, handed_over_and_filtered, handed_over_and_nested_history, handoff_that_waits, mcp, hosted_mcp,
    hosted_mcp_rejected, chained, chained_by_itself, in_a_conversation, guarded, structured, with_a_context,
    with_a_list_as_input, with_a_session, with_pending_input, executed_without_an_output, ended, not_begun,
]  # fmt: skip


async def main() -> None:
    found: dict[str, Any] = {}
    for shape in SHAPES:
        try:
            state = await shape()
        except Exception as error:  # noqa: BLE001  # an old SDK lacks some: who reads this says which must be there
            found[shape.__name__] = {"error": f"{type(error).__name__}: {error}"}
            continue
        if isinstance(state, str):
            found[shape.__name__] = {"text": state}
            continue
        waiting = [[item.tool_name or item.name, item.agent.name] for item in state.get_interruptions()]
        found[shape.__name__] = {"text": state.to_string(), "waiting": waiting}
    json.dump(found, sys.stdout)


warnings.simplefilter("ignore")
asyncio.run(main())
