"""langgraph as in on_langgraph, but with one checkpoint when the graph stops, not one after every step."""

from __future__ import annotations

from bench.contenders import on_langgraph
from bench.contenders.on_langgraph import (
    IMPORT,
    agent,
    approve_all,
    load,
    output,
    resume,
    run,
    store,
    stream,
    versions,
    waiting,
)

__all__ = [
    "IMPORT",
    "agent",
    "approve_all",
    "load",
    "output",
    "resume",
    "run",
    "store",
    "stream",
    "versions",
    "waiting",
]

on_langgraph.durability = "exit"
