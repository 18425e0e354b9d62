"""The agents of the demo: four small offices, with models that follow a script and need no key.

A script is a function of the history, so that it is the same after a restart: first it looks things up, then it asks
for what must wait, then it reports what came of it. Effects are lines in a file, as a witness.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from placet.declare.agent import Agent
from placet.declare.context import ToolContext
from placet.declare.tool import FunctionTool, function_tool
from placet.facts.codec import JsonObject
from placet.facts.events import Usage
from placet.facts.items import ModelResponse
from placet.ports import ModelRequest, StreamPart
from placet.testing import assistant_message, function_call

Turn: TypeAlias = Sequence[tuple[str, JsonObject]]
"""The calls of one turn: the tool's name, and its arguments."""
Plan: TypeAlias = Callable[[str], Sequence[Turn]]
"""What is to be done about what was asked."""


class Script:
    """A model without a memory: what comes next is told by how many calls the history holds."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def get_response(self, request: ModelRequest) -> ModelResponse:
        calls = [item for item in request.input if item.get("type") == "function_call"]
        turns = self._plan(_asked(request.input))
        made = len(calls)
        for turn in turns:
            if made == 0:
                return ModelResponse(_calls(turn, len(calls)), Usage(1, 400, 60, 460), None)
            made -= len(turn)
        return ModelResponse([assistant_message(_report(calls, request.input))], Usage(1, 500, 40, 540), None)

    async def stream_response(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield await self.get_response(request)


def _asked(items: Sequence[JsonObject]) -> str:
    """The first thing that a person wrote."""
    for item in items:
        if item.get("role") == "user":
            content = item.get("content")
            return content if isinstance(content, str) else json.dumps(content)
    return ""


def _calls(turn: Turn, before: int) -> list[object]:
    return [function_call(name, given, call_id=f"call_{before + i + 1}") for i, (name, given) in enumerate(turn)]


def _report(calls: Sequence[JsonObject], items: Sequence[JsonObject]) -> str:
    outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    lines = [f"- {call['name']}: {outputs.get(call['call_id'], 'no answer')}" for call in calls]
    return "\n".join(["Here is what came of it:", *lines])


class Witness:
    """A file in which every effect leaves a line. A key that is there already is not written twice."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, key: str, what: str) -> str:
        known = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        if not any(line.startswith(f"{key}\t") for line in known):
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{key}\t{what}\n")
        return what


# -- support ----------------------------------------------------------------------------------------------------------

ORDERS = {
    "1042": ("kettle", 4900, "arrived broken"),
    "1077": ("lamp", 12400, "charged twice"),
    "1093": ("tea set", 18900, "never came"),
    "1120": ("toaster", 3900, "changed my mind"),
}


def support(witness: Witness) -> Agent[Any]:
    @function_tool(recovery="retry")
    def look_up_order(order_id: str) -> str:
        """What is known about an order."""
        what, cents, _ = ORDERS.get(order_id, ("nothing known", 0, ""))
        return f"Order {order_id}: {what}, {cents / 100:.2f} EUR, paid by card"

    @function_tool(needs_approval=True, recovery="retry")
    def refund(
        ctx: ToolContext[Any],
        order_id: str,
        cents: Annotated[int, Field(gt=0, le=50_000, description="How much, in cents.")],
        reason: str,
        method: Literal["card", "voucher"] = "card",
    ) -> str:
        """Pay money back to the customer of an order."""
        return witness.note(ctx.idempotency_key, f"refunded {cents / 100:.2f} EUR for order {order_id} by {method}")

    def plan(asked: str) -> Sequence[Turn]:
        orders = [number for number in ORDERS if number in asked] or ["1042"]
        refunds: list[tuple[str, JsonObject]] = []
        for number in orders:
            _, cents, why = ORDERS[number]
            # A mistake for somebody to find: both charges are returned, where one was asked for.
            amount = 2 * cents if "twice" in why else cents
            refunds.append(("refund", {"order_id": number, "cents": amount, "reason": why, "method": "card"}))
        return [[("look_up_order", {"order_id": number}) for number in orders], refunds]

    return Agent(
        "Support",
        instructions="You help customers of a small shop. Be exact about money.",
        tools=[look_up_order, refund],
        model=Script(plan),
    )


# -- newsletter -------------------------------------------------------------------------------------------------------


class Audience(BaseModel):
    """Who gets a mail."""

    segment: Literal["customers", "trial", "everybody"]
    countries: list[str] = []
    newer_than_days: int | None = None


