"""The observer that users configure: `RunConfig(observers=[OpenTelemetryTracing()])`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from opentelemetry.trace import Tracer, TracerProvider, get_tracer_provider

from placet.facts.errors import UserError
from placet.facts.events import AnyFact
from placet.ports import DriveObserver
from placet.tracing.attributes import Attribute, Settings
from placet.tracing.identity import DerivedIds
from placet.tracing.spans import DriveTrace, report


class OpenTelemetryTracing:
    """Traces runs: a span for each drive, request to the model, question, decision and execution.

    Without `tracer_provider` or `tracer` the global provider is used, whichever is set when a drive begins.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        tracer: Tracer | None = None,
        capture_content: bool = False,
        reviewers: bool = True,
        in_callers_trace: bool = False,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Set up tracing.

        `capture_content`: put arguments, outputs, messages and error texts into spans. `reviewers`: say who decided.
        `in_callers_trace`: make drives children of the span in which they run, instead of giving each run a trace of
        its own that all its drives share. `attributes`: put on every span, `gen_ai.provider.name` for instance.
        """
        if tracer is not None and tracer_provider is not None:
            raise UserError("OpenTelemetryTracing takes a tracer_provider or a tracer, not both.")
        self._tracer_provider = tracer_provider
        self._tracer = tracer
        self._known: tuple[TracerProvider, Tracer] | None = None
        self._settings = Settings(
            capture_content=capture_content,
            reviewers=reviewers,
            in_callers_trace=in_callers_trace,
            attributes=dict(attributes or {}),
        )

    def drive_began(
        self, run_id: str, before: Sequence[tuple[float, Sequence[AnyFact]]], metadata: Mapping[str, str]
    ) -> DriveObserver:
        try:
            tracer, ids = _with_derived_ids(self._current_tracer(), run_id)
            given = {f"placet.metadata.{name}": text for name, text in metadata.items()}
            settings = replace(self._settings, attributes={**self._settings.attributes, **given})
            return DriveTrace(tracer, ids, settings, run_id, before)
        except Exception as error:  # noqa: BLE001  # it must not touch the run
            report(run_id, error)
            return _Silent()

    def _current_tracer(self) -> Tracer:
        if self._tracer is not None:
            return self._tracer
        provider = self._tracer_provider if self._tracer_provider is not None else get_tracer_provider()
        if self._known is None or self._known[0] is not provider:
            self._known = (provider, provider.get_tracer("placet", _version()))
        return self._known[1]


def _with_derived_ids(tracer: Tracer, run_id: str) -> tuple[Tracer, DerivedIds | None]:
    """A copy of the tracer that takes ids from us. One that is not the SDK's keeps its own ways, and has no links."""
    others = getattr(tracer, "id_generator", None)
    if others is None:
        return tracer, None
    ids = DerivedIds(run_id, others)
    ours = copy.copy(tracer)
    ours.id_generator = ids  # type: ignore[attr-defined]  # it is there: we have just read it
    return ours, ids


def _version() -> str | None:
    try:
        return version("placet")
    except PackageNotFoundError:
        return None


class _Silent:
    """Watches nothing: for a drive whose tracing could not begin."""

    def on_facts(self, at: float, facts: Sequence[AnyFact]) -> None:
        pass

    def around_tool_function(self, call_id: str) -> AbstractContextManager[None]:
        return nullcontext()

    def drive_ended(self, error: BaseException | None) -> None:
        pass
