"""The long sweep: `python -m tests.teams.sweep --seeds 1000 --start 0`.

Prints the seed of each team that fails.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import traceback
import warnings

from tests.teams.play import check
from tests.teams.team import Team

SECONDS_FOR_ONE = 120


async def check_seed(seed: int) -> None:
    try:
        async with asyncio.timeout(SECONDS_FOR_ONE):
            await check(seed)
    except Exception as error:
        error.add_note(f"python -m tests.teams.sweep --seeds 1 --start {seed}")
        raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.teams.sweep", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    given = parser.parse_args()
    warnings.simplefilter("error")
    began, played, failed = time.monotonic(), 0, 0
    for seed in range(given.start, given.start + given.seeds):
        played += 1
        try:
            asyncio.run(check_seed(seed))
        except Exception:  # noqa: BLE001  # whatever it is, it is a failure of this seed
            failed += 1
            sys.stdout.write(f"seed {seed} fails\n{traceback.format_exc()}\n{Team(seed)}\n\n")
            if not given.keep_going:
                break
    seconds = time.monotonic() - began
    sys.stdout.write(f"{played} seeds from {given.start}: {failed} failed, {seconds:.1f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
