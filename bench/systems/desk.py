"""The desk over HTTP, beside a bare server: the works of bench/sections/desk.py, in time that passes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.contenders import CONTENDERS
from bench.measuring import ContenderFailed, measure, try_out
from bench.progress import Progress
from bench.results import Results
from bench.sections.desk import WORKS
from bench.systems.report import options_of, write_part
from bench.table import as_markdown, as_text, rows
from bench.work import ROOT

ROUNDS = 3
PATIENCE = 120.0
"""Seconds for a contender and a size. Making so many requests takes longer than measuring: it is no reason to stop."""
LATEST = ROOT / ".dev" / "bench" / "desk.json"


def _measure(tell: Progress) -> Results:
    return measure(CONTENDERS, WORKS, ROUNDS, tell, PATIENCE)


def main(arguments: Sequence[str]) -> int:
    options = options_of("desk", __doc__ or "", arguments)
    try:
        with Progress() as progress:
            results = try_out(CONTENDERS, WORKS) if options.quick else _measure(progress)
    except ContenderFailed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    table = rows(results, WORKS)
    print(as_text(table))
    print("\n" + results.circumstances())
    if options.out or not options.quick:
        results.save(options.out or LATEST)
    if options.docs:
        write_part("desk", f"{results.circumstances()}\n\n{as_markdown(table)}")
    return 0
