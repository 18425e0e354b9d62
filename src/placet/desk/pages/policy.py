"""The pages about the policy: what is in force and what its rules said, why somebody is asked about a call, and rules
that people's decisions suggest. Nothing here changes a rule; where people vote, a suggestion can be proposed.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.core.approvals import name_of
from placet.core.budget import rule_budget
from placet.core.policy import OWN_SOURCE, Policy, Subject
from placet.desk.desk import Desk, DeskRequest
from placet.desk.pages.form_data import form_of
from placet.desk.pages.rendering import link, show
from placet.desk.web.context import Web, actor_of, require, web_of
from placet.desk.web.deciding import request_meant
from placet.desk.web.problems import Problem
from placet.facts.errors import PolicyRefused, UserError
from placet.policy.adding import with_rule
from placet.policy.backtest import FILE_SAYS, SAID, Backtest, as_enforced
from placet.policy.explaining import Explanation, explain
from placet.policy.loading import digest_of_text, parse_policy
from placet.policy.suggest import Suggested, suggest
from placet.service.budget_figures import Left, left_of
from placet.service.decided import collected, subject_of
from placet.service.managed_policy import PolicyChanges
from placet.service.policy_state import PolicyState, policy_state, text_of

DAY = 86_400.0
BACK = 30
"""Days of decisions on which the page tries the policy."""
MOST = 5_000
"""Decisions that the page looks at: the command looks at all."""
KEPT_SECONDS = 300.0
_LATELY: weakref.WeakKeyDictionary[Desk, tuple[float, list[Suggested]]] = weakref.WeakKeyDictionary()


async def policy_page(request: Request) -> Response:
    """The policy in force, with its rules' figures; on demand what it would have decided, and what is suggested."""
    web, given = web_of(request), request.query_params
    state = await policy_state(web.desk.store)
    policy = await policy_here(web, state)
    context = {
        "page": "policy",
        "state": state,
        "policy": policy,
        "places": _places(policy, state),
        "budgets": await _budgets(web, policy),
        "proposed": await PolicyChanges(web.desk.store, web.clock).questions(),
        "table": await _backtest(web, policy) if given.get("backtest") and policy is not None else None,
        "said": SAID,
        "verdicts": FILE_SAYS,
        "days": BACK,
        "most": MOST,
    }
    return show(request, "policy.html", context)


async def policy_here(web: Web, state: PolicyState | None = None) -> Policy | None:
    """The policy that decides here; where this process has none, the one that is in force in the store."""
    if web.desk.policy is not None:
        return web.desk.policy.current()
    found = (state or await policy_state(web.desk.store)).in_force
    text = await text_of(web.desk.store, found.version) if found is not None else None
    if found is None or text is None:
        return None
    try:
        return parse_policy(text, name=found.origin)
    except PolicyRefused:  # another process knows more, or has what an extra brings
        return None


def _places(policy: Policy | None, state: PolicyState) -> list[tuple[str, str, str, int, str]]:
    """Each rule: its name, verdict, mode, line, and what it said in this mode."""
    if policy is None:
        return []
    figures = {(each.name, each.mode, each.verdict): each.line for each in state.rules}
    return [
        (
            rule.name,
            rule.verdict,
            rule.mode,
            rule.line,
            figures.get((rule.name, rule.mode, rule.verdict), "never spoke"),
        )
        for rule in policy.rules
    ]


async def _budgets(web: Web, policy: Policy | None) -> list[tuple[str, str, Sequence[Left]]]:
    """What is left of the budgets of rules and of standing decisions: a name, whose it is, and each limit."""
    store, now = web.desk.store, web.clock.now()
    bounded = [rule for rule in policy.rules if rule.budget] if policy is not None else []
    found: list[tuple[str, str, Sequence[Left]]] = [
        (f"rule {rule.name}", "", await left_of(store, rule_budget(rule.name), rule.budget, now)) for rule in bounded
    ]
    for grant in await web.desk.grants():
        if grant.terms is not None and grant.terms.budget:
            left = await left_of(store, grant.id, grant.terms.budget, now)
            found.append(
                (f"{name_of(grant.tool)} of {grant.agent}", f"standing decision of {grant.by or 'nobody'}", left)
            )
    return found


