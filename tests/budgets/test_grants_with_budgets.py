"""Standing decisions with a budget, from the approval to the last claim, on every store."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from placet import Agent, Grant, MemoryStore, RunConfig, Runner, RunState, UserError, function_tool
from placet.stores.sqlite import SQLiteStore
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call

DONE = [assistant_message("done")]


def pay(cents, customer="c1", label=None):
    return function_call("pay", {"cents": cents, "customer": customer}, call_id=label)


def clerk(*steps):
    paid = []

    @function_tool(needs_approval=True, name_override="pay")
    async def pay_out(cents: int, customer: str) -> str:
        paid.append((customer, cents))
        return "paid"

    return Agent(name="Clerk", tools=[pay_out], model=ScriptedModel(list(steps))), paid


@pytest.fixture
def clock():
    return ManualClock(1_800_000_000.0)  # 09:00 in Berlin, on 15 January 2027


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path, clock):
    if request.param == "memory":
        yield MemoryStore()
        return
    async with SQLiteStore(tmp_path / "placet.db", clock=clock) as made:
        yield made


async def granted(agent, store, grant, **options):
    """A first call that a person approves always, within a budget."""
    first = await Runner.run(agent, "Pay.", store=store, **options)
    state = first.to_state()
    state.approve(first.interruptions[0], always_approve=grant, by="ann")
    return await Runner.run(agent, state, store=store, **options)


async def test_a_grant_pays_until_its_sum_is_reached_and_then_a_person_is_asked(store):
    agent, paid = clerk([pay(10)], [pay(60)], [pay(30)], [pay(20, label="over")], DONE)

    result = await granted(agent, store, Grant(budget={"sum": "cents", "most": 100}))

    assert paid == [("c1", 10), ("c1", 60), ("c1", 30)]
    assert [item.call_id for item in result.interruptions] == ["over"]


async def test_what_the_person_approves_by_hand_takes_nothing_of_the_budget(store):
    agent, paid = clerk([pay(1000)], [pay(100)], DONE)

    result = await granted(agent, store, Grant(budget={"sum": "cents", "most": 100}))

    assert result.final_output == "done"
    assert paid == [("c1", 1000), ("c1", 100)]


async def test_calls_of_one_answer_share_what_is_left_and_the_rest_waits(store):
    agent, paid = clerk([pay(1)], [pay(40, label=str(number)) for number in range(4)], DONE)

    result = await granted(agent, store, Grant(budget={"sum": "cents", "most": 100}))

    assert paid == [("c1", 1), ("c1", 40), ("c1", 40)]
    assert [item.call_id for item in result.interruptions] == ["2", "3"]


async def test_each_customer_has_a_limit_of_their_own_and_all_together_one(store):
    steps = [[pay(0)], [pay(50, "c1")], [pay(50, "c2")], [pay(10, "c1", label="own")], DONE]
    agent, paid = clerk(*steps)
    budget = [{"sum": "cents", "most": 55, "by": "customer"}, {"sum": "cents", "most": 120}]

    result = await granted(agent, store, Grant(budget=budget))

    assert paid == [("c1", 0), ("c1", 50), ("c2", 50)]
    assert [item.call_id for item in result.interruptions] == ["own"]

    other, paid = clerk([pay(0, "c9")], [pay(55, "c3")], [pay(55, "c4")], [pay(11, "c5", label="all")], DONE)
    result = await granted(other, store, Grant(budget=budget))

    assert paid == [("c9", 0), ("c3", 55), ("c4", 55)]
    assert [item.call_id for item in result.interruptions] == ["all"]


async def test_a_day_ends_at_midnight_where_the_budget_says(store, clock):
    agent, paid = clerk([pay(0)], [pay(100)], [pay(1, label="today")], [pay(100)], DONE)
    budget = {"sum": "cents", "most": 100, "every": "day", "zone": "Europe/Berlin"}
    config = RunConfig(clock=clock)

    result = await granted(agent, store, Grant(budget=budget), run_config=config)
    assert [item.call_id for item in result.interruptions] == ["today"]
    state = result.to_state()
    state.reject(result.interruptions[0], by="ann")
    clock.advance(15 * 3600)
    result = await Runner.run(agent, state, store=store, run_config=config)

    assert result.final_output == "done"
    assert paid == [("c1", 0), ("c1", 100), ("c1", 100)]


async def test_an_amount_that_cannot_be_counted_exactly_asks(store):
    @function_tool(needs_approval=True)
    async def pay(amount: float) -> str:
        return "paid"

    def call(amount, label):
        return function_call("pay", {"amount": amount}, call_id=label)

    agent = Agent(name="Clerk", tools=[pay], model=ScriptedModel([[call(1.0, "a")], [call(1.5, "b")], DONE]))

    result = await granted(agent, store, Grant(budget={"sum": "amount", "most": 100}))

    assert [item.call_id for item in result.interruptions] == ["b"]


async def test_a_grant_with_terms_survives_its_text(store):
    agent, paid = clerk([pay(10)], [pay(60)], [pay(60, label="over")], DONE)
    first = await Runner.run(agent, "Pay.", store=store)
    state = first.to_state()
    terms = Grant(matching={"cents": {"max": 60}}, budget={"sum": "cents", "most": 100}, uses=9)
    state.approve(first.interruptions[0], always_approve=terms, by="ann")
    state = await RunState.from_string(agent, state.to_string())

    result = await Runner.run(agent, state, store=store)

    assert paid == [("c1", 10), ("c1", 60)]
    assert [item.call_id for item in result.interruptions] == ["over"]
    again = await RunState.from_string(agent, result.to_state().to_string())
    assert [fact[0] for _, facts in again.to_json()["log"] for fact in facts].count("bounded") == 1


async def test_runs_side_by_side_share_the_budget_of_a_grant_for_the_agent(store):
    agent, _ = clerk([pay(0)], DONE)
    await granted(agent, store, Grant(scope="agent", budget={"sum": "cents", "most": 100}))
    others = [clerk([pay(30)], DONE) for _ in range(6)]

    results = await asyncio.gather(*(Runner.run(each, "Pay.", store=store) for each, _ in others))

    assert sum(cents for _, done in others for _, cents in done) == 90
    assert sum(bool(result.interruptions) for result in results) == 3


async def test_a_claim_that_finds_the_budget_taken_meanwhile_is_not_written_and_a_person_is_asked(store, monkeypatch):
    """What is looked up before a claim may be old by the time of the claim: the transaction alone decides."""
    agent, paid = clerk([pay(0)], DONE)
    await granted(agent, store, Grant(scope="agent", budget={"sum": "cents", "most": 100}))
    agent, paid = clerk([pay(100)], DONE)
    await Runner.run(agent, "Pay.", store=store)
    looked_up = store.spent
    old = iter([True, True])  # for the promise, and for the claim

    async def as_it_was(takings):
        found = await looked_up(takings)
        if next(old, False):
            return {taking: msgspec.structs.replace(spent, amount=0) for taking, spent in found.items()}
        return found

    monkeypatch.setattr(store, "spent", as_it_was)
    agent, late = clerk([pay(1, label="late"), pay(2, label="free")], DONE)

    result = await Runner.run(agent, "Pay.", store=store)

    assert (paid, late) == ([("c1", 100)], [])
    assert {item.call_id for item in result.interruptions} == {"late", "free"}
    log = result.to_state().to_json()["log"]
    assert not [fact for _, facts in log for fact in facts if fact[0] in ("take", "run")]
    why = [fact[5] for _, facts in log for fact in facts if fact[0] == "hold" and fact[5]]
    assert len(why) == 1 or len(why) == 2
    assert all("100 of 100 cents are taken" in each for each in why)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"budget": {"sum": "cents"}}, "most"),
        ({"budget": {"sum": "cents", "most": 1.5}}, "float"),
        ({"budget": {"uses": 0}}, "1 or more"),
        ({"budget": {"uses": 1, "every": "fortnight"}}, "every"),
        ({"budget": {"uses": 1, "every": "day", "zone": "Europe/Atlantis"}}, "time zone"),
        ({"budget": {"uses": 1, "every": "day", "within": "24h"}}, "either"),
        ({"budget": []}, "one limit"),
        ({"matching": {"cents": {"least": 1}}}, "knows"),
        ({"matching": {"cents": {"min": 5, "max": 1}}}, "no number"),
        ({"matching": {"id": {"pattern": "(a)|b)"}}}, "regular expression"),
        ({"matching": {"id": {"pattern": "(?=a)b"}}}, "linear"),
        ({"matching": {"command": {"shell": "git push && rm -rf /"}}}, "plain"),
        ({"matching": {"command": {"shell": "* push"}}}, "any command"),
    ],
)
def test_terms_that_mean_nothing_are_refused_where_they_are_written(terms, why):
    with pytest.raises(UserError, match=why):
        Grant(**terms)
