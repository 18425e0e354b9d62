"""Sessions: written once and in pairs, whatever fails; what a new message does while a run waits; late is late."""

from __future__ import annotations

import asyncio
import json
import sys
import threading

import pytest

from placet import (
    Agent,
    GuardrailFunctionOutput,
    InMemorySession,
    InputGuardrailTripwireTriggered,
    MemoryStore,
    NotPending,
    RunConfig,
    RunFinished,
    Runner,
    SessionBusy,
    SQLiteSession,
    StaleApproval,
    UserError,
    handoff,
    input_guardrail,
)
from placet.testing import Crash, CrashingStore, function_call
from tests.runtime.team_scenes import (
    SECONDS,
    Planned,
    Traces,
    approve_all,
    ask,
    assert_paired,
    call,
    done,
    go,
    labels,
    model_of,
    outputs,
    reloaded,
    scripted,
    sent,
)


@pytest.fixture(params=["memory", "sqlite"])
def session(request, tmp_path):
    if request.param == "memory":
        yield InMemorySession("chat")
        return
    made = SQLiteSession("chat", tmp_path / "chats.db")
    yield made
    made.close()


def texts(items):
    """The conversation as who said what."""
    found = []
    for item in items:
        content = item.get("content")
        said = content if isinstance(content, str) else "".join(part["text"] for part in content or [])
        found.append(f"{item.get('role')}: {said}" if said else f"{item.get('type')} {item.get('call_id')}")
    return found


class Flaky(InMemorySession):
    """Its n-th write fails: before anything is written, half-way, or after all of it."""

    def __init__(self, failing: int, when: str) -> None:
        super().__init__("chat")
        self._failing = failing
        self._when = when
        self.writes = 0

    async def add_items(self, items):
        self.writes += 1
        if self.writes != self._failing:
            await super().add_items(items)
            return
        kept = {"before": 0, "half": len(items) // 2, "after": len(items)}[self._when]
        await super().add_items(list(items)[:kept])
        raise OSError("the session is gone")


# -- what is written ---------------------------------------------------------------------------------------------------


async def test_what_was_said_before_is_read_and_what_is_said_now_is_written(session):
    agent = scripted("A", [done("Hello."), done("Seven.")])

    await go(agent, "Hi, I am seven.", session=session)
    await go(agent, "How old am I?", session=session)

    assert texts(sent(agent)) == ["user: Hi, I am seven.", "assistant: Hello.", "user: How old am I?"]
    assert texts(await session.get_items()) == [*texts(sent(agent)), "assistant: Seven."]


@pytest.mark.promise("P3")
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_open_turn_is_not_in_the_session_and_the_whole_turn_is_once_it_is_over(session, streamed):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1"), call("look", 2, "c2")], done()], traces.gated(), traces.tool("look"))

    paused = await go(agent, "hi", session=session, streamed=streamed)
    while_waiting = await session.get_items()
    await approve_all(agent, paused, session=session, streamed=streamed)
    items = await session.get_items()

    assert texts(while_waiting) == ["user: hi"]
    assert_paired(items)
    assert texts(items) == [
        "user: hi",
        "function_call c1",
        "function_call c2",
        "function_call_output c1",
        "function_call_output c2",
        "assistant: done",
    ]


@pytest.mark.promise("P3")
@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("failing", [1, 2, 3, 4])
async def test_a_write_that_fails_once_at_any_point_is_made_good_and_nothing_is_written_twice(failing, when):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1")], [call("pay", 2, "c2")], done()], traces.gated())
    session, given, failures = Flaky(failing, when), "hi", 0
    for _ in range(12):
        try:
            result = await go(agent, given, session=session)
        except OSError as error:
            failures += 1
            given = await reloaded(agent, error.state)
            continue
        if not result.interruptions:
            break
        given = await reloaded(agent, result)
        for item in given.get_interruptions():
            given.approve(item)
    items = await session.get_items()

    assert failures == 1
    assert result.final_output == "done"
    assert traces.ran == ["pay 1", "pay 2"]
    assert_paired(items)
    assert texts(items) == [
        "user: hi",
        "function_call c1",
        "function_call_output c1",
        "function_call c2",
        "function_call_output c2",
        "assistant: done",
    ]


@pytest.mark.promise("P3")
async def test_a_message_that_was_said_twice_is_there_twice_although_its_second_write_failed():
    session = Flaky(2, "before")
    agent = scripted("A", [done(), done()])
    await go(agent, "hi", session=session)
    with pytest.raises(OSError, match="session") as failed:
        await go(agent, "hi", session=session)

    await go(agent, failed.value.state, session=session)

    assert texts(await session.get_items()) == ["user: hi", "assistant: done"] * 2


@pytest.mark.promise("P3")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_of_the_store_at_any_append_leaves_the_session_in_pairs_and_each_item_once(when):
    number, crashes = 0, 1
    while crashes:
        number, crashes = number + 1, 0
        traces, store, session, given = Traces(), CrashingStore(MemoryStore()), InMemorySession("chat"), "hi"
        agent = Agent("A", tools=[traces.gated(recovery="retry")], model=Planned({"hi": [[call("pay", 1, "c1")]]}))
        store.crash_at(number, when)
        for _ in range(8):
            try:
                result = await go(agent, given, session=session, store=store)
            except Crash as crash:
                crashes += 1
                given = await reloaded(agent, crash.state)
                continue
            if not result.interruptions:
                break
            given = await reloaded(agent, result)
            given.approve(given.get_interruptions()[0])
        items = await session.get_items()

        assert_paired(items)
        assert texts(items) == ["user: hi", "function_call c1", "function_call_output c1", "assistant: hi: done"], (
            f"append {number}"
        )


@pytest.mark.promise("P3")
async def test_the_turn_of_a_handoff_is_in_the_session_although_a_filter_hides_it_from_the_next_agent(session):
    traces = Traces()
    b = scripted("B", [done("from B")])
    forget = handoff(b, input_filter=lambda data: data.clone(new_items=()))
    a = scripted(
        "A",
        [[call("pay", 1, "c1"), function_call("transfer_to_b", {}, call_id="h1")]],
        traces.gated(),
        handoffs=[forget],
    )

    await approve_all(a, await go(a, "hi", session=session), session=session)
    items = await session.get_items()

    assert_paired(items)
    assert labels(items, "function_call") == ["c1", "h1"]
    assert texts(items)[-1] == "assistant: from B"
    assert texts(sent(b)) == ["user: hi"]


async def test_of_a_nested_run_the_session_holds_the_call_and_the_output_and_nothing_from_inside(session):
    traces = Traces()
    kid = scripted("Kid", [[call("pay", 1, "inner")], done("kid done")], traces.gated())
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done()], kid.as_tool())

    await approve_all(boss, await go(boss, "hi", session=session), session=session)

    assert texts(await session.get_items()) == [
        "user: hi",
        "function_call k1",
        "function_call_output k1",
        "assistant: done",
    ]


