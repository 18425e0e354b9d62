"""Contexts made by hand: asked about one server's tool, sent through pydantic, and given to a run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from placet import (
    Agent,
    ModelBehaviorError,
    RunContextWrapper,
    Runner,
    ToolApprovalItem,
    UserError,
    function_tool,
)
from placet.testing import ScriptedModel, assistant_message, function_call

OWNER = Agent(name="Owner")


def item(call_id: str = "c1", name: str = "pay", arguments: str = "{}", agent: Agent[Any] = OWNER) -> ToolApprovalItem:
    raw = {"type": "function_call", "name": name, "call_id": call_id, "arguments": arguments}
    return ToolApprovalItem(agent, raw)


def hosted(call_id: str, server: str, arguments: str | None = "{}") -> ToolApprovalItem:
    raw = {"type": "mcp_approval_request", "id": call_id, "server_label": server, "name": "search"}
    return ToolApprovalItem(OWNER, raw if arguments is None else {**raw, "arguments": arguments})


@pytest.mark.promise("P9")
@pytest.mark.parametrize("has_approval", [True, False])
def test_a_standing_word_about_one_server_says_nothing_of_another(has_approval):
    context = RunContextWrapper(None)
    if has_approval:
        context.approve_tool(hosted("a1", "bank"), always_approve=True)
    else:
        context.reject_tool(hosted("a1", "bank"), always_reject=True, rejection_message="no")

    next_call, elsewhere = hosted("a2", "bank"), hosted("b1", "web")
    assert context.get_approval_status("search", "a2", existing_pending=next_call) is has_approval
    assert context.get_approval_status("search", "b1", existing_pending=elsewhere) is None
    assert context.get_rejection_message("search", "b1", existing_pending=elsewhere) is None
    assert context.is_tool_approved("search", "a1") is has_approval
    assert context.is_tool_approved("search", "a2") is None


@pytest.mark.promise("P9")
def test_two_servers_may_give_their_requests_one_id():
    context = RunContextWrapper(None)
    context.approve_tool(hosted("same", "bank"))
    context.reject_tool(hosted("same", "web"), rejection_message="not there")

    assert context.get_approval_status("search", "same", existing_pending=hosted("same", "bank")) is True
    assert context.get_approval_status("search", "same", existing_pending=hosted("same", "web")) is False
    assert context.get_rejection_message("search", "same", existing_pending=hosted("same", "bank")) is None


@pytest.mark.promise("P8")
@pytest.mark.parametrize(
    "raw",
    [
        {"type": "hosted_tool_call", "name": "search", "id": "h1"},
        {"type": "hosted_tool_call", "name": "search", "provider_data": {"type": "mcp_approval_request", "id": "h1"}},
        {"type": "mcp_approval_request", "id": "h1", "server_label": "bank", "name": "search"},
    ],
)
def test_a_hosted_call_that_does_not_say_what_it_is_cannot_be_decided(raw):
    context = RunContextWrapper(None)
    unclear = ToolApprovalItem(OWNER, raw)

    with pytest.raises(ModelBehaviorError, match="canonical invocation identity"):
        context.approve_tool(unclear)
    with pytest.raises(ModelBehaviorError, match="canonical invocation identity"):
        context.reject_tool(unclear)
    assert context.is_tool_approved("search", "h1") is None


def test_a_standing_word_needs_to_know_the_server():
    raw = {"type": "hosted_tool_call", "name": "search", "provider_data": {"type": "mcp_approval_request", "id": "h1"}}

    with pytest.raises(UserError, match="server_label and tool name"):
        RunContextWrapper(None).approve_tool(ToolApprovalItem(OWNER, raw), always_approve=True)


def sent(context: RunContextWrapper[Any]) -> RunContextWrapper[Any]:
    """The same context on the other side of a workflow engine."""
    adapter = TypeAdapter(RunContextWrapper[dict[str, str] | None])
    return adapter.validate_json(adapter.dump_json(context))


def test_a_context_keeps_its_words_through_pydantic():
    context = RunContextWrapper({"tenant": "t1"})
    context.approve_tool(item("c1"), always_approve=True)
    context.reject_tool(item("d1", "drop"), rejection_message="never")
    found = sent(sent(context))

    assert found.context == {"tenant": "t1"}
    assert found.is_tool_approved("pay", "c1") is True
    assert found.is_tool_approved("pay", "another") is True
    assert found.get_rejection_message("drop", "d1") == "never"


def test_a_context_that_is_an_object_already_stays_that_object():
    context = RunContextWrapper({"a": "b"})

    assert TypeAdapter(RunContextWrapper[dict[str, str]]).validate_python(context) is context


def test_altered_words_are_refused():
    with pytest.raises(UserError, match="cannot be read"):
        TypeAdapter(RunContextWrapper[Any]).validate_python({"context": None, "decisions": '{"words": [["x"]]}'})


class Till:
    def __init__(self, *calls: dict[str, Any], name: str = "Owner") -> None:
        self.paid: list[int] = []

        @function_tool(needs_approval=True)
        def pay(cents: int = 0) -> str:
            """Pay."""
            self.paid.append(cents)
            return "paid"

        steps = [[call] for call in calls]
        self.agent = Agent(name=name, tools=[pay], model=ScriptedModel([*steps, [assistant_message("done")]]))


PAY = function_call("pay", {"cents": 5}, call_id="c1")


async def test_tools_are_given_the_users_own_context_and_no_wrapper():
    seen: list[Any] = []

    @function_tool
    def look(ctx: RunContextWrapper[Any]) -> str:
        """Look."""
        seen.append(ctx.context)
        return "seen"

    model = ScriptedModel([[function_call("look", {}, call_id="l1")], [assistant_message("done")]])
    await Runner.run(Agent(name="Owner", tools=[look], model=model), "go", context=RunContextWrapper({"user": "ana"}))

    assert seen == [{"user": "ana"}]


@pytest.mark.promise("P7")
@pytest.mark.parametrize("approve", [True, False])
async def test_what_was_said_before_the_run_counts_in_it(approve):
    till = Till(PAY)
    context = RunContextWrapper(None)
    (context.approve_tool if approve else context.reject_tool)(item("c1", arguments='{"cents": 5}'))
    result = await Runner.run(till.agent, "go", context=sent(context))

    assert not result.interruptions
    assert till.paid == ([5] if approve else [])


@pytest.mark.promise("P10")
async def test_a_yes_to_other_arguments_is_no_yes():
    till = Till(PAY)
    context = RunContextWrapper(None)
    context.approve_tool(item("c1", arguments='{"cents": 1}'))
    result = await Runner.run(till.agent, "go", context=context)

    assert (len(result.interruptions), till.paid) == (1, [])


@pytest.mark.promise("P9")
@pytest.mark.parametrize("always", [True, False])
async def test_a_yes_to_another_agents_call_is_no_yes(always):
    till = Till(PAY, name="Somebody")
    context = RunContextWrapper(None)
    context.approve_tool(item("c1", arguments='{"cents": 5}'), always_approve=always)
    result = await Runner.run(till.agent, "go", context=context)

    assert (len(result.interruptions), till.paid) == (1, [])
