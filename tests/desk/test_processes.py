"""Many reviewers and many processes on one store: one word wins, one process drives, and each effect happens once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from placet import RunFinished, StaleApproval
from placet.desk import Desk
from tests.desk.scenes import PATIENCE, Witness, paused, support
from tests.desk.worker import crew

ROOT = Path(__file__).parents[2]


@contextmanager
def worker(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603  # a program of our own
        [sys.executable, "-m", "tests.desk.worker", *words],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_of_sixteen_reviewers_who_contradict_each_other_one_wins_and_the_others_learn_who(
    any_url: str, witness: Witness
) -> None:
    desk = Desk(any_url, agents=[support(witness)])
    async with paused(desk) as (run, request):

        async def say(number: int) -> object:
            try:
                return await desk.decide(
                    request.id, "approve" if number % 2 else "reject", by=f"r{number}", message=f"m{number}"
                )
            except (StaleApproval, RunFinished) as error:  # the first word may have ended the run already
                return error

        found = await asyncio.gather(*map(say, range(16)))
        row = await desk.request(request.id)
        await desk.wait(run.id, timeout=PATIENCE)

    losers = [each for each in found if isinstance(each, Exception)]
    assert len(losers) == 15
    assert all(f"by {row.decided_by} " in str(each) for each in losers)
    assert witness.lines() == (["refund 7"] if row.status == "approved" else [])


async def test_of_reviewers_in_processes_who_contradict_each_other_one_side_wins(url: str, witness: Witness) -> None:
    desk = Desk(url, agents=[support(witness)])
    async with paused(desk) as (run, request):
        words = ["approve", "reject"] * 3

        def race() -> list[str]:
            with ExitStack() as stack:
                all_of_them = [
                    stack.enter_context(worker("decide", url, request.id, verdict, f"r{place}"))
                    for place, verdict in enumerate(words)
                ]
                for each in all_of_them:
                    assert said(each) == "ready"
                for each in all_of_them:
                    assert each.stdin is not None
                    each.stdin.write("go\n")
                    each.stdin.flush()
                return [said(each) for each in all_of_them]

        answers = await asyncio.to_thread(race)
        row = await desk.request(request.id)
        await desk.wait(run.id, timeout=PATIENCE)

    won = {word for word, answer in zip(words, answers, strict=True) if answer == "won"}
    lost = [answer for answer in answers if answer != "won"]
    assert len(won) == 1
    assert len(lost) == 3
    assert all(f"by {row.decided_by} " in answer for answer in lost)
    assert witness.lines() == (["refund 7"] if won == {"approve"} else [])


async def test_two_processes_that_serve_one_store_do_each_effect_once(any_url: str, witness: Witness) -> None:
    place = str(witness.path)
    with (
        worker("serve", any_url, place) as one,
        worker("serve", any_url, place) as two,
        worker("review", any_url, place),
    ):
        await asyncio.to_thread(said, one)
        await asyncio.to_thread(said, two)
        async with Desk(any_url, agents=[crew(witness)], run=False) as desk:
            runs = [await desk.start("Crew", "go") for _ in range(12)]
            ended = [await desk.wait(run.id, timeout=100) for run in runs]

    assert {run.status for run in ended} == {"ended"}
    assert len(witness.lines()) == len(set(witness.lines())) == 12 * 5
