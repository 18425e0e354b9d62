"""The case of the demo: a support agent, a small shop in a folder, and a model that follows a script.

The shop's effects are real files. Its payment provider honours idempotency keys as real ones do: the key names the
receipt, and a receipt that exists is not written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from placet import Agent, ModelRequest, ToolContext, function_tool
from placet.cli.durable_file import write_durably
from placet.facts.codec import JsonObject
from placet.testing import ModelStep, ScriptedModel, assistant_message, function_call

TASK = (
    "Two customers wrote in. Order 1042: the kettle (49.00 EUR) came broken, please refund it. "
    "Order 1077: the lamp (124.00 EUR) was charged twice, please refund one of the two charges. "
    "And do we have another kettle to send?"
)
ORDERS = {"1042": {"what": "kettle", "paid_cents": [4900]}, "1077": {"what": "lamp", "paid_cents": [12400, 12400]}}
STOCK = {"kettle": 3, "lamp": 0}

MAX_TURNS = 10


def euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} EUR"


class Shop:
    """A shop in a folder: its orders, its stock, and the payment provider's receipts, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.receipts = folder / "refunds"

    def open(self) -> None:
        self.receipts.mkdir(parents=True, exist_ok=True)
        write_durably(self.folder / "orders.json", json.dumps(ORDERS, indent=2) + "\n")
        write_durably(self.folder / "stock.json", json.dumps(STOCK, indent=2) + "\n")

    def refund(self, key: str, order_id: str, cents: int, reason: str) -> str:
        """Pay once for this key, however often it is asked."""
        receipt = self.receipts / f"{re.sub('[^A-Za-z0-9.-]', '-', key)}.json"
        if not receipt.exists():
            self._check(order_id, cents)
            paid = {"key": key, "order_id": order_id, "cents": cents, "reason": reason}
            write_durably(receipt, json.dumps(paid, indent=2, ensure_ascii=False) + "\n")
        found = json.loads(receipt.read_text(encoding="utf-8"))
        return f"Refunded {euros(found['cents'])} for order {found['order_id']}, receipt {receipt.name}"

    def refunds(self) -> list[dict[str, Any]]:  # Any: the receipts are this class's own, as `refund` wrote them
        """All that was paid, as the receipts say."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self.receipts.glob("*.json"))]

    def _check(self, order_id: str, cents: int) -> None:
        orders = json.loads((self.folder / "orders.json").read_text(encoding="utf-8"))
        if order_id not in orders:
            raise ValueError(f"there is no order {order_id}")
        returned = [refund["cents"] for refund in self.refunds() if refund["order_id"] == order_id]
        left = sum(orders[order_id]["paid_cents"]) - sum(returned)
        if cents > left:
            raise ValueError(f"{euros(cents)} is more than the {euros(left)} that are left of order {order_id}")

    def stock(self, product: str) -> str:
        stock = json.loads((self.folder / "stock.json").read_text(encoding="utf-8"))
        return f"{stock[product]} in stock" if product in stock else f"the shop has no product called {product}"


def support_agent(shop: Shop) -> Agent[None]:
    # A claim whose record was lost is repeated: the key makes that safe.
    @function_tool(needs_approval=True, recovery="retry")
    def refund(ctx: ToolContext[None], order_id: str, cents: Annotated[int, Field(gt=0)], reason: str) -> str:
        """Pay money back to the customer of an order."""
        return shop.refund(ctx.idempotency_key, order_id, cents, reason)

    @function_tool(recovery="retry")
    def check_stock(product: str) -> str:
        """How many pieces of a product are in stock."""
        return shop.stock(product)

    return Agent[None](
        name="Support",
        instructions="You help customers of a small shop. Be exact about money.",
        tools=[refund, check_stock],
        model=ScriptedModel([_answer] * MAX_TURNS),
    )


def stakes(tool: str | None, arguments: Mapping[str, object] | None) -> str | None:
    """What a call would do to the world, for the person who is asked."""
    cents = arguments.get("cents") if tool == "refund" and arguments is not None else None
    if arguments is None or not isinstance(cents, int):
        return None
    order = arguments.get("order_id")
    return f"Pays {euros(cents)} to the customer of order {order}. Money that is paid cannot be called back."


# -- the script: a function of the request, so that it is the same in every process ----------------------------------


def _answer(request: ModelRequest) -> ModelStep:
    outputs = {item["call_id"]: item["output"] for item in request.input if item.get("type") == "function_call_output"}
    if not outputs:
        return _first_answer()
    calls = [item for item in request.input if item.get("type") == "function_call"]
    report = "\n".join(_sentence(call, str(outputs.get(call["call_id"], ""))) for call in calls)
    return ModelStep([assistant_message(report)])


def _first_answer() -> ModelStep:
    """Three calls at once. The last one is a mistake: it returns both charges, where one was asked for."""
    return ModelStep(
        [
            assistant_message("I will refund both orders and look for another kettle."),
            function_call(
                "refund",
                {"order_id": "1042", "cents": 4900, "reason": "The kettle arrived broken"},
                call_id="call_kettle",
            ),
            function_call("check_stock", {"product": "kettle"}, call_id="call_stock"),
            function_call(
                "refund", {"order_id": "1077", "cents": 24800, "reason": "Charged twice"}, call_id="call_lamp"
            ),
        ]
    )


def _sentence(call: JsonObject, output: str) -> str:
    """What the model makes of one output: only what the output says."""
    arguments = json.loads(str(call["arguments"]))
    if call["name"] == "check_stock":
        return f"- Stock of {arguments['product']}: {output}."
    note, _, text = output.rpartition("\n") if output.startswith("A reviewer changed") else ("", "", output)
    paid, _, receipt = text.partition(", receipt ")
    if not (paid.startswith("Refunded ") and receipt):
        return f"- Order {arguments['order_id']}: I made no refund. I was told: «{text}»"
    changed = " A reviewer corrected what I had asked for." if note else ""
    return f"- {paid}.{changed}"
