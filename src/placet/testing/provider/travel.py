"""How an answer travels: whole, slowly, up to a gate, cut short, or not at all."""

from __future__ import annotations

from collections.abc import Callable

from placet.testing.provider.refusal import Refused
from placet.testing.provider.reply import Reply
from placet.testing.provider.steps import Fault, ProviderStep


def faulty_reply(fault: Fault, as_error: Callable[[Refused], Reply]) -> Reply:
    """What the client sees of a request that fails. `as_error` writes an error in the form of its API."""
    match fault.shows:
        case "status":
            refused = Refused(fault.message, code=fault.code, status=fault.status, kind=fault.kind)
            reply = as_error(refused)
            reply.headers.update(fault.headers)
            return reply
        case "cut":
            return Reply(ending="cut")
        case "silence":
            return Reply(ending="silence")
        case "not_json":
            return Reply(200, {"content-type": "text/html"}, [b"<html><body>Bad gateway</body></html>"])
        case "empty":
            return Reply(200, {"content-type": "application/json"}, [b""])


def sent_on(step: ProviderStep, reply: Reply, error_event: Callable[[str, str | None, int], bytes]) -> Reply:
    """The reply, as the step lets it travel."""
    if step.cut_after is not None:
        if not reply.is_stream:
            body = b"".join(reply.pieces)
            reply.pieces = [body[: len(body) // 2]]
        elif step.error is None:
            reply.pieces = reply.pieces[: step.cut_after]
        else:
            reply.pieces = [*reply.pieces[: step.cut_after], error_event(*step.error, step.cut_after)]
        if step.error is None or not reply.is_stream:
            reply.ending = "cut"
    if step.piece is not None:
        body = b"".join(reply.pieces)
        reply.pieces = [body[start : start + step.piece] for start in range(0, len(body), step.piece)]
    reply.pause = step.pause
    reply.gate, reply.gate_before = step.gate, step.gate_before
    return reply
