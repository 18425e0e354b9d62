"""Budgets: what a call takes of each limit, in which period it counts, and whether what is left covers it.

Pure: the time and the time zones are given. Whoever writes a claim writes what it takes in the same transaction, so
that a thousand claims at once never take one too many; what is asked before that only spares a vain try.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TypeAlias

import msgspec

from placet.core.amounts import MILLION, Uncountable, amount_of, text_of_amount
from placet.core.log import Line
from placet.facts.budgets import BudgetTaken, Every, Limit, Part
from placet.facts.codec import Json, JsonObject, canonical
from placet.facts.events import InChild, PlainFact, RunForked
from placet.facts.ids import call_key

Zones: TypeAlias = Callable[[str], tzinfo]
"""Finds a time zone by its name; KeyError or ValueError where there is none."""
RULE = "rule:"
COUNT = "count:"
KEPT_AFTER = 8 * 86_400.0
"""So long what was taken is kept after it has stopped to count: for who looks at yesterday's figures."""


class Taking(msgspec.Struct, frozen=True, gc=False):
    """A share that a call takes at this moment."""

    budget: str
    part: Part
    call: str
    """By which a store knows the call, whatever its run."""
    at: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is added up together."""
        return self.budget, self.part.limit, self.part.group, self.part.period

    @property
    def since(self) -> float | None:
        return None if self.part.within is None else self.at - self.part.within


class Bound(msgspec.Struct, frozen=True, gc=False):
    """A budget that a call would take from."""

    id: str
    limits: tuple[Limit, ...]
    name: str
    """As people know it."""
    holds: bool = True
    """Of a count: what goes beyond it is not claimed. False: it is only counted, for a rule that does not count yet."""


def rule_count(name: str) -> str:
    """The id of what a policy's rule counts."""
    return f"{COUNT}{name}"


def rule_budget(name: str) -> str:
    """The id of the budget of a policy's rule. It stays when the rule is edited, so that nobody gets a fresh budget by
    changing a comma."""
    return f"{RULE}{name}"


def takes(bound: Bound, call: str, arguments: JsonObject | None, at: float, zones: Zones) -> BudgetTaken:
    """What a call takes of a budget; Uncountable where it cannot be said."""
    return BudgetTaken(call, bound.id, at, [part_of(limit, arguments, at, zones) for limit in bound.limits])


def part_of(limit: Limit, arguments: JsonObject | None, at: float, zones: Zones) -> Part:
    values = arguments or {}
    amount = MILLION
    if limit.sum is not None:
        if limit.sum not in values:
            raise Uncountable(f"there is no «{limit.sum}» to add up")
        try:
            amount = amount_of(values[limit.sum])
        except Uncountable as error:
            raise Uncountable(f"«{limit.sum}» {error}") from error
    missing = [name for name in limit.by if name not in values]
    if missing:
        raise Uncountable(f"there is no «{missing[0]}» by which it is counted apart")
    period, until = "", None
    if limit.every is not None:
        period, until = period_of(limit.every, at, _zone(limit.zone, zones))
    elif limit.within is not None:
        until = at + limit.within
    group = _digest([values[name] for name in limit.by]) if limit.by else ""
    return Part(identity_of(limit), group, period, amount, amount_of(limit.most), limit.within, until)


def _zone(name: str, zones: Zones) -> tzinfo:
    try:
        return zones(name)
    except (KeyError, ValueError, OSError) as error:
        raise Uncountable(f"the time zone {name!r} is not known here") from error


def identity_of(limit: Limit) -> str:
    """Which limit it is, whatever its size: a limit that is raised keeps what was taken."""
    zone = limit.zone if limit.every is not None else ""
    return canonical([limit.sum, list(limit.by), limit.every, limit.within, zone]).decode()


def _digest(values: Sequence[Json]) -> str:
    return hashlib.blake2b(canonical(list(values)), digest_size=12).hexdigest()


