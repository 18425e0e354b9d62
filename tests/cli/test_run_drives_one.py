"""`placet run` drives the run it was asked for, and none of the others that lie in the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import placet

AGENTS = '''
from pathlib import Path

from placet import Agent, function_tool
from placet.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
async def pay(order: int) -> str:
    with Path("effects.log").open("a") as file:
        file.write(f"paid {order}\\n")
    return "paid"


class Clerk:
    """Pays when it is told to, and says good-bye otherwise, also in a process that comes later."""

    async def get_response(self, request):
        said = str(request.input)
        is_new = "pay" in str(request.input[0]) and "function_call_output" not in said
        answer = function_call("pay", {"order": 7}, call_id="c1") if is_new else assistant_message("bye")
        return await ScriptedModel([[answer]]).get_response(request)


agents = [Agent("Clerk", tools=[pay], model=Clerk()), Agent("Other", model=Clerk())]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


def run_of(folder: Path, *arguments: str) -> dict[str, Any]:
    found = placet("run", "shop:agents", *arguments, "--json", cwd=folder)
    assert found.returncode == 0, found.stderr
    told: dict[str, Any] = json.loads(found.stdout)
    return told


def test_another_run_is_not_touched_however_much_it_has_to_do(folder: Path) -> None:
    first = run_of(folder, "pay order 7", "--agent", "Clerk")
    approved = placet("approve", first["pending"][0]["id"], cwd=folder)

    second = run_of(folder, "hello", "--agent", "Clerk")

    assert approved.returncode == 0, approved.stderr
    assert second["run"]["final_output"] == "bye"
    assert not (folder / "effects.log").exists()
    gone_on = run_of(folder, "--go-on", first["run"]["id"])
    assert gone_on["run"]["final_output"] == "bye"
    assert (folder / "effects.log").read_text() == "paid 7\n"


def test_a_run_of_an_agent_that_is_not_among_these_is_wrong_usage(folder: Path) -> None:
    first = run_of(folder, "pay order 7", "--agent", "Clerk")
    (folder / "shop.py").write_text(AGENTS.replace('Agent("Clerk"', 'Agent("Somebody"'), encoding="utf-8")

    found = placet("run", "shop:agents", "--go-on", first["run"]["id"], cwd=folder)

    assert found.returncode == 2
    assert "is of agent 'Clerk', which is not among shop:agents" in found.stderr
