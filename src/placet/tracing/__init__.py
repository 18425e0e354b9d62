"""Tracing through OpenTelemetry: spans made of what becomes durable. An adapter behind the `Observer` port, and the
only package that imports `opentelemetry`."""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401  # asked for here, so that without it there is an error of one sentence
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Tracing needs OpenTelemetry, which is not installed: pip install 'placet[otel]'.", name=error.name
    ) from error

from placet.tracing.observer import OpenTelemetryTracing

__all__ = ["OpenTelemetryTracing"]
