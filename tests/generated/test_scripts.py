"""Generated runs keep what is promised, whatever is asked, said, lost, stored and resumed in whatever order.

Hypothesis looks for scripts that break a promise and shrinks them; `python -m tests.generated.sweep` looks much further
by seeds.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.generated.play import check
from tests.generated.script import PLAIN, Script, Way, a_script, a_way
from tests.generated.sweep import check_seed

T = TypeVar("T")


class Drawn:
    """Choices by hypothesis, which makes them as simple as it can."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def number(self, lowest: int, highest: int) -> int:
        return self._draw(st.integers(lowest, highest))

    def happens(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) >= 100 - percent


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    return a_script(Drawn(draw))


@st.composite
def ways(draw: st.DrawFn) -> Way:
    return a_way(Drawn(draw))


GENERATED = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.mark.promise("P1", "P2", "P4", "P5", "P6", "P7", "P12", "P17")
@GENERATED
@given(script=scripts(), way=ways())
def test_a_generated_script_keeps_every_promise_and_leaves_the_same_log_in_two_ways(script: Script, way: Way) -> None:
    asyncio.run(check(script, PLAIN, way))


@pytest.mark.parametrize("first", range(0, 100, 25))
async def test_the_first_seeds_of_the_long_sweep_hold(first: int) -> None:
    for seed in range(first, first + 25):
        try:
            await check_seed(seed)
        except Exception as error:
            error.add_note(f"python -m tests.generated.sweep --seeds 1 --start {seed}")
            raise
