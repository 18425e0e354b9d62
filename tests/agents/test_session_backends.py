"""The session backends of the front door: each keeps what the contract asks for, and reads what the SDK wrote."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap

import pytest
from cryptography.fernet import Fernet, InvalidToken

from placet.agents import Agent, Runner, RunState, SQLiteSession, UserError, function_tool
from placet.agents.extensions.memory import (
    AdvancedSQLiteSession,
    AsyncSQLiteSession,
    EncryptedSession,
    SQLAlchemySession,
)
from placet.facts.errors import SessionBusy
from placet.testing import ScriptedModel, assistant_message, function_call
from placet.testing.session_contract import SessionContract, assistant, talk, texts, user

KEY = Fernet.generate_key().decode()


class TestSQLiteSession(SessionContract):
    @pytest.fixture(params=["memory", "file"])
    def session(self, request, tmp_path):
        found = SQLiteSession("1", tmp_path / "chats.db" if request.param == "file" else ":memory:")
        yield found
        found.close()


class TestAsyncSQLiteSession(SessionContract):
    @pytest.fixture
    async def session(self, tmp_path):
        found = AsyncSQLiteSession("1", db_path=tmp_path / "chats.db")
        yield found
        await found.close()


class TestAdvancedSQLiteSession(SessionContract):
    @pytest.fixture(params=["memory", "file"])
    def session(self, request, tmp_path):
        path = tmp_path / "chats.db" if request.param == "file" else ":memory:"
        found = AdvancedSQLiteSession(session_id="1", db_path=path, create_tables=True)
        yield found
        found.close()


class TestSQLAlchemySession(SessionContract):
    @pytest.fixture(params=["memory", "file", "postgres"])
    async def session(self, request, tmp_path):
        url = {"memory": "sqlite+aiosqlite:///:memory:", "file": f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"}.get(
            request.param
        )
        if url is None:
            server = request.getfixturevalue("postgres")
            url = server.new_database().replace("postgresql://", "postgresql+psycopg://")
        found = SQLAlchemySession.from_url("1", url=url, create_tables=True)
        yield found
        await found.engine.dispose()


class TestEncryptedSession(SessionContract):
    @pytest.fixture
    def session(self):
        underlying = SQLiteSession("1")
        yield EncryptedSession("1", underlying, KEY)
        underlying.close()


class TestEncryptedSQLAlchemySession(SessionContract):
    @pytest.fixture
    async def session(self):
        underlying = SQLAlchemySession.from_url("1", url="sqlite+aiosqlite:///:memory:", create_tables=True)
        yield EncryptedSession("1", underlying, KEY, max_scan_items=5_000)
        await underlying.engine.dispose()


# -- what the SDK wrote ------------------------------------------------------------------------------------------------

WRITER = """
    import asyncio, json, sys
    from agents import SQLiteSession
    from agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession

    async def main(folder, key, items):
        plain = SQLiteSession("7", f"{folder}/plain.db")
        await plain.add_items(items)
        await EncryptedSession("7", SQLiteSession("7", f"{folder}/sealed.db"), key).add_items(items)
        advanced = AdvancedSQLiteSession(session_id="7", db_path=f"{folder}/advanced.db", create_tables=True)
        await advanced.add_items(items)
        await advanced.create_branch_from_turn(2, "other")
        await advanced.add_items([{"role": "user", "content": "elsewhere"}])
        print(json.dumps(await advanced.get_conversation_by_turns("main")))
        found = await advanced.list_branches()
        print(json.dumps([[b["branch_id"], b["message_count"], b["user_turns"]] for b in found]))

    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
