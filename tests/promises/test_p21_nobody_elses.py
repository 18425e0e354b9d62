"""P21, for sessions: what waits on one conversation is never found, read or ended through another with the same id."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from typing import ClassVar

import pytest

from placet import (
    Agent,
    InMemorySession,
    MemoryStore,
    RunConfig,
    Runner,
    RunState,
    SessionBusy,
    SQLiteSession,
    UserError,
    function_tool,
)
from placet.core.log import Log, read_line
from placet.desk import Desk
from placet.facts.ids import mint, session_key
from placet.stores.opening import open_store
from placet.testing import ScriptedModel, assistant_message, function_call

pytestmark = pytest.mark.promise("P21")

QUEUE, SUPERSEDE = RunConfig(on_pending="queue"), RunConfig(on_pending="supersede")
WAYS = {"error": RunConfig(), "queue": QUEUE, "supersede": SUPERSEDE}


class Kept(InMemorySession):
    """A session of somebody's own, in a database that outlives its objects. It does not say where that is."""

    databases: ClassVar[dict[str, list]] = {}

    def __init__(self, session_id: str, database: str) -> None:
        super().__init__(session_id)
        self._items = self.databases.setdefault(f"{database}/{session_id}", [])

    kept_in = None  # type: ignore[assignment]


class Named(Kept):
    """The same, saying where."""

    def __init__(self, session_id: str, database: str) -> None:
        super().__init__(session_id, database)
        self.kept_in = f"db:{database}"  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _empty_databases():
    Kept.databases.clear()


def pairs(tmp_path):
    """Two sessions with one id, kept in two places."""
    return {
        "files": (SQLiteSession("1", tmp_path / "a.db"), SQLiteSession("1", tmp_path / "b.db")),
        "sqlite in memory": (SQLiteSession("1"), SQLiteSession("1")),
        "objects": (InMemorySession("1"), InMemorySession("1")),
        "file and object": (SQLiteSession("1", tmp_path / "a.db"), InMemorySession("1")),
        "own databases": (Named("1", "a"), Named("1", "b")),
    }


KINDS = ["files", "sqlite in memory", "objects", "file and object", "own databases"]


def shop(effects: list[str] | None = None, said: str = "Hello.") -> Agent[None]:
    """Its first answer to «pay» waits for a person; every other is a text."""

    @function_tool(needs_approval=True)
    async def pay(cents: int) -> str:
        (effects if effects is not None else []).append(f"paid {cents}")
        return "paid"

    steps = [[function_call("pay", {"cents": 5}, call_id="c1")], [assistant_message("Paid.")]]
    return Agent(name="Shop", tools=[pay], model=ScriptedModel(steps))


def talker(*texts: str) -> Agent[None]:
    return Agent(name="Shop", tools=shop().tools, model=ScriptedModel([[assistant_message(text)] for text in texts]))


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    if request.param == "memory":
        yield MemoryStore()
        return
    opened = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    yield opened
    await opened.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_message_on_one_session_neither_reads_nor_ends_what_waits_on_another_with_its_id(
    tmp_path, store, kind, way
):
    mine, theirs = pairs(tmp_path)[kind]
    effects: list[str] = []
    agent = shop(effects)
    waiting = await Runner.run(agent, "my secret: pay 5", session=mine, store=store)
    other = talker("Hello you.")

    result = await Runner.run(other, "hi", session=theirs, store=store, run_config=WAYS[way])
    state = waiting.to_state()
    state.approve("c1")
    mine_after = await Runner.run(agent, state, session=mine, store=store)

    assert (result.final_output, result.interruptions, result.run_id != waiting.run_id) == ("Hello you.", [], True)
    assert "secret" not in json.dumps(other.model.calls[0].input)
    assert "secret" not in json.dumps(await theirs.get_items())
    assert (mine_after.final_output, effects) == ("Paid.", ["paid 5"])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_state_is_not_gone_on_with_on_another_session_with_its_id(tmp_path, store, kind):
    mine, theirs = pairs(tmp_path)[kind]
    effects: list[str] = []
    agent = shop(effects)
    state = (await Runner.run(agent, "my secret: pay 5", session=mine, store=store)).to_state()
    state.approve("c1")

    with pytest.raises(UserError, match="pass the same session"):
        await Runner.run(agent, state, session=theirs, store=store)

    assert effects == []
    assert await theirs.get_items() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_runs_on_two_sessions_with_one_id_do_not_wait_for_each_other(tmp_path, store, kind):
    mine, theirs = pairs(tmp_path)[kind]
    inner = talker("Hello you.")

    @function_tool
    async def look() -> str:
        return str((await Runner.run(inner, "hi", session=theirs, store=store)).final_output)

    steps = [[function_call("look", {}, call_id="c1")], [assistant_message("Done.")]]
    outer = Agent(name="Outer", tools=[look], model=ScriptedModel(steps))

    result = await Runner.run(outer, "go", session=mine, store=store)

    assert result.final_output == "Done."
    assert [item["output"] for item in await mine.get_items() if "output" in item] == ["Hello you."]


