"""The gate: Placet's yes for calls that another program executes.

A call is proposed by the program that will execute it, decided where all calls are decided, claimed before the effect,
and its outcome is reported after it. `Gate` is asynchronous, `SyncGate` is for programs that are not; both stand over a
desk (`https://…` and a token) or over a store (`sqlite:///…`, `postgresql://…`).
"""

from __future__ import annotations

from placet.core.guest import GateCall, GateStatus, Permit
from placet.facts.errors import (
    CallAnswered,
    CallClaimed,
    CallNotClaimable,
    CallNotFound,
    CallRejected,
    GateError,
    GateTimeout,
    GateUnavailable,
    InvalidProposal,
    PermitRefused,
    TooManyWaiting,
)
from placet.gate.functions import gated
from placet.gate.port import Gate
from placet.gate.sync import SyncGate

__all__ = [
    "CallAnswered",
    "CallClaimed",
    "CallNotClaimable",
    "CallNotFound",
    "CallRejected",
    "Gate",
    "GateCall",
    "GateError",
    "GateStatus",
    "GateTimeout",
    "GateUnavailable",
    "InvalidProposal",
    "Permit",
    "PermitRefused",
    "SyncGate",
    "TooManyWaiting",
    "gated",
]
