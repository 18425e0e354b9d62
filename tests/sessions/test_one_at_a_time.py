"""Two messages on one session at the same moment: one of them has it, the other is refused or waits its turn."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from openai import AsyncOpenAI

from placet import (
    Agent,
    InMemorySession,
    MemoryStore,
    OpenAIConversationsSession,
    RunConfig,
    RunConflict,
    Runner,
    Session,
    SessionBusy,
    SQLiteSession,
    function_tool,
)
from placet.core.log import Log
from placet.desk import Desk
from placet.facts.items import ModelResponse
from placet.ports import ModelRequest, Store, StreamPart
from placet.stores.opening import open_store
from placet.testing import ScriptedModel, assistant_message, function_call
from placet.testing.desk_contracts import until
from tests.support.postgres import PostgresServer

PATIENCE = 90.0
QUEUE = RunConfig(on_pending="queue")


class Asked:
    """A model that says when it is asked, and answers when it may."""

    def __init__(self) -> None:
        self.inputs: list[list[Any]] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        self.inputs.append(request.input)
        self.was_asked.set()
        await self.may_answer.wait()
        return ModelResponse(output=[assistant_message("answer")])

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.store_database()
    async with open_store(url) as opened:
        yield opened


async def _are_asked(model: Asked, count: int) -> bool:
    return len(model.inputs) >= count


def says(items: list[Any]) -> list[str]:
    return [str(item.get("content") if item.get("role") == "user" else item["content"][0]["text"]) for item in items]


async def test_a_second_message_while_the_first_is_worked_on_is_refused_and_leaves_no_trace(store: Store) -> None:
    model, session = Asked(), InMemorySession("chat")
    agent = Agent(name="Talker", model=model)
    first = asyncio.ensure_future(Runner.run(agent, "one", session=session, store=store))
    await asyncio.wait_for(model.was_asked.wait(), PATIENCE)
    quick = Agent(name="Talker", model=ScriptedModel([[assistant_message("at once")]]))
    with pytest.raises(SessionBusy, match=r"A run is at work on session 'chat'.*on_pending='queue'"):
        await Runner.run(quick, "two", session=session, store=store)
    model.may_answer.set()
    await first
    after = await Runner.run(agent, "three", session=session, store=store)

    assert says(await session.get_items()) == ["one", "answer", "three", "answer"]
    assert after.final_output == "answer"


async def test_a_message_that_queues_waits_its_turn_and_reads_what_was_said_before_it(store: Store) -> None:
    model, session = Asked(), InMemorySession("chat")
    agent = Agent(name="Talker", model=model)
    first = asyncio.ensure_future(Runner.run(agent, "one", session=session, store=store))
    await asyncio.wait_for(model.was_asked.wait(), PATIENCE)
    others = [
        asyncio.ensure_future(Runner.run(agent, text, session=session, store=store, run_config=QUEUE))
        for text in ("two", "three")
    ]
    await asyncio.sleep(0.1)
    asked_early = len(model.inputs)
    model.may_answer.set()
    await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE)

    said = says(await session.get_items())
    assert asked_early == 1
    assert said[:2] == ["one", "answer"]
    assert sorted(said[2::2]) == ["three", "two"]
    assert [len(each) for each in model.inputs] == [1, 3, 5]


async def test_a_message_that_queues_behind_a_run_that_comes_to_wait_is_staged_on_it(store: Store) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return "paid"

    is_asked, may_judge = asyncio.Event(), asyncio.Event()

    async def slow_rule(*_: object) -> bool:
        is_asked.set()
        await may_judge.wait()
        return True

    refund.needs_approval = slow_rule
    script = [[function_call("refund", {"order": "7"}, call_id="c1")], [assistant_message("done")]]
    agent, session = Agent(name="Shop", tools=[refund], model=ScriptedModel(script)), InMemorySession("chat")
    first = asyncio.ensure_future(Runner.run(agent, "refund 7", session=session, store=store))
    await asyncio.wait_for(is_asked.wait(), PATIENCE)
    second = asyncio.ensure_future(Runner.run(agent, "be quick", session=session, store=store, run_config=QUEUE))
    may_judge.set()
    paused, queued = await asyncio.wait_for(asyncio.gather(first, second), PATIENCE)

    assert queued.run_id == paused.run_id
    assert [item.name for item in queued.interruptions] == ["refund"]


async def test_a_run_on_a_session_that_another_one_has_is_gone_on_with_when_that_has_returned(store: Store) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return "paid"

    model, session = Asked(), InMemorySession("chat")
    script = [[function_call("refund", {"order": "7"}, call_id="c1")], [assistant_message("done")]]
    shop, talker = Agent(name="Shop", tools=[refund], model=ScriptedModel(script)), Agent(name="Talker", model=model)
    state = (await Runner.run(shop, "refund 7", session=session, store=MemoryStore())).to_state()
    state.approve("c1")
    first = asyncio.ensure_future(Runner.run(talker, "hello", session=session, store=store))
    await asyncio.wait_for(model.was_asked.wait(), PATIENCE)
    with pytest.raises(RunConflict, match="Another run is at work on session 'chat'"):
        await Runner.run(shop, state, session=session, store=store)
    model.may_answer.set()
    await first
    result = await Runner.run(shop, state, session=session, store=store)

    assert result.final_output == "done"


async def test_other_sessions_and_runs_without_one_are_not_in_the_way(store: Store) -> None:
    model = Asked()
    agent = Agent(name="Talker", model=model)
    sessions: list[Session | None] = [InMemorySession("a"), InMemorySession("b"), None, None]
    runs = [asyncio.ensure_future(Runner.run(agent, "x", session=each, store=store)) for each in sessions]
    await until(lambda: _are_asked(model, 4))
    model.may_answer.set()
    results = await asyncio.gather(*runs)

    assert [result.final_output for result in results] == ["answer"] * 4


async def test_a_run_that_fails_or_is_cancelled_gives_its_session_back(store: Store) -> None:
    session, model = InMemorySession("chat"), Asked()
    failing = Agent(name="Talker", model=ScriptedModel([RuntimeError("down")]))
    with pytest.raises(RuntimeError):
        await Runner.run(failing, "one", session=session, store=store)
    cancelled = asyncio.ensure_future(
        Runner.run(Agent(name="Talker", model=model), "two", session=session, store=store)
    )
    await asyncio.wait_for(model.was_asked.wait(), PATIENCE)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    fine = Agent(name="Talker", model=ScriptedModel([[assistant_message("fine")]]))

    assert (await Runner.run(fine, "three", session=session, store=store)).final_output == "fine"


@pytest.mark.parametrize("mode", ["error", "queue"])
async def test_a_run_inside_a_tool_cannot_have_the_session_of_the_run_around_it(store: Store, mode: str) -> None:
    session, refused = InMemorySession("chat"), []
    inner = Agent(name="Inner", model=ScriptedModel([]))

    @function_tool
    async def ask_inside() -> str:
        config = RunConfig(on_pending=mode)  # type: ignore[arg-type]
        try:
            await Runner.run(inner, "x", session=session, store=store, run_config=config)
        except SessionBusy as error:
            refused.append(error.message)
        return "asked"

    script = [[function_call("ask_inside", {})], [assistant_message("done")]]
    outer = Agent(name="Outer", tools=[ask_inside], model=ScriptedModel(script))
    result = await asyncio.wait_for(Runner.run(outer, "go", session=session, store=store), PATIENCE)

    assert result.final_output == "done"
    assert ["belongs to the run whose tool or hook this is" in each for each in refused] == [True]


async def test_a_conversation_that_was_opened_by_the_first_message_is_taken_for_the_second(
    client: AsyncOpenAI, store: Store
) -> None:
    model, session = Asked(), OpenAIConversationsSession(openai_client=client)
    agent = Agent(name="Talker", model=model)
    before = session.session_id
    first = asyncio.ensure_future(Runner.run(agent, "one", session=session, store=store))
    await asyncio.wait_for(model.was_asked.wait(), PATIENCE)
    with pytest.raises(SessionBusy):
        await Runner.run(agent, "two", session=session, store=store)
    model.may_answer.set()
    await first

    assert session.session_id != before


async def test_a_desk_goes_on_with_a_run_when_its_session_is_free_again(tmp_path: Path) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return "paid"

    url, session, model = f"sqlite:///{tmp_path / 'runs.db'}", InMemorySession("chat"), Asked()
    script = [[function_call("refund", {"order": "7"}, call_id="c1")], [assistant_message("done")]]
    shop = Agent(name="Shop", tools=[refund], model=ScriptedModel(script))
    async with open_store(url) as store:
        state = (await Runner.run(shop, "refund 7", session=session, store=MemoryStore())).to_state()
        talking = asyncio.ensure_future(
            Runner.run(Agent(name="Talker", model=model), "hello", session=session, store=store)
        )
        await asyncio.wait_for(model.was_asked.wait(), PATIENCE)
        walker = Log(state.run_id, state._log.key)
        lines = [walker.adopt(text) for text in state._log.lines]
        await store.append(None, Log(state.run_id, state._log.key), lines, state._run)
        async with Desk(store, agents=[shop], session_factory=lambda _: session) as desk:
            (request,) = await desk.pending()
            await desk.decide(request.id, "approve", by="ana")
            with pytest.raises(TimeoutError):
                await desk.wait(state.run_id, timeout=0.5)
            row = await desk.get(state.run_id)
            model.may_answer.set()
            await talking
            ended = await desk.wait(state.run_id, timeout=PATIENCE)

    assert (row.status, row.stopped) == ("running", None)
    assert ended.final_output == "done"


# -- two processes ----------------------------------------------------------------------------------------------------


@contextmanager
def talker(folder: Path, name: str, on_pending: str) -> Iterator[Popen[bytes]]:
    command = [sys.executable, "-m", "tests.sessions.talker", str(folder), name, on_pending]
    process = Popen(command, stderr=PIPE)  # noqa: S603
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def comes(path: Path, process: Popen[bytes], *, never: str = "") -> str:
    """What the process writes there, while it does not write the other file."""
    async with asyncio.timeout(PATIENCE):
        while not (text := _text_of(path)):
            assert not never or not _text_of(path.with_name(never)), f"{never} came"
            assert process.poll() in (None, 0), process.stderr and process.stderr.read().decode()
            await asyncio.sleep(0.02)
    return text


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def said_in(folder: Path) -> list[str]:
    session = SQLiteSession("chat", folder / "chats.db")
    try:
        return says(await session.get_items())
    finally:
        session.close()


async def test_of_two_processes_with_a_first_message_on_one_session_one_is_refused(tmp_path: Path) -> None:
    with talker(tmp_path, "ana", "error") as ana, talker(tmp_path, "ben", "error") as ben:
        processes = {"ana": ana, "ben": ben}
        first = await _first_asked(tmp_path, processes)
        other = "ben" if first == "ana" else "ana"
        refused = json.loads(await comes(tmp_path / f"{other}.said", processes[other], never=f"{other}.asked"))
        (tmp_path / f"{first}.may").touch()
        answered = json.loads(await comes(tmp_path / f"{first}.said", processes[first]))

    assert refused["code"] == "session_busy"
    assert answered == {"output": f"to {first}"}
    assert await said_in(tmp_path) == [f"from {first}", f"to {first}"]


async def test_of_two_processes_that_queue_one_speaks_after_the_other_and_knows_what_was_said(tmp_path: Path) -> None:
    with talker(tmp_path, "ana", "queue") as ana, talker(tmp_path, "ben", "queue") as ben:
        processes = {"ana": ana, "ben": ben}
        first = await _first_asked(tmp_path, processes)
        other = "ben" if first == "ana" else "ana"
        (tmp_path / f"{first}.may").touch()
        seen = await comes(tmp_path / f"{other}.asked", processes[other])
        (tmp_path / f"{other}.may").touch()
        for name, process in processes.items():
            await comes(tmp_path / f"{name}.said", process)

    assert seen == "3"
    assert await said_in(tmp_path) == [f"from {first}", f"to {first}", f"from {other}", f"to {other}"]


async def _first_asked(folder: Path, processes: dict[str, Popen[bytes]]) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            for name, process in processes.items():
                assert process.poll() in (None, 0), process.stderr and process.stderr.read().decode()
                if (folder / f"{name}.asked").exists():
                    return name
            await asyncio.sleep(0.02)
