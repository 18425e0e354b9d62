"""The audit of signatures: which decisions people signed, checked with the logs and a trust file, without the desk.

Rule of this file: nothing that stands in the store is believed. What was signed is compared with what the log says was
decided, and the digest is made again of the tool and the arguments in the log. Only the trust file says whose keys are
whose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

from placet.core.approvals import Asking, Entry
from placet.core.fold import apply
from placet.core.gate import digest_of, digest_of_questions, is_first_version
from placet.core.log import Log, read_lines
from placet.core.signing import challenge_of_decision
from placet.core.state import Call, RunFold
from placet.facts.codec import JsonObject, canonical, parse_arguments
from placet.facts.errors import AccessDenied, PlacetError
from placet.facts.events import AnyFact, CallsStarted, DecisionMade, Erased, InChild, RunForked, VoteCast
from placet.facts.ids import call_id, path_of, split_request_id
from placet.facts.signatures import SignedDecision
from placet.passkeys.checking import check_assertion
from placet.passkeys.trust import Keyring, Place, Trust
from placet.ports import OPERATORS, DeskStore
from placet.service.audit import head_at, run_ids

Verdict: TypeAlias = Literal["signed", "not signed", "erased", "does not verify", "unanchored"]
Said: TypeAlias = DecisionMade | VoteCast
_SAID = {"decide": "decision", "vote": "vote"}


class SignedVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said about one decision, one vote, or one call that began."""

    run_id: str
    subject: str
    """The call; or, of the operators' log, the key."""
    verdict: Verdict
    what: str = ""
    """«approve», as a vote or a decision; or that the call began."""
    by: str | None = None
    at: float | None = None
    message: str = ""
    is_wrong: bool = False
    """Nothing excuses it: whoever keeps the trust file has to look."""


async def verify_signed(store: DeskStore, trust: Trust | None) -> AsyncIterator[SignedVerdict]:
    """Every decision and vote of the store, every call that had to be signed, and every key that is not anchored."""
    log = await store.operators_log()
    facts = list(chain.from_iterable(record.facts for record in read_lines(log.lines)))
    if trust is not None and trust.operators is not None:
        for verdict in _of_place(log, trust.operators):
            yield verdict
    keyring = Keyring(trust, facts)
    for problem in keyring.problems:
        yield SignedVerdict(
            run_id=OPERATORS, subject="passkeys", verdict="does not verify", message=problem, is_wrong=True
        )
    for key in keyring.unanchored() if trust is not None else ():
        yield SignedVerdict(
            run_id=OPERATORS,
            subject=key.id,
            verdict="unanchored",
            by=key.person,
            message=f"no key that the trust file names signed this passkey of {key.person}",
            is_wrong=key.until is None,
        )
    async for run_id in run_ids(store):
        stored = await store.load(run_id)
        if stored is not None and stored.log is not None:
            for verdict in of_log(stored.log, keyring, trust):
                yield verdict


def _of_place(log: Log, place: Place) -> Iterator[SignedVerdict]:
    message = ""
    if len(log) < place.length:
        message = f"the operators' log had {place.length} lines, and has {len(log)}"
    elif head_at(log, place.length).hex() != place.digest:
        message = f"the first {place.length} lines of the operators' log are not those that the trust file saw"
    if message:
        yield SignedVerdict(
            run_id=OPERATORS, subject=OPERATORS, verdict="does not verify", message=message, is_wrong=True
        )


def of_log(log: Log, keyring: Keyring, trust: Trust | None) -> Iterator[SignedVerdict]:
    """What one run's log says was decided, and what of it was signed."""
    records = read_lines(log.lines)
    if log.is_erased:
        for record in records:
            for fact in record.facts:
                bare = _bare(fact)
                if isinstance(bare, Erased) and bare.kind in _SAID:
                    yield SignedVerdict(
                        run_id=log.run_id, subject=log.run_id, verdict="erased", what=_SAID[bare.kind], at=record.at
                    )
        return
    origins = {fact.origin for record in records for fact in record.facts if isinstance(fact, RunForked)}
    reader = _Reader(log.run_id, origins, keyring, trust)
    try:
        for record in records:
            for fact in record.facts:
                yield from reader.read(fact, record.at)
    except PlacetError as error:
        yield SignedVerdict(
            run_id=log.run_id, subject=log.run_id, verdict="does not verify", message=str(error), is_wrong=True
        )


