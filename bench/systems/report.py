"""What a benchmark of a system found: a table for people, a file to compare with, a part of the page in the docs."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from bench.results import place
from bench.table import as_markdown, as_text
from bench.work import ROOT

PAGE = ROOT / "docs" / "benchmark.md"
PAGES = {"growth": ROOT / "docs" / "scale.md", "scale": ROOT / "docs" / "scale.md"}
"""Where figures stand that do not stand in PAGE."""
END = "<!-- end of these figures -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was measured, beside what it is compared with in the same run."""

    work: str
    placet: str
    beside: str = ""
    ratio: float | None = None


@dataclass(slots=True)
class Report:
    name: str
    beside: str
    """What the third column is."""
    rows: list[Row] = field(default_factory=list)

    def add(self, work: str, placet: str, beside: str = "", ratio: float | None = None) -> None:
        self.rows.append(Row(work, placet, beside, ratio))

    def table(self) -> list[list[str]]:
        head = ["work", "placet", self.beside, "ratio"]
        return [head, *([r.work, r.placet, r.beside, "" if r.ratio is None else f"{r.ratio:.2f}"] for r in self.rows)]

    def circumstances(self) -> str:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return (
            f"{today} · 2 shared cores, {platform.machine()}, {platform.system()} · Python {platform.python_version()}"
        )

    def finish(self, options: argparse.Namespace) -> int:
        """Print it; keep it; write it into the docs, if that was asked for."""
        print(as_text(self.table()))
        print("\n" + self.circumstances())
        if not options.quick:
            kept = options.out or ROOT / ".dev" / "bench" / f"{self.name}.json"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"at": self.circumstances(), "rows": [asdict(row) for row in self.rows]}))
        if options.docs:
            write_part(self.name, f"{self.circumstances()}\n\n{as_markdown(self.table())}")
        return 0


def begin(name: str) -> str:
    return f"<!-- figures of the {name}: written by `python3 dev.py bench {name} --docs` -->"


def write_part(name: str, text: str) -> None:
    """Put it between its marks in the page."""
    page = PAGES.get(name, PAGE)
    before, found, rest = page.read_text().partition(begin(name))
    if not found:
        raise ValueError(f"{page.name} has no place for the figures: {begin(name)}")
    page.write_text(before + begin(name) + "\n" + text + "\n" + END + rest.partition(END)[2])


def options_of(name: str, about: str, arguments: Sequence[str], *, with_parts: bool = False) -> argparse.Namespace:
    """`with_parts`: a part of it can be measured alone."""
    parser = argparse.ArgumentParser(prog=f"dev.py bench {name}", description=about)
    parser.add_argument("--quick", action="store_true", help="very small: does it work?")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/benchmark.md")
    parser.add_argument("--out", type=place, metavar="FILE", help=f"where results go (.dev/bench/{name}.json)")
    if with_parts:
        parser.add_argument("--without-peers", action="store_true", help="only Placet")
        parser.add_argument("--store", choices=("postgresql", "sqlite"), help="only on this database")
        parser.add_argument("--only", action="append", metavar="WORK", help="only this work (may be repeated)")
        parser.add_argument("--rounds", type=int, metavar="N", help="how often each is measured (default: 3)")
    options = parser.parse_args(arguments)
    if options.quick and options.docs:
        parser.error("--docs needs a whole run, without --quick")
    return options
