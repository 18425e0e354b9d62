"""Preserved thinking: a thinking block goes back only behind the very words before which it was thought.

Newer models check it; the older mode of thinking (`enabled`, with a budget) does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from placet.testing.provider.refusal import Refused

Block = dict[str, Any]
THINKING = ("thinking", "redacted_thinking")


def key_of(block: Block) -> str:
    """What tells one thinking block from another."""
    return str(block["signature"] if block["type"] == "thinking" else block["data"])


def mark_of(body: Mapping[str, Any], messages: Sequence[Any]) -> str:
    """A digest of what stands before a block: system prompt, tools, these messages. Marks of caching do not count."""
    parts = [_without_cache_marks(each) for each in (body.get("system"), body.get("tools"), messages)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_cache_marks(each) for name, each in value.items() if name != "cache_control"}
    return [_without_cache_marks(each) for each in value] if isinstance(value, list | tuple) else value


def is_checked(body: Mapping[str, Any]) -> bool:
    return (body.get("thinking") or {}).get("type") != "enabled"


def check_prefixes(body: Mapping[str, Any], marks: Mapping[str, set[str]]) -> None:
    """`marks`: of each block that was given out, the digests of what stood before it."""
    if not is_checked(body):
        return
    for index, message in enumerate(body["messages"]):
        content = message.get("content")
        for place, block in enumerate(content if isinstance(content, list) else []):
            if block.get("type") not in THINKING or key_of(block) not in marks:
                continue
            if mark_of(body, body["messages"][:index]) not in marks[key_of(block)]:
                raise Refused(
                    f"messages.{index}.content.{place}: the `{block['type']}` block does not belong here: the system "
                    "prompt, the tools or the messages before it are not those before which it was thought"
                )
