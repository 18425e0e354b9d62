"""What a service that performs an effect accepts as a receipt, and everything that it refuses."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from placet.facts.errors import ReceiptRefused
from placet.receipts import KeyText, Receipts, receipt_digest, verify
from placet.receipts.verifying import TYPE

NOW = 1_800_000_000.0
KEY = ECKey.generate_key("P-256", private=True, auto_kid=True)
CALL = {"order_id": "7", "cents": 4200}


def issuer(key: Any = KEY, **more: Any) -> Receipts:
    return Receipts(KeyText(json.dumps(key.as_dict(private=True))), issuer="desk", **more)


def claims(**changed: Any) -> dict[str, Any]:
    found = {"jti": "run_1.c", "tool": "refund", "digest": receipt_digest("refund", CALL), "call": "run_1_t1c0"}
    return {**found, "agent": "Support", **changed}


async def token(**changed: Any) -> str:
    return await issuer().issue(claims(**changed), NOW)


def forged(head: dict[str, Any], key: Any, **changed: Any) -> str:
    """Signed by whatever key under whatever head, with all that a real one says."""
    payload = {"iss": "desk", "iat": int(NOW), "exp": int(NOW) + 600, **claims(**changed)}
    algorithms = [str(head["alg"])]
    return jws.serialize_compact({"typ": TYPE, "kid": KEY.kid, **head}, json.dumps(payload), key, algorithms)


def check(text: str, tool: str = "refund", arguments: Any = CALL, **more: Any) -> Any:
    return verify(text, tool, arguments, issuer().jwks(), **{"now": NOW, **more})


async def test_a_receipt_of_this_very_call_passes_and_says_what_it_is_about() -> None:
    found = check(await token(decision={"by": "ana", "assurance": "passkey"}), issuer="desk")

    assert (found.jti, found.call, found.iss) == ("run_1.c", "run_1_t1c0", "desk")
    assert found.decision == {"by": "ana", "assurance": "passkey"}
    assert check(await token(), arguments={"cents": 4200.0, "order_id": "7"}).tool == "refund"


@pytest.mark.parametrize("kind", ["EC", "OKP", "RSA"])
async def test_keys_of_each_kind_sign_what_their_public_part_verifies(kind: str) -> None:
    key = {
        "EC": lambda: ECKey.generate_key("P-256", private=True, auto_kid=True),
        "OKP": lambda: OKPKey.generate_key("Ed25519", private=True, auto_kid=True),
        "RSA": lambda: RSAKey.generate_key(2048, private=True, auto_kid=True),
    }[kind]()
    made = issuer(key)
    public = made.jwks()

    assert verify(await made.issue(claims(), NOW), "refund", CALL, public, now=NOW).tool == "refund"
    assert all("d" not in each and "p" not in each for each in public["keys"])


async def test_a_receipt_about_another_call_is_refused() -> None:
    text = await token()

    for tool, arguments in [
        ("refund", {**CALL, "cents": 4201}),
        ("refund", {**CALL, "more": None}),
        ("refund", {"order_id": 7, "cents": 4200}),
        ("transfer", CALL),
        ("refund", {}),
    ]:
        with pytest.raises(ReceiptRefused, match="another call"):
            check(text, tool, arguments)


async def test_a_receipt_out_of_its_time_or_of_another_desk_is_refused() -> None:
    text = await token()

    check(text, now=NOW + 600)
    for more in ({"now": NOW + 700}, {"now": NOW - 100}, {"issuer": "another"}):
        with pytest.raises(ReceiptRefused):
            check(text, **more)


async def test_an_approval_that_ends_sooner_ends_its_receipt() -> None:
    text = await issuer().issue(claims(), NOW, NOW + 30)

    assert check(text).exp == NOW + 30


def test_a_token_without_a_signature_is_refused() -> None:
    head = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": TYPE, "kid": KEY.kid}).encode()).rstrip(b"=")
    body = forged({"alg": "ES256"}, KEY).split(".")[1]

    for text in (f"{head.decode()}.{body}.", f"{head.decode()}.{body}", f"{head.decode()}.{body}.AAAA"):
        with pytest.raises(ReceiptRefused):
            check(text)


def test_a_token_of_another_key_or_of_a_shared_secret_is_refused() -> None:
    stranger = ECKey.generate_key("P-256", private=True)
    public_as_secret = OctKey.import_key(json.dumps(KEY.as_dict(private=False)))
    rsa = RSAKey.generate_key(2048, private=True)

    for head, key in (
        ({"alg": "ES256"}, stranger),
        ({"alg": "ES256", "kid": "unknown"}, KEY),
        ({"alg": "HS256"}, public_as_secret),
        ({"alg": "PS256"}, rsa),
        ({"alg": "ES256", "typ": "JWT"}, KEY),
        ({"alg": "ES256", "jwk": stranger.as_dict(private=False)}, stranger),
    ):
        with pytest.raises(ReceiptRefused):
            check(forged(head, key))


async def test_whatever_is_changed_in_a_receipt_it_is_refused() -> None:
    text = await token()
    chance = random.Random(22)
    others = []
    for _ in range(300):
        at = chance.randrange(len(text))
        changed = text[:at] + chance.choice("ABCabc019-_.") + text[at + 1 :]
        others.append(changed if at < len(text) - 1 else "")  # the last sign has bits that carry nothing

    for changed in {"", ".", "..", "a.b.c", "é", "x" * 20_000, text + ".", text[:-9], *others} - {text}:
        with pytest.raises(ReceiptRefused):
            check(changed)
    with pytest.raises(ReceiptRefused):
        verify(None, "refund", CALL, issuer().jwks())
    with pytest.raises(ReceiptRefused):
        verify(text, "refund", CALL, {}, now=NOW)


async def test_a_receipt_is_used_once_and_a_wrong_one_uses_nothing_up() -> None:
    text = await token()
    uses: list[str] = []

    def seen(jti: str, _exp: int) -> bool:
        return jti in uses or bool(uses.append(jti))

    with pytest.raises(ReceiptRefused):
        check(text, "transfer", seen=lambda *_: pytest.fail("asked about a receipt of another call"))
    check(text, seen=seen)

    with pytest.raises(ReceiptRefused, match="before"):
        check(text, seen=seen)
    later = await issuer().issue(claims(), NOW + 5)  # another attempt at the same call
    with pytest.raises(ReceiptRefused, match="before"):
        check(later, seen=seen)
