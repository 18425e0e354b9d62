"""The independent witness: bodies that write into a list of their own, a model that looks hard at what it is sent, and
what reviewers said. Nothing here reads the run's log.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any

from placet import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelRequest,
    ModelResponse,
    OutputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    Usage,
    function_tool,
)
from placet.ports import StreamPart
from placet.testing import assistant_message
from tests.runtime.team_scenes import Item, assert_paired
from tests.teams.team import (
    GATED,
    REPEATABLE,
    TOOLS,
    AgentName,
    Effect,
    Handover,
    Job,
    Team,
    Turn,
    as_call,
    number_in,
    other,
)

SUPERSEDED = "This call was not carried out: a newer message took the place of the question about it."
PARTLY = (
    "This call was broken off: a newer message took the place of what was asked in it. Parts of it may have been done."
)
NOT_SETTLED = "It is unknown whether this tool ran: it was interrupted, and that was not settled."
IGNORED = "Only one handoff can take place in a turn, and an earlier call of this turn is one. This one was ignored."
FAILED = "An error occurred while running the tool."
REFUSED = "a message that no rule lets through"
EDIT_NOTE = "A reviewer changed the arguments of this call to: "


class Witness:
    """All that is known from outside about one play of a team."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.complaints: list[str] = []
        """What the model found wrong: it answers all the same, so that the run cannot hide it in a failed call."""
        self.ran: list[tuple[int, str]] = []
        self.crashes = 0
        self.words: dict[int, str] = {}
        """What a reviewer said to the question about a call."""
        self.doubts: dict[int, list[str]] = defaultdict(list)
        """What a reviewer said to «nobody knows whether it happened», each time."""
        self.grants: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.decided_for_good: set[int] = set()
        self.messages: list[str] = []
        """What users said later, in order."""
        self.superseded: set[int] = set()
        """What waited when a message took its place, and the jobs in which it waited."""
        self.frozen: dict[int, int] = {}
        """Effects in jobs that are over before their end, and how often each had happened by then."""
        self.asked: Counter[tuple[str, int]] = Counter()
        self.requests: dict[tuple[str, int], list[Item]] = {}
        self.answers: dict[tuple[str, int], list[Item]] = {}
        self.agents: dict[tuple[str, int], AgentName] = {}
        """Who was asked."""
        self._raised: set[int] = set()
        self._tools = [self._tool(name) for name in TOOLS]

    # -- what must hold at every moment -------------------------------------------------------------------------------

    def check(self) -> None:
        assert self.complaints == [], self.complaints
        for n, count in Counter(n for n, _ in self.ran).items():
            effect = self.team.places[n].call
            assert isinstance(effect, Effect)
            again = self.crashes if effect.tool in REPEATABLE else self.doubts[n].count("approve")
            assert count <= 1 + again, f"{effect} happened {count} times"
            assert effect.rail != "in_reject", f"{effect} ran although a rule denied it"
            assert not effect.is_gated or self._may_run(n), f"{effect} ran without a yes"
        for n, text in self.ran:
            wanted = "edited" if self.words.get(n) == "edit" else "as asked"
            assert text == wanted, f"call {n} ran with other arguments than those approved"
        for n, count in self.frozen.items():
            assert self.times(n) == count, f"{n} happened after its job was over"
        for (topic, turn), count in self.asked.items():
            assert count <= 1 + self.crashes, f"{topic} was asked {count} times for turn {turn}"

    def times(self, n: int) -> int:
        return sum(each == n for each, _ in self.ran)

    def _may_run(self, n: int) -> bool:
        word = self.words.get(n)
        return word in ("approve", "edit") or (word is None and "approve" in self.granted(n))

    def granted(self, n: int) -> set[str]:
        """The standing words about this call: they reach as far as its run, its agent and its tool."""
        place = self.team.places[n]
        return self.grants[place.job.topic, self.agents[place.job.topic, place.turn], place.call.tool]

    # -- the model ----------------------------------------------------------------------------------------------------

    def answer(self, agent: AgentName, items: list[Item]) -> list[Item]:
        job, start = self._topic_of(items)
        turn = _answers_in(items[start + 1 :])
        place = (job.topic, turn)
        self.asked[place] += 1
        try:
            self._look_at(agent, job, turn, items)
        except AssertionError as problem:
            self.complaints.append(f"{job.topic} turn {turn}: {problem}")
        self.requests[place], self.agents[place] = items, agent
        if turn < len(job.turns):
            self.answers[place] = [as_call(call, agent) for call in job.turns[turn].calls]
        else:
            is_bad = turn == len(job.turns) and job.trips == "output"
            self.answers[place] = [assistant_message(f"{job.topic}: {'bad' if is_bad else 'done'}")]
        return self.answers[place]

    def _topic_of(self, items: Sequence[Item]) -> tuple[Job, int]:
        for index, item in enumerate(items):
            job = self.team.jobs.get(str(item.get("content")))
            if job is not None:
                return job, index
        raise AssertionError(f"a request about nothing: {items}")

    def _look_at(self, agent: AgentName, job: Job, turn: int, items: list[Item]) -> None:
        """Nothing is missing, nothing comes twice, and each call reads its own output."""
        assert_paired(items)
        if job is self.team.root:
            said = [item["content"] for item in items if item.get("content") in self.messages]
            assert said == self.messages[: len(said)], "messages were lost, repeated or brought out of order"
        again = self.requests.get((job.topic, turn))
        if again is not None:
            assert items[: len(again)] == again, "a request that was repeated is another one"
        if turn:
            before, answer = self.requests[job.topic, turn - 1], self.answers[job.topic, turn - 1]
            assert items[: len(before)] == before, "what was said before has changed"
            was_handed_over = self._look_at_new(job, turn - 1, answer, items[len(before) :])
            previous = self.agents[job.topic, turn - 1]
            assert agent == (other(previous) if was_handed_over else previous), f"{agent} was asked after {previous}"
        else:
            assert agent == job.agent

    def _look_at_new(self, job: Job, turn: int, answer: list[Item], new: list[Item]) -> bool:
        """What came after the last answer: the outputs of its calls, and messages. Whether another agent goes on."""
        count = len(answer)
        assert [_unlabelled(item) for item in new[:count]] == [_unlabelled(item) for item in answer]
        if turn >= len(job.turns):
            assert [item.get("role") for item in new[count:]] == ["user"] * len(new[count:])
            return False
        outputs = new[count : 2 * count]
        assert [item["call_id"] for item in outputs] == [item["call_id"] for item in new[:count]]
        assert [item.get("role") for item in new[2 * count :]] == ["user"] * len(new[2 * count :])
        handovers = []
        for call, item in zip(job.turns[turn].calls, outputs, strict=True):
            if isinstance(call, Handover):
                handovers.append(item["output"])
            else:
                self._look_at_output(call, str(item["output"]))
        taken_place = [f'{{"assistant":"{other(self.agents[job.topic, turn])}"}}', IGNORED]
        if self._was_superseded(job.turns[turn]) and SUPERSEDED in handovers:
            assert handovers == [SUPERSEDED, IGNORED][: len(handovers)]
            return False
        assert handovers == taken_place[: len(handovers)], f"the handoffs read {handovers}"
        return bool(handovers)

    def _was_superseded(self, turn: Turn) -> bool:
        return any(not isinstance(call, Handover) and call.n in self.superseded for call in turn.calls)

    def _look_at_output(self, call: Effect | Job, output: str) -> None:
        """The model reads what happened to this call, and nothing else."""
        body = self._body_outputs(call)
        if isinstance(call, Job) and (output == PARTLY or output.startswith(FAILED)):
            self.frozen.update((each.n, self.times(each.n)) for each in call.within())
        allowed = body | self._decided_outputs(call.n)
        if call.n in self.superseded:
            has_begun = self.times(call.n) or (isinstance(call, Job) and (call.topic, 0) in self.asked)
            allowed |= {PARTLY} if isinstance(call, Job) else set()
            allowed |= {NOT_SETTLED} if self.crashes else set()
            allowed |= set() if has_begun else {SUPERSEDED}
        shown = FAILED if isinstance(call, Job) and output.startswith(FAILED) else output
        assert shown in allowed, f"{call} reads {output!r}, and it should be one of {allowed}"

    def _body_outputs(self, call: Effect | Job) -> set[str]:
        if call.is_gated and not self._may_run(call.n):
            return set()
        if isinstance(call, Job):
            ended = any(topic == call.topic and turn >= len(call.turns) for topic, turn in self.answers)
            return ({f"{call.topic}: done"} if ended else set()) | ({FAILED} if call.can_trip else set())
        if call.rail == "in_reject":
            return {f"denied {call.n}"}
        if not self.times(call.n):
            return set()
        text = "edited" if self.words.get(call.n) == "edit" else "as asked"
        output = f"hidden {call.n}" if call.rail == "out_reject" else f"done {call.n} {text}"
        note = EDIT_NOTE + json.dumps({"n": call.n, "text": text}, separators=(",", ":")) + "\n"
        return {note + output if text == "edited" else output}

    def _decided_outputs(self, n: int) -> set[str]:
        found = {f"it was {n}"} if "respond" in self.doubts[n] else set()
        found |= {f"given up {n}"} if "reject" in self.doubts[n] else set()
        place, word = self.team.places[n], self.words.get(n)
        if isinstance(place.call, Effect) and place.call.rail == "in_reject":
            return {f"denied {n}"}
        if word == "respond":
            found.add(f"by hand {n}")
        elif word == "reject":
            found.add("never" if n in self.decided_for_good else f"no {n}")
        elif word is None and place.call.is_gated and "reject" in self.granted(n):
            found.add("never")
        return found

    # -- the team -----------------------------------------------------------------------------------------------------

    def deploy(self) -> Agent[Any]:
        """New agents with new tools each time: nothing may hang on the objects."""
        names: tuple[AgentName, AgentName] = ("A", "B")
        agents: dict[AgentName, Agent[Any]] = {
            name: Agent(
                name,
                model=Strict(self, name),
                input_guardrails=[InputGuardrail(self._judge_input, "input rule", run_in_parallel=name == "A")],
                output_guardrails=[OutputGuardrail(self._judge_output, "output rule")],
            )
            for name in names
        }
        for name, agent in agents.items():
            agent.tools += [dataclasses.replace(tool) for tool in self._tools]
            agent.tools += [
                asked.as_tool(f"ask_{key.lower()}", needs_approval=self._needs_approval, max_turns=None)
                for key, asked in agents.items()
            ]
            agent.handoffs.append(agents[other(name)])
        return agents[self.team.root.agent]

    def _tool(self, name: str) -> FunctionTool:
        async def run(n: int, text: str) -> str:
            self.ran.append((n, text))
            for _ in range(n % 3):
                await asyncio.sleep(0)
            return f"done {n} {text}"

        return function_tool(
            name_override=name,
            needs_approval=name in GATED,
            recovery="retry" if name in REPEATABLE else "ask",
            tool_input_guardrails=[ToolInputGuardrail(self._judge_call)],
            tool_output_guardrails=[ToolOutputGuardrail(self._judge_result)],
        )(run)

    def _needs_approval(self, _ctx: Any, params: dict[str, Any], _label: str) -> bool:
        return self.team.jobs[params["input"]].is_gated

    # -- its rules ----------------------------------------------------------------------------------------------------

    def _judge_input(self, _ctx: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        if given == REFUSED or given in self.messages:
            return GuardrailFunctionOutput(None, given == REFUSED)
        job, _ = self._topic_of([{"content": given}] if isinstance(given, str) else given)
        return GuardrailFunctionOutput(job.topic, job.trips == "input")

    def _judge_output(self, _ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, str(output).endswith("bad"))

    def _judge_call(self, data: Any) -> ToolGuardrailFunctionOutput:
        n = number_in(json.loads(data.context.tool_arguments))
        rail = self._rail(n)
        if rail == "in_reject":
            return ToolGuardrailFunctionOutput.reject_content(f"denied {n}")
        if rail == "in_raise" and n not in self._raised:
            self._raised.add(n)
            return ToolGuardrailFunctionOutput.raise_exception(n)
        return ToolGuardrailFunctionOutput.allow()

    def _judge_result(self, data: Any) -> ToolGuardrailFunctionOutput:
        n = number_in(json.loads(data.context.tool_arguments))
        rail = self._rail(n)
        if rail == "out_reject":
            return ToolGuardrailFunctionOutput.reject_content(f"hidden {n}")
        return (
            ToolGuardrailFunctionOutput.raise_exception(n)
            if rail == "out_raise"
            else ToolGuardrailFunctionOutput.allow()
        )

    def _rail(self, n: int) -> str:
        call = self.team.places[n].call
        assert isinstance(call, Effect)
        return call.rail


class Strict:
    """The model of one agent: what it answers follows from what it is sent alone."""

    def __init__(self, witness: Witness, agent: AgentName) -> None:
        self._witness = witness
        self._agent = agent

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(self._witness.answer(self._agent, request.input), Usage(1))

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


def _answers_in(items: Sequence[Item]) -> int:
    """How often the model has answered: each answer follows on something that is not the model's."""
    is_own = [item.get("type") == "function_call" or item.get("role") == "assistant" for item in items]
    return sum(own and not before for own, before in zip(is_own, [False, *is_own], strict=False))


def _unlabelled(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "call_id"}
