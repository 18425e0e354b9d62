"""A ballot: what a question about a call needs before it is decided, and the votes that were cast on it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.events import ApproversRequired, VoteCast, VoteTakenBack
from placet.facts.requirements import Requirement


class Ballot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    requirement: Requirement
    request: int
    """The question that it is about. An elicitation, which asks something else, leaves it behind."""
    votes: tuple[VoteCast, ...] = ()
    """All that were cast and not taken back, in this order: of one person the newest counts."""
    arguments: JsonObject | None = None
    """What a reviewer made of the arguments, where the question is about that."""
    editor: str | None = None
    taken: tuple[VoteTakenBack, ...] = ()
    """What was taken back: an older copy of such a vote, which some state may still hold, does not count."""

    def anew(self, request: int) -> Ballot:
        """The same requirement for another question: what was said about the first one does not count there."""
        return Ballot(requirement=self.requirement, request=request)

    def with_vote(self, vote: VoteCast) -> Ballot:
        return msgspec.structs.replace(self, votes=(*self.votes, vote))

    def without(self, taken: VoteTakenBack) -> Ballot:
        left = tuple(each for each in self.votes if voter_of(each) != voter_of(taken))
        return msgspec.structs.replace(self, votes=left, taken=(*self.taken, taken))

    def newest(self, more: Sequence[VoteCast] = ()) -> tuple[VoteCast, ...]:
        """The newest vote of each person, as far as names tell, with some more."""
        last: dict[str | None, VoteCast] = {}
        for vote in (*self.votes, *more):
            before = last.get(voter_of(vote))
            if before is None or vote.at >= before.at:
                last[voter_of(vote)] = vote
        return tuple(last.values())

    def voter_for(self, by: str | None, digest: str) -> str | msgspec.UnsetType | None:
        """Whose vote this person takes back if they say no more than that: their own, or the one that they cast for
        somebody else. UNSET: they have none."""
        cast = [vote for vote in self.newest() if vote.digest == digest]  # not what its principal said otherwise since
        if any(voter_of(vote) == by for vote in cast):
            return by
        return next((voter_of(vote) for vote in reversed(cast) if vote.by == by), msgspec.UNSET)

    def time_after(self, voter: str | None, now: float) -> float:
        """The time of what a person decides now: later than what they said before, whatever the clocks say, since they
        have that before them."""
        said = [vote.at for vote in self.votes if voter_of(vote) == voter]
        said += [taken.at for taken in self.taken if voter_of(taken) == voter]
        latest = max(said, default=0.0)
        return now if now > latest else round(latest + 0.001, 3)

    def again(self, call: str, *, without: str | msgspec.UnsetType | None = msgspec.UNSET) -> ApproversRequired:
        """The fact by which a question that is asked again needs the same and is about the same. The votes stand,
        except those of one voter."""
        votes = [each for each in self.votes if voter_of(each) != without]
        return ApproversRequired(call, self.requirement, votes, self.arguments, self.editor)


def voter_of(vote: VoteCast | VoteTakenBack) -> str | None:
    """Whose vote it is: a delegate votes as another person."""
    return vote.on_behalf_of or vote.by
