"""Every error that Placet raises on purpose: one tree, each class with a stable `code`.

    PlacetError
    ├── UserError                          the calling code asked for something that cannot be
    │   ├── StateRefused                   a stored state cannot be loaded, and says why
    │   │   └── SealBroken                 ... because it is unsealed, sealed with another key, or altered
    │   ├── SessionBusy                    a run waits on this session (see RunConfig.on_pending)
    │   ├── NotPending                     a decision names a call that does not wait (those that do are listed)
    │   └── LimitExceeded                  an argument, an output or a log is larger than the limit that is named
    ├── ModelBehaviorError                 the model answered what no run can go on with
    ├── GuardrailTripped                   a rule in code stopped the run
    │   ├── InputGuardrailTripwireTriggered
    │   ├── OutputGuardrailTripwireTriggered
    │   ├── ToolInputGuardrailTripwireTriggered
    │   └── ToolOutputGuardrailTripwireTriggered
    ├── MaxTurnsExceeded                   the run used up its turns; resume it with a larger max_turns
    ├── ToolError                          a tool's body failed (data for the model unless the tool says otherwise)
    │   ├── ToolTimeoutError               ... it took longer than its timeout
    │   └── ToolOutputError                ... it ran, and what it returned cannot be written down
    ├── AccessDenied                       whoever asks is not known to the desk, or may not do this
    ├── RunConflict                        somebody else drives this run, or its two logs differ
    ├── StaleApproval                      a decision contradicts one in the log, or is about something that changed
    ├── RunFinished                        a decision came after the end of the run
    ├── RequestNotTaken                    a model certainly did not take a request: nothing was delivered
    ├── DeliveryUnknown                    nobody knows whether a request was taken: resume with resend=True | False
    └── StoreError                         the store could not do its work
        ├── PositionConflict               an append named a position that is not the end of the log
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

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


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


class LimitExceeded(UserError):
    code = "limit_exceeded"


class ModelBehaviorError(PlacetError):
    code = "model_behavior"


class GuardrailTripped(PlacetError):
    code = "guardrail_tripped"

    def __init__(self, message: str, guardrail_result: object = None) -> None:
        super().__init__(message)
        self.guardrail_result = guardrail_result


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


class ToolTimeoutError(ToolError):
    code = "tool_timeout"


class ToolOutputError(ToolError):
    code = "tool_output_not_serializable"


class AccessDenied(PlacetError):
    code = "access_denied"


class RunConflict(PlacetError):
    code = "run_conflict"


class StaleApproval(PlacetError):
    code = "stale_approval"


class RunFinished(PlacetError):
    code = "run_finished"


class RequestNotTaken(PlacetError):
    code = "request_not_taken"


class DeliveryUnknown(PlacetError):
    code = "delivery_unknown"


class StoreError(PlacetError):
    code = "store_error"


class PositionConflict(StoreError):
    code = "position_conflict"


class IllegalTransition(StoreError):
    code = "illegal_transition"