async def test_a_label_that_an_earlier_run_of_the_session_used_is_made_unique(session):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1")], done(), [call("pay", 2, "c1")], done()], traces.tool())

    await go(agent, "one", session=session)
    await go(agent, "two", session=session)
    items = await session.get_items()

    assert_paired(items)
    assert len(set(labels(items, "function_call"))) == 2


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.promise("P3")
async def test_halves_that_somebody_else_left_in_a_session_are_not_sent(session):
    await session.add_items(
        [
            {"role": "user", "content": "before"},
            {"type": "function_call", "name": "pay", "arguments": "{}", "call_id": "lost call"},
            {"type": "function_call_output", "call_id": "lost output", "output": "?"},
        ]
    )
    agent = scripted("A", [done()])

    await go(agent, "hi", session=session)

    assert texts(sent(agent)) == ["user: before", "user: hi"]


class Garbage(InMemorySession):
    def __init__(self, given):
        super().__init__("chat")
        self.given = given

    async def get_items(self, limit=None):
        return self.given


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        7,
        {"role": "user"},
        [1],
        [None],
        [["a"]],
        [{"role": object()}],
        [{1: 2}],
        [{"type": "function_call", "call_id": []}],
    ],
    ids=["nothing", "text", "number", "mapping", "numbers", "nothings", "lists", "objects", "odd key", "odd label"],
)
async def test_a_session_that_gives_garbage_is_named_before_anything_runs(given):
    agent = scripted("A", [])

    with pytest.raises(UserError, match="chat"):
        await go(agent, "hi", session=Garbage(given))

    assert model_of(agent).calls == []


async def test_a_session_that_gives_garbage_while_a_write_is_made_good_is_named_and_nothing_is_lost():
    class Turning(Flaky):
        is_odd = False

        async def get_items(self, limit=None):
            return [1, 2] if self.is_odd else await super().get_items(limit)

    traces, session = Traces(), Turning(2, "before")
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.tool())
    with pytest.raises(OSError) as failed:  # noqa: PT011  # the session's own error, as it is
        await go(agent, "hi", session=session)
    session.is_odd = True
    with pytest.raises(UserError, match="chat") as named:
        await go(agent, failed.value.state, session=session)
    session.is_odd = False

    await go(agent, named.value.state, session=session)

    assert_paired(await session.get_items())
    assert traces.ran == ["pay 1"]


