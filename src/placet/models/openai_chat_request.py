"""From the items of a run to the messages of Chat Completions: pure, and the same messages for the same items.

One run of items that a model made (reasoning, text, calls) is one assistant message, because the outputs of its calls
must follow it at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from placet.facts.codec import Json, JsonObject, encode
from placet.facts.errors import UserError
from placet.facts.items import text_of
from placet.facts.native_items import as_function_item
from placet.models.provider_data import provider_data_of

API = "openai-chat"
_LONGEST_LABEL = 40
"""OpenAI refuses a longer id of a tool call."""
_PART_FIELDS = {"input_text": "text", "output_text": "text", "input_audio": "input_audio"}
MALFORMED = "malformed_arguments"
_SOON_FORGOTTEN = frozenset({"audio"})
"""What a server knows for an hour or so: a run may wait longer, and its text says the same."""


def as_messages(items: Iterable[JsonObject], instructions: str | None, server: str) -> list[JsonObject]:
    """The messages of one request. `server` says where it goes: what another server said beyond the common shape of
    an item is not for this one."""
    writer = _Writer(server)
    if instructions:
        writer.messages.append({"role": "system", "content": instructions})
    for item in items:
        writer.add(item)
    writer.close()
    return writer.messages


@dataclass(slots=True)
class _Turn:
    """What one assistant message will say."""

    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    reasoning: dict[str, list[str]] = field(default_factory=dict)
    """By the name of the field in which the server gave it."""
    calls: list[JsonObject] = field(default_factory=list)
    beyond: JsonObject = field(default_factory=dict)

    def message(self) -> JsonObject | None:
        found: JsonObject = {"role": "assistant", "content": None, **self.beyond}
        content = "\n\n".join(self.texts)
        if content != _text_in(self.beyond.get("content")):  # otherwise the server's own parts say the same, and more
            found["content"] = content
        if self.refusals:
            found["refusal"] = "\n\n".join(self.refusals)
        if self.calls:
            # Servers that reason between calls refuse a call without its reasoning; none wants that of an answer.
            found |= {name: "\n\n".join(texts) for name, texts in self.reasoning.items()}
            found["tool_calls"] = self.calls
        is_empty = not (content or self.refusals or self.calls or self.beyond)
        return None if is_empty else found


class _Writer:
    def __init__(self, server: str) -> None:
        self.messages: list[JsonObject] = []
        self._server = server
        self._turn: _Turn | None = None
        self._pictures: list[JsonObject] = []
        """Parts of outputs that a tool message cannot hold: they follow the outputs in a message of the user."""

    def add(self, given: JsonObject) -> None:
        item = as_function_item(given)
        match item.get("type", "message"):
            case "message" if item.get("role") == "assistant":
                self._add_message(item)
            case "message":
                self.close()
                self.messages.append(_output_message(item, self._server))
            case "function_call":
                self._call(item)
            case "function_call_output":
                self._output(item)
            case "reasoning":
                self._think(item)
            case "item_reference":
                raise UserError(
                    "An item_reference names something that OpenAI's server keeps, and Chat Completions keeps nothing: "
                    "give the item itself."
                )
            case _:
                pass  # made by another API for itself (a hosted tool's call, say): nobody here could read it

    def close(self) -> None:
        """End the open assistant message, and bring what its outputs could not hold."""
        self._close_turn()
        if self._pictures:
            self.messages.append({"role": "user", "content": self._pictures})
            self._pictures = []

    def _close_turn(self) -> None:
        message = self._turn.message() if self._turn is not None else None
        if message is not None:
            self.messages.append(message)
        self._turn = None

    def _open(self, item: JsonObject) -> _Turn:
        if self._turn is None:
            self.close()
            self._turn = _Turn()
        beyond = self._data(item).get("message")
        if isinstance(beyond, dict):
            self._turn.beyond |= {name: value for name, value in beyond.items() if name not in _SOON_FORGOTTEN}
        return self._turn

    def _data(self, item: JsonObject) -> JsonObject:
        data = provider_data_of(item, API)
        return data if data.get("server") == self._server else {}

    def _add_message(self, item: JsonObject) -> None:
        turn = self._open(item)
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        refusals = [str(part["refusal"]) for part in parts if isinstance(part, dict) and part.get("refusal")]
        text = text_of({"content": [part for part in parts if not _is_refusal(part)]} if parts else item)
        turn.refusals += refusals
        turn.texts += [text] if text else []

    def _think(self, item: JsonObject) -> None:
        data = self._data(item)
        name = data.get("field")
        if isinstance(name, str):
            turn = self._open(item)
            turn.reasoning.setdefault(name, []).append(_reasoning_text(item))

    def _call(self, item: JsonObject) -> None:
        turn = self._open(item)
        data = self._data(item)
        function = {
            **_fields(data.get("function")),
            "name": item.get("name"),
            "arguments": sendable_arguments(item.get("arguments")),
        }
        turn.calls.append(
            {**_fields(data.get("call")), "id": label(item.get("call_id")), "type": "function", "function": function}
        )

    def _output(self, item: JsonObject) -> None:
        self._close_turn()
        output = item.get("output")
        name = label(item.get("call_id"))
        if isinstance(output, list):
            output = self._parted(output, name)
        text = output if isinstance(output, str) else encode(output).decode()
        self.messages.append({"role": "tool", "tool_call_id": name, "content": text})

    def _parted(self, output: Sequence[Json], name: str) -> str:
        """The text of an output that has parts. What is not text goes behind the outputs, with a word from where."""
        parts = [part for part in output if isinstance(part, dict)]
        texts = [str(part.get("text") or "") for part in parts if _is_text(part)]
        others = [_part(part) for part in parts if not _is_text(part)]
        if others:
            self._pictures += [{"type": "text", "text": f"The output of the call {name} holds this:"}, *others]
            texts.append("(What this output holds beyond text is in the next message.)")
        return "\n".join(texts)


def _text_in(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _is_refusal(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "refusal"


def _is_text(part: Mapping[str, object]) -> bool:
    return part.get("type") in ("input_text", "output_text", "text")


def _fields(found: object) -> JsonObject:
    return found if isinstance(found, dict) else {}


def _reasoning_text(item: JsonObject) -> str:
    content = item.get("content")
    return text_of({"content": content if isinstance(content, list) else []})


def is_openai(server: str) -> bool:
    """Whether the server is OpenAI's own, or Azure's: they have newer words than the others."""
    return server.endswith((".openai.com", ".openai.azure.com"))


def _output_message(item: JsonObject, server: str) -> JsonObject:
    """A message that a user, a developer or the system wrote. The role of developers is OpenAI's alone."""
    role = item.get("role") or "user"
    if role == "developer" and not is_openai(server):
        role = "system"
    content = item.get("content")
    parts = [_part(part) if isinstance(part, dict) else part for part in content] if isinstance(content, list) else None
    found: JsonObject = {"role": role, "content": content if parts is None else parts}
    if isinstance(item.get("name"), str):
        found["name"] = item["name"]
    return found


