"""The gate for programs without an event loop, and for plain functions inside one: a thread runs the loop.

Works wherever it is called: also in a thread of a program that has a loop of its own. In the loop's own thread it
blocks that loop, as any plain function does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from placet.core.guest import GateCall, Permit
from placet.facts.codec import Json
from placet.facts.errors import GateError, UserError
from placet.gate.door import Reported
from placet.gate.port import Gate
from placet.ports import DeskStore

V = TypeVar("V")


class SyncGate:
    """The same as `Gate`, with plain methods. Close it, or use it as `with SyncGate(…) as gate:`."""

    def __init__(self, at: str | DeskStore, **options: Any) -> None:  # Any: the keywords of Gate, which checks them
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.gate = Gate(at, **options)
        """Its methods belong to the loop of this gate's thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_gate()

    def close_gate(self) -> None:
        """Let go of connections and of the thread. What waits goes on waiting."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            self._is_closed = True
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self.gate.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise UserError("This gate was closed.")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="placet-gate", daemon=True)
                self._thread.start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, V]) -> V:
        """Do it in the gate's loop, and wait for it here."""
        try:
            loop = self._running()
        except UserError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of an interrupt here; of an error there it has ended already
            raise

    # -- the verbs ----------------------------------------------------------------------------------------------------

    def propose(
        self, tool: str, arguments: Mapping[str, object], *, session: str, call_id: str, **more: Any
    ) -> GateCall:
        return self.run(self.gate.propose(tool, arguments, session=session, call_id=call_id, **more))

    def wait(self, call: GateCall | str, timeout: float | None = None) -> GateCall:
        return self.run(self.gate.wait(call, timeout))

    def look(self, call: GateCall | str) -> GateCall:
        return self.run(self.gate.look(call))

    def claim(self, call: GateCall | str, *, lease: float | None = None, again: bool = False) -> Permit:
        return self.run(self.gate.claim(call, lease=lease, again=again))

    def renew(self, permit: Permit, lease: float | None = None) -> Permit:
        return self.run(self.gate.renew(permit, lease))

    def report(self, permit: Permit, outcome: Reported, output: Json = None) -> GateCall:
        return self.run(self.gate.report(permit, outcome, output))

    def withdraw(self, call: GateCall | str) -> GateCall:
        return self.run(self.gate.withdraw(call))

    def close(self, session: str) -> None:
        """End a session, as `Gate.close` does. The gate itself is closed by `close_gate`."""
        self.run(self.gate.close(session))

    @contextlib.contextmanager
    def call(self, tool: str, arguments: Mapping[str, object], **options: Any) -> Iterator[Permit]:
        """`with gate.call("refund", {…}) as permit:` as `Gate.call` does it."""
        entered = self.gate.call(tool, arguments, **options)
        permit = self.run(entered.__aenter__())
        with self._leaving(entered):
            yield permit

    @contextlib.contextmanager
    def executing(self, permit: Permit) -> Iterator[Permit]:
        """While the block executes the call, the gate's thread renews its lease; its end is reported."""
        entered = self.gate.executing(permit)
        self.run(entered.__aenter__())
        with self._leaving(entered):
            yield permit

    @contextlib.contextmanager
    def _leaving(self, entered: contextlib.AbstractAsyncContextManager[Permit]) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(type(error), GateError):
                self.run(_leave(entered, error))
            raise
        self.run(_leave(entered, None))


async def _leave(entered: contextlib.AbstractAsyncContextManager[Permit], error: BaseException | None) -> None:
    kind = None if error is None else type(error)
    await entered.__aexit__(kind, error, None if error is None else error.__traceback__)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
