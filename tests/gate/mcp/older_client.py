"""A client on the SDK of the generation before ours, which knows the tasks of 2025-11-25. Run in its own environment:
`older_client.py TOOL ARGUMENTS COMMAND…` calls the tool as a task, polls it to its end, and prints what it saw.
"""

from __future__ import annotations

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client


async def main(tool: str, arguments: str, command: str, *rest: str) -> None:
    parameters = StdioServerParameters(command=command, args=[*rest])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        greeted = await session.initialize()
        tools = (await session.list_tools()).tools
        created = await session.experimental.call_tool_as_task(tool, json.loads(arguments))
        seen = [each.status async for each in session.experimental.poll_task(created.task.taskId)]
        result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
        listed = await session.experimental.list_tasks()
    told = {
        "can": greeted.capabilities.tasks is not None,
        "support": sorted({getattr(each.execution, "taskSupport", None) or "none" for each in tools}),
        "seen": seen,
        "text": result.content[0].text,
        "listed": [each.taskId for each in listed.tasks] == [created.task.taskId],
    }
    sys.stdout.write(json.dumps(told))


asyncio.run(main(*sys.argv[1:]))
