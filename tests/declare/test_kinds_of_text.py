"""Texts and numbers of somebody's own kind (markup, enums, numbers of arrays): taken for what they say, everywhere."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Grant, InMemorySession, MemoryStore, RunConfig, Runner, RunState, SQLiteSession, function_tool
from placet.desk import Desk
from placet.facts.codec import canonical, encode, exact, plain
from placet.testing import ScriptedModel, assistant_message, function_call


class Markup(str):
    """Such as template engines, arrays and XML readers give: their own str() and sums say something else."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"<{str.__str__(self)}>"

    def __add__(self, other: object) -> Markup:
        return Markup("escaped")


class Colour(str, enum.Enum):  # noqa: UP042  # the older way, whose str() is not its value
    RED = "red"


class Count(int):
    def __repr__(self) -> str:
        return "many"


class Amount(float):
    def __repr__(self) -> str:
        return "much"


class Level(enum.IntEnum):
    HIGH = 3


def in_an_enum(text: str) -> Any:
    """As `class One(str, Enum): ONLY = text` has it: its str() is not its value, nor is its name."""
    return enum.Enum("One", {"ONLY": text}, type=str).ONLY  # type: ignore[attr-defined]


KINDS: list[Callable[[str], Any]] = [Markup, in_an_enum]


def test_what_json_makes_of_them() -> None:
    value = {Markup("k"): [Markup("a"), Colour.RED, Count(2), Amount(1.5), Level.HIGH, True]}

    found = plain(value)
    assert json.dumps(found) == '{"k": ["a", "red", 2, 1.5, 3, true]}'
    assert isinstance(found, dict)
    listed = found["k"]
    assert isinstance(listed, list)
    assert [type(each) for each in (*found, *listed)] == [str, str, str, int, float, int, bool]
    assert encode(value) == canonical(value) == b'{"k":["a","red",2,1.5,3,true]}'


def test_what_is_none_of_them_is_still_refused() -> None:
    assert exact(object) is object
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        encode({"a": object()})


def agent_of(output: Any, *steps: Any, **options: Any) -> Agent[Any]:
    @function_tool(needs_approval=True)
    async def fetch(page: str) -> Any:
        return output

    script = [[function_call("fetch", {"page": "a"}, call_id="c1")], *steps, [assistant_message("done")]]
    return Agent("reader", tools=[fetch], model=ScriptedModel(script), **options)


def texts_in(value: Any) -> list[Any]:
    """All texts and numbers in a value, at any depth."""
    if isinstance(value, dict):
        return [each for pair in value.items() for part in pair for each in texts_in(part)]
    return [each for part in value for each in texts_in(part)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("kind", KINDS, ids=["markup", "enum"])
@pytest.mark.parametrize(
    "output", ["text", {"title": "x"}, [1, "x"]], ids=["a text", "a dict that holds one", "a list that holds one"]
)
async def test_a_tool_returns_one(kind: Any, output: Any) -> None:
    def dressed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: dressed(each) for name, each in value.items()}
        if isinstance(value, list):
            return [dressed(each) for each in value]
        return kind(value) if isinstance(value, str) else Count(value)

    agent = agent_of(dressed(output))
    state = (await Runner.run(agent, "go", store=MemoryStore())).to_state()
    state.approve("c1")
    result = await Runner.run(agent, state, store=MemoryStore())

    sent = agent.model.calls[1].input[-1]["output"]  # type: ignore[union-attr]
    assert type(sent) is str
    assert sent == (output if isinstance(output, str) else json.dumps(output, separators=(",", ":")))
    assert (await RunState.from_string(agent, result.to_state().to_string())).has_ended


