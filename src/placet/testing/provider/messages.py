"""The Messages API of Anthropic: no memory but its signatures, blocks in place of items."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placet.facts.codec import plain_item
from placet.facts.errors import UserError
from placet.facts.items import text_of
from placet.testing.provider.ids import Mint
from placet.testing.provider.message_rules import Signatures, check_body, check_conversation, checked_version
from placet.testing.provider.preserved_thinking import mark_of
from placet.testing.provider.recording import ProviderRequest
from placet.testing.provider.refusal import Refused, anthropic_error_body
from placet.testing.provider.reply import Reply, event_reply, json_reply, named_event, raw_reply
from placet.testing.provider.response_events import pieces_of
from placet.testing.provider.steps import Answer, Raw
from placet.testing.provider.tokens import anthropic_usage

Block = dict[str, Any]


@dataclass(slots=True)
class PreparedMessage:
    body: dict[str, Any]


class MessagesService:
    def __init__(self, mint: Mint) -> None:
        self._mint = mint
        self._signatures = Signatures()

    def check(self, request: ProviderRequest) -> PreparedMessage:
        version = checked_version(request.headers)
        check_body(request.body, version)
        check_conversation(request.body, version, self._signatures)
        return PreparedMessage(request.body)

    def respond(self, prepared: PreparedMessage, answer: Answer | Raw, *, kept: bool, now: float) -> Reply:
        body = prepared.body
        is_streamed = body.get("stream") is True
        if isinstance(answer, Raw):
            return raw_reply(answer.body, named_event, is_streamed=is_streamed)
        if answer.failure is not None:
            raise UserError("The Messages API has no failed responses: write server_error() in place of failed().")
        blocks, texts = self._blocks(answer.output, is_streamed=is_streamed)
        self._signatures.learn(blocks, mark_of(body, body["messages"]))
        message = {
            "id": answer.response_id or self._mint.short("msg"),
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": blocks,
            "stop_reason": _reason(answer, blocks),
            "stop_sequence": None,
            "usage": anthropic_usage(answer.usage, body["messages"], blocks),
            **answer.extra,
        }
        if message["stop_reason"] == "pause_turn":
            self._signatures.paused.append(blocks)
        if not is_streamed:
            return json_reply(message)
        return event_reply([named_event(event) for event in _events(message, texts)])

    def _blocks(self, output: Sequence[Any], *, is_streamed: bool) -> tuple[list[Block], list[str]]:
        """The answer's blocks, and of each the text that is streamed in pieces."""
        blocks, texts = [], []
        for each in output:
            for block, text in self._translated(plain_item(each), is_streamed=is_streamed):
                blocks.append(block)
                texts.append(text)
        return blocks, texts

    def _translated(self, item: Block, *, is_streamed: bool) -> list[tuple[Block, str]]:
        match item.get("type", "message"):
            case "message":
                text = text_of(item)
                return [({"type": "text", "text": text, "citations": None}, text)]
            case "function_call":
                return [self._tool_use(item, is_streamed=is_streamed)]
            case "reasoning":
                text = "".join(part["text"] for part in item.get("summary") or item.get("content") or [])
                return [({"type": "thinking", "thinking": text, "signature": signature_of(text)}, text)]
            case "thinking":
                text = item["thinking"]
                return [({"signature": signature_of(text), **item}, text)]
            case "text":
                return [({"citations": None, **item}, item["text"])]
            case "tool_use":
                block = {"id": self._mint.long("toolu"), **item}
                return [(block, json.dumps(item["input"]))]
            case _:
                return [(item, "")]

    def _tool_use(self, item: Block, *, is_streamed: bool) -> tuple[Block, str]:
        arguments = str(item["arguments"])
        try:
            parsed = json.loads(arguments)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            if not is_streamed:
                raise UserError(
                    f"The arguments {arguments!r} are not a JSON object: outside a stream the Messages API cannot "
                    "carry them."
                )
            parsed = {}
        label = item.get("call_id") or self._mint.long("toolu")
        return {"type": "tool_use", "id": label, "name": item["name"], "input": parsed}, arguments

    def error_event(self, message: str, code: str | None, number: int) -> bytes:
        status = 529 if code == "overloaded_error" else 500
        return named_event(anthropic_error_body(Refused(message, status=status), self._mint.short("req")))


def signature_of(text: str) -> str:
    """What makes a thinking block genuine: nobody but the service can sign."""
    return "Er" + hashlib.sha256(f"signed by the fake provider: {text}".encode()).hexdigest()


def _reason(answer: Answer, blocks: Sequence[Block]) -> str:
    if answer.stopped == "max_output_tokens":
        return "max_tokens"
    if answer.stopped == "content_filter" or any(_is_refusal(item) for item in answer.output):
        return "refusal"
    return "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"


def _is_refusal(item: Any) -> bool:
    parts = plain_item(item).get("content")
    return isinstance(parts, list) and any(isinstance(part, dict) and "refusal" in part for part in parts)


def _events(message: Block, texts: Sequence[str]) -> list[Block]:
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Block] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, (block, text) in enumerate(zip(message["content"], texts, strict=True)):
        start, deltas = _block_deltas(block, text)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}})
    return [*events, {"type": "message_stop"}]


def _block_deltas(block: Block, text: str) -> tuple[Block, list[Block]]:
    """The block as it is announced, and what is added to it piece by piece."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces_of(text)]
            return {**block, "text": ""}, deltas
        case "tool_use":
            pieces = ["", *pieces_of(text)] if text != "{}" else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces_of(text)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case _:
            return block, []