def _part(part: JsonObject) -> JsonObject:
    """A part of a message. What has no common shape goes as it is: servers differ in what they read."""
    kind = part.get("type")
    if kind in _PART_FIELDS:
        return {**part, "type": _PART_FIELDS[str(kind)]}
    if kind == "input_image":
        return _image(part)
    if kind == "input_file":
        return _file(part)
    return part


def _image(part: JsonObject) -> JsonObject:
    url = part.get("image_url")
    if not isinstance(url, str):
        raise UserError(
            "Chat Completions takes an image by its image_url (an address, or 'data:image/png;base64,…'), and not by "
            f"{'a file_id' if part.get('file_id') else 'anything else'}."
        )
    picture: JsonObject = {"url": url}
    if part.get("detail") is not None:
        picture["detail"] = part["detail"]
    return {"type": "image_url", "image_url": picture, **_beyond(part, "image_url", "file_id", "detail")}


def _file(part: JsonObject) -> JsonObject:
    if part.get("file_url") is not None:
        raise UserError(
            "Chat Completions takes no file by its address: give file_data ('data:application/pdf;base64,…') with a "
            "filename, or a file_id."
        )
    file = {name: part[name] for name in ("file_data", "filename", "file_id") if part.get(name) is not None}
    return {"type": "file", "file": file, **_beyond(part, "file_data", "filename", "file_id", "file_url", "detail")}


def _beyond(part: JsonObject, *known: str) -> JsonObject:
    return {name: value for name, value in part.items() if name not in (*known, "type")}


def label(given: object) -> str:
    """The id under which a call goes out: the same each time, short enough for everybody."""
    text = given if isinstance(given, str) else ""
    if len(text) <= _LONGEST_LABEL:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return f"{text[: _LONGEST_LABEL - 13]}_{digest}"


def sendable_arguments(given: object) -> str:
    """Arguments as every server reads them. Some refuse a history in which a model wrote anything but an object."""
    text = given if isinstance(given, str) and given.strip() else "{}"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return text if isinstance(found, dict) else json.dumps({MALFORMED: text}, ensure_ascii=False)
