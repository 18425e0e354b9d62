"""What a call would do, in one sentence of the tool's own: for the person who is asked, no part of what is decided."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TypeAlias

from placet.facts.codec import JsonObject, encode
from placet.facts.errors import UserError

logger = logging.getLogger("placet.tools")

Description: TypeAlias = str | Callable[[JsonObject], str]
"""A text with `{name}` where an argument's value goes, or a function of the arguments."""

MAX_SUMMARY = 300
MAX_VALUE = 80
_NAME = re.compile(r"\{([^{}]*)\}")


def check_description(tool: str, describe: object) -> None:
    """A text or a function: anything else is refused where it is written."""
    if describe is not None and not isinstance(describe, str) and not callable(describe):
        raise UserError(
            f"Tool '{tool}': describe is a text with {{name}} for arguments, or a function, not {describe!r}."
        )


def summary_of(tool: str, describe: Description | None, arguments: JsonObject | str) -> str | None:
    """The sentence for these arguments; None where the tool has none, or none for these. A sentence that fails must
    not keep a person from being asked."""
    if describe is None or isinstance(arguments, str):
        return None
    try:
        text: object = _filled_in(describe, arguments) if isinstance(describe, str) else describe(dict(arguments))
    except Exception as error:  # noqa: BLE001  # a function of the user's
        logger.warning(
            "no description", extra={"action": "describe_failed", "tool": tool, "error": type(error).__name__}
        )
        return None
    if not isinstance(text, str) or not text.strip():
        return None
    return _cut(" ".join(text.split()), MAX_SUMMARY)


def _filled_in(template: str, arguments: JsonObject) -> str:
    """Names alone are looked up: no attributes, no formats, so a template cannot reach anything but the arguments."""

    def value(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name not in arguments:
            raise KeyError(name)
        given = arguments[name]
        return _cut(given if isinstance(given, str) else encode(given).decode(), MAX_VALUE)

    return _NAME.sub(value, template)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
