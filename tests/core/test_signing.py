"""Challenges bind all that is confirmed, and only what was signed counts as signed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from placet.core.approvals import Entry
from placet.core.ballot import Ballot
from placet.core.casting import Known, as_counted, count_authors
from placet.core.signing import as_bytes, as_text, challenge_of_decision, challenge_of_key
from placet.core.state import RunFold
from placet.facts.events import Author, GrantMade, VoteCast
from placet.facts.requirements import Needs
from placet.facts.signatures import Assertion, SignedDecision

SIGNED = SignedDecision(Assertion("key", "nonce", "", "", ""), "run_1:1.0#1", "digest", "edit", {"cents": 5})
VOTE = VoteCast("1.0", 1, "digest", "approve", "ana", 1.0, assurance="signed")


@pytest.mark.parametrize(
    "other",
    [
        {"request": "run_1:1.0#2"},
        {"digest": "other"},
        {"verdict": "approve"},
        {"values": {"cents": 6}},
        {"alone": True},
    ],
)
def test_each_part_of_a_decision_is_in_its_challenge(other: dict[str, Any]) -> None:
    assert challenge_of_decision(msgspec.structs.replace(SIGNED, **other), "n") != challenge_of_decision(SIGNED, "n")


def test_a_challenge_is_that_of_its_nonce_and_of_its_kind() -> None:
    assert challenge_of_decision(SIGNED, "one") != challenge_of_decision(SIGNED, "two")
    assert challenge_of_key("registered", "ana", "key", "public", "site", "n") != challenge_of_key(
        "removed", "ana", "key", "public", "site", "n"
    )


def test_a_vote_that_says_signed_and_holds_no_signature_counts_as_a_passkey() -> None:
    assert as_counted(VOTE).assurance == "passkey"
    assert as_counted(msgspec.structs.replace(VOTE, signed=SIGNED)).assurance == "signed"


def test_a_standing_decision_counts_as_a_passkey_at_most() -> None:
    grant = GrantMade("g", "Bank", "function:pay", "f", "approve", "ana", 1.0)
    signed = msgspec.structs.replace(grant, authors=[Author("ana", "signed")])
    entry = Entry(call="1.0", label="", name="pay", agent="Bank")

    def verdict(assurance: Any) -> str | None:
        ballot = Ballot(requirement=Needs(1, assurance=assurance).requirement, request=1)
        return count_authors(RunFold(), entry, ballot, signed, Known()).verdict

    assert verdict("signed") is None
    assert verdict("passkey") == "approve"


@pytest.mark.parametrize("text", ["ä", "a b", "====="])
def test_what_is_no_base64url_is_a_value_error(text: str) -> None:
    assert as_bytes(as_text(b"\xff\xfe\x00")) == b"\xff\xfe\x00"
    with pytest.raises(ValueError, match="base64url"):
        as_bytes(text)
