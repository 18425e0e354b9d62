"""What stores index: the questions that wait, derived from the facts that are appended. The logs can rebuild it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from placet.core.approvals import Entry
from placet.core.ballot import Ballot
from placet.core.fold import fold
from placet.core.log import Line
from placet.core.state import RunFold
from placet.facts.codec import Json, JsonObject, canonical, parse_arguments
from placet.facts.errors import ServerHistoryNotFound
from placet.facts.events import (
    ApproversRequired,
    CallEnded,
    CallHeld,
    CallInDoubt,
    DecisionMade,
    DecisionRevoked,
    InChild,
    InputAsked,
    PlainFact,
    QuestionEscalated,
    Record,
    RuleHeard,
    VoteCast,
    VoteTakenBack,
)
from placet.facts.ids import request_id, request_key
from placet.facts.requirements import Assurance, needs_text
from placet.facts.verdict_words import WORDS, DecidedStatus

RequestStatus: TypeAlias = Literal["pending", DecidedStatus, "closed"]
"""`closed`: the question ended without an answer: expired, superseded, cancelled, or asked again in another form."""

RequestKind: TypeAlias = Literal["approval", "in_doubt", "elicitation"]
"""May this call run? Did it happen? What does it want to know?"""

Asked: TypeAlias = CallHeld | CallInDoubt | InputAsked
"""The facts that put a question to a person."""

VOTING: TypeAlias = ApproversRequired | VoteCast | VoteTakenBack

RunStatus: TypeAlias = Literal["running", "waiting", "stopped", "ended"]
"""`waiting`: for people. `stopped`: an error did, and it goes on when a person resumes it (or decides in it)."""


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a person: as it is indexed, listed, shown at a desk and told over the API."""

    id: str
    run_id: str
    call: str
    """The call's local id."""
    number: int
    """Which question about the call this is."""
    kind: RequestKind
    agent: str
    tool: str
    arguments_text: str = msgspec.field(name="arguments")
    """The exact arguments, as they would run: text, so that it is what the digest covers."""
    digest: str
    created_at: float
    why: str | None = None
    expires_at: float | None = None
    status: RequestStatus = "pending"
    decided_by: str | None = None
    decided_at: float | None = None
    reason: str | None = None
    questions: dict[str, JsonObject] | None = None
    """Of an elicitation: what the running call wants to know, by key. `respond` answers."""
    escalated_at: float | None = None
    """When there was no answer in time, and the question went to others: it waits on, without a deadline."""
    grant: str | None = None
    """The standing decision that decided, where no person looked at this call: `decided_by` made that one."""
    proposed: str | None = None
    """What the model wrote, where validation filled in or changed something: `arguments` are what would run."""
    ballot: Ballot | None = None
    """What it needs before it is decided, and the votes; None: one word of anybody who may decide it, or the call was
    asked about again since."""
    summary: str | None = None
    """What would happen, in one sentence of the tool's own. The arguments count."""
    irreversible: bool = False
    """The tool says that nobody can undo its effect."""
    decided_via: str | None = None
    """Through which door the decision came; None: from a program, or older code did not say."""
    assurance: Assurance = "none"
    """How sure it is that it was the person in `decided_by`."""
    undo_window: float | None = None
    """How many seconds the inbox leaves between a yes and the call, as the tool says; None: what the inbox does."""
    rules: tuple[RuleHeard, ...] = ()
    """The rules of the policy that spoke when it was asked, those in shadow too: what they said stands beside what
    people decided."""

    @property
    def votes(self) -> tuple[VoteCast, ...]:
        """What people want so far, the newest of each, as far as names tell."""
        return () if self.ballot is None else self.ballot.newest()

    @property
    def needs(self) -> str | None:
        """Who has to approve, in one line; None: one word of anybody who may decide."""
        return None if self.ballot is None else needs_text(self.ballot.requirement)

    @property
    def key(self) -> str:
        """By what stores know it."""
        return request_key(self.run_id, self.call, self.number)

    @property
    def arguments(self) -> JsonObject | str:
        """The exact arguments, as they would run; the text itself where they are not one JSON object."""
        return _parsed(self.arguments_text)

    @property
    def proposed_arguments(self) -> JsonObject | str | None:
        """What the model wrote, where validation filled in or changed something; else None."""
        return None if self.proposed is None else _parsed(self.proposed)


