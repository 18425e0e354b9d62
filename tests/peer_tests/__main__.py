"""`python3 dev.py peer-tests`: run the SDK's tests, compare with `judged.toml`, and write the page about them."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.peer_tests.judged import GUIDE, PAGE, guide, page, surprises
from tests.peer_tests.sources import PeerError
from tests.peer_tests.workplace import Found, Options, run


def main() -> int:
    given = arguments()
    options = Options(given.peer, given.only, given.limit, given.jobs, given.keep)
    try:
        found = run(options)
    except PeerError as error:
        print(f"peer-tests: {error}", file=sys.stderr)
        return 2
    show(found)
    if given.json:
        told = {test: [each.outcome, each.cases, each.passed, each.cause] for test, each in found.items()}
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    GUIDE.write_text(guide(), encoding="utf-8")
    said = surprises(found)
    for line in said:
        print(line)
    return 1 if said else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py peer-tests", description=__doc__)
    parser.add_argument("--peer", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("only", nargs="*", metavar="TEXT", help="only tests whose id contains one of these")
    parser.add_argument("--limit", type=float, default=60, metavar="S", help="seconds for one case (60)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="files of the SDK that run at once (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where each outcome and its cause are written")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder, and show pytest's output")
    return parser.parse_args()


def show(found: Mapping[str, Found]) -> None:
    files: dict[str, Counter[str]] = {}
    for test, each in found.items():
        files.setdefault(test.partition("::")[0], Counter()).update({each.outcome: 1})
    width = max(map(len, files))
    for name, counts in files.items():
        print(f"{name:<{width}}  " + "  ".join(f"{outcome} {n}" for outcome, n in sorted(counts.items())))
    passed = sum(each.outcome == "passed" for each in found.values())
    cases = sum(each.passed for each in found.values()), sum(each.cases for each in found.values())
    print(f"\n{passed} of {len(found)} tests pass ({cases[0]} of {cases[1]} cases)")


if __name__ == "__main__":
    sys.exit(main())
