"""Amounts that are counted exactly: whole numbers and decimals, as whole millionths. Floats are none."""

from __future__ import annotations

import re

from placet.facts.codec import Json

DIGITS = 6
MILLION: int = 10**DIGITS
MAX_WHOLE = 10**12
"""Larger amounts are not counted: sums of them would not fit into what databases add up."""
_DECIMAL = re.compile(r"([0-9]{1,13})(?:\.([0-9]{1,6}))?")


class Uncountable(ValueError):
    """A value cannot be counted. The text says why, behind the name of what has it."""


def amount_of(value: Json) -> int:
    """A value of a call's arguments in millionths; Uncountable where it is no amount that can be counted exactly."""
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        raise Uncountable("is no number")
    if isinstance(value, float):
        raise Uncountable("is a float, which is not exact: use whole numbers (cents), or decimals as text")
    if isinstance(value, int):
        if value < 0:
            raise Uncountable("is less than nothing")
        if value > MAX_WHOLE:
            raise Uncountable("is larger than what is counted")
        return value * MILLION
    found = _DECIMAL.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Uncountable(f"is no whole number and no decimal with up to {DIGITS} digits behind the point")
    whole = int(found[1])
    if whole > MAX_WHOLE:
        raise Uncountable("is larger than what is counted")
    return whole * MILLION + int((found[2] or "").ljust(DIGITS, "0"))


def text_of_amount(amount: int) -> str:
    """An amount for people: `5000`, `12.5`."""
    sign, amount = ("-", -amount) if amount < 0 else ("", amount)
    whole, rest = divmod(amount, MILLION)
    return f"{sign}{whole}" if not rest else f"{sign}{whole}.{rest:06d}".rstrip("0")
