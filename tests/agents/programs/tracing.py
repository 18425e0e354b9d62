"""A processor of a program's own, and spans that it makes."""

import asyncio

from agents import Agent, Runner, TracingProcessor, custom_span, function_tool, set_trace_processors, trace
from agents.testing import ScriptedModel, assistant_message, function_call

KINDS = {"agent", "function", "custom", "guardrail", "handoff"}


class Printer(TracingProcessor):
    def on_trace_start(self, trace):
        print("trace", trace.name, trace.export()["group_id"])

    def on_trace_end(self, trace):
        print("end of", trace.name)

    def on_span_start(self, span):
        pass

    def on_span_end(self, span):
        if span.span_data.type in KINDS:
            data = span.span_data.export()
            print(span.span_data.type, data.get("name"), data.get("output"), data.get("data"))

    def shutdown(self):
        pass

    def force_flush(self):
        pass


@function_tool
def work() -> str:
    """Work."""
    with custom_span("inside", {"n": 1}):
        return "worked"


async def main() -> None:
    set_trace_processors([Printer()])
    model = ScriptedModel([[function_call("work", {}, call_id="c")], [assistant_message("bye")]])
    with trace("Jobs", group_id="g7"):
        result = await Runner.run(Agent(name="Worker", tools=[work], model=model), "go")
    print(result.final_output)


asyncio.run(main())
