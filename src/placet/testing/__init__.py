"""Test tools that are part of the product: a scripted model, a provider that says no, a clock that tests move, a store
that crashes, contracts for ports."""

from __future__ import annotations

from placet.testing.clock import ManualClock
from placet.testing.contracts import StoreContract, ThreadedStoreContract
from placet.testing.crashing import Crash, CrashingStore
from placet.testing.engine_contract import EngineContract
from placet.testing.gate_contract import GateContract, GateScene
from placet.testing.model_contract import ModelContract
from placet.testing.provider import FakeProvider
from placet.testing.scripted import (
    ModelStep,
    RecordedCall,
    ScriptedModel,
    assistant_message,
    function_call,
    reasoning,
)
from placet.testing.session_contract import SessionContract

__all__ = [
    "Crash",
    "CrashingStore",
    "EngineContract",
    "FakeProvider",
    "GateContract",
    "GateScene",
    "ManualClock",
    "ModelContract",
    "ModelStep",
    "RecordedCall",
    "ScriptedModel",
    "SessionContract",
    "StoreContract",
    "ThreadedStoreContract",
    "assistant_message",
    "function_call",
    "reasoning",
]
