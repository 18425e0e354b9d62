"""Standing decisions at work: which of them, if any, decides a call that waits."""

from __future__ import annotations

from collections.abc import Sequence

from placet.core.approvals import Entry
from placet.core.casting import Known, authors_of, count_authors
from placet.core.four_eyes import guest_of, parties_of, why_approval_does_not_count
from placet.core.gate import newest_first, newest_grant
from placet.core.state import Call, RunFold
from placet.facts.events import DecisionMade, GrantMade, Pattern
from placet.facts.ids import call_key
from placet.ports import Store
from placet.runtime.budgets import bound_of_grant, look, promised_by
from placet.runtime.casting import known_for


async def decision_by_grant(
    store: Store,
    run_id: str,
    root: RunFold,
    run: RunFold,
    call: Call,
    standing: Sequence[GrantMade],
    four_eyes: Sequence[Pattern],
    now: float,
) -> DecisionMade | None:
    """What the newest standing decision that reaches the call says of it; its use is counted then."""
    ledger = root.ledger
    entry = ledger.entry(call.id)
    assert entry is not None, "a held call is in the ledger"
    foreign = [grant for grant in standing if not ledger.has_had(grant.id)]
    reaching = newest_first([*foreign, *ledger.grants()])
    names = authors_of(reaching) | parties_of(root, ())
    is_counted = entry.open_ballot is not None or bool(four_eyes)
    known = await known_for(store, names, four_eyes) if is_counted else Known()
    candidates = [grant for grant in reaching if _may_decide(root, run, entry, grant, known)]
    while candidates:
        grant = newest_grant(
            candidates, ledger, run.path, run.response_agent, entry.tool, entry.fingerprint, call.effective, now
        )
        if grant is None:
            return None
        if grant.terms is not None:
            if await _is_covered(store, run_id, root, grant, call, now):
                return _by_grant(grant, entry, now)
        elif grant.scope == "run" or await store.use_grant(grant, call_key(run_id, call.id)):
            return _by_grant(grant, entry, now)
        candidates.remove(grant)
    return None


async def _is_covered(store: Store, run_id: str, root: RunFold, grant: GrantMade, call: Call, now: float) -> bool:
    """Whether what is left of its budget covers the call, behind those that it let through and that have not begun.
    Nothing is taken yet: that is done with the claim, and what is written there is what counts."""
    bound = bound_of_grant(grant)
    if bound is None or grant.verdict == "reject":
        return True
    promised = [(each, [bound]) for each in promised_by(root, grant)]
    covered = await look(store, run_id, [(call, [bound])], now, promised)
    return call.id in covered.facts


def _may_decide(root: RunFold, run: RunFold, entry: Entry, grant: GrantMade, known: Known) -> bool:
    """Whether those who made a standing decision could have decided this very call. Every person may reject, where no
    votes are needed."""
    if entry.open_ballot is not None:
        way = "deny" if grant.verdict == "reject" else "approve"
        return count_authors(root, entry, entry.open_ballot, grant, known).verdict == way
    if grant.verdict == "reject" or not known.four_eyes:
        return True
    started_by, agent = root.started_by, run.response_agent
    return (
        why_approval_does_not_count(
            known.four_eyes,
            known.people,
            agent=agent,
            tool=entry.name,
            started_by=started_by,
            author=grant.by,
            guest=guest_of(root),
        )
        is None
    )


def _by_grant(grant: GrantMade, entry: Entry, now: float) -> DecisionMade:
    return DecisionMade(
        call=entry.call,
        request=entry.request,
        digest=entry.digest,
        verdict=grant.verdict,
        by=grant.by,
        at=now,
        reason=grant.reason,
        message=grant.message,
        grant=grant.id,
        via=grant.via,
        assurance=grant.assurance,
    )


async def grants_that_decided(store: Store, run_id: str, run: RunFold, calls: Sequence[Call]) -> list[GrantMade]:
    """The grants that decided these calls and still stand."""
    used = {call.decision.grant: call for call in calls if call.decision is not None and call.decision.grant}
    if not used:
        return []
    foreign = await store.standing_grants(run.response_agent)
    known = {grant.id: grant for grant in (*foreign, *run.ledger.grants())}
    return [
        grant
        for each, call in used.items()
        if (grant := known.get(each)) is not None
        and (grant.scope == "run" or grant.terms is not None or await store.use_grant(grant, call_key(run_id, call.id)))
    ]
