"""The provider of the Agent Approval Protocol: the protocol's own library is the client, an outside witness counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

import dev
from placet.desk import Desk
from placet.desk.api.aap_requests import AapRequests
from placet.desk.app import create_app
from placet.desk.web.problems import Problem
from placet.runtime.journal import load_recent
from placet.service.guest_limits import GuestLimits
from tests.desk.scenes import Witness
from tests.docs.pages import DOCS
from tests.gate.scenes import RemoteScene, remote_scene, serving
from tests.support.desk_server import FAST

pytestmark = [pytest.mark.promise("P23"), pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "hosts"
PYTHON = dev.DEV / "hosts" / "agentapprovalprotocol" / "bin" / "python"
PATIENCE = 90.0
LIMITS = GuestLimits(max_lease=1.0)
STEPS = ("created", "decided", "consumed", "done", "reported")
BODY: dict[str, Any] = {"tool": "refund", "arguments": {"order": "7", "cents": 4200}, "timeout": "10m"}


# -- the library -------------------------------------------------------------------------------------------------------


class Provider:
    """A desk whose people say the same about everything, and programs with the protocol's library."""

    def __init__(self, desk: Desk, url: str, token: str, witness: Witness) -> None:
        self.desk = desk
        self.spec: dict[str, Any] = {"url": f"{url}/aap", "token": token, "witness": str(witness.path)}
        self.witness = witness
        self.asked: list[str] = []
        self.news = asyncio.Condition()
        self.verdicts: dict[str, str] = {"approval": "approve", "in_doubt": "reject"}

    async def program(self, *keys: str, **more: Any) -> Any:
        """What its gate said of each call; None: it was killed."""
        calls = [{"key": key, "tool": "refund", "arguments": {"order": key}} for key in keys]
        return await self.program_of(calls, **more)

    async def program_of(self, calls: list[dict[str, Any]], **more: Any) -> Any:
        process = await asyncio.create_subprocess_exec(
            str(PYTHON),
            str(HERE / "aap_client.py"),
            json.dumps({**self.spec, "calls": calls, **more}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode in (0, 9), errors.decode()
        return json.loads(out) if process.returncode == 0 else None

    async def people(self) -> None:
        while True:
            latest = await self.desk.store.latest_sequence()
            for request in await self.desk.pending():
                self.asked.append(request.kind)
                said = self.verdicts.get(str(request.arguments.get("order")), self.verdicts[request.kind])
                verdict: Any = said
                more: Any = {"message": "Ask them first."} if verdict == "reject" else {}
                await self.desk.decide(request.id, verdict, by="ops", **more)
                async with self.news:
                    self.news.notify_all()
            await self.desk.store.wait_for_news(latest, 1.0)

    async def has_been_asked(self, kind: str, since: int = 0) -> None:
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: kind in self.asked[since:])

    @contextlib.asynccontextmanager
    async def with_people(self, **verdicts: str) -> AsyncIterator[None]:
        self.verdicts |= verdicts
        task = asyncio.create_task(self.people())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(scope="module", autouse=True)
def _library() -> None:
    lock = HERE / "agentapprovalprotocol.lock"
    dev.set_up_apart(dev.DEV / "hosts" / lock.stem, lock, f"{lock.stem}, for the tests")


@contextlib.asynccontextmanager
async def provider(folder: Path) -> AsyncIterator[Provider]:
    async with Desk(f"sqlite:///{folder / 'calls.db'}", run=False, guest_limits=LIMITS) as desk:
        app = create_app(desk, FAST)
        async with serving(app) as url:
            accounts = app.state.web.accounts
            await accounts.add_user("bot", "guest")
            token, _ = await accounts.add_token("bot", "a test")
            yield Provider(desk, url, token, Witness(folder / "witness"))


async def test_its_library_runs_what_is_approved_once_and_reads_why_the_rest_is_not(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene:
        async with scene.with_people():
            approved = await scene.program("7", "7")
        async with scene.with_people(approval="reject"):
            denied = await scene.program("8")

        assert [said["verdict"] for said in approved] == ["Allow", "Deny"]
        assert "already attempted" in approved[1]["reason"]
        assert "Ask them first." in denied[0]["reason"]
        assert scene.witness.lines() == ["7"]
        assert [row.agent for row in (await scene.desk.runs()).rows] == ["aap/bot"]


async def test_two_equal_calls_under_two_keys_are_asked_about_twice(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene, scene.with_people():
        same = {"tool": "refund", "arguments": {"order": "7"}}
        said = await scene.program_of([{"key": "a", **same}, {"key": "b", **same}])

        assert [each["verdict"] for each in said] == ["Allow", "Allow"]
        assert scene.asked == ["approval", "approval"]
        assert scene.witness.lines() == ["7", "7"]


async def test_what_a_tool_raised_is_reported_as_failed(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene, scene.with_people():
        call = {"key": "a", "tool": "refund", "arguments": {"order": "7"}, "fails": True, "server": "bank"}
        said = await scene.program_of([call])

        (run,) = (await scene.desk.runs()).rows
        loaded = await load_recent(scene.desk.store, run.id)
        assert loaded is not None
        (told,) = loaded[2].calls.values()
        assert said[0]["raised"]
        assert (told.name, told.outcome) == ("bank/refund", "failed")


async def test_a_program_that_is_killed_at_any_step_runs_nothing_twice_and_is_asked_about(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene, scene.with_people():
        back, asked = {}, {}
        for step in STEPS:
            before = len(scene.asked)
            assert await scene.program(step, dies_at=step) is None
            (said,) = await scene.program(step)
            back[step] = said["verdict"]
            if step in ("consumed", "done"):
                await scene.has_been_asked("in_doubt", before)
            asked[step] = scene.asked[before:]

        assert back == {"created": "Allow", "decided": "Allow", "consumed": "Deny", "done": "Deny", "reported": "Deny"}
        assert scene.witness.lines() == ["created", "decided", "done", "reported"]
        doubt = ["approval", "in_doubt"]
        assert asked == {
            "created": ["approval"],
            "decided": ["approval"],
            "consumed": doubt,
            "done": doubt,
            "reported": ["approval"],
        }


async def test_what_a_person_says_is_to_run_again_is_run_by_whoever_asks_again(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene, scene.with_people(in_doubt="approve"):
        assert await scene.program("7", dies_at="consumed") is None
        await scene.has_been_asked("in_doubt")
        (said,) = await scene.program("7")
        (again,) = await scene.program("7")

        assert (said["verdict"], again["verdict"]) == ("Allow", "Deny")
        assert scene.witness.lines() == ["7"]


async def test_programs_that_race_for_one_approval_run_it_once(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene, scene.with_people():
        said = await asyncio.gather(*(scene.program("7") for _ in range(3)))

        assert sorted(each["verdict"] for (each,) in said) == ["Allow", "Deny", "Deny"]
        assert scene.asked == ["approval"]
        assert scene.witness.lines() == ["7"]


async def test_a_program_that_pauses_is_told_pending_and_asks_again_later(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene:
        (paused,) = await scene.program("7", mode="async")
        async with scene.with_people():
            await scene.has_been_asked("approval")
            (later,) = await scene.program("7", mode="async")

        assert (paused["verdict"], later["verdict"]) == ("Pending", "Allow")
        assert paused["id"] == later["id"]
        assert scene.witness.lines() == ["7"]


async def test_with_the_desk_away_nothing_runs(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene:
        (said,) = await scene.program("7", url="http://127.0.0.1:9/aap", retry_budget=0.5)

        assert said["verdict"] == "Deny"
        assert scene.witness.lines() == []


async def test_a_decision_that_comes_too_late_is_an_expiry(tmp_path: Path) -> None:
    async with provider(tmp_path) as scene:
        (said,) = await scene.program("7", timeout="1s")

        assert said["verdict"] == "Deny"
        assert "expired" in said["reason"]
        assert await scene.desk.pending() == []


async def test_the_program_of_the_page_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = (DOCS / "gate-aap.md").read_text("utf-8")
    program, shown = page.split("```python not-run\n")[1].split("```")[0], page.split("```text\n")[2].split("```")[0]
    async with provider(tmp_path) as scene, scene.with_people(**{"8": "reject"}):
        url = str(scene.spec["url"]).removesuffix("/aap")
        process = await asyncio.create_subprocess_exec(
            str(PYTHON),
            "-c",
            program,
            env=os.environ | {"DESK": url, "TOKEN": scene.spec["token"]},
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)

        assert out.decode() == shown


# -- the protocol ------------------------------------------------------------------------------------------------------


class Raw:
    """Requests of one guest, as they are on the wire."""

    def __init__(self, scene: RemoteScene, token: str) -> None:
        self.client = httpx2.AsyncClient(
            base_url=f"{scene.url}/aap/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    async def create(self, key: str | None = "k", **more: Any) -> httpx2.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.client.post("/requests", json={**BODY, **more}, headers=headers)

    async def get(self, request: str, wait: str = "") -> Any:
        return (await self.client.get(f"/requests/{request}", params={"wait": wait} if wait else {})).json()

    async def consume(self, request: str, key: str = "c") -> httpx2.Response:
        return await self.client.post(f"/requests/{request}/consume", headers={"Idempotency-Key": key})

    async def report(self, request: str, **body: Any) -> httpx2.Response:
        return await self.client.post(f"/requests/{request}/outcome", json=body)

    async def cancel(self, request: str) -> httpx2.Response:
        return await self.client.delete(f"/requests/{request}")


@contextlib.asynccontextmanager
async def raw() -> AsyncIterator[tuple[RemoteScene, Raw]]:
    async with remote_scene("sqlite://:memory:") as scene:
        client = Raw(scene, await scene.token("bot"))
        async with client.client:
            yield scene, client


async def _decide(scene: RemoteScene, verdict: str, **more: Any) -> None:
    for request in await scene.desk.pending():
        await scene.decide(request.id, verdict, **more)


def _code(answer: httpx2.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    assert error["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, error["type"], error["code"]


async def test_a_request_is_given_back_as_it_was_submitted_and_once_per_key() -> None:
    async with raw() as (scene, client):
        given = {"agent_reasoning": "twice", "context": {"call_id": "a", "n": [1, 2.5, None]}, "server": "bank"}
        first = await client.create(**given)
        again = await client.create(**given)
        other = await client.create(**given | {"context": {}})
        (asked,) = await scene.desk.pending()

        assert (first.status_code, again.status_code) == (201, 200)
        assert {name: first.json()[name] for name in given} == given
        assert first.json() == again.json()
        assert first.json()["arguments"] == BODY["arguments"]
        assert _code(other) == (409, "conflict", "idempotency_conflict")
        assert asked.tool == "bank/refund"


async def test_a_wait_ends_with_the_decision_and_the_decision_stays_as_it_was_told() -> None:
    async with raw() as (scene, client):
        request = (await client.create()).json()["id"]
        waiting = asyncio.create_task(client.get(request, "30s"))
        (asked,) = await scene.desk.pending()
        await scene.decide(asked.id, "approve")
        told = await asyncio.wait_for(waiting, PATIENCE)
        await scene.revoke(asked.id)
        after = await client.get(request)
        refused = await client.consume(request)

        assert told["status"] == "approved"
        assert told["decision"]["expires_at"] > told["decision"]["decided_at"]
        assert after == told
        assert _code(refused) == (409, "conflict", "approval_withdrawn")
        assert await scene.desk.pending() == []  # its client was told no: nobody is asked in vain


async def test_an_approval_is_taken_by_one_key_and_its_outcome_is_told_once() -> None:
    async with raw() as (scene, client):
        request = (await client.create()).json()["id"]
        early = await client.consume(request)
        unasked = await client.report(request, status="succeeded")
        await _decide(scene, "approve")
        taken = await client.consume(request, "one")
        same = await client.consume(request, "one")
        other = await client.consume(request, "two")
        told = await client.report(request, status="succeeded", note="paid")
        twice = await client.report(request, status="succeeded", note="paid")
        changed = await client.report(request, status="failed")

        assert _code(early) == (409, "conflict", "not_approved")
        assert _code(unasked) == (409, "conflict", "not_consumed")
        assert "consumption" in taken.json()
        assert same.json() == taken.json()
        assert _code(other) == (409, "conflict", "already_consumed")
        assert told.json()["consumption"]["outcome"]["note"] == "paid"
        assert twice.json() == told.json()
        assert _code(changed) == (409, "conflict", "outcome_conflict")


class Looked(AapRequests):
    """Something happens after it has looked and before it writes."""

    def __init__(self, scene: RemoteScene, happens: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(scene.store, scene.desk.guests, scene.clock, "bot")
        self._happens: Callable[[], Awaitable[Any]] | None = happens

    async def _settled(self, known: Any) -> Any:
        found = await super()._settled(known)
        happens, self._happens = self._happens, None
        if happens is not None:
            await happens()
        return found


async def test_of_two_who_take_an_approval_at_once_one_gets_it() -> None:
    async with raw() as (scene, client):
        request = (await client.create()).json()["id"]
        await _decide(scene, "approve")
        first = Looked(scene, lambda: client.consume(request, "other"))
        with pytest.raises(Problem) as refused:
            await first.consume(request, "mine")

        assert refused.value.code == "already_consumed"


async def test_a_cancellation_comes_too_late_when_somebody_was_told_of_the_approval() -> None:
    async with raw() as (scene, client):
        request = (await client.create()).json()["id"]

        async def approved_and_told() -> None:
            await _decide(scene, "approve")
            assert (await client.get(request))["status"] == "approved"

        with pytest.raises(Problem) as refused:
            await Looked(scene, approved_and_told).cancel(request)
        taken = await client.consume(request)

        assert refused.value.code == "already_terminal"
        assert taken.status_code == 200


async def test_an_approval_that_is_not_used_in_time_is_void() -> None:
    async with raw() as (scene, client):
        request = (await client.create()).json()["id"]
        await _decide(scene, "approve")
        scene.clock.advance(301)
        late = await client.consume(request)

        assert _code(late) == (409, "conflict", "approval_expired")
        assert (await client.get(request))["status"] == "approved"


async def test_a_held_tool_is_pending_until_the_hold_is_lifted() -> None:
    async with raw() as (scene, client):
        await scene.hold("refund")
        request = (await client.create()).json()["id"]
        await _decide(scene, "approve")
        held = await client.get(request)
        await scene.release("refund")

        assert held["status"] == "pending"
        assert (await client.get(request))["status"] == "approved"


async def test_a_cancelled_request_stays_cancelled_and_a_decided_one_is_not_cancelled() -> None:
    async with raw() as (scene, client):
        first, second = [(await client.create(key)).json()["id"] for key in ("a", "b")]
        gone = await client.cancel(first)
        again = await client.cancel(first)
        await _decide(scene, "reject", message="No.")
        denied = await client.cancel(second)

        assert gone.json()["status"] == "cancelled"
        assert again.json() == gone.json()
        assert _code(denied) == (409, "conflict", "already_terminal")
        assert (await client.get(second))["decision"]["note"] == "No."


@pytest.mark.promise("P21")
async def test_anothers_request_is_not_there_and_a_guest_reaches_nothing_else() -> None:
    async with raw() as (scene, client):
        request = (await client.create()).json()["id"]
        other = Raw(scene, await scene.token("other"))
        async with other.client:
            answers = [
                await other.client.get(f"/requests/{request}"),
                await other.cancel(request),
                await other.consume(request),
                await other.report(request, status="failed"),
            ]
            theirs = (await other.create()).json()["id"]
            elsewhere = await other.client.get(f"{scene.url}/v1/approvals")
        async with httpx2.AsyncClient() as stranger:
            nobody = await stranger.get(f"{scene.url}/aap/v1/requests/{request}")

        assert {_code(answer) for answer in answers} == {(404, "not_found", "not_found")}
        assert theirs != request
        assert elsewhere.status_code == 403
        assert _code(nobody)[:2] == (401, "authentication")


@pytest.mark.parametrize(
    "more",
    [
        {"timeout": "soon"},
        {"timeout": "0s"},
        {"arguments": ["7"]},
        {"arguments": {"order": "x" * 300_000}},
        {"unknown": 1},
        {"tool": ""},
        {"tool": "\x00"},
        {"context": {"x": "y" * 20_000}},
    ],
    ids=["no-time", "zero", "a-list", "large", "unknown", "no-tool", "control", "context"],
)
async def test_what_is_no_submission_is_refused_in_its_words_and_nothing_is_stored(more: dict[str, Any]) -> None:
    async with raw() as (scene, client):
        answer = await client.create(**more)
        without_key = await client.create(None)

        assert _code(answer)[:2] == (400, "invalid_request")
        assert _code(without_key) == (400, "invalid_request", "missing_idempotency_key")
        assert (await scene.desk.runs()).rows == []
        assert await scene.store.records("aap_request") == []
