"""The simulation of docs/scale.md obeys the laws that any such system obeys. What it says is checked against real runs
by `python3 dev.py bench scale`."""

from __future__ import annotations

import pytest

from bench.scale import Costs, Machines, most_per_second, simulate

COSTS = Costs(program=13.0, server=9.0, flush=2.0)


def test_no_part_works_more_than_all_the_time_and_every_run_ends() -> None:
    outcome = simulate(COSTS, Machines(workers=4, server_cores=2), runs=500)

    assert outcome.runs == len(outcome.effects) == 500
    assert all(0 < share <= 1.0001 for share in outcome.busy.values()), outcome.busy


def test_the_rate_is_bounded_by_the_part_that_is_asked_most() -> None:
    by_workers = most_per_second(COSTS, Machines(workers=1, server_cores=16))
    by_server = most_per_second(COSTS, Machines(workers=64, server_cores=1))

    assert by_workers == pytest.approx(1000 / COSTS.program, rel=0.05)
    assert by_server == pytest.approx(1000 / COSTS.server, rel=0.05)


def test_on_shared_processors_both_parts_count() -> None:
    rate = most_per_second(COSTS, Machines(workers=4, server_cores=2, shared=True))

    assert rate == pytest.approx(2 * 1000 / (COSTS.program + COSTS.server), rel=0.05)


def test_commits_share_a_flush_and_those_that_notify_do_not() -> None:
    many = Machines(workers=512, server_cores=512)
    outcome = simulate(COSTS, many, runs=2000, thinks=0.0)

    assert outcome.first_limit == "commits that notify"
    # Two commits of a run notify, one after another; each may come in the middle of the flush of others.
    assert 1000 / COSTS.flush / 4 <= outcome.per_second <= 1000 / COSTS.flush / 2


def test_from_a_decision_to_its_effect_is_two_commits_when_nobody_else_is_there() -> None:
    outcome = simulate(COSTS, Machines(workers=4, server_cores=4), runs=50, rate=1)
    at_least = 2 * ((COSTS.program + COSTS.server) / COSTS.commits + COSTS.flush)

    assert outcome.within(0.5) == pytest.approx(at_least, rel=0.05)


def test_the_same_seed_gives_the_same_story() -> None:
    one, other = (simulate(COSTS, Machines(workers=2, server_cores=2), runs=200, rate=20) for _ in range(2))

    assert one == other
