"""Who is on call at a moment, by a rotation. Pure: the time is given, and the rules of time zones are data.

A handover is a time of the day on a day, by the clocks of the rotation's zone. So it stays at nine when the clocks
change, and a shift over such a night is an hour longer or shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import msgspec

from placet.facts.errors import UserError
from placet.facts.voting_settings import Rotation

MOST_DAYS = 366


class Shift(msgspec.Struct, frozen=True):
    """Somebody is on call from one moment to another."""

    person: str
    begins: float
    until: float


def on_call(rotation: Rotation, at: float) -> str | None:
    """Who is on call; None: nobody, since it has not begun, or it is not the hour."""
    number = _shift_number(rotation, at)
    if number < 0 or not _is_the_hour(rotation, at):
        return None
    return rotation.people[number % len(rotation.people)]


def shifts(rotation: Rotation, begins: float, until: float) -> Iterator[Shift]:
    """The shifts that touch this time, in order. The hours of the day are not in them."""
    number = max(0, _shift_number(rotation, begins))
    while (start := _handover(rotation, number)) < until:
        yield Shift(rotation.people[number % len(rotation.people)], start, _handover(rotation, number + 1))
        number += 1


def _shift_number(rotation: Rotation, at: float) -> int:
    first, zone = _first(rotation), ZoneInfo(rotation.zone)
    days = (datetime.fromtimestamp(at, zone).date() - first.date()).days
    number = days // rotation.days
    while _handover(rotation, number) > at:  # on the day of a handover, before its hour
        number -= 1
    while _handover(rotation, number + 1) <= at:
        number += 1
    return number


def _handover(rotation: Rotation, number: int) -> float:
    """When shift `number` begins. A time that the clocks leave out comes when they would have shown it."""
    local = _first(rotation) + timedelta(days=number * rotation.days)
    return local.replace(tzinfo=ZoneInfo(rotation.zone)).astimezone(UTC).timestamp()


def _first(rotation: Rotation) -> datetime:
    return datetime.fromisoformat(rotation.since)


def _is_the_hour(rotation: Rotation, at: float) -> bool:
    if rotation.hours is None:
        return True
    begins, ends = (time.fromisoformat(text) for text in rotation.hours)
    now = datetime.fromtimestamp(at, ZoneInfo(rotation.zone)).time()
    return begins <= now < ends if begins < ends else now >= begins or now < ends


def check_rotation(name: str, rotation: Rotation) -> None:
    """UserError where nobody could ever tell who is on call."""
    where = f"Rotation '{name}': "
    if not rotation.people:
        raise UserError(f"{where}it names nobody.")
    if not 1 <= rotation.days <= MOST_DAYS:
        raise UserError(f"{where}a shift lasts from 1 to {MOST_DAYS} days, not {rotation.days}.")
    try:
        first = datetime.fromisoformat(rotation.since)
        hours = [time.fromisoformat(text) for text in rotation.hours or ()]
    except ValueError as error:
        raise UserError(f"{where}{error}: write a time as 2026-01-05T09:00, and hours as 18:00.") from None
    if first.tzinfo is not None or any(each.tzinfo is not None for each in hours):
        raise UserError(f"{where}times are those of its zone: write them without an offset.")
    if rotation.hours is not None and hours[0] == hours[1]:
        raise UserError(f"{where}its hours begin when they end: leave them out for all day.")
    try:
        ZoneInfo(rotation.zone)
    except (KeyError, ValueError, OSError):
        raise UserError(f"{where}'{rotation.zone}' is no time zone: write one as Europe/Berlin or UTC.") from None
