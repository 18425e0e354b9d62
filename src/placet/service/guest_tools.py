"""Guests' tools, as people at a desk need them: declared in the log with each call, and run by nobody here."""

from __future__ import annotations

from typing import Any

from placet.core.index import RequestKind, RequestRecord
from placet.core.state import RunFold
from placet.declare.context import ToolContext
from placet.declare.tool import FunctionTool
from placet.facts.errors import PlacetError, UserError
from placet.facts.events import GuestAdmitted, ProposedCall, Verdict
from placet.facts.ids import split_request_id
from placet.ports import DeskStore
from placet.runtime.journal import load_recent


async def tool_of_guest(store: DeskStore, request_id: str) -> FunctionTool | None:
    """The tool of the call that a question is about, as its guest declared it; None where the log does not say."""
    parts = split_request_id(request_id)
    if parts is None:
        return None
    run_id, local, _ = parts
    try:
        found = await load_recent(store, run_id)
    except PlacetError:  # it was erased, or newer code wrote it
        return None
    call = found[2].calls.get(local) if found is not None else None
    return None if call is None or call.proposed is None else tool_as_declared(call.name, call.proposed)


def tool_as_declared(name: str, proposed: ProposedCall) -> FunctionTool:
    return FunctionTool(
        name=name,
        description=proposed.description,
        params_json_schema=proposed.schema,
        on_invoke_tool=_not_here,
        strict_json_schema=False,
        needs_approval=True,
        version=proposed.version,
    )


async def _not_here(_ctx: ToolContext[Any], _arguments: str) -> object:
    raise UserError("A guest's tool is executed by its guest, and by nobody else.")


def lacks(guest: GuestAdmitted, kind: RequestKind) -> tuple[Verdict, ...]:
    """What cannot be said about a guest's call, because its host could not carry it out. That a call in doubt happened
    can always be said."""
    edit: tuple[Verdict, ...] = () if guest.edits else ("edit",)
    return edit if guest.answers or kind == "in_doubt" else (*edit, "respond")


async def can_be_edited(store: DeskStore, request: RequestRecord) -> bool:
    """Whether the call could be carried out with other arguments: a guest's host may run only what it proposed."""
    if "/" not in request.agent:
        return True
    try:
        found = await load_recent(store, request.run_id)
    except PlacetError:  # it was erased, or newer code wrote it
        return False
    return found is not None and (found[2].guest is None or "edit" not in lacks(found[2].guest, request.kind))


def refuse_what_no_host_carries(run: RunFold, request_id: str, kind: RequestKind, verdict: Verdict) -> None:
    """UserError for an edit, or an answer, that the guest's host could not carry out."""
    if run.guest is None or verdict not in lacks(run.guest, kind):
        return
    what = "run a call with other arguments" if verdict == "edit" else "take an answer"
    raise UserError(f"Request {request_id} is of a host that cannot {what}: say yes or no.")
