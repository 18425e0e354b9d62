"""P10: what you saw is what runs."""

import contextlib
import json

import pytest

from placet import Agent, MemoryStore, RunState, StaleApproval, UserError, function_tool
from placet.declare.agent import who_acts
from placet.testing import Crash, CrashingStore, ScriptedModel, function_call
from tests.promises.scenes import DONE, approve_all, cleanup, drive, facts, refund, reloaded, scene

pytestmark = pytest.mark.promise("P10")


def another_cleanup(ran, **options):
    @function_tool(needs_approval=True, name_override="cleanup", **options)
    async def changed(path: str) -> str:
        ran.append(path)
        return f"cleaned {path} anew"

    return changed


async def test_altered_arguments_in_the_stored_state_void_the_approval_and_ask_anew():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    altered = state.to_string().replace('{\\"path\\": \\"/a\\"}', '{\\"path\\": \\"/etc\\"}')
    forged = await RunState.from_string(ops.agent, altered)

    result = await drive(ops.agent, forged, store=CrashingStore(MemoryStore()))

    assert "/etc" in altered
    assert ops.effects == []
    assert [item.arguments for item in result.interruptions] == ['{"path": "/etc"}']
    assert "changed" in result.interruptions[0].why


async def test_altered_arguments_of_an_edit_void_it():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"path": "/var"})
    altered = state.to_string().replace('{"path":"/var"}', '{"path":"/etc"}')
    forged = await RunState.from_string(ops.agent, altered)

    result = await drive(ops.agent, forged, store=CrashingStore(MemoryStore()))

    assert "/etc" in altered
    assert ops.effects == []
    assert len(result.interruptions) == 1


async def test_a_tool_with_another_schema_voids_the_approval_and_its_new_shape_can_be_approved():
    ran = []

    @function_tool(needs_approval=True, name_override="cleanup")
    async def changed(path: str, recursive: bool = True) -> str:
        ran.append((path, recursive))
        return "cleaned"

    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    agent = ops.rebuilt(changed)

    asked_anew = await drive(agent, await reloaded(agent, state))
    effects_before = list(ran)
    result = await approve_all(agent, asked_anew)

    assert effects_before == []
    assert asked_anew.interruptions[0].request_id != state.get_interruptions()[0].request_id
    assert result.final_output == "done"
    assert ran == [("/a", True)]


async def test_another_declared_version_voids_the_approval():
    ran = []
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])

    result = await drive(ops.rebuilt(another_cleanup(ran, version="2")), state)

    assert ran == []
    assert len(result.interruptions) == 1


async def test_another_wording_of_the_same_tool_keeps_the_approval():
    ran = []
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])

    await drive(ops.rebuilt(another_cleanup(ran, description_override="Tidy up.")), state)

    assert ran == ["/a"]


async def test_an_item_that_shows_an_older_question_cannot_approve_the_newer_one():
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    state = paused.to_state()
    state.approve(state.get_interruptions()[0])
    agent = ops.rebuilt(another_cleanup([], version="2"))
    asked_anew = (await drive(agent, state)).to_state()

    with pytest.raises(StaleApproval, match="look again"):
        asked_anew.approve(paused.interruptions[0])


async def test_a_decision_about_an_older_question_that_comes_late_is_refused():
    ran = []
    ops = scene([cleanup("/a", "c1")], DONE)
    paused = await drive(ops.agent, "go")
    first, late = paused.to_state(), paused.to_state()
    first.approve(first.get_interruptions()[0])
    late.reject(late.get_interruptions()[0])
    agent = ops.rebuilt(another_cleanup(ran, version="2"))
    await drive(agent, first)

    with pytest.raises(StaleApproval, match="contradicts"):
        await drive(agent, late)


async def test_an_edit_runs_the_edited_arguments_and_tells_the_model():
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"path": "/var"}, by="ann")

    result = await drive(ops.agent, await reloaded(ops.agent, state))
    first_line, rest = ops.sent(1)[0][1].split("\n")

    assert ops.effects == ["cleanup /var"]
    assert "reviewer changed the arguments" in first_line
    assert json.loads(first_line[first_line.index("{") :]) == {"path": "/var"}
    assert rest == "cleaned /var"
    assert [item["arguments"] for item in result.to_input_list() if item.get("type") == "function_call"] == [
        '{"path": "/a"}'
    ]
    assert [fact[9] for fact in facts(result) if fact[0] == "decide"] == [{"path": "/var"}]


@pytest.mark.parametrize(
    "arguments", [{}, {"path": 7}, {"path": "/a", "force": True}, {"path": {1, 2}}], ids=["none", "type", "more", "set"]
)
async def test_an_edit_that_does_not_fit_the_schema_is_refused_when_it_is_made(arguments):
    ops = scene([cleanup("/a", "c1")])
    state = (await drive(ops.agent, "go")).to_state()
    before = state.to_string()

    with pytest.raises(UserError, match="edited arguments"):
        state.approve(state.get_interruptions()[0], arguments=arguments)

    assert state.to_string() == before


