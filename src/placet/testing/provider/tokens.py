"""Usage figures: those of the script, or a rough count of what was read and said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from placet.facts.events import Usage


def counted(given: Usage | None, read: Sequence[Any], written: Sequence[Any]) -> Usage:
    """A token is four characters here, so that figures grow with the history as real ones do."""
    if given is not None and (given.input_tokens or given.output_tokens or given.total_tokens):
        return given
    tokens_in, tokens_out = (max(1, len(json.dumps(part)) // 4) for part in (read, written))
    return Usage(1, tokens_in, tokens_out, tokens_in + tokens_out)


def openai_usage(given: Usage | None, read: Sequence[Any], written: Sequence[Any]) -> dict[str, Any]:
    usage = counted(given, read, written)
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens or usage.input_tokens + usage.output_tokens,
    }


def chat_usage(given: Usage | None, read: Sequence[Any], written: Sequence[Any]) -> dict[str, Any]:
    usage = counted(given, read, written)
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens or usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0},
    }


def anthropic_usage(given: Usage | None, read: Sequence[Any], written: Sequence[Any]) -> dict[str, Any]:
    """Anthropic counts cached input beside the input, not within it."""
    usage = counted(given, read, written)
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    }
