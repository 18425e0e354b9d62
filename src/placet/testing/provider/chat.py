"""The Chat Completions API: no memory, one choice, and the rules about who may answer whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placet.facts.codec import plain_item
from placet.facts.errors import UserError
from placet.facts.items import text_of
from placet.testing.provider.chat_rules import check_body, check_messages
from placet.testing.provider.ids import Mint
from placet.testing.provider.recording import ProviderRequest
from placet.testing.provider.reply import Reply, bare_event, event_reply, json_reply, raw_reply
from placet.testing.provider.response_events import pieces_of
from placet.testing.provider.steps import Answer, Raw
from placet.testing.provider.tokens import chat_usage

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(slots=True)
class PreparedChat:
    body: dict[str, Any]


class ChatService:
    def __init__(self, mint: Mint) -> None:
        self._mint = mint

    def check(self, request: ProviderRequest) -> PreparedChat:
        check_body(request.body)
        check_messages(request.body["messages"])
        return PreparedChat(request.body)

    def respond(self, prepared: PreparedChat, answer: Answer | Raw, *, kept: bool, now: float) -> Reply:
        body = prepared.body
        if isinstance(answer, Raw):
            return raw_reply(answer.body, bare_event, is_streamed=body.get("stream") is True)
        if answer.failure is not None:
            raise UserError("Chat Completions has no failed responses: write server_error() in place of failed().")
        message = self._message(answer.output)
        head = {
            "id": answer.response_id or self._mint.short("chatcmpl"),
            "created": int(now),
            "model": body["model"],
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
            **answer.extra,
        }
        reason = _REASONS[answer.stopped] if answer.stopped else "tool_calls" if message.get("tool_calls") else "stop"
        usage = chat_usage(answer.usage, body["messages"], [message])
        if body.get("stream") is True:
            wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            chunks = _chunks(
                message, reason, {**head, "object": "chat.completion.chunk"}, usage if wants_usage else None
            )
            return event_reply([*map(bare_event, chunks), bare_event("[DONE]")])
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return json_reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _message(self, output: Sequence[Any]) -> dict[str, Any]:
        texts, refusals, calls = [], [], []
        for each in output:
            item: dict[str, Any] = plain_item(each)
            match item.get("type", "message"):
                case "message":
                    parts = item.get("content")
                    refused = (
                        [part["refusal"] for part in parts if "refusal" in part] if isinstance(parts, list) else []
                    )
                    refusals += refused
                    texts += [] if refused else [text_of(item)]
                case "function_call" | "custom_tool_call":
                    calls.append(self._call(item))
                case "reasoning":
                    pass  # Chat Completions does not show what the model thought
                case kind:
                    raise UserError(
                        f"Chat Completions has nothing for an item of type {kind!r}: use another API for it."
                    )
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(texts) if texts else None,
            "refusal": "".join(refusals) if refusals else None,
            "annotations": [],
        }
        return {**message, "tool_calls": calls} if calls else message

    def _call(self, item: dict[str, Any]) -> dict[str, Any]:
        """A call under the label of the script. An empty one stays empty: there are servers that send none."""
        label = item["call_id"] if "call_id" in item else self._mint.long("call")
        if item["type"] == "custom_tool_call":
            return {"id": label, "type": "custom", "custom": {"name": item["name"], "input": item["input"]}}
        function = {"name": item["name"], "arguments": item["arguments"]}
        return {"id": label, "type": "function", "function": function}

    def error_event(self, message: str, code: str | None, number: int) -> bytes:
        return bare_event({"error": {"message": message, "type": "server_error", "param": None, "code": code}})


def _chunks(
    message: dict[str, Any], reason: str, head: dict[str, Any], usage: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """The answer as chunks. If the usage is wanted, it comes last, in a chunk without choices."""
    calls = message.get("tool_calls", [])
    content = message["content"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if content else None, "refusal": None}]
    deltas += [{"content": piece} for piece in pieces_of(content or "")]
    deltas += [{"refusal": piece} for piece in pieces_of(message["refusal"] or "")]
    for index, call in enumerate(calls):
        deltas += _call_deltas(call, index)
    extra = {} if usage is None else {"usage": None}
    chunks = [{**head, "choices": [_choice(delta, None)], **extra} for delta in deltas]
    chunks.append({**head, "choices": [_choice({}, reason)], **extra})
    if usage is not None:
        chunks.append({**head, "choices": [], "usage": usage})
    return chunks


def _call_deltas(call: dict[str, Any], index: int) -> list[dict[str, Any]]:
    field, text = ("custom", "input") if call["type"] == "custom" else ("function", "arguments")
    inner = call[field]
    first = {"index": index, **call, field: {**inner, text: ""}}
    rest = [{"index": index, field: {text: piece}} for piece in pieces_of(inner[text])]
    return [{"tool_calls": [each]} for each in [first, *rest]]


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
