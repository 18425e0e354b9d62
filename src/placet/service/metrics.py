"""Figures for Prometheus that the desk and the workers share: one name for one figure, wherever it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from placet.policy.backtest import SAID
from placet.ports import StoreNumbers
from placet.service.policy_state import PolicyState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(families: Iterable[Metric]) -> str:
    """In the text format that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    return generate_latest(registry).decode()


class _Given(Collector):
    """The library asks a collector for its figures; these were read before, since a store is asked with `await`."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def describe(self) -> list[Metric]:
        return []  # otherwise the library collects once more, to learn the names

    def collect(self) -> Iterable[Metric]:
        return self._families


def store_families(store: StoreNumbers) -> Iterator[Metric]:
    """What is true of the whole store: every process that reads it tells the same."""
    oldest = store.oldest_request.seconds if store.oldest_request is not None else 0.0
    yield gauge("placet_runs_driven", "Runs that a process drives.", store.driven)
    yield gauge("placet_runs_due", "Runs with something to do that no process drives yet.", store.due)
    yield gauge("placet_runs_due_seconds", "How long the first of them has waited.", store.due_seconds)
    yield gauge("placet_runs_waiting", "Runs that wait for people.", store.waiting)
    yield gauge("placet_runs_running", "Runs that neither ended nor wait nor were stopped.", store.running)
    yield gauge("placet_runs_stopped", "Runs that an error stopped.", store.stopped)
    yield gauge("placet_runs_parked", "Runs that took too many drivers down.", store.parked)
    yield gauge("placet_runs_ended", "Runs that have ended and were not deleted.", store.ended)
    yield gauge("placet_runs_ended_last_minute", "Runs that ended in the last minute.", store.ended_last_minute)
    yield gauge("placet_requests_pending", "Requests that wait for people.", store.pending)
    yield gauge("placet_requests_oldest_seconds", "How long the oldest of them has waited.", oldest)


def policy_families(state: PolicyState) -> Iterator[Metric]:
    """The policy in force, files that did not load, and what rules said beside what people decided. Nothing where no
    policy was ever in force."""
    if state.in_force is None:
        return
    info = GaugeMetricFamily("placet_policy_info", "The policy in force.", labels=["version", "origin"])
    info.add_metric([state.in_force.version, state.in_force.origin], 1)
    yield info
    yield gauge("placet_policy_refused", "Processes whose policy file does not load.", len(state.refused))
    labels = ["rule", "rollout", "verdict"]
    heard = CounterMetricFamily("placet_policy_rule_heard", "Calls about which a rule spoke.", labels=labels)
    text = "What people decided about calls about which a rule spoke."
    people = CounterMetricFamily("placet_policy_rule_decisions", text, labels=[*labels, "people"])
    for each in state.rules:
        which = [each.name, each.mode, each.verdict]
        heard.add_metric(which, each.heard)
        for said in SAID:
            people.add_metric([*which, said], getattr(each, said))
    yield from (heard, people)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
