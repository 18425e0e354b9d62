"""A program that puts its calls behind an approval provider with the protocol's own library: `aap_client.py SPEC`.

It runs in an environment of its own, without Placet. It makes the calls of the specification one after the other, and
says of each what its gate said. It can be killed at a step, as any program can: created, decided, consumed, done,
reported.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from agentapprovalprotocol import Call, Client, Gate


class Dying(Client):  # type: ignore[misc]  # the library is not in the environment that is checked
    """The library's client, which is gone without a word at a step."""

    dies_at: str | None = None

    def reach(self, step: str) -> None:
        if self.dies_at == step:
            os._exit(9)

    def create(self, *given: Any) -> Any:
        found = super().create(*given)
        self.reach("created")
        if found.status != "pending":  # somebody was that fast
            self.reach("decided")
        return found

    def get(self, *given: Any, **more: Any) -> Any:
        found = super().get(*given, **more)
        if found.status != "pending":
            self.reach("decided")
        return found

    def consume(self, *given: Any) -> Any:
        found = super().consume(*given)
        self.reach("consumed")
        return found

    def report_outcome(self, *given: Any) -> Any:
        self.reach("done")
        found = super().report_outcome(*given)
        self.reach("reported")
        return found


def main(spec: dict[str, Any]) -> list[dict[str, Any]]:
    client = Dying(spec["url"], spec["token"], retry_budget=spec.get("retry_budget", 30.0))
    client.dies_at = spec.get("dies_at")
    gate = Gate(client, mode=spec.get("mode", "sync"), timeout=spec.get("timeout", "10m"))
    found = []
    for given in spec["calls"]:
        fails = given.pop("fails", False)
        try:
            with gate.guard(Call(**given)) as verdict:
                found.append(said := _said(verdict))
                if verdict:
                    with Path(spec["witness"]).open("a") as out:
                        out.write(f"{given['arguments']['order']}\n")
                    if fails:
                        raise ValueError("the bank is closed")
        except ValueError:
            said["raised"] = True
    return found


def _said(verdict: Any) -> dict[str, Any]:
    kind = type(verdict).__name__
    return {"verdict": kind, "id": verdict.request_id, **({"reason": verdict.reason} if kind == "Deny" else {})}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
