"""The part of a desk that is for operators: forgetting runs, standing decisions, holds, four eyes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from placet.clock import Clock
from placet.core.approvals import Entry
from placet.declare.decisions import DecisionInput, Grant, facts_of_decision
from placet.desk.agents_here import AgentsHere
from placet.desk.four_eyes import demand_four_eyes, set_four_eyes
from placet.facts.checks import NUMBER, check
from placet.facts.errors import UserError
from placet.facts.events import GrantMade, HoldKind, Pattern
from placet.facts.requirements import Assurance
from placet.ports import DeskStore, Engine, Hold
from placet.service.subscriptions import Subscriptions


class OperatorsDesk(AgentsHere):
    """What operators do."""

    store: DeskStore
    _engine: Engine
    _clock: Clock

    def _now(self) -> float:
        return round(self._clock.now(), 3)

    # -- forgetting -------------------------------------------------------------------------------------------------

    async def delete(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> bool:
        """Forget a run with its log and its questions; the operators' log says who did it, when and why, and where the
        run's log stood. False: there is none. RunConflict while a process drives it."""
        is_deleted = await self.store.delete(run_id, by=by, at=self._now(), reason=reason)
        await self._subscriptions().forget_run(run_id)
        return is_deleted

    async def erase(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> bool:
        """Take what an ended run said out of the store for good: inputs, arguments, outputs, messages, names.

        Its log stays, as a chain that still verifies, and the operators' log says who erased it, when and why. False:
        it was erased before. A run that has not ended is refused.
        """
        is_new = await self.store.erase(run_id, by=by, at=self._now(), reason=reason)
        await self._subscriptions().forget_run(run_id)  # also when it was erased before: a letter may have come after
        return is_new

    async def purge(self, ended_before: float, *, by: str | None = None, reason: str | None = None) -> int:
        """Forget runs that ended before that time; how many. The operators' log says which, as for `delete`.

        What a webhook or another channel is still to be told stays until it was, or until that one is suspended.
        """
        check("", ended_before=(ended_before, NUMBER))
        bound = await self._subscriptions().before_forgetting(ended_before)
        forgotten = 0
        while found := await self.store.purge(bound, by=by, at=self._now(), reason=reason):
            forgotten += found
        return forgotten

    def _subscriptions(self) -> Subscriptions:
        return Subscriptions(self.store, self._clock)

    # -- grants and holds -------------------------------------------------------------------------------------------

    async def grants(self) -> list[GrantMade]:
        """Standing decisions that reach beyond one run."""
        return await self.store.grants()

    async def grant(
        self,
        agent: str,
        tool_name: str,
        verdict: Literal["approve", "reject"],
        *,
        by: str | None = None,
        arguments: Mapping[str, object] | None = None,
        until: datetime | float | None = None,
        uses: int | None = None,
        matching: Mapping[str, object] | None = None,
        budget: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        reason: str | None = None,
        message: str | None = None,
        grant_id: str | None = None,
        via: str | None = None,
        assurance: Assurance = "none",
    ) -> GrantMade:
        """A standing decision about later calls of a tool of this agent; the operators' log tells who made it.

        With a `grant_id` of one's own it is made once, however often it is asked for.
        """
        tool = self.tool_at(agent, tool_name) or await self._server_tool(agent, tool_name)
        if tool is None:
            raise UserError(f"This desk has no tool '{tool_name}' of an agent '{agent}' to decide about.")
        bounds = Grant(scope="agent", arguments=arguments, until=until, uses=uses, matching=matching, budget=budget)
        entry = Entry(call="", label="", name=tool.name, tool=tool.identity, agent=agent, fingerprint=tool.fingerprint)
        given = DecisionInput(
            verdict=verdict, always=bounds, by=by, reason=reason, message=message, via=via, assurance=assurance
        )
        _, (made,) = facts_of_decision(entry, given, self._now(), await self.store.standing_grants(agent))
        refuse_if_over([made], self._now())
        made = made if grant_id is None else msgspec.structs.replace(made, id=grant_id)
        await self.store.put_grant(made)
        return made

    async def revoke_grant(self, grant_id: str, *, by: str | None = None, reason: str | None = None) -> bool:
        """Whether there was such a grant. What it let through and has not begun is asked about."""
        return await self.store.revoke_grant(grant_id, by=by, at=self._now(), reason=reason)

    async def hold(
        self,
        kind: HoldKind,
        name: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        over_others: bool = True,
    ) -> bool:
        """Nothing that this covers starts from now on, approved or not, until `release_hold`. A second hold on the same
        thing replaces the first; without `over_others` not another's (False: theirs stands)."""
        if kind not in ("run", "agent", "tool"):
            raise UserError(f"A run, an agent or a tool can be held, not a {kind!r}.")
        placed = Hold(kind=kind, name=name, by=by, at=self._now(), reason=reason)
        return await self.store.put_hold(placed, over_others=over_others)

    async def release_hold(
        self,
        kind: HoldKind,
        name: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        placed_by: str | None = None,
    ) -> bool:
        """Whether it was held (with `placed_by`: by this person)."""
        at = self._now()
        was_held = await self.store.remove_hold(kind, name, by=by, at=at, reason=reason, placed_by=placed_by)
        await self._engine.enqueue("")
        return was_held

    async def holds(self) -> list[Hold]:
        return list(await self.store.holds())

    async def four_eyes(self) -> list[Pattern]:
        """Where the person who started a run may not say yes to its calls: patterns of agent and tool."""
        return list(await self.store.four_eyes())

    async def set_four_eyes(
        self, patterns: Sequence[Pattern], *, by: str | None = None, reason: str | None = None
    ) -> list[Pattern]:
        """Demand four eyes there and nowhere else, in every process on this store; the operators' log says who did."""
        return await set_four_eyes(self.store, patterns, by=by, at=self._now(), reason=reason)

    async def demand_four_eyes(
        self, patterns: Sequence[Pattern], *, by: str | None = None, reason: str | None = None
    ) -> list[Pattern]:
        """Demand four eyes there, too: what is demanded elsewhere stays so."""
        return await demand_four_eyes(self.store, patterns, by=by, at=self._now(), reason=reason)


def refuse_if_over(grants: Sequence[GrantMade], now: float) -> None:
    if any(grant.until is not None and grant.until <= now for grant in grants):
        raise UserError("The time of this standing decision is over already: it would never decide anything.")
