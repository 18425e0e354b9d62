"""One conversation of a framework's agent, in a process of its own: `python -m tests.gate.hosts.driver SPEC`.

Run it with the framework's own Python (`command_for`). SPEC is JSON:

    host       name of the framework, as in `frameworks.FRAMEWORKS`
    way        how its calls wait: the name of a class in its check file (default: the first of `ways`)
    gate       keywords of `Gate`: {"at": url, "token": …} or {"at": "sqlite:///…", "guest": …, "source": …}
    witness    file in which each executed call writes a line: its order, a space, its cents
    calls      what the model calls in one response: [[call id, arguments of `refund`], …]
    session    the conversation (default "chat")
    options    needs_approval, timeout and lease of the adapter
    proposing  more keywords for each proposal
    dies_at    a step of `scenarios.STEPS` at which this process is gone without a word (exit code 9)

Its last line is what the model read of each call, by call id, as JSON. `refund(order: str, cents: int = 100)` fails for
the order "fails", and kills the process after its effect for the order "dies".
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.gate.hosts.frameworks import FRAMEWORKS, HERE, QUIET, python_of
from tests.gate.hosts.scenarios import Bank, HostScenarios, Steps


def command_for(spec: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The command and its environment; the framework's packages have to be set up."""
    import placet

    paths = (str(Path(placet.__file__).parents[1]), str(HERE.parents[2]))
    env = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(paths)}
    return [str(python_of(spec["host"])), "-m", "tests.gate.hosts.driver", json.dumps(spec)], env


def scenarios_in(file: Path, way: str) -> HostScenarios:
    found = importlib.util.spec_from_file_location("scenarios_of_the_host", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    scenarios: HostScenarios = getattr(module, way)()
    return scenarios


async def main(spec: dict[str, Any]) -> dict[str, str]:
    framework = FRAMEWORKS[spec["host"]]
    scenarios = scenarios_in(framework.checks, spec.get("way") or framework.ways[0])
    given = dict(spec["gate"])
    async with Steps(given.pop("at"), spec.get("dies_at"), spec.get("proposing"), **given) as gate:
        calls = [(call_id, arguments) for call_id, arguments in spec["calls"]]
        bank = Bank(Path(spec["witness"]))
        return await scenarios.converse(gate, bank, calls, spec.get("session", "chat"), **spec.get("options", {}))


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
