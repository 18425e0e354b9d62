"""Logs that no run wrote: turns of many kinds, most of them as most turns go, for a seed."""

from __future__ import annotations

import random
from typing import Any

from placet.facts import events as e
from placet.testing import assistant_message, function_call, reasoning


class LogWriter:
    """Writes logs with turns of many kinds, most of them plain, for a seed."""

    def __init__(self, seed: int, *, odd_calls: bool = True) -> None:
        self.chance = random.Random(seed)
        self.odd_calls = odd_calls
        self.turn = 0
        self.facts: list[e.AnyFact] = [
            e.RunStarted("Clerk", "go", None, self.chance.choice(["own", "auto", "conversation"])),
            e.RequestSent(self.chance.choice([None, "", "item_0"])),
        ]

    def write(self, turns: int) -> list[e.AnyFact]:
        for _ in range(turns):
            self.chance.choice([self.free, self.free, self.asked, self.asked, self.odd])()
        self.answer(self.call(), self.call())
        self.facts.append(held(f"{self.turn}.0"))
        return self.facts

    def free(self) -> None:
        self.answer(*self.preface(), self.call())
        local = f"{self.turn}.0"
        self.facts += [e.CallsAllowed([local]), e.CallsStarted([local]), self.ended(local), self.request()]

    def asked(self) -> None:
        self.answer(*self.preface(), self.call())
        local = f"{self.turn}.0"
        self.facts += [held(local), decided(local, grant=self.chance.choice([None, "g1"])), e.CallsStarted([local])]
        self.facts += [self.ended(local), self.request()]

    def odd(self) -> None:
        """A turn that no short way may be taken for."""
        self.chance.choice([self.edited, self.rejected, self.parallel, self.unasked, self.stopped, self.begun_twice])()

    def edited(self) -> None:
        self.answer(self.call())
        local = f"{self.turn}.0"
        word = e.DecisionMade(local, 1, "d2", "edit", "ann", 1.0, arguments={"cents": self.turn})
        self.facts += [held(local), word, e.CallsStarted([local]), self.ended(local), self.request()]

    def rejected(self) -> None:
        self.answer(self.call())
        local = f"{self.turn}.0"
        self.facts += [held(local), decided(local, "reject"), e.CallEnded(local, "rejected", "no"), self.request()]

    def parallel(self) -> None:
        self.answer(self.call(), self.call())
        first, second = f"{self.turn}.0", f"{self.turn}.1"
        self.facts += [held(first), e.CallsAllowed([second]), e.CallsStarted([second]), self.ended(second)]
        self.facts += [decided(first), e.CallsStarted([first]), self.ended(first), self.request()]

    def unasked(self) -> None:
        """An answer without calls, and a message that came after it."""
        self.answer(assistant_message("well?"))
        self.facts += [e.InputAdded([{"role": "user", "content": "go on"}], f"in_{self.turn}"), self.request()]

    def stopped(self) -> None:
        self.answer(self.call())
        local = f"{self.turn}.0"
        self.facts += [e.CallsAllowed([local]), e.RunStopped("max_turns", "enough"), e.CallsStarted([local])]
        self.facts += [self.ended(local), self.request(), e.RequestRefused("busy"), self.request()]

    def begun_twice(self) -> None:
        self.answer(self.call())
        local = f"{self.turn}.0"
        self.facts += [e.CallsAllowed([local]), e.CallsStarted([local]), e.CallsStarted([local])]
        self.facts += [self.ended(local), self.request()]

    def answer(self, *items: Any) -> None:
        self.turn += 1
        usage = e.Usage(1, self.turn, 2, 3, self.chance.choice([0, 4]), 0, self.chance.choice([0, 5]))
        self.facts.append(e.ResponseReceived(f"resp_{self.turn}", list(items), usage))

    def call(self) -> Any:
        item = function_call("pay", {"cents": self.turn}, call_id=f"call_{self.turn}_{self.chance.random()}")
        if not self.odd_calls:
            return item
        item["call_id"] = self.chance.choice([item["call_id"]] * 6 + ["call_1", ""])
        return self.chance.choice([item] * 8 + [item | {"arguments": None}, item | {"id": "fc_1"}])

    def preface(self) -> list[Any]:
        return self.chance.choice([[], [], [reasoning("hm")], [assistant_message("I pay.")]])

    def ended(self, local: str) -> e.CallEnded:
        return e.CallEnded(local, self.chance.choice(["finished", "failed"]), f"paid {self.turn}")

    def request(self) -> e.RequestSent:
        return e.RequestSent(self.chance.choice([None, f"item_{self.turn}"]))


def held(local: str) -> e.CallHeld:
    return e.CallHeld(local, "d1", "function:pay", "f1")


def decided(local: str, verdict: Any = "approve", **more: Any) -> e.DecisionMade:
    return e.DecisionMade(local, 1, "d1", verdict, "ann", 1.0, **more)