async def _backtest(web: Web, policy: Policy) -> Backtest:
    since = web.clock.now() - BACK * DAY
    found = await collected(web.desk.store, since, [policy], MOST)
    table = Backtest(as_enforced(policy))
    begun = time.monotonic()
    for case in found:
        table.take(case)
        if time.monotonic() - begun > 0.02:  # others have their turn
            await asyncio.sleep(0)
            begun = time.monotonic()
    return table


# -- why somebody is asked --------------------------------------------------------------------------------------------


async def why_page(request: Request) -> Response:
    """Every rule about one call: whether it matches, why, and what decides."""
    web = web_of(request)
    asked = await request_meant(web, request.query_params.get("open", ""))
    policy = await policy_here(web)
    found = explain(policy, await _subject_of(web, asked)) if policy is not None else None
    return show(request, "why.html", {"page": "inbox", "asked": asked, "found": found, "own": _own(asked, found)})


async def _subject_of(web: Web, asked: DeskRequest) -> Subject:
    run = await web.desk.store.run(asked.run_id)
    return subject_of(asked, run.started_by if run is not None else None)


def _own(asked: DeskRequest, found: Explanation | None) -> str:
    """What speaks for the question beside the policy."""
    if asked.kind != "approval":
        return ""
    if found is not None and found.verdict == "ask":
        return ""
    is_own = subject_of(asked).source == OWN_SOURCE
    who = "The tool's own rule (needs_approval)" if is_own else "Whoever makes the call, or this desk,"
    return f"{who} asks about it, and no rule of the policy lifts that."


# -- what is suggested ------------------------------------------------------------------------------------------------


async def suggested_page(request: Request) -> Response:
    """Rules that people's own decisions suggest, the best one first; as cards."""
    web = web_of(request)
    found = await _suggested(web)
    state = await policy_state(web.desk.store)
    is_managed = state.in_force is not None and state.in_force.way == "managed"
    context = {
        "page": "policy",
        "found": [(each, digest_of_text(each.text)) for each in found],
        "can_propose": is_managed and actor_of(request).may("admin"),
    }
    return show(request, "suggested.html", context)


async def suggested_card(request: Request) -> Response:
    """The best suggestion as a card for the inbox; nothing where there is none."""
    found = await _suggested_lately(web_of(request))
    return show(request, "_suggested.html", {"best": found[0] if found else None, "count": len(found)})


async def _suggested_lately(web: Web) -> list[Suggested]:
    """The same, at most so old: an inbox that is empty is looked at often."""
    now, kept = web.clock.now(), _LATELY.get(web.desk)
    if kept is None or not kept[0] <= now < kept[0] + KEPT_SECONDS:
        kept = _LATELY[web.desk] = now, await _suggested(web)
    return kept[1]


async def _suggested(web: Web) -> list[Suggested]:
    policy = await policy_here(web)
    cases = await collected(web.desk.store, web.clock.now() - BACK * DAY, [] if policy is None else [policy], MOST)
    return await asyncio.to_thread(suggest, cases, policy)


async def propose_suggestion(request: Request) -> Response:
    """Put a suggested rule to the vote, in shadow."""
    actor, web, form = require(request, "admin"), web_of(request), await form_of(request)
    policy = await policy_here(web)
    wanted = form.text("rule")
    chosen = next((each for each in await _suggested(web) if digest_of_text(each.text) == wanted), None)
    if chosen is None:
        raise Problem(409, "stale_approval", "What is suggested is another thing by now: look again.")
    try:
        text = with_rule(policy.text if policy is not None else "", chosen.text, chosen.name, "shadow")
        made = parse_policy(text, name="policy.toml")
        asked = await PolicyChanges(web.desk.store, web.clock).propose(
            made, by=actor.name, reason=f"suggested: would have spared {chosen.spares} of {chosen.asked} questions"
        )
    except UserError as error:
        raise Problem(422, "user_error", error.message) from error
    return RedirectResponse(link("/inbox", open=asked.request), 303)
