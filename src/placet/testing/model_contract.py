"""What every model must do, as tests that any `Model` inherits: answer, stream the same answer, leave input alone."""

from __future__ import annotations

import copy
from abc import abstractmethod

from placet.facts.codec import JsonObject
from placet.facts.events import Usage
from placet.facts.items import ModelResponse
from placet.ports import Model, ModelRequest, RawEvent

QUESTION: JsonObject = {"role": "user", "content": "hello"}


class ModelContract:
    """Inherit, give `make_model`, and run it with pytest in asyncio mode: each `test_…` is one rule of the port."""

    @abstractmethod
    def make_model(self, output: list[JsonObject]) -> Model:
        """A model that answers its next request with these items."""

    async def test_it_answers_with_a_response(self) -> None:
        model = self.make_model([message("hi")])

        response = await model.get_response(ModelRequest([QUESTION]))

        assert isinstance(response, ModelResponse)
        assert [item["type"] for item in response.to_input_items()] == ["message"]
        assert isinstance(response.usage, Usage)

    async def test_a_streamed_answer_ends_with_the_whole_response_and_brings_only_raw_events_before_it(self) -> None:
        model = self.make_model([message("hi there")])

        parts = [part async for part in model.stream_response(ModelRequest([QUESTION]))]

        assert isinstance(parts[-1], ModelResponse)
        assert all(isinstance(part, RawEvent) for part in parts[:-1])

    async def test_streamed_or_not_the_answer_is_the_same(self) -> None:
        output = [message("hi there")]

        plain = await self.make_model(output).get_response(ModelRequest([QUESTION]))
        streamed = [part async for part in self.make_model(output).stream_response(ModelRequest([QUESTION]))][-1]

        assert isinstance(streamed, ModelResponse)
        assert streamed.to_input_items() == plain.to_input_items()

    async def test_calls_keep_their_names_labels_and_arguments(self) -> None:
        call: JsonObject = {"type": "function_call", "name": "pay", "arguments": '{"n": 1}', "call_id": "c1"}

        response = await self.make_model([call]).get_response(ModelRequest([QUESTION]))
        [item] = response.to_input_items()

        assert (item["name"], item["arguments"], item["call_id"]) == ("pay", '{"n": 1}', "c1")

    async def test_it_changes_nothing_of_what_it_is_given(self) -> None:
        items: list[JsonObject] = [
            QUESTION,
            {**message("before"), "content": [{"type": "output_text", "text": "before"}]},
        ]
        before = copy.deepcopy(items)

        await self.make_model([message("hi")]).get_response(ModelRequest(items))

        assert items == before


def message(text: str) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
