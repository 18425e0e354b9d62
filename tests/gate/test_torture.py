"""Guests that are killed, race and meet a desk that goes away: an outside witness counts the effects."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from placet.gate import CallNotFound, Gate, GateUnavailable
from tests.gate.guest import STEPS
from tests.gate.stage import PATIENCE, Stage, stage
from tests.support.ports import free_port

pytestmark = pytest.mark.promise("P23")


@pytest.mark.parametrize("kind", ["embedded", "http"])
async def test_a_guest_that_is_killed_at_any_step_runs_nothing_twice_and_leaves_nothing_unasked(
    kind: str, tmp_path: Path
) -> None:
    async with stage(kind, tmp_path) as scene, scene.with_people():
        for number, step in enumerate(STEPS):
            more: Any = {"call_id": f"c{number}", "arguments": {"order": step}}
            killed = await scene.guest(step, **more)
            back = await asyncio.wait_for(_until_over(scene, more), PATIENCE)

            # killed before its claim the call is found again and runs once; after it a person is asked, and lets it be
            ran = scene.witness.lines().count(step)
            assert killed == ""
            assert (back, ran) == {
                "before propose": ("finished", 1),
                "proposed": ("finished", 1),
                "decided": ("finished", 1),
                "claimed": ("given_up", 0),
                "done": ("given_up", 1),
                "reported": ("finished", 1),
            }[step]
        assert scene.asked.count("approval") == len(STEPS)
        assert scene.asked.count("in_doubt") == 2


async def _until_over(scene: Stage, more: Any) -> str:
    """What becomes of the call when the guest comes back."""
    return await scene.guest(None, **more)


async def test_a_call_in_doubt_is_run_again_only_when_a_person_says_so(tmp_path: Path) -> None:
    async with stage("http", tmp_path) as scene, scene.with_people():
        scene.verdicts["in_doubt"] = "approve"
        await scene.guest("done")
        again = await scene.guest()

        assert again == "finished"
        assert scene.witness.lines() == ["7", "7"]  # twice, because a person said: run it again
        assert scene.asked == ["approval", "in_doubt"]


@pytest.mark.parametrize("kind", ["embedded", "http"])
async def test_of_guests_that_race_for_one_call_one_executes_it(kind: str, tmp_path: Path) -> None:
    async with stage(kind, tmp_path) as scene, scene.with_people():
        found = await asyncio.gather(*(scene.guest() for _ in range(3)))

        assert scene.witness.lines() == ["7"]
        assert scene.asked == ["approval"]
        assert "finished" in found
        assert set(found) <= {"finished", "call_claimed"}


async def test_the_same_call_id_with_another_tool_or_other_arguments_is_another_call(tmp_path: Path) -> None:
    async with stage("embedded", tmp_path) as scene, scene.with_people():
        await scene.guest()
        await scene.guest(arguments={"order": "8"})
        await scene.guest(tool="refund_all")
        again = await scene.guest()

        assert again == "finished"
        assert scene.witness.lines() == ["7", "8", "7"]
        assert scene.asked == ["approval"] * 3


async def test_a_desk_that_is_restarted_while_guests_wait_loses_nothing(tmp_path: Path) -> None:
    port = free_port()
    async with stage("http", tmp_path, port) as first:
        waiting = asyncio.create_task(first.guest())
        async with asyncio.timeout(PATIENCE):
            while not await first.desk.pending():
                await first.desk.store.wait_for_news(await first.desk.store.latest_sequence(), 1.0)
    async with stage("http", tmp_path, port) as second, second.with_people():
        outcome = await asyncio.wait_for(waiting, PATIENCE)

        assert outcome == "finished"
        assert second.witness.lines() == ["7"]
        assert second.asked == ["approval"]


async def test_a_desk_that_is_away_is_waited_for_and_then_nothing_runs() -> None:
    async with Gate(f"http://127.0.0.1:{free_port()}", token="placet_x", patience=0.5) as gate:
        with pytest.raises(GateUnavailable, match="no call runs"):
            await gate.propose("refund", {}, session="s", call_id="c")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"status":"yes"}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nyes!",
        b"HTTP/1.1 418 ?\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"",
    ],
    ids=["empty", "unknown-status", "no-json", "teapot", "ssh", "no-length", "nothing"],
)
async def test_an_answer_that_is_not_understood_opens_nothing(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Gate(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", patience=0.3) as gate:
        with pytest.raises(GateUnavailable):
            await gate.claim("run_x:1.0")


async def test_a_guest_whose_token_is_revoked_reaches_nothing_more(tmp_path: Path) -> None:
    async with stage("http", tmp_path) as scene, Gate(scene.given["at"], token=scene.given["token"]) as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c")
        accounts = _accounts(scene)
        for token in await accounts.tokens("jobs"):
            await accounts.revoke_token(token.id)

        with pytest.raises(Exception, match="not valid"):
            await gate.look(call)


def _accounts(scene: Stage) -> Any:
    from placet.desk.access.accounts import Accounts

    return Accounts(scene.desk.store)


@pytest.mark.promise("P21")
async def test_what_a_guest_calls_by_another_guests_id_is_not_found(tmp_path: Path) -> None:
    async with stage("http", tmp_path) as scene, Gate(scene.given["at"], token=scene.given["token"]) as gate:
        call = await gate.propose("refund", {}, session="s", call_id="c")
        accounts = _accounts(scene)
        await accounts.add_user("others", "guest")
        token, _ = await accounts.add_token("others", "a test")
        async with Gate(scene.given["at"], token=token) as other:
            with pytest.raises(CallNotFound):
                await other.look(call)
            theirs = await other.propose("refund", {}, session="s", call_id="c")

        assert theirs.id != call.id


async def test_a_status_that_is_not_known_here_is_no_yes() -> None:
    told = {
        "id": "run_x:1.0",
        "status": "surely",
        "tool": "refund",
        "arguments": {},
        "session": "s",
        "call_id": "c",
        "occurrence": 0,
        "digest": "v2-x",
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(told).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Gate(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", patience=0.3) as gate:
        with pytest.raises(GateUnavailable, match="not understood"):
            await gate.wait("run_x:1.0", 5)
