"""Rules about how often, and how much in sum: «from the fourth call of a day on». Runs and guests count together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from placet import Agent, RunConfig, Runner, function_tool
from placet.core.budget import rule_count
from placet.core.policy import Subject
from placet.desk import Desk
from placet.facts.errors import GateError
from placet.gate import Gate
from placet.policy import PolicyRefused, parse_policy
from placet.policy.explaining import explain
from placet.ports import DeskStore
from placet.stores.opening import open_store
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call

ALLOWED = '[[rule]]\nname = "free"\ntool = "pay"\nallow = true\nrelax = true\n'
MANY = """
[[rule]]
name = "many"
tool = "pay"
over = { uses = 3, every = "day" }
ask = true
"""


@contextlib.asynccontextmanager
async def gate_at(url: str, text: str, source: str = "python") -> AsyncIterator[tuple[DeskStore, Gate, ManualClock]]:
    clock = ManualClock()
    async with (
        open_store(url, clock=clock) as store,
        Gate(store, guest="jobs", policy=parse_policy(ALLOWED + text), clock=clock, source=source) as gate,
    ):
        yield store, gate, clock


async def pays(gate: Gate, name: str, cents: int = 1, who: str = "x") -> str:
    """Propose a call and, if it may, begin it: what became of it."""
    call = await gate.propose("pay", {"cents": cents, "who": who}, session="s", call_id=name)
    if call.status != "claimable":
        return f"{call.status}: {call.message}"
    await gate.claim(call)
    return "began"


async def test_from_a_count_on_people_are_asked_until_the_day_is_over(any_url: str) -> None:
    async with gate_at(any_url, MANY) as (_, gate, clock):
        first = [await pays(gate, f"c{n}") for n in range(4)]
        clock.advance(86_400)
        later = await pays(gate, "next")

    assert first[:3] == ["began"] * 3
    assert first[3] == "waiting: rule «many» (policy.toml, line 7) asks: more than 3 calls a day"
    assert later == "began"


async def test_a_sum_is_counted_apart_for_each_customer_and_what_cannot_be_counted_asks(any_url: str) -> None:
    text = MANY.replace('{ uses = 3, every = "day" }', '{ sum = "cents", most = 100, by = "who", within = "1h" }')
    async with gate_at(any_url, text) as (_, gate, clock):
        ann = [await pays(gate, f"a{n}", 60, "ann") for n in range(2)]
        ben = await pays(gate, "b", 60, "ben")
        strange = await gate.propose("pay", {"who": "ann"}, session="s", call_id="z")
        clock.advance(3601)
        later = await pays(gate, "later", 60, "ann")

    assert [each.partition(":")[0] for each in (*ann, ben, later)] == ["began", "waiting", "began", "began"]
    assert strange.status == "waiting"
    assert "there is no «cents» to add up" in (strange.message or "")


async def test_calls_that_begin_at_once_are_held_to_the_count_and_what_people_approve_goes_beyond_it(
    any_url: str,
) -> None:
    async with gate_at(any_url, MANY) as (store, gate, clock):
        calls = [await gate.propose("pay", {"cents": 1}, session=f"s{n}", call_id="c") for n in range(8)]
        ready = [call.status for call in calls]

        async def begins(number: int) -> bool:
            try:
                await gate.claim(calls[number])
            except GateError:
                return False
            return True

        began = await asyncio.gather(*(begins(n) for n in range(8)))
        left = next(n for n in range(8) if not began[n])
        desk = Desk(store, run=False, clock=clock)
        (asked, *_) = await desk.pending()
        await desk.decide(asked.id, "approve", by="ana")
        approved = [call for call in [await gate.look(each) for each in calls] if call.status == "claimable"]
        await gate.claim(approved[0])
        (share,) = await store.shares(rule_count("many"), clock.now())

    assert ready == ["claimable"] * 8
    assert sum(began) == 3
    assert left in range(8)
    assert share.calls == 4


async def test_calls_of_one_turn_are_counted_one_after_the_other() -> None:
    ran: list[int] = []

    @function_tool(needs_approval=True)
    async def pay(cents: int) -> str:
        ran.append(cents)
        return "paid"

    calls = [function_call("pay", {"cents": n}, call_id=f"c{n}") for n in range(5)]
    agent = Agent("Bank", tools=[pay], model=ScriptedModel([calls, [assistant_message("Done.")]]))
    policy = parse_policy(ALLOWED + MANY)
    result = await Runner.run(agent, "go", run_config=RunConfig(policy=policy))
    state = result.to_state()
    for item in state.get_interruptions():
        state.approve(item)
    done = await Runner.run(agent, state, run_config=RunConfig(policy=policy))

    assert [item.call_id for item in result.interruptions] == ["c3", "c4"]
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert done.final_output == "Done."


async def test_a_rule_in_shadow_counts_and_asks_nobody(any_url: str) -> None:
    async with gate_at(any_url, MANY + '\n[rollout]\nmany = "shadow"\n') as (store, gate, clock):
        found = [await pays(gate, f"c{n}") for n in range(5)]
        (share,) = await store.shares(rule_count("many"), clock.now())

    assert found == ["began"] * 5
    assert share.calls == 5


async def test_a_rule_for_an_mcp_server_reaches_calls_through_the_gateway(any_url: str) -> None:
    text = '[[rule]]\nname = "files"\nserver = "files"\ndeny = "Files are not touched."\n'
    async with gate_at(any_url, text, source="mcp") as (_, gate, _clock):
        files = await gate.propose("files/write", {}, session="s", call_id="a")
        other = await gate.propose("mail/send", {}, session="s", call_id="b")

    assert (files.status, files.message) == ("denied", "Files are not touched.")
    assert other.status == "waiting"


def test_what_a_rule_counts_is_checked_and_explained_and_its_examples_are_calls_beyond() -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "number"}}, "additionalProperties": False}
    with pytest.raises(PolicyRefused) as refused:
        parse_policy(MANY.replace("uses = 3", 'sum = "cents", most = 3'), tools={"pay": [schema]})
    with pytest.raises(PolicyRefused) as wrong:
        parse_policy(MANY.replace("uses = 3", "use = 3"))
    policy = parse_policy(MANY + "match = [{ cents = 1 }]\n")
    subject = Subject(tool="pay", agent="Bank", arguments={"cents": 1})

    assert "policy.toml:5:1" in str(refused.value)
    assert "float" in str(refused.value)
    assert "«use»" in str(wrong.value)
    (found,) = explain(policy, subject).rules
    assert (found.outcome, found.why) == ("cannot be judged", "what it counts is looked at when the call is made")
    counted = {rule_count("many"): False}
    (found,) = explain(policy, Subject(tool="pay", agent="Bank", arguments={}, over=counted)).rules
    assert (found.outcome, found.why) == ("does not match", "not so: more than 3 calls a day")
