"""What one guest may do, and how long its sessions get."""

from __future__ import annotations

import msgspec


class GuestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one guest may do, and how long its sessions get."""

    passes: bool = True
    """Whether a guest's own word that no approval is needed counts. False: every call asks, or meets a grant."""
    max_waiting: int = 200
    """Calls of one guest, through one source, that may wait for people."""
    asks_per_second: float = 20.0
    """Questions to people, on average."""
    burst: int = 200
    lease_seconds: float = 60.0
    """How long a permit lasts if its guest does not say."""
    max_lease: float = 3600.0
    recovery_seconds: float = 600.0
    """How long a guest that recovers by itself has for it before a person is asked."""
    idle_seconds: float = 86_400.0
    max_calls: int = 200
    """Of one run: then the session goes on in another."""
    max_bytes: int = 2_000_000
    max_output: int = 1_000_000
