"""Runs, requests and events, as a desk shows them to programs."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from placet.core.index import RequestRecord, RunRecord
from placet.facts.events import AnyFact

DeskRequest: TypeAlias = RequestRecord
"""A question to a person."""

DeskRun: TypeAlias = RunRecord


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in some run, in the order of the store."""

    sequence: int
    run_id: str
    at: float
    path: str
    fact: AnyFact
