"""Tools that an agent gets from elsewhere: found when a run is driven, named so that a model can distinguish them."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from placet.declare.tool import Tool
from placet.ports import Toolset

MAX_NAME = 64
"""The longest name of a tool that all providers take."""

_OTHER_SIGNS = re.compile(r"[^a-zA-Z0-9_-]")


def as_model_name(name: str) -> str:
    """The name in the signs, and of the length, that all providers take. Two that become alike stay apart."""
    plain = _OTHER_SIGNS.sub("_", name)
    if plain == name and len(plain) <= MAX_NAME:
        return plain
    mark = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{plain[: MAX_NAME - len(mark) - 1]}_{mark}"


def name_apart(
    own: Iterable[str], found: Sequence[tuple[Toolset[Tool], Sequence[Tool]]], *, always_prefixed: bool = False
) -> list[Tool]:
    """The found tools under names that no other tool of the agent has.

    A tool keeps its own name if nothing else has it. Otherwise the name of its server is put before it: before all that
    share the name, so that no name depends on the order of the servers. The agent's own tools are never renamed.
    """
    taken = frozenset(own)
    pairs = [(server, tool) for server, tools in found for tool in tools]
    plain = [as_model_name(tool.name) for _, tool in pairs]
    clash = _clashing(taken, plain)
    names = [
        _prefixed(server.name, tool.name) if always_prefixed or name in clash else name
        for (server, tool), name in zip(pairs, plain, strict=True)
    ]
    clash = _clashing(taken, names)  # `a` with `b__c`, and `a__b` with `c`: only the whole identity distinguishes them
    names = [
        as_model_name(f"{name}:{tool.identity}") if name in clash else name
        for (_, tool), name in zip(pairs, names, strict=True)
    ]
    return [
        tool if name == tool.name else dataclasses.replace(tool, name=name)
        for (_, tool), name in zip(pairs, names, strict=True)
    ]


def _prefixed(server: str, tool: str) -> str:
    return as_model_name(f"{_OTHER_SIGNS.sub('_', server)}__{tool}")


def _clashing(taken: frozenset[str], names: Sequence[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1 or name in taken}
