"""The targets: how far ahead of the best peer Placet is meant to be, how little its costs may grow, and is it so?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bench.contenders import LIMIT, PLACET
from bench.results import Results
from bench.work import Figure, Work


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: Literal["ahead", "growth"]
    """Times faster (or smaller) than the best peer; or times the cost at a smaller size, which is to stay small."""
    work: str
    size: int
    figure: str
    target: float
    reached: float
    against: str
    """The best peer, or the smaller size."""

    @property
    def is_met(self) -> bool:
        return self.reached >= self.target if self.kind == "ahead" else self.reached <= self.target


def best_peer(values: Mapping[str, float]) -> str | None:
    """Who of the peers has the least of a figure."""
    peers = [name for name in values if name not in (PLACET.name, LIMIT.name)]
    return min(peers, key=lambda name: values[name], default=None)


def ahead(values: Mapping[str, float]) -> float | None:
    """How many times less than the best peer's Placet's figure is."""
    peer = best_peer(values)
    mine = values.get(PLACET.name)
    return values[peer] / mine if peer is not None and mine else None


def of_figure(results: Results, work: Work, size: int, figure: Figure) -> Verdict | None:
    values = results.of(work, size, figure)
    target, reached = figure.targets.get(size), ahead(values)
    if target is None or reached is None:
        return None
    return Verdict("ahead", work.name, size, figure.key, target, reached, best_peer(values) or "")


def of_growth(results: Results, work: Work, figure: Figure) -> Verdict | None:
    if work.growth is None or work.growth_target is None:
        return None
    small, large = work.growth
    before, after = (results.of(work, size, figure).get(PLACET.name) for size in work.growth)
    if not before or not after:
        return None
    return Verdict("growth", work.name, large, figure.key, work.growth_target, after / before, f"size {small}")


def verdicts(results: Results, works: Sequence[Work]) -> Iterator[Verdict]:
    for work in works:
        for figure in work.figures:
            found = [of_figure(results, work, size, figure) for size in work.sizes]
            yield from (each for each in [*found, of_growth(results, work, figure)] if each is not None)


def unmet(results: Results, works: Sequence[Work]) -> list[dict[str, Any]]:
    """For the file of results: what was meant to be, and was not."""
    return [asdict(each) for each in verdicts(results, works) if not each.is_met]
