"""One sentence about a call where its tool has none of its own: its name in plain words, and the first values."""

from __future__ import annotations

import re

from placet.facts.codec import Json, JsonObject

MAX_VALUES = 3
MAX_VALUE = 60
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def sentence_of(tool: str, arguments: JsonObject | str) -> str:
    """«Refund order: order id A-77, cents 4900, and 2 more». It says how much it leaves out."""
    name = in_words(tool)
    if isinstance(arguments, str) or not arguments:
        return name
    small = [(each, value) for each, value in arguments.items() if _is_small(value)][:MAX_VALUES]
    parts = [f"{in_words(each).lower()} {_text(value)}" for each, value in small]
    left_out = len(arguments) - len(parts)
    if left_out:
        parts.append(f"and {left_out} more" if parts else f"{left_out} {'value' if left_out == 1 else 'values'}")
    return f"{name}: {', '.join(parts)}"


def in_words(name: str) -> str:
    """`refund_order`, `refundOrder` and `orders/refund-order` as people write them; a name without letters as it is."""
    last = re.split(r"[/:.]", name)[-1] or name
    words = " ".join(_HUMP.sub(" ", last).replace("_", " ").replace("-", " ").split())
    return f"{words[:1].upper()}{words[1:]}" if words else name


def _is_small(value: Json) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and "\n" not in value)


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
