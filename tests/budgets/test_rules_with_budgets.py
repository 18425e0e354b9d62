"""Budgets of a policy's rules: taken with the claim, by runs, nested runs and guests alike, and never by what a person
approved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Grant, MemoryStore, RunConfig, Runner, RunResult, function_tool
from placet.core.budget import rule_budget
from placet.core.policy import Policy
from placet.desk import Desk
from placet.gate import CallNotClaimable, Gate
from placet.policy import PolicyRefused, parse_policy
from placet.ports import DeskStore
from placet.stores.sqlite import SQLiteStore
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call

DONE = [assistant_message("done")]
SMALL = """
[[rule]]
name = "small"
tool = "pay"
allow = true
relax = true
budget = { sum = "cents", most = 100 }
"""


class Changing:
    """A policy that a test replaces."""

    def __init__(self, text: str) -> None:
        self.policy = parse_policy(text)

    def become(self, text: str) -> None:
        self.policy = parse_policy(text)

    def current(self) -> Policy:
        return self.policy


class Scene:
    """An agent that pays, under a policy."""

    def __init__(self, store: DeskStore, clock: ManualClock, text: str = SMALL) -> None:
        self.store, self.clock, self.policy = store, clock, Changing(text)
        self.paid: list[tuple[str, int]] = []
        self.config = RunConfig(policy=self.policy, clock=clock)

    def agent(self, *steps: Any, needs_approval: bool = True, **options: Any) -> Agent[Any]:
        @function_tool(needs_approval=needs_approval, name_override="pay", **options)
        async def pay_out(cents: int, customer: str = "c1") -> str:
            self.paid.append((customer, cents))
            return "paid"

        return Agent("Clerk", tools=[pay_out], model=ScriptedModel([*steps, DONE]))

    async def run(self, agent: Agent[Any], given: Any = "Pay.") -> RunResult:
        return await Runner.run(agent, given, store=self.store, run_config=self.config)

    async def taken(self, rule: str = "small") -> int:
        shares = await self.store.shares(rule_budget(rule), self.clock.now())
        return sum(each.amount for each in shares) // 10**6


def pay(cents: int, label: str | None = None, customer: str = "c1") -> dict[str, Any]:
    return function_call("pay", {"cents": cents, "customer": customer}, call_id=label)


def labels(result: RunResult) -> list[str | None]:
    return [item.call_id for item in result.interruptions]


@pytest.fixture(params=["memory", "sqlite"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    clock = ManualClock(1_800_000_000.0)
    if request.param == "memory":
        yield Scene(MemoryStore(), clock)
        return
    async with SQLiteStore(tmp_path / "placet.db", clock=clock) as store:
        yield Scene(store, clock)


async def test_a_rule_lets_through_what_its_budget_covers_and_asks_about_the_rest_with_the_figures(
    scene: Scene,
) -> None:
    result = await scene.run(scene.agent([pay(60)], [pay(40)], [pay(1, "over")]))

    assert scene.paid == [("c1", 60), ("c1", 40)]
    assert labels(result) == ["over"]
    assert result.interruptions[0].why == (
        "the budget of rule «small» (policy.toml, line 2) does not cover it: 100 of 100 cents are taken, "
        "and this call asks for 1"
    )


async def test_calls_of_one_answer_share_what_is_left(scene: Scene) -> None:
    result = await scene.run(scene.agent([pay(40, str(number)) for number in range(4)]))

    assert scene.paid == [("c1", 40)] * 2
    assert labels(result) == ["2", "3"]


async def test_what_a_person_approves_takes_nothing_of_what_the_rule_may_let_through(scene: Scene) -> None:
    agent = scene.agent([pay(500, "over")], [pay(100)])
    waiting = await scene.run(agent)
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], by="ann")

    result = await scene.run(agent, state)

    assert result.final_output == "done"
    assert scene.paid == [("c1", 500), ("c1", 100)]
    assert await scene.taken() == 100


async def test_a_standing_decision_spends_its_own_budget_and_not_the_rules(scene: Scene) -> None:
    agent = scene.agent([pay(500, "over")], [pay(90)], [pay(50)], [pay(60, "none")])
    waiting = await scene.run(agent)
    state = waiting.to_state()
    state.approve(waiting.interruptions[0], by="ann", always_approve=Grant(budget={"sum": "cents", "most": 100}))

    result = await scene.run(agent, state)

    assert scene.paid == [("c1", 500), ("c1", 90), ("c1", 50)]
    assert labels(result) == ["none"]
    assert await scene.taken() == 90


async def test_a_tool_that_nobody_asks_about_is_asked_about_when_the_budget_is_spent(scene: Scene) -> None:
    scene.policy.become('[[rule]]\nname = "few"\ntool = "pay"\nallow = true\nbudget = { uses = 2 }\n')

    result = await scene.run(scene.agent([pay(1)], [pay(2)], [pay(3, "third")], needs_approval=False))

    assert scene.policy.policy.warnings == ()
    assert scene.paid == [("c1", 1), ("c1", 2)]
    assert labels(result) == ["third"]


async def test_runs_side_by_side_never_spend_more_than_there_is(scene: Scene) -> None:
    results = await asyncio.gather(*(scene.run(scene.agent([pay(30)])) for _ in range(8)))

    assert sum(cents for _, cents in scene.paid) == 90
    assert sum(bool(result.interruptions) for result in results) == 5
    assert await scene.taken() == 90


async def test_nested_runs_spend_the_same_budget(scene: Scene) -> None:
    inner = scene.agent([pay(60)], [pay(60, "over")])
    delegate = function_call("delegate", {"input": "pay"}, call_id="d1")
    tool = inner.as_tool("delegate", "hands over")
    outer: Agent[Any] = Agent("Outer", tools=[tool], model=ScriptedModel([[delegate], DONE]))

    result = await scene.run(outer)

    assert scene.paid == [("c1", 60)]
    assert labels(result) == ["over"]
    assert await scene.taken() == 60


async def test_a_rule_that_is_edited_keeps_what_was_taken_and_one_that_is_raised_covers_more(scene: Scene) -> None:
    await scene.run(scene.agent([pay(100)]))
    scene.policy.become(SMALL.replace("most = 100", "most = 150") + "\n# raised\n")

    result = await scene.run(scene.agent([pay(50)], [pay(1, "over")]))

    assert scene.paid == [("c1", 100), ("c1", 50)]
    assert labels(result) == ["over"]


async def test_a_budget_that_is_cut_while_a_call_waits_in_the_queue_holds_at_the_claim(scene: Scene) -> None:
    ran: list[int] = []

    @function_tool(needs_approval=True, name_override="pay")
    async def pay_out(cents: int, customer: str) -> str:
        ran.append(cents)
        scene.policy.become(SMALL.replace("most = 100", "most = 30"))
        return "paid"

    agent = Agent("Clerk", tools=[pay_out], model=ScriptedModel([[pay(20, "1"), pay(20, "2")], DONE]))
    config = RunConfig(policy=scene.policy, clock=scene.clock, max_tool_concurrency=1)

    result = await Runner.run(agent, "Pay.", store=scene.store, run_config=config)

    assert ran == [20]
    assert labels(result) == ["2"]
    assert "20 of 30 cents are taken" in (result.interruptions[0].why or "")


async def test_a_rule_in_shadow_takes_nothing(scene: Scene) -> None:
    scene.policy.become(SMALL + '[rollout]\nsmall = "shadow"\n')

    result = await scene.run(scene.agent([pay(60, "a")]))

    assert labels(result) == ["a"]
    assert await scene.taken() == 0


async def test_all_rules_that_let_a_call_through_have_to_cover_it(scene: Scene) -> None:
    scene.policy.become(SMALL + SMALL.replace("small", "few").replace('sum = "cents", most = 100', "uses = 1"))

    result = await scene.run(scene.agent([pay(60)], [pay(1, "second")]))

    assert labels(result) == ["second"]
    assert "rule «few»" in (result.interruptions[0].why or "")
    assert (await scene.taken(), await scene.taken("few")) == (60, 1)


@pytest.mark.parametrize(
    ("start", "hours", "covered"),
    [
        (1_793_487_600.0, 23.5, False),  # 31 October 2026, 23:00 UTC: midnight in Berlin; the clocks go back that night
        (1_793_487_600.0, 25.0, True),
        (1_774_652_400.0, 22.5, False),  # 27 March 2026, 23:00 UTC: midnight in Berlin before the day with 23 hours
        (1_774_738_800.0, 22.5, False),
        (1_774_738_800.0, 23.0, True),
    ],
)
async def test_a_day_is_as_long_as_its_date_where_the_clocks_change(start: float, hours: float, covered: bool) -> None:
    clock = ManualClock(start)
    scene = Scene(
        MemoryStore(), clock, SMALL.replace("most = 100", 'most = 100, every = "day", zone = "Europe/Berlin"')
    )
    await scene.run(scene.agent([pay(100)]))
    clock.advance(hours * 3600)

    result = await scene.run(scene.agent([pay(100)]))

    assert (result.final_output == "done") is covered


# -- guests -----------------------------------------------------------------------------------------------------------

ORDER = {"type": "object", "properties": {"cents": {"type": "integer"}}, "additionalProperties": False}


class GuestScene:
    def __init__(self, scene: Scene, desk: Desk, gate: Gate) -> None:
        self.scene, self.desk, self.gate = scene, desk, gate
        self._n = 0

    async def propose(self, cents: int, session: str = "s") -> Any:
        self._n += 1
        return await self.gate.propose("pay", {"cents": cents}, session=session, call_id=f"c{self._n}", schema=ORDER)


@pytest.fixture
async def guest(tmp_path: Path) -> AsyncIterator[GuestScene]:
    clock = ManualClock(1_800_000_000.0)
    async with SQLiteStore(tmp_path / "placet.db", clock=clock) as store:
        scene = Scene(store, clock)
        async with (
            Desk(store, run=False, clock=clock, policy=scene.policy) as desk,
            Gate(store, guest="jobs", clock=clock, policy=scene.policy) as gate,
        ):
            yield GuestScene(scene, desk, gate)


async def test_a_guest_spends_the_budget_of_a_rule_and_is_asked_when_it_is_spent(guest: GuestScene) -> None:
    first = await guest.propose(70)
    await guest.gate.claim(first)

    second = await guest.propose(40)

    assert (first.status, second.status) == ("claimable", "waiting")
    assert "70 of 100 cents are taken" in (second.message or "")
    assert await guest.scene.taken() == 70


async def test_a_guest_and_a_run_spend_the_same_budget(guest: GuestScene) -> None:
    await guest.scene.run(guest.scene.agent([pay(70)]))

    found = await guest.propose(40)

    assert found.status == "waiting"


async def test_a_guests_claim_that_finds_the_budget_spent_is_not_given_and_a_person_is_asked(guest: GuestScene) -> None:
    promised = [await guest.propose(60, session) for session in ("one", "two")]
    await guest.gate.claim(promised[0])

    with pytest.raises(CallNotClaimable, match="60 of 100 cents are taken"):
        await guest.gate.claim(promised[1])
    asked = await guest.gate.look(promised[1])
    await guest.desk.decide(asked.request_id or "", "approve", by="ann")
    await guest.gate.claim(asked)

    assert [each.status for each in promised] == ["claimable", "claimable"]
    assert asked.status == "waiting"
    assert await guest.scene.taken() == 60


async def test_claims_of_guests_that_race_never_spend_too_much(guest: GuestScene) -> None:
    promised = [await guest.propose(30, f"s{number}") for number in range(8)]

    found = await asyncio.gather(*(guest.gate.claim(each) for each in promised), return_exceptions=True)

    assert sum(not isinstance(each, BaseException) for each in found) == 3
    assert sum(isinstance(each, CallNotClaimable) for each in found) == 5
    assert await guest.scene.taken() == 90


async def test_a_standing_decision_for_a_guest_spends_its_budget_with_each_claim(guest: GuestScene) -> None:
    guest.scene.policy.become("")
    asked = await guest.propose(1)
    grant = Grant(scope="agent", budget={"sum": "cents", "most": 100})
    await guest.desk.decide(asked.request_id or "", "approve", by="ann", always=grant)
    await guest.gate.claim(asked)
    after: list[str] = []
    for cents in (60, 30, 20):
        call = await guest.propose(cents)
        after.append(call.status)
        if call.status == "claimable":
            await guest.gate.claim(call)

    assert after == ["claimable", "claimable", "waiting"]


# -- refused at load --------------------------------------------------------------------------------------------------


def tools(**fields: Any) -> dict[str, list[dict[str, Any]]]:
    return {"pay": [{"type": "object", "properties": fields, "additionalProperties": False}]}


@pytest.mark.parametrize(
    ("budget", "field", "why"),
    [
        ('{ sum = "cents", most = 5 }', {"type": "number"}, "it is a float"),
        ('{ sum = "cents", most = 5 }', {"type": "string"}, "it is a text"),
        ('{ sum = "cents", most = 5 }', {"type": "string", "pattern": "^[a-z]+$"}, "it is a text"),
        ('{ sum = "cents", most = 5 }', {"type": "array", "items": {}}, "of type array"),
        ('{ sum = "cent", most = 5 }', {"type": "integer"}, "no argument 'cent'. Did you mean 'cents'?"),
        ('{ uses = 5, by = "custumer" }', {"type": "integer"}, "no argument 'custumer'"),
        ('{ sum = "cents", most = 5.5 }', {"type": "integer"}, "float"),
        ('{ uses = 5, every = "fortnight" }', {"type": "integer"}, "one of hour, day"),
        ('{ uses = 5, every = "day", zone = "Europe/Atlantis" }', {"type": "integer"}, "time zone"),
        ('{ uses = 5, evry = "day" }', {"type": "integer"}, "evry"),
    ],
)
def test_a_budget_that_cannot_count_is_refused_with_its_line(budget: str, field: dict[str, Any], why: str) -> None:
    text = f'[[rule]]\nname = "a"\ntool = "pay"\nallow = true\nrelax = true\nbudget = {budget}\n'

    with pytest.raises(PolicyRefused, match=r"policy\.toml:6:") as refused:
        parse_policy(text, tools=tools(cents=field))

    assert why in str(refused.value)


@pytest.mark.parametrize(
    "field",
    [
        {"type": "integer"},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}]},
        {"enum": [100, 200]},
        {},
    ],
)
def test_whole_numbers_decimals_and_what_says_nothing_of_itself_may_be_added_up(field: dict[str, Any]) -> None:
    assert parse_policy(SMALL, tools=tools(cents=field)).rules[0].budget[0].sum == "cents"


async def test_decimals_are_counted_exactly(scene: Scene) -> None:
    scene.policy.become(SMALL.replace("cents", "euros").replace("100", '"0.3"'))

    @function_tool(needs_approval=True, name_override="pay")
    async def pay_out(euros: Decimal) -> str:
        return str(euros)

    steps = [[function_call("pay", {"euros": "0.1"}, call_id=str(number))] for number in range(4)]
    agent = Agent("Clerk", tools=[pay_out], model=ScriptedModel([*steps, DONE]))

    result = await scene.run(agent)

    assert labels(result) == ["3"]


@pytest.mark.parametrize("verdict", ["deny = true", "ask = true"])
def test_a_budget_belongs_to_an_allow(verdict: str) -> None:
    with pytest.raises(PolicyRefused, match="belongs to an allow"):
        parse_policy(f'[[rule]]\nname = "a"\n{verdict}\nbudget = {{ uses = 1 }}\n')
