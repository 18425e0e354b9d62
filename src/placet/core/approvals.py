"""The ledger: who decided what about which call, queryable at any moment from any thread.

Rule of this file: code that reads more than one thing, or changes anything, holds the lock; a reader sees a
change whole or not at all. Decisions that are in the log and decisions that are only staged (made on a state, not yet
appended) stand side by side, and the last decision counts.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from placet.core.ballot import Ballot, voter_of
from placet.core.terms import fits
from placet.facts.codec import JsonObject, canonical, parse_arguments
from placet.facts.events import AnyGrant, DecisionMade, GrantMade, GrantRevoked, VoteCast
from placet.facts.ids import path_of

Said: TypeAlias = DecisionMade | GrantMade | VoteCast
"""What people say on a state, before it is in the log."""

ANY_AGENT = "*"
"""The agent of a grant that was made by hand, on a wrapper that belongs to no run."""
_NO_USES: Mapping[str, int] = {}
_NO_NAMES: Mapping[str, str] = {}


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call that needed a decision: what was asked, and what was said."""

    call: str
    label: str
    name: str
    """What the model called: the tool's name."""
    tool: str = ""
    fingerprint: str = ""
    agent: str = ANY_AGENT
    arguments: str = ""
    request: int = 0
    digest: str = ""
    decision: DecisionMade | None = None
    decide_by: float | None = None
    """When it is too late to decide: the question ends then. None: it waits for as long as it takes."""
    proposed: str | msgspec.UnsetType = msgspec.UNSET
    """The model's own arguments, of a call in a run; `arguments` are an edit's where an edited call fell into doubt."""
    values: str | msgspec.UnsetType = msgspec.UNSET
    """What validation made of the model's own arguments, where it changed something."""
    ballot: Ballot | None = None
    """What is needed before it is decided, and the votes. None: one word of anybody who may decide it."""
    summary: str | None = None
    """What the tool says of this call, in one sentence."""
    irreversible: bool = False
    undo_window: float | None = None
    owner: str = ""
    """Of an entry made by hand: the name of the agent whose call it is, if the item says so."""

    @property
    def open_ballot(self) -> Ballot | None:
        """The ballot on this very question."""
        return self.ballot if self.ballot is not None and self.ballot.request == self.request else None

    @property
    def ruling(self) -> DecisionMade | None:
        """What was decided about the call itself."""
        return self.decision


class Asking(Entry, frozen=True, kw_only=True):
    """A call whose tool function asks for input: the decision is about the questions, and not about the call."""

    questions: dict[str, JsonObject]
    ran_under: DecisionMade | None = None
    """The decision under which the call was begun."""

    @property
    def ruling(self) -> DecisionMade | None:
        return self.ran_under


class ApprovalRecord(msgspec.Struct, frozen=True):
    """What was decided about one tool: call ids as the provider gave them, and a standing decision if there is one."""

    approved: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    always: Literal["approve", "reject"] | None = None


class LedgerContents(msgspec.Struct, frozen=True, array_like=True):
    """What a log has told a ledger, as plain values."""

    entries: list[Entry]
    asked: list[Asking]
    """Those of calls whose tool functions asked for input."""
    grants: tuple[AnyGrant, ...]
    uses: Mapping[str, int]
    past: list[DecisionMade]
    revoked: frozenset[str]


def name_of(tool: str) -> str:
    """The bare name in a tool's identity: `mcp:files:read` is the tool `read`."""
    return tool.rpartition(":")[2]


def is_hosted(tool: str) -> bool:
    """Whether a tool's identity is one of an MCP server that the model's provider talks to."""
    return tool.startswith("hosted_mcp:")


def is_unconditional(grant: GrantMade) -> bool:
    return grant.arguments is None and grant.until is None and grant.uses is None and grant.terms is None


