"""Figures about a desk, in the text format that Prometheus reads. Written by hand: a few counters need no library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placet.ports import EngineHealth, StoreNumbers

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5)
"""Upper ends of the buckets of request times, in seconds."""


class Meter:
    """Counts what this process does. What is true of the whole store is asked of the store."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By method, route and status."""
        self.decisions: Counter[tuple[str, str]] = Counter()
        """By verdict and outcome."""
        self.dropped_listeners = 0
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._timed = 0

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        self._seconds += seconds
        self._timed += 1
        for bound in BOUNDS:
            if seconds <= bound:
                self._buckets[bound] += 1

    def count_decision(self, verdict: str, outcome: str) -> None:
        self.decisions[verdict, outcome] += 1

    def text(self, store: StoreNumbers, engine: EngineHealth, *, listeners: int) -> str:
        """All figures, as one page."""
        oldest = store.oldest_request.seconds if store.oldest_request is not None else 0.0
        runs = {"running": store.running, "waiting": store.waiting, "ended": store.ended}
        parts = [
            *_labelled("placet_runs", "gauge", "Runs in the store.", {f'status="{k}"': v for k, v in runs.items()}),
            *_plain("placet_pending_requests", "gauge", "Questions that wait for a person.", store.pending),
            *_plain("placet_oldest_pending_seconds", "gauge", "How long the oldest of them has waited.", oldest),
            *_plain("placet_engine_driving", "gauge", "Runs that this process drives.", engine.driving),
            *_plain("placet_engine_serving", "gauge", "Whether this process drives runs.", int(engine.is_serving)),
            *_plain("placet_listeners", "gauge", "Live event streams of this process.", listeners),
            *_plain(
                "placet_listeners_dropped_total",
                "counter",
                "Event streams that were ended because their client was too slow.",
                self.dropped_listeners,
            ),
            *self._decision_lines(),
            *self._request_lines(),
        ]
        return "\n".join(parts) + "\n"

    def _decision_lines(self) -> Iterator[str]:
        found = {f'verdict="{v}",outcome="{o}"': n for (v, o), n in sorted(self.decisions.items())}
        yield from _labelled("placet_decisions_total", "counter", "Decisions that came in here.", found)

    def _request_lines(self) -> Iterator[str]:
        found = {
            f'method="{_escaped(method)}",route="{_escaped(route)}",status="{status}"': number
            for (method, route, status), number in sorted(self.requests.items())
        }
        yield from _labelled("placet_http_requests_total", "counter", "Requests that were answered.", found)
        name = "placet_http_request_seconds"
        yield f"# HELP {name} How long answers took, event streams left out."
        yield f"# TYPE {name} histogram"
        for bound in BOUNDS:
            yield f'{name}_bucket{{le="{bound}"}} {self._buckets[bound]}'
        yield f'{name}_bucket{{le="+Inf"}} {self._timed}'
        yield f"{name}_sum {self._seconds:.6f}"
        yield f"{name}_count {self._timed}"


def _plain(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"


def _labelled(name: str, kind: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
