"""Where the demo keeps its run: a folder with one state file, used by one process at a time.

Every append of the run's log is in the file before it counts, so a claim is there before its effect, and a decision
before anything follows from it. A run that has ended and was shown is put aside.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from placet import MemoryStore, RunState
from placet.cli.durable_file import write_durably
from placet.cli.exit_codes import CommandFailed
from placet.core.log import Line, Log, read_line
from placet.core.state import RunFold
from placet.facts.events import Record
from placet.ports import Lease
from placet.states.state_codec import PackedContext, StateDocument, dump_text


def make_folder(folder: Path) -> None:
    """The folder, for its owner alone; a sentence where it cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_usable = os.access(folder, os.W_OK | os.X_OK)
        why = "" if is_usable else "nothing can be written there"
    except OSError as error:
        why = "a file stands in its way" if isinstance(error, FileExistsError) else str(error.strerror)
    if why:
        raise CommandFailed(f"the demo cannot keep anything in {folder}: {why}. Name another folder with --dir.")


class DemoFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state.json"
        self.last = folder / "last.json"
        self.shop = folder / "shop"

    @contextlib.contextmanager
    def used_alone(self) -> Iterator[None]:
        """Make the folder, and keep other demos out of it for as long as this process lives."""
        make_folder(self.folder)
        ignored = self.folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
        with (self.folder / "lock").open("w", encoding="utf-8") as lock:
            _take(lock.fileno(), self.folder)
            yield

    def read(self) -> str | None:
        try:
            return self.state.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise CommandFailed(
                f"{self.state} is not a text: «placet demo --terminal --reset» starts afresh."
            ) from error

    def save(self, text: str) -> None:
        write_durably(self.state, text)

    def put_aside(self) -> None:
        """The run has ended and its picture was shown: the next demo begins a new one."""
        self.state.replace(self.last)

    def clear(self) -> None:
        self.state.unlink(missing_ok=True)
        shutil.rmtree(self.shop, ignore_errors=True)


def _take(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: then two demos at once are the person's own affair
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CommandFailed(
            f"Another demo is using {folder}{os.sep}: finish it there, or give this one a folder of its own (--dir)."
        ) from error


class SavingStore(MemoryStore):
    """The library's store in memory, with every append written to the demo's file before the run goes on."""

    def __init__(self, folder: DemoFolder) -> None:
        super().__init__()
        self._folder = folder
        self.log: Log | None = None

    def know(self, state: RunState[None]) -> None:
        """The file holds this state already. Handing its log to the store must not write it again: the file may also
        hold decisions that are not in the log yet."""
        self.log = state._log.copy()

    async def append(self, lease: Lease | None, log: Log, lines: Sequence[Line], run: RunFold) -> None:
        await super().append(lease, log, lines, run)
        longer = log.copy()
        for line in lines:
            longer.append(line)
        if self.log is not None and len(longer) <= len(self.log):
            return
        text = dump_text(StateDocument(longer, run, [], PackedContext("none")), None)
        await asyncio.to_thread(self._folder.save, text)
        self.log = longer

    def records(self) -> list[Record]:
        """The log so far."""
        return [] if self.log is None else [read_line(line) for line in self.log.lines]
