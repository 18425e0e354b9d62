"""The long sweep: `python -m tests.ballots.sweep --seeds 10000`, or `--store sqlite` (or `postgresql`) `--seeds 500`.

Prints the seed of each office whose votes were counted wrongly.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import traceback

from placet.stores.opening import open_store
from tests.ballots.play import check_in_memory, check_on
from tests.support.postgres import PostgresServer


async def sweep(url: str | None, first: int, count: int) -> int:
    store = open_store(url) if url is not None else None
    failed = 0
    for seed in range(first, first + count):
        try:
            await (check_in_memory(seed) if store is None else check_on(store, seed))
        except Exception:  # noqa: BLE001  # whatever it is, it is a failure of this seed
            failed += 1
            sys.stdout.write(f"seed {seed} fails\n{traceback.format_exc()}\n")
            break
    if store is not None:
        await store.close()
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ballots.sweep", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--store", choices=["memory", "sqlite", "postgresql"], default="memory")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if given.store == "postgresql":
            server = PostgresServer()
            try:
                failed = asyncio.run(sweep(server.store_database(), given.start, given.seeds))
            finally:
                server.close()
        else:
            url = f"sqlite:///{folder}/votes.db" if given.store == "sqlite" else None
            failed = asyncio.run(sweep(url, given.start, given.seeds))
    seconds = time.monotonic() - began
    sys.stdout.write(f"{given.seeds} seeds from {given.start}, {given.store}: {failed} failed, {seconds:.1f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