async def test_one_file_is_one_place_by_whatever_name_it_is_opened(tmp_path, store, monkeypatch):
    folder = tmp_path / "real"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    waiting = await Runner.run(shop(), "pay", session=SQLiteSession("1", "chats.db"), store=store)
    agent = talker("As you wish.")

    for name in (folder / "chats.db", tmp_path / "link" / "chats.db", f"..{os.sep}real{os.sep}chats.db"):
        with pytest.raises(SessionBusy) as busy:
            await Runner.run(agent, "hi", session=SQLiteSession("1", name), store=store)
        assert busy.value.run_id == waiting.run_id
    through = SQLiteSession("1", tmp_path / "link" / "chats.db")
    result = await Runner.run(agent, "no", session=through, store=store, run_config=SUPERSEDE)

    assert (result.run_id, result.final_output) == (waiting.run_id, "As you wish.")


async def test_a_file_with_a_name_of_its_own_is_the_same_place_after_it_was_moved(tmp_path, store):
    before = SQLiteSession("1", tmp_path / "old.db", kept_in="chats")
    effects: list[str] = []
    agent = shop(effects)
    state = (await Runner.run(agent, "pay", session=before, store=store)).to_state()
    before.close()
    (tmp_path / "old.db").rename(tmp_path / "new.db")
    state.approve("c1")

    result = await Runner.run(
        agent, state, session=SQLiteSession("1", tmp_path / "new.db", kept_in="chats"), store=store
    )

    assert (result.final_output, effects) == ("Paid.", ["paid 5"])


async def test_neither_a_log_nor_a_state_holds_the_path_of_a_session(tmp_path, store):
    session = SQLiteSession("1", tmp_path / "customers-of-acme.db")
    paused = await Runner.run(shop(), "pay", session=session, store=store)

    assert "customers-of-acme" not in paused.to_state().to_string()


# -- sessions of one's own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["queue", "supersede"])
async def test_a_session_that_says_where_it_is_kept_is_found_by_another_object(store, way):
    waiting = await Runner.run(shop(), "pay", session=Named("1", "a"), store=store)

    result = await Runner.run(talker("Well."), "no", session=Named("1", "a"), store=store, run_config=WAYS[way])

    assert result.run_id == waiting.run_id


@pytest.mark.parametrize("way", WAYS)
async def test_what_waits_on_a_session_that_does_not_say_where_it_is_kept_is_touched_by_its_object_alone(store, way):
    mine = Kept("1", "a")
    waiting = await Runner.run(shop(), "my secret: pay", session=mine, store=store)
    agent = talker("Well.")

    for other in (Kept("1", "a"), Kept("1", "b")):  # nobody can tell which of them is the one
        with pytest.raises(SessionBusy, match="kept_in"):
            await Runner.run(agent, "no", session=other, store=store, run_config=WAYS[way])
    untouched = len((await store.load(waiting.run_id)).log)
    with pytest.raises(SessionBusy) if way == "error" else nullcontext():
        await Runner.run(agent, "no", session=mine, store=store, run_config=WAYS[way])

    assert untouched == len(waiting.to_state().to_json()["log"])
    assert Kept.databases["b/1"] == []


async def test_a_session_that_holds_something_else_than_the_run_read_is_another_one(store):
    mine, theirs = Kept("1", "a"), Kept("1", "b")
    await mine.add_items([{"role": "user", "content": "I am Ana."}])
    await theirs.add_items([{"role": "user", "content": "I am Bo."}])
    await Runner.run(shop(), "pay", session=mine, store=store)

    result = await Runner.run(talker("Hello Bo."), "hi", session=theirs, store=store, run_config=SUPERSEDE)

    assert result.final_output == "Hello Bo."


async def test_a_key_that_looks_like_anothers_finds_nothing(store):
    await Runner.run(shop(), "my secret: pay", session=Named("1", "a"), store=store)
    theirs = Kept(session_key("1", "db:a"), "b")

    result = await Runner.run(talker("Hello you."), "hi", session=theirs, store=store, run_config=SUPERSEDE)

    assert result.final_output == "Hello you."


async def test_a_place_is_a_text():
    session = Named("1", "a")
    session.kept_in = 7  # type: ignore[assignment]

    with pytest.raises(UserError, match="kept_in"):
        await Runner.run(talker("Hi."), "hi", session=session)


# -- in memory ---------------------------------------------------------------------------------------------------------


async def test_a_run_outlives_its_session_in_memory_and_goes_on_with_a_new_one_under_its_id(store):
    effects: list[str] = []
    agent, session = shop(effects), InMemorySession("1")
    text = (await Runner.run(agent, "pay", session=session, store=store)).to_state().to_string()
    del session
    gc.collect()
    state = await RunState.from_string(agent, text)
    state.approve("c1")

    result = await Runner.run(agent, state, session=InMemorySession("1"), store=store)

    assert (result.final_output, effects) == ("Paid.", ["paid 5"])