async def test_an_edited_call_that_fell_into_doubt_runs_again_as_it_was_edited():
    store = CrashingStore(MemoryStore())
    ops = scene([refund(1, "r1")], DONE)
    state = (await drive(ops.agent, "go", store=store)).to_state()
    state.approve(state.get_interruptions()[0], arguments={"order": 50})
    store.crash_at(2, "before")
    with pytest.raises(Crash) as crashed:
        await drive(ops.agent, state, store=store)
    doubtful = await drive(ops.agent, crashed.value.state, store=store)

    result = await approve_all(ops.agent, doubtful, store=store)

    assert [item.kind for item in doubtful.interruptions] == ["in_doubt"]
    assert json.loads(doubtful.interruptions[0].arguments) == {"order": 50}
    assert ops.effects == ["refund 50", "refund 50"]
    assert result.final_output == "done"


async def test_an_edit_of_a_tool_that_changed_is_asked_about_once_more_and_not_twice():
    ran = []
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], arguments={"path": "/var"})
    agent = ops.rebuilt(another_cleanup(ran, version="2"))
    asked_anew = await drive(agent, state)
    shown = json.loads(asked_anew.interruptions[0].arguments)

    result = await approve_all(agent, asked_anew)

    assert result.final_output == "done"
    assert ran == [shown["path"]]


def asking(inner, **options):
    """An agent whose only tool is another agent, which waits for a person."""
    tool = inner.as_tool("ask_billing", needs_approval=True, **options)
    return Agent("boss", tools=[tool], model=ScriptedModel([[function_call("ask_billing", {"input": "pay"})], DONE]))


def billing(*tools, **options):
    return Agent("Billing", tools=list(tools), model=ScriptedModel([DONE]), **options)


@function_tool
async def look(path: str) -> str:
    return path


@function_tool(name_override="look")
async def look_elsewhere(path: str, secretly: bool) -> str:
    return f"{path} {secretly}"


@function_tool
async def erase(path: str) -> str:
    return path


OTHERS = {
    "another name": lambda: Agent("Billing 2", tools=[look], instructions="Bill.", model=ScriptedModel([DONE])),
    "another key": lambda: billing(look, instructions="Bill.", key="other"),
    "other instructions": lambda: billing(look, instructions="Steal."),
    "one tool more": lambda: billing(look, erase, instructions="Bill."),
    "a tool with another schema": lambda: billing(look_elsewhere, instructions="Bill."),
    "somebody to hand over to": lambda: billing(look, instructions="Bill.", handoffs=[Agent("Thief", tools=[erase])]),
    "another agent behind its tool": lambda: billing(look, Agent("Thief").as_tool("x"), instructions="Bill."),
    "a server": lambda: billing(look, instructions="Bill.", mcp_servers=[NoServer()]),
}


class NoServer:
    name = "files"

    def in_use(self):
        return contextlib.nullcontext()

    async def tools_for(self, *_):
        return []

    def last_listed(self):
        return []


@pytest.mark.parametrize("other", OTHERS)
async def test_another_agent_behind_the_tool_voids_the_approval(other):
    boss = asking(billing(look, instructions="Bill."))
    state = (await drive(boss, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    changed = asking(OTHERS[other]())
    result = await drive(changed, await RunState.from_string(changed, state.to_string()), store=MemoryStore())

    assert len(result.interruptions) == 1
    assert "changed" in result.interruptions[0].why


async def test_the_same_agent_built_anew_keeps_the_approval():
    boss = asking(billing(look, erase, instructions="Bill."))
    state = (await drive(boss, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    again = asking(billing(erase, look, instructions="Bill."))
    again.model = ScriptedModel([DONE])
    result = await drive(again, await RunState.from_string(again, state.to_string()), store=MemoryStore())

    assert result.final_output == "done"


def test_agents_that_lead_to_each_other_are_described_and_each_once():
    team = [Agent(f"a{number}") for number in range(12)]
    for agent in team:
        agent.handoffs = [each for each in team if each is not agent]

    assert len(who_acts(team[0])) == 12


@pytest.mark.parametrize("change", ["version", "schema", "a part of the schema"])
async def test_a_tool_that_is_changed_in_place_is_another_tool(change):
    ran = []
    tool = another_cleanup(ran, version="1")
    ops = scene([cleanup("/a", "c1")], DONE, tools=(tool,))
    state = (await drive(ops.agent, "go")).to_state()
    before = tool.fingerprint
    state.approve(state.get_interruptions()[0])
    if change == "version":
        tool.version = "2"
    elif change == "schema":
        tool.params_json_schema = {**tool.params_json_schema, "minProperties": 1}
    else:
        tool.params_json_schema["properties"]["path"]["minLength"] = 1
    result = await drive(ops.agent, state)

    assert tool.fingerprint != before
    assert ran == []
    assert len(result.interruptions) == 1
