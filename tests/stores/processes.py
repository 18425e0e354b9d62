"""Worker processes, as tests hold them. They are forked off a process that has imported everything once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.stores import worker

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", "psycopg", "tests.stores.worker", "placet.stores.postgres"])


class Worker:
    def __init__(self, *arguments: str) -> None:
        self._line, theirs = _context.Pipe()
        self.process = _context.Process(target=worker.main, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def send(self, words: str = "go") -> None:
        self._line.send(words)

    def hear(self) -> list[str]:
        """What it says next, as words; none when it has ended."""
        try:
            return str(self._line.recv()).split()
        except (EOFError, ConnectionResetError):
            return []

    def hear_all(self) -> list[list[str]]:
        return list(iter(self.hear, []))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        self._line.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join(30)
        self.process.close()


@contextmanager
def workers(count: int, *arguments: str) -> Iterator[list[Worker]]:
    """So many workers, gone at the end whatever happens."""
    started = [Worker(*arguments) for _ in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.end()
