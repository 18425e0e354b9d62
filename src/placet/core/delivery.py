"""What the next request carries, derived from what has been acknowledged: never from object identity or look-alike
content."""

from __future__ import annotations

import msgspec

from placet.core.state import RunFold
from placet.facts.codec import JsonObject
from placet.facts.errors import ModelBehaviorError


class Outgoing(msgspec.Struct, frozen=True):
    items: list[JsonObject]
    previous_response_id: str | None = None
    conversation_id: str | None = None


def outgoing(run: RunFold) -> Outgoing:
    """The whole history where we keep it; where the server does, what it has not acknowledged."""
    match run.delivery:
        case "own":
            return Outgoing(run.history.copy())
        case "conversation":
            return Outgoing(run.outbox.copy(), conversation_id=run.server_id)
        case "chained" | "auto":
            if run.responses == 0:
                return Outgoing(run.outbox.copy(), previous_response_id=run.server_id)
            if run.last_response_id is None:
                raise ModelBehaviorError(
                    "The model's last response has no id, so no request can be chained to it. "
                    "Run without previous_response_id, or use a model whose responses have ids."
                )
            return Outgoing(run.outbox.copy(), previous_response_id=run.last_response_id)
