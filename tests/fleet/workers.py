"""Worker processes as tests hold them: the real command, in processes of their own, gone at the end in any case."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0


class WorkerProcess:
    """`placet worker …`, and what it says."""

    def __init__(
        self, url: str, *options: str, agents: str = "tests.fleet.crew:agents", prefix: Sequence[str] = (), **env: str
    ) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by end()
        self.process = subprocess.Popen(  # noqa: S603  # a program of our own
            [*prefix, sys.executable, "-m", "placet.cli.main", "worker", agents, "--store", url, *options],
            cwd=ROOT, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=self._said,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode()

    async def is_ready(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while "ready" not in self.said():
            assert self.is_alive, f"the worker ended: {self.said()}"
            assert time.monotonic() < give_up, f"the worker is not ready: {self.said()}"
            await asyncio.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            self.process.send_signal(number)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    def end(self) -> None:
        if self.is_alive:
            self.process.kill()
        self.process.wait()
        self._said.close()


@contextmanager
def workers(count: int, url: str, *options: str, **env: str) -> Iterator[list[WorkerProcess]]:
    started = [WorkerProcess(url, *options, **env) for _ in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.end()
