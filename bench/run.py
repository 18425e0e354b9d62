"""The benchmark: python3 dev.py bench [--only NAME] [--quick] [--rounds N] [--out FILE] [--compare FILE] [--plots].

Works are declared in bench/sections, contenders in bench/contenders. Each measurement is a fresh process; contenders
take turns; the least processor time of all repetitions counts. `bench stores` and the like measure whole systems
(bench/systems). docs/benchmark.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # as a script, only the folder of this file is searched
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.contenders import CONTENDERS, LIMIT, PLACET
from bench.measuring import ContenderFailed, measure, try_out
from bench.plots import plot
from bench.results import NotResults, Results, over_budget
from bench.sections import works as all_works
from bench.systems import SYSTEMS, main_of
from bench.table import as_markdown, as_text, compared, rows
from bench.work import ROOT, Contender, Work

LATEST = ROOT / ".dev" / "bench" / "latest.json"
DOCS = ROOT / "docs"
BEGIN, END = "<!-- figures: written by `python3 dev.py bench --plots` -->", "<!-- end of the figures -->"


def main(arguments: Sequence[str], contenders: Sequence[Contender] = CONTENDERS) -> int:
    if arguments and arguments[0] in SYSTEMS:
        return main_of(arguments[0])(arguments[1:])
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.plots and (asked.quick or asked.only):
        parser.error("--plots writes the docs: it needs a whole run, without --quick and --only")
    try:
        works = _chosen(asked.only)
        earlier = Results.load(asked.compare) if asked.compare else None  # it may be the file that is written below
        results = try_out(contenders, works) if asked.quick else measure(contenders, works, asked.rounds, _progress)
    except (NotResults, ContenderFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(as_text(rows(results, works)))
    print(_circumstances(results))
    if earlier is not None:
        print("\n" + as_text(compared(earlier, results)))
    is_whole = not asked.quick and not asked.only  # parts and try-outs never take the place of a whole run
    if asked.out or is_whole:
        results.save(asked.out or LATEST)
    if asked.plots:
        write_docs(results, works, DOCS)
    return 0 if asked.quick else _judge_budgets(results, works)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dev.py bench", description="Placet's works beside the bare limit of Python.")
    parser.add_argument("--only", metavar="NAME", action="append", help="only this work, or those whose name begins so")
    parser.add_argument("--quick", action="store_true", help="do every work once, very small: do all of them work?")
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="how often each is measured (default: 5)")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="where results go (a whole run: .dev/bench/latest.json)"
    )
    parser.add_argument("--compare", metavar="FILE", type=Path, help="also print the ratios to these earlier results")
    parser.add_argument("--plots", action="store_true", help="write plots and figures into docs/")
    return parser


def _chosen(names: Sequence[str] | None) -> list[Work]:
    found = [work for work in all_works() if not names or any(work.name.startswith(name) for name in names)]
    if not found:
        raise NotResults(f"no work is called {names!r}: there are {', '.join(work.name for work in all_works())}.")
    return found


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _circumstances(results: Results) -> str:
    versions = {name: version for found in results.versions.values() for name, version in found.items()}
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    effort = f"least of {results.rounds} rounds" if results.rounds else "each once and very small: no measurement"
    return f"\n{results.date} · {results.machine} · {results.python} · {named} · {effort}"


def write_docs(results: Results, works: Sequence[Work], docs: Path) -> None:
    """The plots, and the table between its marks in benchmark.md."""
    (docs / "img").mkdir(parents=True, exist_ok=True)
    for work in works:
        if work.plot is not None:
            (docs / "img" / f"bench-{work.plot.file}").write_text(plot(work, results))
    page = docs / "benchmark.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = f"{BEGIN}\n{_circumstances(results).strip()}\n\n{as_markdown(rows(results, works))}\n{END}"
    page.write_text(before + figures + after)


def _judge_budgets(results: Results, works: Sequence[Work]) -> int:
    broken = over_budget(results, works, PLACET.name, LIMIT.name)
    for sentence in broken:
        print(f"bench: over budget: {sentence}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
