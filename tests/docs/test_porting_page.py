"""What the page on porting shows is true of the code beside it."""

from __future__ import annotations

import json

import httpx2 as httpx  # what the client library speaks through
import openai
import pydantic
import pytest

from placet import Agent, ModelSettings, RequestNotTaken, Runner, function_tool
from tests.docs.pages import DOCS, blocks_of

PAGE = DOCS / "porting.md"


def model_of_the_page(answers: list[httpx.Response], seen: list[dict[str, object]]):
    """The page's own adapter, on the real client library with a transport that answers from a list."""

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return answers.pop(0)

    transport = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = openai.AsyncOpenAI(api_key="none", base_url="https://api.invalid", max_retries=0, http_client=transport)
    (block,) = [block for block in blocks_of(PAGE) if "class ResponsesModel" in block.text]
    namespace: dict[str, object] = {}
    exec(block.text, namespace)  # noqa: S102  # our own documentation
    return namespace["ResponsesModel"]("gpt-test", client)


def a_response(response_id: str, output: list[dict[str, object]]) -> httpx.Response:
    usage = {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }
    body = {"id": response_id, "object": "response", "created_at": 0, "model": "gpt-test", "output": output}
    return httpx.Response(200, json={**body, "usage": usage, "parallel_tool_calls": True, "tools": []})


def test_the_example_ports_by_changing_the_import() -> None:
    before, after = [block.text for block in blocks_of(PAGE) if block.text.startswith("from ")][:2]

    assert before.replace("from agents", "from placet") == after


async def test_the_adapter_on_the_page_drives_a_run_on_the_real_client_library() -> None:
    @function_tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":1,"b":2}'}
    text = {"type": "output_text", "text": "It is 3.", "annotations": []}
    message = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [text]}
    seen: list[dict[str, object]] = []
    model = model_of_the_page([a_response("resp_1", [call]), a_response("resp_2", [message])], seen)
    result = await Runner.run(Agent(name="A", tools=[add], model=model), "1 + 2?", auto_previous_response_id=True)

    assert result.final_output == "It is 3."
    assert result.context_wrapper.usage.total_tokens == 14
    assert seen[1]["input"] == [{"type": "function_call_output", "call_id": "c1", "output": "3"}]
    assert seen[1]["previous_response_id"] == "resp_1"


async def test_the_adapter_on_the_page_passes_on_the_output_schema_and_the_common_settings() -> None:
    class Verdict(pydantic.BaseModel):
        fair: bool

    text = {"type": "output_text", "text": '{"fair": true}', "annotations": []}
    message = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [text]}
    seen: list[dict[str, object]] = []
    model = model_of_the_page([a_response("resp_1", [message])], seen)
    settings = ModelSettings(temperature=0.5, max_tokens=7, tool_choice="auto", store=False)
    agent = Agent(name="A", model=model, model_settings=settings, output_type=Verdict)
    result = await Runner.run(agent, "Is it fair?")

    assert result.final_output == Verdict(fair=True)
    assert seen[0]["text"]["format"]["schema"]["required"] == ["fair"]
    assert [seen[0][name] for name in ("temperature", "max_output_tokens", "tool_choice", "store")] == [
        0.5,
        7,
        "auto",
        False,
    ]


async def test_the_adapter_on_the_page_tells_a_refused_request_from_a_lost_one() -> None:
    answers = [httpx.Response(429, json={}), httpx.Response(500, json={})]
    agent = Agent(name="A", model=model_of_the_page(answers, []))

    with pytest.raises(RequestNotTaken):
        await Runner.run(agent, "Hello?")
    with pytest.raises(openai.InternalServerError):
        await Runner.run(agent, "Hello?")
