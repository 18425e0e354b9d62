"""Observers at work: notified of what becomes durable. They decide nothing; an error in one is logged and stays its
own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TypeVar

from placet.core.log import Log, read_lines
from placet.facts.events import AnyFact
from placet.ports import DriveObserver, Observer

logger = logging.getLogger("placet.observers")
V = TypeVar("V")


class DriveObservers:
    """The observers of one drive."""

    def __init__(self, run_id: str, observers: Sequence[Observer], log: Log, metadata: Mapping[str, str]) -> None:
        before = [(record.at, record.facts) for record in read_lines(log.lines)]
        begun = (self._guarded(lambda each=each: each.drive_began(run_id, before, metadata)) for each in observers)  # type: ignore[misc]
        self._observers: list[DriveObserver] = [each for each in begun if each is not None]

    def on_facts(self, at: float, facts: Sequence[AnyFact]) -> None:
        for each in self._observers:
            self._guarded(lambda each=each: each.on_facts(at, facts))  # type: ignore[misc]

    @contextmanager
    def around_tool_function(self, call_id: str) -> Iterator[None]:
        with ExitStack() as stack:
            for each in self._observers:
                stack.enter_context(_Guarded(self._guarded(lambda each=each: each.around_tool_function(call_id))))  # type: ignore[misc]
            yield

    def drive_ended(self, error: BaseException | None) -> None:
        for each in self._observers:
            self._guarded(lambda each=each: each.drive_ended(error))  # type: ignore[misc]

    @staticmethod
    def _guarded(notify: Callable[[], V]) -> V | None:
        try:
            return notify()
        except Exception:
            logger.exception("an observer failed", extra={"action": "observer_failed"})
            return None


class _Guarded(AbstractContextManager[None]):
    """A context of an observer's, whose own errors do not reach what runs inside."""

    def __init__(self, inner: AbstractContextManager[None] | None) -> None:
        self._inner: AbstractContextManager[None] = inner if inner is not None else nullcontext()

    def __enter__(self) -> None:
        if DriveObservers._guarded(lambda: (self._inner.__enter__(), True)) is None:
            self._inner = nullcontext()

    def __exit__(self, *raised: object) -> None:
        DriveObservers._guarded(lambda: self._inner.__exit__(*raised))  # type: ignore[arg-type]  # passed on as they came
