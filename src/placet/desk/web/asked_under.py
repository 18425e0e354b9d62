"""A question keeps what it asked for when the policy changes: who looks at it is told so, and how it is asked anew."""

from __future__ import annotations

import asyncio
import functools

import msgspec

from placet.core.policy import Policy, Ruling
from placet.core.state import Call
from placet.desk.desk import DeskRequest
from placet.desk.web.context import Web
from placet.facts.errors import PlacetError, PolicyRefused
from placet.facts.requirements import ANYBODY, needs_text
from placet.policy.loading import parse_policy
from placet.ports import DeskStore
from placet.runtime.journal import load_recent
from placet.service.decided import subject_of
from placet.service.policy_state import IN_FORCE, RUNNING, InForce, text_of


async def asked_under(web: Web, request: DeskRequest) -> str | None:
    """That the policy was another one when this was asked, where that one asks otherwise by now. It changes nothing of
    what the question needs: a later version cannot make of too few votes enough."""
    if request.ballot is None or request.status != "pending":
        return None
    version = await _version_of(web.desk.store, request)
    now = await _in_force(web, version) if version is not None else None
    if version is None or now is None or now.version == version:
        return None
    run = await web.desk.store.run(request.run_id)
    subject = subject_of(request, run.started_by if run is not None else None)
    ruling, before = now.judge(subject), await _kept(web.desk.store, version)
    if before is not None and _asks(before.judge(subject)) == _asks(ruling):
        return None
    return (
        f"Asked under version {version} of the policy, and it keeps what it asked for. Version {now.version}, in force "
        f"now, {_says(ruling)}. To have it asked anew under that one, reject it and have the call proposed again."
    )


async def _version_of(store: DeskStore, request: DeskRequest) -> str | None:
    """The version whose rules spoke when this was asked, if any did."""
    try:
        found = await load_recent(store, request.run_id)
    except PlacetError:
        return None
    call: Call | None = found[2].calls.get(request.call) if found is not None else None
    return call.policy.version if call is not None and call.policy is not None else None


async def _in_force(web: Web, version: str) -> Policy | None:
    """The policy that decides here; where this process has none, the one that is in force in the store. None also
    where that is this version."""
    if web.desk.policy is not None:
        return web.desk.policy.current()
    record = await web.desk.store.record(RUNNING, IN_FORCE)
    found = None if record is None else msgspec.json.decode(record.data, type=InForce)
    return None if found is None or found.version == version else await _kept(web.desk.store, found.version)


async def _kept(store: DeskStore, version: str) -> Policy | None:
    """A version that was in force in this store. None: its text is not there, or does not load here."""
    text = await text_of(store, version)
    if text is None:
        return None
    try:
        return await asyncio.to_thread(_parsed, text)
    except PolicyRefused:
        return None


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> Policy:
    return parse_policy(text)


def _asks(ruling: Ruling) -> object:
    return ruling.verdict, (ruling.question.requirement or ANYBODY) if ruling.verdict == "ask" else None


def _says(ruling: Ruling) -> str:
    match ruling.verdict:
        case "ask":
            return f"asks for {needs_text(ruling.question.requirement or ANYBODY)} to approve"
        case "deny":
            return "denies the call"
        case _:
            return "asks nobody about it"
