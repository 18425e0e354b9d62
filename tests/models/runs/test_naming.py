"""Models by name: which provider a name means, what is missing said in one sentence, one client per loop."""

from __future__ import annotations

import asyncio
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Agent, RunConfig, Runner, UserError
from placet.models import (
    AnthropicModel,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    naming,
    openai_client,
    shared_clients,
)
from placet.models.naming import resolve
from placet.testing import function_call
from placet.testing.provider import FakeProvider
from tests.models.runs.scenes import DONE, drive, shop


@pytest.fixture(autouse=True)
def fresh_names() -> Iterator[None]:
    resolve.cache_clear()
    yield
    resolve.cache_clear()


@pytest.mark.parametrize(
    ("name", "kind", "model"),
    [
        ("gpt-5", OpenAIResponsesModel, "gpt-5"),
        ("openai/gpt-5", OpenAIResponsesModel, "gpt-5"),
        ("openai-chat/gpt-5", OpenAIChatCompletionsModel, "gpt-5"),
        ("anthropic/claude-x", AnthropicModel, "claude-x"),
        ("openai-chat/meta/llama", OpenAIChatCompletionsModel, "meta/llama"),
    ],
)
def test_a_name_says_which_provider_is_asked(name: str, kind: type, model: str) -> None:
    found: Any = resolve(name)

    assert isinstance(found, kind)
    assert found.model == model
    assert resolve(name) is found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("acme/gpt-5", "No provider 'acme'"),
        ("openai/", "names no model"),
        ("claude-x", "anthropic/claude-x"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_what_to_write(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        resolve(name)


@pytest.mark.parametrize("way", ["agent", "config"])
async def test_an_agent_runs_on_a_model_by_name(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = FakeProvider([[function_call("look_up", {"order": "8"}, call_id="c1")], DONE])
    async with provider.serve() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        agent = shop("gpt-test" if way == "agent" else "anthropic/claude-x").agent
        config = RunConfig(model="openai/gpt-test") if way == "config" else RunConfig()
        result = await Runner.run(agent, "hello", run_config=config)

    assert result.final_output == "It is done."
    assert [request.body["model"] for request in provider.model_requests] == ["gpt-test", "gpt-test"]


@pytest.mark.parametrize(
    ("name", "variable"),
    [("gpt-5", "OPENAI_API_KEY"), ("openai-chat/gpt-5", "OPENAI_API_KEY"), ("anthropic/claude-x", "ANTHROPIC_API_KEY")],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_a_missing_key_is_one_sentence_that_says_what_to_set(name: str, variable: str, streamed: bool) -> None:
    agent = Agent(name="Shop", model=name)

    with pytest.raises(UserError, match=variable) as caught:
        await drive(agent, "hello", streamed=streamed)

    assert str(caught.value).count("\n") == 0
    assert caught.value.state is not None


@pytest.mark.parametrize(
    ("name", "package"), [("gpt-5", "openai"), ("openai-chat/gpt-5", "openai"), ("anthropic/claude-x", "anthropic")]
)
async def test_a_missing_extra_is_one_sentence_that_says_what_to_install(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(UserError, match=rf"pip install 'placet\[{package}\]'"):
        await Runner.run(Agent(name="Shop", model=name), "hello")


async def test_a_key_that_is_set_later_lets_the_same_run_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = FakeProvider([DONE])
    agent = Agent(name="Shop", model="gpt-test")
    with pytest.raises(UserError) as caught:
        await Runner.run(agent, "hello")
    async with provider.serve() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        result = await Runner.run(agent, caught.value.state)  # type: ignore[arg-type]  # it is attached

    assert result.final_output == "It is done."


# -- entry points


def _entry(name: str, value: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, naming.GROUP)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([_entry("acme", "no_such_module:Model")], "cannot be loaded"),
        ([_entry("acme", "placet.models.naming:nobody")], "cannot be loaded"),
        ([_entry("acme", "placet.models.naming:GROUP")], "no function or class"),
        ([_entry("acme", "builtins:str")], "made a str"),
        ([_entry("acme", "builtins:str"), _entry("acme", "builtins:int")], "uninstall one"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused_in_words(
    entries: list[Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "entry_points", lambda **_: entries)

    with pytest.raises(UserError, match=words):
        resolve("acme/rocket")


def test_our_own_names_are_not_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "entry_points", lambda **_: [_entry("openai", "builtins:str")])

    assert isinstance(resolve("openai/gpt-5"), OpenAIResponsesModel)


# -- clients


async def test_all_models_of_a_loop_share_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    one = await openai_client.OpenAIClient("a", None).get()
    other = await openai_client.OpenAIClient("b", None).get()
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    third = await openai_client.OpenAIClient("b", None).get()

    assert one is other
    assert third is not one
    assert one.max_retries == 0


def test_a_loop_that_ends_closes_its_clients() -> None:
    closed = []

    class Client:
        async def close(self) -> None:
            closed.append(asyncio.get_running_loop())

    async def use() -> Any:
        client = await shared_clients.shared_client("test", Client)
        assert await shared_clients.shared_client("test", Client) is client
        return asyncio.get_running_loop()

    loop = asyncio.run(use())
    assert closed == [loop]


def test_programs_with_run_sync_leave_no_connection_behind(tmp_path: Path) -> None:
    """Two runs in one process, each with its loop, every warning an error."""
    provider = FakeProvider([DONE, DONE])
    program = (
        "from placet import Agent, Runner\n"
        "agent = Agent(name='Shop', model='gpt-test')\n"
        "print(Runner.run_sync(agent, 'hello').final_output)\n"
        "print(Runner.run_sync(agent, 'hello').final_output)\n"
    )
    with provider.serve() as url:
        env = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "secret", "PATH": ""}
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603  # our own program

    assert (done.stdout, done.stderr) == ("It is done.\nIt is done.\n", "")


def test_names_and_runtime_import_no_client() -> None:
    program = (
        "import sys, placet\n"
        "from placet.models.naming import resolve\n"
        "for name in ('gpt-5', 'openai-chat/gpt-5', 'anthropic/claude-x'): resolve(name)\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'pydantic') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)  # noqa: S603  # our own program

    assert done.stdout == "[]\n"
