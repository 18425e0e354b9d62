"""The part of a desk that says who has to approve: rules per tool, delegations, rotations, reviews of break-glass."""

from __future__ import annotations

from placet.core.casting import delegations_at
from placet.core.rotations import on_call
from placet.desk import voting_settings
from placet.desk.operating import OperatorsDesk
from placet.facts.checks import FLAG, NAME, TEXT, check, optional
from placet.facts.voting_settings import ApproverRule, Delegation, Rotation, VotingSettings
from placet.service.glass import OwedReview, give_review, owed_reviews


class ApproversDesk(OperatorsDesk):
    """Who has to approve, who votes for whom, who is on call."""

    async def voting_settings(self) -> VotingSettings:
        return await self.store.voting_settings()

    async def set_approvers(
        self, rule: ApproverRule, *, by: str | None = None, reason: str | None = None
    ) -> list[ApproverRule]:
        """What questions need at these tools, besides what the tool and the policy say, in the place of a rule with the
        same patterns. One that nobody could fulfil is UserError. It holds for questions from now on, and once more
        before a call begins. All rules that there are."""
        return await voting_settings.put_rule(self.store, rule, by=by, at=self._now(), reason=reason)

    async def remove_approvers(
        self, agent: str, tool: str, *, by: str | None = None, reason: str | None = None
    ) -> bool:
        """Whether there was a rule with these patterns."""
        return await voting_settings.remove_rule(self.store, agent, tool, by=by, at=self._now(), reason=reason)

    async def delegations(self) -> list[Delegation]:
        """Who votes for whom now, or will."""
        settings, now = await self.store.voting_settings(), self._now()
        return [each for each in settings.delegations if each.until > now]

    async def principals_of(self, delegate: str) -> list[str]:
        """For whom this person may vote at this moment."""
        settings = await self.store.voting_settings()
        found = [each.principal for each in delegations_at(settings, self._now()) if each.delegate == delegate]
        return list(dict.fromkeys(found))

    async def delegate(
        self,
        principal: str,
        to: str,
        *,
        until: float,
        begins: float | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Delegation:
        """From now on, or from `begins`, `to` votes for `principal` until that time. The log names both."""
        return await voting_settings.delegate(
            self.store, principal, to, begins=begins, until=until, by=by, at=self._now(), reason=reason
        )

    async def end_delegation(self, wanted: str, *, by: str | None = None, reason: str | None = None) -> bool:
        """Whether there was one. Votes that were cast under it stand, until they are taken back."""
        return await voting_settings.end_delegation(self.store, wanted, by=by, at=self._now(), reason=reason)

    async def set_rotation(
        self, name: str, rotation: Rotation | None, *, by: str | None = None, reason: str | None = None
    ) -> Rotation | None:
        """Who is on call from now on; None: nobody, by this name. They are in the group `on-call.NAME`."""
        return await voting_settings.set_rotation(self.store, name, rotation, by=by, at=self._now(), reason=reason)

    async def on_call(self, name: str, at: float | None = None) -> str | None:
        """Who is on call now, or at that time; None: nobody."""
        rotation = (await self.store.voting_settings()).rotations.get(name)
        return None if rotation is None else on_call(rotation, self._now() if at is None else at)

    async def reviews_owed(self) -> list[OwedReview]:
        """Where one person went ahead alone, and nobody has looked at it yet."""
        return await owed_reviews(self.store, self._now())

    async def review(self, request_id: str, *, was_right: bool, by: str, reason: str | None = None) -> OwedReview:
        """Say whether it was right that somebody went ahead alone there. Not by that person."""
        check("", request_id=(request_id, NAME), by=(by, NAME), was_right=(was_right, FLAG))
        check("", reason=(reason, optional(TEXT)))
        return await give_review(self.store, request_id, was_right=was_right, by=by, at=self._now(), reason=reason)