@pytest.mark.parametrize("kind", KINDS, ids=["markup", "enum"])
async def test_words_about_a_call_are_given_in_one(kind: Any) -> None:
    agent = agent_of(
        "x", [function_call("fetch", {"page": "b"}, call_id="c2")], [function_call("fetch", {"page": "b"})]
    )
    state = (await Runner.run(agent, kind("go"), store=MemoryStore())).to_state()
    state.approve(kind("c1"), by=kind("ana"), reason=kind("fine"), arguments={kind("page"): kind("z")})
    state.add_input(kind("and more"))
    text = state.to_string()
    paused = await Runner.run(agent, await RunState.from_string(agent, text), store=MemoryStore())
    state = paused.to_state()
    bounds = Grant(arguments={"page": kind("b")})
    state.reject("c2", always_reject=bounds, by=kind("ben"), reason=kind("no"), rejection_message=kind("never"))
    result = await Runner.run(agent, await RunState.from_string(agent, state.to_string()), store=MemoryStore())

    assert result.final_output == "done"
    log = result.to_state().to_string()
    for word in ("ana", "fine", '"z"', "and more", "ben", "never"):
        assert word in log
    assert "<" not in log
    assert "ONLY" not in log


@pytest.mark.parametrize("kind", KINDS, ids=["markup", "enum"])
async def test_an_answer_is_given_in_one(kind: Any) -> None:
    agent = agent_of("x")
    state = (await Runner.run(agent, "go", store=MemoryStore())).to_state()
    state.respond("c1", kind("it says"))
    await Runner.run(agent, state, store=MemoryStore())

    sent = agent.model.calls[1].input[-1]["output"]  # type: ignore[union-attr]
    assert type(sent) is str
    assert sent == "it says"


@pytest.mark.parametrize("kind", KINDS, ids=["markup", "enum"])
async def test_names_are_given_in_one(kind: Any, tmp_path: Path) -> None:
    agent = Agent(kind("reader"), instructions=kind("Read."), model=ScriptedModel([[assistant_message("done")]] * 3))
    for session in (InMemorySession(kind("s1")), SQLiteSession(kind("s1"), tmp_path / "sessions.db")):
        result = await Runner.run(agent, kind("go"), session=session, store=MemoryStore())
        assert result.final_output == "done"
        assert len(await session.get_items()) == 2
    chained = await Runner.run(agent, "go", previous_response_id=kind("resp_1"), store=MemoryStore())

    started = chained.to_state().to_json()["log"][0][1][0]
    assert all(type(each) in (str, int, float, bool, type(None)) for each in texts_in(started))
    assert "reader" in started
    assert "resp_1" in started


@pytest.fixture
def the_postgres(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return lambda: request.getfixturevalue("postgres")


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.parametrize("kind", KINDS, ids=["markup", "enum"])
async def test_a_desk_is_given_them(kind: Any, where: str, tmp_path: Path, the_postgres: Callable[[], Any]) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}" if where == "sqlite" else the_postgres().store_database()
    agent = agent_of(kind("page"))
    async with Desk(url, agents=[agent]) as desk:
        run = await desk.start(kind("reader"), kind("go"), by=kind("ana"))
        await desk.wait(run.id, until="paused", timeout=120)
        (request,) = await desk.pending(run_id=kind(run.id))
        await desk.decide(kind(request.id), "approve", by=kind("ben"), reason=kind("fine"))
        ended = await desk.wait(run.id, until="ended", timeout=120)
        await desk.hold("tool", kind("fetch"), by=kind("ana"), reason=kind("pause"))
        assert await desk.release_hold("tool", kind("fetch"), by=kind("ana"))
        decided = await desk.request(request.id)

    assert (ended.final_output, ended.started_by) == ("done", "ana")
    assert (decided.decided_by, decided.reason) == ("ben", "fine")


async def test_what_a_model_object_answers_may_hold_them() -> None:
    call = function_call("fetch", {"page": "a"}, call_id="c1")
    answer = {**call, "name": Markup("fetch"), "arguments": Markup('{"page": "a"}'), "call_id": Markup("c1")}
    agent = agent_of("x")
    agent.model = ScriptedModel([[answer], [assistant_message("done")]])
    state = (await Runner.run(agent, "go", store=MemoryStore(), run_config=RunConfig())).to_state()
    state.approve("c1")
    result = await Runner.run(agent, state, store=MemoryStore())

    assert result.final_output == "done"
