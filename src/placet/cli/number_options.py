"""Numbers as options take them: what cannot be meant is wrong usage, said in words, before anything is done."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a whole number within these bounds."""

    def read(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if found < least or (most is not None and found > most):
            bounds = f"{least} or more" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{found} cannot be meant: it is a whole number, {bounds}")
        return found

    return read


def number_above(least: float, what: str) -> Callable[[str], float]:
    """The type of an option that takes a number above this one."""

    def read(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not math.isfinite(found) or found <= least:
            raise argparse.ArgumentTypeError(f"{text} cannot be meant: it is a number of {what}, above {least:g}")
        return found

    return read
