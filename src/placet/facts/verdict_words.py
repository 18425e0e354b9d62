"""What each decision is called, in one table for all surfaces: records, pages, spans, the API and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from placet.facts.events import Verdict

DecidedStatus: TypeAlias = Literal["approved", "rejected", "edited", "answered"]


class VerdictWords(NamedTuple):
    status: DecidedStatus
    """The status of a request that was decided so: one word, which programs compare."""
    label: str
    """The same for people."""


WORDS: Final[Mapping[Verdict, VerdictWords]] = {
    "approve": VerdictWords("approved", "approved"),
    "reject": VerdictWords("rejected", "rejected"),
    "edit": VerdictWords("edited", "approved with changed arguments"),
    "respond": VerdictWords("answered", "answered in the tool's place"),
}


def verdict_behind(status: str) -> Verdict | None:
    """The decision behind a request's status; None where there was none."""
    return next((verdict for verdict, words in WORDS.items() if words.status == status), None)


def verdict_label(verdict: object) -> str:
    """What people read of a decision, as the API spells it."""
    return next((words.label for each, words in WORDS.items() if each == verdict), str(verdict))


def counted(number: int, what: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
