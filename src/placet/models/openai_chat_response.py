"""From a chat completion to the items of a run: whole, or put together from the pieces of a stream.

Servers that speak this API differ in the details. The rules for reading them are here, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import ModelBehaviorError, ProviderError
from placet.facts.events import Usage
from placet.facts.items import ModelResponse
from placet.models.openai_chat_request import API
from placet.models.provider_data import with_more_provider_data, with_provider_data

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where servers put what a model thought, as a text: it goes back under the same name."""
_MESSAGE_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call", *REASONING_FIELDS})
_CALL_FIELDS = frozenset({"id", "type", "index", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_TEXT_PART = {"type", "text"}
_CONSTANT = frozenset({"id", "type", "format", "index"})
"""Fields that a piece repeats, and does not continue."""
_CUT_OFF = {
    "length": "it reached its limit of output tokens (ModelSettings.max_tokens, or the model's own)",
    "content_filter": "the provider's content filter stopped it",
    "error": "the provider failed while it answered",
}


def as_response(completion: object, server: str, request_id: str | None = None) -> ModelResponse:
    """The completion's first choice. An answer that was cut short says why."""
    body = completion if isinstance(completion, dict) else {}
    choices = body.get("choices")
    found = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    if not found:
        raise ProviderError(
            f"{server} answered something that is no chat completion: it has no choices{_text_of(body)}.",
            request_id=request_id,
        )
    choice = min(found, key=_index)
    message = choice.get("message")
    identity = body.get("id")
    return ModelResponse(
        output=as_items(message, server, choice.get("logprobs")) if isinstance(message, dict) else [],
        usage=as_usage(body.get("usage")),
        response_id=identity if isinstance(identity, str) else None,
        request_id=request_id,
        incomplete=_CUT_OFF.get(str(choice.get("finish_reason"))),
    )


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _text_of(completion: Mapping[str, Any]) -> str:
    """Some servers answer an error with 200."""
    error = completion.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return f": {message}" if isinstance(message, str) and message else ""


def as_items(message: Mapping[str, Any], server: str, logprobs: object = None) -> list[JsonObject]:
    """Reasoning, text and calls, in this order; fields that are not known stay with the first of them."""
    items = [*_reasoning(message, server), *_texts(message, logprobs), *_calls(message, server)]
    beyond = _others(message, _MESSAGE_FIELDS)
    if _has_other_parts(message.get("content")):
        beyond["content"] = message["content"]
    if items and beyond:
        items[0] = with_more_provider_data(items[0], API, {"server": server, "message": beyond})
    return items


def _has_other_parts(content: object) -> bool:
    """Whether the content is a list of parts and holds more than texts: some servers put their thinking there."""
    return isinstance(content, list) and any(not isinstance(each, dict) or set(each) != _TEXT_PART for each in content)


def _reasoning(message: Mapping[str, Any], server: str) -> list[JsonObject]:
    for name in REASONING_FIELDS:
        text = message.get(name)
        if isinstance(text, str) and text:
            item: JsonObject = {
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": text}],
            }
            return [with_provider_data(item, API, {"server": server, "field": name})]
    return []


def _texts(message: Mapping[str, Any], logprobs: object) -> list[JsonObject]:
    parts: list[JsonObject] = [
        {"type": "output_text", "text": text, "annotations": []} for text in _content(message) if text
    ]
    likely = logprobs.get("content") if isinstance(logprobs, dict) else None
    if parts and likely:
        parts[0]["logprobs"] = likely
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    return [{"type": "message", "role": "assistant", "content": parts, "status": "completed"}] if parts else []


def _content(message: Mapping[str, Any]) -> list[str]:
    """The texts of the content: one, or (with some servers) a list of parts. A spoken answer is read by its script."""
    content = message.get("content")
    if isinstance(content, str) and content:
        return [content]
    if isinstance(content, list):
        return ["".join(str(part.get("text") or "") for part in content if isinstance(part, dict))]
    audio = message.get("audio")
    transcript = audio.get("transcript") if isinstance(audio, dict) else None
    return [transcript] if isinstance(transcript, str) else []


def _calls(message: Mapping[str, Any], server: str) -> list[JsonObject]:
    given = message.get("tool_calls")
    calls = [call for call in given if isinstance(call, dict)] if isinstance(given, list) else []
    if not calls and isinstance(message.get("function_call"), dict):  # the API's first way to call, still spoken
        calls = [{"function": message["function_call"]}]
    return [_call(call, server) for call in calls]


def _call(call: Mapping[str, Any], server: str) -> JsonObject:
    function = call.get("function")
    if not isinstance(function, dict):
        raise ModelBehaviorError(
            f"The model called a tool of the kind '{call.get('type')}', and only functions were offered to it."
        )
    item: JsonObject = {
        "type": "function_call",
        "name": function.get("name") or "",
        "arguments": arguments_text(function.get("arguments")),
        "status": "completed",
    }
    if isinstance(call.get("id"), str) and call["id"]:
        item["call_id"] = call["id"]
    beyond: JsonObject = {}
    if others := _others(call, _CALL_FIELDS):
        beyond["call"] = others
    if others := _others(function, _FUNCTION_FIELDS):
        beyond["function"] = others
    return with_provider_data(item, API, {"server": server, **beyond} if beyond else {})


def _others(given: Mapping[str, Any], known: frozenset[str]) -> JsonObject:
    """Fields that are not known and say something: an empty list of annotations says nothing."""
    return {name: value for name, value in given.items() if name not in known and value not in (None, "", [], {})}


def arguments_text(given: object) -> str:
    """The arguments as a JSON text; some servers give the object itself."""
    if isinstance(given, str):
        return given
    return "" if given is None else json.dumps(given, ensure_ascii=False)


def as_usage(given: object) -> Usage:
    usage = given if isinstance(given, dict) else {}
    read, written = _figure(usage, "prompt_tokens"), _figure(usage, "completion_tokens")
    return Usage(
        requests=1,
        input_tokens=read,
        output_tokens=written,
        total_tokens=_figure(usage, "total_tokens") or read + written,
        cached_tokens=_figure(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_figure(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cache_write_tokens=_figure(usage.get("prompt_tokens_details"), "cache_write_tokens"),
    )


def _figure(given: object, name: str) -> int:
    found = given.get(name) if isinstance(given, dict) else None
    return found if isinstance(found, int) else 0


# -- a stream ----------------------------------------------------------------------------------------------------------


class ChatAssembly:
    """Puts a completion together from its chunks. `whole()` gives the same as the same answer without a stream."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._usage: JsonObject | None = None
        self._finish: str | None = None
        self._message: JsonObject = {}
        self._logprobs: object = None
        self._calls = CallAssembly()
        self.is_begun = False

    def add(self, chunk: Mapping[str, Any]) -> None:
        self.is_begun = True
        if isinstance(chunk.get("id"), str):
            self._id = self._id or chunk["id"]
        if isinstance(chunk.get("usage"), dict):  # in a chunk of its own, in the last one, or growing in every one
            self._usage = chunk["usage"]
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and _index(choice) == 0:
                self._add_choice(choice)

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        if isinstance(choice.get("logprobs"), dict):
            self._logprobs = grown(self._logprobs, choice["logprobs"])
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        for name, value in delta.items():
            if name == "tool_calls":
                self._calls.add(value if isinstance(value, list) else [])
            elif name == "function_call":
                self._calls.add([{"function": value, "index": 0}] if isinstance(value, dict) else [])
            elif name == "content":
                self._message[name] = _more_content(self._message.get(name), value)
            elif name != "role" and value is not None:
                self._message[name] = grown(self._message.get(name), value)

    def whole(self) -> JsonObject:
        """The completion, as the API gives it without a stream; ProviderError where the stream ended too early."""
        if self._finish is None:
            raise ProviderError(
                f"The model's stream ended {self._where()}, before the answer was complete.", is_transient=True
            )
        message = {**self._message, "tool_calls": self._calls.calls}
        choice = {"index": 0, "finish_reason": self._finish, "message": message, "logprobs": self._logprobs}
        return {"id": self._id, "choices": [choice], "usage": self._usage}

    def _where(self) -> str:
        if self._calls.calls:
            function = self._calls.calls[-1].get("function")
            name = function.get("name") if isinstance(function, dict) else None
            return f"in the middle of a call of '{name}'" if name else "in the middle of a call"
        return "in the middle of a message" if self._message else "before it said anything"


class CallAssembly:
    """Puts calls together from their pieces.

    A server is expected to number its calls and to give id and name once. Some give no number, or the same one to all;
    some repeat id and name in every piece, or give none; some send a call in one piece, and some send it again whole.
    """

    def __init__(self) -> None:
        self.calls: list[JsonObject] = []
        self._by_index: dict[int, JsonObject] = {}

    def add(self, deltas: Sequence[object]) -> None:
        met: list[JsonObject] = []
        for delta in deltas:
            if isinstance(delta, dict):
                call = self._call_of(delta)
                if _function(delta).get("name") and any(call is each for each in met):
                    call = self._new(delta.get("index"))  # two pieces of one chunk, each with a name, are two calls
                _extend(call, delta)
                met.append(call)

    def _call_of(self, delta: Mapping[str, Any]) -> JsonObject:
        """The call that this piece belongs to: one that is there, or a new one."""
        index = delta.get("index")
        if isinstance(index, int):
            found = self._by_index.get(index)
            if found is None or _begins_another(found, delta):
                found = self._new(index)
            return found
        identity = delta.get("id")
        if isinstance(identity, str) and identity:
            return self._call_with(identity, delta)
        if not self.calls or _begins_another(self.calls[-1], delta):
            return self._new()
        return self.calls[-1]

    def _call_with(self, identity: str, delta: Mapping[str, Any]) -> JsonObject:
        """The call with this id; or the last one, if nobody has said anything of it but that it is there."""
        known = next((call for call in self.calls if call.get("id") == identity), None)
        if known is not None and not _is_done_and_renamed(known, delta):
            return known
        last = self.calls[-1] if self.calls else None
        is_nameless = last is not None and not last.get("id") and not _function(last).get("name")
        return last if last is not None and is_nameless else self._new()

    def _new(self, index: object = None) -> JsonObject:
        call: JsonObject = {"function": {"arguments": ""}}
        self.calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call


def _function(call: Mapping[str, Any]) -> JsonObject:
    found = call.get("function")
    return found if isinstance(found, dict) else {}


def _begins_another(call: JsonObject, delta: Mapping[str, Any]) -> bool:
    """Whether this piece cannot be the same call's: another id, or another call after a complete one."""
    identity = delta.get("id")
    if isinstance(identity, str) and identity and call.get("id"):
        return identity != call["id"]
    return _is_done_and_renamed(call, delta)


def _is_done_and_renamed(call: JsonObject, delta: Mapping[str, Any]) -> bool:
    """Whether the call is complete and this piece names a tool again, with arguments that are not the same again."""
    given, function = _function(delta), _function(call)
    if not given.get("name") or not function.get("name") or not _is_object(function.get("arguments")):
        return False
    text = arguments_text(given.get("arguments"))
    is_a_repetition = given["name"] == function.get("name") and (not text.strip() or text == function.get("arguments"))
    return not is_a_repetition


def _is_object(arguments: object) -> bool:
    return isinstance(arguments, str) and bool(arguments.strip()) and parse_arguments(arguments) is not None


def _extend(call: JsonObject, delta: Mapping[str, Any]) -> None:
    function, given = _function(call), _function(delta)
    if delta.get("id"):
        call["id"] = call.get("id") or delta["id"]
    name = given.get("name")
    if isinstance(name, str) and name and name != function.get("name"):
        is_begun = bool(function.get("arguments"))
        function["name"] = str(function.get("name") or "") + ("" if is_begun and function.get("name") else name)
    function["arguments"] = _longer(str(function.get("arguments") or ""), arguments_text(given.get("arguments")))
    for field, value in _others(delta, _CALL_FIELDS).items():
        call[field] = grown(call.get(field), value)
    for field, value in _others(given, _FUNCTION_FIELDS).items():
        function[field] = grown(function.get(field), value)


def _longer(before: str, piece: str) -> str:
    """Arguments with one more piece."""
    if before.strip() == "{}" and piece.lstrip().startswith("{"):
        return piece  # what was said first only held the place
    if piece and piece == before and _is_object(before):
        return before  # the whole again, after the pieces
    return before + piece


def _more_content(before: object, piece: object) -> object:
    """Content with one more piece. Where some pieces are texts and some are lists of parts, all become parts."""
    if before is None or piece is None:
        return before if piece is None else piece
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    return [*_parts(before), *_parts(piece)]


def _parts(content: object) -> list[object]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def grown(before: object, piece: object) -> object:
    """A field with one more piece: texts and lists go on, objects field by field, anything else is replaced."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if isinstance(before, list) and isinstance(piece, list):
        return [*before, *piece]
    if isinstance(before, dict) and isinstance(piece, dict):
        return {
            **before,
            **{name: value if name in _CONSTANT else grown(before.get(name), value) for name, value in piece.items()},
        }
    return piece
