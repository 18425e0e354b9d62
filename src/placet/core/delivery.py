"""What the next request carries, derived from what has been acknowledged: never from object identity or look-alike
content."""

from __future__ import annotations

import msgspec

from placet.core.calls import APPROVAL_REQUEST, APPROVAL_RESPONSE
from placet.core.state import RunFold
from placet.facts.codec import JsonObject
from placet.facts.errors import ModelBehaviorError, UserError
from placet.facts.events import OwnHistoryChosen
from placet.facts.native_items import NATIVE

_NAMED_ANEW = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "shell_call", "apply_patch_call"}
    | {"custom_tool_call", "custom_tool_call_output"}
)
"""Items that are complete without the id that a server gave them."""
_ANSWERS = {
    "function_call_output": ("call_id", "function_call", "call_id"),
    APPROVAL_RESPONSE: ("approval_request_id", APPROVAL_REQUEST, "id"),
    **{native.output: (native.output_label, kind, "call_id") for kind, native in NATIVE.items()},
}
"""Items that answer another: where they name it, which kind it is, and where its own name stands."""


class Outgoing(msgspec.Struct, frozen=True):
    items: list[JsonObject]
    previous_response_id: str | None = None
    conversation_id: str | None = None


def outgoing(run: RunFold) -> Outgoing:
    """The whole history where we keep it; where the server does, what it has not acknowledged."""
    match run.delivery:
        case "own":
            return Outgoing(_own_history(run.history, run.own_from) if run.own_from else run.history.copy())
        case "conversation":
            return Outgoing(run.outbox.copy(), conversation_id=run.server_id)
        case "chained" | "auto":
            # The outbox is what no answered request has carried. A request that was lost stays in it: it is sent
            # again behind the same response, and a branch that the server made of the lost one is never continued.
            if run.responses == 0:
                return Outgoing(run.outbox.copy(), previous_response_id=run.server_id)
            if run.last_response_id is None:
                raise ModelBehaviorError(
                    "The model's last response has no id, so no request can be chained to it. "
                    "Run without previous_response_id, or use a model whose responses have ids."
                )
            return Outgoing(run.outbox.copy(), previous_response_id=run.last_response_id)


def _own_history(history: list[JsonObject], mark: int) -> list[JsonObject]:
    """The history without what leads to a server that has forgotten it: ids before the mark, and thoughts that only
    the server could read."""
    return [*(_without_id(item) for item in history[:mark] if not _is_only_a_name(item)), *history[mark:]]


def _is_only_a_name(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _without_id(item: JsonObject) -> JsonObject:
    if "id" not in item or (item.get("type") or "message") not in _NAMED_ANEW:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def choose_own_history(run: RunFold, by: str | None, at: float) -> list[OwnHistoryChosen]:
    """What is to be written down so that the run continues with its own history; nothing where it does already."""
    if run.delivery == "own" or run.has_ended:
        return []
    for field, kind, name in _ANSWERS.values():
        known = {item.get(name) for item in run.history if item.get("type") == kind}
        missing = {str(item[field]) for item in run.history if field in item and _answers(item, kind)} - known
        if missing:
            raise UserError(
                f"The run's input answers calls that only the server had ({', '.join(sorted(missing))}): without them "
                "its own history makes no sense to a model. Start a new run with the whole history as input."
            )
    return [OwnHistoryChosen(by, at)]


def _answers(item: JsonObject, kind: str) -> bool:
    found = _ANSWERS.get(str(item.get("type")))
    return found is not None and found[1] == kind
