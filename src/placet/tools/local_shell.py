"""A careful executor for `ShellTool`: commands on this machine, in one folder, with limits on time, output and what
they learn of the environment.

It contains accidents, not attackers: a command runs with the rights of this process. For commands that nobody reads
before they run, use an executor that runs them in a container or a virtual machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from placet.facts.errors import UserError
from placet.tools.shell import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult

ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
"""What commands learn of this process's environment, by default: nothing that is secret."""
GRACE_SECONDS = 2.0
"""Between the signal that asks a command to end and the one that ends it."""
_CHUNK = 65536


class LocalShell:
    """`ShellTool(LocalShell("project"))`. Commands run in that folder by `/bin/sh`, one after the other, without input.

    Each is a process group of its own: when it takes too long, or the run is cancelled, the whole group is asked to end
    and then ended; what it leaves running in the background is ended with it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        timeout: float = 60.0,
        max_output: int = 32_000,
        environment: Sequence[str] | Mapping[str, str] = ENVIRONMENT,
        shell: Sequence[str] = ("/bin/sh", "-c"),
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise UserError(f"'{folder}' is not a folder: a local shell works in one that exists.")
        if timeout <= 0 or max_output <= 0:
            raise UserError("A local shell's timeout and max_output are numbers above 0.")
        self._timeout = timeout
        self._max_output = max_output
        self._environment = environment
        self._shell = tuple(shell)
        self._grace = grace

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        seconds = min(self._timeout, (action.timeout_ms or sys.maxsize) / 1000)
        limit = min(self._max_output, action.max_output_length or self._max_output)
        outputs = [await self._run(command, seconds, limit) for command in action.commands]
        return ShellResult(outputs, limit)

    def _env(self) -> dict[str, str]:
        if isinstance(self._environment, Mapping):
            return dict(self._environment)
        return {name: os.environ[name] for name in self._environment if name in os.environ}

    async def _run(self, command: str, seconds: float, limit: int) -> ShellCommandOutput:
        kept = [ClippedOutput(limit), ClippedOutput(limit)]
        process, readers = await self._start(command, kept)
        is_late = False
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            is_late = True
        finally:
            await self._end(process, readers)
        outcome = ShellCallOutcome("timeout") if is_late else ShellCallOutcome("exit", process.returncode)
        return ShellCommandOutput(kept[0].text(), kept[1].text(), outcome, command)

    async def _start(
        self, command: str, kept: Sequence[ClippedOutput]
    ) -> tuple[asyncio.subprocess.Process, list[asyncio.Task[None]]]:
        """Pipes of our own: asyncio's would make the end of a command wait for processes that still hold them open."""
        pipes = [os.pipe(), os.pipe()]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._shell,
                command,
                cwd=self._folder,
                env=self._env(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                start_new_session=True,
            )
        except BaseException:
            for ours, _ in pipes:
                os.close(ours)
            raise
        finally:
            for _, theirs in pipes:
                os.close(theirs)
        return process, [asyncio.create_task(_drain(ours, each)) for (ours, _), each in zip(pipes, kept, strict=True)]

    async def _end(self, process: asyncio.subprocess.Process, readers: Sequence[asyncio.Task[None]]) -> None:
        """Leave nothing of the group behind, and do not wait for pipes that another process holds open."""
        if process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await process.wait()
        await asyncio.wait(readers, timeout=0.2)  # what was printed last is still in the pipe
        _signal(process.pid, signal.SIGKILL)
        await process.wait()
        _, pending = await asyncio.wait(readers, timeout=1.0)
        for reader in pending:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _drain(pipe: int, kept: ClippedOutput) -> None:
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(pipe, "rb", buffering=0)
    )
    try:
        while data := await stream.read(_CHUNK):
            kept.add(data)
    finally:
        transport.close()


class ClippedOutput:
    """The beginning and the end of what was printed; what does not fit in between is only counted."""

    def __init__(self, limit: int) -> None:
        self._head_limit = (limit + 1) // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        excess = len(self._tail) - self._tail_limit
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        if not self._dropped:
            return _decoded(bytes(self._head + self._tail))
        middle = f"\n[… {self._dropped:,} bytes left out …]\n"
        return _decoded(bytes(self._head)) + middle + _decoded(bytes(self._tail))


def _decoded(data: bytes) -> str:
    """As text; bytes that are none are shown as such, and control characters that could deceive a terminal too."""
    if b"\0" in data[:8000]:
        return f"[{len(data):,} bytes that are not text]"
    text = data.decode(errors="backslashreplace")
    return "".join(each if each.isprintable() or each in "\n\t" else f"\\x{ord(each):02x}" for each in text)
