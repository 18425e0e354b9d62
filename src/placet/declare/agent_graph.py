"""Addresses of agents: the way that leads to them from the agent with which the run began, never a bare name.

`Support` is the first agent, `Support>Billing` the one that it hands over to, `Support/ask_billing(Billing)` the one
behind its tool `ask_billing`. Restored states find their agents by these, also on rebuilt `Agent` objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from placet.declare.agent import Agent, AgentTool
from placet.facts.errors import UserError

_TOOL, _HANDOFF = "/", ">"


class AgentGraph:
    """All agents that a run can come to, by address."""

    def __init__(self, root: Agent[Any], *, stand_ins: bool = False) -> None:
        """`stand_ins`: an agent that nobody declares any more is shown by its address, has no tools, and is no error.
        For code that ends a run, or only shows it."""
        self.root = root
        self._has_stand_ins = stand_ins
        self._known: dict[str, Agent[Any]] = {root.address: root}
        self._closures: dict[str, dict[int, str]] = {}
        self._agents: dict[int, Agent[Any]] = {}

    def at(self, address: str) -> Agent[Any]:
        """The agent with this address, or UserError naming what is missing."""
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = self._found(address)
        return found

    def has(self, address: str) -> bool:
        """Whether today's code declares the agent with this address."""
        try:
            self._walk(address)
        except UserError:
            return False
        return True

    def _found(self, address: str) -> Agent[Any]:
        try:
            return self._walk(address)
        except UserError:
            if not self._has_stand_ins:
                raise
            return Agent(name=address)

    def _walk(self, address: str) -> Agent[Any]:
        cut = max(address.rfind(_TOOL), address.rfind(_HANDOFF))
        if address == self.root.address:
            return self.root
        if cut < 0:
            raise UserError(
                f"The state is of agent '{address}', and '{self.root.address}' was given: load it with the former."
            )
        parent, edge, name = self._walk(address[:cut]), address[cut], address[cut + 1 :]
        for label, target in _edges(parent, edge):
            if label == name:
                return target
        what = "a tool" if edge == _TOOL else "a handoff"
        raise UserError(f"Agent '{address[:cut]}' no longer has {what} that leads to '{name}': declare it again.")

    def behind_tool(self, owner: str, tool: AgentTool) -> str:
        return f"{owner}{_TOOL}{tool_label(tool)}"

    def after_handoff(self, start: str, target: Agent[Any]) -> str:
        """The address of an agent within the run that began at `start`: always the same, whichever way led there this
        time."""
        return self._closure(start)[id(target)]

    def handed_over_from(self, start: str) -> list[str]:
        """The addresses of all agents that a run can come to that began at `start`, that one first."""
        return list(self._closure(start).values())

    def _closure(self, start: str) -> dict[int, str]:
        if start not in self._closures:
            self._closures[start] = self._handoffs_from(start)
        return self._closures[start]

    def _handoffs_from(self, start: str) -> dict[int, str]:
        first = self.at(start)
        found = {id(first): start}
        queue = deque([(start, first)])
        while queue:
            address, agent = queue.popleft()
            for label, target in _edges(agent, _HANDOFF):
                if id(target) not in found:
                    found[id(target)] = there = f"{address}{_HANDOFF}{label}"
                    self._known[there] = target
                    queue.append((there, target))
        return found

    def agents(self) -> Iterable[Agent[Any]]:
        """All agents that a run can come to, each once."""
        if not self._agents:
            queue = [self.root]
            while queue:
                agent = queue.pop()
                if id(agent) not in self._agents:
                    self._agents[id(agent)] = agent
                    queue.extend(target for edge in (_TOOL, _HANDOFF) for _, target in _edges(agent, edge))
        return self._agents.values()

    def check(self) -> None:
        """Refuse, before anything runs, what a path cannot distinguish."""
        for agent in self.agents():
            agent.check_names()
            labels: dict[str, Agent[Any]] = {}
            for label, target in _edges(agent, _HANDOFF):
                if labels.setdefault(label, target) is not target:
                    raise UserError(
                        f"Agent '{agent.name}' hands over to two agents named '{target.name}', "
                        "and both have the same path: give one of them Agent(key=…)."
                    )


def _edges(agent: Agent[Any], edge: str) -> list[tuple[str, Agent[Any]]]:
    if edge == _TOOL:
        return [(tool_label(tool), tool.agent) for tool in agent.tools if isinstance(tool, AgentTool)]
    return [(each.agent.address, each.agent) for each in agent.all_handoffs] if agent.handoffs else []


def tool_label(tool: AgentTool) -> str:
    """The tool that leads to an agent, and the agent: another agent behind a tool of the same name is another one."""
    return f"{_escaped(tool.name)}({tool.agent.address})"


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace(_TOOL, "%2F").replace(_HANDOFF, "%3E")
