"""The gate for the Claude Agent SDK: hooks around the tool calls of Claude Code, which run when somebody has said yes.

`async with ClaudeGate(gate) as claude:` and then `query(…, options=claude.options(ClaudeAgentOptions(…)))`. Claude Code
executes the tools in a process of its own. It is told that a hook that fails stops the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from placet.core.guest import GateCall, Permit
from placet.facts.codec import JsonObject
from placet.facts.errors import GateError, TooManyWaiting, UserError
from placet.facts.ids import mint
from placet.gate.hosting import Asks, Bubbled, Host, Underway, Words, check_host, refusal, slips_past
from placet.gate.port import Gate

LONGEST = 14 * 86_400.0
"""Seconds after which Claude Code gives a hook up. It counts in milliseconds, in 32 bits: 24 days are the most."""
INSTEAD = "Nothing was executed. What came of this call: "
"""Claude Code has no place for an answer: it reaches the model as the reason of a refusal, and says so."""
UNASKED = frozenset({"acceptEdits", "auto", "bypassPermissions", "dontAsk"})
"""Permission modes in which Claude Code lets calls run, or stops them, without asking `can_use_tool`."""


class ClaudeGate:
    """The tool calls of Claude Code behind a gate, while it is entered.

    `permissions`: only what Claude Code's own rules would ask about is asked (`can_use_tool`), not every call.
    `session` names the conversation, by default by Claude Code's session. `needs_approval` is True, False or a function
    of the tool's name and arguments. `timeout`: seconds to wait for a decision, after which the call is taken back and
    the model reads so. `schemas`: JSON Schemas of tools by name, for cards, defaults and checks. `passes`: names of
    tools that may go past the gate, and `settings`, `plugins`.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        permissions: bool = False,
        session: str | None = None,
        needs_approval: Asks = True,
        timeout: float | None = None,
        lease: float | None = None,
        schemas: Mapping[str, JsonObject] | None = None,
        passes: Collection[str] = (),
    ) -> None:
        check_host("ClaudeGate", gate)
        self._host = Host(gate=gate, needs_approval=needs_approval, timeout=timeout, lease=lease)
        self._underway = Underway(gate)
        self._permissions = permissions
        self._session = session
        self._schemas = schemas or {}
        self._passes = frozenset(passes)
        self._name = mint("claude")
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._underway.lost()

    # -- installing ---------------------------------------------------------------------------------------------------

    def options(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """The options with the gate in them. UserError, by name, where calls would slip past."""
        options = options or ClaudeAgentOptions()
        if not self._is_open:
            raise UserError("A ClaudeGate is entered before it is used: async with ClaudeGate(gate) as claude: …")
        if found := list(self._past(options)):
            raise slips_past("Claude Code with these options", found)
        hooks = {event: list(matchers) for event, matchers in (options.hooks or {}).items()}
        if not self._permissions:
            ours = HookMatcher(hooks=[self._before], timeout=LONGEST, on_failure="block")
            hooks["PreToolUse"] = [ours]
        for event in ("PostToolUse", "PostToolUseFailure"):
            hooks[event] = [*hooks.get(event, []), HookMatcher(hooks=[self._after])]
        asks = {"can_use_tool": self._can_use_tool} if self._permissions else {}
        return dataclasses.replace(options, hooks=hooks, **asks)

    def _past(self, options: ClaudeAgentOptions) -> Iterator[str]:
        passes = self._passes
        if options.setting_sources != [] and "settings" not in passes:
            yield "settings (files whose hooks can change a call after the yes, or run commands: setting_sources=[])"
        if options.settings and "settings" not in passes:
            yield "settings (their hooks and rules)"
        if options.plugins and "plugins" not in passes:
            yield "plugins (their hooks can change a call after the yes)"
        if (options.hooks or {}).get("PreToolUse"):
            yield "PreToolUse hooks of others (they run beside the gate, and can change a call after the yes)"
        if self._permissions:
            yield from self._past_permissions(options)

    def _past_permissions(self, options: ClaudeAgentOptions) -> Iterator[str]:
        """What lets calls past `can_use_tool`."""
        if options.permission_mode in UNASKED:
            yield f"permission_mode='{options.permission_mode}' (can_use_tool is not asked)"
        if options.can_use_tool is not None or (options.hooks or {}).get("PermissionRequest"):
            yield "can_use_tool or PermissionRequest hooks of others"
        for tool in options.allowed_tools:
            if tool not in self._passes:
                yield f"allowed tool '{tool}' (can_use_tool is not asked)"

    # -- a call -------------------------------------------------------------------------------------------------------

    async def _before(self, given: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """The PreToolUse hook. Any: a TypedDict of the SDK. Whatever it raises stops the call (`on_failure`)."""
        if given["tool_name"] in self._passes:
            return {}  # no opinion: Claude Code's own rules go on
        step = await self._step(
            given["tool_name"], given["tool_input"], given["tool_use_id"], given["session_id"], given.get("agent_type")
        )
        said: dict[str, Any] = {"hookEventName": "PreToolUse"}
        if isinstance(step, Words):
            said |= {"permissionDecision": "deny", "permissionDecisionReason": _said(step)}
        else:
            said |= {"permissionDecision": "allow", "updatedInput": step.arguments}
        return {"hookSpecificOutput": said}

    async def _can_use_tool(
        self, tool: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        step = await self._step(tool, given, context.tool_use_id or "", self._name, context.agent_id)
        if isinstance(step, Words):
            return PermissionResultDeny(message=_said(step))
        return PermissionResultAllow(updated_input=step.arguments)

    async def _step(
        self, tool: str, given: JsonObject, call_id: str, session: str, agent: str | None
    ) -> Permit | Words:
        if not self._is_open:
            return Words(f"'{tool}' was not run: its gate was left.")
        call: GateCall | Words | None = None
        try:
            call = await self._host.propose(
                tool,
                given,
                session=self._session or session,
                call_id=call_id,
                schema=self._schemas.get(tool),
                context=f"Called by subagent '{agent}'." if agent else None,
            )
            step = await self._host.permit(call)
        except asyncio.CancelledError:  # Claude Code does not wait any more: nobody would come back for a yes
            if isinstance(call, GateCall):
                with contextlib.suppress(GateError):
                    await asyncio.shield(self._host.gate.withdraw(call))
            raise
        except (GateError, TooManyWaiting) as error:
            return refusal(tool, error)
        if isinstance(step, Permit):
            await self._underway.begin(call_id, step)
        return step

    async def _after(self, given: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """The hooks after it: PostToolUse, PostToolUseFailure."""
        error: BaseException | None = None
        output = _text(given.get("tool_response"))
        if given["hook_event_name"] == "PostToolUseFailure":
            output = given.get("error")
            error = RuntimeError(output)
            if given.get("is_interrupt"):  # unknown how far it got
                error = Bubbled(RuntimeError(output))
        await self._underway.ended(given["tool_use_id"], output, error)
        return {}


def _said(words: Words) -> str:
    return words.text if words.is_refusal else f"{INSTEAD}{words.text}"


def _text(response: Any) -> Any:
    """Of an MCP tool the blocks of its result: as text, where they are text."""
    if isinstance(response, list) and response and all(isinstance(each, dict) and "text" in each for each in response):
        return "\n".join(str(each["text"]) for each in response)
    return response
