"""A name that was probably meant. Pure."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def did_you_mean(wrong: str, names: Collection[str]) -> str:
    """What is put behind a name that nobody knows; nothing where none is like it."""
    close = get_close_matches(wrong, names, n=1, cutoff=0.6)
    return f" (did you mean «{close[0]}»?)" if close else ""
