"""The Conversations API on loopback, small and strict: it refuses what the real one refuses, and fails on command.

It answers over real HTTP from a thread, so that the real client is tested with its own retries and its own paging.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

Item = dict[str, Any]
When = Literal["before", "after"]

_FIELDS = {
    "message": {"type", "role", "content", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "namespace"},
    "function_call_output": {"type", "call_id", "output"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content"},
    "file_search_call": {"type", "id", "queries", "results", "status"},
}
_NEEDED = {
    "message": {"role", "content"},
    "function_call": {"call_id", "name", "arguments"},
    "function_call_output": {"call_id", "output"},
    "reasoning": {"summary"},
    "file_search_call": {"id", "queries", "status"},
}
_TEXTS = {"user": {"input_text", "input_image"}, "assistant": {"output_text", "refusal"}}


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Fault:
    """The next requests of a method fail, once each: before the server did what they ask, or after it."""

    method: str
    status: int
    when: When
    skip: int
    times: int
    headers: dict[str, str] = field(default_factory=dict)


class ConversationsServer:
    def __init__(self) -> None:
        self.conversations: dict[str, list[Item]] = {}
        self.requests: list[tuple[str, str]] = []
        """Method and path with query, as they came."""
        self.sizes: list[int] = []
        """How many items each request brought that brought some and was taken."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._minted = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def fail(
        self, method: str, status: int = 500, when: When = "before", *, skip: int = 0, times: int = 1, **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._faults.append(Fault(method, status, when, skip, times, named))

    def count(self, method: str, ending: str = "") -> int:
        return sum(each == method and path.endswith(ending) for each, path in self.requests)

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        with self._lock:
            self.requests.append((method, target))
            fault = self._due(method)
            if fault is not None and fault.when == "before":
                return fault.status, _error("ordered"), fault.headers
            try:
                found = self._carry_out(method, target, body)
            except Refused as refused:
                return refused.status, _error(str(refused)), {}
            if fault is not None:
                return fault.status, _error("ordered"), fault.headers
            return 200, found, {}

    def _due(self, method: str) -> Fault | None:
        for fault in self._faults:
            if fault.method == method and fault.times:
                if fault.skip:
                    fault.skip -= 1
                    return None
                fault.times -= 1
                return fault
        return None

    def _carry_out(self, method: str, target: str, body: Any) -> Any:
        url = urlsplit(target)
        query = parse_qs(url.query)
        match method, url.path.removeprefix("/v1/conversations").strip("/").split("/"):
            case "POST", [""]:
                name = f"conv_{uuid4().hex}"  # as no other server's: the default store lives as long as the process
                self.conversations[name] = []
                return {"id": name, "object": "conversation", "created_at": 0, "metadata": {}}
            case "POST", [name, "items"]:
                return self._create(self._items(name), body)
            case "GET", [name, "items"]:
                return _page(self._items(name), query)
            case "DELETE", [name, "items", item]:
                self._delete(self._items(name), item)
                return {"id": name, "object": "conversation", "created_at": 0, "metadata": {}}
        raise Refused(404, f"Invalid URL ({method} {url.path})")

    def _items(self, name: str) -> list[Item]:
        if name not in self.conversations:
            raise Refused(404, f"Conversation with id '{name}' not found.")
        return self.conversations[name]

    def _create(self, items: list[Item], body: Any) -> Any:
        given = body["items"]
        if not 1 <= len(given) <= 20:
            raise Refused(400, f"Invalid 'items': array with 1 to 20 items expected, got {len(given)}.")
        new = [self._stored(item, f"items[{index}]") for index, item in enumerate(given)]
        items.extend(new)
        self.sizes.append(len(new))
        return _listed(new, has_more=False)

    def _stored(self, item: Item, where: str) -> Item:
        kind = item.get("type", "message")
        if kind not in _FIELDS:
            raise Refused(400, f"Invalid value: '{where}.type'.")
        for name, value in item.items():
            if name not in _FIELDS[kind] or value is None:
                raise Refused(400, f"Unknown parameter: '{where}.{name}'.")
        for name in sorted(_NEEDED[kind] - item.keys()):
            raise Refused(400, f"Missing required parameter: '{where}.{name}'.")
        if kind == "reasoning" and not item.get("id") and not item.get("encrypted_content"):
            raise Refused(400, "Invalid item")
        stored = {"id": self._mint(kind[:2]), "status": "completed", **item, "type": kind}
        if kind == "message":
            stored["content"] = _parts(item["role"], item["content"], where)
        return stored

    def _delete(self, items: list[Item], name: str) -> None:
        for item in items:
            if item["id"] == name:
                items.remove(item)
                return
        raise Refused(404, f"Item with id '{name}' not found.")

    def _mint(self, prefix: str) -> str:
        self._minted += 1
        return f"{prefix}_{self._minted:06}"


def _parts(role: str, content: Any, where: str) -> list[Item]:
    """A message's content as the server keeps it: in parts, named by who said them, with defaults of its own."""
    allowed = _TEXTS["assistant" if role == "assistant" else "user"]
    own = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": own, "text": content}] if isinstance(content, str) else content
    for index, part in enumerate(parts):
        if part["type"] not in allowed or None in part.values():
            raise Refused(400, f"Invalid value: '{where}.content[{index}].type'.")
    defaults = {"output_text": {"annotations": [], "logprobs": []}, "input_image": {"detail": "auto", "file_id": None}}
    return [{**defaults.get(part["type"], {}), **part} for part in parts]


def _page(items: list[Item], query: dict[str, list[str]]) -> Any:
    limit = int(query.get("limit", ["20"])[0])
    if not 1 <= limit <= 100:
        raise Refused(400, f"Invalid 'limit': 1 to 100 expected, got {limit}.")
    ordered = items if query.get("order", ["desc"])[0] == "asc" else items[::-1]
    after = query.get("after", [None])[0]
    if after is not None:
        names = [item["id"] for item in ordered]
        if after not in names:
            raise Refused(400, f"Invalid 'after': no item '{after}'.")
        ordered = ordered[names.index(after) + 1 :]
    asked = query.get("include", []) + query.get("include[]", [])
    shown = [_shown(item, asked) for item in ordered[:limit]]
    return _listed(shown, has_more=len(ordered) > limit)


def _shown(item: Item, asked: list[str]) -> Item:
    hidden = item["type"] == "reasoning" and "reasoning.encrypted_content" not in asked
    return {name: value for name, value in item.items() if not (hidden and name == "encrypted_content")}


def _listed(items: list[Item], *, has_more: bool) -> Any:
    ids = [item["id"] for item in items] or [None]
    return {"object": "list", "data": items, "first_id": ids[0], "last_id": ids[-1], "has_more": has_more}


def _error(message: str) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _handler_of(server: ConversationsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if re.fullmatch(r"Bearer \S+", self.headers.get("authorization", "")):
                status, found, headers = server.answer(self.command, self.path, body)
            else:
                status, found, headers = 401, _error("no key"), {}
            data = json.dumps(found).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _do  # noqa: N815  # the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:  # it would write to stderr
            pass

    return Handler
