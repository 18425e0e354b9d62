"""`placet doctor` and `placet audit` on a real store file, as real processes."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import zlib
from pathlib import Path

import pytest

from placet import Agent, function_tool
from placet.desk import Desk
from placet.testing import ScriptedModel, function_call
from tests.cli.running import placet

AGENTS = """
from placet import Agent, function_tool

@function_tool(needs_approval=True)
async def {tool}({parameters}) -> str:
    return "done"

agents = [Agent(name="{agent}", tools=[{tool}])]
"""


@pytest.fixture
async def store(tmp_path: Path) -> str:
    """A store with one run that waits for a refund."""

    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return "done"

    call = function_call("refund", {"order": "7"}, call_id="c1")
    support = Agent(name="Support", tools=[refund], model=ScriptedModel([[call]]))
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Desk(url, agents=[support]) as desk:
        run = await desk.start("Support", "refund order 7")
        await desk.wait(run.id, until="paused", timeout=120)
    return url


def write_agents(folder: Path, *, tool: str = "refund", parameters: str = "order: str", agent: str = "Support") -> None:
    text = AGENTS.format(tool=tool, parameters=parameters, agent=agent)
    (folder / "shop_agents.py").write_text(text, encoding="utf-8")


def test_the_doctor_finds_nothing_where_the_code_is_what_it_was(store: str, tmp_path: Path) -> None:
    write_agents(tmp_path)

    found = placet("doctor", "shop_agents:agents", "--store", store, cwd=tmp_path)

    assert (found.returncode, found.stdout) == (0, "1 runs looked at: 0 cannot go on, 0 will be asked about anew.\n")


def test_the_doctor_remarks_on_a_store_that_others_can_read(store: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # pytest's own folders keep others out
        folder, file = Path(place), Path(place) / "runs.db"
        folder.chmod(0o755)
        write_agents(folder)
        file.write_bytes((tmp_path / "runs.db").read_bytes())
        words = ["doctor", "shop_agents:agents", "--store", f"sqlite:///{file}"]
        file.chmod(0o600)
        private = placet(*words, cwd=folder)
        file.chmod(0o644)
        wide, as_json = placet(*words, cwd=folder), placet(*words, "--json", cwd=folder)

    assert "file_open_to_others" not in private.stdout
    assert f"! {file}  file_open_to_others" in wide.stdout
    assert "chmod 600" in wide.stdout
    assert (private.returncode, wide.returncode) == (0, 0)
    told = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert any({"file": str(file), "code": "file_open_to_others"}.items() <= each.items() for each in told)


@pytest.mark.parametrize(
    ("change", "codes", "exit_code"),
    [
        ({"tool": "pay_back"}, ["tool_gone"], 1),
        ({"agent": "Helpdesk"}, ["agent_gone"], 1),
        ({"parameters": "order: int, cents: int"}, ["schema_changed", "arguments_invalid"], 1),
        ({"parameters": "order: str, note: str = ''"}, ["schema_changed"], 0),
    ],
    ids=["tool gone", "agent renamed", "arguments no longer fit", "schema changed"],
)
def test_the_doctor_says_what_changed(
    store: str, tmp_path: Path, change: dict[str, str], codes: list[str], exit_code: int
) -> None:
    write_agents(tmp_path, **change)

    found = placet("doctor", "shop_agents:agents", "--store", store, "--json", cwd=tmp_path)
    [examined] = [json.loads(line) for line in found.stdout.splitlines()]

    assert [finding["code"] for finding in examined["findings"]] == codes
    assert found.returncode == exit_code


def test_agents_that_are_not_there_are_wrong_usage(store: str, tmp_path: Path) -> None:
    found = placet("doctor", "no_such_module:agents", "--store", store, cwd=tmp_path)

    assert found.returncode == 2
    assert "no_such_module" in found.stderr


def test_whole_logs_are_whole(store: str, tmp_path: Path) -> None:
    found = placet("audit", "verify", "--store", store, cwd=tmp_path)

    assert (found.returncode, found.stdout) == (0, "1 runs checked, 0 not whole.\n")


def forge(url: str, old: bytes, new: bytes) -> None:
    """Change a line as somebody would who knows how the store checks its disk."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        rows = database.execute("SELECT sequence, text FROM placet_lines").fetchall()
        [(sequence, text)] = [(number, line) for number, line in rows if old in line]
        forged = text.replace(old, new)
        database.execute(
            "UPDATE placet_lines SET text = ?, checksum = ? WHERE sequence = ?", (forged, zlib.crc32(forged), sequence)
        )


def test_a_changed_line_is_found_by_the_chain(store: str, tmp_path: Path) -> None:
    forge(store, b"refund order 7", b"refund order 8")

    found = placet("audit", "verify", "--store", store, cwd=tmp_path)

    assert found.returncode == 1
    assert "altered" in found.stdout


def test_a_run_that_is_gone_is_found_by_a_head_that_was_kept(store: str, tmp_path: Path) -> None:
    heads = placet("audit", "head", "--store", store, cwd=tmp_path).stdout
    (tmp_path / "heads.txt").write_text(heads + "run_gone 3 abcdef\n", encoding="utf-8")

    found = placet("audit", "verify", "--store", store, "--head", "heads.txt", cwd=tmp_path)

    assert found.returncode == 1
    assert found.stdout.splitlines()[0].startswith("✗ run_gone  missing")


