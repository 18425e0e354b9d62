"""The sections: each file declares works. A new one is added to the list below, in the order of the table."""

from __future__ import annotations

from bench.sections import cycle, desk, footprint, ledger, many_runs, pauses, states, streaming, turns
from bench.work import Work

SECTIONS = (turns, cycle, pauses, states, many_runs, ledger, streaming, desk, footprint)


def works() -> list[Work]:
    return [work for section in SECTIONS for work in section.WORKS]


def works_of_the_library() -> list[Work]:
    """What a whole run measures. The desk's figures are of the clock and without peers: `bench desk` measures those."""
    return [work for section in SECTIONS if section is not desk for work in section.WORKS]
