"""`placet serve` and `placet demo` as users run them: a process of its own, from the first start to the end."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.running import PLACET, environment, placet
from tests.support.desk_server import PASSWORD

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 90.0
SERVE = ["serve", "tests.desk.api.agents_here:agents", "--port", "0"]


class Process:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""

    def read_until(self, words: str) -> str:
        """What it printed up to these words."""
        assert self.process.stdout is not None
        while words not in self.said:
            line = self.process.stdout.readline()
            assert line, f"{words!r} was not said in:\n{self.said}"
            self.said += line
        return self.said

    @property
    def url(self) -> str:
        found = re.search(r"at (http\S+)", self.said)
        assert found is not None, self.said
        return found[1]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[Process]:
    process = subprocess.Popen(  # noqa: S603  # a program of our own
        [*PLACET, *arguments],
        cwd=cwd,
        env=environment({"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def when(url: str, path: str, headers: dict[str, str], is_right: Any) -> Any:
    """Ask until the answer is what is waited for."""
    give_up = time.monotonic() + PATIENCE
    while True:
        answer = httpx2.get(f"{url}{path}", headers=headers, timeout=PATIENCE).json()
        if is_right(answer):
            return answer
        assert time.monotonic() < give_up, answer
        time.sleep(0.05)


def test_from_the_first_start_to_an_approved_call_and_over_a_restart(tmp_path: Path) -> None:
    with running(*SERVE, cwd=tmp_path) as desk:
        said = desk.read_until("Ctrl-C ends it")
        (key,) = re.findall(r"/invitation\?key=(\S+)", said)
        browser = httpx2.Client(base_url=desk.url, timeout=PATIENCE, headers={"Origin": desk.url})
        form = {"key": key, "name": "ana", "password": PASSWORD, "again": PASSWORD}
        welcomed = browser.post("/invitation", data=form)
        assert welcomed.status_code == 303, welcomed.text
        word = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/account").text)
        assert word is not None
        headers = {"X-CSRF-Token": word[1]}
        token = browser.post("/v1/tokens", json={"name": "tests"}, headers=headers).json()["token"]
        started = browser.post("/v1/runs", json={"agent": "Support", "input": "hi"}, headers=headers).json()
        browser.close()
        bearer = {"Authorization": f"Bearer {token}"}
        when(desk.url, f"/v1/runs/{started['id']}", bearer, lambda run: run["status"] == "waiting")
        ended = desk.stop()
    with running(*SERVE, cwd=tmp_path) as desk:
        said = desk.read_until("Ctrl-C ends it")
        waiting = httpx2.get(f"{desk.url}/v1/approvals", headers=bearer, timeout=PATIENCE).json()["data"]
        given = {"decisions": [{"id": each["id"], "decision": "approve"} for each in waiting]}
        httpx2.post(f"{desk.url}/v1/decisions", json=given, headers=bearer, timeout=PATIENCE)
        run = when(desk.url, f"/v1/runs/{started['id']}", bearer, lambda run: run["status"] == "ended")
        interrupted = desk.stop(signal.SIGINT)

    assert ended == 0
    assert "first admin" not in said
    assert len(waiting) == 2
    assert (run["started_by"], run["final_output"]) == ("ana", "Both orders are settled.")
    assert interrupted == 130
    assert token not in said


def fails(*arguments: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603  # a program of our own
        [*PLACET, *arguments],
        cwd=cwd,
        env=environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_a_public_bind_without_authentication_is_refused_at_start(host: str, tmp_path: Path) -> None:
    code, said = fails(*SERVE, "--no-auth", "--host", host, cwd=tmp_path)

    assert code == 2
    assert said.startswith("placet: A desk without authentication")
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_served_is_said_in_words(tmp_path: Path) -> None:
    without = fails("serve", cwd=tmp_path)
    half = fails(*SERVE, "--tls-cert", "x", cwd=tmp_path)
    no_file = fails(*SERVE, "--tls-cert", "x", "--tls-key", "y", cwd=tmp_path)
    module = fails("serve", "no_such_module:agents", cwd=tmp_path)
    store = fails(*SERVE, "--store", "sqlite:///no/such/folder/x.db", cwd=tmp_path)

    assert (without[0], half[0], module[0], store[0]) == (2, 2, 2, 1)
    assert "say where the agents are" in without[1]
    assert "belong together" in half[1]
    assert (no_file[0], "the file of --tls-cert, x, is not there" in no_file[1]) == (2, True)
    assert "directory does not exist" in store[1]
    assert "Traceback" not in without[1] + half[1] + module[1] + store[1]


def test_a_port_that_is_taken_is_said_in_words(tmp_path: Path) -> None:
    with running(*SERVE, "--no-auth", cwd=tmp_path) as desk:
        desk.read_until("Ctrl-C ends it")
        port = desk.url.rpartition(":")[2]
        code, said = fails("serve", "tests.desk.api.agents_here:agents", "--port", port, cwd=tmp_path)

    assert code == 1
    assert f"port {port} on 127.0.0.1 cannot be used: another program has it" in said


def test_an_open_desk_says_so_and_knows_the_user_of_this_machine(tmp_path: Path) -> None:
    with running(*SERVE, "--no-auth", cwd=tmp_path) as desk:
        said = desk.read_until("Ctrl-C ends it")
        me = httpx2.get(f"{desk.url}/v1/me", timeout=PATIENCE).json()

    assert "nobody is asked who they are" in said
    assert (me["role"], me["via"]) == ("admin", "open")


def test_the_demo_has_runs_that_wait_and_deciding_one_has_its_effect(tmp_path: Path) -> None:
    with running("demo", "--no-open", "--port", "0", cwd=tmp_path) as demo:
        demo.read_until("Ctrl-C ends the desk")
        page = when(demo.url, "/v1/approvals", {}, lambda found: len(found["data"]) >= 8)
        tools = {each["tool"] for each in page["data"]}
        refund = next(each for each in page["data"] if each["arguments"].get("order_id") == "1042")
        decision = {"decisions": [{"id": refund["id"], "decision": "approve", "digest": refund["digest"]}]}
        httpx2.post(f"{demo.url}/v1/decisions", json=decision, timeout=PATIENCE)
        run = when(demo.url, f"/v1/runs/{refund['run_id']}", {}, lambda found: found["status"] == "ended")
        inbox = httpx2.get(f"{demo.url}/inbox", headers={"Accept": "text/html"}, timeout=PATIENCE)
        demo.read_until(f"{refund['run_id']}  Support  ended")  # the picture of a run that ended
        code = demo.stop(signal.SIGINT)

    assert tools == {"refund", "send_campaign", "restart_service", "run_sql", "change_bank_account"}
    assert any(each["agent"] != each["agent"].partition("/")[0] for each in page["data"])
    assert "refunded 49.00 EUR for order 1042" in run["final_output"]
    assert "49.00 EUR for order 1042" in (tmp_path / ".placet-demo" / "effects.txt").read_text("utf-8")
    assert inbox.status_code == 200
    assert "waits with refund order_id" in demo.said  # no terminal: a line for each
    assert code == 130


def test_the_demo_goes_on_where_it_was_and_starts_afresh_when_told(tmp_path: Path) -> None:
    counts = []
    for more in ([], [], ["--reset"]):
        with running("demo", "--no-open", "--port", "0", *more, cwd=tmp_path) as demo:
            demo.read_until("Ctrl-C ends the desk")
            page = when(demo.url, "/v1/approvals", {}, lambda found: len(found["data"]) >= 8)
            counts.append(sorted(each["run_id"] for each in page["data"]))
            demo.stop()

    assert counts[0] == counts[1]
    assert not set(counts[1]) & set(counts[2])


def test_the_demo_is_at_a_desk_or_in_the_terminal(tmp_path: Path) -> None:
    code, said = fails("demo", "--terminal", "--port", "1", cwd=tmp_path)

    assert code == 2
    assert "choose" in said
    assert list(tmp_path.iterdir()) == []


SLOW = """
import asyncio
from pathlib import Path

