"""A conversation in the terminal, to try an agent out."""

from __future__ import annotations

import sys
from typing import Any

from placet import Agent, MessageOutputItem, RunItemStreamEvent, Runner, RunResult, RunResultStreaming
from placet.agents.run_config import DEFAULT_MAX_TURNS

_EXIT_COMMANDS = {"exit", "quit"}


async def run_demo_loop(
    agent: Agent[Any], *, stream: bool = True, context: Any = None, max_turns: int | None = DEFAULT_MAX_TURNS
) -> None:
    """Talk to an agent until `exit`, `quit` or the end of the input. What waits for a yes is asked for here."""
    current: Agent[Any] = agent
    items: list[Any] = []
    while (line := _line(" > ")) is not None and line.strip().lower() not in _EXIT_COMMANDS:
        if not line.strip():
            continue
        given: Any = [*items, {"role": "user", "content": line}]
        while True:
            result = await _answer(current, given, stream=stream, context=context, max_turns=max_turns)
            if not result.interruptions:
                break
            given = _decided(result)
        current, items = result.last_agent, result.to_input_list()


async def _answer(agent: Agent[Any], given: Any, *, stream: bool, **options: Any) -> RunResult | RunResultStreaming:
    if not stream:
        result = await Runner.run(agent, given, **options)
        if result.final_output is not None:
            _print(str(result.final_output))
        return result
    streamed = Runner.run_streamed(agent, given, **options)
    async for event in streamed.stream_events():
        if isinstance(event, RunItemStreamEvent) and isinstance(event.item, MessageOutputItem):
            _print(event.item.text)
        elif isinstance(event, RunItemStreamEvent):
            _print(f"[{event.name}]")
    return streamed


def _decided(result: RunResult) -> Any:
    state = result.to_state()
    for item in state.get_interruptions():
        answer = _line(f"Run {item.name}({item.arguments})? [y/N] ") or ""
        state.approve(item) if answer.strip().lower() in ("y", "yes") else state.reject(item)
    return state


def _line(prompt: str) -> str | None:
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        _print("")
        return None


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


__all__ = ["DEFAULT_MAX_TURNS", "run_demo_loop"]
