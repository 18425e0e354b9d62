"""Calls as MCP tasks: durable before they are announced, in the form of either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, Result

from placet.gate.mcp.raw import TASKS, RawRequest, RawResult
from tests.gate.mcp.scenes import PATIENCE, Scene, client_of, text_of, until

REFUND = {"order_id": "7", "cents": 4200}


class CreatedTask(Result):
    result_type: Literal["task"]
    task_id: str
    status: str


class TasksOfToday(ClientExtension):
    """A client that knows the extension: it polls, and gives answers where the task asks."""

    identifier = TASKS

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.answer = answer
        self.created: list[str] = []
        self.seen: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        self.created.append(created.task_id)
        asked: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while True:
                task = await ask(context.session, "tasks/get", taskId=created.task_id)
                self.seen.append(task["status"])
                match task["status"]:
                    case "completed":
                        return CallToolResult.model_validate(task["result"])
                    case "input_required":
                        new = {key: self.answer for key in task["inputRequests"] if key not in asked}
                        asked |= set(new)
                        await ask(context.session, "tasks/update", taskId=created.task_id, inputResponses=new)
                    case "cancelled":
                        return CallToolResult(content=[], is_error=True)
                await asyncio.sleep(0.02)


async def ask(session: Any, method: str, **params: Any) -> dict[str, Any]:
    found = await session.send_request(RawRequest(method=method, params=params), RawResult)
    result: dict[str, Any] = found.root
    return result


async def as_task(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """As a client of 2025-11-25 asks for one."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 60_000}}
    found = await client.session._dispatcher.send_raw_request("tools/call", params, {})  # the SDK knows no tasks
    task: dict[str, Any] = found["task"]
    return task


async def until_task(client: Client, task: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await ask(client.session, "tasks/get", taskId=task)
            if is_so(found):
                return found
            await asyncio.sleep(0.02)


async def refused(answer: Awaitable[Any]) -> int:
    with pytest.raises(MCPError) as error:
        await answer
    return error.value.code


# -- today's ----------------------------------------------------------------------------------------------------------


async def test_a_client_that_knows_tasks_polls_until_a_person_decided(at: Scene) -> None:
    tasks = TasksOfToday()
    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
    ):
        capabilities = client.server_capabilities.extensions or {}
        call = asyncio.create_task(client.call_tool("refund", REFUND))
        await at.decide()
        done = await call

    assert TASKS in capabilities
    assert tasks.seen[-1] == "completed"
    assert text_of(done) == "refunded 7"
    assert at.effects == ["refund 7 4200"]


async def test_a_rejected_task_is_a_result_that_says_so_and_no_error_of_the_protocol(at: Scene) -> None:
    tasks = TasksOfToday()
    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
    ):
        call = asyncio.create_task(client.call_tool("refund", REFUND))
        await at.decide("reject", message="Not this month.")
        done = await call

    assert tasks.seen[-1] == "completed"
    assert done.is_error
    assert text_of(done) == "Not this month."


@pytest.mark.parametrize("protocol", ["modern", "legacy"])
async def test_what_the_server_asks_is_input_that_the_task_requires(at: Scene, protocol: Any) -> None:
    street = {"action": "accept", "content": {"street": "Main", "number": 3, "gift": False}}
    tasks = TasksOfToday(street)

    async def never(*_: object) -> Any:
        raise AssertionError("the task asks")

    async with (
        at.gateway({"shop": at.shop_here(protocol=protocol)}) as gateway,
        client_of(gateway, "auto", extensions=[tasks], elicitation_callback=never) as client,
    ):
        call = asyncio.create_task(client.call_tool("ship", {"order_id": "7"}))
        await at.decide()
        done = await call

    assert "input_required" in tasks.seen
    assert text_of(done) == "order 7 goes to Main 3"
    assert at.effects == ["ship 7 Main 3"]


async def test_a_client_that_cannot_be_asked_is_not_whatever_the_server_wants(at: Scene) -> None:
    tasks = TasksOfToday({"action": "accept"})
    async with (
        at.gateway({"shop": at.shop_here(protocol="modern")}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
    ):
        call = asyncio.create_task(client.call_tool("pay_by_card", {"order_id": "7"}))
        await at.decide()
        done = await call

    assert "input_required" not in tasks.seen
    assert done.is_error
    assert "did not declare «elicitation»" in text_of(done)
    assert at.effects == []


async def test_a_task_is_found_after_its_gateway_was_started_anew(at: Scene) -> None:
    tasks = TasksOfToday()
    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
    ):
        call = asyncio.create_task(client.call_tool("refund", REFUND))
        await at.waiting()
        await until(lambda: bool(tasks.created))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await at.decide()
    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
    ):
        task = await until_task(client, tasks.created[0], lambda each: each["status"] == "completed")

    assert task["result"]["content"] == [{"type": "text", "text": "refunded 7"}]
    assert at.effects == ["refund 7 4200"]


