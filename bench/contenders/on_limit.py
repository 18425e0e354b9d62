"""The limit: a bare asyncio loop over plain dicts.

It keeps no promise. It shows what the works cost in Python at all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from bench.work import FREE, GATED, Effects, Item, Script, ServedDesk

IMPORT = "asyncio, json"


def versions() -> Mapping[str, str]:
    return {"msgspec": msgspec.__version__}


def agent(script: Script, effects: Effects) -> dict[str, Any]:
    async def body(order: str) -> str:
        effects.count += 1
        return f"done {order}"

    return {"answers": iter(script), "tools": {FREE: body, GATED: body}}


async def run(agent: dict[str, Any], text: str) -> dict[str, Any]:
    return await _turns(agent, {"history": [{"role": "user", "content": text}], "waiting": [], "output": None})


async def _turns(agent: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    history = state["history"]
    while True:
        answer = await _ask(agent["answers"], history)
        history.extend(answer)
        calls = [item for item in answer if item["type"] == "function_call"]
        if not calls:
            state["output"] = answer[-1]["content"][0]["text"]
            return state
        history.extend(await _outputs(agent["tools"], [each for each in calls if each["name"] != GATED]))
        state["waiting"] = [each for each in calls if each["name"] == GATED]
        if state["waiting"]:
            return state


async def _ask(answers: Iterator[Sequence[Item]], _history: list[Item]) -> list[Item]:
    return [dict(item) for item in next(answers)]


async def _outputs(tools: Mapping[str, Any], calls: list[Item]) -> list[Item]:
    if len(calls) == 1:
        return [await _output(tools, calls[0])]
    return await asyncio.gather(*(_output(tools, each) for each in calls))


async def _output(tools: Mapping[str, Any], call: Item) -> Item:
    found = await tools[call["name"]](**json.loads(call["arguments"]))
    return {"type": "function_call_output", "call_id": call["call_id"], "output": found}


def output(handle: dict[str, Any]) -> str | None:
    found: str | None = handle["output"]
    return found


def waiting(handle: dict[str, Any]) -> int:
    return len(handle["waiting"])


def store(handle: dict[str, Any]) -> str:
    return msgspec.json.encode(handle).decode()


async def load(_agent: dict[str, Any], text: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def approve_all(state: dict[str, Any]) -> None:
    for each in state["waiting"]:
        each["approved"] = True


async def resume(agent: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    approved = [each for each in state["waiting"] if each.pop("approved")]
    state["history"].extend(await _outputs(agent["tools"], approved))
    state["waiting"] = []
    return await _turns(agent, state)


def elsewhere() -> None:
    """Nothing is known here that another process would not know."""


async def stream(agent: dict[str, Any], _text: str) -> int:
    arrived = 0
    async for _ in _words(agent["answers"]):
        arrived += 1
    return arrived


async def _words(answers: Iterator[Sequence[Item]]) -> AsyncIterator[Item]:
    for item in next(answers):
        for word in item["content"][0]["text"].split(" "):
            yield {"type": "response.output_text.delta", "delta": word}


def decided(count: int) -> dict[tuple[str, str], bool]:
    return {(GATED, f"c{number}"): True for number in range(count)}


def is_approved(ledger: dict[tuple[str, str], bool], label: str) -> bool | None:
    return ledger.get((GATED, label))


def serve_desk(pending: int) -> AbstractAsyncContextManager[ServedDesk]:
    from bench.contenders import limit_desk  # imported where it is used: the other works do not pay for it

    return limit_desk.serve_desk(pending)
