"""A provider that says no: the APIs of OpenAI and Anthropic from a script, over HTTP or in the same process, with the
rules of the real services."""

from __future__ import annotations

from placet.testing.provider.fake import FakeProvider
from placet.testing.provider.gate import Gate
from placet.testing.provider.recording import ProviderRequest
from placet.testing.provider.steps import (
    Answer,
    ProviderStep,
    connection_cut,
    conversation_locked,
    empty_body,
    failed,
    held,
    incomplete,
    no_answer,
    not_json,
    rate_limited,
    raw,
    server_error,
    slow,
    stream_cut,
    stream_error,
)

__all__ = [
    "Answer",
    "FakeProvider",
    "Gate",
    "ProviderRequest",
    "ProviderStep",
    "connection_cut",
    "conversation_locked",
    "empty_body",
    "failed",
    "held",
    "incomplete",
    "no_answer",
    "not_json",
    "rate_limited",
    "raw",
    "server_error",
    "slow",
    "stream_cut",
    "stream_error",
]
