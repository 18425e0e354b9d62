"""What a policy says about guests' calls: when they are proposed, and again before they are claimed."""

from __future__ import annotations

import msgspec

from placet.core.claim import PolicyObjection
from placet.core.gate import Ask, Free, Verdict
from placet.core.policy import Policy, Ruling, Subject
from placet.core.state import Call, RunFold
from placet.facts.events import ApproversRequired
from placet.facts.requirements import ANYBODY, Requirement
from placet.ports import Store
from placet.runtime.budgets import NOTHING_BOUND, Covered, look, promised_by_rules
from placet.runtime.counting import counted
from placet.runtime.policing import as_covered, objection_to, takes_of_rules, warn, with_ruling
from placet.service.guest_facts import Draft

MCP = "mcp"
"""The source of calls that come through the MCP gateway."""


async def ruling_on(
    store: Store, run_id: str, policy: Policy, run: RunFold, call: Call, now: float
) -> tuple[Ruling, Covered]:
    """What the policy says about a call of a guest, as it would run now, and what the call takes of what is counted."""
    if not policy.rules_for(call.name):
        return policy.silent, NOTHING_BOUND
    subject = _subject_of(run, call, now)
    bounds = policy.counted(subject)
    if not bounds:
        return policy.judge(subject), NOTHING_BOUND
    counts = await counted(store, run_id, [(call, bounds)], now)
    ruling = policy.judge(msgspec.structs.replace(subject, over=counts.over.get(call.id)))
    return ruling, Covered(counts.facts, {}, {})


def _subject_of(run: RunFold, call: Call, now: float) -> Subject:
    assert run.guest is not None, "a guest's session"
    assert call.proposed is not None, "a call of a guest"
    return Subject(
        tool=call.name,
        agent=run.response_agent,
        source=run.guest.source,
        server=server_of_guest(run.guest.source, call.name),
        started_by=run.started_by,
        arguments=call.effective or {},
        schema=call.proposed.schema,
        now=now,
    )


def server_of_guest(source: str, tool: str) -> str | None:
    """The MCP server of a call that comes through the gateway: it stands before the tool's name."""
    server, slash, _ = tool.partition("/")
    return server if slash and source == MCP else None


async def judge_proposed(
    draft: Draft, store: Store, run_id: str, policy: Policy, call: Call, now: float, *, asks: bool
) -> Verdict:
    """What becomes of a proposed call: by what its guest or desk says (`asks`), and by the policy."""
    own: Free | Ask = Ask() if asks else Free()
    ruling, _ = await ruling_on(store, run_id, policy, draft.run, call, now)
    if ruling.bounds and isinstance(with_ruling(ruling, own), Free):
        promised = promised_by_rules(draft.run, ruling.bounds, {call.id})
        covered = await look(store, run_id, [(call, ruling.bounds)], now, promised)
        ruling = as_covered(ruling, call, covered)
    found = with_ruling(ruling, own)
    note(draft, run_id, call, ruling, lifted=asks and isinstance(found, Free))
    return found


async def objection(
    draft: Draft, store: Store, run_id: str, policy: Policy, call: Call, now: float
) -> tuple[PolicyObjection | None, Covered]:
    """What the policy, as it is now, has against a call that is about to be claimed; or what the call takes of the
    budgets of its rules."""
    ruling, covered = await ruling_on(store, run_id, policy, draft.run, call, now)
    if takes_of_rules(call, ruling):
        covered |= await look(store, run_id, [(call, ruling.bounds)], now)
        ruling = as_covered(ruling, call, covered)
    note(draft, run_id, call, ruling, lifted=ruling.relaxes and call.policy is not None and call.policy.lifted)
    against = objection_to(draft.run, call, ruling, None)
    return against, covered if against is None else NOTHING_BOUND


def note(draft: Draft, run_id: str, call: Call, ruling: Ruling, *, lifted: bool) -> None:
    fact = ruling.fact(call.id, lifted=lifted)
    if fact is not None and fact != call.policy:
        draft.note(fact)
        warn(run_id, fact)


def note_requirement(draft: Draft, call: Call, needed: Requirement | None) -> None:
    """Behind the question about a call: what it needs, where that is more than one word, or was."""
    entry = draft.run.ledger.entry(call.id)
    before = entry.ballot.requirement if entry is not None and entry.ballot is not None else None
    if needed != before:
        draft.note(ApproversRequired(call.id, needed or ANYBODY))
