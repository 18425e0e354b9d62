"""Stores and `fork`: a child must neither use nor close what its parent has open."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class SurvivesForks(Protocol):
    def _after_fork(self) -> None:
        """In the child: let go of everything without closing it (`leave_to_the_parent`), and begin anew."""
        ...


_stores: weakref.WeakSet[SurvivesForks] = weakref.WeakSet()
_left_to_the_parent: list[object] = []


def watch_forks(store: SurvivesForks) -> None:
    _stores.add(store)


def leave_to_the_parent(opened: object) -> None:
    """Keep it from being collected: that would close it."""
    _left_to_the_parent.append(opened)


def _in_the_child() -> None:
    for store in list(_stores):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)
