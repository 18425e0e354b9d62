"""Who takes part: one module each, which implements `bench.work.Subject` and runs in an environment of its own."""

from __future__ import annotations

import sys

from bench.work import ROOT, Contender

PLACET = Contender("placet", sys.executable, "bench.contenders.on_placet")
LIMIT = Contender("limit", sys.executable, "bench.contenders.on_limit")

CONTENDERS = (PLACET, LIMIT)
"""Those that run in Placet's own environment."""


def _peer(name: str, lock: str | None = None) -> Contender:
    lock = lock or name
    python = ROOT / ".dev" / "bench" / lock / "bin" / "python"
    return Contender(name, str(python), f"bench.contenders.on_{name.replace('-', '_')}", lock)


PEERS = tuple(map(_peer, ("openai-agents", "pydantic-ai", "langgraph")))
"""Other runtimes, each of the lock bench/peers/NAME.lock; `bench.environments` makes their environments."""

VARIANTS = (_peer("langgraph-exit", lock="langgraph"),)
"""The same in another configuration, measured when they are asked for by name."""
