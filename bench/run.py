"""The benchmark: python3 dev.py bench [--only NAME] [--quick] [--rounds N] [--out FILE] [--compare FILE] [--plots].

Works are declared in bench/sections, contenders in bench/contenders, targets on the works' figures. Each measurement is
a fresh process; contenders take turns; the least processor time of all repetitions counts. Peers run in environments of
their own, which are made on first use. `bench stores` and `bench desk` measure whole systems (bench/systems).
docs/benchmark.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":  # as a script, only the folder of this file is searched
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.contenders import CONTENDERS, LIMIT, PEERS, PLACET, VARIANTS
from bench.environments import NoEnvironment, set_up
from bench.measuring import ContenderFailed, measure, try_out
from bench.plots import plot
from bench.progress import Progress
from bench.results import NotResults, Results, over_budget, place
from bench.sections import works as all_works
from bench.sections import works_of_the_library
from bench.systems import SYSTEMS, main_of
from bench.table import as_markdown, as_text, compared, rows
from bench.targets import unmet
from bench.work import ROOT, Contender, Work

LATEST = ROOT / ".dev" / "bench" / "latest.json"
DOCS = ROOT / "docs"
BEGIN, END = "<!-- figures: written by `python3 dev.py bench --plots` -->", "<!-- end of the figures -->"


def main(arguments: Sequence[str], contenders: Sequence[Contender] | None = None) -> int:
    if arguments and arguments[0] in SYSTEMS:
        return main_of(arguments[0])(arguments[1:])
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.plots and (asked.quick or asked.only or asked.peers is not None):
        parser.error("--plots writes the docs: it needs a whole run, without --quick and --only, beside all peers")
    try:
        works = _chosen(asked.only, is_quick=asked.quick)
        earlier = Results.load(asked.compare) if asked.compare else None  # it may be the file that is written below
        contenders = _with_peers(asked.peers) if contenders is None else contenders
        with Progress() as progress:
            results = try_out(contenders, works) if asked.quick else measure(contenders, works, asked.rounds, progress)
    except (NotResults, NoEnvironment, ContenderFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    results.unmet = unmet(results, works)
    print(as_text(rows(results, works)))
    print("\n" + results.circumstances())
    print("".join(_unmet_sentences(results)), end="")
    if not asked.quick and not (set(results.versions) - {PLACET.name, LIMIT.name}):
        print(
            "Targets are held against the best peer: leave --without-peers out, or name one with --peers, to see them."
        )
    if earlier is not None:
        print("\n" + as_text(compared(earlier, results)))
    # parts and try-outs never take the place of a whole run
    is_whole = not asked.quick and not asked.only and asked.peers is None
    if asked.out or is_whole:
        results.save(asked.out or LATEST)
    elif not asked.quick:
        print("Not kept: only a whole run beside all peers becomes latest.json. With --out FILE this one is kept too.")
    if asked.plots:
        write_docs(results, works, DOCS)
    return 0 if asked.quick else _judge_budgets(results, works)


def _with_peers(names: Sequence[str] | None) -> list[Contender]:
    """Placet, the limit and these peers, whose environments are made if they are not there."""
    peers = PEERS if names is None else [peer for peer in (*PEERS, *VARIANTS) if peer.name in names]
    set_up(peers)
    return [*CONTENDERS, *peers]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev.py bench",
        description="Placet's works beside the bare limit of Python and beside other runtimes.",
        epilog="Whole systems have commands of their own: bench desk, bench stores, bench fleet.",
    )
    parser.add_argument("--only", metavar="NAME", action="append", help="only this work, or those whose name begins so")
    parser.add_argument("--quick", action="store_true", help="do every work once, very small: do all of them work?")
    parser.add_argument(
        "--rounds", metavar="N", type=_rounds, default=5, help="how often each is measured (default: 5)"
    )
    beside = parser.add_mutually_exclusive_group()
    names = [peer.name for peer in (*PEERS, *VARIANTS)]
    beside.add_argument(
        "--peers", metavar="NAME", action="append", choices=names, help=f"beside this peer only: {', '.join(names)}"
    )
    beside.add_argument(
        "--without-peers", dest="peers", action="store_const", const=[], help="only Placet and the limit: minutes less"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=place, help="where results go (a whole run: .dev/bench/latest.json)"
    )
    parser.add_argument("--compare", metavar="FILE", type=Path, help="also print the ratios to these earlier results")
    parser.add_argument("--plots", action="store_true", help="write plots and figures into docs/")
    return parser


def _rounds(text: str) -> int:
    try:
        rounds = int(text)
    except ValueError:
        rounds = 0
    if rounds < 1:
        raise argparse.ArgumentTypeError(f"{text!r} measures nothing: give a whole number from 1 on")
    return rounds


def _chosen(names: Sequence[str] | None, *, is_quick: bool) -> list[Work]:
    if not names and not is_quick:
        return works_of_the_library()
    found = [work for work in all_works() if not names or any(work.name.startswith(name) for name in names)]
    if not found:
        raise NotResults(f"no work is called {names!r}: there are {', '.join(work.name for work in all_works())}.")
    return found


def _unmet_sentences(results: Results) -> Iterator[str]:
    for each in results.unmet:
        what = f"target not met: {each['work']}:{each['size']}:{each['figure']}"
        yield f"{what}: {each['reached']:.2f} instead of {each['target']:g}, against {each['against']}\n"


def write_docs(results: Results, works: Sequence[Work], docs: Path) -> None:
    """The plots, and the table between its marks in benchmark.md."""
    (docs / "img").mkdir(parents=True, exist_ok=True)
    for work in works:
        if work.plot is not None:
            (docs / "img" / f"bench-{work.plot.file}").write_text(plot(work, results))
    page = docs / "benchmark.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = f"{BEGIN}\n{results.circumstances()}\n\n{as_markdown(rows(results, works))}\n{END}"
    page.write_text(before + figures + after)


def _judge_budgets(results: Results, works: Sequence[Work]) -> int:
    broken = over_budget(results, works, PLACET.name, LIMIT.name)
    for sentence in broken:
        print(f"bench: over budget: {sentence}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
