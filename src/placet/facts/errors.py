"""Every error that Placet raises on purpose: one tree, each class with a stable `code`.

    PlacetError
    ├── UserError                          the calling code asked for something that cannot be
    │   ├── StateRefused                   a stored state cannot be loaded, and says why
    │   │   └── SealBroken                 ... because it is unsealed, sealed with another key, or altered
    │   ├── SessionBusy                    a run waits on this session (see RunConfig.on_pending)
    │   ├── NotPending                     a decision names a call that does not wait (those that do are listed)
    │   ├── PolicyRefused                  a policy's text cannot be used, and says where and why
    │   ├── InvalidProposal                a guest proposes a call that cannot be written down or judged
    │   └── LimitExceeded                  an argument, an output or a log is larger than the limit that is named
    │       └── TooManyWaiting             ... a guest has as many calls waiting, or asks as often, as it may
    ├── ModelBehaviorError                 the model's answer cannot be used
    │   └── ModelRefusalError              ... it refused, where an output_type was asked for
    ├── GuardrailTripped                   a rule in code stopped the run
    │   ├── InputGuardrailTripwireTriggered
    │   ├── OutputGuardrailTripwireTriggered
    │   ├── ToolInputGuardrailTripwireTriggered
    │   └── ToolOutputGuardrailTripwireTriggered
    ├── MaxTurnsExceeded                   the run used up its turns; resume it with a larger max_turns
    ├── ToolError                          a tool function failed (data for the model unless the tool says otherwise)
    │   ├── ToolRaised                     ... and its error, or its hook's, ends the run (it is a UserError, too)
    │   ├── ToolTimeoutError               ... it took longer than its timeout
    │   ├── ToolOutputError                ... it ran, and what it returned cannot be written down
    │   └── ToolOutcomeUnknown             ... it is unknown whether it happened: the call is in doubt
    ├── ToolsetUnavailable                 a server whose tools an agent has cannot be asked for them
    ├── AccessDenied                       the desk does not know the user, or they may not do this
    ├── RunConflict                        another process drives this run, or its two logs differ
    ├── StaleApproval                      a decision contradicts one in the log, or is about something that changed
    ├── RunFinished                        a decision came after the end of the run
    ├── ProviderError                      a model's provider failed: it may or may not have taken the request
    │   ├── ModelTimeoutError              ... it took longer than the time that it was given
    │   └── RequestNotTaken                ... and it certainly did not take it: nothing was delivered
    │       └── ServerHistoryNotFound      ... because what it kept of the run is gone: resume with own_history=True
    ├── GateError                          a guest's call does not run, and this says why
    │   ├── CallRejected                   ... it was rejected, or not approved in time
    │   ├── CallAnswered                   ... a person answered in its place (`output`)
    │   ├── CallNotClaimable               ... it waits, is held back, or must be asked about again
    │   ├── CallClaimed                    ... it was claimed before, or has ended: it can only be read
    │   ├── CallNotFound                   ... this guest has no such call
    │   ├── PermitRefused                  a token that is none, or that does not count any more
    │   ├── GateTimeout                    ... there was no decision within the time that the guest had
    │   └── GateUnavailable                ... the desk did not answer, or not in words that are understood
    ├── ReceiptRefused                     a receipt does not show that this call was approved: do not perform it
    ├── ReceiptNotSigned                   the receipt of a call cannot be signed: nothing was begun
    ├── DeliveryUnknown                    it is unknown whether a request was taken: resume with resend=True | False
    └── StoreError                         the store could not do its work
        ├── IndexAltered                   what a store lists is not what the run's log says
        ├── PositionConflict               an append named a position that is not the end of the log
        ├── BudgetExhausted                a claim takes more of a budget than is left (nothing was written)
        └── IllegalTransition              a fact cannot follow the facts before it (nothing was changed)

An error that ends a run carries the run's state as `.state`: nothing that happened before it is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class PlacetError(Exception):
    """The root: catch it to catch everything that Placet raises on purpose."""

    code: ClassVar[str] = "placet_error"

    state: object | None = None
    """The run's `RunState` when the error ended a run: `Runner.run(agent, error.state)` goes on from there."""

    run_data: object | None = None
    """What the run had produced when the error ended it: a `RunErrorDetails`."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __getstate__(self) -> dict[str, object]:
        """What travels with it, into another process, say: not `run_data`, which holds agents, and code does not
        travel. The state does."""
        return {name: value for name, value in self.__dict__.items() if name != "run_data"}

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), self.args, self.__getstate__())


class UserError(PlacetError):
    code = "user_error"


class StateRefused(UserError):
    code = "state_refused"


class SealBroken(StateRefused):
    code = "seal_broken"


class NotPending(UserError):
    code = "not_pending"

    def __init__(self, message: str, pending: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.pending = tuple(pending)


class SessionBusy(UserError):
    code = "session_busy"

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class PolicyRefused(UserError):
    """A policy that does not load: all of its faults at once, each with its place. The one before stays in force."""

    code = "policy_refused"

    def __init__(self, message: str, problems: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class InvalidProposal(UserError):
    code = "invalid_proposal"


class LimitExceeded(UserError):
    code = "limit_exceeded"


class TooManyWaiting(LimitExceeded):
    code = "too_many_waiting"


class ModelBehaviorError(PlacetError):
    code = "model_behavior"


class ModelRefusalError(ModelBehaviorError):
    code = "model_refusal"

    def __init__(self, message: str = "", refusal: str = "") -> None:
        super().__init__(message)
        self.refusal = refusal
        """What the model said instead of answering."""


class GuardrailTripped(PlacetError):
    code = "guardrail_tripped"

    def __init__(self, message: str, guardrail_result: object = None) -> None:
        super().__init__(message)
        self.guardrail_result = guardrail_result

    @property
    def guardrail(self) -> object:
        """The guardrail that tripped."""
        return getattr(self.guardrail_result, "guardrail", None)

    @property
    def output(self) -> object:
        """What it said."""
        return getattr(self.guardrail_result, "output", None)


class InputGuardrailTripwireTriggered(GuardrailTripped):
    code = "input_guardrail_tripped"


class OutputGuardrailTripwireTriggered(GuardrailTripped):
    code = "output_guardrail_tripped"


class ToolInputGuardrailTripwireTriggered(GuardrailTripped):
    code = "tool_input_guardrail_tripped"


class ToolOutputGuardrailTripwireTriggered(GuardrailTripped):
    code = "tool_output_guardrail_tripped"


class MaxTurnsExceeded(PlacetError):
    code = "max_turns_exceeded"

    def __init__(self, message: str = "", path: str = "") -> None:
        super().__init__(message)
        self.path = path
        """The nested run whose turns were used up; empty for the outermost."""


class ToolError(PlacetError):
    code = "tool_failed"


class ToolRaised(ToolError, UserError):
    """An error of a tool function that is not given to the model, or of a hook around it: the caller's own code raised
    it (`__cause__`), so `except UserError` gets it, as users of the Agents SDK expect."""

    code = "tool_raised"


class ToolTimeoutError(ToolError):
    code = "tool_timeout"


class ToolOutputError(ToolError):
    code = "tool_output_not_serializable"


class ToolOutcomeUnknown(ToolError):
    """A tool function raises this when it lost sight of an effect that may have happened. The model is not told that it
    failed: the tool's `recovery` says what becomes of the call."""

    code = "tool_outcome_unknown"


