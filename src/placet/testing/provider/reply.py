"""What the provider sends back, before it is known whether that happens over HTTP or in the same process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from placet.testing.provider.gate import Gate

Ending = Literal["complete", "cut", "silence"]


@dataclass(slots=True)
class Reply:
    """A status, headers and a body in pieces; then it is complete, or the connection is cut, or nothing more comes."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    """Of a stream: one event each."""
    is_stream: bool = False
    ending: Ending = "complete"
    pause: float = 0.0
    """Seconds before each piece."""
    gate: Gate | None = None
    gate_before: int = 0
    """The piece that waits for the gate."""
    ended: Callable[[], None] = lambda: None
    """Called when the reply is over, however it ended."""

    @property
    def has_head(self) -> bool:
        """A reply that is cut or falls silent before its first byte has not even a status."""
        return self.ending == "complete" or bool(self.pieces)


def json_reply(body: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, {"content-type": "application/json", **headers}, [json.dumps(body).encode()])


def event_reply(events: list[bytes], **headers: str) -> Reply:
    return Reply(200, {"content-type": "text/event-stream; charset=utf-8", **headers}, events, is_stream=True)


def raw_reply(body: Any, as_event: Callable[[Any], bytes], *, is_streamed: bool) -> Reply:
    """A body as it is: bytes, JSON, or (in a stream) a list of events in the form of their API."""
    if isinstance(body, bytes):
        return Reply(200, {"content-type": "application/json"}, [body])
    if is_streamed and isinstance(body, list):
        return event_reply([as_event(event) for event in body])
    return json_reply(body)


def named_event(data: dict[str, Any]) -> bytes:
    """An event whose name is its `type`, as the Responses API and the Messages API send them."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def bare_event(data: dict[str, Any] | str) -> bytes:
    """An event without a name, as the Chat Completions API sends them."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
