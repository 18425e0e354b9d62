"""The words of a span: which attributes say what. Content (what anybody said) is in none unless it is captured.

Where the GenAI semantic conventions have a name, it is used; what they have no name for is called `placet.…`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from placet.core.story import Story
from placet.core.story_tree import CallStory, RequestStory, RunStory
from placet.facts import events as e
from placet.facts.codec import canonical
from placet.facts.errors import PlacetError
from placet.facts.ids import call_id, request_id, request_key
from placet.facts.verdict_words import WORDS
from placet.tracing.content import as_text

Attribute: TypeAlias = str | bool | int | float
Attributes: TypeAlias = dict[str, Attribute]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    capture_content: bool = False
    reviewers: bool = True
    in_callers_trace: bool = False
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


def kind_of(error: BaseException) -> str:
    return error.code if isinstance(error, PlacetError) else type(error).__name__


def agent_name(address: str) -> str:
    """The agent at the end of an address: `Support`, `Support>Billing`, `Support/ask_billing(Billing)`."""
    last = address[max(address.rfind("/"), address.rfind(">")) + 1 :]
    if "/" in address and last.endswith(")") and address.rfind("/") > address.rfind(">"):
        last = last.partition("(")[2].removesuffix(")")
    return last.replace("%2F", "/").replace("%3E", ">").replace("%25", "%")


def of_usage(usage: e.Usage) -> Attributes:
    found: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.reasoning_tokens:
        found["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    return found


def of_handoff(run: RunStory) -> Attributes:
    return {"placet.handoff.from": agent_name(run.came_from), "placet.handoff.to": agent_name(run.at_work)}


class RunAttributes:
    """What spans of one run say, by the settings."""

    def __init__(self, settings: Settings, run_id: str, story: Story) -> None:
        self._settings = settings
        self._run_id = run_id
        self._story = story

    def request_id(self, call: CallStory, request: RequestStory) -> str:
        return request_id(request.asked_in or self._run_id, call.id, request.asked.number)

    def request_key(self, call: CallStory, request: RequestStory) -> str:
        """Ids of spans are made of this: the span that a link leads to may be one that older code made."""
        return request_key(request.asked_in or self._run_id, call.id, request.asked.number)

    def of_agent(self, run: RunStory, operation: str) -> Attributes:
        found: Attributes = {"gen_ai.operation.name": operation}
        if run.at_work:
            found |= {"gen_ai.agent.name": agent_name(run.at_work), "gen_ai.agent.id": run.at_work}
        conversation = run.conversation or self._story.root.conversation
        if conversation is not None:
            found["gen_ai.conversation.id"] = conversation
        return found

    def of_call(self, call: CallStory) -> Attributes:
        found: Attributes = {"gen_ai.tool.name": call.name, "placet.call.id": call_id(self._run_id, call.id)}
        if call.label:
            found["gen_ai.tool.call.id"] = call.label
        return found

    def of_tool_function(self, call: CallStory, *, is_continued: bool) -> Attributes:
        found = self.of_call(call)
        found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
        found |= {"placet.call.attempt": max(1, call.attempts), "placet.call.is_continued": is_continued}
        if call.ran_under is not None:
            found["placet.decision.verdict"] = call.ran_under.verdict
        if self._settings.capture_content:
            edited = call.ran_under.arguments if call.ran_under is not None else None
            found["gen_ai.tool.call.arguments"] = call.arguments if edited is None else canonical(edited).decode()
        return found

    def of_question(self, call: CallStory, request: RequestStory) -> Attributes:
        found = self.of_call(call)
        found["placet.request.id"] = self.request_id(call, request)
        found["placet.request.kind"] = request.asked.kind
        if request.asked.expires_at is not None:
            found["placet.request.expires_at"] = request.asked.expires_at
        if self._settings.capture_content:
            found["gen_ai.tool.call.arguments"] = call.arguments
            if request.asked.why is not None:
                found["placet.request.why"] = request.asked.why
        return found

    def of_wait(self, call: CallStory, request: RequestStory, end: float, ended_by: e.PlainFact) -> Attributes:
        """A question with its answer, or with what ended it otherwise."""
        found = self.of_question(call, request)
        found["placet.request.status"] = _status(request.decision, ended_by)
        found["placet.request.waited_seconds"] = round(end - request.asked.at, 3)
        return found if request.decision is None else found | self._of_decision(request.decision)

    def _of_decision(self, decision: e.DecisionMade) -> Attributes:
        found: Attributes = {"placet.decision.verdict": decision.verdict, **self.of_person(decision.by)}
        if decision.grant is not None:
            found["placet.decision.grant"] = decision.grant
        if not self._settings.capture_content:
            return found
        if decision.reason is not None:
            found["placet.decision.reason"] = decision.reason
        if decision.message is not None:
            found["placet.decision.message"] = decision.message
        if decision.arguments is not None:
            found["placet.decision.arguments"] = canonical(decision.arguments).decode()
        if decision.verdict == "respond":
            found["placet.decision.output"] = as_text(decision.output)
        return found

    def of_grant(self, grant: e.GrantMade) -> Attributes:
        return {
            "placet.grant.id": grant.id,
            "placet.grant.tool": grant.tool,
            "placet.grant.scope": grant.scope,
            "placet.decision.verdict": grant.verdict,
            **self.of_person(grant.by),
        }

    def of_person(self, by: str | None) -> Attributes:
        return {"placet.decision.by": by} if by is not None and self._settings.reviewers else {}

    def of_guardrail(self, fact: e.GuardrailsJudged, result: e.GuardrailRecord) -> Attributes:
        found: Attributes = {"placet.guardrail.name": result.name, "placet.guardrail.kind": fact.kind}
        found["placet.guardrail.tripped"] = result.tripped
        if fact.call is not None:
            found["placet.call.id"] = call_id(self._run_id, fact.call)
        return found


def _status(decision: e.DecisionMade | None, ended_by: e.PlainFact) -> str:
    """How a question ended, in the words of the desk; without an answer, what ended it."""
    if isinstance(ended_by, e.CallHeld | e.CallInDoubt):
        return "asked_anew"
    if decision is not None:
        return WORDS[decision.verdict].status
    return ended_by.outcome if isinstance(ended_by, e.CallEnded) else "approved"  # it was: the call starts
