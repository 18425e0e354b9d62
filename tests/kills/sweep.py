"""The same stories at length: `python -m tests.kills.sweep --kills 2000 --store postgresql --seed 7`; `--every-await`
lets a worker die at each await of a run's life.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.desk.scenes import Witness
from tests.kills.crew import problems_with
from tests.kills.story import dead_at_each, killed_from_outside, moments_of
from tests.support.postgres import PostgresServer

PATIENCE = 300.0


@contextmanager
def a_store(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'placet.db'}"
        return
    server = PostgresServer()
    try:
        yield server.new_database()
    finally:
        server.close()


async def sweep(options: argparse.Namespace, url: str, witness: Witness) -> list[str]:
    if not options.every_await:
        return await killed_from_outside(
            url, witness, kills=options.kills, seed=options.seed, patience=PATIENCE, tell=tell
        )
    count = await moments_of(url, witness, "await")
    witness.path.unlink()
    deaths = await dead_at_each(url, witness, "await", range(1, count), patience=PATIENCE)
    tell(f"{count} awaits, {deaths} deaths")
    runs = {line.split()[-1].split(":")[0] for line in witness.lines() if not line.startswith("complaint")}
    return problems_with(witness, sorted(runs))


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--every-await", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, a_store(options.store, Path(folder)) as url:
        found = asyncio.run(sweep(options, url, Witness(Path(folder) / "witness")))
    tell("\n".join(found) or "nothing lost, nothing twice")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
