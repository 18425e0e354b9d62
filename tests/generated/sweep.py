"""The long sweep: `python -m tests.generated.sweep --seeds 1000 --start 0`.

Prints the seed of each script that fails.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import traceback
import warnings

from tests.generated.play import check
from tests.generated.script import PLAIN, Script, Seeded, Way, a_script, a_way

SECONDS_FOR_ONE = 120


def from_seed(seed: int) -> tuple[Script, Way]:
    chance = Seeded(seed)
    return a_script(chance), a_way(chance)


async def check_seed(seed: int) -> None:
    script, way = from_seed(seed)
    async with asyncio.timeout(SECONDS_FOR_ONE):
        await check(script, PLAIN, way)


def fails(seed: int) -> str | None:
    """Why the script of this seed fails, or None."""
    try:
        asyncio.run(check_seed(seed))
    except Exception:  # noqa: BLE001  # whatever it is, it is a failure of this seed
        return traceback.format_exc()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generated.sweep", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    given = parser.parse_args()
    warnings.simplefilter("error")
    began, failed = time.monotonic(), 0
    for seed in range(given.start, given.start + given.seeds):
        why = fails(seed)
        if why is None:
            continue
        failed += 1
        script, way = from_seed(seed)
        sys.stdout.write(f"seed {seed} fails\n{why}\n{script}\n{way}\n{os.linesep}")
        if not given.keep_going:
            break
    seconds = time.monotonic() - began
    sys.stdout.write(f"{given.seeds} seeds from {given.start}: {failed} failed, {seconds:.1f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
