"""A guest that is killed while it executes a call: `python -m tests.gate.hosts.die FILE CLASS FOLDER`."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

from placet.gate import Gate
from tests.gate.hosts.scenarios import LEASE, Bank


async def main(file: str, name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("scenarios_of_the_host", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    scenarios = getattr(module, name)()
    async with Gate(f"sqlite:///{folder / 'calls.db'}", guest="bot", source="host") as gate:
        calls = [("c1", {"order": "dies"})]
        await scenarios.converse(gate, Bank(folder / "payments"), calls, "chat", lease=LEASE)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
