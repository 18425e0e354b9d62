"""Ids that the services mint: readable, and the same in every run of a test."""

from __future__ import annotations

from collections import Counter


class Mint:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._known: set[str] = set()

    def short(self, prefix: str) -> str:
        """resp_1, resp_2, …: for what tests like to name."""
        return self._next(prefix, "{}_{}")

    def long(self, prefix: str) -> str:
        """msg_000001, msg_000002, …: unlike what a script would write."""
        return self._next(prefix, "{}_{:06}")

    def claim(self, name: str) -> bool:
        """Whether the id is new; from now on it is not."""
        is_new = name not in self._known
        self._known.add(name)
        return is_new

    def _next(self, prefix: str, form: str) -> str:
        while True:
            self._counts[prefix] += 1
            name = form.format(prefix, self._counts[prefix])
            if self.claim(name):
                return name
