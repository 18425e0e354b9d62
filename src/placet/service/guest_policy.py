"""What a policy says about guests' calls: when they are proposed, and again before they are claimed."""

from __future__ import annotations

from placet.core.claim import PolicyObjection
from placet.core.gate import Ask, Free, Verdict
from placet.core.policy import Policy, Ruling, Subject
from placet.core.state import Call, RunFold
from placet.facts.events import ApproversRequired
from placet.facts.requirements import ANYBODY, Requirement
from placet.ports import Store
from placet.runtime.budgets import NOTHING_BOUND, Covered, look, promised_by_rules
from placet.runtime.policing import as_covered, objection_to, takes_of_rules, warn, with_ruling
from placet.service.guest_facts import Draft


def ruling_on(policy: Policy, run: RunFold, call: Call, now: float) -> Ruling:
    """What the policy says about a call of a guest, as it would run now."""
    if not policy.rules_for(call.name):
        return policy.silent
    assert run.guest is not None, "a guest's session"
    assert call.proposed is not None, "a call of a guest"
    return policy.judge(
        Subject(
            tool=call.name,
            agent=run.response_agent,
            source=run.guest.source,
            started_by=run.started_by,
            arguments=call.effective or {},
            schema=call.proposed.schema,
            now=now,
        )
    )


async def judge_proposed(
    draft: Draft, store: Store, run_id: str, policy: Policy, call: Call, now: float, *, asks: bool
) -> Verdict:
    """What becomes of a proposed call: by what its guest or desk says (`asks`), and by the policy."""
    own: Free | Ask = Ask() if asks else Free()
    ruling = ruling_on(policy, draft.run, call, now)
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
    ruling, covered = ruling_on(policy, draft.run, call, now), NOTHING_BOUND
    if takes_of_rules(call, ruling):
        covered = await look(store, run_id, [(call, ruling.bounds)], now)
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
