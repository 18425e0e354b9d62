"""An MCP server that misbehaves as it is told, written by hand: `rogue.py FOLDER BEHAVIOUR`.

What it really does it notes in FOLDER/effects, with the key that came with the call, and its process in FOLDER/pid. A
behaviour that ends with «once» is shown once only, whichever process is asked; the next one behaves.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

folder, behaviour = Path(sys.argv[1]), sys.argv[2]
times_listed: list[None] = []


def shows(what: str) -> bool:
    name, _, once = behaviour.partition(" ")
    if name != what:
        return False
    if once != "once":
        return True
    try:
        (folder / "shown").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def write(message: Any) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def answer(number: Any, result: Any) -> None:
    write({"jsonrpc": "2.0", "id": number, "result": result})


def note(what: str) -> None:
    with (folder / "effects").open("a") as file:
        file.write(what + "\n")


def tool(name: str, description: str = "Act.") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    return {"name": name, "description": description, "inputSchema": schema}


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def listed(params: dict[str, Any]) -> Any:
    times_listed.append(None)
    if shows("die-listing"):
        os._exit(1)
    if shows("many"):
        return {"tools": [tool(f"tool_{number}") for number in range(10_000)]}
    if shows("no-end"):
        return {"tools": [tool("act")], "nextCursor": "more"}
    if shows("list-nonsense"):
        return {"tools": "all of them"}
    if shows("twins"):
        return {"tools": [tool("act"), tool("act", "Another act.")]}
    if shows("odd-tools"):
        return {"tools": [tool("act"), {"name": 7}, "nothing"]}
    return {"tools": [tool("act", "Act otherwise." if shows("changing") and len(times_listed) > 1 else "Act.")]}


def act(number: Any, params: dict[str, Any]) -> None:
    key = (params.get("_meta") or {}).get("placet/idempotency-key")
    if shows("die-receiving"):
        os._exit(1)
    if shows("changing"):
        write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    note(f"act {params['arguments']['what']} {key}")
    if shows("die-acting"):
        os._exit(1)
    if shows("die-answering"):
        sys.stdout.write('{"jsonrpc": "2.0", "id": ')
        sys.stdout.flush()
        os._exit(1)
    if shows("garbage"):
        write("this is no JSON\n[1, 2\nnull\n7")
    if shows("other-ids"):
        for other in (10**9, "nobody", None):
            answer(other, text("for somebody else"))
    if shows("silence"):
        time.sleep(600)
    results: dict[str, Any] = {"number": 7, "shape": {"content": "x"}, "kind": {"content": [{"type": "smell"}]}}
    for name, result in results.items():
        if shows(name):
            answer(number, result)
            return
    if shows("no-error"):
        write({"jsonrpc": "2.0", "id": number, "error": "broken"})
        return
    answer(number, text("x" * 50_000_000 if shows("huge") else f"acted {params['arguments']['what']}"))
    if shows("die-after"):
        os._exit(1)


def main() -> None:
    if shows("die-starting"):
        os._exit(1)
    with (folder / "pid").open("a") as file:
        file.write(f"{os.getpid()}\n")
    for line in sys.stdin:
        message = json.loads(line)
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if number is None:
            continue
        if method == "initialize":
            if shows("greeting"):
                answer(number, {"hello": "there"})
                continue
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "rogue", "version": "1"}
            answer(number, {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        elif method == "tools/list":
            answer(number, listed(params))
        elif method == "tools/call":
            act(number, params)
        else:
            write({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "Method not found"}})


main()
