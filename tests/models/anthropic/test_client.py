"""Where the client comes from: one that is given, or the environment's; what is missing is said in one sentence."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from placet import Agent, ModelRequest, ProviderError, Runner, UserError
from placet.models import AnthropicModel
from placet.testing import assistant_message
from placet.testing.provider import FakeProvider, server_error

HELLO = ModelRequest([{"role": "user", "content": "Hello"}], output_schema={"type": "object", "properties": {}})


async def test_without_a_key_one_sentence_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path_factory.mktemp("nothing")))

    with pytest.raises(UserError, match="'claude-x' needs a key: set ANTHROPIC_API_KEY, or pass client="):
        await AnthropicModel("claude-x").get_response(HELLO)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    model = AnthropicModel("claude-x")

    asked = anext(aiter(model.stream_response(HELLO))) if streamed else model.get_response(HELLO)
    with pytest.raises(UserError, match=r"pip install 'placet\[anthropic\]'"):
        await asked


def test_the_clients_package_is_not_imported_before_the_first_request() -> None:
    script = (
        "import sys; from placet.models import AnthropicModel, OpenAIChatCompletionsModel; "
        "AnthropicModel('claude-x'); OpenAIChatCompletionsModel('gpt-x'); "
        "print('anthropic' in sys.modules, 'openai' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout == "False False\n"


def test_one_client_serves_all_runs_of_a_loop_and_is_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = FakeProvider([[assistant_message("One.")], [assistant_message("Two.")], [assistant_message("Three.")]])

    async def twice() -> list[object]:
        agents = [Agent(name="Shop", model=AnthropicModel("claude-x")) for _ in range(2)]
        return [(await Runner.run(agent, "Hello")).final_output for agent in agents]

    with provider.serve() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        told = asyncio.run(twice())
        once_more = Runner.run_sync(Agent(name="Shop", model="anthropic/claude-x"), "Hello").final_output

    assert [*told, once_more] == ["One.", "Two.", "Three."]


async def test_the_clients_own_retries_are_off_whoever_made_it() -> None:
    provider = FakeProvider([server_error(), [assistant_message("Late.")]])
    async with provider.anthropic_client(max_retries=5) as client:
        model = AnthropicModel("claude-x", client)
        with pytest.raises(ProviderError, match="answered 500"):
            await model.get_response(ModelRequest([{"role": "user", "content": "Hello"}]))

    assert len(provider.model_requests) == 1