from placet import Agent, function_tool
from placet.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
async def pay(order: int) -> str:
    Path("effects.log").write_text("begun ")
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    Path("effects.log").write_text("begun and over")
    return "paid"


call = function_call("pay", {"order": 7}, call_id="c1")
agents = [Agent("Clerk", tools=[pay], model=ScriptedModel([[call], [assistant_message("bye")]]))]
"""


def begin_to_pay(desk: Process, folder: Path) -> str:
    desk.read_until("Ctrl-C ends it")
    post = functools.partial(httpx2.post, timeout=PATIENCE, headers={"Origin": desk.url})
    run = post(f"{desk.url}/v1/runs", json={"agent": "Clerk", "input": "pay"}).json()
    (asked,) = when(desk.url, "/v1/approvals", {}, lambda found: len(found["data"]) == 1)["data"]
    post(f"{desk.url}/v1/decisions", json={"decisions": [{"id": asked["id"], "decision": "approve"}]})
    give_up = time.monotonic() + PATIENCE
    while not (folder / "effects.log").exists():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return str(run["id"])


def test_a_call_that_has_begun_may_end_when_the_desk_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    with running("serve", "slow:agents", "--port", "0", "--no-auth", cwd=tmp_path) as desk:
        run = begin_to_pay(desk, tmp_path)
        desk.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # it must still be there then: there is no event to wait for
        was_there = desk.process.poll() is None
        (tmp_path / "go").touch()
        code = desk.process.wait(PATIENCE)
    told = placet("show", run, cwd=tmp_path).stdout

    assert (was_there, code) == (True, 0)
    assert (tmp_path / "effects.log").read_text() == "begun and over"
    assert "broken off" not in told


def test_what_does_not_end_in_time_is_broken_off_and_in_doubt(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    with running("serve", "slow:agents", "--port", "0", "--no-auth", "--grace=0", cwd=tmp_path) as desk:
        run = begin_to_pay(desk, tmp_path)
        code = desk.stop(signal.SIGINT)
    told = placet("show", run, cwd=tmp_path).stdout

    assert code == 130
    assert (tmp_path / "effects.log").read_text() == "begun "
    assert "broken off while it ran" in " ".join(told.split())  # a picture breaks its lines


def test_a_second_signal_waits_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    with running("serve", "slow:agents", "--port", "0", "--no-auth", "--grace=3600", cwd=tmp_path) as desk:
        begin_to_pay(desk, tmp_path)
        desk.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        code = desk.stop(signal.SIGINT)

    assert code in (130, -signal.SIGINT)
    assert (tmp_path / "effects.log").read_text() == "begun "


def test_four_eyes_that_one_start_demanded_hold_at_every_later_start(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'placet.db'}"
    with running(*SERVE, "--store", store, "--four-eyes", "Support:refund", cwd=tmp_path) as desk:
        desk.read_until("Ctrl-C ends it")
    with running(*SERVE, "--store", store, "--four-eyes", "Payroll*", cwd=tmp_path) as desk:
        desk.read_until("Ctrl-C ends it")
    with running(*SERVE, "--store", store, cwd=tmp_path) as desk:
        desk.read_until("Ctrl-C ends it")
        shown = placet("four-eyes", "--store", store, cwd=tmp_path)
    told = placet("audit", "list", "operators", "--store", store, cwd=tmp_path).stdout

    assert "Support:refund, Payroll*:*" in shown.stdout
    assert told.count("four eyes set") == 2
