"""Run as a program: takes a paused run's text on standard input, decides, resumes, prints the spans that it exported.

It uses the global tracer provider, set after the tracing was made, as applications do.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from opentelemetry import trace

from placet import RunConfig, Runner, RunState
from placet.tracing import OpenTelemetryTracing
from tests.tracing.scenes import Traces, attributes, links, seconds
from tests.tracing.test_approvals import clerk

TRACING = OpenTelemetryTracing()


async def go_on(order: dict[str, Any]) -> dict[str, Any]:
    traces = Traces()
    trace.set_tracer_provider(traces.provider)
    traces.clock.advance(order["seconds"])
    agent = clerk(resumed=True)
    state = await RunState.from_string(agent, order["text"])
    state._clock = traces.clock
    for item in state.get_interruptions():
        state.approve(item, by="ann")
    result = await Runner.run(agent, state, run_config=RunConfig(observers=[TRACING], clock=traces.clock))
    spans = {
        span.name: {
            "trace": span.context.trace_id,
            "span": span.context.span_id,
            "links": links(span),
            "attributes": attributes(span),
            "seconds": seconds(span),
        }
        for span in traces.spans
    }
    return {"final_output": result.final_output, "spans": spans}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(go_on(json.loads(sys.stdin.read())))))
