"""A worker that is cut off from the database: others take over, and what it does then counts for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.desk import Desk
from placet.stores.postgres import PostgresStore
from tests.desk.scenes import Witness
from tests.fleet import crew
from tests.fleet.hosts import Host, hosts, namespaces_are_allowed
from tests.fleet.scenes import PATIENCE, sooner_or_later
from tests.fleet.workers import WorkerProcess
from tests.support.postgres import PostgresServer

LEASE = 2.0


def kinds() -> list[str]:
    """Namespaces where the machine allows them; the proxy everywhere."""
    return ["proxy", "namespaces"] if namespaces_are_allowed() else ["proxy"]


@pytest.mark.parametrize("kind", kinds())
async def test_a_worker_that_is_cut_off_is_replaced_and_can_do_nothing_when_it_is_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = Witness(tmp_path / "witness")
    monkeypatch.setenv(crew.WITNESS, str(witness.path))
    with hosts(2, namespaces=kind == "namespaces") as (server, (first, second)):
        database = server.new_database().partition("?")[0].rpartition("/")[2]
        await scene(server, database, first, second, witness)
    effects = [line.split()[1] for line in witness.lines()]

    assert len(effects) == len(set(effects)) == 7


async def scene(server: PostgresServer, database: str, first: Host, second: Host, witness: Witness) -> None:
    """Three runs linger in the first worker when it is cut off, and go on in the second one; then the first is back."""
    options = ("--lease", str(LEASE), "--grace", "1")
    async with PostgresStore(server.url(database), lease_ttl=LEASE) as store:
        desk = Desk(store, agents=crew.agents, run=False)
        with WorkerProcess(first.url(database), *options, prefix=first.prefix) as cut_off:
            await cut_off.is_ready()
            runs = [(await desk.start("Crew", "linger|pay")).id for _ in range(3)]
            await sooner_or_later(lambda: len(witness.lines()) == 3)
            first.cut()
            with WorkerProcess(second.url(database), *options, prefix=second.prefix) as other:
                await other.is_ready()
                await sooner_or_later(lambda: asked(desk, 3))
                first.mend()
                for request in await desk.pending():
                    await desk.decide(request.id, "approve", by="ana")
                ended = [await desk.wait(run, timeout=PATIENCE) for run in runs]
            alone = await desk.start("Crew", "note")
            last = await desk.wait(alone.id, timeout=PATIENCE)
            assert cut_off.is_alive, cut_off.said()

    assert {run.status for run in ended} == {"ended"}
    assert last.status == "ended"


async def asked(desk: Desk, count: int) -> bool:
    return len(await desk.pending()) == count
