"""A picture of an agent: its tools, its servers, and the agents that it can hand over to, as a graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from placet import Agent, Handoff

if TYPE_CHECKING:
    import graphviz

START, END = "__start__", "__end__"
_AGENT = "shape=box, style=filled, fillcolor=lightyellow, width=1.5, height=0.8"
_TOOL = "shape=ellipse, style=filled, fillcolor=lightgreen, width=0.5, height=0.3"
_SERVER = "shape=box, style=filled, fillcolor=lightgrey, width=1, height=0.5"
_EDGE_OF_END = "shape=ellipse, style=filled, fillcolor=lightblue, width=0.5, height=0.3"


def get_main_graph(agent: Agent[Any]) -> str:
    """The whole graph, in Graphviz' language."""
    looks = (
        'graph [splines=true]; node [fontname="Arial"]; edge [penwidth=1.5];',
        get_all_nodes(agent),
        get_all_edges(agent),
    )
    return "digraph G {\n" + "\n".join(looks) + "\n}"


def get_all_nodes(agent: Agent[Any], parent: Agent[Any] | None = None, visited: set[str] | None = None) -> str:
    """The nodes of this agent and of all that it reaches."""
    lines = [] if parent is not None else [_node(START, _EDGE_OF_END), _node(END, _EDGE_OF_END)]
    for each in _reached(agent, visited):
        lines.append(_node(each.name, _AGENT))
        lines += [_node(tool.name, _TOOL) for tool in each.tools]
        lines += [_node(server.name, _SERVER) for server in each.mcp_servers]
    return "\n".join(dict.fromkeys(lines))


def get_all_edges(agent: Agent[Any], parent: Agent[Any] | None = None, visited: set[str] | None = None) -> str:
    """The arrows: to tools and back, to servers and back, and to the agents that can take over."""
    lines = [] if parent is not None else [_edge(START, agent.name)]
    for each in _reached(agent, visited):
        lines += [line for tool in each.tools for line in _there_and_back(each.name, tool.name, "dotted")]
        lines += [line for server in each.mcp_servers for line in _there_and_back(each.name, server.name, "dashed")]
        targets = [target.name for target in _targets(each)]
        lines += [_edge(each.name, target) for target in targets]
        if not targets:
            lines.append(_edge(each.name, END))
    return "\n".join(dict.fromkeys(lines))


def draw_graph(agent: Agent[Any], filename: str | None = None) -> graphviz.Source:
    """The graph as Graphviz' own object, which notebooks show; with a file name it is rendered there as PNG."""
    try:
        import graphviz as drawing
    except ImportError as error:
        raise ImportError("draw_graph needs graphviz: pip install graphviz, and the program `dot`") from error
    graph = drawing.Source(get_main_graph(agent))
    if filename:
        graph.render(filename, format="png", cleanup=True)
    return graph


def _reached(agent: Agent[Any], visited: set[str] | None) -> Iterator[Agent[Any]]:
    """Each agent once, this one first."""
    seen = visited if visited is not None else set()
    if agent.name in seen:
        return
    seen.add(agent.name)
    yield agent
    for target in _targets(agent):
        yield from _reached(target, seen)


def _targets(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    for each in agent.handoffs:
        target = each.agent if isinstance(each, Handoff) else each
        if isinstance(target, Agent):
            yield target


def _node(name: str, look: str) -> str:
    return f"{_quoted(name)} [label={_quoted(name)}, {look}];"


def _edge(start: str, end: str, style: str = "") -> str:
    return f"{_quoted(start)} -> {_quoted(end)}{f' [style={style}, penwidth=1.5]' if style else ''};"


def _there_and_back(start: str, end: str, style: str) -> tuple[str, str]:
    return _edge(start, end, style), _edge(end, start, style)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


__all__ = ["draw_graph", "get_all_edges", "get_all_nodes", "get_main_graph"]
