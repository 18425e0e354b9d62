"""Counting votes: thresholds, steps, people of two groups, changed minds, separation of duties; and a second count."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from placet.core.votes import Electorate, Person, Tally, Vote, can_be_fulfilled, tally, why_not_yet
from placet.facts.errors import UserError
from placet.facts.requirements import ASSURANCES, PARTS, Needs, Requirement, Step

PEOPLE = {
    "ana": Person("ana", frozenset({"finance"})),
    "ben": Person("ben", frozenset({"finance", "board"})),
    "cleo": Person("cleo", frozenset({"board"})),
    "dan": Person("dan", frozenset({"finance"})),
    "dan-at-night": Person("dan", frozenset({"finance"})),
    "eve": Person("eve", frozenset({"finance"}), is_active=False),
    "flo": Person("flo"),
}


def electorate(**parts: Any) -> Electorate:
    """Parts that are not given are played by nobody."""
    return Electorate(PEOPLE, parts, frozenset(PARTS) - parts.keys())


def yes(by: str | None, **more: Any) -> Vote:
    return Vote("approve", by, **({"assurance": "password"} | more))


def no(by: str | None, **more: Any) -> Vote:
    return Vote("deny", by, **({"assurance": "password"} | more))


def count(needs: Needs, *votes: Vote, **parts: Any) -> Tally:
    """Of votes that were cast one after the other."""
    cast = [msgspec.structs.replace(vote, at=vote.at or number) for number, vote in enumerate(votes, 1)]
    return tally(needs.requirement, cast, electorate(**parts))


def test_without_a_requirement_one_vote_of_anybody_decides() -> None:
    assert count(Needs(), yes("flo")).verdict == "approve"
    assert count(Needs(), no("flo")).verdict == "deny"
    assert count(Needs(), yes(None, assurance="none")).verdict == "approve"
    assert count(Needs()).verdict is None


def test_two_of_finance_are_two_people_of_finance() -> None:
    two = Needs(2, group="finance")

    assert count(two, yes("ana")).verdict is None
    assert count(two, yes("ana"), yes("cleo")).verdict is None
    assert count(two, yes("ana"), yes("ana")).verdict is None
    assert count(two, yes("ana"), yes("eve")).verdict is None
    assert count(two, yes("ana"), yes("ben")).verdict == "approve"


def test_two_accounts_of_one_human_being_are_one_vote() -> None:
    assert count(Needs(2, group="finance"), yes("dan"), yes("dan-at-night")).verdict is None


def test_the_last_vote_of_a_person_counts() -> None:
    two = Needs(2, group="finance", deny=2)

    assert count(two, yes("ana"), yes("ben"), no("ana")).verdict is None
    assert count(two, no("ana"), yes("ben"), yes("ana")).verdict == "approve"
    assert count(two, yes("dan"), no("dan-at-night"), yes("ana")).verdict is None


@pytest.mark.promise("P18")
def test_the_newer_vote_of_a_person_counts_whatever_order_they_come_in() -> None:
    two = Needs(2, deny=2)

    assert count(two, no("ana", at=9.0), yes("ben"), yes("ana", at=3.0)).verdict is None
    assert count(two, yes("ana", at=9.0), yes("ben"), no("ana", at=3.0)).verdict == "approve"


@pytest.mark.parametrize("at", [0.0, 7.0])
@pytest.mark.promise("P18")
def test_where_times_are_equal_or_unset_the_no_of_a_person_counts(at: float) -> None:
    for votes in itertools.permutations([yes("ana", at=at), no("ana", at=at)]):
        assert tally(Needs(1, deny=1).requirement, votes, electorate()).verdict == "deny"


def test_votes_without_a_name_are_of_one_person() -> None:
    assert count(Needs(2), yes(None, assurance="none"), yes(None, assurance="none")).verdict is None


def test_somebody_of_two_groups_fills_the_step_where_they_are_needed() -> None:
    both = Needs(1, group="finance").then(1, group="board")

    assert count(both, yes("ben")).verdict is None
    assert count(both, yes("ben"), yes("ana")).verdict == "approve"
    assert count(both, yes("ana"), yes("ben")).verdict == "approve"
    assert count(both, yes("ana"), yes("dan")).verdict is None


def test_either_alternative_decides() -> None:
    either = Needs(2, group="finance") | Needs(1, group="board")

    assert count(either, yes("cleo")).verdict == "approve"
    assert count(either, yes("ana"), yes("dan")).verdict == "approve"
    assert count(either, yes("ana")).verdict is None
    assert count(either, no("ana")).verdict == "deny"


def test_denials_have_a_threshold_of_their_own() -> None:
    three = Needs(1, deny=2, group="finance")

    assert count(three, no("ana"), yes("ben")).verdict == "approve"
    assert count(three, no("ana"), no("dan"), yes("ben")).verdict == "deny"
    assert count(three, no("ana"), no("cleo")).verdict is None


def test_the_starter_does_not_approve_but_may_deny() -> None:
    others = Needs(1, distinct_from="starter")

    assert count(others, yes("dan-at-night"), starter="dan").verdict is None
    assert count(others, yes("ana", on_behalf_of="dan"), starter="dan").verdict is None
    assert count(others, yes("dan", on_behalf_of="ana"), starter="dan").verdict is None
    assert count(others, yes("ana"), starter="dan").verdict == "approve"
    assert count(others, yes("ana"), starter=None).verdict is None
    assert count(others, no("dan"), starter="dan").verdict == "deny"
    assert count(others, yes(None, assurance="none"), starter="dan").verdict is None


def test_names_that_the_store_does_not_know_are_compared_as_they_are_meant() -> None:
    assert count(Needs(1, distinct_from="starter"), yes(" Web-Form "), starter="web-form").verdict is None


def test_a_name_in_a_program_is_no_member_of_a_group() -> None:
    assert count(Needs(1, group="finance"), yes("ana", assurance="none")).verdict is None
    assert count(Needs(1), yes("ana", assurance="none")).verdict == "approve"


@pytest.mark.parametrize("given", ASSURANCES)
@pytest.mark.parametrize("least", ASSURANCES)
def test_a_vote_below_the_least_assurance_does_not_count(given: Any, least: Any) -> None:
    counted = count(Needs(1, assurance=least), yes("ana", assurance=given)).verdict == "approve"

    assert counted == (ASSURANCES.index(given) >= ASSURANCES.index(least))


def test_approvals_of_different_answers_do_not_add_up() -> None:
    two = Needs(2)

    assert count(two, yes("ana", substance="42"), yes("ben", substance="43")).verdict is None
    decided = count(two, yes("ana", substance="42"), yes("ben", substance="43"), yes("cleo", substance="42"))
    assert (decided.verdict, decided.substance) == ("approve", "42")


def test_one_person_goes_ahead_alone_only_where_it_is_allowed_and_with_a_reason() -> None:
    glass = Needs(2, group="finance", break_glass="board")

    assert count(glass, yes("cleo", breaks_glass=True, reason="the shop burns")).verdict == "approve"
    assert count(glass, yes("cleo", breaks_glass=True)).verdict is None
    assert count(glass, yes("ana", breaks_glass=True, reason="the shop burns")).verdict is None
    assert count(Needs(2), yes("ana", breaks_glass=True, reason="the shop burns")).verdict is None


def test_what_is_missing_says_how_many_of_whom_and_which_step_is_open() -> None:
    found = count(Needs(2, group="finance").then(1, group="board"), yes("ana"))

    [(first, second)] = found.missing
    assert (first.step.groups, first.count, first.is_open) == (("finance",), 1, True)
    assert (second.step.groups, second.count, second.is_open) == (("board",), 1, False)


def test_an_approval_of_a_later_step_is_too_early_and_a_denial_never_is() -> None:
    needs = Needs(1, group="finance").then(1, group="board").requirement

    assert "step before" in (why_not_yet(needs, [], yes("cleo"), electorate()) or "")
    assert why_not_yet(needs, [yes("ana")], yes("cleo"), electorate()) is None
    assert why_not_yet(needs, [], no("cleo"), electorate()) is None
    assert "not in finance" in (why_not_yet(needs, [], no("flo"), electorate()) or "")


@pytest.mark.parametrize(
    "wrong",
    [{"approve": 0}, {"approve": True}, {"deny": -1}, {"distinct_from": "boss"}, {"assurance": "sure"}, {"group": ""}],
)
def test_a_requirement_that_makes_no_sense_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Needs(**wrong)


def test_what_nobody_could_fulfil_is_told_apart() -> None:
    def is_possible(needs: Needs, **parts: Any) -> bool:
        return can_be_fulfilled(needs.requirement, electorate(**parts))

    assert is_possible(Needs(3, group="finance"))
    assert not is_possible(Needs(4, group="finance"))  # dan is one human being, eve is switched off
    assert not is_possible(Needs(1, group="legal"))
    assert not is_possible(Needs(3, group="finance", distinct_from="starter"), starter="ana")
    assert not is_possible(Needs(1, distinct_from="starter"), starter=None)
    assert is_possible(Needs(9))
    assert is_possible(Needs(1, group="legal") | Needs(1, group="board"))


# --- a second count, written without looking at the first: it tries every way to put people into places ---------------


def brute_force(requirement: Requirement, votes: Sequence[Vote], parts: dict[str, str | None]) -> str | None:
    voices: dict[str, Vote] = {}
    for vote in votes:
        who = vote.on_behalf_of or vote.by
        key = "?" if who is None else PEOPLE[who].identity
        if key not in voices or is_later(vote, voices[key]):
            voices[key] = vote
    voices = one_per_hand(voices)
    for step in itertools.chain(*requirement.alternatives):
        if sum(vote.way == "deny" and is_member(step, vote) for vote in voices.values()) >= step.deny:
            return "deny"
    for substance, steps in itertools.product({vote.substance for vote in voices.values()}, requirement.alternatives):
        ayes = [vote for vote in voices.values() if vote.way == "approve" and vote.substance == substance]
        places = [step for step in steps for _ in range(step.approve)]
        for order in itertools.permutations(ayes, len(places)):
            seats = zip(places, order, strict=True)
            if all(is_member(step, vote) and is_distinct(step, vote, parts) for step, vote in seats):
                return "approve"
    return None


def one_per_hand(voices: dict[str, Vote]) -> dict[str, Vote]:
    """Of those who cast votes for others, too: a no before a yes, and otherwise the later one."""
    hands: dict[str, dict[str, Vote]] = {}
    for voter, vote in voices.items():
        hands.setdefault("?" if vote.by is None else PEOPLE[vote.by].identity, {})[voter] = vote
    kept = {}
    for own in hands.values():
        noes = {voter: vote for voter, vote in own.items() if vote.way == "deny"} or own
        best = next(iter(noes))
        for voter, vote in noes.items():
            best = voter if is_later(vote, noes[best]) else best
        kept[best] = noes[best]
    return kept


def is_later(vote: Vote, before: Vote) -> bool:
    if vote.at and before.at and vote.at != before.at:
        return vote.at > before.at
    if vote.way != before.way:
        return vote.way == "deny"
    return vote.at >= before.at


def names_of(vote: Vote) -> list[str]:
    return [name for name in (vote.by, vote.on_behalf_of) if name is not None]


def is_member(step: Step, vote: Vote) -> bool:
    is_known = all(PEOPLE[name].is_active for name in names_of(vote))
    is_sure = ASSURANCES.index(vote.assurance) >= ASSURANCES.index(step.assurance)
    who = vote.on_behalf_of or vote.by
    belongs = who is not None and vote.assurance != "none" and bool(PEOPLE[who].groups & set(step.groups))
    return is_known and is_sure and (not step.groups or belongs)


def is_distinct(step: Step, vote: Vote, parts: dict[str, str | None]) -> bool:
    humans = {PEOPLE[name].identity for name in names_of(vote)}
    players = [parts[part] for part in step.distinct_from if part in parts]
    return all(
        player is not None and vote.by is not None and PEOPLE[player].identity not in humans for player in players
    )


def random_step(dice: random.Random) -> Step:
    return Step(
        dice.choice([1, 1, 2]),
        dice.choice([1, 2, 3]),
        dice.choice([(), ("finance",), ("board",), ("finance", "board")]),
        dice.choice([(), (), ("starter",), ("starter", "editor")]),
        dice.choice(["none", "none", "password", "sso"]),
    )


def random_vote(dice: random.Random) -> Vote:
    by = dice.choice([*PEOPLE, None])
    behalf = dice.choice([*PEOPLE]) if by is not None and dice.random() < 0.15 else None
    way = "approve" if dice.random() < 0.75 else "deny"
    assurance, substance = dice.choice(["none", "password", "sso"]), dice.choice(["", "", "42"])
    return Vote(way, by, behalf, assurance, substance, at=dice.choice([1.0, 2.0, 3.0, 4.0]))


@pytest.mark.parametrize("seed", range(300))
def test_never_one_too_few_and_never_one_too_many(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(10):
        alternatives = tuple(
            tuple(random_step(dice) for _ in range(dice.randint(1, 2))) for _ in range(dice.randint(1, 2))
        )
        needs = Requirement(alternatives)
        parts: dict[Any, str | None] = {"starter": dice.choice([*PEOPLE, None])}
        votes = [random_vote(dice) for _ in range(dice.randint(0, 7))]

        assert tally(needs, votes, electorate(**parts)).verdict == brute_force(needs, votes, parts), (
            needs,
            votes,
        )


# --- parts, going ahead alone, delegates, several requirements --------------------------------------------------------


def test_a_part_that_is_demanded_and_unknown_keeps_everybody_out() -> None:
    needs = Needs(1, distinct_from="guest_owner").requirement

    assert tally(needs, [yes("ana")], Electorate(PEOPLE, {})).verdict is None
    assert tally(needs, [yes("ana")], electorate(guest_owner=None)).verdict is None
    assert tally(needs, [yes("ana")], electorate(guest_owner="ana")).verdict is None
    assert tally(needs, [yes("ana")], electorate(guest_owner="ben")).verdict == "approve"
    assert tally(needs, [yes("ana")], electorate()).verdict == "approve"  # no guest's call: nobody owns it


def alone(by: str | None, **more: Any) -> Vote:
    return yes(by, **({"breaks_glass": True, "reason": "fire"} | more))


def test_going_ahead_alone_lifts_the_number_of_people_and_their_groups() -> None:
    needs = Needs(2, group="finance", break_glass="board")

    assert count(needs, alone("cleo")).verdict == "approve"
    assert count(needs, alone("ana")).verdict is None  # she is not on the board
    assert count(needs, alone("cleo", reason=" ")).verdict is None
    assert count(needs, alone(None)).verdict is None
    assert count(needs, alone("cleo", on_behalf_of="ben")).verdict is None
    assert count(needs, alone("cleo"), no("ana")).verdict == "deny"
    assert count(Needs(2, group="finance"), alone("ben")).verdict is None


def test_going_ahead_alone_lifts_separation_of_duties_only_where_that_is_said() -> None:
    kept = Needs(2, distinct_from=["starter", "editor"], break_glass=True)
    lifted = Needs(2, distinct_from=["starter", "editor"], break_glass=True, break_glass_lifts="starter")

    assert count(kept, alone("ana"), starter="ana").verdict is None
    assert count(kept, alone("ana"), starter=None).verdict is None
    assert count(kept, alone("ana"), starter="ben").verdict == "approve"
    assert count(lifted, alone("ana"), starter="ana").verdict == "approve"
    assert count(lifted, alone("ana"), starter="ben", editor="ana").verdict is None
    with pytest.raises(UserError):
        Needs(2, break_glass_lifts="starter")


def test_going_ahead_alone_never_lifts_the_assurance() -> None:
    needs = Needs(2, assurance="sso", break_glass=True).then(1, assurance="passkey") | Needs(
        3, assurance="passkey", break_glass=True
    )

    assert count(needs, alone("ana", assurance="sso")).verdict is None
    assert count(needs, alone("ana", assurance="passkey")).verdict == "approve"


def test_either_of_two_requirements_lets_go_ahead_alone_only_whom_both_let() -> None:
    def glass(one: Any, other: Any) -> Any:
        return (Needs(2, break_glass=one) | Needs(3, break_glass=other)).requirement.break_glass

    assert glass("board", False) is None
    assert glass("board", True) == ("board",)
    assert glass(["board", "finance"], "finance") == ("finance",)
    assert glass("board", "finance") is None


def test_one_human_being_who_votes_for_two_is_one_approval() -> None:
    two = Needs(2, group="finance")
    as_ben = yes("ana", on_behalf_of="ben")

    assert count(two, yes("ana"), as_ben).verdict is None
    assert count(two, yes("dan"), as_ben).verdict == "approve"
    assert count(two, yes("dan"), yes("dan-at-night", on_behalf_of="ana")).verdict is None
    assert count(Needs(1), no("ana", on_behalf_of="ben"), yes("ana")).verdict == "deny"
    assert count(two, yes("ana"), as_ben, yes("ben")).verdict == "approve"  # ben spoke for himself since
    told = why_not_yet(two.requirement, [yes("ana", at=1.0)], as_ben, electorate())
    assert "one person has one vote" in (told or "")


def test_several_requirements_are_all_fulfilled_and_one_vote_may_serve_two() -> None:
    both = Needs(2, group="finance") & Needs(1, group="board", deny=2)

    assert count(both, yes("ana"), yes("dan")).verdict is None
    assert count(both, yes("ana"), yes("dan")).fewest_missing == 1
    assert count(both, yes("ana"), yes("ben")).verdict == "approve"  # ben is of both
    assert {vote.by for vote in count(both, yes("ana"), yes("dan"), yes("cleo")).counted} == {"ana", "dan", "cleo"}
    assert count(both, yes("ana"), yes("ben"), no("dan")).verdict == "deny"
    assert count(both, yes("ana"), yes("ben"), no("cleo")).verdict == "approve"  # one no of two
    assert count(both, yes("ana", substance="1"), yes("ben", substance="2"), yes("cleo", substance="1")).verdict is None
    assert count(both, alone("ben")).verdict is None
    assert can_be_fulfilled(both.requirement, electorate())
    assert not can_be_fulfilled((both & Needs(1, group="legal")).requirement, electorate())


def test_a_requirement_of_anybody_adds_nothing_to_another() -> None:
    assert (Needs(2) & Needs()).requirement == Needs(2).requirement
    assert (Needs() & Needs()).requirement == Requirement()


def test_code_that_does_not_know_several_requirements_never_finds_them_fulfilled() -> None:
    both = (Needs(2) & Needs(1, group="board")).requirement
    as_old_code_reads_it = Requirement(both.alternatives, both.break_glass)

    assert tally(as_old_code_reads_it, [yes("ben"), yes("cleo"), no("ana")], electorate()).verdict is None
