"""What calls took of budgets, in the memory of one process. Its holder has the lock."""

from __future__ import annotations

from collections.abc import Sequence

from placet.core.budget import KEPT_AFTER, Spent, TakenShare, Taking
from placet.facts.errors import BudgetExhausted

_MOST_BEFORE_LOOKING = 1000
"""So many takes are kept before those that are of no use are looked for."""
_Key = tuple[str, str, str, str]


class Takes:
    """Every take of each budget that may still count, and the sums of periods."""

    def __init__(self) -> None:
        self._by_call: dict[tuple[str, str, str], Taking] = {}
        self._windows: dict[_Key, list[Taking]] = {}
        """Of limits that look back: what was taken, oldest first."""
        self._sums: dict[_Key, int] = {}
        self._look_at = _MOST_BEFORE_LOOKING

    def take(self, takings: Sequence[Taking]) -> None:
        """All shares, or BudgetExhausted and none of them."""
        new = [taking for taking in takings if _of_call(taking) not in self._by_call]
        taken: dict[_Key, int] = {}
        for taking in new:
            taken[taking.key] = taken.get(taking.key, 0) + taking.part.amount
            if self._sum(taking) + taken[taking.key] > taking.part.most:
                raise BudgetExhausted(f"The budget {taking.budget} does not cover call {taking.call} any more.")
        for taking in new:
            self._by_call[_of_call(taking)] = taking
            if taking.part.within is None:
                self._sums[taking.key] = self._sums.get(taking.key, 0) + taking.part.amount
            else:
                self._windows.setdefault(taking.key, []).append(taking)
        if new and len(self._by_call) > self._look_at:
            self._forget(max(taking.at for taking in new))

    def _sum(self, taking: Taking) -> int:
        since = taking.since
        if since is None:
            return self._sums.get(taking.key, 0)
        return sum(each.part.amount for each in self._windows.get(taking.key, ()) if each.at > since)

    def spent(self, taking: Taking) -> Spent:
        return Spent(self._sum(taking), _of_call(taking) in self._by_call)

    def shares(self, budget: str, at: float) -> list[TakenShare]:
        found: dict[_Key, list[int]] = {}
        for taking in self._by_call.values():
            until = taking.part.until
            if taking.budget == budget and (until is None or until > at):
                found.setdefault(taking.key, []).append(taking.part.amount)
        shares = [TakenShare(*key[1:], sum(amounts), len(amounts)) for key, amounts in found.items()]
        return sorted(shares, key=lambda share: (-share.amount, share.group))

    def _forget(self, now: float) -> None:
        """What has been of no use for a while. What may still count is never forgotten: that would be a fresh budget.
        Sums of periods that go on stay whole, since all takes of a period become useless at once."""
        old = [key for key, taking in self._by_call.items() if _is_old(taking, now)]
        keys = {self._by_call.pop(key).key for key in old}
        for key in keys:
            left = [taking for taking in self._windows.get(key, ()) if not _is_old(taking, now)]
            if left:
                self._windows[key] = left
            else:
                self._windows.pop(key, None)
                self._sums.pop(key, None)
        self._look_at = max(_MOST_BEFORE_LOOKING, 2 * len(self._by_call))


def _of_call(taking: Taking) -> tuple[str, str, str]:
    return taking.budget, taking.part.limit, taking.call


def _is_old(taking: Taking, now: float) -> bool:
    return taking.part.until is not None and taking.part.until < now - KEPT_AFTER