async def test_audit_list_tells_who_did_what_when_why_and_about_what(store: str, tmp_path: Path) -> None:
    async with Desk(store, run=False) as desk:
        (request,) = await desk.pending()
        await desk.hold("tool", "refund", by="ops", reason="month's end")
        await desk.decide(request.id, "approve", by="ana", reason="checked")
        await desk.revoke(request.id, by="ben")
        await desk.release_hold("tool", "refund", by="ops")

    told = placet("audit", "list", "--store", store, cwd=tmp_path)
    alone = placet("audit", "list", "operators", "--store", store, "--json", cwd=tmp_path)
    nobody = placet("audit", "list", "run_x", "--store", store, cwd=tmp_path)
    checked = placet("audit", "verify", "--store", store, cwd=tmp_path)
    wrong = placet("audit", "verify", request.run_id, "--store", store, cwd=tmp_path)

    lines = [line.partition("  ")[2] for line in told.stdout.splitlines()]
    call, digest = request.id.rpartition("_")[0], f"[{request.digest[:16]}]"
    assert lines == [
        "hold placed       tool refund  by ops: month's end",
        f"approved          {call} (refund)  by ana: checked  {digest}",
        f"approval revoked  {call} (refund)  by ben  {digest}",
        "hold lifted       tool refund  by ops",
    ]
    assert [json.loads(line)["what"] for line in alone.stdout.splitlines()] == ["hold placed", "hold lifted"]
    assert (nobody.returncode, "there is no run 'run_x'" in nobody.stderr) == (1, True)
    assert checked.stdout == "1 runs and the operators' log checked, 0 not whole.\n"
    assert (wrong.returncode, "unexpected extra argument" in wrong.stderr) == (2, True)


async def test_audit_erase_refuses_what_waits_and_erases_what_has_ended(store: str, tmp_path: Path) -> None:
    @function_tool(needs_approval=True)
    async def refund(order: str) -> str:
        return "done"

    async with Desk(store, run=False) as desk:
        (run,) = (await desk.runs()).rows
    waiting = placet("audit", "erase", run.id, "--store", store, cwd=tmp_path)
    async with Desk(store, agents=[Agent(name="Support", tools=[refund], model=ScriptedModel([]))]) as desk:
        await desk.cancel(run.id)
        await desk.wait(run.id, timeout=120)
    options = ("--store", store, "--by", "dpo", "--reason", "request 12")
    erased = placet("audit", "erase", run.id, *options, cwd=tmp_path)
    again = placet("audit", "erase", run.id, *options, "--json", cwd=tmp_path)
    checked = placet("audit", "verify", "--store", store, cwd=tmp_path)
    told = placet("audit", "list", "--store", store, cwd=tmp_path)
    nobody = placet("audit", "erase", "--store", store, cwd=tmp_path)

    assert (waiting.returncode, "waits for people" in waiting.stderr) == (1, True)
    assert (erased.returncode, erased.stdout) == (
        0,
        f"Run {run.id} is erased. Backups, sessions and forks of it are not.\n",
    )
    assert json.loads(again.stdout) == {"run_id": run.id, "erased": False}
    first, last = checked.stdout.splitlines()
    assert first.startswith(f"· {run.id}  erased by dpo at 20")
    assert last == "1 runs and the operators' log checked, 0 not whole."
    assert "run erased" in told.stdout
    assert "by dpo: request 12" in told.stdout
    assert (nobody.returncode, "Missing argument 'RUN'" in nobody.stderr) == (2, True)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def agents(): ...", "is of type function, and neither an Agent nor a list of Agents"),
        ("agents = 3", "is of type int"),
        ("other = []", "has no 'agents'"),
        ("agents = [", "was never closed"),
        ("agents = 1 / 0", "ZeroDivisionError: division by zero"),
        ("import placet_no_such_thing", "there is no module 'placet_no_such_thing'"),
    ],
)
def test_code_that_holds_no_agents_is_wrong_usage_and_says_where(code: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "shop_agents.py").write_text(code)

    found = placet("run", "shop_agents:agents", "hello", cwd=tmp_path)

    assert found.returncode == 2
    assert words in found.stderr
    assert "Traceback" not in found.stderr


async def test_audit_tells_a_run_that_was_deleted_from_one_that_is_lost(store: str, tmp_path: Path) -> None:
    kept = placet("audit", "head", "--store", store, cwd=tmp_path).stdout
    (tmp_path / "heads.txt").write_text(f"{kept}run_lost 3 {'ab' * 32}\n")
    async with Desk(store, run=False) as desk:
        (run,) = (await desk.runs()).rows
        await desk.delete(run.id, by="dpo", reason="request 12")
    compared = placet("audit", "verify", "--head", "heads.txt", "--store", store, cwd=tmp_path)
    told = placet("audit", "list", "operators", "--store", store, cwd=tmp_path)

    about_operators, about_deleted, about_lost, last = compared.stdout.splitlines()
    assert compared.returncode == 1
    assert about_operators == "· operators  it tells of 1 deleted run"
    assert about_deleted.startswith(f"· {run.id}  deleted by dpo at 20")
    assert about_lost.startswith("✗ run_lost  missing: ")
    assert last == "2 runs and the operators' log checked, 1 not whole."
    assert f"run deleted       {run.id} (3 lines)  by dpo: request 12" in told.stdout
