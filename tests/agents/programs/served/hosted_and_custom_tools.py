"""Tools that the provider runs, and one that takes free text."""

import asyncio

from agents import Agent, CustomTool, FileSearchTool, Runner, WebSearchTool, set_tracing_disabled

set_tracing_disabled(True)


async def edit(ctx, text: str) -> str:
    return f"took {len(text)} characters"


async def main() -> None:
    agent = Agent(
        name="Editor",
        model="gpt-4.1",
        tools=[
            WebSearchTool(search_context_size="low"),
            FileSearchTool(vector_store_ids=["vs_1"], max_num_results=3),
            CustomTool(name="edit", description="Edits.", on_invoke_tool=edit, format={"type": "text"}),
        ],
    )
    result = await Runner.run(agent, "Edit.")
    print(result.final_output)
    print(
        [
            (item.type, item.raw_item["type"] if isinstance(item.raw_item, dict) else item.raw_item.type)
            for item in result.new_items
        ]
    )
    print([item.output for item in result.new_items if item.type == "tool_call_output_item"])


asyncio.run(main())
