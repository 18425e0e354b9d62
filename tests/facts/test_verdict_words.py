"""One table says what a decision is called, and every surface reads it."""

from __future__ import annotations

from typing import get_args

from placet.core.index import RequestStatus
from placet.desk.pages.cards import STATUS_LABEL
from placet.facts.events import Verdict
from placet.facts.verdict_words import WORDS, DecidedStatus, verdict_behind, verdict_label


def test_every_decision_has_a_status_and_every_status_of_a_decision_leads_back() -> None:
    assert set(WORDS) == set(get_args(Verdict))
    assert {words.status for words in WORDS.values()} == set(get_args(DecidedStatus))
    assert {verdict_behind(words.status) for words in WORDS.values()} == set(WORDS)
    assert verdict_behind("pending") is None


def test_the_statuses_of_requests_are_flat_and_in_the_order_in_which_lists_offer_them() -> None:
    assert get_args(RequestStatus) == ("pending", "approved", "rejected", "edited", "answered", "closed")


def test_pages_and_the_terminal_call_a_decision_the_same() -> None:
    for verdict, words in WORDS.items():
        assert STATUS_LABEL[words.status].lower() == verdict_label(verdict) == words.label
