"""Who has a run, in the words of every store on SQL: the names of owners, and what others are told."""

from __future__ import annotations

import os
import socket

from placet.facts.errors import RunConflict
from placet.facts.ids import mint


def pause_after_giving_up(ttl: float) -> float:
    """How long a run is left alone that its driver gave up in the middle: an error there may come again at once."""
    return ttl / 10


def new_owner() -> str:
    """Who we are, for others to read, and a mark of this one lease."""
    return f"process {os.getpid()} on {socket.gethostname()}#{mint('lease')}"


def driven_by(run_id: str, owner: str) -> RunConflict:
    return RunConflict(f"Run {run_id} is being driven by {owner.partition('#')[0]}: wait for that to return.")


def taken_over(run_id: str) -> RunConflict:
    return RunConflict(f"Run {run_id} was taken over by somebody else.")
