"""What `placet approve` and `show` say of votes, over HTTP with a token and straight on the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import Agent, Needs, function_tool
from placet.cli.main import main
from placet.testing import function_call
from tests.desk.scenes import Planned
from tests.support.desk_server import in_thread

pytestmark = pytest.mark.promise("P24")


def treasury() -> Agent[Any]:
    @function_tool(needs_approval=True, approvers=Needs(2))
    async def transfer(cents: int) -> str:
        """Pay somebody."""
        return f"paid {cents}"

    return Agent("Treasury", tools=[transfer], model=Planned([function_call("transfer", {"cents": 5}, call_id="t1")]))


@pytest.mark.parametrize("way", ["store", "http"])
def test_a_vote_is_told_with_its_voter_and_only_once_as_new(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LOGNAME", "ana")
    monkeypatch.delenv("PLACET_TOKEN", raising=False)
    with in_thread(tmp_path, agents=[treasury()]) as server:
        accounts = server.running.web.accounts
        server.do(accounts.add_user("ana", "admin"))
        server.do(accounts.add_user("ben", "reviewer"))
        token, _ = server.do(accounts.add_token("ana", "cli"))
        run = server.do(server.running.waiting_run("Treasury", by="web-form"))
        [request] = server.do(server.running.desk.pending(run_id=run.id))
        place = ["--store", f"sqlite:///{tmp_path / 'placet.db'}"] if way == "store" else ["--desk", server.url]
        if way == "http":
            monkeypatch.setenv("PLACET_TOKEN", token)

        def said(*words: str) -> str:
            code = main([*words, *place])
            shown = capsys.readouterr()
            assert code == 0, shown.err
            return shown.out

        before = said("show", request.id)
        first = said("approve", request.id)
        again = said("approve", request.id)
        after = said("show", request.id)

    assert "your yes leaves 1 missing" in before
    assert first.startswith("Vote counted, 1 missing: transfer")
    assert again.startswith("Your vote stood already, 1 missing: transfer")
    for told in (first, again):
        assert "somebody" not in told
        assert any(line.split() == ["by", "ana"] for line in told.splitlines())
    assert "your yes is counted" in after
