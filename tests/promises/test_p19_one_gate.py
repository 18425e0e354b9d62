"""P19: what can keep a call from beginning is checked in one place, the last before every claim, whatever led there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import placet
from placet import (
    Agent,
    DidNotHappen,
    FunctionTool,
    Grant,
    MemoryStore,
    RunConfig,
    RunConflict,
    RunResult,
    RunState,
    ToolOutcomeUnknown,
    function_tool,
    handoff,
)
from placet.core.claim import CHECKS
from placet.facts.events import GrantMade
from placet.ports import Hold, Lease
from placet.testing import ManualClock, ScriptedModel, assistant_message, function_call
from tests.promises.scenes import drive, facts, item_of

pytestmark = pytest.mark.promise("P19")

VALID_FOR = 60.0


class Office(MemoryStore):
    """A store whose holds and leases a test can change in the middle of a drive."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Hold] = []
        self.leases: list[Lease] = []
        self.revoked: set[str] = set()

    async def holds(self) -> list[Hold]:
        return list(self.held)

    async def use_grant(self, grant: GrantMade, call_id: str) -> bool:
        return grant.id not in self.revoked and await super().use_grant(grant, call_id)

    async def lease(self, run_id: str, driver: object) -> Lease:
        self.leases.append(await super().lease(run_id, driver))
        return self.leases[-1]


class Bank:
    """A tool whose function counts how often it is begun, and a moment at which something changes."""

    def __init__(self) -> None:
        self.begun = 0
        self.clock = ManualClock()
        self.store = Office()
        self.is_on = True
        self.loses_sight: Literal["", "silently", "and something changes"] = ""
        """Its function will not know what it did."""
        self.claims_then = 0
        self.path = ""
        """The path of the agent whose call it is."""
        self.agent: Agent[Any] = Agent("Clerk")
        self.happens: Callable[[Bank], None] = lambda _bank: None

    def claims(self) -> int:
        """How often something was claimed, by the logs of the store."""
        return sum(line.count(b'["run",[') for log in self.store._waiting.values() for line in log.lines)

    def change(self) -> None:
        self.begun, self.claims_then = 0, self.claims()
        self.happens(self)

    def pay(self, version: str = "1", **options: Any) -> FunctionTool:
        @function_tool(
            name_override="pay",
            needs_approval=options.pop("needs_approval", True),
            version=version,
            approval_valid_for=VALID_FOR,
            is_enabled=lambda _ctx, _agent: self.is_on,
            **options,
        )
        async def pay(cents: int) -> str:
            self.begun += 1
            how, self.loses_sight = self.loses_sight, ""
            if how == "and something changes":
                self.change()
            if how:
                raise ToolOutcomeUnknown("nobody knows")
            return f"paid {cents}"

        self.options = options
        return pay

    def first(self, *, needs_approval: bool = True) -> FunctionTool:
        """Goes before the call that is looked at, in the only place: meanwhile something changes."""

        @function_tool(needs_approval=needs_approval)
        async def first() -> str:
            self.change()
            return "first"

        return first

    def staff(self, *tools: FunctionTool, steps: list[Any], above: bool = False) -> Agent[Any]:
        model = ScriptedModel(steps)
        self.agent = Agent("Clerk", tools=[*tools], model=model)
        if not above:
            return self.agent
        asks = ScriptedModel([[function_call("clerk", {"input": "go"}, call_id="k")], [assistant_message("done")]])
        return Agent("Boss", tools=[self.agent.as_tool("clerk", "pays")], model=asks)

    def config(self, places: int | None = None) -> RunConfig:
        return RunConfig(clock=self.clock, max_tool_concurrency=places)


PAY = function_call("pay", {"cents": 5}, call_id="p")
FIRST = function_call("first", {}, call_id="f")
DONE = [assistant_message("done")]


