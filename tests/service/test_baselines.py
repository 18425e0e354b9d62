"""Samples of decisions: filled from the feed, once each, bounded, gone with their run, the same on both databases."""

from __future__ import annotations

import asyncio
import json

import pytest

from placet.clock import SYSTEM_CLOCK
from placet.core.baseline import Sample
from placet.facts import events as e
from placet.facts.codec import JsonObject
from placet.facts.ids import request_id
from placet.ports import DeskStore
from placet.service import baselines
from placet.service.baselines import Baselines, samples_of
from placet.stores.opening import open_store
from placet.testing.run_writer import RunWriter, until


async def asked(store: DeskStore, *arguments: JsonObject, tool: str = "pay") -> RunWriter:
    """A run with these calls, all of which wait."""
    run = RunWriter(at=SYSTEM_CLOCK.now())
    await run.begin(store)
    output: list[JsonObject] = [
        {"type": "function_call", "name": tool, "arguments": json.dumps(each), "call_id": f"c{n}"}
        for n, each in enumerate(arguments)
    ]
    held = [e.CallHeld(f"1.{n}", f"digest {n}", f"function:{tool}", "print") for n in range(len(arguments))]
    await run.append(store, e.RequestSent(), e.ResponseReceived(None, output, e.Usage()), *held)
    return run


async def given_up(store: DeskStore, run: RunWriter, *calls: str) -> None:
    """End the run, so that it can be erased."""
    ends = [e.CallEnded(call, "rejected", "no") for call in calls]
    await run.append(store, *ends, e.CancelAsked("ann", run.at), e.RunCancelled())


async def of_pay(store: DeskStore) -> list[Sample]:
    return await samples_of(store, "Clerk", "pay")


def cents(samples: list[Sample]) -> list[object]:
    return [sample.fields["cents"].plain for sample in samples]


async def test_what_people_decided_is_taken_once_however_often_and_by_whomever(any_url: str) -> None:
    async with open_store(any_url) as store:
        run = await asked(store, {"cents": 1}, {"cents": 2}, {"cents": 3}, {"cents": 4})
        await run.decide(store, "1.0")
        await run.decide(store, "1.1", "reject")
        await run.append(store, e.DecisionMade("1.2", 1, "digest 2", "respond", "ann", run.at, output="done"))
        one, other = Baselines(store, SYSTEM_CLOCK), Baselines(store, SYSTEM_CLOCK)

        await asyncio.gather(one.fill(), other.fill())
        await one.fill()
        found = await of_pay(store)

    assert sorted((sample.fields["cents"].plain, sample.approved, sample.by) for sample in found) == [
        (1, True, "ann"),
        (2, False, "ann"),
    ]


async def test_a_standing_decision_is_no_example_and_an_edit_is_one_of_what_it_made(any_url: str) -> None:
    async with open_store(any_url) as store:
        run = await asked(store, {"cents": 1}, {"cents": 2})
        await run.append(store, e.DecisionMade("1.0", 1, "digest 0", "approve", "ann", run.at, grant="grant_1"))
        await run.append(store, e.DecisionMade("1.1", 1, "new", "edit", "ann", run.at, arguments={"cents": 20}))

        await Baselines(store, SYSTEM_CLOCK).fill()

        assert cents(await of_pay(store)) == [20]


async def test_an_approval_that_was_taken_back_is_no_example(any_url: str) -> None:
    async with open_store(any_url) as store:
        samples = Baselines(store, SYSTEM_CLOCK)
        run = await asked(store, {"cents": 1}, {"cents": 2})
        await run.decide(store, "1.0")
        await run.decide(store, "1.1")
        await samples.fill()
        revoked = e.DecisionRevoked("1.0", "ann", run.at, None)
        await run.append(store, revoked, e.CallHeld("1.0", "digest 0", "function:pay", "print"))

        await samples.fill()
        after = cents(await of_pay(store))
        await samples.rebuild()

        assert after == [2]
        assert cents(await of_pay(store)) == [2]


@pytest.mark.parametrize("end", ["erase", "delete", "purge"])
async def test_what_was_taken_from_a_run_goes_with_it(any_url: str, end: str) -> None:
    async with open_store(any_url) as store:
        samples = Baselines(store, SYSTEM_CLOCK)
        stays, goes = await asked(store, {"cents": 1}), await asked(store, {"cents": 2})
        await stays.decide(store)
        await goes.decide(store, "1.0", "reject")
        await samples.fill()
        await given_up(store, goes, "1.0")
        if end == "purge":
            await store.purge(goes.at + 1000)
        else:
            await getattr(store, end)(goes.id)

        left = cents(await of_pay(store))
        await samples.rebuild()

        assert left == [1]
        assert cents(await of_pay(store)) == [1]


async def test_only_the_newest_are_kept_and_they_come_first(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_SAMPLES", 5)
    monkeypatch.setattr(baselines, "SPARE", 2)
    async with open_store(any_url) as store:
        run = await asked(store, *({"cents": n} for n in range(12)))
        for n in range(12):
            await run.append(store, e.DecisionMade(f"1.{n}", 1, f"digest {n}", "approve", "ann", run.at))

        await Baselines(store, SYSTEM_CLOCK).fill()

        assert cents(await of_pay(store)) == [11, 10, 9, 8, 7]
        assert await Baselines(store, SYSTEM_CLOCK).count() <= 7


async def test_tools_of_other_names_and_agents_do_not_mix(url: str) -> None:
    async with open_store(url) as store:
        for tool in ("pay", "pa", "pay2"):
            run = await asked(store, {"cents": 1}, tool=tool)
            await run.decide(store)
        await Baselines(store, SYSTEM_CLOCK).fill()

        assert len(await of_pay(store)) == 1
        assert await samples_of(store, "Clerk2", "pay") == []


async def test_a_desk_fills_by_itself_while_decisions_are_made(any_url: str) -> None:
    async with open_store(any_url) as store:
        serving = asyncio.create_task(Baselines(store, SYSTEM_CLOCK).serve())
        run = await asked(store, {"cents": 1})
        await run.decide(store)

        async def is_there() -> bool:
            return bool(await of_pay(store))

        await until(is_there)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        request = await store.request(request_id(run.id, "1.0", 1))

    assert request is not None
    assert request.status == "approved"
