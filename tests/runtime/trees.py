"""Random trees of nested runs: what the models will ask for, a reviewer who decides in any order, and what must hold.

The long mode: `python -m tests.runtime.trees --seeds 2000 --start 0` prints the seed of each tree that fails.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from placet import Agent, FunctionTool, MemoryStore, RunResult, RunState, ToolApprovalItem
from tests.runtime.team_scenes import Item, Planned, Traces, ask, call, go

Number = Callable[[int, int], int]
"""A number from a range, both ends included: hypothesis draws it, or a seeded generator does."""
MAX_EFFECTS = 24


@dataclass
class Tree:
    """What one nested run will ask for: turns of calls. A leaf is the number of an effect, odd ones are gated."""

    topic: str
    turns: list[list[int | Tree]] = field(default_factory=list)

    @property
    def is_gated(self) -> bool:
        return self.topic.endswith("?")

    def family(self) -> Iterator[Tree]:
        yield self
        for each in self.calls():
            if isinstance(each, Tree):
                yield from each.family()

    def calls(self) -> Iterator[int | Tree]:
        for turn in self.turns:
            yield from turn

    def plan(self) -> dict[str, list[list[Item]]]:
        """Every call has the same label: no provider's id can be trusted."""
        return {tree.topic: [[_as_call(each) for each in turn] for turn in tree.turns] for tree in self.family()}


def _as_call(each: int | Tree) -> Item:
    return ask("delegate", each.topic, "x") if isinstance(each, Tree) else call("pay", each, "x")


def a_tree(number: Number) -> Tree:
    effects = iter(range(MAX_EFFECTS))
    return _a_tree(number, "root", 0, effects)


def _a_tree(number: Number, topic: str, depth: int, effects: Iterator[int]) -> Tree:
    tree = Tree(topic)
    for turn in range(number(1, 2)):
        calls: list[int | Tree] = []
        for place in range(number(1, 3)):
            goes_deeper = depth < 3 and number(0, 2) == 0
            if goes_deeper:
                name = f"{topic}.{turn}{place}{'?' if number(0, 3) == 0 else ''}"
                calls.append(_a_tree(number, name, depth + 1, effects))
            elif (effect := next(effects, None)) is not None:
                calls.append(2 * effect + number(0, 1))
        if calls:
            tree.turns.append(calls)
    return tree


@dataclass
class Review:
    """What the reviewer said: by what was asked about."""

    approved: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def decide(self, state: RunState[Any], item: ToolApprovalItem, number: Number) -> None:
        asked = str(item.arguments)
        assert asked not in self.approved | self.refused, f"{asked} was asked about twice"
        match number(0, 3):
            case 0:
                state.reject(item)
                self.refused.add(asked)
            case 1:
                state.respond(item, "by hand")
                self.refused.add(asked)
            case _:
                state.approve(item)
                self.approved.add(asked)


def deploy(tree: Tree, traces: Traces) -> tuple[Agent[Any], Planned]:
    """One agent that delegates to itself: all names are equal at every depth."""
    model = Planned(tree.plan())
    pay: FunctionTool = traces.tool(needs_approval=lambda _ctx, params, _label: params["n"] % 2 == 1)
    agent = Agent("Same", tools=[pay], model=model)
    agent.tools.append(
        agent.as_tool("delegate", needs_approval=lambda _ctx, params, _label: params["input"].endswith("?"))
    )
    return agent, model


async def check(tree: Tree, number: Number) -> None:
    """Play the tree to its end, decided in any order with round trips in between, and look at all that happened."""
    traces, review, asked = Traces(), Review(), Counter[tuple[str, int]]()
    store, given = MemoryStore(), "root"
    result: RunResult | None = None
    for _ in range(200):
        agent, model = deploy(tree, traces)
        if isinstance(given, str) and result is not None:
            given = await _decided(agent, given, review, number)
        result = await go(agent, given, store=store, streamed=number(0, 1) == 1)
        asked.update(model.asked)
        if not result.interruptions:
            break
        given = result.to_state().to_string()
        if number(0, 3) == 0:
            store = MemoryStore()  # the process is gone, and only the text is left
    assert result is not None
    assert result.final_output == "root: done"
    _assert_story(tree, Counter(traces.ran), asked, review)


async def _decided(agent: Agent[Any], text: str, review: Review, number: Number) -> RunState[Any]:
    state = await RunState.from_string(agent, text)
    waiting = state.get_interruptions()
    for _ in range(number(1, len(waiting))):
        review.decide(state, waiting.pop(number(0, len(waiting) - 1)), number)
    return await RunState.from_string(agent, state.to_string())


def _assert_story(tree: Tree, ran: Counter[str], asked: Counter[tuple[str, int]], review: Review) -> None:
    """Each model is asked once for each turn of each run that began, and each effect that may happen happens once."""
    expected_effects: Counter[str] = Counter()
    expected_questions: Counter[tuple[str, int]] = Counter()
    queue = [tree]
    while queue:
        run = queue.pop()
        expected_questions.update((run.topic, turn) for turn in range(len(run.turns) + 1))
        for each in run.calls():
            if isinstance(each, Tree):
                if not each.is_gated or f'{{"input": "{each.topic}"}}' in review.approved:
                    queue.append(each)
            elif each % 2 == 0 or f'{{"n": {each}}}' in review.approved:
                expected_effects[f"pay {each}"] += 1
    assert ran == expected_effects
    assert asked == expected_questions


async def check_seed(seed: int) -> None:
    chance = random.Random(seed)
    async with asyncio.timeout(120):
        await check(a_tree(chance.randint), chance.randint)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.trees", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    warnings.simplefilter("error")
    began, failed = time.monotonic(), 0
    for seed in range(given.start, given.start + given.seeds):
        try:
            asyncio.run(check_seed(seed))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a failure of this seed
            failed += 1
            sys.stdout.write(
                f"seed {seed} fails: {type(error).__name__}: {error}\n{a_tree(random.Random(seed).randint)}\n"
            )
    seconds = time.monotonic() - began
    sys.stdout.write(f"{given.seeds} seeds from {given.start}: {failed} failed, {seconds:.1f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
