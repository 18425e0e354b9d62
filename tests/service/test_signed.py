"""Whoever keeps the trust file finds out what a database admin made up: approvals, keys, arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.cli.main import main
from placet.core.fold import fold
from placet.core.log import Log, read_lines
from placet.core.signing import challenge_of_decision, challenge_of_key
from placet.desk import DeskRequest
from placet.facts.events import DecisionMade, PasskeyChanged, VoteCast
from placet.facts.ids import split_request_id
from placet.facts.signatures import NO_ASSERTION, Assertion, KeySignature, SignedDecision
from placet.passkeys.trust import Keyring, Place, Trust, read_trust, write_trust
from placet.runtime.journal import load_recent
from placet.service.signed import SignedVerdict, of_log, verify_signed
from tests.desk.pages.test_passkeys import bank, decide, question, requests, say, with_key
from tests.desk.scenes import PATIENCE
from tests.support.authenticators import SoftKey, b64
from tests.support.desk_server import RunningDesk, running_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=[bank()]) as running:
        running.url = running.url.replace("127.0.0.1", "localhost")
        yield running


async def operators(desk: RunningDesk) -> list[Any]:
    log = await desk.desk.store.operators_log()
    return [fact for record in read_lines(log.lines) for fact in record.facts]


async def trust_of(desk: RunningDesk, *signed: str) -> Trust:
    log = await desk.desk.store.operators_log()
    return write_trust(await operators(desk), Place(length=len(log), digest=log.head.hex()), signed)


async def found(desk: RunningDesk, trust: Trust | None) -> list[SignedVerdict]:
    return [each async for each in verify_signed(desk.desk.store, trust)]


def wrong(verdicts: list[SignedVerdict]) -> list[tuple[str, str]]:
    return [(each.verdict, each.message) for each in verdicts if each.is_wrong]


async def approved(desk: RunningDesk, ana: Any, key: SoftKey, row: DeskRequest) -> None:
    answer = await decide(ana, row, signature=key.answer(await question(ana, row)))
    assert answer.status_code == 200, answer.text


def signed_by(key: SoftKey, said: SignedDecision) -> SignedDecision:
    """What the holder of a key can make without the desk."""
    challenge = challenge_of_decision(said, "n")
    return msgspec.structs.replace(said, assertion=assertion(key, challenge))


def assertion(key: SoftKey, challenge: bytes, nonce: str = "n") -> Assertion:
    response = key.answer({"nonce": nonce, "publicKey": {"challenge": b64(challenge)}})["credential"]["response"]
    return Assertion(key.id, nonce, response["authenticatorData"], response["clientDataJSON"], response["signature"])


async def write_by_hand(desk: RunningDesk, row: DeskRequest, signed: SignedDecision | None, by: str = "ana") -> None:
    """An approval as somebody writes it who has the database, and no rights at the desk."""
    place = await load_recent(desk.desk.store, row.run_id)
    assert place is not None
    _, log, run = place
    call, number = split_request_id(row.id)[1:]  # type: ignore[index]
    vote = VoteCast(call, number, row.digest, "approve", by, 1e9, via="session", assurance="signed", signed=signed)
    made = DecisionMade(call, number, row.digest, "approve", by, 1e9, via="session", assurance="signed")
    fold([vote, made], into=run)
    await desk.desk.store.append(None, log, [log.next_line(1e9, [vote, made])], run)


async def test_what_was_signed_is_found_signed_and_nothing_is_wrong(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    trust = await trust_of(desk)
    first, second = await requests(desk)
    await approved(desk, ana, key, first)
    asked = await question(ana, second, "edit", arguments={"cents": 7})
    done = await decide(ana, second, "edit", arguments={"cents": 7}, signature=key.answer(asked))
    verdicts = await found(desk, trust)

    assert done.status_code == 200, done.text
    assert [(each.verdict, each.what) for each in verdicts] == [
        ("signed", "vote to approve transfer"),
        ("signed", "approve transfer"),
        ("signed", "vote to edit transfer"),
        ("signed", "edit transfer"),
    ]
    assert wrong(verdicts) == []


@pytest.mark.parametrize("way", ["nothing", "of another call", "another's"])
async def test_an_approval_that_a_database_admin_writes_by_hand_is_found_out(desk: RunningDesk, way: str) -> None:
    ana, key = await with_key(desk)
    trust = await trust_of(desk)
    first, second = await requests(desk)
    signed: SignedDecision | None = None
    if way == "of another call":
        await approved(desk, ana, key, first)
        place = await load_recent(desk.desk.store, first.run_id)
        assert place is not None
        facts = [fact for record in read_lines(place[1].lines) for fact in record.facts]
        signed = next(fact.signed for fact in facts if isinstance(fact, VoteCast))
    elif way == "another's":
        signed = signed_by(SoftKey(desk.url), SignedDecision(NO_ASSERTION, second.id, second.digest, "approve"))
    await write_by_hand(desk, second, signed)
    verdicts = [each for each in await found(desk, trust) if each.subject in second.id or each.is_wrong]

    assert {each.verdict for each in verdicts} == {"does not verify"}
    assert {
        "nothing": "it says that it was signed, and holds no signature",
        "of another call": "what was signed is another question",
        "another's": "nobody ever registered the key that signed it",
    }[way] in [each.message for each in verdicts]


@pytest.mark.parametrize("way", ["unsigned", "with a signature of their own", "as admins of their own"])
async def test_a_key_that_a_database_admin_registers_is_not_anchored_and_neither_is_what_it_signs(
    desk: RunningDesk, way: str
) -> None:
    _, hers = await with_key(desk)
    trust = await trust_of(desk)
    _, row = await requests(desk)
    mine = SoftKey(desk.url)
    public = b64(mine.public_key())
    challenge = challenge_of_key("registered", "ana", mine.id, public, "localhost", "n")
    signatures, facts = [], []
    if way == "with a signature of their own":
        forged = assertion(mine, challenge)
        signatures = [KeySignature("ana", msgspec.structs.replace(forged, key=hers.id))]
    elif way == "as admins of their own":
        for name in ("eve", "mallory"):
            admin = SoftKey(desk.url)
            facts.append(
                PasskeyChanged(admin.id, "registered", name, "k", b64(admin.public_key()), "localhost", name, 1.0)
            )
            signatures.append(KeySignature(name, assertion(admin, challenge)))
    facts.append(PasskeyChanged(mine.id, "registered", "ana", "k", public, "localhost", "ana", 1.0, signatures))
    assert await desk.desk.store.change_records([], facts, at=1.0)
    await write_by_hand(desk, row, signed_by(mine, SignedDecision(NO_ASSERTION, row.id, row.digest, "approve")))
    verdicts = await found(desk, trust)

    told = {(each.verdict, each.subject) for each in verdicts if each.is_wrong}
    assert ("unanchored", mine.id) in told
    assert {each.verdict for each in verdicts if each.what} == {"unanchored"}


async def test_arguments_that_are_changed_after_they_were_signed_are_found_out(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    trust = await trust_of(desk)
    first, _ = await requests(desk)
    await approved(desk, ana, key, first)
    stored = await desk.desk.store.load(first.run_id)
    assert stored is not None
    assert stored.log is not None
    forged = Log(stored.log.run_id, stored.log.key)
    for text in stored.log.lines:
        forged.adopt(text.replace(b'"cents":5,', b'"cents":500,'))
    keyring = Keyring(trust, await operators(desk))

    assert forged.verify()
    assert forged.lines != stored.log.lines
    assert wrong(list(of_log(stored.log, keyring, trust))) == []
    assert (
        "does not verify",
        "what was signed is another call: its tool or its arguments are not what the person saw",
    ) in wrong(list(of_log(forged, keyring, trust)))


async def test_a_call_that_has_to_be_signed_and_was_not_is_named(desk: RunningDesk) -> None:
    ana, _ = await with_key(desk)
    run = await desk.waiting_run("Bank")
    note = next(row for row in await desk.desk.pending(run_id=run.id) if row.tool == "note")
    await decide(ana, note)
    none = wrong(await found(desk, await trust_of(desk)))
    demanded = await found(desk, await trust_of(desk, "Bank:no*"))

    assert none == []
    assert ("not signed", "it holds no signature, and this call has to be signed") in wrong(demanded)


async def test_a_call_that_began_without_any_decision_is_named(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as desk:
        await desk.waiting_run("Support")
        verdicts = await found(desk, Trust(signed=("Support:look_up",)))

    [each] = verdicts
    assert (each.verdict, each.is_wrong, each.what) == ("not signed", True, "look_up began")
    assert each.message == "nobody decided about it, and this call has to be signed"


async def test_what_was_erased_is_named_so(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    trust = await trust_of(desk)
    first, second = await requests(desk)
    await approved(desk, ana, key, first)
    await approved(desk, ana, key, second)
    note = next(row for row in await desk.desk.pending(run_id=first.run_id) if row.tool == "note")
    await decide(ana, note)
    await desk.desk.wait(first.run_id, until="ended", timeout=PATIENCE)
    await desk.desk.erase(first.run_id, by="ana")
    verdicts = await found(desk, trust)

    assert {each.verdict for each in verdicts} == {"erased"}
    assert len(verdicts) == 5
    assert wrong(verdicts) == []


async def test_a_key_that_came_after_the_file_is_anchored_by_those_that_signed_it(desk: RunningDesk) -> None:
    ada, hers = await with_key(desk, "ada", "admin")
    trust = await trust_of(desk)
    new = SoftKey(desk.url)
    made = await say(ada, "/passkeys/register", new.created((await say(ada, "/passkeys/register/options")).json()))
    asked = (await say(ada, "/passkeys/sign/options", {"id": made.json()["waiting"]})).json()
    signed = await say(ada, "/passkeys/sign", {**hers.answer(asked), "id": made.json()["waiting"]})
    keyring = Keyring(trust, await operators(desk))
    nobody = Keyring(Trust(), await operators(desk))

    assert signed.json() == {"missing": 0}
    assert keyring.is_anchored(new.id)
    assert keyring.unanchored() == []
    assert not nobody.is_anchored(new.id)


async def test_a_removed_key_signs_nothing_that_comes_later(desk: RunningDesk) -> None:
    _, key = await with_key(desk)
    trust = await trust_of(desk)
    _, row = await requests(desk)
    [kept] = trust.keys
    over = msgspec.structs.replace(trust, keys=(msgspec.structs.replace(kept, until=5.0),))
    await write_by_hand(desk, row, signed_by(key, SignedDecision(NO_ASSERTION, row.id, row.digest, "approve")))

    assert ("does not verify", "the key that signed it had been removed before") in wrong(await found(desk, over))
    assert wrong(await found(desk, trust)) == []


async def test_another_operators_log_and_another_key_under_a_name_are_found_out(desk: RunningDesk) -> None:
    await with_key(desk)
    trust = await trust_of(desk)
    other = msgspec.structs.replace(trust, operators=Place(length=1, digest="00"))
    longer = msgspec.structs.replace(trust, operators=Place(length=99, digest="00"))
    [key] = trust.keys
    swapped = msgspec.structs.replace(trust, keys=(msgspec.structs.replace(key, public_key="other"),))

    assert wrong(await found(desk, trust)) == []
    assert [len(wrong(await found(desk, each))) for each in (other, longer, swapped)] == [1, 1, 1]


async def test_without_a_trust_file_every_signature_is_unanchored(desk: RunningDesk) -> None:
    ana, key = await with_key(desk)
    first, _ = await requests(desk)
    await approved(desk, ana, key, first)

    assert {each.verdict for each in await found(desk, None)} == {"unanchored"}


async def test_the_command_writes_the_file_and_ends_with_one_where_something_is_wrong(
    desk: RunningDesk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ana, key = await with_key(desk)
    first, second = await requests(desk)
    await approved(desk, ana, key, first)
    store = f"sqlite:///{tmp_path / 'placet.db'}"
    assert await asyncio.to_thread(main, ["audit", "trust", "--store", store, "--signed", "Bank:transfer"]) == 0
    file = tmp_path / "trust.json"
    file.write_text(capsys.readouterr().out)
    whole = await asyncio.to_thread(main, ["audit", "verify", "--trust", str(file), "--store", store])
    said = capsys.readouterr().out
    await write_by_hand(desk, second, None)
    broken = await asyncio.to_thread(main, ["audit", "verify", "--trust", str(file), "--store", store])
    told = capsys.readouterr().out
    as_json = await asyncio.to_thread(main, ["audit", "verify", "--trust", str(file), "--store", store, "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    file.write_text("{}!")
    unreadable = await asyncio.to_thread(main, ["audit", "verify", "--trust", str(file), "--store", store])

    assert (whole, broken, as_json, unreadable) == (0, 1, 1, 2)
    assert "2 signed. Nothing to look at." in said
    assert "does not verify" in told
    assert [each["verdict"] for each in lines if each.get("is_wrong")] == ["does not verify", "does not verify"]
    assert isinstance(read_trust('{"keys": []}').keys, tuple)


async def test_two_people_who_may_not_vouch_anchor_nobodys_key(desk: RunningDesk) -> None:
    _, anas = await with_key(desk)
    trust = await trust_of(desk)
    second = SoftKey(desk.url)
    [kept] = trust.keys
    bens = msgspec.structs.replace(kept, id=second.id, person="ben", public_key=b64(second.public_key()))
    new = SoftKey(desk.url)
    public = b64(new.public_key())
    challenge = challenge_of_key("registered", "eve", new.id, public, "localhost", "n")
    signatures = [KeySignature("ana", assertion(anas, challenge)), KeySignature("ben", assertion(second, challenge))]
    fact = PasskeyChanged(new.id, "registered", "eve", "k", public, "localhost", "eve", 1.0, signatures)

    def is_anchored(*, vouches: bool) -> bool:
        keys = tuple(msgspec.structs.replace(key, vouches=vouches) for key in (kept, bens))
        return Keyring(Trust(keys=keys), [fact]).is_anchored(new.id)

    assert is_anchored(vouches=True)
    assert not is_anchored(vouches=False)
