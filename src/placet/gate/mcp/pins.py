"""Pinned tools: what each of a server's tools said of itself when a person reviewed it, and what is odd or new. Pure.

Rule of this file: a pin is of the whole description, not only of the schema. Whoever can change what a model reads of
a tool can change what the model does with it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from placet.facts.codec import canonical
from placet.facts.errors import UserError

PINNED_PARTS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution", "_meta")
"""What of a tool a model, a client or a reviewer may go by."""
MAX_DIFF = 6000

State: TypeAlias = Literal["pinned", "new", "changed"]


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of each server as they were reviewed."""

    servers: dict[str, dict[str, dict[str, Any]]] = {}
    version: Literal[1] = 1

    def has(self, server: str) -> bool:
        """Whether somebody has reviewed this server at all."""
        return server in self.servers

    def state_of(self, server: str, tool: Mapping[str, Any]) -> State:
        known = self.servers.get(server, {}).get(str(tool.get("name")))
        if known is None:
            return "new"
        return "pinned" if same_tool(known, tool) else "changed"

    def diff_of(self, server: str, tool: Mapping[str, Any]) -> str:
        """What changed since it was pinned, line by line."""
        known = self.servers.get(server, {}).get(str(tool.get("name")), {})
        lines = difflib.unified_diff(
            _lines(known), _lines(pinned_of(tool)), "as it was pinned", "now", n=1, lineterm=""
        )
        text = "\n".join(lines)
        return text if len(text) <= MAX_DIFF else text[:MAX_DIFF] + "\n… (longer)"

    def with_server(self, server: str, tools: Sequence[Mapping[str, Any]]) -> Pins:
        found = {str(tool.get("name")): pinned_of(tool) for tool in tools}
        return Pins(servers={**self.servers, server: found})


def pinned_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {part: tool[part] for part in PINNED_PARTS if tool.get(part) is not None}


def same_tool(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return canonical(pinned_of(one)) == canonical(pinned_of(other))


def fingerprint(tool: Mapping[str, Any]) -> str:
    return hashlib.blake2b(canonical(pinned_of(tool)), digest_size=12).hexdigest()


def _lines(tool: Mapping[str, Any]) -> list[str]:
    text = json.dumps(tool, indent=2, ensure_ascii=False, sort_keys=True)
    return [visible(line) for line in text.replace("\\n", "\n").splitlines()]


def read_pins(text: str | None, where: str) -> Pins:
    """Of a file that is not there: none, so every tool is new. Of one that cannot be read: an error, never none."""
    if text is None:
        return Pins()
    try:
        return msgspec.json.decode(text, type=Pins)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The pins in {where} cannot be read: {error}. Put the file back, or pin anew.") from error


def written(pins: Pins) -> str:
    return msgspec.json.format(msgspec.json.encode(pins, order="sorted"), indent=2).decode() + "\n"


# -- what is odd ------------------------------------------------------------------------------------------------------

_SHORT_ENOUGH = 4000
_PHRASES = (
    "ignore previous", "ignore all previous", "disregard", "do not tell", "don't tell", "without telling",
    "do not mention", "system prompt", "<important>", "before using this tool", "instead of calling",
)  # fmt: skip
"""Words with which a description speaks to the model about something else than its tool."""


def invisible_in(tool: Mapping[str, Any]) -> list[str]:
    """Characters that a person does not see and a model reads, anywhere in what a tool says of itself."""
    found: dict[str, None] = {}
    for text in _texts(pinned_of(tool)):
        for character in text:
            if is_invisible(character):
                found.setdefault(f"U+{ord(character):04X} {unicodedata.name(character, 'unnamed')}")
    return list(found)


def is_invisible(character: str) -> bool:
    if character in "\n\t\r ":
        return False
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cf", "Cc", "Co", "Cs", "Zl", "Zp")
        or 0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
        or code in (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800, 0x034F)
    )


def visible(text: str) -> str:
    """The text with invisible characters written out."""
    return "".join(f"\\u{{{ord(each):x}}}" if is_invisible(each) else each for each in text)


def oddities(tool: Mapping[str, Any]) -> list[str]:
    """What a reviewer should look at before pinning a tool, in words."""
    found = [f"an invisible character: {each}" for each in invisible_in(tool)]
    for text in _texts(pinned_of(tool)):
        lower = text.lower()
        found += [f"words that speak to the model: «{phrase}»" for phrase in _PHRASES if phrase in lower]
        if len(text) > _SHORT_ENOUGH:
            found.append(f"a text of {len(text)} characters")
    name = str(tool.get("name"))
    if not name.isascii():
        found.append("letters in its name that may look like others")
    if not (tool.get("description") or tool.get("title")):
        found.append("no description")
    return list(dict.fromkeys(found))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
