"""What a gate needs behind it: the verbs, done by a desk over HTTP or on a store. Both pass one contract suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from placet.core.guest import GateCall, Permit, Proposal
from placet.facts.codec import Json

Reported = Literal["finished", "failed", "unknown"]


class Door(Protocol):
    async def propose(self, proposal: Proposal) -> GateCall: ...

    async def look(self, call: str, wait: float) -> GateCall:
        """The call as it stands, when something can be done about it, or after so many seconds at the latest."""
        ...

    async def look_at_many(self, calls: Sequence[str], wait: float) -> list[GateCall]:
        """Of these calls those about which something can be done, as soon as there is one; else none."""
        ...

    async def claim(self, call: str, lease: float | None, *, again: bool) -> Permit: ...

    async def renew(self, call: str, token: str, lease: float | None) -> float: ...

    async def report(self, call: str, token: str, outcome: Reported, output: Json) -> GateCall: ...

    async def withdraw(self, call: str) -> GateCall: ...

    async def close_session(self, session: str) -> None: ...

    async def aclose(self) -> None: ...
