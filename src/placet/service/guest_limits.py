"""What one guest may do, and how long its sessions get."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from placet.core.guest import Guest
from placet.facts.operator_events import Pattern


class GuestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one guest may do, and how long its sessions get."""

    passes: bool = True
    """Whether a guest's own word that no approval is needed counts. False: every call asks, or meets a grant."""
    pass_through: tuple[Pattern, ...] = ()
    """Calls that nobody has to be asked about, by patterns of agent (`source/guest`) and tool: read-only tools. They
    are recorded all the same, and what a policy denies or asks about is denied or asked about."""
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

    def lets_through(self, guest: Guest, tool: str) -> bool:
        """Whether this desk says that nobody has to be asked about such calls."""
        return any(fnmatchcase(guest.agent, agent) and fnmatchcase(tool, name) for agent, name in self.pass_through)