def period_of(every: Every, at: float, zone: tzinfo) -> tuple[str, float]:
    """The period of a moment, by the calendar and clock of its zone, and when it ends.

    Days follow the date, so one in which the clocks change is 23 or 25 hours long. An hour has its offset in its name:
    the one that comes twice in autumn is two.
    """
    here = datetime.fromtimestamp(at, zone)
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    match every:
        case "hour":
            name = here.strftime("%Y-%m-%dT%H%z")
            return name, (at // 3600 + 1) * 3600 + 3600  # offsets of half hours: an hour later does no harm
        case "day":
            return here.strftime("%Y-%m-%d"), (midnight + timedelta(days=1)).timestamp()
        case "week":
            year, week, day = here.isocalendar()
            return f"{year}-W{week:02d}", (midnight + timedelta(days=8 - day)).timestamp()
        case "month":
            after = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
            return here.strftime("%Y-%m"), after.timestamp()
        case "year":
            return here.strftime("%Y"), midnight.replace(year=here.year + 1, month=1, day=1).timestamp()


class Spent(msgspec.Struct, frozen=True, gc=False):
    """What a store knows of a share at this moment."""

    amount: int
    """Taken by all calls, in the share's period."""
    has_taken: bool
    """This very call took its share before: it takes nothing more."""


class TakenShare(msgspec.Struct, frozen=True, gc=False):
    """What all calls together took of a limit, for one group and period."""

    limit: str
    group: str
    period: str
    amount: int
    calls: int


class Cover:
    """What is left of budgets, for several calls that begin at once: each that is covered takes its share."""

    __slots__ = ("_known", "_spent")

    def __init__(self, known: Mapping[Taking, Spent]) -> None:
        self._known = known
        self._spent: dict[tuple[str, str, str, str], int] = {}

    def why_not(self, bound: Bound, takings: Sequence[Taking]) -> str | None:
        """Why a budget does not cover a call; None: it does, and its shares are taken."""
        for limit, taking in zip(bound.limits, takings, strict=True):
            known = self._known[taking]
            spent = self._spent.get(taking.key, known.amount)
            if not known.has_taken and spent + taking.part.amount > taking.part.most:
                return f"{bound.name} does not cover it: {_figures(limit, taking.part, spent)}"
        for taking in takings:
            known = self._known[taking]
            if not known.has_taken:
                self._spent[taking.key] = self._spent.get(taking.key, known.amount) + taking.part.amount
        return None


def takings_of(run_id: str, lines: Iterable[Line]) -> list[Taking]:
    """What the lines of one append take, in the order in which stores look at it: always the same, so that two claims
    never wait for each other. What a fork copied was taken by its origin."""
    found: list[Taking] = []
    for line in lines:
        for fact in line.facts:
            bare: PlainFact = fact.fact if isinstance(fact, InChild) else fact
            if isinstance(bare, BudgetTaken):
                key = call_key(run_id, bare.call)
                found += [Taking(bare.budget, part, key, bare.at) for part in bare.parts]
            elif isinstance(bare, RunForked):
                found.clear()
    return sorted(found, key=lambda taking: (*taking.key, taking.call)) if len(found) > 1 else found


def _figures(limit: Limit, part: Part, spent: int) -> str:
    asks = "" if limit.sum is None else f", and this call asks for {text_of_amount(part.amount)}"
    return f"{text_of_amount(spent)} of {text_of(limit)} {'is' if spent == MILLION else 'are'} taken{asks}"


def text_of(limit: Limit) -> str:
    """A limit in words: «500 cents a day for each customer»."""
    what = ("calls" if limit.most != "1" else "call") if limit.sum is None else limit.sum
    text = f"{limit.most} {what}"
    if limit.every is not None:
        text += f" {'an' if limit.every == 'hour' else 'a'} {limit.every}"
    if limit.within is not None:
        text += f" in {duration(limit.within)}"
    if limit.by:
        text += f" for each {' and '.join(limit.by)}"
    return text if limit.every in (None, "hour") or limit.zone == "UTC" else f"{text} ({limit.zone})"


def duration(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size and seconds % size == 0:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} seconds"
