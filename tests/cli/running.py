"""The `placet` command as users run it: a process of its own, with a terminal or without."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PLACET = [sys.executable, "-m", "placet.cli.main"]
PATIENCE = 90.0
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])")
# The child takes the pseudo-terminal as its own, so that Ctrl-C typed there reaches it as a signal. It inherits SIGINT
# as the test says, however the tests themselves were started.
_WITH_TERMINAL = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, getattr(signal, sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
)


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what would change how the command looks."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    return {**kept, "TERM": "xterm", "TZ": "UTC", "PYTHONIOENCODING": "utf-8", **(changes or {})}


def placet(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal."""
    return run([*PLACET, *arguments], cwd, env)


def run(program: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # programs of our own
        program,
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


class AtATerminal:
    """A running command, and the person in front of it."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._raw = b""
        self._read_up_to = 0

    @property
    def raw(self) -> str:
        return self._raw.decode("utf-8", "replace")

    @property
    def screen(self) -> str:
        return _ESCAPE.sub("", self.raw).replace("\r\n", "\n")

    def expect(self, text: str) -> str:
        """Wait until the text appears behind what was expected before; what stands up to its end."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.screen.find(text, self._read_up_to)) < 0:
            assert self._read(deadline), f"{text!r} did not appear in:\n{self.screen[self._read_up_to :]}"
        before, self._read_up_to = self._read_up_to, found + len(text)
        return self.screen[before : self._read_up_to]

    def type(self, text: str) -> None:
        os.write(self._terminal, f"{text}\n".encode())

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def press_until(self, key: bytes, text: str) -> None:
        """Press the key, and again while nothing comes of it: a prompt can miss a Ctrl-C that comes as it opens."""
        for _ in range(5):
            self.press(key)
            deadline = time.monotonic() + PATIENCE / 5
            while text not in self.screen[self._read_up_to :] and self._read(deadline):
                pass
            if text in self.screen[self._read_up_to :]:
                break
        self.expect(text)

    def end(self) -> int:
        """Wait until the command has ended by itself; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(timeout=PATIENCE)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            found = os.read(self._terminal, 65536)
        except OSError:  # the other side is closed
            return False
        self._raw += found
        return bool(found)


@contextlib.contextmanager
def at_a_terminal(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, width: int = 80, sigint: str = "SIG_DFL"
) -> Iterator[AtATerminal]:
    """The command in a pseudo-terminal. Whatever happens, its process is gone afterwards."""
    with in_a_terminal([*PLACET, *arguments], cwd=cwd, env=env, size=(50, width), sigint=sigint) as terminal:
        yield terminal


@contextlib.contextmanager
def in_a_terminal(
    program: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    size: tuple[int, int],
    sigint: str = "SIG_DFL",
) -> Iterator[AtATerminal]:
    """A program, named by its whole path, in a pseudo-terminal of so many lines and columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, size)
    process = subprocess.Popen(  # noqa: S603  # programs of our own
        [sys.executable, "-c", _WITH_TERMINAL, sigint, *program],
        cwd=cwd,
        env=environment(env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield AtATerminal(process, ours)
    finally:
        process.kill()
        process.wait(timeout=PATIENCE)
        os.close(ours)