def covers(
    grant: GrantMade, path: str, agent: str, tool: str, fingerprint: str, arguments: JsonObject | None, now: float
) -> bool:
    """Whether a grant reaches this call: its owner, its tool as it was then, its arguments, its time.

    Its count and its budget are asked elsewhere.
    """
    if (grant.agent, grant.tool, grant.fingerprint) != (agent, tool, fingerprint):
        return False
    if grant.scope == "run" and grant.path != path:
        return False
    if grant.until is not None and now >= grant.until:
        return False
    if grant.terms is not None and not fits(grant.terms, arguments):
        return False
    if grant.arguments is None:
        return True
    return arguments is not None and all(
        name in arguments and canonical(arguments[name]) == canonical(wanted)
        for name, wanted in grant.arguments.items()
    )


def is_made_with(grant: GrantMade, decision: DecisionMade, entry: Entry) -> bool:
    """Whether a grant and a decision are one decision of one person. Older logs do not name the call: there the tool,
    the person and the moment tell."""
    if grant.call not in (None, decision.call):
        return False
    return (grant.by, grant.at, grant.agent, grant.tool) == (decision.by, decision.at, entry.agent, entry.tool)


def rank(grant: GrantMade) -> tuple[float, bool]:
    """Sorts grants so that the last one counts: the newer one, and where the times do not tell, the no."""
    is_no = grant.verdict == "reject"
    if grant.at > 0:
        return grant.at, is_no
    return (math.inf if is_no else -math.inf), is_no  # without a time: a no beats every yes, a yes beats no no


def time_after(grants: Iterable[GrantMade], agent: str, tool: str, now: float) -> float:
    """The time of a standing decision that is made now: later than those that stand, whatever the clock says, since
    who makes it has them before them."""
    latest = max((grant.at for grant in grants if (grant.agent, grant.tool) == (agent, tool)), default=-math.inf)
    return now if now > latest else round(latest + 0.001, 3)


def is_of_one_voter(one: VoteCast, other: VoteCast) -> bool:
    """Whether two votes are about the same call, and of one person as far as the names tell."""
    return (one.call, voter_of(one)) == (other.call, voter_of(other))