class Way:
    """How a call came to the moment before its claim: `arrive` goes there, `bank.change` is called on the way."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.top = bank.agent

    async def go(self, given: Any, places: int | None = None) -> RunResult:
        return await drive(self.top, given, run_config=self.bank.config(places), store=self.bank.store)

    async def paused(self, places: int | None = None) -> RunState[Any]:
        state = (await self.go("go", places)).to_state()
        self.bank.path = state.get_interruptions()[0].agent_path
        return state


async def at_once(bank: Bank) -> tuple[Way, RunResult]:
    way = Way(bank)
    way.top = bank.staff(bank.pay(), steps=[[PAY], DONE])
    state = await way.paused()
    state.approve(item_of(state, "p"))
    bank.change()
    return way, await way.go(state)


async def nested(bank: Bank) -> tuple[Way, RunResult]:
    way = Way(bank)
    way.top = bank.staff(bank.pay(), steps=[[PAY], DONE], above=True)
    state = await way.paused()
    state.approve(item_of(state, "p"))
    bank.change()
    return way, await way.go(state)


async def from_the_queue(bank: Bank) -> tuple[Way, RunResult]:
    way = Way(bank)
    way.top = bank.staff(bank.first(), bank.pay(), steps=[[FIRST, PAY], DONE])
    state = await way.paused(1)
    state.approve(item_of(state, "f"))
    state.approve(item_of(state, "p"))
    return way, await way.go(state, 1)


async def from_the_queue_in_a_nested_run(bank: Bank) -> tuple[Way, RunResult]:
    way = Way(bank)
    way.top = bank.staff(bank.first(), bank.pay(), steps=[[FIRST, PAY], DONE], above=True)
    state = await way.paused(1)
    state.approve(item_of(state, "f"))
    state.approve(item_of(state, "p"))
    return way, await way.go(state, 1)


async def by_a_grant(bank: Bank) -> tuple[Way, RunResult]:
    """A standing decision lets it pass, and it waits for a place."""
    way = Way(bank)
    again = function_call("pay", {"cents": 6}, call_id="q")
    way.top = bank.staff(bank.first(needs_approval=False), bank.pay(), steps=[[PAY], [FIRST, again], DONE])
    state = await way.paused(1)
    state.approve(item_of(state, "p"), always_approve=True)
    return way, await way.go(state, 1)


async def by_a_retry(bank: Bank) -> tuple[Way, RunResult]:
    way = Way(bank)
    way.top = bank.staff(bank.pay(recovery="retry"), steps=[[PAY], DONE])
    return way, await begun_and_lost(way)


async def since_it_did_not_happen(bank: Bank) -> tuple[Way, RunResult]:
    def look(_ctx: Any, _arguments: Any) -> DidNotHappen:
        return DidNotHappen()

    way = Way(bank)
    way.top = bank.staff(bank.pay(recovery=look), steps=[[PAY], DONE])
    return way, await begun_and_lost(way)


async def begun_and_lost(way: Way) -> RunResult:
    state = await way.paused()
    state.approve(item_of(state, "p"))
    way.bank.loses_sight = "and something changes"
    return await way.go(state)


async def after_doubt(bank: Bank) -> tuple[Way, RunResult]:
    way = Way(bank)
    way.top = bank.staff(bank.pay(), steps=[[PAY], DONE])
    state = await way.paused()
    state.approve(item_of(state, "p"))
    bank.loses_sight = "silently"
    state = (await way.go(state)).to_state()
    state.approve(item_of(state, "p"))
    bank.change()
    return way, await way.go(state)


NOT_BEGUN = [at_once, nested, from_the_queue, from_the_queue_in_a_nested_run, by_a_grant]
BEGUN_BEFORE = [by_a_retry, since_it_did_not_happen, after_doubt]
WAYS = [*NOT_BEGUN, *BEGUN_BEFORE]
named = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def waiting(result: RunResult) -> list[tuple[str, str]]:
    return [(item.name, item.kind) for item in result.interruptions]


@named
async def test_if_nothing_changes_the_call_begins_whatever_led_there(way):
    bank = Bank()

    _, result = await way(bank)

    assert result.final_output == "done"
    assert bank.begun == 1


@named
@pytest.mark.parametrize("kind", ["tool", "agent", "run"])
async def test_what_an_operator_holds_does_not_begin_and_begins_once_it_is_released(way, kind):
    bank = Bank()

    def hold(bank: Bank) -> None:
        names = {"tool": "pay", "agent": bank.path, "run": bank.store.leases[-1].run_id}
        bank.store.held.append(Hold(kind=kind, name=names[kind], by="ops", at=0.0))

    bank.happens = hold

    path, result = await way(bank)
    begun, interrupted = bank.begun, waiting(result)
    bank.store.held.clear()
    last = await path.go(result.to_state())

    assert (begun, interrupted) == (0, [])
    assert last.final_output == "done"
    assert bank.begun == 1


@named
async def test_an_approval_that_was_not_used_in_time_does_not_let_it_begin(way):
    bank = Bank()
    bank.happens = lambda bank: bank.clock.advance(VALID_FOR + 1)

    _, result = await way(bank)

    assert bank.begun == 0
    assert waiting(result) == [("pay", "in_doubt" if way in BEGUN_BEFORE else "approval")]
    assert "not used in time" in (result.interruptions[0].why or "")


@named
async def test_another_tool_than_the_approved_one_does_not_begin(way):
    bank = Bank()

    def replace(bank: Bank) -> None:
        bank.agent.tools[-1:] = [bank.pay(version="2", **bank.options)]

    bank.happens = replace

    _, result = await way(bank)

    assert bank.begun == 0
    assert waiting(result) == [("pay", "in_doubt" if way in BEGUN_BEFORE else "approval")]


@named
async def test_a_tool_that_is_switched_off_does_not_begin_and_the_model_reads_so(way):
    bank = Bank()
    bank.happens = lambda bank: setattr(bank, "is_on", False)

    _, result = await way(bank)

    assert bank.begun == 0
    if way in BEGUN_BEFORE:  # it may have happened: that is for a person
        assert waiting(result) == [("pay", "in_doubt")]
    else:
        ends = [fact for fact in facts(result) if fact[0] in ("end", "in")]
        assert result.final_output == "done"
        assert "Tool 'pay' was not run, although it was approved: its tool is switched off now." in str(ends)


@named
async def test_who_has_lost_the_lease_begins_nothing(way):
    bank = Bank()

    def lose(bank: Bank) -> None:
        bank.store.leases[-1].live_until = -1.0

    bank.happens = lose
    if way in (at_once, nested, after_doubt):  # there the next drive takes a lease of its own: it loses that one
        lease = bank.store.lease

        async def lost(run_id: str, driver: object) -> Lease:
            taken = await lease(run_id, driver)
            if is_over:
                taken.live_until = -1.0
            return taken

        is_over: list[bool] = []
        bank.store.lease = lost  # type: ignore[method-assign]
        bank.happens = lambda _bank: is_over.append(True)

    with pytest.raises(RunConflict, match="has run out"):
        await way(bank)

    assert bank.begun == 0
    assert bank.claims() == bank.claims_then


async def test_a_free_call_that_waits_for_a_place_is_held_and_switched_off_alike():
    for change, text in (("held", None), ("off", "Tool 'pay' was not run: its tool is switched off now.")):
        bank = Bank()
        bank.happens = (
            (lambda bank: bank.store.held.append(Hold(kind="tool", name="pay", by=None, at=0.0)))
            if change == "held"
            else (lambda bank: setattr(bank, "is_on", False))
        )
        way = Way(bank)
        way.top = bank.staff(
            bank.first(needs_approval=False), bank.pay(needs_approval=False), steps=[[FIRST, PAY], DONE]
        )

        result = await way.go("go", 1)

        assert bank.begun == 0
        assert text is None or text in str(facts(result))


@pytest.mark.parametrize("ending", ["taken back", "over"])
async def test_a_standing_decision_that_was_taken_back_or_ended_lets_nothing_more_begin(ending):
    bank = Bank()
    way = Way(bank)
    again = function_call("pay", {"cents": 6}, call_id="q")
    way.top = bank.staff(bank.first(needs_approval=False), bank.pay(), steps=[[PAY], [FIRST, again], DONE])
    bank.agent.tools[1].approval_valid_for = None
    state = await way.paused(1)
    until = bank.clock.now() + 100 if ending == "over" else None
    state.approve(item_of(state, "p"), always_approve=Grant(scope="agent", until=until))
    if ending == "over":
        bank.happens = lambda bank: bank.clock.advance(200.0)
    else:
        bank.happens = lambda bank: bank.store.revoked.update(bank.store._grants)

    result = await way.go(state, 1)

    assert bank.begun == 0
    assert waiting(result) == [("pay", "approval")]
    assert ("was taken back" if until is None else "ended before it began") in (result.interruptions[0].why or "")


async def test_a_handoff_is_held_and_switched_off_too():
    for change in ("held", "off"):
        store, is_on = Office(), [True]
        clock = ManualClock()
        other = Agent("Other", model=ScriptedModel([DONE]))
        over = handoff(other, is_enabled=lambda _ctx, _agent, is_on=is_on: bool(is_on))
        gate = function_call("cleanup", {}, call_id="c")

        @function_tool(needs_approval=True)
        async def cleanup() -> str:
            return "clean"

        steps = [[gate, function_call(over.tool_name, {}, call_id="h")], DONE]
        agent = Agent("One", tools=[cleanup], handoffs=[over], model=ScriptedModel(steps))
        options: dict[str, Any] = {"run_config": RunConfig(clock=clock), "store": store}
        state = (await drive(agent, "go", **options)).to_state()
        state.approve(item_of(state, "c"))
        if change == "held":
            store.held.append(Hold(kind="tool", name=over.tool_name, by="ops", at=0.0))
        else:
            is_on.clear()

        result = await drive(agent, state, **options)

        assert result.last_agent.name == "One"
        if change == "held":
            store.held.clear()
            assert (await drive(agent, result.to_state(), **options)).last_agent.name == "Other"
        else:
            assert "switched off" in str(facts(result))


def test_calls_are_claimed_in_one_place():
    """One place for runs and one for guests, each right after the last checks: a claim elsewhere would skip them."""
    root = Path(placet.__file__).parent
    sources = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in root.rglob("*.py")}

    def places(text: str) -> set[str]:
        return {name for name, source in sources.items() if text in source}

    assert places("note(CallsStarted(") == {"runtime/claiming.py", "service/guest_facts.py"}
    assert places("guest_facts import") | places("import guest_facts") == {
        "service/guest_calls.py",
        "service/guest_claims.py",
        "service/guest_policy.py",
        "service/guest_runs.py",
        "service/managed_policy.py",  # a type alone: it claims by the verbs, as every guest
    }
    assert places("facts.start(") == {"service/guest_claims.py"}
    assert places("= judge_claim(") == {"runtime/claiming.py", "service/guest_claims.py"}
    assert len(CHECKS) == len(set(CHECKS)) >= 6
