"""A store on which no desk is up: what guests left there is found all the same."""

from __future__ import annotations

from pathlib import Path

from placet.gate import Gate
from tests.cli.running import placet


async def test_a_call_whose_guest_is_gone_is_asked_about_when_somebody_looks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    async with Gate(url, guest="jobs") as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c1", needs_approval=False)
        await gate.claim(call, lease=0.001)
    found = placet("pending", "--store", url, "--json", cwd=tmp_path)

    assert found.returncode == 0, found.stderr
    assert '"in_doubt"' in found.stdout
    assert '"refund"' in found.stdout
