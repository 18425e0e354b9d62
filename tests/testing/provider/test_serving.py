"""The provider from elsewhere: from a thread, to blocking clients, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from placet.facts.errors import UserError
from placet.testing import assistant_message, function_call
from placet.testing.provider import FakeProvider, Gate, held, no_answer, slow, stream_cut
from placet.testing.provider.script_file import DOING, read_script

HI = [assistant_message("hi")]


def test_a_blocking_client_is_served_from_a_thread() -> None:
    provider = FakeProvider([HI, slow(HI, seconds=0)])

    with provider.serve() as url, openai.OpenAI(base_url=url, api_key="secret", max_retries=0) as client:
        plain = client.responses.create(model="m", input="hello")
        events = list(client.responses.create(model="m", input="hello", stream=True))

    assert (plain.output_text, events[-1].type) == ("hi", "response.completed")
    provider.assert_complete()


def test_a_blocking_client_is_served_in_the_same_process() -> None:
    gate = Gate()
    provider = FakeProvider([held(HI, gate), stream_cut(HI, after=2), no_answer()])
    http_client = httpx2.Client(transport=provider.transport())
    options: Any = {"base_url": "http://provider.test", "api_key": "secret", "max_retries": 0}
    threading.Thread(target=lambda: (asyncio.run(gate.reached()), gate.open())).start()

    with openai.OpenAI(http_client=http_client, **options) as client:
        plain = client.responses.create(model="m", input="hello")
        with pytest.raises(openai.APIConnectionError):
            list(client.responses.create(model="m", input="hello", stream=True))
        with pytest.raises(openai.APITimeoutError):
            client.responses.create(model="m", input="hello", timeout=0.05)

    assert plain.output_text == "hi"
    provider.assert_complete()


def test_many_threads_share_one_provider() -> None:
    provider = FakeProvider([HI] * 40)
    answers: list[str] = []

    def ask(url: str) -> None:
        with openai.OpenAI(base_url=url, api_key="secret", max_retries=0) as client:
            answers.extend(client.responses.create(model="m", input="hello").output_text for _ in range(10))

    with provider.serve() as url:
        threads = [threading.Thread(target=ask, args=(url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)

    assert answers == ["hi"] * 40
    provider.assert_complete()


async def test_one_connection_serves_many_requests_and_bodies_in_chunks() -> None:
    provider = FakeProvider([HI, HI])
    body = json.dumps({"model": "m", "input": "hello"}).encode()

    async def in_chunks() -> Any:
        yield body[:10]
        yield body[10:]

    async with provider.serve() as url, httpx2.AsyncClient(headers={"authorization": "Bearer x"}) as client:
        first = await client.post(f"{url}/v1/responses", content=body)
        second = await client.post(f"{url}/responses", content=in_chunks())

    assert [first.status_code, second.status_code] == [200, 200]
    assert [request.path for request in provider.requests] == ["/responses", "/responses"]


@contextmanager
def running(script: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "placet.testing.provider", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
    assert process.returncode == 0


def test_another_process_serves_a_script_and_tells_what_it_got(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    steps: list[Any] = [
        {"do": "server_error", "status": 503, "answered": HI},
        [function_call("pay", {"n": 1}, call_id="c1")],
        {"output": HI, "response_id": "resp_last", "usage": {"input_tokens": 3, "output_tokens": 4}},
        {"do": "slow", "output": {"do": "incomplete", "output": HI}, "seconds": 0},
    ]
    script.write_text(json.dumps({"steps": steps}))

    with running(script) as url, openai.OpenAI(base_url=url, api_key="secret", max_retries=0) as client:
        with pytest.raises(openai.InternalServerError):
            client.responses.create(model="m", input="hello")
        first = client.responses.create(model="m", input="hello")
        output: Any = {"type": "function_call_output", "call_id": "c1", "output": "done"}
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="m", input="and?", previous_response_id=first.id)
        second = client.responses.create(model="m", input=[output], previous_response_id=first.id)
        third = client.responses.create(model="m", input="hello")
        told = httpx2.get(f"{url}/provider").json()

    assert (second.id, second.usage.input_tokens, third.status) == ("resp_last", 3, "incomplete")
    assert (told["steps_left"], told["script_errors"]) == (0, [])
    assert [request["status"] for request in told["requests"]] == [503, 200, 400, 200, 200]
    assert "secret" not in json.dumps(told)
    assert told["refusals"] == ["POST /responses: No tool output found for function call c1."]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "is not JSON"),
        ('{"stages": []}', "list of steps"),
        ("[7]", "step 1 .* neither a list of items nor an object"),
        ('[[], {"do": "explode"}]', "step 2 .* says 'explode', and there is only: .*server_error"),
        ('[{"do": "rate_limited", "status": 1}]', "step 1 .* does not fit"),
        ('[{"outputs": []}]', "needs `output`"),
    ],
)
def test_a_script_that_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    script = tmp_path / "script.json"
    script.write_text(text)

    with pytest.raises(UserError, match=complaint):
        read_script(script)


def test_a_missing_script_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "placet.testing.provider", str(tmp_path / "none.json")]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603

    assert ended.returncode == 2
    assert "cannot be read: No such file" in ended.stderr


def test_every_fault_can_be_written_in_a_file() -> None:
    from placet.testing import provider

    functions = {name for name in provider.__all__ if name.islower()}

    assert functions - {"held"} == set(DOING)
