"""Too much, too often, too slow, too clever: refused in the one shape, and the desk goes on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.desk import app
from placet.desk.server import PatientButFinite
from placet.desk.web.limits import MAX_CLIENTS, Buckets
from placet.desk.web.settings import WebSettings
from placet.ports import StoredRecord
from placet.stores.sql.store import SQLStore
from placet.testing import ManualClock
from tests.desk.api.scenes import problem
from tests.support.desk_server import RunningDesk, running_desk

PATIENCE = 90
SMALL = WebSettings(max_body=1000, requests_per_second=1e6, burst=10**6)
HASTY = WebSettings(body_seconds=0.3, requests_per_second=1e6, burst=10**6)


def port_of(server: RunningDesk) -> int:
    return int(server.url.rpartition(":")[2])


async def exchange(server: RunningDesk, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send raw bytes; all that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    try:
        for piece in pieces:
            writer.write(piece)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(pause)
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                return await reader.read()
        return b""
    finally:
        writer.close()


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, settings=SMALL) as server:
        yield server


async def token_of(server: RunningDesk) -> bytes:
    ana = await server.person("ana")
    return f"Host: 127.0.0.1\r\nAuthorization: {ana.headers['authorization']}\r\n".encode()


async def test_a_body_that_says_that_it_is_too_large_is_refused(small: RunningDesk) -> None:
    ana = await small.person("ana")
    answer = await ana.post("/v1/runs", json={"agent": "Support", "input": "x" * 2000})

    assert "1000 bytes" in problem(answer, 413, "too_large")["detail"]


async def test_a_body_that_does_not_say_its_size_is_counted_while_it_comes(small: RunningDesk) -> None:
    head = await token_of(small)
    start = b"POST /v1/runs HTTP/1.1\r\n" + head
    chunked = start + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"200\r\n" + b"x" * 0x200 + b"\r\n"
    answer = await exchange(small, chunked, chunk, chunk, pause=0.05)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"application/problem+json" in answer
    assert (await small.client().get("/healthz")).status_code == 200


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with running_desk(tmp_path, settings=HASTY) as server:
        head = b"POST /v1/runs HTTP/1.1\r\n" + await token_of(server)
        answer = await exchange(server, head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer


async def test_a_head_that_does_not_come_to_an_end_is_cut_off(
    server: RunningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientButFinite, "header_seconds", 1.0)
    silent = asyncio.create_task(exchange(server))
    dripping = asyncio.create_task(
        exchange(server, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", *[b"X-A: b\r\n"] * 8, pause=0.1)
    )
    after_an_answer = asyncio.create_task(
        exchange(server, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /heal", pause=0.1)
    )

    assert await silent == b""
    assert b"200 OK" not in await dripping
    assert (await after_an_answer).count(b"200 OK") == 1


async def test_answers_are_sent_at_once_and_not_after_the_clients_delayed_word(server: RunningDesk) -> None:
    (listening,) = server.server.servers[0].sockets
    client = server.client()
    await client.get("/healthz")
    ours = [each.transport.get_extra_info("socket") for each in server.server.server_state.connections]

    assert listening.proto == socket.IPPROTO_TCP
    assert [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in ours] == [1]


async def test_hundreds_of_clients_that_say_nothing_do_not_keep_others_out(server: RunningDesk) -> None:
    idle = [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(300)]
    try:
        answer = await server.client().get("/healthz")
    finally:
        for each in idle:
            each.close()

    assert answer.status_code == 200


async def test_a_head_without_end_is_refused(server: RunningDesk) -> None:
    answer = await exchange(server, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 200_000)

    assert answer.startswith(b"HTTP/1.1 400") or answer == b""
    assert (await server.client().get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../pyproject.toml",
        "/static/%2e%2e/%2e%2e/desk.py",
        "/static/..%2f..%2fdesk.py",
        "/static//etc/passwd",
        "/static/%00",
        "/v1/../v1/me",
        "//v1/me",
        "/v1/runs/..%2f..%2fusers",
        "/%2e%2e/etc/passwd",
        "/v1/me%00",
        "/V1/me",
    ],
)
async def test_clever_paths_lead_nowhere(server: RunningDesk, path: str) -> None:
    head = b"GET " + path.encode() + b" HTTP/1.1\r\n" + await token_of(server) + b"Connection: close\r\n\r\n"
    answer = await exchange(server, head)

    assert answer.split(b" ", 2)[1] in (b"400", b"404"), answer[:300]
    assert b"root:" not in answer
    assert b"class Desk" not in answer


async def test_what_is_no_http_is_answered_with_400_and_the_desk_goes_on(server: RunningDesk) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"\x00\x00\x00\x00"):
        answer = await exchange(server, nonsense + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert b"application/problem+json" in answer

    assert (await server.client().get("/healthz")).status_code == 200


async def test_smuggled_lengths_are_refused(server: RunningDesk) -> None:
    head = await token_of(server)
    start = b"POST /v1/runs HTTP/1.1\r\n" + head
    answer = await exchange(server, start + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}   GET /")

    assert answer.startswith(b"HTTP/1.1 400")


async def test_one_client_asks_only_so_often_and_is_told_when_again(tmp_path: Path) -> None:
    settings = WebSettings(requests_per_second=0.5, burst=5)
    async with running_desk(tmp_path, settings=settings) as server:
        ana = await server.person("ana")
        answers = [await ana.get("/v1/me") for _ in range(7)]
        healthy = await ana.get("/healthz")

    assert [each.status_code for each in answers[:5]] == [200] * 5
    problem(answers[6], 429, "too_many_requests")
    assert 1 <= int(answers[6].headers["retry-after"]) <= 3
    assert healthy.status_code == 200


async def test_more_than_can_be_worked_on_at_once_is_put_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = WebSettings(max_in_flight=3, requests_per_second=1e6, burst=10**6)
    inside, go_on = asyncio.Semaphore(0), asyncio.Event()
    async with running_desk(tmp_path, settings=settings) as server:
        ana = await server.person("ana")

        async def slowly() -> list[object]:
            inside.release()
            await go_on.wait()
            return []

        monkeypatch.setattr(server.desk.store, "grants", slowly)
        waiting = [asyncio.create_task(ana.get("/v1/grants")) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            for _ in waiting:
                await inside.acquire()
            refused = await ana.get("/v1/me")
        go_on.set()
        done = await asyncio.gather(*waiting)
        after = await ana.get("/v1/me")

    problem(refused, 503, "busy")
    assert [each.status_code for each in (*done, after)] == [200, 200, 200, 200]


async def test_what_has_expired_is_forgotten_while_the_desk_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "TIDY_SECONDS", 0.02)
    tidied = asyncio.Event()
    forget = SQLStore.expire_records

    async def forget_and_tell(store: SQLStore, limit: int = 1000) -> int:
        forgotten = await forget(store, limit)
        if forgotten:
            tidied.set()
        return forgotten

    monkeypatch.setattr(SQLStore, "expire_records", forget_and_tell)  # before the desk has begun to tidy up
    async with running_desk(tmp_path) as server:
        await server.desk.store.add_record(StoredRecord(kind="answer", id="x", data="{}", expires_at=1.0))
        async with asyncio.timeout(PATIENCE):
            await tidied.wait()

    with contextlib.closing(sqlite3.connect(tmp_path / "placet.db")) as db:
        assert db.execute("SELECT count(*) FROM placet_records WHERE kind = 'answer'").fetchone() == (0,)


def test_a_bucket_fills_with_time_and_the_book_of_buckets_is_bounded() -> None:
    clock = ManualClock()
    buckets = Buckets(2.0, 3, clock)
    first = [buckets.take("ana") for _ in range(4)]
    clock.advance(0.5)
    later = [buckets.take("ana"), buckets.take("ana")]
    for number in range(MAX_CLIENTS + 10):
        buckets.take(str(number))

    assert first[:3] == [0.0, 0.0, 0.0]
    assert first[3] == pytest.approx(0.5)
    assert later == [0.0, pytest.approx(0.5)]
    assert len(buckets._levels) == MAX_CLIENTS