def _parsed(arguments: str) -> JsonObject | str:
    found = parse_arguments(arguments)
    return arguments if found is None else found


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run: as it is indexed, listed, shown at a desk and told over the API."""

    id: str
    agent: str
    status: RunStatus
    created_at: float
    updated_at: float
    length: int
    """How many lines its log has."""
    turn: int = 0
    session: str | None = None
    final_output: Json = None
    stopped: str | None = None
    """What stopped the last drive, if an error did: the run can be resumed."""
    started_by: str | None = None
    is_driven: bool = False
    """A driver has the right to drive it at this moment."""
    has_news: bool = False
    """Something was appended from outside (or a driver died) and no driver has taken it in yet."""
    takeovers: int = 0
    """How often the run was taken over from a driver that had died."""
    is_parked: bool = False
    """Taken over too often: no process drives it until an operator says so."""
    wake_at: float | None = None
    """When the first of its questions ends by itself."""
    erased_at: float | None = None
    """When what it said was erased."""
    held: str | None = None
    """Which hold keeps it from going on, and whose: said by `Desk.get` and `Desk.wait`, not by lists."""

    @property
    def lost_its_server(self) -> bool:
        """What the model's server kept of it is gone: `resume(own_history=True)` has it go on without."""
        return self.stopped is not None and self.stopped.startswith(f"{ServerHistoryNotFound.code}:")


class Opened(msgspec.Struct, frozen=True):
    """A question was asked; an open one about the same call is closed by it."""

    row: RequestRecord


class Closed(msgspec.Struct, frozen=True):
    """The open question about a call has ended."""

    call: str
    status: RequestStatus
    by: str | None = None
    at: float | None = None
    reason: str | None = None
    grant: str | None = None
    """The standing decision that ended it, if one did."""
    via: str | None = None
    assurance: Assurance = "none"


class Reopened(msgspec.Struct, frozen=True):
    """The last question about a call is open again: its decision was revoked."""

    call: str


class EscalatedRequest(msgspec.Struct, frozen=True):
    """The open question about a call has no deadline any more: others are asked."""

    call: str
    at: float


class Counted(msgspec.Struct, frozen=True):
    """What the newest question about a call needs, and the votes, are these now. Earlier ones show none any more."""

    call: str
    ballot: Ballot


RequestChange: TypeAlias = Opened | Closed | Reopened | EscalatedRequest | Counted


def request_changes(run_id: str, lines: Sequence[Line | Record], run: RunFold) -> list[RequestChange]:
    """What appending these lines does to the questions of the run, in order. `run` is the fold with the lines."""
    facts = [(line.at, _bare(fact)) for line in lines for fact in line.facts]
    numbers = _numbers([fact for _, fact in facts], run)
    found: list[RequestChange] = []
    revoked: dict[str, DecisionRevoked] = {}
    for place, (at, fact) in enumerate(facts):
        if isinstance(fact, DecisionRevoked):
            revoked[fact.call] = fact
        elif isinstance(fact, Asked) and (revocation := revoked.pop(fact.call, None)) is not None:
            found.append(Closed(fact.call, "closed", revocation.by, revocation.at, revocation.reason))
        found += _changes(run_id, at, fact, numbers, run)
        following = facts[place + 1][1] if place + 1 < len(facts) else None
        if isinstance(fact, CallHeld) and isinstance(following, ApproversRequired):
            found[-1] = _as_edited(found[-1], following)
    return [*found, *_counted([fact for _, fact in facts], run)]


def _as_edited(opened: RequestChange, needed: ApproversRequired) -> RequestChange:
    """A question about what a reviewer made of the arguments shows that."""
    if not isinstance(opened, Opened) or needed.arguments is None:
        return opened
    proposed = opened.row.proposed or opened.row.arguments_text
    shown = canonical(needed.arguments).decode()
    return Opened(msgspec.structs.replace(opened.row, arguments_text=shown, proposed=proposed, summary=None))


def _counted(facts: Iterable[PlainFact], run: RunFold) -> Iterator[Counted]:
    """The ballots that these facts are about, as they stand at their end."""
    for call in dict.fromkeys(fact.call for fact in facts if isinstance(fact, Asked | VOTING)):
        entry = run.ledger.entry(call)
        if entry is not None and entry.ballot is not None:
            yield Counted(call, entry.ballot)


def rebuilt(run_id: str, records: Iterable[Record], run: RunFold) -> dict[str, RequestRecord]:
    """The questions that these records of a run's log ask, by id, as they stand after the last. `run` is the fold
    before them, and continues with them."""
    rows: dict[str, RequestRecord] = {}
    for record in records:
        fold(record.facts, into=run)
        for change in request_changes(run_id, [record], run):
            _note(rows, change)
    return rows


def with_changes(request: RequestRecord, changes: Iterable[RequestChange]) -> RequestRecord:
    """A request as it stands after changes to the questions of its run."""
    rows = {request.id: request}
    for change in changes:
        _note(rows, change)
    return rows[request.id]


def _note(rows: dict[str, RequestRecord], change: RequestChange) -> None:
    match change:
        case Opened(row):
            _close(rows, Closed(row.call, "closed"))
            rows[row.id] = row
        case Closed():
            _close(rows, change)
        case Reopened(call):
            _reopen(rows, call)
        case EscalatedRequest():
            for row in _pending(rows, change.call):
                rows[row.id] = msgspec.structs.replace(row, escalated_at=change.at, expires_at=None)
        case Counted():
            for row in _about(rows, change.call):
                ballot = change.ballot if row.number == change.ballot.request else None
                rows[row.id] = msgspec.structs.replace(row, ballot=ballot)
        case never:
            assert_never(never)


