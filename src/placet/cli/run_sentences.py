"""Sentences that several commands say about runs."""

from __future__ import annotations

from placet.facts.codec import JsonObject
from placet.facts.errors import ServerHistoryNotFound


def drivers_of(run_id: str) -> str:
    """Who could have a run go on, and how."""
    return f"«placet serve MODULE:NAME», a worker, or «placet run MODULE:NAME --go-on {run_id}»"


def way_on(stopped: str, run_id: str = "") -> str:
    """What has a run go on that an error stopped."""
    command = f"placet runs resume {run_id}".rstrip()
    if stopped.startswith(f"{ServerHistoryNotFound.code}:"):
        return f"«{command} --own-history» has it go on with its own history, «{command}» tries again."
    return f"«{command}» has it go on."


def cancelled_by(by: object, reason: object) -> str:
    return f"cancelled by {by or 'somebody'}" + (f": {reason}" if reason else "")


def cancellation(found: JsonObject) -> str:
    """That a run was cancelled, by whom and why; and whether that is still to come."""
    asked = found["cancelled"]
    assert isinstance(asked, dict), "the desk tells of it as an object"
    words = cancelled_by(asked["by"], asked["reason"])
    return words if found["status"] == "ended" else f"{words}; ends when the calls that run have ended"