async def test_a_session_and_a_history_that_the_server_keeps_exclude_each_other(session):
    agent = scripted("A", [])

    with pytest.raises(UserError, match="not by both"):
        await go(agent, "hi", session=session, conversation_id="conv_1")

    assert await session.get_items() == []


async def test_a_run_is_resumed_with_the_session_that_it_was_begun_with_and_with_no_other(session):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1)], done()], traces.gated())
    state = (await go(agent, "hi", session=session)).to_state()
    state.approve(state.get_interruptions()[0])

    with pytest.raises(UserError, match="'chat'"):
        await go(agent, state)
    with pytest.raises(UserError, match="'chat'"):
        await go(agent, state, session=InMemorySession("other"))
    refused = list(traces.ran)
    result = await go(agent, state, session=session)

    assert refused == []
    assert result.final_output == "done"


async def test_a_run_that_was_begun_without_a_session_is_not_resumed_with_one(session):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1)], done()], traces.gated())
    paused = await go(agent, "hi")

    with pytest.raises(UserError, match="no session"):
        await go(agent, paused.to_state(), session=session)


# -- a new message while a run waits -----------------------------------------------------------------------------------

SUPERSEDE, QUEUE = RunConfig(on_pending="supersede"), RunConfig(on_pending="queue")


def waiter(traces, *more):
    return scripted("A", [[call("pay", 1, "c1"), call("look", 2, "c2")], *more], traces.gated(), traces.tool("look"))


async def test_by_default_it_is_refused_and_names_the_run_that_waits(session):
    traces = Traces()
    agent = waiter(traces, done())
    paused = await go(agent, "hi", session=session)

    with pytest.raises(SessionBusy) as busy:
        await go(agent, "hello?", session=session)
    result = await approve_all(agent, paused, session=session)

    assert busy.value.run_id == paused.run_id
    assert result.final_output == "done"
    assert "user: hello?" not in texts(await session.get_items())


async def test_another_session_and_no_session_are_not_in_the_way(session):
    traces = Traces()
    agent = waiter(traces, done("one"), done("two"))
    await go(agent, "hi", session=session)

    other = await go(agent, "hello?", session=InMemorySession("other"))
    without = await go(agent, "hello?")

    assert (other.final_output, without.final_output) == ("one", "two")


@pytest.mark.promise("P3", "P15")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_superseding_message_ends_what_waits_with_an_output_before_it(session, streamed):
    traces = Traces()
    agent = waiter(traces, done("never mind"))
    paused = await go(agent, "hi", session=session)

    result = await go(agent, "forget it", session=session, run_config=SUPERSEDE, streamed=streamed)
    items = await session.get_items()

    assert result.run_id == paused.run_id
    assert result.final_output == "never mind"
    assert traces.ran == ["look 2"]
    assert "newer message" in dict(outputs(sent(agent)))["c1"]
    assert texts(items)[-4:] == [
        "function_call_output c1",
        "function_call_output c2",
        "user: forget it",
        "assistant: never mind",
    ]
    assert_paired(items)


@pytest.mark.promise("P15")
async def test_a_late_approval_of_a_superseded_call_is_refused_and_changes_nothing(session):
    traces = Traces()
    agent = waiter(traces, [call("pay", 7, "c7")], done())
    paused = await go(agent, "hi", session=session)
    late = await reloaded(agent, paused)
    late.approve(late.get_interruptions()[0])
    second = await go(agent, "something else", session=session, run_config=SUPERSEDE)

    with pytest.raises((NotPending, StaleApproval)):
        await go(agent, late, session=session)
    while_waiting = list(traces.ran)
    result = await approve_all(agent, second, session=session)
    with pytest.raises(RunFinished):
        await go(agent, late, session=session)

    assert while_waiting == ["look 2"]
    assert traces.ran == ["look 2", "pay 7"]
    assert result.final_output == "done"


