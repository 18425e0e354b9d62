"""What bounds a standing decision or a rule beyond its tool: values that arguments may have, and budgets. And the facts
about what was taken of a budget."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.codec import Json
from placet.facts.fact import Fact

Every: TypeAlias = Literal["hour", "day", "week", "month", "year"]
MatchKind: TypeAlias = Literal["range", "prefix", "one_of", "pattern", "shell"]


class Limit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """At most so much: calls, or the sum of what an argument says."""

    most: str
    """A whole number or a decimal, as a text. Never a float: money is counted exactly."""
    sum: str | None = None
    """The argument that is added up. None: each call counts as one."""
    by: tuple[str, ...] = ()
    """The arguments by whose values it is counted apart: «per customer»."""
    every: Every | None = None
    """It begins anew with every hour, day, …"""
    within: float | None = None
    """Or it looks back for so many seconds from each call on."""
    zone: str = "UTC"
    """Where a day begins at midnight."""


class Matcher(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one argument of a call has to be."""

    argument: str
    kind: MatchKind
    values: list[Json]
    """Of a range: least and most, None where it is open. Otherwise any one of them is enough."""


class GrantTerms(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The bounds of a standing decision that older code does not know."""

    matching: list[Matcher] = msgspec.field(default_factory=list)
    """All of them have to hold."""
    budget: list[Limit] = msgspec.field(default_factory=list)
    """All of them have to cover a call."""


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one call takes of one limit. Amounts are whole millionths."""

    limit: str
    """Which one: the limit without its size."""
    group: str
    """A digest of the values by which it is counted apart. The values themselves are in the call's arguments."""
    period: str
    """The hour, day, … in which it counts; empty where there is none."""
    amount: int
    most: int
    within: float | None = None
    until: float | None = None
    """From then on it is of no use to know it. None: for as long as the budget is there."""


class BudgetTaken(Fact, frozen=True, tag="take"):
    """A call took its share of a budget: written with its claim, or the claim is not written. A call that is begun
    again takes nothing more, unless what it took was given back.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    call: str
    budget: str
    """The id of a grant, or `rule:` and the name of a policy's rule."""
    at: float
    parts: list[Part]


class BudgetGivenBack(Fact, frozen=True, tag="giveback"):
    """Stands in the operators' log: a call did not do what it took this for."""

    run: str
    call: str
    budget: str | None
    """None: all that it took."""
    by: str | None
    at: float
    reason: str | None = None
