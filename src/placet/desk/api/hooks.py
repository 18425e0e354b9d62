"""Hooks of coding assistants over HTTP: the assistant posts its call, and reads the answer in its own words.

Every answer but a clear yes stops the call: a refusal in the assistant's words, or a status that it takes for a failed
hook. There is no empty answer: assistants take one for a yes.
"""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from placet.core.guest import GateCall, Guest, Proposal
from placet.desk.api.gate import name_of
from placet.desk.api.operations import ApiRequest, Operation
from placet.facts.codec import JsonObject
from placet.facts.errors import PlacetError
from placet.gate.assistants import Allowed, Answer, Denied, answer_for
from placet.gate.hosting import words_for
from placet.gate.own_traces import touches_placet
from placet.service.guest_answers import UNSETTLED

LOOK_SECONDS = 15.0
"""How often it is looked whether the assistant is still there."""

Text = Annotated[str, Meta(min_length=1, max_length=200)]


class HookAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What Claude Code tells a hook before a call. It tells more, which is not looked at."""

    hook_event_name: Literal["PreToolUse"]
    session_id: Text
    tool_name: Text
    tool_input: JsonObject
    tool_use_id: Text
    cwd: str = ""


class HookOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 540.0
    """Seconds to wait for a decision; then the call does not run."""
    passes: Annotated[str, Meta(max_length=2000)] = ""
    """Tools about which nobody is asked: patterns, with commas between them."""


class HookSaid(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in Claude Code's words."""

    hookSpecificOutput: JsonObject = msgspec.field(default_factory=dict)  # noqa: N815  # its word


async def claude_code(ask: ApiRequest[HookOptions, HookAsked]) -> Response:
    given = ask.body
    guest = Guest(
        name=name_of(ask.actor, ask.request.headers.get("placet-guest")),
        source="claude-code",
        reports=False,
        answers=False,
    )
    may_pass = any(fnmatchcase(given.tool_name, each) for each in ask.query.passes.split(",") if each)
    asks = not may_pass or touches_placet(given.tool_name, given.tool_input, given.cwd)
    proposal = Proposal(
        tool=given.tool_name,
        arguments=given.tool_input,
        session=given.session_id,
        call_id=given.tool_use_id,
        needs_approval=asks,
    )
    try:
        answer = await _answered(ask, guest, proposal)
    except PlacetError as error:  # in words: a status alone tells the model nothing
        answer = answer_for("claude-code", Denied(f"'{given.tool_name}' was not run: {error}"))
    return Response(answer.out or "{}", 200, media_type="application/json")


async def _answered(ask: ApiRequest[HookOptions, HookAsked], guest: Guest, proposal: Proposal) -> Answer:
    guests = ask.web.desk.guests
    if guests.watcher.waits >= ask.web.settings.max_waits:
        return answer_for("claude-code", Denied(f"'{proposal.tool}' was not run: too many wait at this desk already."))
    call = await _decided(ask, guest, await guests.propose(guest, proposal))
    if call.status in UNSETTLED:
        await guests.withdraw(guest, call.id)
        return answer_for("claude-code", Denied(f"'{call.tool}' was not run: nobody decided about it in time."))
    if call.status != "claimable":
        return answer_for("claude-code", Denied(words_for(call).text))
    permit = await guests.claim(guest, call.id)
    edited = None if permit.arguments == proposal.arguments else permit.arguments
    return answer_for("claude-code", Allowed(edited, was_asked=proposal.needs_approval))


async def _decided(ask: ApiRequest[HookOptions, HookAsked], guest: Guest, call: GateCall) -> GateCall:
    """The call when it is decided, when the time is over, or when the assistant has gone."""
    until = time.monotonic() + min(ask.query.timeout, _shorter(ask.request.headers.get("placet-hook-timeout")))
    guests = ask.web.desk.guests
    while call.status in UNSETTLED and (left := until - time.monotonic()) > 0:
        call = await guests.wait(guest, call.id, min(left, LOOK_SECONDS))
        if guests.watcher.is_ending or await ask.request.is_disconnected():
            break
    return call


def _shorter(said: str | None) -> float:
    try:
        return max(0.0, float(said or "inf"))
    except ValueError:
        return 0.0


OPERATIONS = (
    Operation(
        "POST",
        "/v1/gate/hooks/claude-code",
        claude_code,
        "Answer Claude Code's hook before a call",
        "gate",
        role="guest",
        query=HookOptions,
        body=HookAsked,
        answer=HookSaid,
        details="What `placet hook install claude-code --http` writes into its settings. The answer comes when "
        "somebody has decided, or after `timeout` seconds, and then it is a refusal. Calls that touch Placet or the "
        "assistant's settings are asked about, whatever `passes` says.",
    ),
)
