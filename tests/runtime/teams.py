"""The team of the tests about nesting: three levels, two children of one agent, every name and every label the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet import Agent
from tests.runtime.team_scenes import Planned, Traces, ask, call

EFFECTS = ["pay 1", "pay 2", "pay 3", "pay 4"]
LEAVES = {"pay 1": "1.0/1.1", "pay 2": "1.1/1.1", "pay 3": "1.0/1.0/1.0", "pay 4": "1.1/1.0/1.0"}
"""Where each effect's call stands."""

PLAN = {
    "go": [[ask("delegate", "left", "x"), ask("delegate", "right", "x")]],
    "left": [[ask("delegate", "left leaf", "x"), call("pay", 1, "x")]],
    "right": [[ask("delegate", "right leaf", "x"), call("pay", 2, "x")]],
    "left leaf": [[call("pay", 3, "x")]],
    "right leaf": [[call("pay", 4, "x")]],
}
QUESTIONS = [("go", 0), ("go", 1)] + [
    (topic, turn) for topic in ("left", "right", "left leaf", "right leaf") for turn in (0, 1)
]
"""Every question to a model that the whole story needs."""


@dataclass
class Team:
    boss: Agent[Any]
    model: Planned


def team(traces: Traces, **options: Any) -> Team:
    """The team as a deploy builds it: new objects each time. `options` are for the agent tools."""
    model = Planned(PLAN)
    leaf = Agent("Same", tools=[traces.gated()], model=model)
    middle = Agent("Same", tools=[leaf.as_tool("delegate", **options), traces.gated()], model=model)
    return Team(Agent("Same", tools=[middle.as_tool("delegate", **options)], model=model), model)
