"""A fleet tells webhooks: its workers do, also while no desk is there, with the address that a desk once told."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.service.subscriptions import Filters
from placet.testing.run_writer import until
from tests.fleet import crew
from tests.fleet.scenes import desk
from tests.fleet.workers import WorkerProcess
from tests.service.receivers import receiver
from tests.support.postgres import PostgresServer


@pytest.mark.promise("P25")
async def test_a_worker_tells_webhooks_with_the_address_of_the_desk(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACET_WEBHOOK_HOSTS", "localhost")
    url = postgres.fleet_database()
    async with receiver() as server, desk(url) as made:
        await made.outbox.publish("https://desk.example.com")
        await made.outbox.subscriptions.add("one", server.url, Filters(events=["request.waiting"]))

        async def is_told() -> bool:
            return bool(server.requests)

        env = {"PLACET_SOAK_WITNESS": str(tmp_path / "witness")}
        with WorkerProcess(url, "--grace", "1", **env) as process:
            await process.is_ready()
            async with desk(url, *crew.agents) as other:
                run = await other.start("Crew", "pay")
            await until(is_told)

    data = server.events[0]["data"]
    assert isinstance(data, dict)
    assert data["run_id"] == run.id
    assert data["url"] == f"https://desk.example.com/inbox?open={data['request_id']}"
