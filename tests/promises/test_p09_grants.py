"""P9, as far as tools of our own go: a grant covers its owner, tool, arguments, time and count."""

from datetime import UTC, datetime

import pytest

from placet import Grant, MemoryStore, RunConfig, UserError, function_tool
from placet.facts.events import DecisionMade
from placet.testing import Crash, CrashingStore, ManualClock, function_call
from tests.promises.scenes import DONE, cleanup, drive, facts, item_of, refund, reloaded, scene

pytestmark = pytest.mark.promise("P9")

GRANT = 1 + DecisionMade.__struct_fields__.index("grant")
"""Where a decision, as it is written down, names the standing decision behind it."""


async def granted(ops, always, *, label="c1", **options):
    """The first pause, with a grant on its call, and on."""
    state = (await drive(ops.agent, "go", **options)).to_state()
    state.approve(item_of(state, label), always_approve=always, by="ann")
    return await drive(ops.agent, await reloaded(ops.agent, state), **options)


async def test_a_grant_reaches_later_turns_and_what_already_waits_of_the_same_tool_and_nothing_else():
    ops = scene([cleanup("/a", "c1"), cleanup("/b", "c2"), refund(1, "r1")], [cleanup("/c", "c3"), refund(2, "r2")])
    first = await granted(ops, True)
    state = await reloaded(ops.agent, first)
    state.reject(item_of(state, "r1"))

    second = await drive(ops.agent, state)

    assert [item.call_id for item in first.interruptions] == ["r1"]
    assert [item.call_id for item in second.interruptions] == ["r2"]
    assert ops.effects == ["cleanup /a", "cleanup /b", "cleanup /c"]


async def test_each_use_of_a_grant_is_a_decision_in_the_log_that_names_it_and_who_gave_it():
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2")], DONE)

    result = await granted(ops, True)
    (grant,) = [fact for fact in facts(result) if fact[0] == "grant"]
    decisions = [fact for fact in facts(result) if fact[0] == "decide"]

    assert [(fact[1], fact[5], fact[GRANT]) for fact in decisions] == [("1.0", "ann", None), ("2.0", "ann", grant[1])]


async def test_a_grant_ends_with_its_run():
    ops = scene([cleanup("/a", "c1")], DONE, [cleanup("/b", "c2")])
    await granted(ops, True)

    other = await drive(ops.agent, "once more")

    assert [item.call_id for item in other.interruptions] == ["c2"]


async def test_a_grant_for_certain_arguments_covers_exactly_those():
    calls = [cleanup("/var", "c2"), cleanup("/home", "c3"), cleanup("/var/x", "c4")]
    ops = scene([cleanup("/a", "c1")], calls)

    second = await granted(ops, Grant(arguments={"path": "/var"}))

    assert [item.call_id for item in second.interruptions] == ["c3", "c4"]
    assert ops.effects == ["cleanup /a", "cleanup /var"]


async def test_a_grant_is_over_when_its_time_is():
    clock = ManualClock()
    config = RunConfig(clock=clock)
    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2"), refund(1, "r1")], [cleanup("/c", "c3")])
    until = datetime.fromtimestamp(clock.now() + 60, UTC)
    second = await granted(ops, Grant(until=until), run_config=config)
    clock.advance(60)
    state = second.to_state()
    state.reject(item_of(state, "r1"))

    third = await drive(ops.agent, state, run_config=config)

    assert [item.call_id for item in second.interruptions] == ["r1"]
    assert [item.call_id for item in third.interruptions] == ["c3"]
    assert third.interruptions[0].request_id.endswith("_q1")  # never let through, so not asked about anew


async def test_a_grant_is_over_when_it_is_used_up_also_across_serialization():
    ops = scene(
        [cleanup("/a", "c1")], [cleanup("/b", "c2"), refund(1, "r1")], [cleanup("/c", "c3"), cleanup("/d", "c4")]
    )
    second = await granted(ops, Grant(uses=2))
    state = await reloaded(ops.agent, second)
    state.reject(item_of(state, "r1"))

    third = await drive(ops.agent, await reloaded(ops.agent, state))

    assert [item.call_id for item in third.interruptions] == ["c4"]
    assert ops.effects == ["cleanup /a", "cleanup /b", "cleanup /c"]