def _about(rows: dict[str, RequestRecord], call: str) -> list[RequestRecord]:
    return [row for row in rows.values() if row.call == call]


def _reopen(rows: dict[str, RequestRecord], call: str) -> None:
    last = max(_about(rows, call), key=lambda row: row.number, default=None)
    if last is not None:
        rows[last.id] = _ended(last, Closed(call, "pending"))


def _close(rows: dict[str, RequestRecord], end: Closed) -> None:
    for row in _pending(rows, end.call):
        rows[row.id] = _ended(row, end)


def _ended(row: RequestRecord, end: Closed) -> RequestRecord:
    return msgspec.structs.replace(
        row,
        status=end.status,
        decided_by=end.by,
        decided_at=end.at,
        reason=end.reason,
        grant=end.grant,
        decided_via=end.via,
        assurance=end.assurance,
    )


def _pending(rows: dict[str, RequestRecord], call: str) -> list[RequestRecord]:
    return [row for row in _about(rows, call) if row.status == "pending"]


def _numbers(facts: Sequence[PlainFact], run: RunFold) -> Iterator[int]:
    """The number of each question among the facts, in order. The fold knows the last one about a call; the others
    are counted back from it."""
    asked = [fact.call for fact in facts if isinstance(fact, Asked)]
    for place, call in enumerate(asked):
        entry = run.ledger.entry(call)
        assert entry is not None, "what is asked about is in the ledger"
        yield entry.request - asked[place + 1 :].count(call)


def _bare(fact: PlainFact | InChild) -> PlainFact:
    return fact.fact if isinstance(fact, InChild) else fact


def _changes(run_id: str, at: float, fact: PlainFact, numbers: Iterator[int], run: RunFold) -> Iterator[RequestChange]:
    match fact:
        case CallHeld() | CallInDoubt() | InputAsked():
            yield Opened(_row(run_id, at, fact, next(numbers), run))
        case QuestionEscalated():
            yield EscalatedRequest(fact.call, at)
        case DecisionMade():
            status = WORDS[fact.verdict].status
            yield Closed(fact.call, status, fact.by, fact.at, fact.reason, fact.grant, fact.via, fact.assurance)
        case DecisionRevoked():
            yield Reopened(fact.call)
        case CallEnded():
            if run.ledger.entry(fact.call) is not None:
                yield Closed(fact.call, "closed", None, at)
            for call in run.ledger.undecided_below(fact.call):  # with its call a nested run is over
                yield Closed(call, "closed", None, at)
        case _:
            pass


_KIND_OF: dict[type[Asked], RequestKind] = {
    CallHeld: "approval",
    CallInDoubt: "in_doubt",
    InputAsked: "elicitation",
}


def _row(run_id: str, at: float, fact: Asked, number: int, run: RunFold) -> RequestRecord:
    entry = run.ledger.entry(fact.call)
    assert entry is not None, "what is asked about is in the ledger"
    return RequestRecord(
        id=request_id(run_id, fact.call, number),
        run_id=run_id,
        call=fact.call,
        number=number,
        kind=_KIND_OF[type(fact)],
        agent=entry.agent,
        tool=entry.name,
        arguments_text=_arguments(entry, fact),
        digest=fact.digest,
        created_at=at,
        why=None if isinstance(fact, InputAsked) else fact.why,
        expires_at=None if isinstance(fact, CallInDoubt) else fact.expires_at,
        questions=fact.questions if isinstance(fact, InputAsked) else None,
        proposed=entry.proposed if isinstance(entry.values, str) and isinstance(entry.proposed, str) else None,
        summary=entry.summary,
        irreversible=entry.irreversible,
        undo_window=entry.undo_window,
        rules=tuple(fact.rules or ()) if isinstance(fact, CallHeld) else (),
    )


def _arguments(entry: Entry, fact: Asked) -> str:
    """What the question is about: the model's own arguments, as validated, or, in doubt, those that ran."""
    if isinstance(fact, CallHeld):
        found = entry.proposed if entry.values is msgspec.UNSET else entry.values
        return found if isinstance(found, str) else entry.arguments
    return entry.arguments


def run_status(run: RunFold) -> RunStatus:
    """What is stored. That an error stopped the run is stored beside it: `shown_status` unites both."""
    if run.has_ended:
        return "ended"
    return "waiting" if run.ledger.open_entries() else "running"


def shown_status(stored: RunStatus, stopped: str | None) -> RunStatus:
    """What a run is called wherever it is shown: one that an error stopped neither runs nor waits for people alone."""
    return "stopped" if stopped is not None and stored != "ended" else stored