@pytest.mark.promise("P15")
async def test_a_superseding_message_ends_what_waits_in_nested_runs_and_does_not_say_that_nothing_was_done(session):
    traces = Traces()
    kid = scripted("Kid", [[call("look", 1, "c1"), call("pay", 1, "c2")]], traces.gated(), traces.tool("look"))
    boss = scripted("Boss", [[ask("kid", "x", "k1")], done("never mind")], kid.as_tool())
    paused = await go(boss, "hi", session=session)
    late = paused.to_state()
    late.approve(paused.interruptions[0])

    result = await go(boss, "forget it", session=session, run_config=SUPERSEDE)
    with pytest.raises(RunFinished):
        await go(boss, late, session=session)
    ((label, text),) = outputs(sent(boss))

    assert result.final_output == "never mind"
    assert traces.ran == ["look 1"]
    assert label == "k1"
    assert "was not carried out" not in text, "a part of it was"


async def test_a_decision_that_was_made_before_a_superseding_message_came_stays_one(session):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1"), call("pay", 2, "c2")], done()], traces.gated())
    state = (await go(agent, "hi", session=session)).to_state()
    first, _ = state.get_interruptions()
    state.reject(first, rejection_message="never")
    await go(agent, state, session=session)

    await go(agent, "forget it", session=session, run_config=SUPERSEDE)
    read = dict(outputs(sent(agent)))

    assert read["c1"] == "never"
    assert "newer message" in read["c2"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_queued_message_is_staged_and_read_after_the_decision(session, streamed):
    traces = Traces()
    agent = waiter(traces, done("both"))
    paused = await go(agent, "hi", session=session)

    queued = await go(agent, "and one more thing", session=session, run_config=QUEUE, streamed=streamed)
    asked_while_queued = len(model_of(agent).calls)
    state = await reloaded(agent, paused)
    state.approve(state.get_interruptions()[0])
    result = await go(agent, state, session=session)

    assert queued.run_id == paused.run_id
    assert [item.call_id for item in queued.interruptions] == ["c1"]
    assert asked_while_queued == 1
    assert result.final_output == "both"
    assert texts(sent(agent))[-1] == "user: and one more thing"
    assert texts(await session.get_items())[-2:] == ["user: and one more thing", "assistant: both"]


async def test_two_queued_messages_are_read_in_the_order_in_which_they_came(session):
    traces = Traces()
    agent = waiter(traces, done())
    paused = await go(agent, "hi", session=session)
    for text in ("second", "third"):
        paused = await go(agent, text, session=session, run_config=QUEUE)

    await approve_all(agent, paused, session=session)

    assert texts(sent(agent))[-2:] == ["user: second", "user: third"]


async def test_once_nothing_waits_a_new_message_begins_a_run_of_its_own(session):
    traces = Traces()
    agent = waiter(traces, done("one"), done("two"))
    first = await approve_all(agent, await go(agent, "hi", session=session), session=session)

    second = await go(agent, "again", session=session)

    assert second.final_output == "two"
    assert second.run_id != first.run_id


async def test_an_unknown_word_for_what_to_do_is_refused_where_it_is_written():
    with pytest.raises(UserError, match="on_pending"):
        RunConfig(on_pending="ignore")


# -- the sessions themselves -------------------------------------------------------------------------------------------


async def test_items_come_back_in_order_the_newest_so_many_and_can_be_taken_away(session):
    items = [{"role": "user", "content": str(number), "extra": {"ü": [1, None]}} for number in range(5)]
    await session.add_items(items)

    newest = await session.get_items(2)
    popped = await session.pop_item()
    left = await session.get_items()
    none = await session.get_items(0)
    await session.clear_session()

    assert newest == items[3:]
    assert popped == items[4]
    assert left == items[:4]
    assert none == []
    assert await session.get_items() == []
    assert await session.pop_item() is None


async def test_what_a_reader_does_to_the_items_does_not_change_the_session(session):
    given = [{"role": "user", "content": "hi"}]
    await session.add_items(given)
    given[0]["content"] = "changed"
    (await session.get_items())[0]["content"] = "changed"

    assert await session.get_items() == [{"role": "user", "content": "hi"}]


async def test_two_sessions_in_one_file_do_not_see_each_other_and_a_file_outlives_its_object(tmp_path):
    path = tmp_path / "chats.db"
    one, other = SQLiteSession("one", path), SQLiteSession("other", path)
    await one.add_items([{"role": "user", "content": "for one"}])
    await other.add_items([{"role": "user", "content": "for the other"}])
    await other.clear_session()
    one.close()
    other.close()

    again = SQLiteSession("one", path)
    items = await again.get_items()
    again.close()

    assert items == [{"role": "user", "content": "for one"}]


async def test_many_tasks_and_threads_add_at_the_same_time_and_no_batch_is_torn(tmp_path):
    session = SQLiteSession("chat", tmp_path / "chats.db")

    async def add(who):
        for number in range(10):
            await session.add_items([{"who": who, "number": number, "half": half} for half in (1, 2)])

    threads = [threading.Thread(target=lambda name=name: asyncio.run(add(name))) for name in ("t1", "t2")]
    for thread in threads:
        thread.start()
    await asyncio.gather(add("a"), add("b"))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    items = await session.get_items()
    session.close()
    pairs = list(zip(items[::2], items[1::2], strict=True))

    assert len(items) == 80
    assert all({**first, "half": 2} == second for first, second in pairs)


OTHER_PROCESS = """
import asyncio, sys
from placet import SQLiteSession

async def main():
    session = SQLiteSession("chat", sys.argv[1])
    for number in range(10):
        await session.add_items([{"who": sys.argv[2], "number": number, "half": half} for half in (1, 2)])
    session.close()

asyncio.run(main())
"""


async def in_another_process(path, name):
    """What a process complained of while it added its items."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_PROCESS, str(path), name, stderr=asyncio.subprocess.PIPE
    )
    _, complaint = await asyncio.wait_for(process.communicate(), 3 * SECONDS)
    return complaint.decode()


async def test_several_processes_open_one_file_at_the_same_time_and_no_batch_is_torn(tmp_path):
    path = tmp_path / "chats.db"
    complaints = await asyncio.gather(*(in_another_process(path, name) for name in ("p1", "p2", "p3")))
    session = SQLiteSession("chat", path)
    items = await session.get_items()
    session.close()

    assert complaints == ["", "", ""]
    assert len(items) == 60
    assert all({**a, "half": 2} == b for a, b in zip(items[::2], items[1::2], strict=True))


async def test_runs_in_several_tasks_on_sessions_in_one_file_keep_their_conversations_apart(tmp_path):
    path = tmp_path / "chats.db"
    sessions = [SQLiteSession(f"user-{number}", path) for number in range(8)]
    agent = Agent("A", model=Planned({}))

    await asyncio.gather(*(Runner.run(agent, each.session_id, session=each) for each in sessions))
    said = [texts(await each.get_items()) for each in sessions]
    for each in sessions:
        each.close()

    assert said == [[f"user: user-{n}", f"assistant: user-{n}: done"] for n in range(8)]


async def test_a_session_that_holds_what_is_no_json_says_so(tmp_path):
    path = tmp_path / "chats.db"
    session = SQLiteSession("chat", path)
    await session.add_items([{"role": "user", "content": "hi"}])
    session._connection.execute("UPDATE placet_session_items SET item = ?", (json.dumps([1, 2]),))
    agent = scripted("A", [])

    with pytest.raises(UserError, match="chat"):
        await go(agent, "hello", session=session)
    session.close()


@pytest.mark.parametrize("mode", ["supersede", "queue"])
async def test_a_message_for_a_run_that_waits_is_judged_like_any_input_and_refused_without_a_trace(mode):
    @input_guardrail
    async def no_threats(ctx, agent, given):
        return GuardrailFunctionOutput(tripwire_triggered=given == "a threat")

    traces, session = Traces(), InMemorySession("chat")
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.gated())
    agent.input_guardrails.append(no_threats)
    paused = await go(agent, "hi", session=session)

    with pytest.raises(InputGuardrailTripwireTriggered):
        await go(agent, "a threat", session=session, run_config=RunConfig(on_pending=mode))
    result = await approve_all(agent, paused, session=session)

    assert result.final_output == "done"
    assert "user: a threat" not in texts(await session.get_items())


async def test_the_state_of_a_refused_message_does_not_hold_the_message():
    @input_guardrail
    async def no_threats(ctx, agent, given):
        return GuardrailFunctionOutput(tripwire_triggered=given == "a threat")

    traces, session = Traces(), InMemorySession("chat")
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.gated())
    agent.input_guardrails.append(no_threats)
    await go(agent, "hi", session=session)

    with pytest.raises(InputGuardrailTripwireTriggered) as refused:
        await go(agent, "a threat", session=session, run_config=RunConfig(on_pending="supersede"))
    state = refused.value.state
    state.approve(state.get_interruptions()[0])
    result = await go(agent, state, session=session)

    assert "a threat" not in json.dumps(result.to_input_list())


async def test_a_store_that_fails_while_it_takes_a_state_over_gives_the_state_back():
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.gated())
    state = (await go(agent, "hi", store=MemoryStore())).to_state()
    store = CrashingStore(MemoryStore())
    store.crash_at(1, "before")

    with pytest.raises(Crash) as crashed:
        await go(agent, state, store=store)

    assert crashed.value.state is state
