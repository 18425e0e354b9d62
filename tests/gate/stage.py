"""A desk whose people say the same about everything, for guests in processes of their own; a file counts effects."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from placet.desk import Desk
from placet.desk.app import create_app
from tests.desk.scenes import Witness
from tests.gate.scenes import serving
from tests.support.desk_server import FAST

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0


class Stage:
    """A desk whose people say the same about everything, and guests in processes of their own."""

    def __init__(self, desk: Desk, given: dict[str, Any], witness: Witness) -> None:
        self.desk = desk
        self.given = given
        self.witness = witness
        self.verdicts: dict[str, str] = {"approval": "approve", "in_doubt": "reject"}
        self.asked: list[str] = []
        self.approved: list[str] = []
        """The orders of the calls that were approved."""

    async def guest(self, dies_at: str | None = None, **more: Any) -> str:
        """What the guest says of the call; empty: it was killed."""
        spec = {"gate": self.given, "witness": str(self.witness.path), "dies_at": dies_at, **more}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.gate.guest", json.dumps(spec), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        return out.decode().strip()

    async def people(self) -> None:
        """Decide whatever waits, until cancelled."""
        while True:
            latest = await self.desk.store.latest_sequence()
            for request in await self.desk.pending():
                if request.kind in self.verdicts:
                    self.asked.append(request.kind)
                    verdict = self.verdicts[request.kind]
                    await self.desk.decide(request.id, verdict, by="ops")  # type: ignore[arg-type]
                    if verdict == "approve":
                        self.approved.append(str((request.arguments or {}).get("order")))
            await self.desk.store.wait_for_news(latest, 1.0)

    @contextlib.asynccontextmanager
    async def with_people(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.people())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def stage(kind: str, tmp_path: Path, port: int = 0) -> AsyncIterator[Stage]:
    url, witness = f"sqlite:///{tmp_path / 'placet.db'}", Witness(tmp_path / "witness")
    async with Desk(url, run=False) as desk:
        app = create_app(desk, FAST)  # it looks after leases, too
        async with serving(app, port) as address:
            if kind == "embedded":
                yield Stage(desk, {"at": url, "guest": "jobs"}, witness)
                return
            accounts = app.state.web.accounts
            if await accounts.user("jobs") is None:
                await accounts.add_user("jobs", "guest")
            token, _ = await accounts.add_token("jobs", "a test")
            yield Stage(desk, {"at": address, "token": token}, witness)
