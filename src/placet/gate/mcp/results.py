"""What a call came to, as the client reads it and as the log keeps it. Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from placet.core.guest import GateCall
from placet.facts.codec import Json
from placet.gate.mcp.config import GatewayConfig

_KEPT = "placet_mcp"
"""Under this key the log holds a result that is more than a text."""


def text_result(text: str, *, is_error: bool = False, **meta: Any) -> dict[str, Any]:  # Any: plain JSON
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if is_error:
        result["isError"] = True
    if meta:
        result["_meta"] = {f"placet/{key}": value for key, value in meta.items()}
    return result


def refusal(text: str) -> dict[str, Any]:
    return text_result(text, is_error=True)


def kept(result: dict[str, Any]) -> str:
    """What the log keeps: a plain text as it is, and all else so that it can be read back."""
    content = result.get("content")
    if isinstance(content, list) and len(content) == 1 and set(result) <= {"content", "isError", "resultType"}:
        block = content[0]
        text = block.get("text") if isinstance(block, dict) and set(block) == {"type", "text"} else None
        if isinstance(text, str) and not text.startswith('{"' + _KEPT):
            return text
    return msgspec.json.encode({_KEPT: 1, "result": result}).decode()


def kept_error(code: int, message: str, data: object) -> str:
    return msgspec.json.encode({_KEPT: 1, "error": {"code": code, "message": message, "data": data}}).decode()


def read_back(output: Json, *, failed: bool) -> dict[str, Any]:
    """The result that was kept: of a server's error, a result that says so."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    if text.startswith('{"' + _KEPT):
        try:
            found = json.loads(text)
        except ValueError:
            found = {}
        if isinstance(found.get("result"), dict):
            result: dict[str, Any] = found["result"]
            return result
        if isinstance(found.get("error"), dict):
            return refusal(f"The server refused the call: {found['error'].get('message')}")
    return text_result(text, is_error=failed)


def link_of(config: GatewayConfig, call: GateCall) -> str | None:
    """Where people decide about a call, if the gateway knows."""
    base = config.inbox or config.desk
    return f"{base.rstrip('/')}/inbox?open={call.request_id}" if base and call.request_id else None


def edited(result: dict[str, Any], arguments: object) -> dict[str, Any]:
    """With a line that says that a reviewer changed the arguments, and to what."""
    said = f"A reviewer changed the arguments of this call to: {json.dumps(arguments, ensure_ascii=False)}"
    return {**result, "content": [{"type": "text", "text": said}, *(result.get("content") or [])]}


def of_call(call: GateCall) -> dict[str, Any] | None:
    """What the client reads about a call that is over; None while it is not."""
    match call.status:
        case "finished" | "failed":
            found = read_back(call.output, failed=call.status == "failed")
            return edited(found, call.arguments) if call.is_edited else found
        case "answered":
            said = call.output if isinstance(call.output, str) else json.dumps(call.output, ensure_ascii=False)
            return text_result(f"A person answered in the place of this call:\n{said}")
        case "rejected" | "denied" | "expired" | "superseded" | "cancelled" | "given_up" | "released":
            words = call.message or f"The call was {call.status.replace('_', ' ')}."
            return refusal(words if words.endswith((".", "!", "?")) else f"{words}.")
        case _:
            return None


def standing(call: GateCall, link: str | None) -> str:
    """How a call stands that is not over, in a sentence."""
    at = f" They decide at {link}" if link else ""
    match call.status:
        case "waiting":
            return f"A person is asked whether '{call.tool}' may run; it has not run.{at}"
        case "held":
            return f"'{call.tool}' was approved, and an operator holds it back; it has not run."
        case "in_doubt":
            return f"It is unknown whether '{call.tool}' happened: a person is asked what to do.{at}"
        case "left":
            return f"It is unknown whether '{call.tool}' happened: whoever executed it is gone."
        case "claimable":
            return f"'{call.tool}' was approved, and is about to run."
        case _:
            return f"'{call.tool}' is running."
