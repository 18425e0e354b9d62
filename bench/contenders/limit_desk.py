"""The limit of the works over HTTP: a bare asyncio server over one SQLite table. It asks nobody who they are, checks
nothing, keeps no log; but a decision is on the disk when it answers."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.work import ServedDesk


class _Server:
    def __init__(self, path: str, pending: int) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("CREATE TABLE requests (id INTEGER PRIMARY KEY, data TEXT, status TEXT)")
        self.db.execute("CREATE INDEX by_status ON requests (status, id)")
        data = json.dumps({"tool": "refund", "arguments": {"n": 1}, "agent": "Clerk", "created_at": 1000.0})
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO requests (data, status) VALUES (?, 'pending')", [(data,)] * pending)
        self.db.execute("COMMIT")
        self.listeners: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                _, path, _ = head.split(" ", 2)
                length = int(head.partition("content-length:")[2].split("\r\n", 1)[0] or 0)
                body = await reader.readexactly(length)
                if path == "/events":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
                    self.listeners.add(writer)
                else:
                    self._answer(writer, self._decide(path, body) if body else self._page())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.listeners.discard(writer)
            writer.close()

    def _decide(self, path: str, body: bytes) -> bytes:
        verdict = json.loads(body)["decision"]
        number = int(path.rpartition("/")[2])
        self.db.execute("UPDATE requests SET status = ? WHERE id = ? AND status = 'pending'", (verdict, number))
        for listener in self.listeners:
            listener.write(b'data: {"decided": %d}\n\n' % number)
        return b'{"status": "approved"}'

    def _page(self) -> bytes:
        rows = self.db.execute("SELECT id, data FROM requests WHERE status = 'pending' ORDER BY id LIMIT 50").fetchall()
        return json.dumps({"data": [{"id": number, **json.loads(data)} for number, data in rows]}).encode()

    def _answer(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def count(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM requests WHERE status = 'pending'").fetchone()[0])


@asynccontextmanager
async def serve_desk(pending: int) -> AsyncIterator[ServedDesk]:
    with tempfile.TemporaryDirectory() as folder:
        desk = _Server(f"{folder}/bare.db", pending)
        server = await asyncio.start_server(desk.serve, "127.0.0.1", 0, backlog=2048)
        body = json.dumps({"decision": "approve", "reason": "checked"}).encode()
        try:
            yield ServedDesk(
                port=server.sockets[0].getsockname()[1],
                headers={},
                decisions=[(f"/decide/{number + 1}", body) for number in range(pending)],
                pages={"list": "/list", "inbox": "/list"},
                events="/events",
                count_pending=desk.count,
            )
        finally:
            server.close()
            desk.db.close()
