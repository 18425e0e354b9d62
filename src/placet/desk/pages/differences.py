"""What a card says first: one sentence, what differs from what people approved before, and where values came from.

Rule of this file: it adds words beside the arguments and takes none away. Where a value occurs earlier in the run is
said, and is never a reason for less care.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from placet.core.baseline import MIN_TO_COMPARE, NOTHING, Comparison, FieldNote, compare
from placet.core.sentence import sentence_of
from placet.desk.desk import DeskRequest
from placet.desk.pages.history import HistoryRow
from placet.desk.web.context import Web
from placet.desk.web.waiting import Care, care_of
from placet.facts.codec import Json, JsonObject
from placet.service.baselines import samples_of

MAX_SEARCHED = 2_000_000
"""Characters of a run in which values are looked for."""
MIN_LENGTH = 3
"""Shorter values stand everywhere: where they occur says nothing."""


@dataclass(frozen=True, slots=True)
class Differences:
    sentence: str
    comparison: Comparison
    care: Care
    origins: dict[str, str] = field(default_factory=dict)
    """Where the value of an argument occurs earlier in the run, by the argument's name."""

    @property
    def odd(self) -> list[FieldNote]:
        return self.comparison.odd if self.comparison.is_unusual else []

    @property
    def notes(self) -> dict[str, list[FieldNote]]:
        """What is said beside each argument, once there is enough to compare with."""
        if self.comparison.approved < MIN_TO_COMPARE:
            return {}
        found: dict[str, list[FieldNote]] = {}
        for note in self.comparison.notes:
            found.setdefault(note.argument, []).append(note)
        return found

    @property
    def signature(self) -> str:
        """What a reader acknowledges: if it has changed by the time of the decision, it is shown again."""
        return ";".join(note.name for note in self.odd)


async def comparison_of(web: Web, request: DeskRequest) -> Comparison:
    if request.kind != "approval":
        return NOTHING
    samples = await samples_of(web.desk.store, request.agent, request.tool)
    mine = (request.run_id, request.call)
    return compare(request.arguments, [each for each in samples if (each.run, each.call) != mine], web.clock.now())


async def differences_of(web: Web, request: DeskRequest, earlier: Sequence[HistoryRow]) -> Differences:
    comparison = await comparison_of(web, request)
    return Differences(
        sentence=request.summary or sentence_of(request.tool, request.arguments),
        comparison=comparison,
        care=care_of(request, comparison),
        origins=origins_of(request.arguments, earlier),
    )


# -- where a value came from -------------------------------------------------------------------------------------------


def origins_of(arguments: JsonObject | str, earlier: Sequence[HistoryRow]) -> dict[str, str]:
    """The first place in the run at which each small value stands, in words."""
    if isinstance(arguments, str) or not earlier:
        return {}
    texts = _searched(earlier)
    return {
        name: _place(texts, wanted)
        for name, value in list(arguments.items())[:100]
        if (wanted := _wanted(value)) is not None
    }


def _searched(earlier: Sequence[HistoryRow]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    left = MAX_SEARCHED
    for row in earlier:
        if left <= 0:
            break
        found.append((_words(row), row.text[:left]))
        left -= len(row.text)
    return found


def _words(row: HistoryRow) -> str:
    if row.sort == "asked":
        return "in what the run was asked" if row.depth == 0 else "in what the agent above asked"
    return "in the agent's own words" if row.sort == "said" else f"in the output of {row.who}"


def _wanted(value: Json) -> re.Pattern[str] | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value)
    if not MIN_LENGTH <= len(text) <= 2000:
        return None
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")


def _place(texts: Sequence[tuple[str, str]], wanted: re.Pattern[str]) -> str:
    return next((place for place, text in texts if wanted.search(text)), "nowhere earlier in this run")
