"""A program starts without being told a model, and may say which provider a name means."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agents import (
    Agent,
    AgentOutputSchema,
    Model,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    MultiProvider,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    Usage,
    UserError,
    function_tool,
    set_default_openai_api,
    set_default_openai_key,
)
from placet.agents.models import get_default_model, get_default_model_settings
from placet.agents.testing import ScriptedModel, assistant_message, function_call
from placet.models.openai_client import Defaults, defaults


@pytest.fixture(autouse=True)
def nothing_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_DEFAULT_MODEL", raising=False)
    for name in ("key", "client", "use_responses"):
        monkeypatch.setattr(defaults, name, getattr(Defaults, name))


class Named(Model):
    """A model written for the SDK's protocol."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.asked: list[dict[str, Any]] = []

    async def get_response(
        self,
        system_instructions,
        input,
        model_settings,
        tools,
        output_schema,
        handoffs,
        tracing,
        *,
        previous_response_id,
        conversation_id,
        prompt,
    ):  # type: ignore[no-untyped-def]  # the SDK's own signature
        self.asked.append({"tools": tools, "input": input, "settings": model_settings, "schema": output_schema})
        return ModelResponse([assistant_message(f"I am {self.name}")], Usage(requests=1), None)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError


class Provider(ModelProvider):
    def get_model(self, model_name: str | None) -> Model:
        return Named(model_name)


async def test_the_runs_provider_says_which_model_a_name_means():
    result = await Runner.run(Agent(name="A", model="anything"), "hi", run_config=RunConfig(model_provider=Provider()))

    assert result.final_output == "I am anything"


async def test_an_agent_without_a_model_has_the_providers_default():
    result = await Runner.run(Agent(name="A"), "hi", run_config={"model_provider": Provider()})

    assert result.final_output == "I am None"


async def test_a_model_of_the_sdks_protocol_is_given_the_declarations():
    @function_tool
    def look(n: int) -> str:
        return str(n)

    model = Named("x")
    await Runner.run(Agent(name="A", tools=[look], model=model, model_settings={"temperature": 0.5}), "hi")

    asked = model.asked[0]
    assert asked["tools"] == [look]
    assert asked["input"] == [{"role": "user", "content": "hi"}]
    assert asked["settings"] == ModelSettings(temperature=0.5)


async def test_an_output_schema_of_ones_own_is_given_to_the_model_and_reads_the_output():
    class AnyDict(AgentOutputSchema):
        def __init__(self) -> None:
            super().__init__(dict[str, int], strict_json_schema=False)

    model = ScriptedModel([[assistant_message('{"a": 1}')]])
    result = await Runner.run(Agent(name="A", model=model, output_type=AnyDict()), "hi")

    assert result.final_output == {"a": 1}
    assert model.last_call is not None
    assert model.last_call.output_schema.is_strict_json_schema() is False


def test_a_schema_that_cannot_be_strict_says_what_to_do():
    with pytest.raises(UserError, match="strict_json_schema=False"):
        AgentOutputSchema(dict[str, int])


def test_the_default_model_is_the_sdks_and_the_environment_may_say_otherwise(monkeypatch):
    assert get_default_model() == "gpt-5.6-luna"
    assert get_default_model_settings().verbosity == "low"
    assert get_default_model_settings("gpt-4.1") == ModelSettings()

    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "GPT-4.1")

    assert get_default_model() == "gpt-4.1"


def test_a_bare_name_means_the_api_that_the_process_chose():
    assert isinstance(OpenAIProvider().get_model("gpt-5"), OpenAIResponsesModel)

    set_default_openai_api("chat_completions")

    assert isinstance(OpenAIProvider().get_model("gpt-5"), OpenAIChatCompletionsModel)
    with pytest.raises(UserError, match="'grpc'"):
        set_default_openai_api("grpc")


async def test_a_key_that_the_process_set_is_the_clients():
    set_default_openai_key("sk-of-the-process")
    model = OpenAIProvider().get_model("gpt-5")

    assert (await model._client.get()).api_key == "sk-of-the-process"  # type: ignore[attr-defined]


def test_prefixes_lead_to_providers():
    found = MultiProvider(provider_map={"mine": Provider()})

    assert found.get_model("mine/a/b").name == "a/b"  # type: ignore[attr-defined]
    assert found.get_model("openai/gpt-5").model == "gpt-5"  # type: ignore[attr-defined]
    assert found.get_model(None).model == "gpt-5.6-luna"  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="Unknown prefix: whose"):
        found.get_model("whose/model")


def test_an_unknown_prefix_may_be_part_of_the_name():
    found = MultiProvider(unknown_prefix_mode="model_id", openai_prefix_mode="model_id")

    assert found.get_model("meta/llama").model == "meta/llama"  # type: ignore[attr-defined]
    assert found.get_model("openai/gpt-5").model == "openai/gpt-5"  # type: ignore[attr-defined]


def test_responses_over_a_websocket_are_refused():
    with pytest.raises(UserError, match="WebSocket"):
        OpenAIProvider(use_responses_websocket=True)


async def test_a_script_may_be_longer_than_the_run_and_says_so():
    model = ScriptedModel()
    model.enqueue([function_call("nothing", {}, call_id="c")])
    model.extend([[assistant_message("bye")], [assistant_message("unused")]])
    result = await Runner.run(Agent(name="A", model=model), "hi")

    assert result.final_output == "bye"
    assert model.remaining_steps == 1
    with pytest.raises(Exception, match="1 scripted steps were not used"):
        model.assert_complete()
