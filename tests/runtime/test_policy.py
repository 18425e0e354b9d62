"""A policy in a run: judged when a call is proposed, and again when it is about to begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import Agent, FunctionTool, Needs, RunConfig, Runner, RunResult, RunState, function_tool
from placet.core.log import read_lines
from placet.core.policy import Policy
from placet.facts.events import CallHeld, InChild, PlainFact, PolicyJudged
from placet.policy import PolicyFile, parse_policy
from placet.testing import ManualClock, function_call
from tests.runtime.scenes import OwnStore, Tools, call, done, scripted


class Changing:
    """A policy that a test replaces."""

    def __init__(self, text: str) -> None:
        self.policy = parse_policy(text)

    def become(self, text: str) -> None:
        self.policy = parse_policy(text)

    def current(self) -> Policy:
        return self.policy


def rule(body: str, name: str = "one") -> str:
    return f'[[rule]]\nname = "{name}"\n{body}\n'


class Scene:
    """One agent that makes one call, then is done."""

    def __init__(self, text: str, *tools: FunctionTool, n: int = 3, **options: Any) -> None:
        self.tools = Tools()
        self.policy = Changing(text)
        self.config = RunConfig(policy=self.policy, **options)
        self.store = OwnStore()
        self.agent = scripted([[call("pay", n, "c1")], done()], *(tools or (self.tools.free("pay"),)))

    async def run(self, given: str | RunState[Any] = "go") -> RunResult:
        return await Runner.run(self.agent, given, run_config=self.config, store=self.store)


def heard(result: RunResult) -> list[PolicyJudged]:
    return [fact for fact in facts_of(result) if isinstance(fact, PolicyJudged)]


def facts_of(result: RunResult) -> list[PlainFact]:
    facts = [fact for record in read_lines(result.to_state()._log.lines) for fact in record.facts]
    return [fact.fact if isinstance(fact, InChild) else fact for fact in facts]


async def test_a_rule_that_denies_keeps_the_call_from_running_and_the_model_reads_why() -> None:
    scene = Scene(rule("tool = 'pay'\nargs.n = { above = 2 }\ndeny = 'No more than 2.'"))

    result = await scene.run()

    assert scene.tools.ran == []
    assert "No more than 2." in str(result.to_input_list())
    assert result.final_output == "done"


async def test_a_rule_that_asks_puts_a_free_tool_before_a_person_and_the_item_says_why() -> None:
    scene = Scene(rule("tool = 'pay'\nask = { because = 'Money leaves.' }", "money"))

    waiting = await scene.run()
    (item,) = waiting.interruptions
    state = waiting.to_state()
    state.approve(item)
    result = await scene.run(state)

    assert item.why == "rule «money» (policy.toml, line 1) asks: Money leaves."
    assert scene.tools.ran == [("pay", 3)]
    assert [(each.verdict, each.version) for each in heard(result)] == [("ask", scene.policy.policy.version)]


async def test_an_allow_lifts_what_the_tool_asks_only_where_it_says_so() -> None:
    kept, lifted = Scene(rule("allow = true")), Scene(rule("allow = true\nrelax = true"))
    for scene in (kept, lifted):
        scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay"))

    assert len((await kept.run()).interruptions) == 1
    assert (await lifted.run()).final_output == "done"
    assert lifted.tools.ran == [("pay", 3)]


async def test_what_a_tool_asks_because_something_is_wrong_is_not_lifted() -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("no idea")

    scene = Scene(rule("allow = true\nrelax = true"))
    scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay", needs_approval=broken))

    (item,) = (await scene.run()).interruptions

    assert "no idea" in (item.why or "")


async def test_a_rule_and_the_tool_both_ask_and_both_have_to_be_fulfilled() -> None:
    scene = Scene(rule("ask = { approve = 2 }"))
    scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay", approvers=Needs(1)))

    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], by="ana")
    still = await scene.run(state)
    state = still.to_state()
    state.approve(still.interruptions[0], by="bo")
    result = await scene.run(state)

    assert len(still.interruptions) == 1
    assert result.final_output == "done"


async def test_the_deadline_of_a_rule_counts_where_it_is_earlier() -> None:
    clock = ManualClock(1000.0)
    scene = Scene(rule("ask = { within = '10s' }"), clock=clock)
    scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay", decide_within=60))

    result = await scene.run()

    (held,) = [fact for fact in facts_of(result) if isinstance(fact, CallHeld)]
    assert held.expires_at == 1010.0


@pytest.mark.parametrize("gated", [False, True])
async def test_a_policy_that_denies_after_the_approval_keeps_the_call_from_beginning(gated: bool) -> None:
    scene = Scene(rule("ask = true"))
    if gated:
        scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay"))
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0])

    scene.policy.become(rule("deny = 'Not any more.'"))
    result = await scene.run(state)

    assert scene.tools.ran == []
    assert "although it was approved: the policy denies it: Not any more." in str(result.to_input_list())


async def test_a_policy_that_needs_more_people_after_the_approval_asks_anew() -> None:
    scene = Scene(rule("ask = true"))
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], by="ana")

    scene.policy.become(rule("ask = { approve = 2 }", "two"))
    again = await scene.run(state)
    (item,) = again.interruptions
    state = again.to_state()
    state.approve(item, by="ana")
    state.approve(item, by="bo")
    result = await scene.run(state)

    assert "rule «two»" in (item.why or "")
    assert item.missing == 2
    assert (result.final_output, scene.tools.ran) == ("done", [("pay", 3)])


async def test_an_approval_stands_where_the_policy_asks_for_no_more_than_was_given() -> None:
    scene = Scene(rule("ask = { approve = 2 }"))
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], by="ana")
    state.approve(waiting.interruptions[0], by="bo")

    scene.policy.become(rule("ask = true", "weaker"))
    result = await scene.run(state)

    assert result.final_output == "done"


async def test_a_call_that_waited_in_the_queue_is_judged_by_the_policy_as_it_is_then() -> None:
    ran: list[int] = []
    scene = Scene("")

    @function_tool
    async def pay(n: int) -> str:
        ran.append(n)
        scene.policy.become(rule("ask = true", "late"))
        return "paid"

    scene.config = RunConfig(policy=scene.policy, max_tool_concurrency=1)
    scene.agent = scripted([[call("pay", 1, "c1"), call("pay", 2, "c2")], done()], pay)

    result = await scene.run()

    assert ran == [1]
    assert [item.call_id for item in result.interruptions] == ["c2"]


async def test_what_a_rule_lifted_is_asked_when_the_rule_is_gone_before_the_claim() -> None:
    ran: list[int] = []
    scene = Scene(rule("allow = true\nrelax = true"))

    @function_tool(needs_approval=True)
    async def pay(n: int) -> str:
        ran.append(n)
        scene.policy.become("")
        return "paid"

    scene.config = RunConfig(policy=scene.policy, max_tool_concurrency=1)
    scene.agent = scripted([[call("pay", 1, "c1"), call("pay", 2, "c2")], done()], pay)

    result = await scene.run()

    assert ran == [1]
    assert "not in force any more" in (result.interruptions[0].why or "")


async def test_an_edit_that_the_policy_denies_is_asked_about_again() -> None:
    scene = Scene(rule("args.n = { above = 5 }\ndeny = 'Too much.'"))
    scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay"))
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], arguments={"n": 9}, by="ana")

    again = await scene.run(state)

    assert scene.tools.ran == []
    assert "the policy denies it: Too much." in (again.interruptions[0].why or "")
    assert again.interruptions[0].arguments == '{"n": 3}'


async def test_an_edit_into_the_reach_of_a_rule_needs_what_that_rule_asks_for() -> None:
    scene = Scene(rule("args.n = { above = 5 }\nask = { approve = 2 }"))
    scene.agent = scripted([[call("pay", 3, "c1")], done()], scene.tools.gated("pay"))
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], arguments={"n": 9}, by="ana")

    again = await scene.run(state)
    assert scene.tools.ran == []
    state = again.to_state()
    state.approve(again.interruptions[0], by="bo")
    result = await scene.run(state)

    assert (result.final_output, scene.tools.ran) == ("done", [("pay", 9)])


async def test_nested_runs_are_under_the_policy_of_the_run_around_them_also_with_a_configuration_of_their_own() -> None:
    scene = Scene(rule("tool = 'pay'\nask = true"))
    inner = scripted([[call("pay", 3, "i1")], done()], scene.tools.free("pay"), name="Inner")
    tool = inner.as_tool("delegate", "hands over", run_config=RunConfig())
    outer: Agent[Any] = Agent("Outer", tools=[tool], model=scripted([[_delegate()], done()]).model)
    scene.agent = outer

    (item,) = (await scene.run()).interruptions

    assert item.name == "pay"
    assert "rule «one»" in (item.why or "")


async def test_a_rule_in_shadow_changes_nothing_and_is_written_beside_the_decision() -> None:
    scene = Scene(rule("deny = true") + '[rollout]\none = "shadow"\n')

    result = await scene.run()

    assert scene.tools.ran == [("pay", 3)]
    (fact,) = heard(result)
    assert (fact.verdict, fact.rules[0].mode, fact.rules[0].verdict) == ("none", "shadow", "deny")


async def test_a_file_that_changes_between_two_drives_counts_in_the_next(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(rule("ask = true"))
    scene = Scene("")
    scene.config = RunConfig(policy=PolicyFile(file, look_seconds=0))
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0])

    file.write_text(rule("deny = 'Closed today.'", "closed"))
    result = await scene.run(state)

    assert scene.tools.ran == []
    assert "Closed today." in str(result.to_input_list())


async def test_a_grant_decides_what_a_rule_asks_and_a_denial_of_the_policy_beats_it() -> None:
    scene = Scene(rule("ask = true"))
    scene.agent = scripted(
        [[call("pay", 1, "c1")], [call("pay", 2, "c2")], [call("pay", 3, "c3")], done()], scene.tools.free("pay")
    )
    waiting = await scene.run()
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], always_approve=True)
    scene.policy.become(rule("ask = true") + rule("args.n = 3\ndeny = 'Not three.'", "three"))

    result = await scene.run(state)

    assert result.final_output == "done"
    assert scene.tools.ran == [("pay", 1), ("pay", 2)]


def _delegate() -> dict[str, Any]:
    return function_call("delegate", {"input": "x"}, call_id="d1")
