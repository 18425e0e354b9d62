"""MCP servers over stdio: tools that are listed, filtered, called, and ask a person."""

import asyncio
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStdio, create_static_tool_filter
from agents.testing import ScriptedModel, assistant_message, function_call

SERVER = """
import asyncio, json, sys

TOOLS = [
    {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}},
    {"name": "wipe", "description": "Wipes.", "inputSchema": {"type": "object", "properties": {}}},
]

def answer(request):
    method, params = request.get("method"), request.get("params") or {}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "sums", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        given = params.get("arguments") or {}
        text = str(given["a"] + given["b"]) if params["name"] == "add" else "wiped"
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return None

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request)
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    reply |= {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps(reply), flush=True)
"""


async def main() -> None:
    params = {"command": sys.executable, "args": ["-c", SERVER]}
    approval = {"always": {"tool_names": ["wipe"]}, "never": {"tool_names": ["add"]}}
    async with MCPServerStdio(name="sums", params=params, cache_tools_list=True, require_approval=approval) as server:
        print(server.name, [tool.name for tool in await server.list_tools()])
        model = ScriptedModel(
            [
                [function_call("add", {"a": 2, "b": 3}, call_id="c1"), function_call("wipe", {}, call_id="c2")],
                [assistant_message("five, and clean")],
            ]
        )
        agent = Agent(name="Counter", mcp_servers=[server], model=model)
        result = await Runner.run(agent, "2 + 3, and wipe")
        print([(item.name, item.call_id) for item in result.interruptions])
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        result = await Runner.run(agent, state)
        print(result.final_output)
        outputs = [item["output"] for item in model.last_call.input if item.get("type") == "function_call_output"]
        print(sorted("wiped" in str(output) or "5" in str(output) for output in outputs))
    chosen = create_static_tool_filter(allowed_tool_names=["add"])
    filtered = MCPServerStdio(name="few", params=params, tool_filter=chosen, require_approval="never")
    async with filtered:
        model = ScriptedModel([[assistant_message("ok")]])
        agent = Agent(name="Few", mcp_servers=[filtered], model=model)
        await Runner.run(agent, "hello")
        print([tool.name for tool in model.last_call.tools])


asyncio.run(main())