def newsletter(witness: Witness) -> Agent[Any]:
    @function_tool(recovery="retry")
    def count_recipients(segment: str) -> str:
        """How many people are in a segment."""
        return {"customers": "2312", "trial": "418", "everybody": "61077"}.get(segment, "0")

    @function_tool(needs_approval=True, decide_within=6 * 3600, recovery="retry")
    def send_campaign(ctx: ToolContext[Any], subject: str, body: str, audience: Audience) -> str:
        """Send a mail to many people. It cannot be called back."""
        return witness.note(ctx.idempotency_key, f"sent «{subject}» to {audience.segment}")

    def plan(asked: str) -> Sequence[Turn]:
        body = (
            "Dear tea friends,\n\nfrom Monday on all kettles are 20 % off. The offer ends on Sunday night, or when "
            "the last one is gone.\n\nYours,\nthe shop"
        )
        mail: JsonObject = {
            "subject": "Kettles: 20 % off, one week only",
            "body": body,
            "audience": {"segment": "everybody", "countries": ["DE", "AT", "CH"], "newer_than_days": None},
        }
        return [[("count_recipients", {"segment": "customers"})], [("send_campaign", mail)]]

    return Agent("Newsletter", tools=[count_recipients, send_campaign], model=Script(plan))


# -- operations, with a specialist behind a tool ----------------------------------------------------------------------


def operations(witness: Witness) -> Agent[Any]:
    @function_tool(recovery="retry")
    def read_metrics(service: str) -> str:
        """The latest figures of a service."""
        return f"{service}: memory 97 %, 412 errors a minute, 3 restarts since midnight"

    @function_tool(needs_approval=True)
    def restart_service(ctx: ToolContext[Any], service: str, drain_seconds: int = 30) -> str:
        """Restart a service. Requests that it works on are lost after the drain time."""
        return witness.note(ctx.idempotency_key, f"restarted {service} after {drain_seconds} s")

    @function_tool(needs_approval=True)
    def run_sql(ctx: ToolContext[Any], database: str, statement: str) -> str:
        """Run a statement on a production database."""
        return witness.note(ctx.idempotency_key, f"ran on {database}: {statement}")

    statement = "DELETE FROM sessions WHERE last_seen < now() - interval '90 days'"
    database: FunctionTool = Agent(
        "Database",
        instructions="You look after the shop's databases.",
        tools=[run_sql],
        model=Script(lambda _asked: [[("run_sql", {"database": "shop", "statement": statement})]]),
    ).as_tool("ask_database_expert", "Ask the expert for databases.")

    def plan(_asked: str) -> Sequence[Turn]:
        return [
            [("read_metrics", {"service": "checkout"})],
            [
                ("restart_service", {"service": "checkout", "drain_seconds": 0}),
                ("ask_database_expert", {"input": "The sessions table is huge. Clean it up."}),
            ],
        ]

    return Agent("Operations", tools=[read_metrics, restart_service, database], model=Script(plan))


# -- payroll ----------------------------------------------------------------------------------------------------------


def payroll(witness: Witness) -> Agent[Any]:
    @function_tool(needs_approval=True, decide_within=2 * 24 * 3600, recovery="retry")
    def change_bank_account(ctx: ToolContext[Any], employee: str, iban: str, asked_by: str) -> str:
        """Pay an employee's salary to another account from now on."""
        return witness.note(ctx.idempotency_key, f"salary of {employee} goes to {iban}")

    def plan(_asked: str) -> Sequence[Turn]:
        given: JsonObject = {
            "employee": "Mara Lind",
            "iban": "LT12 1000 0111 0100 1000",
            "asked_by": "mara.lind@shop-example.com (not the address on file)",
        }
        return [[("change_bank_account", given)]]

    return Agent("Payroll", tools=[change_bank_account], model=Script(plan))


def demo_agents(folder: Path) -> list[Agent[Any]]:
    witness = Witness(folder / "effects.txt")
    return [support(witness), newsletter(witness), operations(witness), payroll(witness)]


FIRST_RUNS = (
    ("Support", "Order 1042: the kettle came broken. I would like my money back.", "web-form"),
    ("Support", "I was charged twice for the lamp, order 1077. Please return one of the charges.", "web-form"),
    ("Newsletter", "Tell our customers in DE, AT and CH about next week's kettle sale.", "mira"),
    ("Operations", "Checkout is slow and throws errors. Please do something.", "alerting"),
    ("Payroll", "A mail came: Mara Lind has a new bank account. Please change it.", "mailbox"),
    ("Support", "Order 1093 never came, and the toaster of order 1120 I do not want any more.", "web-form"),
)
"""Agent, what it is asked, and who asked: runs that wait when the demo begins."""
LATER_RUN = ("Support", "The kettle of order 1042 is broken, too late for tea. Refund, please!", "web-form")
"""It comes in while somebody looks at the inbox."""
TERMINAL_RUN = (
    "Support",
    "Order 1042: the kettle came broken, please refund it. Order 1077: the lamp was charged twice, refund one charge.",
)
"""What somebody who stays in the terminal is asked about."""


def effects_of(folder: Path) -> list[str]:
    """What the agents did to the world."""
    path = folder / "effects.txt"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [line.partition("\t")[2] for line in lines]
