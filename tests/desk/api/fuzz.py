"""Asks the desk's API everything that its own description allows, and much that it does not.

    python -m tests.desk.api.fuzz [--examples 300] [--seed 1] [--store URL]

Starts a desk with runs that wait, and lets schemathesis loose on it: no answer is a 500, every answer is as described,
every error is problem+json, what is not valid is refused, nothing is told without a token. The tests do it briefly.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from placet.desk.api.v1 import openapi
from placet.desk.web.settings import WebSettings
from tests.support.desk_server import in_thread

SETTINGS = WebSettings(
    requests_per_second=1e6, burst=10**6, heartbeat_seconds=0.5, max_listeners=10_000, max_body=10 * 2**20
)
NOT_CHECKED = (
    "positive_data_acceptance",  # ids, agents and cursors that are made up are not there, whatever they look like
    "missing_required_header",  # none is required
)
PHASES = "coverage,fuzzing,stateful"
STREAM = "/v1/events"
"""It does not end, and has tests of its own."""


def fuzz(
    folder: Path, *, examples: int, seed: int, phases: str = PHASES, url: str | None = None, tags: Sequence[str] = ()
) -> tuple[int, str]:
    """Run schemathesis against a desk of its own; its exit code, and what it said."""
    description = folder / "openapi.json"  # what the desk shows; a test compares the two
    description.write_bytes(openapi())
    with in_thread(folder, url=url, settings=SETTINGS) as server:
        for agent in ("Support", "Archivist", "Hostile"):
            server.do(server.running.waiting_run(agent))
        root = server.do(server.running.person("root", "admin"))
        server.do(server.running.web.accounts.add_user("spare", "admin"))  # somebody may remove root's neighbour
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            str(description),
            *("--url", server.url),
            *("--header", f"Authorization: {root.headers['authorization']}"),
            *("--exclude-path", STREAM),
            *("--checks", "all"),
            *("--exclude-checks", ",".join(NOT_CHECKED)),
            *("--phases", phases),
            *("--max-examples", str(examples)),
            *("--seed", str(seed)),
            *(part for tag in tags for part in ("--include-tag", tag)),
            *("--workers", "1"),
            *("--request-timeout", "60"),
            *("--suppress-health-check", "all"),
            *("--warnings", "off"),
            "--continue-on-failure",
            "--no-color",
        ]
        done = subprocess.run(  # noqa: S603  # a program of the development environment
            command, cwd=folder, capture_output=True, text=True, check=False
        )
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--phases", default=PHASES)
    parser.add_argument("--store", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        code, said = fuzz(Path(folder), examples=given.examples, seed=given.seed, phases=given.phases, url=given.store)
    sys.stdout.write(f"{said}\nseed: {given.seed}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