class _Reader:
    """Follows a log, and judges each word at the place where it stands."""

    def __init__(self, run_id: str, origins: set[str], keyring: Keyring, trust: Trust | None) -> None:
        self._run_id = run_id
        self._runs = {run_id, *origins}
        """A fork repeats what was signed in the run from which it was copied."""
        self._keyring = keyring
        self._trust = trust
        self._run = RunFold()
        self._votes: dict[tuple[str, str, str], Verdict] = {}
        """Of each voter about a digest of a call: what their vote was found to be."""
        self._yes: dict[str, Verdict] = {}
        """Per call, what its approval was found to be."""

    def read(self, fact: AnyFact, at: float) -> Iterator[SignedVerdict]:
        bare = _bare(fact)
        before = self._entry(bare.call) if isinstance(bare, DecisionMade | VoteCast) else None
        apply(self._run, fact)
        if isinstance(bare, DecisionMade | VoteCast):
            entry = before or self._entry(bare.call)
            if entry is not None:
                yield self._judged(bare, entry)
        elif isinstance(bare, CallsStarted):
            yield from self._begun(bare, at)

    def _entry(self, call: str) -> Entry | None:
        return self._run.ledger.entry(call)

    # -- words --------------------------------------------------------------------------------------------------------

    def _judged(self, said: Said, entry: Entry) -> SignedVerdict:
        verdict, message = self._verdict(said, entry)
        if isinstance(said, VoteCast):
            self._votes[said.call, said.digest, said.on_behalf_of or said.by or ""] = verdict
        elif said.verdict != "reject":
            self._yes[said.call] = verdict
        claims = said.assurance == "signed" and verdict == "not signed"
        demanded = isinstance(said, DecisionMade) and said.verdict != "reject" and self._is_demanded(entry)
        if claims:
            verdict, message = "does not verify", "it says that it was signed, and holds no signature"
        elif demanded and verdict == "not signed":
            message = f"{message or 'it holds no signature'}, and this call has to be signed"
        is_vote = isinstance(said, VoteCast)
        return SignedVerdict(
            run_id=self._run_id,
            subject=call_id(self._run_id, said.call),
            verdict=verdict,
            what=f"{'vote to ' if is_vote else ''}{said.verdict} {entry.name}",
            by=said.by,
            at=said.at,
            message=message,
            is_wrong=verdict in ("does not verify", "unanchored") or (demanded and verdict != "signed"),
        )

    def _is_demanded(self, entry: Entry) -> bool:
        by_rule = entry.ballot is not None and any(
            step.assurance == "signed" for step in entry.ballot.requirement.steps()
        )
        return by_rule or (self._trust is not None and self._trust.demands(entry.agent, entry.name))

    def _verdict(self, said: Said, entry: Entry) -> tuple[Verdict, str]:
        if said.signed is not None:
            try:
                self._check(said, said.signed, entry)
            except AccessDenied as error:
                return "does not verify", error.message
            if self._keyring.is_anchored(said.signed.assertion.key):
                return "signed", ""
            return "unanchored", "the trust file does not lead to the key that signed it"
        if isinstance(said, DecisionMade):
            return self._by_others(said, entry)
        return "not signed", ""

    def _by_others(self, said: DecisionMade, entry: Entry) -> tuple[Verdict, str]:
        """A decision without a signature of its own: by a standing one, or by votes."""
        if said.grant is not None:
            return "not signed", "a standing decision decided"
        if entry.ballot is None or entry.ballot.request != said.request:
            return "not signed", ""
        way = said.verdict == "reject"
        cast = [v for v in entry.ballot.newest() if v.digest == said.digest and (v.verdict == "reject") is way]
        found = [self._votes.get((v.call, v.digest, v.on_behalf_of or v.by or ""), "not signed") for v in cast]
        if "does not verify" in found:
            return "does not verify", "by a vote that does not verify"
        if "unanchored" in found:
            return "unanchored", "by a vote whose key is not anchored"
        signed = found.count("signed")
        if signed and signed == len(found):
            return "signed", ""
        return "not signed", f"{signed} of {len(found)} votes are signed"

    def _check(self, said: Said, signed: SignedDecision, entry: Entry) -> None:
        """AccessDenied where the signature is not one of this person about this very decision."""
        key = self._keyring.key(signed.assertion.key)
        if key is None:
            raise AccessDenied("nobody ever registered the key that signed it")
        if key.person != said.by:
            raise AccessDenied(f"{key.person} signed it, and it says that {said.by or 'somebody'} did")
        if key.until is not None and said.at > key.until:
            raise AccessDenied("the key that signed it had been removed before")
        challenge = challenge_of_decision(signed, signed.assertion.nonce)
        check_assertion(signed.assertion, challenge, public_key=key.public_key, rp_id=key.rp_id)
        problem = self._why_about_something_else(said, signed, entry)
        if problem:
            raise AccessDenied(f"what was signed is another {problem}")

    def _why_about_something_else(self, said: Said, signed: SignedDecision, entry: Entry) -> str:
        asked = split_request_id(signed.request)
        moved = signed.verdict == "edit" and said.verdict == "approve"  # the edit became the question that followed
        numbers = (said.request, said.request - 1) if moved else (said.request,)
        if asked is None or asked[0] not in self._runs or asked[1] != said.call or asked[2] not in numbers:
            return "question"
        if signed.verdict != said.verdict and not moved:
            return "verdict"
        if isinstance(said, VoteCast) and (signed.alone, signed.on_behalf_of) != (said.breaks_glass, said.on_behalf_of):
            return "kind of vote"
        return self._why_other_values(said, signed, entry)

    def _why_other_values(self, said: Said, signed: SignedDecision, entry: Entry) -> str:
        if signed.verdict == "respond" and canonical(signed.values) != canonical(said.output):
            return "answer"
        edited = signed.values if isinstance(signed.values, dict) and signed.verdict == "edit" else None
        if signed.verdict == "edit" and edited is None:
            return "edit"
        expected = said.digest if edited is not None else signed.digest
        if expected != said.digest or self._digest(entry, edited) != said.digest:
            return "call: its tool or its arguments are not what the person saw"
        return ""

    def _digest(self, entry: Entry, edited: JsonObject | None) -> str:
        """What the log's own tool and arguments amount to."""
        path, old = path_of(entry.call), is_first_version(entry.digest)
        owner = self._run.find(path)
        call = owner.calls.get(entry.call) if owner is not None else None
        shown: JsonObject | str = edited if edited is not None else _shown(call, entry, as_written=old)
        given = (path, entry.agent, entry.tool, entry.fingerprint, shown)
        if isinstance(entry, Asking):
            return digest_of_questions(*given, entry.questions, first_version=old)
        return digest_of(*given, first_version=old)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _begun(self, fact: CallsStarted, at: float) -> Iterator[SignedVerdict]:
        """Calls that the trust file wants signed and that nobody was asked about, or that began in another way."""
        for local in fact.calls:
            owner = self._run.find(path_of(local))
            call = owner.calls.get(local) if owner is not None else None
            if owner is None or call is None or self._trust is None or local in self._yes:
                continue
            if self._trust.demands(owner.response_agent, call.name):
                yield SignedVerdict(
                    run_id=self._run_id,
                    subject=call_id(self._run_id, local),
                    verdict="not signed",
                    what=f"{call.name} began",
                    at=at,
                    message="nobody decided about it, and this call has to be signed",
                    is_wrong=True,
                )


def _shown(call: Call | None, entry: Entry, *, as_written: bool) -> JsonObject | str:
    """What a person saw of the arguments."""
    if call is None:
        found = parse_arguments(entry.arguments)
        return entry.arguments if found is None else found
    if call.edited is not None:
        return call.edited
    if call.values is not None and not as_written:
        return call.values
    found = parse_arguments(call.arguments)
    return call.arguments if found is None else found


def _bare(fact: AnyFact) -> AnyFact:
    return fact.fact if isinstance(fact, InChild) else fact
