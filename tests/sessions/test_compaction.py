"""A session that has its history made shorter: when a run has ended, and never at the price of what was there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from openai import AsyncOpenAI

from placet import Agent, InMemorySession, ModelSettings, RunConfig, Runner, SQLiteSession, UserError, function_tool
from placet.runtime import session_items
from placet.sessions.compaction import CompactingSession, compacts_itself
from placet.sessions.openai_conversations import OpenAIConversationsSession
from placet.testing import ModelStep, ScriptedModel, assistant_message, function_call

SUMMARY = {"type": "compaction", "id": "cmp_1", "encrypted_content": "short"}


class Service:
    """What `client.responses.compact` is asked, and what it answers."""

    def __init__(self, *output: Any, error: Exception | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.output, self.error = list(output), error
        self.responses = self

    async def compact(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        return SimpleNamespace(output=self.output)


def told(n: int) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": f"answer {each}"} for each in range(n)]


def compacting(service: Service, under: Any, **options: Any) -> CompactingSession:
    return CompactingSession("s1", under, client=service, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_history_that_has_grown_is_replaced_when_the_run_has_ended(kind):
    under = InMemorySession("s1") if kind == "memory" else SQLiteSession("s1")
    service = Service(SUMMARY)
    session = compacting(service, under, compaction_mode="input")
    await session.add_items(told(9))
    agent = Agent(name="A", model=ScriptedModel([[assistant_message("the tenth")], [assistant_message("next")]]))
    await Runner.run(agent, "hello", session=session)
    asked = service.asked[0]
    await Runner.run(agent, "and now?", session=session)

    assert (asked["model"], len(asked["input"])) == ("gpt-4.1", 11)
    assert agent.model.calls[1].input == [SUMMARY, {"role": "user", "content": "and now?"}]
    assert len(service.asked) == 1


async def test_a_short_history_is_left_alone():
    service = Service(SUMMARY)
    session = compacting(service, InMemorySession("s1"))
    await session.add_items(told(5))
    await session.run_compaction()

    assert service.asked == []


async def test_nothing_is_compacted_while_a_call_waits():
    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    service = Service(SUMMARY)
    always = {"compaction_mode": "input", "should_trigger_compaction": lambda _: True}
    session = compacting(service, InMemorySession("s1"), **always)
    model = ScriptedModel([[function_call("pay", {}, call_id="c1")], [assistant_message("done")]])
    agent = Agent(name="A", tools=[pay], model=model)
    result = await Runner.run(agent, "pay", session=session)
    while_waiting = list(service.asked)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)

    assert while_waiting == []
    kinds = [item.get("type") for item in service.asked[0]["input"]]
    assert kinds[1:3] == ["function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("store", "mode", "expected"),
    [
        (None, "auto", {"previous_response_id": "resp_1"}),
        (False, "auto", "input"),
        (True, "input", "input"),
        (False, "previous_response_id", {"previous_response_id": "resp_1"}),
    ],
)
async def test_the_provider_is_asked_by_what_it_keeps(store, mode, expected):
    service = Service(SUMMARY)
    session = compacting(service, InMemorySession("s1"), compaction_mode=mode, should_trigger_compaction=lambda _: True)
    model = ScriptedModel([ModelStep([assistant_message("hi")], response_id="resp_1")])
    config = RunConfig(model_settings=ModelSettings(store=store))
    await Runner.run(Agent(name="A", model=model), "hello", session=session, run_config=config)

    [asked] = service.asked
    assert ("input" in asked) if expected == "input" else (expected.items() <= asked.items())


async def test_a_provider_that_fails_costs_nothing(caplog, monkeypatch):
    caplog.set_level("WARNING", "placet")
    monkeypatch.setattr(session_items.logger, "disabled", False)  # whatever another test's logging did
    service = Service(error=RuntimeError("down"))
    session = compacting(service, InMemorySession("s1"), should_trigger_compaction=lambda _: True)
    result = await Runner.run(
        Agent(name="A", model=ScriptedModel([[assistant_message("hi")]])), "hello", session=session
    )

    assert result.final_output == "hi"
    assert len(await session.get_items()) == 2
    assert [record.action for record in caplog.records if hasattr(record, "action")] == ["session_not_compacted"]


class Brittle(InMemorySession):
    def __init__(self) -> None:
        super().__init__("s1")
        self.fails = False

    async def add_items(self, items: Any) -> None:
        if self.fails:
            self.fails = False
            raise RuntimeError("disk full")
        await super().add_items(items)


@pytest.mark.promise("P3")
async def test_what_was_there_stays_if_the_new_cannot_be_written():
    under = Brittle()
    session = compacting(Service(SUMMARY), under)
    await session.add_items(told(3))
    under.fails = True

    with pytest.raises(RuntimeError, match="disk full"):
        await session.run_compaction({"force": True})
    assert len(await session.get_items()) == 3


async def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="use another session"):
        CompactingSession("s1", OpenAIConversationsSession(openai_client=AsyncOpenAI(api_key="k")))
    with pytest.raises(UserError, match="compaction_mode is one of"):
        CompactingSession("s1", InMemorySession("s1"), compaction_mode="now")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="needs the id of a response"):
        await compacting(Service(), InMemorySession("s1"), compaction_mode="previous_response_id").run_compaction()


def test_others_can_tell_such_a_session():
    assert compacts_itself(CompactingSession("s1", InMemorySession("s1")))
    assert not compacts_itself(InMemorySession("s1"))
