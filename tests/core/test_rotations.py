"""Who is on call: handovers by the clocks of a zone, also when those change, and hours of the day."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from placet import UserError
from placet.core.rotations import check_rotation, on_call, shifts
from placet.facts.voting_settings import Rotation

BERLIN = Rotation(("ana", "ben", "cleo"), "2026-03-23T09:00", "Europe/Berlin")


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_handover_stays_at_its_hour_when_the_clocks_go_forward() -> None:
    """On 29 March 2026 Berlin's clocks go from 02:00 to 03:00: the week has 167 hours."""
    [first, second] = list(shifts(BERLIN, moment("2026-03-23T09:00+01:00"), moment("2026-04-06T09:00+02:00")))

    assert (first.person, second.person) == ("ana", "ben")
    assert second.begins == moment("2026-03-30T09:00+02:00")
    assert (first.until - first.begins) / 3600 == 167
    assert on_call(BERLIN, moment("2026-03-30T08:59:59+02:00")) == "ana"
    assert on_call(BERLIN, moment("2026-03-30T09:00+02:00")) == "ben"


def test_a_handover_in_the_hour_that_the_clocks_leave_out_takes_place_once() -> None:
    nightly = Rotation(("ana", "ben"), "2026-03-28T02:30", "Europe/Berlin", days=1)
    found = list(shifts(nightly, moment("2026-03-28T00:00+01:00"), moment("2026-03-31T00:00+02:00")))

    assert [each.person for each in found] == ["ana", "ben", "ana"]
    assert all(one.until == other.begins for one, other in itertools.pairwise(found))
    assert [each.until > each.begins for each in found] == [True, True, True]


def test_nobody_is_on_call_before_the_first_handover() -> None:
    assert on_call(BERLIN, moment("2026-03-23T08:59+01:00")) is None


@pytest.mark.parametrize(
    ("hour", "found"), [("17:59", None), ("18:00", "ana"), ("23:30", "ana"), ("07:59", "ana"), ("08:00", None)]
)
def test_a_rotation_of_the_night_is_silent_by_day(hour: str, found: str | None) -> None:
    night = Rotation(("ana",), "2026-01-01T00:00", "Europe/Berlin", hours=("18:00", "08:00"))

    assert on_call(night, moment(f"2026-06-01T{hour}+02:00")) == found


def test_a_witness_who_walks_from_handover_to_handover_finds_the_same() -> None:
    dice = random.Random(7)
    zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
    for _ in range(300):
        zone, days = dice.choice(zones), dice.choice([1, 2, 7, 14])
        first = datetime.fromisoformat("2026-01-01") + timedelta(days=dice.randrange(300), minutes=dice.randrange(1440))
        people = ("ana", "ben", "cleo")[: dice.randint(1, 3)]
        rotation = Rotation(people, first.isoformat(), zone, days)
        at = (first.replace(tzinfo=UTC) + timedelta(minutes=dice.randrange(60 * 24 * 90))).timestamp()

        assert on_call(rotation, at) == _walked(people, first, ZoneInfo(zone), days, at), rotation


def _walked(people: tuple[str, ...], first: datetime, zone: ZoneInfo, days: int, at: float) -> str | None:
    number, found = 0, None
    while (first + timedelta(days=days * number)).replace(tzinfo=zone).astimezone(UTC).timestamp() <= at:
        found = people[number % len(people)]
        number += 1
    return found


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"people": ()}, "names nobody"),
        ({"zone": "Mars/Olympus"}, "no time zone"),
        ({"since": "next monday"}, "write a time"),
        ({"since": "2026-01-05T09:00+01:00"}, "without an offset"),
        ({"hours": ("08:00", "08:00")}, "begin when they end"),
        ({"hours": ("8", "late")}, "write a time"),
        ({"days": 0}, "1 to 366 days"),
    ],
)
def test_a_rotation_of_which_nobody_could_tell_who_is_on_call_is_refused(wrong: dict[str, object], says: str) -> None:
    given: dict[str, object] = {"people": ("ana",), "since": "2026-01-05T09:00", **wrong}

    with pytest.raises(UserError, match=says):
        check_rotation("payments", Rotation(**given))  # type: ignore[arg-type]
