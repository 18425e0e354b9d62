"""Approvals that a provider asks for before it calls a tool of an MCP server: interruptions like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    Grant,
    HostedMCPTool,
    HostedTool,
    ImageGenerationTool,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    ToolApprovalItem,
    UserError,
    WebSearchTool,
    function_tool,
)
from placet.desk import Desk
from placet.testing import ScriptedModel, assistant_message, function_call
from placet.testing.provider import FakeProvider
from tests.models.runs.processes import in_another_process
from tests.models.runs.scenes import DONE, drive, model_over_http

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
WAYS: dict[str, dict[str, Any]] = {
    "own": {},
    "auto": {"auto_previous_response_id": True},
    "conversation": {"conversation_id": "…"},
}
DELIVERIES = pytest.mark.parametrize("way", WAYS)


def asks(tool: str = "delete", arguments: Any = None, server: str = "files", **extra: Any) -> dict[str, Any]:
    text = json.dumps({"path": "/a"} if arguments is None else arguments)
    return {"type": "mcp_approval_request", "name": tool, "arguments": text, "server_label": server, **extra}


def files(label: str = "files", url: str = "https://files.example/mcp", **options: Any) -> HostedMCPTool:
    config = {"type": "mcp", "server_label": label, "server_url": url, "require_approval": "always"}
    return HostedMCPTool(config, **options)


def called(server: str = "files", tool: str = "delete") -> dict[str, Any]:
    """What the provider adds once it may: the call that it made itself."""
    return {"type": "mcp_call", "name": tool, "arguments": "{}", "server_label": server, "output": "deleted"}


def clerk(model: Any, *tools: Any) -> Agent[Any]:
    return Agent(name="Clerk", model=model, tools=list(tools or (files(),)))


def options_for(way: str, provider: FakeProvider) -> dict[str, Any]:
    return {"conversation_id": provider.create_conversation()} if way == "conversation" else dict(WAYS[way])


def answers(provider: FakeProvider, at: int = -1) -> list[tuple[bool, str | None]]:
    sent = [item for item in provider.model_requests[at].input if item.get("type") == "mcp_approval_response"]
    return [(item["approve"], item.get("reason")) for item in sent]


@BOTH
@DELIVERIES
@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_it_waits_is_decided_on_a_loaded_state_and_the_answer_goes_with_the_next_request(
    verdict: str, way: str, streamed: bool
) -> None:
    follow_up = [called(), *DONE] if verdict == "approve" else DONE
    provider = FakeProvider([[asks()], follow_up])
    async with model_over_http("responses", provider) as model:
        agent = clerk(model)
        paused = await drive(agent, "Delete /a.", streamed=streamed, **options_for(way, provider))
        state: Any = await RunState.from_string(agent, paused.to_state().to_string())
        [item] = state.get_interruptions()
        if verdict == "approve":
            state.approve(item, by="ana")
        else:
            state.reject(item, rejection_message="keep it", by="ana")
        result = await drive(agent, state, streamed=streamed)

    assert (item.kind, item.name, item.server_label, item.arguments) == (
        "mcp_approval",
        "delete",
        "files",
        '{"path": "/a"}',
    )
    assert answers(provider) == [(True, None) if verdict == "approve" else (False, "keep it")]
    assert result.final_output == "It is done."
    assert provider.refusals == []


async def test_it_is_decided_and_resumed_in_another_process() -> None:
    provider = FakeProvider([[asks()], [called(), *DONE]])
    async with provider.serve() as url:
        from tests.models.runs.another_process_hosted import agent_at

        agent, client = agent_at(url)
        async with client:
            paused = await Runner.run(agent, "Delete /a.")
        order = {"url": url, "text": paused.to_state().to_string()}
        found = await in_another_process("tests.models.runs.another_process_hosted", order)

    assert found == {"final_output": "It is done."}
    assert (answers(provider), provider.refusals) == ([(True, None)], [])


@BOTH
async def test_the_items_and_the_events_say_what_it_is(streamed: bool) -> None:
    model = ScriptedModel([[asks(id="mcpr_1")], DONE])
    agent = clerk(model)
    events = []
    if streamed:
        result: Any = Runner.run_streamed(agent, "Delete /a.")
        events = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
    else:
        result = await Runner.run(agent, "Delete /a.")
    state = result.to_state()
    state.approve("mcpr_1")
    ended = await Runner.run(agent, state)

    asked, answered, _ = ended.new_items
    assert isinstance(asked, MCPApprovalRequestItem)
    assert isinstance(answered, MCPApprovalResponseItem)
    assert (asked.call_id, asked.server_label, answered.call_id) == ("mcpr_1", "files", "mcpr_1")
    assert events == (["mcp_approval_requested", "tool_approval_requested"] if streamed else [])


async def test_functions_beside_it_run_at_once_and_all_answers_go_together() -> None:
    ran = []

    @function_tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    provider = FakeProvider([[asks(), function_call("look", {}, call_id="c1"), asks("move")], [called(), *DONE]])
    async with model_over_http("responses", provider) as model:
        agent = clerk(model, files(), look)
        paused = await Runner.run(agent, "Delete /a.")
        state: Any = paused.to_state()
        first, second = state.get_interruptions()
        state.approve(first)
        half = await Runner.run(agent, state)
        state = half.to_state()
        state.reject(second)
        await Runner.run(agent, state)

    kinds = [item["type"] for item in provider.model_requests[-1].input[-3:]]
    assert (ran, len(half.interruptions)) == (["look"], 1)
    assert kinds == ["mcp_approval_response", "function_call_output", "mcp_approval_response"]
    assert answers(provider) == [(True, None), (False, "Tool execution was not approved.")]
    assert provider.refusals == []


# -- grants stay home


@pytest.mark.promise("P9")
async def test_a_grant_reaches_this_servers_tool_and_no_other() -> None:
    """Another tool, another server, and a function of the same name: each asks a person all the same."""
    turns = [[asks(id="r1")], [asks(id="r2")], [asks("move", id="r3")], [asks(server="backup", id="r4")]]
    turns.append([function_call("delete", {}, call_id="c5")])
    model = ScriptedModel([*turns, DONE])

    @function_tool(needs_approval=True)
    def delete() -> str:
        """Delete."""
        return "gone"

    agent = clerk(model, files(), files("backup"), delete)  # two labels, one address: the label decides
    result = await Runner.run(agent, "Delete all.")
    asked = []
    while result.interruptions:
        state = result.to_state()
        [item] = state.get_interruptions()
        asked.append(item.call_id)
        state.approve(item, always_approve=item.call_id == "r1")
        result = await Runner.run(agent, state)

    assert asked == ["r1", "r3", "r4", "c5"]
    assert result.final_output == "It is done."


@pytest.mark.promise("P9")
async def test_a_label_cannot_pose_as_another_server_and_tool() -> None:
    one, other = files("a:b"), files("a")

    assert one.callable_named("c").identity != other.callable_named("b:c").identity


@pytest.mark.promise("P9", "P10")
@pytest.mark.parametrize("by", ["approval", "grant"])
async def test_a_server_that_moved_voids_what_was_approved(by: str) -> None:
    steps = [[asks(id="r1")], [asks(id="r2")], DONE] if by == "grant" else [[asks(id="r1")], DONE]
    model = ScriptedModel(steps)
    paused = await Runner.run(clerk(model), "Delete /a.")
    state: Any = paused.to_state()
    state.approve("r1", always_approve=by == "grant")
    moved = clerk(model, files(url="https://elsewhere.example/mcp"))
    restored: Any = await RunState.from_string(moved, state.to_string())
    again = await Runner.run(moved, restored)

    assert [item.call_id for item in again.interruptions] == ["r1"]
    assert "changed" in str(again.interruptions[0].why)


async def test_a_grant_with_bounds_counts_its_uses() -> None:
    model = ScriptedModel([[asks(id="r1")], [asks(id="r2")], [asks(id="r3")], DONE])
    agent = clerk(model)
    paused = await Runner.run(agent, "Delete /a.")
    state: Any = paused.to_state()
    state.approve("r1", always_approve=Grant(arguments={"path": "/a"}, uses=1))
    result = await Runner.run(agent, state)

    assert [item.call_id for item in result.interruptions] == ["r3"]


# -- deciding in code


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("answer", "sent"),
    [({"approve": True}, (True, None)), ({"approve": False, "reason": "by rule"}, (False, "by rule"))],
)
async def test_a_callback_decides_in_code(answer: Any, sent: Any, is_async: bool) -> None:
    seen = []

    def decide(request: Any) -> Any:
        seen.append((request.data.server_label, request.data.name, request.data.arguments, request.ctx_wrapper.context))
        return answer

    async def decide_later(request: Any) -> Any:
        return decide(request)

    provider = FakeProvider([[asks()], [called(), *DONE] if answer["approve"] else DONE])
    async with model_over_http("responses", provider) as model:
        agent = clerk(model, files(on_approval_request=decide_later if is_async else decide))
        result = await Runner.run(agent, "Delete /a.", context="mine")

    assert seen == [("files", "delete", '{"path": "/a"}', "mine")]
    assert (result.final_output, answers(provider)) == ("It is done.", [sent])
    assert provider.refusals == []


def _raises(_request: Any) -> Any:
    raise RuntimeError("no idea")


@pytest.mark.promise("P8")
@pytest.mark.parametrize(
    "decide", [lambda _: None, lambda _: True, lambda _: {"approve": "yes"}, lambda _: {}, lambda _: [], _raises]
)
async def test_a_callback_that_is_not_clear_asks_a_person(decide: Any) -> None:
    agent = clerk(ScriptedModel([[asks(id="r1")]]), files(on_approval_request=decide))

    result = await Runner.run(agent, "Delete /a.")

    assert [item.kind for item in result.interruptions] == ["mcp_approval"]
    assert result.interruptions[0].why


# -- what cannot be said of it


async def test_its_arguments_cannot_be_changed_and_nobody_can_answer_in_its_place() -> None:
    agent = clerk(ScriptedModel([[asks(id="r1")]]))
    state: Any = (await Runner.run(agent, "Delete /a.")).to_state()

    with pytest.raises(UserError, match="arguments cannot be changed"):
        state.approve("r1", arguments={"path": "/b"})
    with pytest.raises(UserError, match="it cannot be answered in its place"):
        state.respond("r1", "done")

    assert len(state.get_interruptions()) == 1


async def test_a_state_whose_server_is_gone_is_refused_by_name() -> None:
    paused = await Runner.run(clerk(ScriptedModel([[asks(id="r1")]])), "Delete /a.")

    with pytest.raises(UserError, match="MCP server 'files'"):
        await RunState.from_string(clerk(ScriptedModel([]), files("other")), paused.to_state().to_string())


async def test_a_request_for_a_server_that_nobody_declared_is_answered_no_and_nobody_is_asked() -> None:
    provider = FakeProvider([[asks(server="unknown")], DONE])
    async with model_over_http("responses", provider) as model:
        result = await Runner.run(clerk(model), "Delete /a.")

    assert result.final_output == "It is done."
    [(approve, reason)] = answers(provider)
    assert (approve, "unknown" in str(reason)) == (False, True)


@pytest.mark.parametrize(
    "config",
    [
        {"type": "mcp", "server_url": "https://x.example"},
        {"type": "web_search", "server_label": "x"},
        {"type": "mcp", "server_label": "x", "require_approval": "allways"},
        {"type": "mcp", "server_label": "x", "require_approval": {"sometimes": {"tool_names": ["a"]}}},
        {"type": "mcp", "server_label": "x", "require_approval": {"never": {"tools": ["a"]}}},
        {"type": "mcp", "server_label": "x", "require_approval": {"never": {"tool_names": "a"}}},
        {"type": "mcp", "server_label": "x", "require_approval": {}},
        {"type": "mcp", "server_label": "x", "require_approval": None},
    ],
)
@pytest.mark.promise("P8")
def test_a_declaration_that_means_nothing_is_refused_where_it_is_written(config: Any) -> None:
    with pytest.raises(UserError):
        HostedMCPTool(config)


def test_two_servers_with_one_label_are_refused() -> None:
    with pytest.raises(UserError, match="labelled 'files'"):
        clerk(None, files(), files(url="https://other.example/mcp"))


# -- around it


async def test_inside_an_agent_behind_a_tool_it_surfaces_on_the_outermost_run() -> None:
    inner = Agent(name="Files", model=ScriptedModel([[asks(id="r1")], DONE]), tools=[files()])
    outer_steps = [[function_call("ask_files", {"input": "Delete /a."}, call_id="c1")], [assistant_message("Done.")]]
    outer = Agent(name="Outer", model=ScriptedModel(outer_steps), tools=[inner.as_tool("ask_files", "Ask.")])
    paused = await Runner.run(outer, "Delete /a.")
    state: Any = await RunState.from_string(outer, paused.to_state().to_string())
    [item] = state.get_interruptions()
    state.approve(item)
    result = await Runner.run(outer, state)

    assert (item.kind, item.agent_path) == ("mcp_approval", "Outer/ask_files(Files)")
    assert result.final_output == "Done."
    assert inner.model.calls[1].input[-1] == {  # type: ignore[union-attr]  # it is a ScriptedModel
        "type": "mcp_approval_response",
        "approval_request_id": "r1",
        "approve": True,
    }


async def test_a_desk_shows_it_and_decides_it(tmp_path: Any) -> None:
    agent = clerk(ScriptedModel([[asks(id="r1")], DONE]))
    async with Desk(f"sqlite:///{tmp_path / 'placet.db'}", agents=[agent]) as desk:
        run = await desk.start("Clerk", "Delete /a.")
        run = await desk.wait(run.id, until="paused", timeout=120)
        [request] = await desk.pending(run_id=run.id)
        with pytest.raises(UserError, match="cannot be changed"):
            await desk.decide(request.id, "edit", arguments={"path": "/b"}, by="ana")
        with pytest.raises(UserError, match="cannot be answered"):
            await desk.decide(request.id, "respond", output="done", by="ana")
        await desk.decide(request.id, "approve", by="ana")
        run = await desk.wait(run.id, until="ended", timeout=120)

    assert (request.tool, request.arguments) == ("delete", {"path": "/a"})
    assert "'files'" in str(request.why)
    assert run.final_output == "It is done."


@pytest.mark.promise("P15")
async def test_a_newer_message_ends_it_with_a_no(tmp_path: Any) -> None:
    session = SQLiteSession("s", tmp_path / "sessions.db")
    model = ScriptedModel([[asks(id="r1")], DONE])
    agent = clerk(model)
    await Runner.run(agent, "Delete /a.", session=session)

    config = RunConfig(on_pending="supersede")
    await Runner.run(agent, "Never mind.", session=session, run_config=config)

    answer = model.calls[1].input[2]
    assert (answer["type"], answer["approve"]) == ("mcp_approval_response", False)
    assert [item.get("type", "user") for item in await session.get_items()] == [
        "user",
        "mcp_approval_request",
        "mcp_approval_response",
        "user",
        "message",
    ]


@pytest.mark.parametrize("behavior", ["stop_on_first_tool", {"stop_at_tool_names": ["delete"]}])
async def test_a_yes_to_the_provider_is_never_the_final_output(behavior: Any) -> None:
    agent = clerk(ScriptedModel([[asks(id="r1")], DONE]))
    agent.tool_use_behavior = behavior
    state: Any = (await Runner.run(agent, "Delete /a.")).to_state()
    state.approve("r1")

    assert (await Runner.run(agent, state)).final_output == "It is done."


@pytest.mark.promise("P6")
async def test_two_requests_under_one_id_are_two_questions() -> None:
    model = ScriptedModel([[asks(id="r1"), asks("move", id="r1")], DONE])
    agent = clerk(model)
    state: Any = (await Runner.run(agent, "Delete /a.")).to_state()
    first, second = state.get_interruptions()
    state.approve(first)
    state.reject(second, rejection_message="no")
    await Runner.run(agent, state)

    sent = [item for item in model.calls[1].input if item.get("type") == "mcp_approval_response"]
    ids = [item["id"] for item in model.calls[1].input if item.get("type") == "mcp_approval_request"]
    assert [item["approve"] for item in sent] == [True, False]
    assert [item["approval_request_id"] for item in sent] == ids
    assert len(set(ids)) == 2


def test_an_item_made_by_hand_is_named_like_the_providers() -> None:
    item = ToolApprovalItem(clerk(None), asks(id="r1"))

    assert (item.name, item.call_id) == ("delete", "r1")


@pytest.mark.promise("P9")
@pytest.mark.parametrize(("server", "waits"), [("files", False), ("backup", True), (None, True)])
async def test_a_grant_made_by_hand_is_for_the_server_that_its_item_names(server: str | None, waits: bool) -> None:
    agent = clerk(ScriptedModel([[asks(id="r1")], DONE]), files(), files("backup"))
    raw = asks(server=server) if server is not None else function_call("delete", {"path": "/a"}, call_id="c9")
    wrapper: RunContextWrapper[Any] = RunContextWrapper(None)
    wrapper.approve_tool(ToolApprovalItem(agent, raw), always_approve=True)

    result = await Runner.run(agent, RunState(wrapper, "Delete /a.", agent))

    assert bool(result.interruptions) is waits


async def test_a_tool_of_a_server_that_is_named_like_a_handoff_is_none() -> None:
    other = Agent(name="Other", model=ScriptedModel([]))
    agent = clerk(ScriptedModel([[asks("transfer_to_other", id="r1")]]))
    agent.handoffs = [other]

    result = await Runner.run(agent, "Delete /a.")

    assert [item.kind for item in result.interruptions] == ["mcp_approval"]
    assert result.last_agent is agent


# -- other hosted tools


async def test_hosted_tools_are_passed_on_as_they_are_declared() -> None:
    tools: list[Any] = [
        WebSearchTool(user_location={"type": "approximate", "city": "Bern"}),
        FileSearchTool(["vs_1"], max_num_results=3, include_search_results=True),
        CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
        ImageGenerationTool({"type": "image_generation"}),
    ]
    provider = FakeProvider([DONE])
    async with model_over_http("responses", provider) as model:
        await Runner.run(clerk(model, *tools), "hello")

    body = provider.model_requests[0].body
    assert [tool["type"] for tool in body["tools"]] == [
        "web_search",
        "file_search",
        "code_interpreter",
        "image_generation",
    ]
    assert body["tools"][0]["user_location"]["city"] == "Bern"
    assert body["include"] == ["file_search_call.results"]
    assert provider.refusals == []


@pytest.mark.parametrize("config", [{}, "web_search", {"type": ""}, {"type": "function"}, {"type": "local_shell"}])
def test_what_no_provider_runs_is_refused(config: Any) -> None:
    with pytest.raises(UserError):
        HostedTool(config)


def test_a_file_search_without_stores_is_refused() -> None:
    with pytest.raises(UserError, match="vector_store_ids"):
        FileSearchTool()
