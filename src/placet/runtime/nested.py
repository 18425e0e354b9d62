"""Agents behind tools: a call of one is a run nested in the caller's, with a log of its own under the call's path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from placet.declare.agent import AgentTool, AgentToolStreamEvent, InputBuilderOptions
from placet.declare.context import RunContextWrapper
from placet.declare.run_config import RunConfig
from placet.declare.tool_values import InvalidArguments
from placet.facts.codec import Json, JsonObject, encode, parse_arguments
from placet.facts.errors import UserError
from placet.facts.events import RunStarted
from placet.facts.items import RawItem
from placet.runtime.frame import Frame, Job, awaited
from placet.runtime.output import as_tool_output
from placet.runtime.result import RunResult
from placet.runtime.stream import StreamQueue
from placet.states.run_state import as_input, pending_item


async def run_nested(frame: Frame, job: Job, tool: AgentTool) -> Json | None:
    """Drive the nested run as far as it goes. Its output, or None while a call in it waits for a person."""
    is_new = frame.journal.run.find(job.call.id) is None
    if is_new:
        await _begin(frame, job, tool)
    child = _child_frame(frame, job, tool)
    async with _forwarding_to(tool, child, job, is_new=is_new):
        if is_new and child.all_hooks:
            await child.journal.commit()
            for hooks in child.all_hooks:
                await hooks.on_agent_start(child.context, child.agent)
        await frame.drive(child)
    if not child.run.has_ended:
        return None
    return await _output_of(child, tool)


async def _begin(frame: Frame, job: Job, tool: AgentTool) -> None:
    depth = job.call.id.count("/") + 1
    limit = frame.config.max_nesting
    if depth > limit:
        raise UserError(
            f"Agent tool '{tool.name}' would nest runs {depth} levels deep, and the limit is {limit} "
            "(RunConfig.max_nesting). Do agents call each other in a circle?"
        )
    arguments = parse_arguments(job.arguments)
    if arguments is None:
        raise InvalidArguments("they are not one JSON object")
    arguments = tool.validated(arguments).values
    address = frame.graph.behind_tool(frame.run.response_agent, tool)
    frame.journal.note(job.call.id, RunStarted(address, await _input_of(tool, arguments), tool.max_turns))


async def _input_of(tool: AgentTool, arguments: JsonObject) -> str | list[JsonObject]:
    if tool.input_builder is not None:
        schema = dict(tool.params_json_schema)
        options = InputBuilderOptions(params=arguments, summary=schema.get("description"), json_schema=schema)
        return as_input(await awaited(tool.input_builder(options)))
    text = arguments.get("input")
    return text if isinstance(text, str) and len(arguments) == 1 else encode(arguments).decode()


def _child_frame(frame: Frame, job: Job, tool: AgentTool) -> Frame:
    run = frame.journal.run.find(job.call.id)
    assert run is not None, "it was begun above"
    shared = frame.context
    context: RunContextWrapper[Any] = RunContextWrapper(
        shared.context, run.usage, ledger=shared._ledger, run_ids=shared._run_ids, clock=shared._clock
    )
    hooks = tool.nested_hooks or frame.hooks
    child = Frame(frame.journal, job.call.id, frame.graph, context, _config(frame, tool), hooks, None)
    child.drive = frame.drive
    child.watch = frame.watch
    child.set_aside = frame.set_aside
    child.judged = frame.judged
    return child


def _config(frame: Frame, tool: AgentTool) -> RunConfig:
    """The nested run's own configuration, but for what all runs of one log share."""
    own: RunConfig | None = tool.nested_config
    if own is None:
        return frame.config
    shared = frame.config
    return replace(
        own,
        clock=shared.clock,
        limits=shared.limits,
        max_nesting=shared.max_nesting,
        policy=shared.policy or own.policy,  # a nested run does not get rid of the rules of the run around it
    )


async def _output_of(child: Frame, tool: AgentTool) -> Json:
    if tool.custom_output_extractor is None:
        return as_tool_output(tool.name, child.run.final_output, child.config.limits.output)
    await child.journal.commit()  # the extractor is user code: the nested run's end is safe first
    await child.journal.make_whole()
    value = await awaited(tool.custom_output_extractor(nested_result(child)))
    return as_tool_output(tool.name, value, child.config.limits.output)


def nested_result(child: Frame) -> RunResult:
    journal = child.journal
    return RunResult(
        child.graph, journal.log, child.run, child.context, child.config.clock, journal.infos, journal.values
    )


@asynccontextmanager
async def _forwarding_to(tool: AgentTool, child: Frame, job: Job, *, is_new: bool) -> AsyncIterator[None]:
    """While the child runs, tell `on_stream` what happens in it."""
    listener = tool.on_stream
    if listener is None:
        yield
        return
    feed = StreamQueue(
        child.run_id,
        child.graph,
        lambda local: pending_item(child.journal.run, local, child.run_id, child.graph),
        child.path,
        child.journal.values,
    )
    if not is_new:
        feed.catch_up(child.run)
    child.feed = feed
    child.journal.subscribers.append(feed.publish)

    async def forward() -> None:
        try:
            async for event in feed.events():
                wrapped = AgentToolStreamEvent(event=event, agent=child.agent, tool_call=RawItem(job.call.item))
                await awaited(listener(wrapped))
        finally:
            feed.close()  # a listener that failed must not make the child wait for it

    forwarding = asyncio.create_task(forward())
    try:
        yield
        await child.journal.commit()
    finally:
        child.journal.subscribers.remove(feed.publish)
        feed.close()
        await forwarding