"""


async def test_what_the_sdk_wrote_into_its_files_is_read_and_continued(on_the_sdk, tmp_path):
    items = [*talk(4), {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}]
    program = tmp_path / "writer.py"
    program.write_text(textwrap.dedent(WRITER))

    printed = on_the_sdk(program, str(tmp_path), KEY, json.dumps(items)).splitlines()
    plain = SQLiteSession("7", tmp_path / "plain.db")
    sealed = EncryptedSession("7", SQLiteSession("7", tmp_path / "sealed.db"), KEY)
    advanced = AdvancedSQLiteSession(session_id="7", db_path=tmp_path / "advanced.db")

    assert await plain.get_items() == await sealed.get_items() == await advanced.get_items() == items
    turns = await advanced.get_conversation_by_turns()
    branches = await advanced.list_branches()
    assert json.loads(json.dumps(turns)) == json.loads(printed[0])
    assert [[b["branch_id"], b["message_count"], b["user_turns"]] for b in branches] == json.loads(printed[1])
    await advanced.switch_to_branch("other")
    assert texts(await advanced.get_items()) == ["user: 0", "assistant: 1", "user: elsewhere"]
    await plain.add_items([user("on")])
    assert len(await plain.get_items()) == len(items) + 1


READER = """
    import asyncio, json, sys
    from agents import SQLiteSession
    from agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession

    async def main(folder, key):
        print(json.dumps(await SQLiteSession("7", f"{folder}/plain.db").get_items()))
        print(json.dumps(await EncryptedSession("7", SQLiteSession("7", f"{folder}/sealed.db"), key).get_items()))
        advanced = AdvancedSQLiteSession(session_id="7", db_path=f"{folder}/advanced.db", create_tables=True)
        print(json.dumps(await advanced.get_items()))
        print(json.dumps(await advanced.get_session_usage()))

    asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def test_what_is_written_here_the_sdk_can_read_so_a_program_can_also_move_back(on_the_sdk, tmp_path):
    items = talk(3)
    await SQLiteSession("7", tmp_path / "plain.db").add_items(items)
    await EncryptedSession("7", SQLiteSession("7", tmp_path / "sealed.db"), KEY).add_items(items)
    advanced = AdvancedSQLiteSession(session_id="7", db_path=tmp_path / "advanced.db", create_tables=True)
    agent = Agent(name="Talker", model=ScriptedModel([[assistant_message("hello")]]))
    result = await Runner.run(agent, "hi", session=advanced)
    await advanced.store_run_usage(result)
    program = tmp_path / "reader.py"
    program.write_text(textwrap.dedent(READER))

    printed = [json.loads(line) for line in on_the_sdk(program, str(tmp_path), KEY).splitlines()]

    assert printed[0] == printed[1] == items
    assert texts(printed[2]) == ["user: hi", "assistant: hello"]
    assert printed[3]["total_turns"] == 1


# -- limits, keys, branches --------------------------------------------------------------------------------------------


async def test_a_session_gives_as_many_items_as_its_settings_say_unless_it_is_asked_for_more():
    session = SQLiteSession("1", session_settings={"limit": 2})
    await session.add_items(talk(5))

    assert texts(await session.get_items()) == texts(talk(5)[3:])
    assert len(await session.get_items(4)) == 4


@pytest.mark.parametrize("name", ["", "a b", "x;DROP TABLE y", "1st"])
def test_a_table_name_that_is_none_is_refused_where_it_is_written(name):
    with pytest.raises(UserError, match="table"):
        SQLiteSession("1", messages_table=name)


async def test_another_key_reads_nothing_and_takes_nothing_away():
    underlying = SQLiteSession("1")
    await EncryptedSession("1", underlying, KEY).add_items([user("secret")])
    other = EncryptedSession("1", underlying, Fernet.generate_key().decode())

    assert await other.get_items() == []
    with pytest.raises(InvalidToken):
        await other.pop_item()
    assert len(await underlying.get_items()) == 1
    assert "secret" not in json.dumps(await underlying.get_items())


async def test_what_is_not_encrypted_is_passed_over_and_not_taken_away():
    underlying = SQLiteSession("1")
    session = EncryptedSession("1", underlying, KEY)
    await session.add_items([user("mine")])
    await underlying.add_items([user("planted")])

    assert texts(await session.get_items()) == ["user: mine"]
    with pytest.raises(UserError, match="not encrypted"):
        await session.pop_item()
    assert len(await underlying.get_items()) == 2


async def test_a_bound_on_what_is_read_is_an_error_when_the_history_may_be_longer():
    session = EncryptedSession("1", SQLiteSession("1"), KEY, max_scan_items=3)
    await session.add_items(talk(5))

    with pytest.raises(RuntimeError, match="max_scan_items"):
        await session.get_items()
    assert texts(await session.get_items(2)) == texts(talk(5)[3:])


