"""Sessions in a conversation at OpenAI: opened late, written once, resumed elsewhere, whatever the server answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import openai
import pytest

from placet import InMemorySession, MemoryStore, RunConfig, Runner, SessionBusy, UserError
from placet.sessions.openai_conversations import OpenAIConversationsSession
from placet.testing.session_contract import SECONDS, assistant, called, returned, talk, texts, user
from tests.runtime.team_scenes import (
    Traces,
    approve_all,
    assert_paired,
    call,
    done,
    facts,
    go,
    reloaded,
    scripted,
    sent,
)
from tests.sessions.conversations_server import ConversationsServer


@pytest.fixture
def session(client):
    return OpenAIConversationsSession(openai_client=client)


def stored(server, session):
    return server.conversations[session.session_id]


async def until_done(agent, given, session, client):
    """Run, and after each failure run on: from the state as text, with a session opened anew."""
    failures = 0
    while True:
        try:
            return await go(agent, given, session=session), session, failures
        except openai.InternalServerError as error:
            failures += 1
            assert failures < 9
            given = await reloaded(agent, error.state)
            session = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)


# -- the conversation and its id ---------------------------------------------------------------------------------------


async def test_the_conversation_is_opened_at_the_first_use_and_only_once(server, session):
    before = dict(server.conversations)
    await asyncio.wait_for(asyncio.gather(*(session.add_items([user("hi")]) for _ in range(5))), SECONDS)

    assert before == {}
    assert list(server.conversations) == [session.session_id]
    assert texts(await session.get_items()) == ["user: hi"] * 5


async def test_a_created_session_has_its_id_before_the_first_use(server, client):
    session = await OpenAIConversationsSession.create(openai_client=client)

    assert server.conversations == {session.session_id: []}


async def test_another_object_opens_the_same_conversation_by_its_id(client, session):
    await session.add_items([user("hi")])

    again = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)

    assert again.session_id == session.session_id
    assert texts(await again.get_items()) == ["user: hi"]


async def test_before_the_first_use_the_id_is_a_stand_in_that_opens_nothing(client, session):
    assert session.session_id == session.session_id
    with pytest.raises(UserError, match="stood in for the id of a conversation"):
        OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)


@pytest.mark.parametrize("given", ["", 7])
async def test_what_is_no_id_is_refused_where_it_is_written(client, given):
    with pytest.raises(UserError, match="conversation_id is the id of a conversation"):
        OpenAIConversationsSession(conversation_id=given, openai_client=client)


@pytest.mark.parametrize("use", ["get_items", "pop_item", "clear_session", "add_items"])
async def test_a_conversation_that_does_not_exist_is_named(client, use):
    session = OpenAIConversationsSession(conversation_id="conv_gone", openai_client=client)
    given = ([user("hi")],) if use == "add_items" else ()

    with pytest.raises(UserError, match="There is no conversation 'conv_gone' for this key"):
        await asyncio.wait_for(getattr(session, use)(*given), SECONDS)


def test_without_a_key_one_sentence_says_what_to_set(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)

    with pytest.raises(UserError, match="needs a key: set OPENAI_API_KEY"):
        OpenAIConversationsSession()


def test_without_the_extra_one_sentence_says_what_to_install_and_importing_needs_it_not():
    script = """
import sys
sys.modules["openai"] = None
from placet.sessions.openai_conversations import OpenAIConversationsSession
try:
    OpenAIConversationsSession()
except Exception as error:
    print(type(error).__name__, error)
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)  # noqa: S603

    assert shown.stdout.startswith("UserError ")
    assert "pip install 'placet[openai]'" in shown.stdout


# -- the form of the items ---------------------------------------------------------------------------------------------


async def test_items_come_back_as_a_model_takes_them_without_ids_and_states_of_the_server(session):
    await session.add_items([user("hi"), called("c1"), returned("c1"), assistant("done")])

    assert await session.get_items() == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": '{"n":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "paid"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "done", "annotations": []}],
        },
    ]


@pytest.mark.parametrize(("role", "kind"), [("user", "output_text"), ("assistant", "input_text"), ("user", "text")])
async def test_a_text_is_called_by_who_said_it(session, role, kind):
    await session.add_items([{"role": role, "content": [{"type": kind, "text": "hi"}]}])

    assert texts(await session.get_items()) == [f"{role}: hi"]