class Ledger:
    """The decisions of one run (or of one wrapper made by hand). `copy` gives an independent one."""

    __slots__ = (
        "_by_label",
        "_entries",
        "_grants",
        "_listeners",
        "_lock",
        "_open",
        "_past",
        "_revoked",
        "_staged",
        "_staged_grants",
        "_staged_votes",
        "_tool_names",
        "_uses",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._entries: dict[str, Entry] = {}
        self._by_label: dict[tuple[str, str], tuple[str, ...]] = {}
        self._open: dict[str, None] = {}
        """The calls that wait, as far as the log knows."""
        self._grants: tuple[GrantMade, ...] = ()
        self._revoked: frozenset[str] = frozenset()
        """Grants that were taken back: a copy of a state that still holds one does not bring it back."""
        self._uses: Mapping[str, int] = _NO_USES
        self._past: dict[tuple[str, int], DecisionMade] = {}
        """Answers to earlier questions about calls that were asked about again."""
        self._tool_names: Mapping[str, str] = _NO_NAMES
        """What the model calls a tool, by the tool's identity, where that is not the last part of it. Like the uses, it
        is small: a new one takes its place when it changes, so copies can share it."""
        self._staged: dict[str, DecisionMade] = {}
        self._staged_grants: tuple[GrantMade, ...] = ()
        self._staged_votes: tuple[VoteCast, ...] = ()
        """One of each person about a call."""

    def copy(self, *, staged: bool = True) -> Ledger:
        twin = Ledger()
        with self._lock:
            twin._entries = self._entries.copy()
            twin._by_label = self._by_label.copy()
            twin._open = self._open.copy()
            twin._grants = self._grants
            twin._revoked = self._revoked
            twin._uses = self._uses
            twin._past = self._past.copy()
            twin._tool_names = self._tool_names
            if staged:
                twin._staged = self._staged.copy()
                twin._staged_grants = self._staged_grants
                twin._staged_votes = self._staged_votes
        return twin

    def contents(self) -> LedgerContents:
        """What the log has told, as plain values; what is only staged is not in it."""
        with self._lock:
            entries = self._entries.values()
            return LedgerContents(
                [each for each in entries if not isinstance(each, Asking)],
                [each for each in entries if isinstance(each, Asking)],
                self._grants,
                self._uses,
                list(self._past.values()),
                self._revoked,
            )

    @classmethod
    def of(cls, contents: LedgerContents) -> Ledger:
        """A ledger with these contents, in which nothing is open."""
        ledger = cls()
        for entry in [*contents.entries, *contents.asked]:
            ledger._add(entry)
        ledger._grants, ledger._uses, ledger._revoked = contents.grants, contents.uses, contents.revoked
        ledger._past = {(decision.call, decision.request): decision for decision in contents.past}
        return ledger

    def __eq__(self, other: object) -> bool:
        """Whether both know the same from their logs."""
        if not isinstance(other, Ledger):
            return NotImplemented
        return (self.contents(), self._open, self._by_label) == (other.contents(), other._open, other._by_label)

    __hash__ = None  # type: ignore[assignment]  # what it equals changes

    def become(self, other: Ledger) -> None:
        """Take over what the other knows from its log; what is staged here stays, unless the log has decided it."""
        with self._lock:
            self._entries = {**other._entries, **{c: e for c, e in self._entries.items() if e.agent == ANY_AGENT}}
            self._by_label = other._by_label
            self._open = other._open
            self._grants = other._grants
            self._revoked = other._revoked
            self._uses = other._uses
            self._past = other._past
            self._tool_names = {**self._tool_names, **other._tool_names}
            known = {grant.id for grant in other._grants} | self._revoked
            self._staged_grants = tuple(grant for grant in self._staged_grants if grant.id not in known)
            for call in [each for each in self._staged if each not in self._open]:
                self._unstage(call)
            self._staged_votes = tuple(vote for vote in self._staged_votes if self._is_asked(vote))

    # -- writing: from the log --------------------------------------------------------------------------------------

    def ask(self, entry: Entry) -> None:
        """A call waits for a decision now (again, perhaps: then what was decided before does not count any more)."""
        with self._lock:
            self._unstage(entry.call)
            before = self._entries.get(entry.call)
            if before is not None and before.decision is not None:
                self._past[before.call, before.request] = before.decision
            self._open[entry.call] = None
            self._add(entry)

    def record(self, decision: DecisionMade) -> None:
        with self._lock:
            self._unstage(decision.call)
            self._open.pop(decision.call, None)
            self._entries[decision.call] = msgspec.structs.replace(self._entries[decision.call], decision=decision)
            if decision.grant is not None:
                self._uses = {**self._uses, decision.grant: self._uses.get(decision.grant, 0) + 1}

    def keep(self, entry: Entry) -> None:
        """A call that was asked about and decided, and that has ended: `ask`, `record` and `close` at once."""
        decision = entry.decision
        with self._lock:
            self._unstage(entry.call)
            self._add(entry)
            if decision is not None and decision.grant is not None:
                self._uses = {**self._uses, decision.grant: self._uses.get(decision.grant, 0) + 1}

    def count(self, call: str, ballot: Ballot, arguments: str | None = None) -> None:
        """What a call needs, or the votes about it, are these now. A vote that the log holds is staged no more."""
        with self._lock:
            entry = self._entries[call]
            shown = entry.arguments if arguments is None else arguments
            self._entries[call] = msgspec.structs.replace(entry, ballot=ballot, arguments=shown)
            said = ballot.votes
            self._staged_votes = tuple(vote for vote in self._staged_votes if vote.call != call or vote not in said)

    def reopen(self, call: str) -> None:
        """The decision about a call was revoked."""
        with self._lock:
            self._entries[call] = msgspec.structs.replace(self._entries[call], decision=None)
            self._open[call] = None

    def close(self, call: str) -> None:
        """The call has ended, decided or not: nothing can be said about it any more."""
        with self._lock:
            self._open.pop(call, None)
            self._unstage(call)

    def add_grant(self, grant: GrantMade) -> None:
        with self._lock:
            self._staged_grants = tuple(each for each in self._staged_grants if each.id != grant.id)
            self._grants = (*(each for each in self._grants if each.id != grant.id), grant)

    def remove_grant(self, revoked: GrantRevoked) -> None:
        with self._lock:
            self._grants = tuple(grant for grant in self._grants if grant.id != revoked.id)
            self._staged_grants = tuple(grant for grant in self._staged_grants if grant.id != revoked.id)
            self._revoked |= {revoked.id}

    # -- writing: by people, before it is in the log ----------------------------------------------------------------

    def stage(
        self,
        decisions: Sequence[DecisionMade],
        grants: Sequence[GrantMade] = (),
        entries: Sequence[Entry] = (),
        votes: Sequence[VoteCast] = (),
    ) -> None:
        """Note decisions that the next drive of the run will append; a later one about the same call replaces an
        earlier one, and the grant that was made with it. A vote replaces an earlier one of the same person.

        `entries` introduces calls that no log knows: those of items made by hand.
        """
        with self._lock:
            for entry in entries:
                if entry.call not in self._entries:
                    self._add(entry)
            for decision in decisions:
                self._unstage(decision.call)
                self._staged[decision.call] = decision
            known = {grant.id for grant in self._staged_grants}
            self._staged_grants = (*self._staged_grants, *(grant for grant in grants if grant.id not in known))
            for vote in votes:
                others = (each for each in self._staged_votes if not is_of_one_voter(each, vote))
                self._staged_votes = (*others, vote)
            listeners = self._listeners
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have this called whenever something was staged, from whatever thread that is done in."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def stop_listening(self, listener: Callable[[], None]) -> None:
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def stage_again(self, facts: Sequence[Said]) -> None:
        """Stage what was said and did not get into the log, as far as it still is about what waits."""
        known = {grant.id for grant in self._grants} | self._revoked
        decisions = [fact for fact in facts if isinstance(fact, DecisionMade) and self._is_asked(fact)]
        votes = [fact for fact in facts if isinstance(fact, VoteCast) and self._is_asked(fact)]
        grants = [fact for fact in facts if isinstance(fact, GrantMade) and fact.id not in known]
        self.stage(decisions, grants, votes=votes)

    def _is_asked(self, fact: DecisionMade | VoteCast) -> bool:
        """Whether the question that a word is about waits."""
        return fact.call in self._open and self._entries[fact.call].request == fact.request

    def _unstage(self, call: str) -> None:
        """What was said about a call and is not in the log counts no more, nor does the grant that was made with it."""
        if self._staged_votes:
            self._staged_votes = tuple(vote for vote in self._staged_votes if vote.call != call)
        decision, entry = self._staged.pop(call, None), self._entries.get(call)
        if decision is not None and entry is not None and self._staged_grants:
            self._staged_grants = tuple(
                grant for grant in self._staged_grants if not is_made_with(grant, decision, entry)
            )

    def drop_staged_yes(self) -> None:
        """Forget what was approved here and is not in the log, for once or for always. A no stays, and an answer."""
        with self._lock:
            for call in [each.call for each in self._staged.values() if each.verdict in ("approve", "edit")]:
                self._unstage(call)
            self._staged_grants = tuple(grant for grant in self._staged_grants if grant.verdict == "reject")
            self._staged_votes = tuple(vote for vote in self._staged_votes if vote.verdict in ("reject", "respond"))

    def staged(self) -> tuple[Said, ...]:
        """Grants first, oldest first: in the log, too, the newest comes last."""
        with self._lock:
            return (*sorted(self._staged_grants, key=rank), *self._staged.values(), *self._staged_votes)

    def drop_votes(self, votes: Sequence[VoteCast]) -> None:
        """Forget staged votes that were looked at: what they say is in the log now, or was there before."""
        with self._lock:
            self._staged_votes = tuple(vote for vote in self._staged_votes if vote not in votes)

    def staged_votes(self, call: str) -> tuple[VoteCast, ...]:
        return tuple(vote for vote in self._staged_votes if vote.call == call)

    def has_staged(self) -> bool:
        return bool(self._staged or self._staged_grants or self._staged_votes)

    def _add(self, entry: Entry) -> None:
        if entry.call not in self._entries:
            key = (entry.name, entry.label)
            self._by_label[key] = (*self._by_label.get(key, ()), entry.call)
        self._entries[entry.call] = entry
        if entry.name != name_of(entry.tool):
            self._tool_names = {**self._tool_names, entry.tool: entry.name}

    # -- reading ----------------------------------------------------------------------------------------------------

    def entry(self, call: str) -> Entry | None:
        """What the log knows of a call; staged decisions are not in it."""
        return self._entries.get(call)

    def past_decision(self, call: str, request: int) -> DecisionMade | None:
        """The answer to an earlier question about a call, where a later one was asked."""
        return self._past.get((call, request))

    def open_entries(self) -> list[Entry]:
        """The calls that wait as far as the log knows: those with staged decisions among them."""
        with self._lock:
            return [self._entries[call] for call in self._open]

    def entries_by_hand(self) -> list[Entry]:
        """The entries that belong to no run."""
        with self._lock:
            return [entry for entry in self._entries.values() if entry.agent == ANY_AGENT]

    def decision_by_hand(self, key: str) -> tuple[Entry, DecisionMade] | None:
        """What was said by hand about the call with this key."""
        with self._lock:
            entry, decision = self._entries.get(key), self._staged.get(key)
            return (entry, decision) if entry is not None and decision is not None else None

    def grants_by_hand(self) -> tuple[GrantMade, ...]:
        return self._staged_grants

    def undecided_below(self, call: str) -> list[str]:
        """The calls of runs nested in this call that were asked about and never decided."""
        with self._lock:
            found = self._entries.values()
            return [each.call for each in found if each.decision is None and each.call.startswith(f"{call}/")]

    def has_open(self) -> bool:
        """Whether some call waits, as far as the log knows."""
        return bool(self._open)

    def is_open(self, call: str) -> bool:
        return call in self._open

    def grants(self) -> tuple[GrantMade, ...]:
        return self._grants

    def all_grants(self) -> tuple[GrantMade, ...]:
        """Those of the log, and those that are only staged."""
        with self._lock:
            return self._grants + self._staged_grants

    def has_had(self, grant: str) -> bool:
        """Whether the log holds this grant, or held it until it was taken back."""
        return grant in self._revoked or any(each.id == grant for each in self._grants)

    def uses_of(self, grant: str) -> int:
        return self._uses.get(grant, 0)

    def status(self, tool_name: str, call: str, tool: str | None = None) -> bool | None:
        """True, False or None (undecided) for a call named by the provider's label or by our local id; with `tool`, of
        the tool with this identity only."""
        with self._lock:
            verdicts = {self._verdict(entry) for entry in self._named(tool_name, call, tool)}
            if not verdicts:
                return self._grant_verdict(tool_name, None, tool)
        if False in verdicts:
            return False
        return True if verdicts == {True} else None

    def message(self, tool_name: str, call: str, tool: str | None = None) -> str | None:
        """What the model of a rejected call reads, if the decision (or the grant) says so."""
        with self._lock:
            named = self._named(tool_name, call, tool)
            decisions = [self._decision(entry) for entry in named]
            grants = sorted(self._grants + self._staged_grants, key=rank)
        for decision in decisions:
            if decision is not None and decision.verdict == "reject" and decision.message is not None:
                return decision.message
        for grant in reversed(grants):
            if grant.verdict != "reject" or self._name_in(grant) != tool_name or tool not in (None, grant.tool):
                continue
            if not named or any(
                _reaches(grant, entry, decision) for entry, decision in zip(named, decisions, strict=True)
            ):
                return grant.message
        return None

    def records(self) -> dict[str, ApprovalRecord]:
        """The whole record by tool name: a value of its own, which no later decision changes."""
        with self._lock:
            decided = [(entry, self._decision(entry)) for entry in self._entries.values()]
            grants = sorted(self._grants + self._staged_grants, key=rank)
        found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for entry, decision in decided:
            if decision is not None:
                approved, rejected = found.setdefault(entry.name, ({}, {}))
                (rejected if decision.verdict == "reject" else approved)[entry.label or entry.call] = None
        always = {self._name_in(grant): grant.verdict for grant in grants if is_unconditional(grant)}
        names = list(found) + [name for name in always if name not in found]
        return {name: _record(*found.get(name, ({}, {})), always.get(name)) for name in names}

    def _name_in(self, grant: GrantMade) -> str:
        """What the model calls the tool that a grant is about."""
        return self._tool_names.get(grant.tool) or name_of(grant.tool)

    def _decision(self, entry: Entry) -> DecisionMade | None:
        """What was decided about the call: an answer to what its tool function asks says nothing of that."""
        if isinstance(entry, Asking):
            return entry.ran_under
        return self._staged.get(entry.call) or entry.decision

    def _named(self, tool_name: str, call: str, tool: str | None = None) -> list[Entry]:
        entry = self._entries.get(call)
        if entry is not None:
            found = [entry] if entry.name == tool_name else []
        else:
            found = [self._entries[each] for each in self._by_label.get((tool_name, call), ())]
        return found if tool is None else [each for each in found if each.tool == tool]

    def _verdict(self, entry: Entry) -> bool | None:
        decision = self._decision(entry)
        if decision is not None:
            return decision.verdict != "reject"
        return self._grant_verdict(entry.name, entry)

    def _grant_verdict(self, tool_name: str, entry: Entry | None, tool: str | None = None) -> bool | None:
        """What the grants say of a tool when the arguments are unknown: only grants without conditions count. A name
        alone does not say which MCP server of the provider's is meant."""
        latest = {
            (grant.agent, grant.path): grant.verdict == "approve"
            for grant in sorted(self._grants + self._staged_grants, key=rank)
            if self._name_in(grant) == tool_name
            and is_unconditional(grant)
            and (_is_of(grant, entry) if tool is None else grant.tool == tool)
        }
        verdicts = set(latest.values())
        return verdicts.pop() if len(verdicts) == 1 else None


def _is_of(grant: GrantMade, entry: Entry | None) -> bool:
    """Whether a grant is of the agent, and of the nested run, in which this call was made."""
    if entry is None:
        return not is_hosted(grant.tool)
    if entry.agent == ANY_AGENT and is_hosted(entry.tool):
        return grant.tool == entry.tool
    return grant.agent == entry.agent and (grant.scope == "agent" or grant.path == path_of(entry.call))


def _reaches(grant: GrantMade, entry: Entry, decision: DecisionMade | None) -> bool:
    if entry.agent == ANY_AGENT:
        return True
    now = decision.at if decision is not None else grant.at
    arguments = parse_arguments(entry.arguments)
    return covers(grant, path_of(entry.call), entry.agent, entry.tool, entry.fingerprint, arguments, now)


def _record(
    approved: dict[str, None], rejected: dict[str, None], always: Literal["approve", "reject"] | None
) -> ApprovalRecord:
    return ApprovalRecord(tuple(approved), tuple(rejected), always)
