"""What tools, predicates and hooks are given: the user's own context, the usage, and the ledger of decisions.

A wrapper, its forks and the `ToolContext`s made from it share one ledger; a snapshot (`RunState`) has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.approvals import ApprovalRecord, Ledger
from placet.declare.decisions import Grant, ItemOrId, Word, stage_word
from placet.facts.codec import JsonObject, plain_item
from placet.facts.events import Usage
from placet.facts.ids import split_call_id
from placet.facts.items import Named

T = TypeVar("T")


class RunContextWrapper(Generic[T]):
    """The user's context in a run. One made by hand belongs to no run and has a ledger of its own."""

    __slots__ = ("_clock", "_ledger", "_run_ids", "context", "usage")

    def __init__(
        self,
        context: T,
        usage: Usage | None = None,
        *,
        ledger: Ledger | None = None,
        run_ids: tuple[str, ...] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.context = context
        self.usage = usage if usage is not None else Usage()
        self._ledger = ledger if ledger is not None else Ledger()
        self._run_ids = run_ids
        self._clock = clock

    def approve_tool(
        self,
        approval_item: ItemOrId,
        always_approve: bool | Grant = False,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Say yes to one call, or with `always_approve` to this tool of this agent for the rest of the run."""
        self._stage(approval_item, Word(verdict="approve", always=always_approve, by=by, reason=reason))

    def reject_tool(
        self,
        approval_item: ItemOrId,
        always_reject: bool | Grant = False,
        *,
        rejection_message: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Say no. The model reads `rejection_message`."""
        self._stage(
            approval_item, Word(verdict="reject", always=always_reject, by=by, reason=reason, message=rejection_message)
        )

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """True, False, or None while nobody has decided.

        A label that fits several calls is approved only if all are.
        """
        return self._ledger.status(tool_name, self._local(call_id))

    get_approval_status = is_tool_approved

    def get_rejection_message(self, tool_name: str, call_id: str) -> str | None:
        return self._ledger.message(tool_name, self._local(call_id))

    @property
    def approvals(self) -> Mapping[str, ApprovalRecord]:
        """What was decided so far, by tool name: a copy, which later decisions do not change."""
        return self._ledger.records()

    def fork(self) -> RunContextWrapper[T]:
        """Another wrapper of the same context that shares this one's ledger and usage."""
        return RunContextWrapper(
            self.context, self.usage, ledger=self._ledger, run_ids=self._run_ids, clock=self._clock
        )

    def _stage(self, item: ItemOrId, word: Word) -> None:
        stage_word(self._ledger, self._run_ids, item, word, self._clock)

    def _local(self, call_id: str) -> str:
        owner, local = split_call_id(call_id)
        return local if owner in self._run_ids else call_id


class ToolContext(RunContextWrapper[T]):
    """The context of one tool call."""

    __slots__ = (
        "_bound",
        "agent",
        "answers",
        "asked_state",
        "attempt",
        "call",
        "idempotency_key",
        "tool_arguments",
        "tool_call",
        "tool_call_id",
        "tool_name",
    )

    def __init__(
        self,
        context: T,
        usage: Usage | None = None,
        *,
        tool_name: str,
        tool_call_id: str,
        tool_arguments: str,
        tool_call: JsonObject | None = None,
        call: str = "",
        idempotency_key: str = "",
        attempt: int = 1,
        agent: Named | None = None,
        ledger: Ledger | None = None,
        run_ids: tuple[str, ...] = (),
        clock: Clock = SYSTEM_CLOCK,
        answers: Mapping[str, JsonObject] | None = None,
        asked_state: str | None = None,
    ) -> None:
        super().__init__(context, usage, ledger=ledger, run_ids=run_ids, clock=clock)
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        """The provider's label."""
        self.tool_arguments = tool_arguments
        """The arguments that run, as JSON: after an edit the edited ones."""
        self.tool_call = tool_call
        self.call = call
        """Our id of the call."""
        self.idempotency_key = idempotency_key or call
        """The same for every attempt at this call, and for no other call: give it to whoever performs the effect."""
        self.attempt = attempt
        """1 for the first time that the body runs."""
        self.agent = agent
        self.answers = answers
        """What people answered to the questions that the body returned (`NeedsInput`) when it ran before."""
        self.asked_state = asked_state
        """The `state` that it returned with them."""
        self._bound: tuple[str, Any] | None = None
        """The arguments' text, and the values that validation made of it when the call was proposed."""

    def take_bound(self, text: str) -> Any:  # Any: what the tool's own function takes
        """The values that were made of this very text, once: whoever takes them owns them. None: there are none."""
        found, self._bound = self._bound, None
        return found[1] if found is not None and found[0] == text else None

    @classmethod
    def from_agent_context(
        cls,
        context: RunContextWrapper[T],
        tool_call_id: str,
        tool_call: object = None,
        *,
        agent: Named | None = None,
    ) -> ToolContext[T]:
        """A tool's context made of a run's, by hand: it shares the ledger and the usage."""
        item = plain_item(tool_call) if tool_call is not None else {}
        return cls(
            context.context,
            context.usage,
            tool_name=str(item.get("name") or ""),
            tool_call_id=tool_call_id,
            tool_arguments=str(item.get("arguments") or ""),
            tool_call=item or None,
            agent=agent,
            ledger=context._ledger,
            run_ids=context._run_ids,
            clock=context._clock,
        )