async def test_reasoning_goes_with_its_encrypted_content_or_else_with_its_id(session):
    encrypted = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "status": None}
    named = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": None, "status": "completed"}
    await session.add_items([encrypted, named])

    assert await session.get_items() == [
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
    ]


async def test_reasoning_that_the_server_cannot_keep_is_left_out_and_the_rest_is_kept(session):
    await session.add_items([user("hi"), {"type": "reasoning", "summary": []}, assistant("done")])

    assert texts(await session.get_items()) == ["user: hi", "assistant: done"]


async def test_a_call_of_a_hosted_tool_keeps_its_id_because_the_server_needs_it(session):
    search = {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "completed", "results": None}
    await session.add_items([search])

    assert await session.get_items() == [
        {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "completed"}
    ]


async def test_what_the_server_refuses_is_an_error_and_nothing_of_it_is_there(server, session):
    with pytest.raises(openai.BadRequestError, match="Unknown parameter"):
        await session.add_items([user("hi"), {"role": "user", "content": "hi", "extra": 1}])

    assert stored(server, session) == []


# -- when the server fails ---------------------------------------------------------------------------------------------


async def test_a_write_that_the_server_may_have_taken_is_not_sent_again(server, session):
    await session.get_items()
    server.fail("POST", 500, "after")

    with pytest.raises(openai.InternalServerError):
        await session.add_items([user("hi")])

    assert texts(await session.get_items()) == ["user: hi"]


async def test_a_write_that_the_rate_limit_refused_is_sent_again_after_the_time_that_the_server_names(server, session):
    await session.get_items()
    server.fail("POST", 429, times=2, retry_after_ms="1")

    await session.add_items([user("hi")])

    assert texts(await session.get_items()) == ["user: hi"]


async def test_a_rate_limit_that_does_not_end_is_an_error_after_as_many_tries_as_the_client_makes(server, session):
    await session.get_items()
    asked = server.count("POST", "/items")
    server.fail("POST", 429, times=99, retry_after="0")

    with pytest.raises(openai.RateLimitError):
        await session.add_items([user("hi")])

    assert server.count("POST", "/items") - asked == 1 + session._client.max_retries


async def test_a_read_that_fails_is_repeated_by_the_client(server, session):
    await session.add_items(talk(3))
    server.fail("GET", 500, retry_after_ms="1")
    server.fail("GET", 429, retry_after_ms="1")

    assert texts(await session.get_items()) == texts(talk(3))


async def test_a_chunk_that_fails_leaves_the_chunks_before_it_in_order(server, session):
    await session.get_items()
    server.fail("POST", 500, skip=2)

    with pytest.raises(openai.InternalServerError):
        await session.add_items(talk(50))

    assert texts(await session.get_items()) == texts(talk(40))


async def test_taking_away_that_may_have_happened_is_not_repeated_on_the_next_item(server, session):
    await session.add_items(talk(3))
    server.fail("DELETE", 500, "after")

    with pytest.raises(openai.InternalServerError):
        await session.pop_item()

    assert texts(await session.get_items()) == texts(talk(2))


async def test_clearing_goes_on_where_an_answer_was_lost(server, session):
    await session.add_items(talk(5))
    server.fail("DELETE", 500, "after", skip=1, retry_after_ms="1")

    await session.clear_session()

    assert stored(server, session) == []


# -- runs --------------------------------------------------------------------------------------------------------------


async def test_what_was_said_before_is_read_and_what_is_said_now_is_written(session):
    agent = scripted("A", [done("Hello."), done("Seven.")])

    await go(agent, "Hi, I am seven.", session=session)
    await go(agent, "How old am I?", session=session)

    assert texts(sent(agent)) == ["user: Hi, I am seven.", "assistant: Hello.", "user: How old am I?"]
    assert texts(await session.get_items()) == [*texts(sent(agent)), "assistant: Seven."]


