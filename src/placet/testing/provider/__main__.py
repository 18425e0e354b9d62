"""`python -m placet.testing.provider script.json`: serve a script over HTTP and print the address."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from placet.facts.errors import UserError
from placet.testing.provider.fake import FakeProvider
from placet.testing.provider.script_file import read_script


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m placet.testing.provider", description=__doc__)
    parser.add_argument("script", type=Path, help="a JSON file with the steps")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    options = parser.parse_args()
    try:
        provider = FakeProvider(read_script(options.script))
    except UserError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(provider, options.host, options.port))
    return 0


async def _serve(provider: FakeProvider, host: str, port: int) -> None:
    stopped = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows has no such handlers: there Ctrl-C ends it
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with provider.serve(host, port) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    raise SystemExit(main())
