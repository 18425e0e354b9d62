"""What a run gives back: its items, its output, what waits, and its state."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import weakref
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, TypeVar

from placet.clock import Clock
from placet.core.log import Log
from placet.core.state import RunFold
from placet.declare.agent import Agent
from placet.declare.agent_graph import AgentGraph
from placet.declare.context import RunContextWrapper
from placet.declare.guardrail import GuardrailResult
from placet.facts.codec import JsonObject, fresh
from placet.facts.errors import UserError
from placet.facts.items import ModelResponse, RunItem, ToolApprovalItem
from placet.runtime.frame import Frame
from placet.runtime.journal import GuardrailInfos, fold_log
from placet.runtime.output import parse_final
from placet.runtime.render import guardrail_results_of, input_of, items_of, responses_of
from placet.runtime.stream import StreamEvent, StreamQueue
from placet.states.run_state import RunState, interruptions_of

V = TypeVar("V")


class RunResult:
    """A run as it stood when the drive ended: finished, or waiting for people."""

    def __init__(
        self,
        graph: AgentGraph,
        log: Log,
        run: RunFold,
        context: RunContextWrapper[Any],
        clock: Clock,
        infos: GuardrailInfos | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        self._values = values
        self._graph = graph
        self._infos = infos or GuardrailInfos()
        self._log = log
        self._run = run
        self._clock = clock
        self.context_wrapper = context

    @property
    def run_id(self) -> str:
        return self._log.run_id

    @functools.cached_property
    def interruptions(self) -> list[ToolApprovalItem]:
        """What waits for a person; empty when the run has ended."""
        return interruptions_of(self._run, self.run_id, self._graph)

    @functools.cached_property
    def final_output(self) -> Any:
        """The output of the run, as the agent's output_type; None while the run waits."""
        if not self._run.has_ended:
            return None
        output = self._run.final_output
        if not isinstance(output, str):
            return fresh(output)
        value, problem = parse_final(self.last_agent.output_type, output)
        return value if problem is None else output  # a tool's text that became the final output is what it is

    def final_output_as(self, cls: type[V], raise_if_incorrect_type: bool = False) -> V:
        if raise_if_incorrect_type and not isinstance(self.final_output, cls):
            raise TypeError(f"The final output is a {type(self.final_output).__name__}, not a {cls.__name__}.")
        return self.final_output  # type: ignore[no-any-return]  # the caller says what it is

    @functools.cached_property
    def input(self) -> list[JsonObject]:
        """What the run began with."""
        return input_of(self._log, self._run.path)

    @functools.cached_property
    def new_items(self) -> list[RunItem]:
        """All that the run produced so far, from its beginning."""
        return items_of(self._log, self._graph, self._run.path, self._values)

    @functools.cached_property
    def raw_responses(self) -> list[ModelResponse]:
        return responses_of(self._log, self._run.path)

    @functools.cached_property
    def input_guardrail_results(self) -> list[GuardrailResult]:
        return guardrail_results_of(self._log, self._run.path, "input", self._infos)

    @functools.cached_property
    def output_guardrail_results(self) -> list[GuardrailResult]:
        return guardrail_results_of(self._log, self._run.path, "output", self._infos)

    @functools.cached_property
    def tool_input_guardrail_results(self) -> list[GuardrailResult]:
        return guardrail_results_of(self._log, self._run.path, "tool_input", self._infos)

    @functools.cached_property
    def tool_output_guardrail_results(self) -> list[GuardrailResult]:
        return guardrail_results_of(self._log, self._run.path, "tool_output", self._infos)

    @property
    def last_response_id(self) -> str | None:
        return self._run.last_response_id

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that was at work last: a handoff changes it."""
        return self._graph.at(self._run.agent)

    def to_input_list(self) -> list[JsonObject]:
        """The conversation as items: the input of a next run. While calls wait, the turn that asked for them is left
        out, as in sessions: no provider takes a call without its output."""
        return fresh(self._run.history[: self._run.closed_length])

    def to_state(self) -> RunState[Any]:
        """A snapshot. Deciding on it changes neither this result nor another snapshot."""
        return RunState.of_run(
            self._graph, self._log.copy(), self._run.copy(), self.context_wrapper.context, self._clock
        )

    def __repr__(self) -> str:
        state = f"final_output={self.final_output!r}" if self._run.has_ended else f"waiting={len(self.interruptions)}"
        return f"{type(self).__name__}(run_id={self.run_id!r}, {state})"


def result_of(frame: Frame) -> RunResult:
    journal = frame.journal
    return RunResult(
        frame.graph, journal.log, journal.run, frame.context, frame.config.clock, journal.infos, journal.values
    )


class RunResultStreaming(RunResult):
    """A run on its way: iterate over `stream_events()`, then read it like any result."""

    def __init__(self, graph: AgentGraph, context: RunContextWrapper[Any], clock: Clock) -> None:
        super().__init__(graph, Log("", b""), RunFold(), context, clock)
        self._task: asyncio.Future[None] | None = None
        self._feed: StreamQueue | None = None
        self._frame: Frame | None = None
        self._begun = asyncio.Event()
        self._stop_after_turn = False
        self.is_complete = False

    @property
    def current_agent(self) -> Agent[Any]:
        """The agent that is at work now, or was last."""
        return self._frame.agent if self._frame is not None else self.last_agent

    @property
    def current_turn(self) -> int:
        return (self._frame.run if self._frame is not None else self._run).turn

    @property
    def max_turns(self) -> int | None:
        return (self._frame.run if self._frame is not None else self._run).max_turns

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Everything that happens, in order. Ends when the run has ended, waits, or was cancelled; raises what the run
        raised."""
        await self._begun.wait()
        feed = self._feed
        if feed is not None:
            while await feed.wait_for_more():
                for event in feed.take():  # `feed.events()` would be a second asynchronous generator around each event
                    yield event
        assert self._task is not None
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.cancelled():
                raise  # it is the reader that was cancelled, not the run

    def to_state(self) -> RunState[Any]:
        """A snapshot: of the end, or, while the run is on its way, of what is durable so far."""
        if self.is_complete and self._log.lines:
            return super().to_state()
        if not self._log.lines:
            raise self._why_there_is_no_state()
        log = self._log.copy()
        return RunState.of_run(self._graph, log, fold_log(log), self.context_wrapper.context, self._clock)

    def _why_there_is_no_state(self) -> UserError:
        if not self.is_complete:
            return UserError("The run has not begun yet: iterate over stream_events() first.")
        error = self._task.exception() if self._task is not None and not self._task.cancelled() else None
        why = f"ended before it began: {error}" if error is not None else "was cancelled before it began"
        return UserError(f"The run {why}. Nothing has happened: run its input, or the state that it was given, again.")

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop at once (a tool function that runs is then in doubt), or when the turn is over.

        The state can be resumed either way.
        """
        if mode not in ("immediate", "after_turn"):
            raise UserError(f"cancel() stops 'immediate' or 'after_turn', not {mode!r}.")
        if mode == "after_turn":
            self._stop_after_turn = True
            if self._frame is not None:
                self._frame.stop_after_turn = True
        elif self._task is not None:
            self._task.cancel()
            if self._feed is not None:
                self._feed.drop()

    # -- for the runner ---------------------------------------------------------------------------------------------

    def attach(self, task: asyncio.Future[None], reader: Reader) -> None:
        self._task = task
        _running.add(task)
        task.add_done_callback(_running.discard)
        task.add_done_callback(reader.ended)
        weakref.finalize(self, reader.abandon).atexit = False

    def connect(self, frame: Frame, feed: StreamQueue) -> None:
        """The drive begins."""
        self._frame, self._feed = frame, feed
        frame.stop_after_turn = self._stop_after_turn
        self.adopt(result_of(frame))
        self._begun.set()

    def adopt(self, result: RunResult) -> None:
        """Show what this result shows."""
        self._graph, self._log, self._run = result._graph, result._log, result._run
        self._infos = result._infos
        self._values = result._values
        self.context_wrapper = result.context_wrapper
        for name, kind in vars(RunResult).items():
            if isinstance(kind, functools.cached_property):
                self.__dict__.pop(name, None)

    def complete(self) -> None:
        self.is_complete = True
        if self._feed is not None:
            self._feed.close()
        self._begun.set()


_running: set[asyncio.Future[None]] = set()
"""Runs whose stream may be dropped unread: asyncio alone would let them be collected in the middle of a step."""


class Reader:
    """What a run on its way knows of its streamed result, which its reader may drop at any time.

    It holds the result weakly. A stream that nobody reads any more holds nothing up: the run goes on to its end, or to
    where it waits for people, and says nothing.
    """

    def __init__(self, result: RunResultStreaming) -> None:
        self._result = weakref.ref(result)
        self._feed: StreamQueue | None = None
        self._loop = asyncio.get_running_loop()

    def connect(self, frame: Frame, feed: StreamQueue) -> None:
        """The drive begins."""
        self._feed = feed
        result = self._result()
        if result is None:
            feed.abandon()
        else:
            result.connect(frame, feed)

    def adopt(self, found: RunResult) -> None:
        result = self._result()
        if result is not None:
            result.adopt(found)

    def ended(self, task: asyncio.Future[None]) -> None:
        """The task is over, perhaps cancelled before its first step. Its error is for the reader of the stream."""
        if not task.cancelled():
            task.exception()  # asyncio need not complain when nobody reads
        self.complete()

    def complete(self) -> None:
        result = self._result()
        if result is not None:
            result.complete()

    def abandon(self) -> None:
        """The result was dropped, perhaps in another thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing goes on there
            self._loop.call_soon_threadsafe(self._leave_feed)

    def _leave_feed(self) -> None:
        if self._feed is not None:
            self._feed.abandon()
