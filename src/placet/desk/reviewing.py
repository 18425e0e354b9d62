"""The part of a desk that is for reviewers: what waits, decisions, taking them back.

Lists come from the store's index. One request, and what is decided about it, comes from the run's log: a decision is
appended there, at the position that was looked at, so that of two contradicting ones exactly one wins and the other
learns who did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from placet.core.casting import as_vote
from placet.core.deciding import facts_to_append, facts_to_revoke, not_pending
from placet.core.fold import fold
from placet.core.four_eyes import parties_of, why_decisions_do_not_count
from placet.core.index import (
    RequestChange,
    RequestRecord,
    RequestStatus,
    request_changes,
)
from placet.core.log import Log, read_line
from placet.core.short_ids import find_id
from placet.core.state import RunFold
from placet.declare.decisions import DecisionInput, Grant, facts_of_decision, plain_answer, plain_object
from placet.declare.tool_values import InvalidArguments
from placet.desk.approving import ApproversDesk
from placet.desk.asked_changes import ask
from placet.desk.listing import listed
from placet.desk.operating import refuse_if_over
from placet.desk.views import DeskRequest
from placet.desk.voting import ballot_on, facts_of_vote, newest_of
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import (
    AccessDenied,
    PlacetError,
    PositionConflict,
    StaleApproval,
    StoreError,
    UserError,
)
from placet.facts.events import (
    AnyFact,
    ClaimDelayed,
    DecisionMade,
    GrantMade,
    InChild,
    Verdict,
)
from placet.facts.ids import path_of, split_request_id
from placet.facts.ids import request_id as next_request_id
from placet.facts.requirements import Assurance
from placet.facts.signatures import SignedDecision
from placet.ports import Page, RequestQuery
from placet.runtime.frame import awaited
from placet.runtime.journal import load_recent
from placet.service.glass import owe_review
from placet.service.guest_calls import GuestCalls
from placet.service.guest_tools import refuse_what_no_host_carries
from placet.service.questions import FoundRequest, find_request, true_request

MAX_TRIES = 100
"""How often an append from outside is tried again because another process appended first."""


def _delayed(facts: Sequence[AnyFact], call: str, not_before: float) -> Iterator[AnyFact]:
    """The same, and after an approval of this call that it begins later. What follows for other calls does not wait."""
    for fact in facts:
        yield fact
        bare = fact.fact if isinstance(fact, InChild) else fact
        if isinstance(bare, DecisionMade) and bare.call == call and bare.verdict in ("approve", "edit"):
            delay = ClaimDelayed(call, bare.request, not_before)
            yield InChild(fact.path, delay) if isinstance(fact, InChild) else delay


def _refuse_odd_votes(row: RequestRecord, given: DecisionInput) -> None:
    """Words that mean something only where votes are counted, and only of people with names."""
    if given.on_behalf_of is None and not given.breaks_glass:
        return
    if row.ballot is None:
        raise UserError(
            f"Request {row.id} needs one word of anybody who may decide it: decide in your own name. Nobody votes for "
            "somebody else there, and nobody has to go ahead alone."
        )
    if given.breaks_glass and given.verdict == "reject":
        raise UserError("To go ahead alone is to approve: a rejection needs nobody's leave.")
    if given.breaks_glass and given.always:
        raise UserError("Who goes ahead alone decides about this call, and not about later ones.")


class ReviewersDesk(ApproversDesk):
    """What reviewers do."""

    guests: GuestCalls

    async def ask_about_change(
        self, tool: str, arguments: JsonObject, *, by: str, reason: str | None = None
    ) -> str | None:
        """Where a rule for `desk/*` wants votes for changes of who may decide: the request under which people are asked
        about this one. It is carried out when they approved it. None: nobody has to be asked."""
        return await ask(self.store, self.guests, tool, arguments, by=by, reason=reason)

    async def pending(
        self,
        *,
        run_id: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        limit: int | None = None,
    ) -> list[DeskRequest]:
        """All that waits for a person, oldest first, or at most `limit`; `requests` says where the next ones begin."""
        return (await self.requests(run_id=run_id, agent=agent, tool=tool, limit=limit)).rows

    async def requests(
        self,
        *,
        status: RequestStatus | None = "pending",
        run_id: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Page[DeskRequest]:
        """Questions: all of them, or at most `limit`, and then `cursor` leads to the next ones."""
        query = RequestQuery(
            status=status, run_id=run_id, agent=agent, tool=tool, cursor=cursor, newest_first=newest_first
        )
        return await listed(self.store.requests, query, limit)

    async def request(self, request_id: str) -> DeskRequest:
        return await true_request(self.store, request_id)

    async def find(self, request_id: str) -> FoundRequest:
        """A request, and the place in its run's log where it was looked at: `decide` takes it in place of the id."""
        return await find_request(self.store, request_id)

    async def find_request(self, typed: str) -> DeskRequest:
        """The request that somebody means: by its id, or by a beginning or end of it that no other waiting one has.

        For looking only: decide with the `id` of what you were shown."""
        if split_request_id(typed) is None:
            typed = find_id(typed, [row.id for row in await self.pending()])
        return await self.request(typed)

    async def decide(
        self,
        request_id: str | FoundRequest,
        verdict: Verdict,
        *,
        by: str | None = None,
        reason: str | None = None,
        message: str | None = None,
        arguments: Mapping[str, object] | None = None,
        output: object = msgspec.UNSET,
        always: bool | Grant = False,
        digest: str | None = None,
        via: str | None = None,
        assurance: Assurance = "none",
        not_before: float | None = None,
        on_behalf_of: str | None = None,
        break_glass: bool = False,
        signed: SignedDecision | None = None,
    ) -> DeskRequest:
        """Approve, reject, edit or respond. An equal repeated decision is fine; a contradicting one is StaleApproval.

        Where several people have to approve, it is a vote: the request waits on until the votes decide. An edit that
        does not decide gives the new request in the place of this one. `assurance` says how sure it is that it was this
        person: a name alone is no member of a group.

        `on_behalf_of`: it is the vote of somebody who delegated theirs. `break_glass`: go ahead alone, where the
        requirement allows it, with a reason; a review is owed then.

        With `not_before` (seconds since 1970), what is approved begins at that time at the earliest: until then the
        approval can be taken back.

        With `digest`, only what had that digest when it was shown is decided about. With what `find` gave in place of
        an id, the decision is made where the request was looked at, and nothing is read a second time.
        """
        found = request_id if isinstance(request_id, FoundRequest) else await self.find(request_id)
        row = found.request
        if digest is not None and digest != row.digest:
            raise StaleApproval(f"Request {row.id} is about something else than what was shown: look again.")
        given = await self._decision_input(row, verdict, by, reason, message, arguments, output, always)
        given = msgspec.structs.replace(
            given, via=via, assurance=assurance, signed=signed, on_behalf_of=on_behalf_of, breaks_glass=break_glass
        )
        _refuse_odd_votes(row, given)
        grants_before = await self.store.standing_grants(row.agent) if always else ()
        patterns = await self.store.four_eyes() if verdict != "reject" else ()

        async def facts_at(_log: Log, run: RunFold) -> list[AnyFact]:
            refuse_what_no_host_carries(run, row.id, row.kind, verdict)
            facts = await self._facts(row, run, given, grants_before)
            if not_before is not None and row.kind == "approval":
                facts = [*_delayed(facts, row.call, not_before)]
            people = await self.store.people(parties_of(run, facts)) if patterns else {}
            if (why := why_decisions_do_not_count(patterns, people, run, facts)) is not None:
                raise AccessDenied(f"Nothing was decided: {why}")
            return facts

        if break_glass and by is not None:
            await owe_review(self.store, row, by, self._now())
        changes = await self._append(row.run_id, facts_at, found.place)
        if changes is not None:
            return newest_of(row, changes)
        return await self.store.request(row.id) or row

    async def decided_values(
        self, found: FoundRequest, verdict: Verdict, arguments: Mapping[str, object] | None, output: object
    ) -> Json:
        """What would run after an edit, or what the model would read as an answer, as it would be recorded."""
        row, entry = found.request, None if found.place is None else found.place[1].ledger.entry(found.request.call)
        given = await self._decision_input(row, verdict, None, None, None, arguments, output, always=False)
        if entry is None:
            raise not_pending(f"Request {row.id}", [])
        decision, _ = facts_of_decision(msgspec.structs.replace(entry, digest=row.digest), given, self._now())
        return decision.arguments if verdict == "edit" else decision.output

    async def _decision_input(
        self,
        row: RequestRecord,
        verdict: Verdict,
        by: str | None,
        reason: str | None,
        message: str | None,
        arguments: Mapping[str, object] | None,
        output: object,
        always: bool | Grant,
    ) -> DecisionInput:
        if verdict not in ("approve", "reject", "edit", "respond"):
            raise UserError(f"A decision is approve, reject, edit or respond, not {verdict!r}.")
        if verdict == "respond" and output is msgspec.UNSET:
            raise UserError("To respond is to give the model an output: output=….")
        if verdict == "edit" and row.kind == "in_doubt":
            raise UserError(
                f"Request {row.id} is about a call that may have happened: run it again as it was (approve), say what "
                "came of it (respond), or give it up (reject)."
            )
        if (verdict == "edit") != (arguments is not None):
            raise UserError("An edit needs arguments=…, and nothing else takes them.")
        edited = None if arguments is None else await self._checked_edit(row, arguments)
        answer = plain_answer(output) if verdict == "respond" else None
        return DecisionInput(
            verdict=verdict,
            always=always,
            by=by,
            reason=reason,
            message=message,
            arguments=edited,
            output=answer,
        )

    async def _checked_edit(self, row: RequestRecord, arguments: Mapping[str, object]) -> JsonObject:
        """What would run: the edit, completed by validation where the tool's code is here."""
        edited = plain_object(arguments, f"The edited arguments of '{row.tool}'")
        tool = await self.tool_of(row)
        if tool is None:
            return edited
        try:
            return tool.validated(edited).values
        except InvalidArguments as error:
            raise UserError(f"The edited arguments do not fit tool '{row.tool}':\n{error}") from error

    async def _facts(
        self, row: RequestRecord, run: RunFold, given: DecisionInput, grants_before: Sequence[GrantMade]
    ) -> list[AnyFact]:
        """The facts of the decision at this place of the log."""
        entry = run.ledger.entry(row.call)
        if entry is None:
            raise not_pending(f"Request {row.id}", run.ledger.open_entries())
        seen = msgspec.structs.replace(entry, request=row.number, digest=row.digest)
        decision, grants = facts_of_decision(seen, given, self._now(), [*grants_before, *run.ledger.grants()])
        ballot = ballot_on(entry, row.number)
        if ballot is not None:
            refuse_if_over(grants, self._now())
            vote = as_vote(
                decision,
                ballot,
                grants,
                via=given.via,
                assurance=given.assurance,
                on_behalf_of=given.on_behalf_of,
                breaks_glass=given.breaks_glass,
            )
            return await facts_of_vote(self.store, run, vote, self.tool_at(entry.agent, entry.name))
        new = facts_to_append(run, [decision])
        path = path_of(row.call)
        wrapped: list[AnyFact] = [InChild(path, grant) if path else grant for grant in grants]
        if new:
            refuse_if_over(grants, self._now())
        return [*wrapped, *new] if new else []

    async def revoke(self, request_id: str, *, by: str | None = None, reason: str | None = None) -> DeskRequest:
        """Take an approval back, until its call begins: the call is asked about again, and no grant decides it. Where
        votes decide, those who voted take their own vote back; those of others stand.

        Returns the new question, or the same one where it was not decided yet. Once the call has begun it is
        StaleApproval: what has happened has happened.
        """
        row = await true_request(self.store, request_id)
        asked = next_request_id(row.run_id, row.call, row.number + 1)

        def take_back(_log: Log, run: RunFold) -> list[AnyFact]:
            return facts_to_revoke(run, row.call, row.number, by, self._now(), reason)

        await self._append(row.run_id, take_back)
        return await self.request(asked if row.status != "pending" else row.id)

    async def decide_many(self, decisions: Sequence[Mapping[str, Any]]) -> list[DeskRequest | Exception]:
        """Several decisions, each with its own outcome: the request as it stands then, or the error."""

        async def one(decision: Mapping[str, Any]) -> DeskRequest | Exception:
            try:
                given = dict(decision)
                if "request_id" not in given or "verdict" not in given:
                    raise UserError("Each decision has a request_id and a verdict.")
                return await self.decide(given.pop("request_id"), given.pop("verdict"), **given)
            except PlacetError as error:
                return error
            except (TypeError, ValueError) as error:
                return UserError(f"This is not a decision: {error}.")

        return list(await asyncio.gather(*(one(each) for each in decisions)))

    # -- appending -----------------------------------------------------------------------------------------------------

    async def _append(
        self,
        run_id: str,
        facts_at: Callable[[Log, RunFold], list[AnyFact] | Awaitable[list[AnyFact]]],
        place: tuple[Log, RunFold] | None = None,
    ) -> list[RequestChange] | None:
        """Append from outside: look, decide what to say there, and say it only if nobody else spoke in between.

        `place`: a log that was loaded already, and its fold. What happened to the run's requests there; None where
        others had appended since, so that more may have become of them.
        """
        is_first = place is not None
        for _ in range(MAX_TRIES):
            log, run = place or await self._place(run_id)
            facts = await awaited(facts_at(log, run))
            if not facts:
                return [] if is_first else None
            fold(facts, into=run)
            if run.guest is not None:  # no process drives it: what follows is written with what it follows from
                facts = [*facts, *await self.guests.follow_up(run_id, run, read_line(log.lines[-1]).at)]
            line = log.next_line(self._now(), facts)
            try:
                await self.store.append(None, log, [line], run)
            except PositionConflict:
                place, is_first = None, False
                continue
            await self._engine.enqueue(run_id)
            return request_changes(run_id, [line], run) if is_first else None
        raise StoreError(f"Run {run_id} changes so often that nothing could be appended to it: try again.")

    async def _place(self, run_id: str) -> tuple[Log, RunFold]:
        found = await load_recent(self.store, run_id)
        if found is None:
            raise UserError(f"There is no run {run_id} in this store.")
        return found[1], found[2]
