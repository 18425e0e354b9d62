"""Tokens and requests."""

from __future__ import annotations

from typing import Any

from placet import Usage
from placet.facts.events import RequestUsage


def serialize_usage(usage: Usage) -> dict[str, Any]:
    """The figures as a dict."""
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "input_tokens_details": [{"cached_tokens": usage.cached_tokens}],
        "output_tokens": usage.output_tokens,
        "output_tokens_details": [{"reasoning_tokens": usage.reasoning_tokens}],
        "total_tokens": usage.total_tokens,
    }


__all__ = ["RequestUsage", "Usage", "serialize_usage"]
