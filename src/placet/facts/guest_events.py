"""The facts about a guest's session: a run without a model, whose calls somebody else executes."""

from __future__ import annotations

from typing import Literal

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.fact import Fact


class GuestAdmitted(Fact, frozen=True, tag="guest"):
    """The run is a session of a guest, who proposes calls and executes them itself. No model is ever asked.

    A fact of its own, because it restricts: code that does not know it cannot continue with the run.
    """

    guest: str
    source: str
    """Through what the guest comes: a framework, an assistant's hook, a function."""
    session: str
    """What the guest calls the session."""
    reports: bool = True
    """Whether it can tell what happened to a call. Otherwise a claimed call ends at once, as released."""
    edits: bool = True
    """Whether it can run a call with other arguments than it proposed."""
    answers: bool = True
    """Whether it can take an answer in the place of a call's result."""
    idle_seconds: float | None = None
    """After how long without anything new the session ends by itself."""
    before: str | None = None
    """The run that this one goes on from."""


class ProposedCall(msgspec.Struct, frozen=True, array_like=True):
    """A call that a guest wants to execute, with its tool as the guest declares it."""

    item: JsonObject
    occurrence: int
    """Which call of this call id it is: hosts may repeat their ids."""
    digest: str
    """What the guest asks about: the tool as declared, and the validated arguments."""
    tool: str
    fingerprint: str
    schema: JsonObject
    description: str = ""
    version: str | None = None
    approval_valid_for: float | None = None
    recovery: Literal["ask", "retry", "function"] = "ask"
    """What becomes of it if its guest is gone: a person is asked, or first the guest itself, when it is back."""
    context: str | None = None
    """What led to the call, for the reviewer."""


class CallsProposed(Fact, frozen=True, tag="propose"):
    """A guest wants to execute these calls. They join those of the session that are still open."""

    calls: list[ProposedCall]


class SessionClosed(Fact, frozen=True, tag="close"):
    """The session takes no more proposals here. The run ends when its last call has ended."""

    why: Literal["closed", "idle", "size"]
    next: str | None = None
    """The run in which the session goes on."""