async def test_a_cancelled_task_withdraws_its_question_and_an_unknown_one_is_an_error(at: Scene) -> None:
    tasks = TasksOfToday()
    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
        client_of(gateway, "auto") as other,
    ):
        call = asyncio.create_task(client.call_tool("refund", REFUND))
        await at.waiting()
        await until(lambda: bool(tasks.created))
        acknowledged = await ask(client.session, "tasks/cancel", taskId=tasks.created[0])
        await at.nothing_waits()
        done = await call
        codes = [
            await refused(ask(client.session, "tasks/get", taskId="call_nowhere_0")),
            await refused(ask(client.session, "tasks/list")),
            await refused(ask(client.session, "tasks/result", taskId=tasks.created[0])),
            await refused(ask(other.session, "tasks/get", taskId=tasks.created[0])),
        ]

    assert acknowledged["resultType"] == "complete"
    assert done.is_error
    assert codes == [-32602, -32601, -32601, -32021]
    assert at.effects == []


async def test_no_answer_to_a_task_approves_its_call(at: Scene) -> None:
    tasks = TasksOfToday()
    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, "auto", extensions=[tasks]) as client,
    ):
        call = asyncio.create_task(client.call_tool("refund", REFUND))
        [request] = await at.waiting()
        await until(lambda: bool(tasks.created))
        yes = {"action": "accept", "content": {"approve": True}}
        for key in ("placet", "elicitation-1", request.id, tasks.created[0]):
            await ask(client.session, "tasks/update", taskId=tasks.created[0], inputResponses={key: yes})
        task = await ask(client.session, "tasks/get", taskId=tasks.created[0])
        waiting = await at.desk.pending()
        call.cancel()

    assert task["status"] == "working"
    assert len(waiting) == 1
    assert at.effects == []


# -- that of 2025-11-25 -----------------------------------------------------------------------------------------------


async def test_a_client_of_the_older_protocol_asks_for_a_task_and_fetches_its_result(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}) as gateway, client_of(gateway) as client:
        tools = (await ask(client.session, "tools/list"))["tools"]
        task = await as_task(client, "refund", REFUND)
        result = asyncio.create_task(ask(client.session, "tasks/result", taskId=task["taskId"]))
        await at.decide()
        done = await result
        after = await ask(client.session, "tasks/get", taskId=task["taskId"])
        listed = await ask(client.session, "tasks/list")

    assert all(tool["execution"] == {"taskSupport": "optional"} for tool in tools if tool["name"] != "placet_check")
    assert task["status"] == "working"
    assert done["content"] == [{"type": "text", "text": "refunded 7"}]
    assert done["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
    assert after["status"] == "completed"
    assert [each["taskId"] for each in listed["tasks"]] == [task["taskId"]]
    assert at.effects == ["refund 7 4200"]


async def test_what_the_server_asks_reaches_the_client_that_waits_for_the_result(at: Scene) -> None:
    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        asked.append(params.message)
        return ElicitResult(action="accept", content={"street": "Main", "number": 3, "gift": False})

    async with (
        at.gateway({"shop": at.shop_here()}) as gateway,
        client_of(gateway, elicitation_callback=answer) as client,
    ):
        task = await as_task(client, "ship", {"order_id": "7"})
        await at.decide()
        stuck = await until_task(client, task["taskId"], lambda each: each["status"] == "input_required")
        done = await ask(client.session, "tasks/result", taskId=task["taskId"])

    assert stuck["status"] == "input_required"
    assert len(asked) == 1
    assert done["content"][0]["text"] == "order 7 goes to Main 3"


async def test_a_cancelled_task_of_the_older_protocol_withdraws_its_question(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}) as gateway, client_of(gateway) as client:
        task = await as_task(client, "refund", REFUND)
        await at.waiting()
        cancelled = await ask(client.session, "tasks/cancel", taskId=task["taskId"])
        await at.nothing_waits()

    assert cancelled["status"] == "cancelled"
    assert at.effects == []


async def test_without_tasks_in_the_configuration_there_are_none(at: Scene) -> None:
    async with at.gateway({"shop": at.shop_here()}, wait=["handle"]) as gateway, client_of(gateway) as client:
        tools = (await ask(client.session, "tools/list"))["tools"]
        code = await refused(ask(client.session, "tasks/get", taskId="x"))

    assert not any("execution" in tool for tool in tools)
    assert code == -32601
