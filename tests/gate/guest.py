"""A guest in a process of its own, which can be killed at any step: `python -m tests.gate.guest SPEC`.

It proposes one call under a fixed identity, waits, claims, writes into the witness' file, and reports. Before and after
each step it looks whether it is to die there, and then is gone without a word.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from placet.gate import CallClaimed, CallRejected, Gate
from tests.desk.scenes import Witness

STEPS = ("before propose", "proposed", "decided", "claimed", "done", "reported")
LEASE = 1.0


class Guest:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.witness = Witness(Path(spec["witness"]))

    def reach(self, step: str) -> None:
        if self.spec.get("dies_at") == step:
            os._exit(9)

    async def run(self) -> str:
        given = self.spec["gate"]
        async with Gate(given.pop("at"), **given) as gate:
            self.reach("before propose")
            call = await gate.propose(
                self.spec.get("tool", "refund"),
                self.spec.get("arguments", {"order": "7"}),
                session="s",
                call_id=self.spec.get("call_id", "c1"),
            )
            self.reach("proposed")
            call = await gate.wait(call, 60)
            self.reach("decided")
            if call.status != "claimable":
                return call.status
            try:
                permit = await gate.claim(call, lease=LEASE)
            except (CallClaimed, CallRejected) as error:
                return error.code
            self.reach("claimed")
            self.witness.write(str(permit.arguments["order"]))
            self.reach("done")
            await gate.report(permit, "finished", "paid")
            self.reach("reported")
            return "finished"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(Guest(json.loads(sys.argv[1])).run()))
