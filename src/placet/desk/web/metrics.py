"""What this process of the desk counts, for Prometheus. What is true of the whole store is asked of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from placet.ports import EngineHealth, StoreNumbers
from placet.service.metrics import gauge, metrics_page, policy_families, store_families
from placet.service.policy_state import PolicyState

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets for the time that answers take, in seconds."""


class Meter:
    """Counts requests and decisions. Plain counters: the library's own would add a time of creation to each."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By method, route and status."""
        self.decisions: Counter[tuple[str, str]] = Counter()
        """By verdict and outcome."""
        self.broken_glass = 0
        """How often somebody went ahead alone."""
        self.dropped_listeners = 0
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        self._seconds += seconds
        self._buckets[next((bound for bound in BOUNDS if seconds <= bound), float("inf"))] += 1

    def count_decision(self, verdict: str, outcome: str) -> None:
        self.decisions[verdict, outcome] += 1

    def text(
        self, store: StoreNumbers, engine: EngineHealth, policy: PolicyState, *, listeners: int, reviews: int = 0
    ) -> str:
        """All figures, as one page. `reviews`: how many are owed after somebody went ahead alone."""
        owed = gauge("placet_reviews_owed", "Reviews owed after somebody went ahead alone.", reviews)
        of_store = (*store_families(store), *policy_families(policy), owed)
        return metrics_page([*of_store, *self._process(engine, listeners), *self._counts()])

    def _process(self, engine: EngineHealth, listeners: int) -> Iterator[Metric]:
        yield gauge("placet_engine_driving", "Runs that this process drives.", engine.driving)
        yield gauge("placet_engine_serving", "Whether this process drives runs.", int(engine.is_serving))
        yield gauge("placet_listeners", "Live event streams of this process.", listeners)
        text = "Event streams that were ended because their client was too slow."
        yield CounterMetricFamily("placet_listeners_dropped", text, value=self.dropped_listeners)

    def _counts(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily(
            "placet_decisions", "Decisions that came in here.", labels=["verdict", "outcome"]
        )
        for (verdict, outcome), number in sorted(self.decisions.items()):
            decisions.add_metric([verdict, outcome], number)
        yield decisions
        text = "How often somebody went ahead alone here."
        yield CounterMetricFamily("placet_break_glass", text, value=self.broken_glass)
        requests = CounterMetricFamily(
            "placet_http_requests", "Requests that were answered.", labels=["method", "route", "status"]
        )
        for (method, route, status), number in sorted(self.requests.items()):
            requests.add_metric([method, route, str(status)], number)
        yield requests
        bounds = [*BOUNDS, float("inf")]
        up_to = accumulate(self._buckets[bound] for bound in bounds)
        yield HistogramMetricFamily(
            "placet_http_request_seconds",
            "How long answers took, event streams left out.",
            buckets=[(_bound(bound), number) for bound, number in zip(bounds, up_to, strict=True)],
            sum_value=self._seconds,
        )


def _bound(value: float) -> str:
    return "+Inf" if value == float("inf") else str(value)