class ToolsetUnavailable(PlacetError):
    code = "toolset_unavailable"


class AccessDenied(PlacetError):
    code = "access_denied"


class RunConflict(PlacetError):
    code = "run_conflict"


class StaleApproval(PlacetError):
    code = "stale_approval"


class RunFinished(PlacetError):
    code = "run_finished"


class ProviderError(PlacetError):
    """What an adapter makes of an error of its provider's client. The runtime decides by it whether to try again."""

    code = "provider_error"

    def __init__(
        self,
        message: str = "",
        *,
        is_transient: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        is_locked: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_transient = is_transient
        """The same request may succeed later: a network, a rate limit, a server in trouble."""
        self.status = status
        self.retry_after = retry_after
        """Seconds to wait, as the provider said."""
        self.request_id = request_id
        """The provider's own name for the request: its support asks for it."""
        self.is_locked = is_locked
        """Another request is at work on the same conversation."""


class ModelTimeoutError(ProviderError):
    code = "model_timeout"


class RequestNotTaken(ProviderError):
    code = "request_not_taken"


class ServerHistoryNotFound(RequestNotTaken):
    """The stored response, or the conversation, that the request was to follow is not there (any more)."""

    code = "server_history_not_found"


class ReceiptRefused(PlacetError):
    code = "receipt_refused"


class ReceiptNotSigned(PlacetError):
    code = "receipt_not_signed"


class GateError(PlacetError):
    code = "gate_error"

    def __init__(self, message: str = "", call: object = None) -> None:
        super().__init__(message)
        self.call = call
        """The call as it stands (`placet.gate.GateCall`), where it is known."""


class CallRejected(GateError):
    code = "call_rejected"


class CallAnswered(GateError):
    code = "call_answered"

    def __init__(self, message: str = "", call: object = None, output: object = None) -> None:
        super().__init__(message, call)
        self.output = output


class CallNotClaimable(GateError):
    code = "call_not_claimable"


class CallClaimed(GateError):
    code = "call_claimed"


class CallNotFound(GateError):
    code = "call_not_found"


class PermitRefused(GateError):
    code = "permit_refused"


class GateTimeout(GateError):
    code = "gate_timeout"


class GateUnavailable(GateError):
    code = "gate_unavailable"


class DeliveryUnknown(PlacetError):
    code = "delivery_unknown"


class StoreError(PlacetError):
    code = "store_error"


class IndexAltered(StoreError):
    code = "index_altered"


class PositionConflict(StoreError):
    code = "position_conflict"


class BudgetExhausted(StoreError):
    code = "budget_exhausted"


class IllegalTransition(StoreError):
    code = "illegal_transition"
