"""The one thread that writes to an SQLite file: it takes all that waits into one transaction, and so into one sync to
the disk.

Each piece of work has a savepoint: one that conflicts does not fail its neighbours. Nobody is told of success before
the commit.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeAlias, TypeVar

from placet.facts.errors import PlacetError, StoreError
from placet.stores.sql.statements import Steps
from placet.stores.sqlite.file import SQLiteFile, begin, execute_steps

V = TypeVar("V")

MAX_GROUP = 512
"""Pieces of work in one transaction."""


class _Job(Generic[V]):
    def __init__(self, steps: Steps[V] | None) -> None:
        self.steps = steps
        """None: only open the file."""
        self.future: Future[V] = Future()


_OF_THE_WHOLE_TRANSACTION = (sqlite3.OperationalError, sqlite3.InternalError)

_Outcome: TypeAlias = tuple[_Job[Any], Any, Exception | None]  # Any: each job has its own result


class Writer:
    def __init__(self, file: SQLiteFile, when_written: Callable[[], None]) -> None:
        self._file = file
        self._when_written = when_written
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="placet-writer", daemon=True)
        self._thread.start()

    def submit(self, steps: Steps[V] | None) -> Future[V]:
        """Have steps executed in a transaction; the future is resolved when it is on the disk."""
        job = _Job(steps)
        with self._lock:
            if self._is_closed:
                raise StoreError(f"The store {self._file.path} was closed.")
            self._queue.put(job)
        return job.future

    def close(self) -> None:
        """Finish what waits, then end."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        while self._serve_once():  # what was done must not be held on to while waiting: it may hold the store
            pass
        self._drop_connection(at_the_end=True)

    def _serve_once(self) -> bool:
        """Wait for work and do all that is there. False: it was the last."""
        found = [self._queue.get()]
        while len(found) < MAX_GROUP and found[-1] is not None:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                break
        self._carry_out([job for job in found if job is not None and job.future.set_running_or_notify_cancel()])
        return found[-1] is not None

    def _carry_out(self, group: Sequence[_Job[Any]]) -> None:
        try:
            outcomes = self._in_one_transaction(group)
        except Exception as error:  # noqa: BLE001  # whatever it was: those who wait hear of it, and the thread goes on
            self._drop_connection()
            outcomes = [(job, None, self._explain(error)) for job in group]
        for job, result, failure in outcomes:
            if failure is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(failure)
        self._when_written()

    def _in_one_transaction(self, group: Sequence[_Job[Any]]) -> list[_Outcome]:
        if self._db is None:
            self._db = self._file.connect()
        outcomes: list[_Outcome] = [(job, None, None) for job in group if job.steps is None]
        if len(outcomes) < len(group):
            with begin(self._db):
                outcomes += [self._do(self._db, job, job.steps) for job in group if job.steps is not None]
        return outcomes

    def _do(self, db: sqlite3.Connection, job: _Job[V], steps: Steps[V]) -> _Outcome:
        db.execute("SAVEPOINT job")
        try:
            result = execute_steps(db, steps)
        except _OF_THE_WHOLE_TRANSACTION:
            raise
        except Exception as error:  # noqa: BLE001  # a conflict, a bug: it is this job's alone
            db.execute("ROLLBACK TO job")
            db.execute("RELEASE job")
            return job, None, self._explain(error)
        db.execute("RELEASE job")
        return job, result, None

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, PlacetError):
            return error
        if isinstance(error, sqlite3.Error):
            return self._file.explain(error)
        return StoreError(f"The store {self._file.path} failed: {error!r}.")

    def _drop_connection(self, *, at_the_end: bool = False) -> None:
        """After an error of the disk a new connection is the surest way to a known state."""
        if self._db is not None and (at_the_end or not self._file.is_memory):
            self._db.close()
            self._db = None
