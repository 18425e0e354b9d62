"""What tools, predicates and hooks are given: the user's own context, the usage, and the ledger of decisions.

A wrapper, its forks and the `ToolContext`s made from it share one ledger; a snapshot (`RunState`) has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from placet.clock import SYSTEM_CLOCK, Clock
from placet.core.approvals import ApprovalRecord, Ledger
from placet.core.receipt import HEADER, META
from placet.declare import context_transport as transport
from placet.declare.decisions import DecisionInput, Grant, ItemOrId, identity_of, stage_decision
from placet.facts.codec import JsonObject, plain_item
from placet.facts.events import Usage
from placet.facts.ids import split_call_id
from placet.facts.items import Named

if TYPE_CHECKING:
    from placet.facts.items import ToolApprovalItem

T = TypeVar("T")


class RunContextWrapper(Generic[T]):
    """The user's context in a run. One made by hand belongs to no run and has a ledger of its own."""

    __slots__ = ("_clock", "_ledger", "_run_ids", "context", "tool_input", "turn_input", "usage")

    def __init__(
        self,
        context: T,
        usage: Usage | None = None,
        turn_input: list[JsonObject] | None = None,
        *,
        tool_input: object = None,
        ledger: Ledger | None = None,
        run_ids: tuple[str, ...] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.context = context
        self.usage = usage if usage is not None else Usage()
        self.turn_input: list[JsonObject] = turn_input if turn_input is not None else []
        """What the model was last sent, for hooks that want to see it."""
        self.tool_input = tool_input
        """In a nested run: what the tool that it is behind was called with, if that is more than a text."""
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
        self._stage(approval_item, DecisionInput(verdict="approve", always=always_approve, by=by, reason=reason))

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
            approval_item,
            DecisionInput(verdict="reject", always=always_reject, by=by, reason=reason, message=rejection_message),
        )

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """True, False, or None while it is not decided.

        A label that fits several calls is approved only if all are.
        """
        return self._ledger.status(tool_name, self._local(call_id))

    def get_approval_status(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
        existing_pending: ToolApprovalItem | None = None,
        tool_lookup_key: object = None,
        current_invocation: ToolApprovalItem | None = None,
    ) -> bool | None:
        """The same, where an item may say more exactly than a name which call is meant."""
        item = current_invocation or existing_pending
        named = f"{tool_namespace}.{tool_name}" if tool_namespace and tool_namespace != tool_name else tool_name
        return self._ledger.status(named, self._local(_id_in(item) or call_id), _tool_in(item))

    def get_rejection_message(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
        existing_pending: ToolApprovalItem | None = None,
        tool_lookup_key: object = None,
    ) -> str | None:
        """What a rejected call's model reads; None for a call that was not rejected, or without words."""
        call, tool = self._local(_id_in(existing_pending) or call_id), _tool_in(existing_pending)
        if self._ledger.status(tool_name, call, tool) is not False:
            return None
        return self._ledger.message(tool_name, call, tool)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> Any:  # Any: pydantic's own schema
        """So that pydantic models and dataclasses may hold a context, and may be sent with it."""
        given = get_args(source)
        inner = handler.generate_schema(given[0] if given and not isinstance(given[0], TypeVar) else Any)
        return transport.schema(cls, inner, cls._made_of, cls._taken_apart)

    @staticmethod
    def _made_of(fields: dict[str, Any]) -> RunContextWrapper[Any]:
        return RunContextWrapper(fields["context"], ledger=transport.unpack(fields.get("decisions") or "{}"))

    def _taken_apart(self) -> dict[str, Any]:
        return {"context": self.context, "decisions": "{}" if self._run_ids else transport.pack(self._ledger)}

    @property
    def approvals(self) -> Mapping[str, ApprovalRecord]:
        """What was decided so far, by tool name: a copy, which later decisions do not change."""
        return self._ledger.records()

    def fork(self) -> RunContextWrapper[T]:
        """Another wrapper of the same context that shares this one's ledger and usage."""
        return RunContextWrapper(
            self.context,
            self.usage,
            self.turn_input,
            tool_input=self.tool_input,
            ledger=self._ledger,
            run_ids=self._run_ids,
            clock=self._clock,
        )

    def _stage(self, item: ItemOrId, given: DecisionInput) -> None:
        stage_decision(self._ledger, self._run_ids, item, given, self._clock)

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
        "receipt",
        "run_config",
        "tool_arguments",
        "tool_call",
        "tool_call_id",
        "tool_name",
        "tool_namespace",
    )

    def __init__(
        self,
        context: T,
        usage: Usage | None = None,
        tool_name: str = "",
        tool_call_id: str = "",
        tool_arguments: str = "",
        tool_call: Any = None,  # Any: an item, or an object of the `openai` package
        *,
        tool_namespace: str | None = None,
        run_config: object = None,
        turn_input: list[JsonObject] | None = None,
        tool_input: object = None,
        call: str = "",
        idempotency_key: str = "",
        attempt: int = 1,
        agent: Named | None = None,
        ledger: Ledger | None = None,
        run_ids: tuple[str, ...] = (),
        clock: Clock = SYSTEM_CLOCK,
        answers: Mapping[str, JsonObject] | None = None,
        asked_state: str | None = None,
        receipt: str | None = None,
    ) -> None:
        super().__init__(context, usage, turn_input, tool_input=tool_input, ledger=ledger, run_ids=run_ids, clock=clock)
        self.tool_namespace = tool_namespace
        self.run_config = run_config
        """The configuration of the run in which the call is made."""
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        """The provider's label."""
        self.tool_arguments = tool_arguments
        """The arguments that run, as JSON: after an edit the edited ones."""
        self.tool_call = tool_call
        self.call = call
        """Our id of the call."""
        self.idempotency_key = idempotency_key or call
        """The same for every attempt at this call, and for no other call: give it to the service that performs the
        effect."""
        self.receipt = receipt
        """A signed token that the call was approved, for the service that performs the effect; None: nobody approved
        it, or no receipts are issued here (`RunConfig.receipts`)."""
        self.attempt = attempt
        """1 for the first time that the tool function runs."""
        self.agent = agent
        self.answers = answers
        """What people answered to the questions that the tool function returned (`NeedsInput`) when it ran before."""
        self.asked_state = asked_state
        """The `state` that it returned with them."""
        self._bound: tuple[str, Any] | None = None
        """The arguments' text, and the values that validation made of it when the call was proposed."""

    def take_bound(self, text: str) -> Any:  # Any: what the tool's own function takes
        """The values that were made of this very text, once: the caller that takes them owns them. None: there are
        none."""
        found, self._bound = self._bound, None
        return found[1] if found is not None and found[0] == text else None

    @property
    def receipt_headers(self) -> dict[str, str]:
        """For the HTTP request that performs the effect: the receipt in its header, if there is one."""
        return {} if self.receipt is None else {HEADER: self.receipt}

    @property
    def receipt_meta(self) -> JsonObject | None:
        """The same for the `_meta` of an MCP request."""
        return None if self.receipt is None else {META: self.receipt}

    @property
    def qualified_tool_name(self) -> str:
        """The tool's name with that of its namespace before it."""
        is_inside = self.tool_namespace and self.tool_namespace != self.tool_name
        return f"{self.tool_namespace}.{self.tool_name}" if is_inside else self.tool_name

    @classmethod
    def from_agent_context(
        cls,
        context: RunContextWrapper[T],
        tool_call_id: str,
        tool_call: object = None,
        agent: Named | None = None,
        *,
        tool_name: str | None = None,
        tool_arguments: str | None = None,
        tool_namespace: str | None = None,
        run_config: object = None,
    ) -> ToolContext[T]:
        """A tool's context made of a run's, by hand: it shares the ledger and the usage."""
        item = plain_item(tool_call) if tool_call is not None else {}
        return cls(
            context.context,
            context.usage,
            tool_name=tool_name if tool_name is not None else str(item.get("name") or ""),
            tool_call_id=tool_call_id,
            tool_arguments=tool_arguments if tool_arguments is not None else str(item.get("arguments") or ""),
            tool_call=tool_call,
            tool_namespace=tool_namespace or _text(item.get("namespace")) or getattr(context, "tool_namespace", None),
            run_config=run_config if run_config is not None else getattr(context, "run_config", None),
            turn_input=context.turn_input,
            tool_input=context.tool_input,
            agent=agent if agent is not None else getattr(context, "agent", None),
            ledger=context._ledger,
            run_ids=context._run_ids,
            clock=context._clock,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _id_in(item: ToolApprovalItem | None) -> str:
    return item.id if item is not None else ""


def _tool_in(item: ToolApprovalItem | None) -> str | None:
    """The tool that an item made by hand is about, where that is more than its name says: a hosted or a native one."""
    tool = identity_of(item) if item is not None and not item.id else ""
    return tool if tool and not tool.startswith("function:") else None