async def test_a_branch_begins_before_its_turn_and_does_not_change_the_other():
    session = AdvancedSQLiteSession(session_id="1", create_tables=True)
    await session.add_items(talk(6))

    name = await session.create_branch_from_turn(2)
    await session.add_items([user("else"), assistant("other")])

    assert texts(await session.get_items()) == ["user: 0", "assistant: 1", "user: else", "assistant: other"]
    assert texts(await session.get_items(branch_id="main")) == texts(talk(6))
    assert [turn["content"] for turn in await session.get_conversation_turns()] == ["0", "else"]
    await session.delete_branch(name, force=True)
    assert texts(await session.get_items()) == texts(talk(6))
    with pytest.raises(ValueError, match="already been used"):
        await session.create_branch_from_turn(2, name)


async def test_the_tools_and_tokens_of_a_turn_are_kept_with_it():
    @function_tool
    def pay(n: int) -> str:
        return f"paid {n}"

    model = ScriptedModel([[function_call("pay", {"n": 1}, call_id="c1")], [assistant_message("done")]])
    session = AdvancedSQLiteSession(session_id="1", create_tables=True)

    result = await Runner.run(Agent(name="Payer", tools=[pay], model=model), "pay", session=session)
    await session.store_run_usage(result)

    assert await session.get_tool_usage() == [("pay", 1, 1)]
    assert (await session.get_turn_usage(1))["requests"] == 2
    assert (await session.get_session_usage())["total_turns"] == 1


def waiting_agent():
    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    return Agent(
        name="Payer",
        tools=[pay],
        model=ScriptedModel([[function_call("pay", {}, call_id="c1")], [assistant_message("done")]]),
    )


async def test_a_run_that_waits_on_one_branch_is_continued_there_and_not_on_another():
    session = AdvancedSQLiteSession(session_id="1", create_tables=True)
    await session.add_items(talk(2))
    agent = waiting_agent()
    paused = await Runner.run(agent, "pay", session=session)
    state = paused.to_state()
    state.approve(state.get_interruptions()[0])

    await session.create_branch_from_turn(1, "aside")
    with pytest.raises(UserError, match="pass the same session"):
        await Runner.run(agent, state, session=session)
    await session.switch_to_branch("main")
    result = await Runner.run(agent, state, session=session)

    assert result.final_output == "done"
    assert len(await session.get_items()) == 2 + 4


@pytest.fixture
async def engines():
    made = []
    yield made
    for engine in made:
        await engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite", "sqlalchemy", "encrypted"])
async def test_a_run_that_waits_is_found_by_another_object_of_the_same_session(kind, tmp_path, engines):
    def session():
        if kind == "sqlalchemy":
            url = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
            found = SQLAlchemySession.from_url("1", url=url, create_tables=True)
            engines.append(found.engine)
            return found
        plain = SQLiteSession("1", tmp_path / "chats.db")
        return plain if kind == "sqlite" else EncryptedSession("1", plain, KEY)

    agent = waiting_agent()
    paused = await Runner.run(agent, "pay", session=session())

    with pytest.raises(SessionBusy):
        await Runner.run(agent, "again", session=session())
    state = await RunState.from_string(agent, paused.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state, session=session())

    assert result.final_output == "done"


async def test_two_that_begin_a_session_at_once_are_one_session(postgres):
    url = postgres.new_database().replace("postgresql://", "postgresql+psycopg://")
    first = SQLAlchemySession.from_url("1", url=url, create_tables=True)
    await first.get_items()
    second = SQLAlchemySession.from_url("1", url=url)

    await asyncio.gather(*(each.add_items([user("hi")]) for each in (first, second) * 3))

    assert len(await second.get_items()) == 6
    assert first.kept_in == second.kept_in
    assert url.split("@")[0] not in first.kept_in
    await first.engine.dispose()
    await second.engine.dispose()


@pytest.mark.parametrize(
    ("module", "missing", "line"),
    [
        ("sqlalchemy_session", "sqlalchemy", "pip install 'placet[sqlalchemy]'"),
        ("encrypt_session", "cryptography", "pip install 'placet[encrypt]'"),
    ],
)
def test_a_backend_whose_library_is_missing_says_what_to_install(module, missing, line):
    code = f"import sys; sys.modules[{missing!r}] = None; import placet.agents.extensions.memory.{module}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603

    assert done.returncode == 1
    assert line in done.stderr
