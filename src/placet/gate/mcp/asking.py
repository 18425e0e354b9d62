"""Which calls ask a person: by the server's `require_approval`, by its hints, by its pins, and by what is odd.

Rule of this file: every reason can make a person be asked. That nobody is asked, only an explicit setting of the
gateway's owner can say, about a tool that is as it was pinned.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from mcp import types
from pydantic import ValidationError

from placet.core.json_schema import problem_with_schema
from placet.declare.context import RunContextWrapper
from placet.facts.errors import UserError
from placet.gate.mcp.config import ServerConfig
from placet.gate.mcp.near import did_you_mean
from placet.gate.mcp.pins import Pins, invisible_in
from placet.gate.mcp.transports import object_at
from placet.mcp.policy import Policy, is_destructive


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a client wants to call. `raw` is None where its server does not list it."""

    server: str
    name: str
    raw: dict[str, Any] | None

    @property
    def gate_name(self) -> str:
        """The server's name stands before it always: a yes for one server's tool is none for another's."""
        return f"{self.server}/{self.name}"

    @property
    def schema(self) -> dict[str, Any] | None:
        found = (self.raw or {}).get("inputSchema")
        return found if isinstance(found, dict) and problem_with_schema(found) is None else None

    @property
    def description(self) -> str:
        raw = self.raw or {}
        found = raw.get("description") or raw.get("title") or ""
        return found if isinstance(found, str) else ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    asks: bool
    passes: bool = False
    """It goes straight through, unrecorded, where neither a desk nor a policy has to see it."""
    reasons: tuple[str, ...] = ()
    """For the reviewer: why this call asks although the settings alone would not."""


class _Named(msgspec.Struct, frozen=True):
    name: str


class Asking:
    """What one server's settings say of each of its tools."""

    def __init__(self, server: str, config: ServerConfig, guest: str) -> None:
        given = config.require_approval
        if isinstance(given, str) and ":" in given:
            given = object_at(given)
            if not callable(given):
                raise UserError(f"Server '{server}': require_approval leads to {type(given).__name__}, no function.")
        self._server = server
        self._config = config
        self._agent = _Named(guest)
        self._policy = Policy(server, given, heed_hints=False)
        self._judged: dict[str, tuple[dict[str, Any], Pins, tuple[str, ...]]] = {}

    def unmet(self, listed: Collection[str]) -> list[str]:
        """What the settings say of tools that the server does not list: a slip, most likely."""
        named = [name for name in sorted(self._policy.names) if name not in listed]
        patterns = [each for each in self._config.pass_through if not any(fnmatchcase(name, each) for name in listed)]
        found = [("require_approval names", each, "called so") for each in named]
        found += [("pass_through has", each, "matched by it") for each in patterns]
        return [f"{where} '{each}', and no tool is {how}{did_you_mean(each, listed)}." for where, each, how in found]

    async def judge(self, tool: Tool, pins: Pins) -> Verdict:
        reasons = self._reasons_for(tool, pins)
        asks = bool(reasons) or await self._is_asked(tool)
        passes = not asks and any(fnmatchcase(tool.name, each) for each in self._config.pass_through)
        return Verdict(asks=asks, passes=passes, reasons=reasons)

    def _reasons_for(self, tool: Tool, pins: Pins) -> tuple[str, ...]:
        """Found once for each listing and each reading of the pins: a description may be long."""
        known = self._judged.get(tool.name)
        if known is not None and known[0] is tool.raw and known[1] is pins:
            return known[2]
        reasons = tuple(self._reasons(tool, pins))
        if tool.raw is not None:
            self._judged[tool.name] = (tool.raw, pins, reasons)
        return reasons

    def _reasons(self, tool: Tool, pins: Pins) -> Iterator[str]:
        raw = tool.raw
        if raw is None:
            yield f"The server '{self._server}' lists no such tool: the call will most likely fail."
            return
        state = pins.state_of(self._server, raw)
        if state == "new" and pins.has(self._server):
            yield "This tool came after the server was pinned: nobody has reviewed it."
        elif state == "new":
            yield "Nobody has reviewed what this server's tools say of themselves: «placet mcp pin» does."
        elif state == "changed":
            yield f"This tool is not as it was when it was pinned:\n{pins.diff_of(self._server, raw)}"
        hidden = invisible_in(raw)
        if hidden:
            yield f"What it says of itself has invisible characters in it: {', '.join(hidden[:5])}."
        if tool.schema is None:
            yield "Its arguments cannot be checked: its schema is none, or cannot be used."
        if self._config.heed_hints and _says_that_it_destroys(raw):
            yield "Its server says that it may destroy something."

    async def _is_asked(self, tool: Tool) -> bool:
        """Only False lets a call go; a rule that fails asks."""
        rule = self._policy.rule_for(_typed(tool.raw or {"name": tool.name}), self._agent)
        if isinstance(rule, bool):
            return rule
        try:
            found = rule(RunContextWrapper(None), {}, "")
            if inspect.isawaitable(found):
                found = await found
        except Exception:  # noqa: BLE001  # a rule that fails asks a person
            return True
        return found is not False


def _typed(raw: Mapping[str, Any]) -> types.Tool:
    try:
        return types.Tool.model_validate({"inputSchema": {"type": "object"}, **raw})
    except ValidationError:
        return types.Tool(name=str(raw.get("name")), input_schema={"type": "object"})


def _says_that_it_destroys(raw: Mapping[str, Any]) -> bool:
    return is_destructive(_typed(raw))
