"""An edit that the tool's schema forbids is refused, at the desk and over the API, and the call still waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet import Agent, FunctionTool, UserError
from placet.testing import ScriptedModel, assistant_message, function_call
from tests.desk.api.scenes import decide, problem
from tests.support.desk_server import running_desk

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "iban": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{4,}$"},
        "cents": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5},
        "to": {"type": "string", "format": "email", "not": {"const": "root@x.org"}},
        "kind": {"enum": ["card", "bank"]},
    },
    "required": ["iban", "cents"],
    "if": {"properties": {"kind": {"const": "card"}}, "required": ["kind"]},
    "then": {"properties": {"cents": {"maximum": 100}}},
}
GOOD = {"iban": "CH1234", "cents": 50}


def agent(paid: list[str]) -> Agent[Any]:
    async def pay(_ctx: Any, text: str) -> str:
        paid.append(text)
        return "paid"

    tool = FunctionTool("pay", "Pay.", SCHEMA, pay, needs_approval=True)
    model = ScriptedModel([[function_call("pay", GOOD, call_id="c1")], [assistant_message("done")]])
    return Agent("Till", tools=[tool], model=model)


async def test_what_the_schema_forbids_cannot_be_put_in_by_an_edit(tmp_path: Path) -> None:
    paid: list[str] = []
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"iban": "ch12"}, "/iban", "should match the pattern"),
        ({"cents": 0}, "/cents", "should be more than 0"),
        ({"cents": 7}, "/cents", "should be a multiple of 5"),
        ({"to": "nobody"}, "/to", "should be a valid email"),
        ({"to": "root@x.org"}, "/to", "should not fit"),
        ({"kind": "card", "cents": 200}, "/cents", "should be at most 100"),
    ]
    async with running_desk(tmp_path, agents=[agent(paid)]) as server:
        ana = await server.person("ana")
        run = await server.desk.start("Till", "go")
        await server.desk.wait(run.id, until="paused", timeout=120)
        (request,) = await server.desk.pending(run_id=run.id)
        for change, field, words in wrong:
            arguments = {**GOOD, **change}
            with pytest.raises(UserError, match=f"{field}: {words}"):
                await server.desk.decide(request.id, "edit", arguments=arguments, by="ana")
            found = problem(await decide(ana, request.id, "edit", arguments=arguments), 422, "user_error")
            assert [each["field"] for each in found["errors"]] == [field]
            assert words in found["errors"][0]["message"]
        assert (await server.desk.request(request.id)).status == "pending"
        taken = await decide(ana, request.id, "edit", arguments={**GOOD, "cents": 55, "to": "a@b.org"})
        await server.desk.wait(run.id, until="ended", timeout=120)

    assert taken.status_code == 200
    assert len(paid) == 1
    assert '"cents":55' in paid[0]