@pytest.mark.parametrize("change", ["schema", "version"])
async def test_a_changed_tool_voids_the_grant(change):
    ran = []

    @function_tool(needs_approval=True, version="2" if change == "version" else None, name_override="cleanup")
    async def changed(path: str, force: bool = False) -> str:
        ran.append(path)
        return "cleaned"

    @function_tool(needs_approval=True, name_override="cleanup", version="2")
    async def new_version(path: str) -> str:
        ran.append(path)
        return "cleaned"

    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2"), refund(1, "r1")], [cleanup("/c", "c3")])
    state = (await granted(ops, True)).to_state()
    state.reject(item_of(state, "r1"))
    refunds = ops.agent.tool_named("refund")

    third = await drive(ops.rebuilt(changed if change == "schema" else new_version, refunds), state)

    assert [item.call_id for item in third.interruptions] == ["c3"]
    assert ran == []


async def test_new_wording_of_a_tool_does_not_void_the_grant():
    ran = []

    @function_tool(needs_approval=True, name_override="cleanup", description_override="Clean up more politely.")
    async def reworded(path: str) -> str:
        """Another text.

        Args:
            path: Where to clean.
        """
        ran.append(path)
        return "cleaned"

    ops = scene([cleanup("/a", "c1")], [cleanup("/b", "c2"), refund(1, "r1")], [cleanup("/c", "c3")], DONE)
    state = (await granted(ops, True)).to_state()
    state.reject(item_of(state, "r1"))

    result = await drive(ops.rebuilt(reworded, ops.agent.tool_named("refund")), state)

    assert result.final_output == "done"
    assert ran == ["/c"]


async def test_a_grant_for_the_agent_reaches_its_later_runs_on_that_store_but_no_other_agent_and_no_other_store():
    store, elsewhere = MemoryStore(), MemoryStore()
    ops = scene([cleanup("/a", "c1")], DONE, [cleanup("/b", "c2")], DONE, [cleanup("/c", "c3")])
    other = scene([cleanup("/d", "c4")], name="intern")
    await granted(ops, Grant(scope="agent"), store=store)

    same_agent = await drive(ops.agent, "again", store=store)
    other_agent = await drive(other.agent, "again", store=store)
    other_store = await drive(ops.agent, "again", store=elsewhere)

    assert same_agent.final_output == "done"
    assert [item.call_id for item in other_agent.interruptions] == ["c4"]
    assert [item.call_id for item in other_store.interruptions] == ["c3"]


async def test_the_count_of_a_grant_for_the_agent_holds_over_all_its_runs():
    store = MemoryStore()
    ops = scene([cleanup("/a", "c1")], DONE, [cleanup("/b", "c2")], DONE, [cleanup("/c", "c3")])
    await granted(ops, Grant(scope="agent", uses=1), store=store)

    second = await drive(ops.agent, "again", store=store)
    third = await drive(ops.agent, "again", store=store)

    assert second.final_output == "done"
    assert [item.call_id for item in third.interruptions] == ["c3"]


async def test_a_grant_does_not_resolve_a_doubt():
    store = CrashingStore(MemoryStore())
    ops = scene([cleanup("/a", "c1")], DONE)
    state = (await drive(ops.agent, "go", store=store)).to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    store.crash_at(2, "before")
    with pytest.raises(Crash) as crashed:
        await drive(ops.agent, state, store=store)

    result = await drive(ops.agent, await reloaded(ops.agent, crashed.value.state), store=store)

    assert ops.effects == ["cleanup /a"]
    assert [(item.kind, item.call_id) for item in result.interruptions] == [("in_doubt", "c1")]


async def test_a_grant_does_not_follow_a_handoff_to_another_agents_tool_of_the_same_name():
    expert = scene([cleanup("/b", "c2")], DONE, name="expert")
    hand_over = function_call("transfer_to_expert", {}, call_id="h1")
    ops = scene([cleanup("/a", "c1")], [hand_over], handoffs=[expert.agent])

    after_handoff = await granted(ops, True)

    assert after_handoff.last_agent.name == "expert"
    assert [item.call_id for item in after_handoff.interruptions] == ["c2"]
    assert expert.effects == []


@pytest.mark.parametrize(
    "bounds",
    [{"scope": "everywhere"}, {"uses": 0}, {"until": datetime.fromtimestamp(0, UTC).replace(tzinfo=None)}],
    ids=["scope", "uses", "zone"],
)
def test_a_grant_whose_bounds_say_nothing_is_refused_where_it_is_written(bounds):
    with pytest.raises(UserError):
        Grant(**bounds)