_FORKED = """
import asyncio, multiprocessing, sys
from placet import InMemorySession
def name(pipe): pipe.send(InMemorySession("1").kept_in)
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    names = [InMemorySession("1").kept_in]
    for _ in range(2):
        mine, theirs = context.Pipe()
        process = context.Process(target=name, args=(theirs,))
        process.start()
        names.append(mine.recv())
        process.join()
    print(len(set(names)))
"""


def test_sessions_in_memory_of_processes_that_were_forked_are_two():
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout.strip() == "3"


# -- rows of a time when only the id was written down ------------------------------------------------------------------


async def older(store, result) -> str:
    """The run as an older version would have left it in the store: its log does not say where the session is kept."""
    state = result.to_state()
    log = Log(mint("run"), os.urandom(16))
    for position, text in enumerate(state._log.lines):
        facts = list(read_line(text).facts)
        if position == 0:
            facts[0] = type(facts[0])(*[getattr(facts[0], name) for name in facts[0].__struct_fields__[:-1]])
        log.append(log.next_line(1.0, facts))
    run = state._run.copy()
    run.session_place = None
    await store.append(None, Log(log.run_id, log.key), [read_again(log, n) for n in range(len(log.lines))], run)
    return log.run_id


def read_again(log: Log, number: int):
    ahead = Log(log.run_id, log.key)
    for text in log.lines[:number]:
        ahead.adopt(text)
    return ahead.adopt(log.lines[number])


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_of_an_older_version_is_not_touched_by_a_message_and_is_decided_as_before(tmp_path, store, way):
    effects: list[str] = []
    agent, elsewhere = shop(effects), MemoryStore()
    begun = await Runner.run(agent, "my secret: pay", session=SQLiteSession("1", tmp_path / "a.db"), store=elsewhere)
    run_id = await older(store, begun)

    with pytest.raises(SessionBusy, match="it is not recorded") as busy:
        await Runner.run(
            talker("Hi."), "no", session=SQLiteSession("1", tmp_path / "c.db"), store=store, run_config=WAYS[way]
        )
    stored = await store.load(run_id)
    state = RunState.of_run(begun.to_state()._graph, stored.log, begun.to_state()._run.copy(), None, RunConfig().clock)
    state._run.session_place = None
    state.approve("c1")
    result = await Runner.run(agent, state, session=SQLiteSession("1", tmp_path / "a.db"), store=store)

    assert busy.value.run_id == run_id
    assert (result.final_output, effects) == ("Paid.", ["paid 5"])


async def test_a_run_of_an_older_version_does_not_block_a_session_that_says_something_else(tmp_path, store):
    mine, theirs = SQLiteSession("1", tmp_path / "a.db"), SQLiteSession("1", tmp_path / "b.db")
    await mine.add_items([{"role": "user", "content": "I am Ana."}])
    await theirs.add_items([{"role": "user", "content": "I am Bo."}])
    await older(store, await Runner.run(shop(), "pay", session=mine, store=MemoryStore()))

    result = await Runner.run(talker("Hello Bo."), "hi", session=theirs, store=store, run_config=SUPERSEDE)

    assert result.final_output == "Hello Bo."


# -- at a desk ---------------------------------------------------------------------------------------------------------


async def test_a_desk_is_told_where_a_session_is_kept_and_does_not_write_into_another_with_its_id(tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = open_store(url)
    sessions = {name: SQLiteSession("1", tmp_path / f"{name}.db", kept_in=name) for name in ("a", "b")}
    runs = {name: await Runner.run(shop(), f"pay {name}", session=sessions[name], store=store) for name in sessions}
    await store.close()

    async with Desk(url, agents=[talker("Paid.", "Paid.")], session_factory=lambda _, place: sessions[place]) as desk:
        for name in sessions:
            [request] = await desk.pending(run_id=runs[name].run_id)
            await desk.decide(request.id, "approve", by="ana")
            await desk.wait(runs[name].run_id, timeout=120)
        texts = {name: json.dumps(await each.get_items()) for name, each in sessions.items()}

    assert ("pay a" in texts["a"], "pay b" in texts["a"]) == (True, False)
    assert ("pay a" in texts["b"], "pay b" in texts["b"]) == (False, True)


async def test_a_desk_whose_factory_opens_another_file_stops_and_says_so(tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = open_store(url)
    paused = await Runner.run(shop(), "pay", session=SQLiteSession("1", tmp_path / "a.db"), store=store)
    await store.close()
    other = SQLiteSession("1", tmp_path / "b.db")

    async with Desk(url, agents=[talker("Paid.")], session_factory=lambda _name: other) as desk:
        [request] = await desk.pending()
        await desk.decide(request.id, "approve", by="ana")
        run = await desk.wait(paused.run_id, until="paused", timeout=120)

    assert "pass the same session" in (run.stopped or "")
    assert await other.get_items() == []
