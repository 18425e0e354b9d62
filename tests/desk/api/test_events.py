"""Live events: everything that happens, once for each listener, from where it left off; slow ones are let go."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import struct
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from placet.desk.server import PatientButFinite
from placet.desk.web.feed import Feed
from placet.desk.web.settings import WebSettings
from placet.ports import DeskStore
from placet.testing.desk_contracts import RunWriter
from tests.desk.api.scenes import decide, problem, two_refunds
from tests.support.desk_server import RunningDesk, running_desk

PATIENCE = 90


async def messages(answer: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """The messages of an event stream: `event`, `id` (if it has one) and the data."""
    found: dict[str, Any] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if not line and "data" in found:
            yield {**json.loads(found["data"]), "event": found["event"], "id": found.get("id")}
        if not line:
            found = {}
        elif name in ("event", "id", "data"):
            found[name] = value


@contextlib.asynccontextmanager
async def listening(client: httpx2.AsyncClient, **options: Any) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with client.stream("GET", "/v1/events", **options) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield messages(answer)


async def until(stream: AsyncIterator[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    found = []
    async with asyncio.timeout(PATIENCE):
        async for message in stream:
            found.append(message)
            if message["event"] == kind:
                return found
    raise AssertionError(f"the stream ended before {kind}: {[each['event'] for each in found]}")


def place_of(event: dict[str, Any]) -> tuple[int, int]:
    return event["sequence"], event["index"]


def without_numbers_of_ours(event: dict[str, Any]) -> dict[str, Any]:
    """What the events carry of the run itself: sequence numbers, times, ids and digests may hold any digits."""
    ours = {"id", "sequence", "at", "run_id", "request_id", "digest"}
    return {name: value for name, value in event.items() if name not in ours}


async def test_what_happens_is_told_live_without_arguments_or_outputs(any_server: RunningDesk) -> None:
    ana = await any_server.person("ana")
    async with listening(ana) as stream:
        run_id, (first, _) = await two_refunds(any_server)
        asked = await until(stream, "call_held")
        await decide(ana, first.id, "approve", reason="checked")
        decided = await until(stream, "decision_made")

    assert {each["run_id"] for each in asked} == {run_id}
    assert asked[0]["event"] == "run_started"
    assert asked[-1]["call"] == "1.1"
    assert (decided[-1]["verdict"], decided[-1]["by"], decided[-1]["reason"]) == ("approve", "ana", "checked")
    told = json.dumps([without_numbers_of_ours(event) for event in (*asked, *decided)])
    for text in ("1042", "4900", "broken"):
        assert text not in told


async def test_whoever_comes_back_with_the_last_id_misses_nothing(any_server: RunningDesk) -> None:
    ana = await any_server.person("ana")
    async with listening(ana, params={"after": 0}) as stream:
        first_run, _ = await two_refunds(any_server)
        seen = await until(stream, "call_held")
    last = next(each["id"] for each in reversed(seen) if each["id"] is not None)
    second_run, _ = await two_refunds(any_server)
    async with listening(ana, headers={"Last-Event-ID": last}) as stream:
        missed = await until(stream, "run_started")
        more = await until(stream, "call_held")
    end = (more[-1]["sequence"], more[-1]["index"])
    whole: list[tuple[int, int]] = []
    async with listening(ana, params={"after": 0}) as stream, asyncio.timeout(PATIENCE):
        while end not in whole:
            whole.append(place_of(await anext(stream)))

    assert seen[0]["run_id"] == first_run
    assert missed[-1]["run_id"] == second_run
    assert more[-1]["run_id"] == second_run
    assert whole == sorted({place_of(each) for each in (*seen, *missed, *more)})


async def test_the_events_of_one_append_share_an_id_that_the_last_of_them_carries(server: RunningDesk) -> None:
    ana = await server.person("ana")
    await two_refunds(server)
    async with listening(ana, params={"after": 0}) as stream:
        seen = await until(stream, "call_held")
        seen.append(await anext(stream))

    by_sequence: dict[int, list[Any]] = {}
    for each in seen:
        by_sequence.setdefault(each["sequence"], []).append(each["id"])
    together = [ids for ids in by_sequence.values() if len(ids) > 1]
    assert together
    assert all(ids[:-1] == [None] * (len(ids) - 1) for ids in together)


async def test_a_listener_can_follow_one_run(server: RunningDesk) -> None:
    ana = await server.person("ana")
    wanted, _ = await two_refunds(server)
    await two_refunds(server)
    async with listening(ana, params={"after": 0, "run_id": wanted}) as stream:
        await until(stream, "call_held")
        _, (first, _) = await two_refunds(server)
        await decide(ana, first.id, "approve")
        (mine, *_) = await server.desk.pending(run_id=wanted)
        await decide(ana, mine.id, "approve")
        seen = await until(stream, "decision_made")

    assert {each["run_id"] for each in seen} == {wanted}


async def test_a_last_id_that_is_none_is_refused(server: RunningDesk) -> None:
    ana = await server.person("ana")

    for value in ("x", "-1", "1.5", "9" * 30):
        problem(await ana.get("/v1/events", headers={"Last-Event-ID": value}), 422, "invalid_request")


async def test_there_are_heartbeats_and_as_many_listeners_as_are_allowed(tmp_path: Path) -> None:
    settings = WebSettings(heartbeat_seconds=0.05, max_listeners=1, requests_per_second=1e6, burst=10**6)
    async with running_desk(tmp_path, settings=settings) as server:
        ana = await server.person("ana")
        async with ana.stream("GET", "/v1/events") as answer:
            lines = answer.aiter_lines()
            async with asyncio.timeout(PATIENCE):
                beats = [line async for line in _some(lines, ": still here", 2)]
            full = await ana.get("/v1/events")

    assert len(beats) == 2
    problem(full, 503, "too_many_listeners")


async def _some(lines: AsyncIterator[str], wanted: str, count: int) -> AsyncIterator[str]:
    async for line in lines:
        if line == wanted:
            yield line
            count -= 1
            if count == 0:
                return


def appends_in(texts: list[bytes]) -> int:
    return b"".join(texts).count(b"id: ")


async def heard(stream: AsyncIterator[bytes], appends: int) -> list[bytes]:
    """Texts of the stream, until so many appends were told."""
    texts: list[bytes] = []
    while appends_in(texts) < appends:
        texts.append(await anext(stream))
    return texts


async def test_a_listener_that_does_not_keep_up_is_told_so_and_dropped_and_the_others_are_not(
    server: RunningDesk,
) -> None:
    settings = WebSettings(listener_backlog=2)
    feed = Feed(server.desk.store, settings)
    slow, quick = feed.stream(None), feed.stream(None)
    await anext(slow)
    await anext(quick)
    keeping = asyncio.create_task(heard(quick, 4))
    await two_refunds(server)
    try:
        async with asyncio.timeout(PATIENCE):
            await keeping  # all of them were offered to both
            told = await anext(slow)

            assert told.startswith(b"event: dropped\n")
            assert b"Last-Event-ID" in told
            assert [text async for text in slow] == []
            assert feed.dropped == 1
    finally:
        await feed.close()


class InBursts:
    """A store whose news are told when the test says so: then there are many at once."""

    def __init__(self, store: DeskStore) -> None:
        self._store = store
        self.may_tell = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def wait_for_news(self, after: int, seconds: float) -> bool:
        await self.may_tell.wait()
        return await self._store.wait_for_news(after, seconds)


async def test_a_listener_that_keeps_up_outlives_a_burst_that_is_longer_than_its_backlog(server: RunningDesk) -> None:
    store: Any = InBursts(server.desk.store)
    feed = Feed(store, WebSettings(listener_backlog=4))
    listener = feed.stream(None)
    await anext(listener)
    keeping = asyncio.create_task(heard(listener, 12))
    for _ in range(6):
        await RunWriter().ask(store, "pay")
    store.may_tell.set()
    async with asyncio.timeout(PATIENCE):
        texts = await keeping
    await feed.close()

    assert appends_in(texts) == 12
    assert feed.dropped == 0


async def test_what_happens_in_quick_succession_is_told_together_and_made_once(server: RunningDesk) -> None:
    store: Any = InBursts(server.desk.store)
    feed = Feed(store, WebSettings())
    streams = [feed.stream(None) for _ in range(20)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    hearing = [asyncio.create_task(heard(stream, 80)) for stream in streams]
    for _ in range(40):
        await RunWriter().ask(store, "pay")
    store.may_tell.set()
    async with asyncio.timeout(PATIENCE):
        texts = await asyncio.gather(*hearing)
    await feed.close()

    assert all(len(each) == 1 for each in texts), "one text for all that was there"
    assert all(each[0] is texts[0][0] for each in texts), "which all of them share"


async def opened(server: RunningDesk) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which an event stream has begun."""
    token = (await server.person(f"user-{uuid.uuid4()}")).headers["Authorization"]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n\r\n".encode())
    await reader.readuntil(b": placet\n\n")
    return reader, writer


