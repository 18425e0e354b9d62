"""Receipts of guests' calls, the public keys of a desk, and the command that looks after keys."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from placet import RunConfig
from placet.cli.main import main
from placet.desk import Desk
from placet.facts.errors import ReceiptNotSigned
from placet.gate import Gate
from placet.receipts import KeyText, Receipts, new_key, verify
from placet.testing import ManualClock
from tests.receipts.test_issuing import Service
from tests.support.desk_server import RunningDesk, running_desk

KEYS = json.dumps({"keys": [new_key()]})


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    config = RunConfig(receipts=Receipts(KeyText(KEYS), issuer="https://desk.example.com"))
    async with running_desk(tmp_path, run_config=config) as running:
        yield running


async def guest_of(desk: RunningDesk) -> Gate:
    await desk.web.accounts.add_user("jobs", "guest")
    token, _ = await desk.web.accounts.add_token("jobs", "a test")
    return Gate(desk.url, token=token, guest="jobs")


async def test_everybody_may_read_the_public_keys_and_nobody_the_private_ones(desk: RunningDesk) -> None:
    answer = await desk.client().get("/.well-known/jwks.json")

    assert answer.status_code == 200
    assert [sorted(key) for key in answer.json()["keys"]] == [["alg", "crv", "kid", "kty", "use", "x", "y"]]


async def test_a_desk_without_a_key_says_so(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as plain:
        answer = await plain.client().get("/.well-known/jwks.json")

        assert answer.status_code == 404
        assert "no receipts" in answer.json()["detail"]


async def test_a_permit_over_http_has_a_receipt_that_the_published_keys_verify(desk: RunningDesk) -> None:
    ana = await desk.person("ana")
    keys = (await desk.client().get("/.well-known/jwks.json")).json()
    async with await guest_of(desk) as gate:
        call = await gate.propose("refund", {"cents": 5}, session="s", call_id="c1")
        answer = await ana.post(f"/v1/approvals/{call.request_id}/decisions", json={"decision": "approve"})
        assert answer.status_code == 200, answer.text
        permit = await gate.claim(call)
        free = await gate.propose("read", {}, session="s", call_id="c2", needs_approval=False)
        unasked = await gate.claim(free)

    found = verify(permit.receipt, "refund", {"cents": 5}, keys, issuer="https://desk.example.com")
    assert found.jti == permit.idempotency_key
    assert (found.decision or {})["by"] == "ana"
    assert (found.decision or {})["assurance"] == "token"
    assert found.agent == "python/jobs"
    assert unasked.receipt is None


async def test_on_a_store_a_guest_that_cannot_sign_claims_nothing(tmp_path: Path) -> None:
    clock, service = ManualClock(), Service()
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    async with (
        Desk(url, run=False, clock=clock) as desk,
        Gate(url, guest="jobs", clock=clock, receipts=Receipts(service)) as gate,
    ):
        call = await gate.propose("refund", {"cents": 5}, session="s", call_id="c1")
        await desk.decide(call.request_id or "", "edit", arguments={"cents": 3}, by="ana")
        with pytest.raises(ReceiptNotSigned):
            await gate.claim(call)
        left = (await gate.look(call)).status
        service.is_away = False
        permit = await gate.claim(call)
        again = await gate.claim(call, again=True)

    assert left == "claimable"
    for each in (permit, again):
        found = verify(each.receipt, "refund", {"cents": 3}, Receipts(service).jwks(), now=clock.now())
        assert found.jti == permit.idempotency_key


def run(*arguments: str) -> int:
    return main(["receipts", *arguments])


def test_the_command_makes_a_private_file_rotates_it_and_prints_what_is_public(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "keys.json"
    assert run("new-key", str(file)) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("new-key", str(file)) == 2  # a key is not lost by a second try
    before = json.loads(file.read_text())["keys"]
    assert run("rotate", str(file), "--after", "0") == 0
    after = json.loads(file.read_text())["keys"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    capsys.readouterr()
    assert run("list", str(file)) == 0
    public = json.loads(capsys.readouterr().out)["keys"]
    file.write_text("{}")

    assert before[0] in after
    assert [key["kid"] for key in public] == [key["kid"] for key in after]
    assert all("d" not in key for key in public)
    assert run("list", str(file)) == 1
    assert run("rotate", str(file)) == 1
    assert run("rotate", str(tmp_path / "none")) == 2
