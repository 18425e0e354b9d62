"""Benchmarks of whole systems: what a disk, a database or a network has a share in, measured in time that passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

SYSTEMS = {
    "stores": "bench.systems.stores",
    "desk": "bench.systems.desk",
    "durable": "bench.systems.durable",
    "gate": "bench.systems.gate",
    "gateway": "bench.systems.gateway",
    "growth": "bench.systems.growth",
    "scale": "bench.systems.scale",
}
"""By the name of the command: `python3 dev.py bench stores`, and so on."""


def main_of(name: str) -> Callable[[Sequence[str]], int]:
    main: Callable[[Sequence[str]], int] = import_module(SYSTEMS[name]).main
    return main