async def test_a_listener_that_reads_nothing_for_too_long_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientButFinite, "stuck_seconds", 0.1)
    async with running_desk(tmp_path, run=False) as server, asyncio.timeout(PATIENCE):
        reader, writer = await opened(server)
        (connection,) = (each for each in server.server.server_state.connections if isinstance(each, PatientButFinite))
        connection.pause_writing()  # as the transport says it when its buffer is full
        reading = asyncio.create_task(reader.read())
        await asyncio.wait([reading], timeout=PATIENCE / 3)
        is_cut_off = reading.done()
        connection.transport.abort()  # if it was not: the server's end would wait for it
        with contextlib.suppress(ConnectionError):
            await reading
        writer.close()

    assert is_cut_off
    assert server.web.feed.listeners == 0


async def test_a_listener_that_disconnects_while_news_comes_leaves_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_desk(tmp_path, run=False) as server, asyncio.timeout(PATIENCE):
        for _ in range(5):
            _, writer = await opened(server)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            while server.web.feed.listeners:
                await asyncio.gather(*(RunWriter().ask(server.desk.store, "pay") for _ in range(20)))

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_ending_the_server_ends_the_streams(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as server:
        ana = await server.person("ana")
        async with listening(ana) as stream:
            await two_refunds(server)
            await until(stream, "call_held")
            server.server.should_exit = True
            async with asyncio.timeout(PATIENCE):
                async for _ in stream:
                    pass

    assert server.web.feed.listeners == 0


async def test_a_stream_ends_when_what_opened_it_is_revoked(tmp_path: Path) -> None:
    settings = WebSettings(heartbeat_seconds=0.05, requests_per_second=1e6, burst=10**6)
    async with running_desk(tmp_path, settings=settings) as server:
        ana = await server.person("ana")
        async with listening(ana) as stream:
            (token,) = await server.web.accounts.tokens("ana")
            await server.web.accounts.revoke_token(token.id)
            async with asyncio.timeout(PATIENCE):
                rest = [each async for each in stream]

    assert rest == []


async def test_many_listeners_cost_one_reader(server: RunningDesk) -> None:
    streams = [server.web.feed.stream(None) for _ in range(200)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    readers = [task for task in asyncio.all_tasks() if "Feed._read" in repr(task.get_coro())]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await server.waiting_run()
    async with asyncio.timeout(PATIENCE):
        texts = await asyncio.gather(*waiting)
    for stream in streams:
        await stream.aclose()

    assert len(readers) == 1
    assert len(set(texts)) == 1
    assert all(text is texts[0] for text in texts)


async def test_whoever_has_the_answer_of_a_stream_is_listened_for_already(
    server: RunningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = await server.person("ana")
    is_asked, may_answer = asyncio.Event(), asyncio.Event()
    latest = server.desk.store.latest_sequence

    async def slow() -> int:
        is_asked.set()
        await may_answer.wait()
        return await latest()

    monkeypatch.setattr(server.desk.store, "latest_sequence", slow)
    async with contextlib.AsyncExitStack() as stack:
        opening = asyncio.create_task(stack.enter_async_context(ana.stream("GET", "/v1/events")))
        async with asyncio.timeout(PATIENCE):
            await is_asked.wait()
        too_early, _ = await asyncio.wait([opening], timeout=0.2)
        may_answer.set()
        answer = await opening

        assert not too_early
        assert answer.status_code == 200
        assert server.web.feed.listeners == 1
