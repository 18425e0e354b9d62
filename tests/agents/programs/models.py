"""A model and a provider of a program's own, and prefixes that lead to them."""

import asyncio

from agents import Agent, Model, ModelProvider, ModelResponse, MultiProvider, RunConfig, Runner, Usage
from agents.models.multi_provider import MultiProviderMap
from agents.testing import assistant_message


class Echo(Model):
    def __init__(self, name):
        self.name = name

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
    ):
        text = input if isinstance(input, str) else input[-1]["content"]
        return ModelResponse(
            output=[assistant_message(f"{self.name}: {text}")],
            usage=Usage(requests=1, input_tokens=4, output_tokens=2, total_tokens=6),
            response_id="r1",
        )

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


class Provider(ModelProvider):
    def get_model(self, model_name):
        return Echo(model_name)


async def main() -> None:
    result = await Runner.run(Agent(name="A", model=Echo("direct")), "hi")
    print(result.final_output, result.last_response_id)
    result = await Runner.run(Agent(name="A"), "hi", run_config=RunConfig(model_provider=Provider()))
    print(result.final_output)
    providers = MultiProviderMap()
    providers.add_provider("echo", Provider())
    config = RunConfig(model_provider=MultiProvider(provider_map=providers))
    result = await Runner.run(Agent(name="A", model="echo/small"), "hi", run_config=config)
    print(result.final_output)
    usage = result.context_wrapper.usage
    print(usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens)
    print(len(usage.request_usage_entries), usage.input_tokens_details.cached_tokens)


asyncio.run(main())