def test_a_session_serves_programs_without_an_event_loop_run_after_run(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-for-tests")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    session = OpenAIConversationsSession()
    agent = scripted("A", [done("one"), done("two")])

    Runner.run_sync(agent, "a", session=session)
    Runner.run_sync(agent, "b", session=session)

    assert len(stored(server, session)) == 4


@pytest.mark.promise("P3")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_paused_run_is_resumed_with_another_object_opened_by_the_id_in_its_log(
    server, client, session, streamed
):
    traces = Traces()
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.gated())
    paused = await go(agent, "hi", session=session, streamed=streamed)
    waiting = texts(await session.get_items())
    text = paused.to_state().to_string()
    begun = next(fact for fact in facts(paused) if session.session_id in fact)

    elsewhere = OpenAIConversationsSession(conversation_id=begun[begun.index(session.session_id)], openai_client=client)
    result = await approve_all(agent, paused, session=elsewhere, streamed=streamed, store=MemoryStore())

    items = await elsewhere.get_items()
    assert session._stand_in not in text
    assert waiting == ["user: hi"]
    assert result.final_output == "done"
    assert traces.ran == ["pay 1"]
    assert_paired(items)
    assert texts(items) == ["user: hi", 'c1: pay({"n": 1})', "c1 -> pay 1 done", "assistant: done"]


async def test_a_new_message_finds_the_run_that_waits_on_the_conversation(client, session):
    store = MemoryStore()
    agent = scripted("A", [[call("pay", 1, "c1")]], Traces().gated())
    await go(agent, "hi", session=session, store=store)

    again = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)
    with pytest.raises(SessionBusy):
        await go(agent, "and now?", session=again, store=store)


@pytest.mark.promise("P3")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
async def test_a_write_that_fails_once_at_any_request_is_made_good_and_nothing_is_written_twice(
    server, client, when, failing
):
    calls = [call("pay", n, f"c{n}") for n in range(12)]  # with their outputs more than one request takes
    steps = [[call("pay", 99, "c99")], calls, done()]
    traces = Traces()
    agent = scripted("A", steps, traces.tool())
    session = await OpenAIConversationsSession.create(openai_client=client)
    await session.add_items(talk(3))
    server.sizes.clear()
    server.fail("POST", 500, when, skip=failing)

    result, session, failures = await until_done(agent, "hi", session, client)

    items, undisturbed = await session.get_items(), InMemorySession("chat")
    await undisturbed.add_items(talk(3))
    await go(scripted("A", steps, Traces().tool()), "hi", session=undisturbed)
    assert failures == 1
    assert result.final_output == "done"
    assert len(traces.ran) == 13
    assert_paired(items)
    assert texts(items) == texts(await undisturbed.get_items())
    assert 20 in server.sizes  # one of the failing requests was the second of its write


async def test_a_write_is_made_good_although_the_server_could_not_keep_all_of_it(server, client, session):
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    agent = scripted("A", [[thought, call("pay", 1, "c1")], [thought, *done()]], Traces().tool())
    server.fail("POST", 500, "after", skip=2)

    _, session, failures = await until_done(agent, "hi", session, client)

    assert failures == 1
    assert texts(await session.get_items()) == [
        "user: hi",
        'c1: pay({"n": 1})',
        "c1 -> pay 1 done",
        "assistant: done",
    ]


@pytest.mark.promise("P21")
@pytest.mark.parametrize("way", ["error", "queue", "supersede"])
async def test_conversations_of_two_services_that_have_one_id_are_two(server, client, way):
    other = ConversationsServer()
    other.conversations["conv_1"], server.conversations["conv_1"] = [], []
    store, traces = MemoryStore(), Traces()
    agent = scripted("A", [[call("pay", 1, "c1")], done()], traces.gated())
    mine = OpenAIConversationsSession(conversation_id="conv_1", openai_client=client)
    try:
        async with openai.AsyncOpenAI(base_url=other.url, api_key="key-for-tests") as elsewhere:
            theirs = OpenAIConversationsSession(conversation_id="conv_1", openai_client=elsewhere)
            waiting = await go(agent, "my secret", session=mine, store=store)

            result = await go(
                scripted("A", [done("hello")], traces.gated()),
                "hi",
                session=theirs,
                store=store,
                run_config=RunConfig(on_pending=way),
            )
            state = waiting.to_state()
            state.approve("c1")
            with pytest.raises(UserError, match="pass the same session"):
                await go(agent, state, session=theirs, store=store)

            assert (result.final_output, result.run_id != waiting.run_id) == ("hello", True)
            assert "my secret" not in str(await theirs.get_items())
    finally:
        other.close()
