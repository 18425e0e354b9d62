"""The life of a call: every pair of status and move."""

from __future__ import annotations

import pytest

from placet.core.transitions import CONCLUDABLE, DECIDED, RUNNABLE, TABLE, WAITING, Move, Status, after
from placet.facts.errors import IllegalTransition

S, M = Status, Move
LEGAL = {
    (S.PROPOSED, M.ALLOW): S.ALLOWED,
    (S.PROPOSED, M.DEFER): S.DEFERRED,
    (S.PROPOSED, M.HOLD): S.HELD,
    (S.PROPOSED, M.REFUSE): S.ENDED,
    (S.PROPOSED, M.CLOSE): S.ENDED,
    (S.ALLOWED, M.START): S.STARTED,
    (S.ALLOWED, M.HOLD): S.HELD,
    (S.ALLOWED, M.REFUSE): S.ENDED,
    (S.ALLOWED, M.CLOSE): S.ENDED,
    (S.DEFERRED, M.START): S.STARTED,
    (S.DEFERRED, M.REFUSE): S.ENDED,
    (S.DEFERRED, M.CLOSE): S.ENDED,
    (S.HELD, M.HOLD): S.HELD,
    (S.HELD, M.APPROVE): S.APPROVED,
    (S.HELD, M.REJECT): S.REJECTED,
    (S.HELD, M.RESPOND): S.ANSWERED,
    (S.HELD, M.CLOSE): S.ENDED,
    (S.APPROVED, M.START): S.STARTED,
    (S.APPROVED, M.REVOKE): S.HELD,
    (S.APPROVED, M.HOLD): S.HELD,
    (S.APPROVED, M.REFUSE): S.ENDED,
    (S.APPROVED, M.CLOSE): S.ENDED,
    (S.REJECTED, M.REFUSE): S.ENDED,
    (S.ANSWERED, M.REFUSE): S.ENDED,
    (S.STARTED, M.FINISH): S.ENDED,
    (S.STARTED, M.DOUBT): S.IN_DOUBT,
    (S.STARTED, M.START): S.STARTED,
    (S.STARTED, M.CLOSE): S.ENDED,
    (S.STARTED, M.ELICIT): S.ELICITED,
    (S.ELICITED, M.ELICIT): S.ELICITED,
    (S.ELICITED, M.APPROVE): S.SUPPLIED,
    (S.ELICITED, M.REJECT): S.SUPPLIED,
    (S.ELICITED, M.RESPOND): S.SUPPLIED,
    (S.ELICITED, M.CLOSE): S.ENDED,
    (S.SUPPLIED, M.START): S.STARTED,
    (S.SUPPLIED, M.DOUBT): S.IN_DOUBT,
    (S.SUPPLIED, M.REVOKE): S.ELICITED,
    (S.SUPPLIED, M.CLOSE): S.ENDED,
    (S.IN_DOUBT, M.APPROVE): S.CLEARED,
    (S.IN_DOUBT, M.REJECT): S.GIVEN_UP,
    (S.IN_DOUBT, M.RESPOND): S.ANSWERED,
    (S.IN_DOUBT, M.DOUBT): S.IN_DOUBT,
    (S.IN_DOUBT, M.FINISH): S.ENDED,
    (S.IN_DOUBT, M.CLOSE): S.ENDED,
    (S.CLEARED, M.START): S.STARTED,
    (S.CLEARED, M.FINISH): S.ENDED,
    (S.CLEARED, M.DOUBT): S.IN_DOUBT,
    (S.CLEARED, M.REVOKE): S.IN_DOUBT,
    (S.CLEARED, M.CLOSE): S.ENDED,
    (S.GIVEN_UP, M.REFUSE): S.ENDED,
}
"""The table once more, by hand: whoever changes the life of a call changes it in two places, knowingly."""

ILLEGAL = [(status, move) for status in Status for move in Move if (status, move) not in LEGAL]


def _name(value: object) -> str:
    return value.value if isinstance(value, Status | Move) else str(value)


@pytest.mark.parametrize(("pair", "expected"), LEGAL.items(), ids=str)
def test_a_legal_move_leads_to_its_status(pair: tuple[Status, Move], expected: Status) -> None:
    assert after(*pair, "1.0") is expected


@pytest.mark.parametrize(("status", "move"), ILLEGAL, ids=_name)
def test_every_other_move_is_refused_and_names_the_call_its_status_and_the_move(status: Status, move: Move) -> None:
    with pytest.raises(IllegalTransition) as caught:
        after(status, move, "3.1")

    assert f"3.1 is {status.value}" in str(caught.value)
    assert move.value in str(caught.value)


def test_every_status_stands_in_the_table() -> None:
    assert set(TABLE) == set(Status)


def test_only_an_allowed_approved_deferred_or_cleared_call_can_be_started_for_the_first_time() -> None:
    starting = {status for (status, move), after_it in LEGAL.items() if move is M.START and status is not S.STARTED}
    starting.remove(S.SUPPLIED)  # such a call was started before: that is how it came to ask

    assert starting == {S.ALLOWED, S.APPROVED, S.DEFERRED, S.CLEARED}


def test_no_path_leads_from_rejected_to_started() -> None:
    reached, edge = set(), [S.REJECTED]
    while edge:
        status = edge.pop()
        reached.add(status)
        edge += [to for (at, _), to in LEGAL.items() if at is status and to not in reached]

    assert reached == {S.REJECTED, S.ENDED}


def test_an_ended_call_stays_ended() -> None:
    assert TABLE[S.ENDED] == {}


def test_every_call_can_be_brought_to_its_end() -> None:
    def can_end(status: Status, seen: frozenset[Status] = frozenset()) -> bool:
        if status is S.ENDED:
            return True
        return any(can_end(to, seen | {status}) for to in TABLE[status].values() if to not in seen | {status})

    assert all(can_end(status) for status in Status)


def test_the_groups_of_statuses_do_not_overlap_where_it_matters() -> None:
    assert {S.HELD, S.IN_DOUBT, S.ELICITED} == WAITING
    assert not WAITING & (RUNNABLE | CONCLUDABLE | DECIDED)
    assert not RUNNABLE & CONCLUDABLE
    assert {S.APPROVED, S.REJECTED, S.ANSWERED, S.CLEARED, S.GIVEN_UP, S.SUPPLIED} == DECIDED
