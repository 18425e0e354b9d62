"""What a receipt says: which call was approved, who approved it and how sure that is, or which rule let it through."""

from __future__ import annotations

import hashlib

import msgspec

from placet.core.approvals import Entry
from placet.core.state import Call, RunFold
from placet.facts.codec import Json, JsonObject, canonical
from placet.facts.events import DecisionMade
from placet.facts.ids import call_id, call_key, request_id

HEADER = "Placet-Receipt"
"""The header of an HTTP request that carries a receipt."""
META = "placet/receipt"
"""The key in the `_meta` of an MCP request that carries one."""
_EXACT = 2**53
"""Whole floats below this are the same number for every reader of JSON."""


class ReceiptClaims(msgspec.Struct, frozen=True):
    """What is signed, without what the issuer adds: its name, and the times."""

    claims: JsonObject
    until: float | None = None
    """When the approval ends; None: it has no end of its own."""


def receipt_digest(tool: str, arguments: Json) -> str:
    """SHA-256 over the canonical JSON (keys sorted, no spaces, UTF-8) of the tool's name and its arguments. 1.0 is
    written as 1, since many readers of JSON do not tell them apart."""
    return hashlib.sha256(canonical([tool, _numbers(arguments)])).hexdigest()


def _numbers(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, dict):
        return {name: _numbers(each) for name, each in value.items()}
    return [_numbers(each) for each in value] if isinstance(value, list) else value


def receipt_claims(
    run_id: str, run: RunFold, call: Call, tool: str, valid_for: float | None = None
) -> ReceiptClaims | None:
    """Of a call that was approved, by people, by a standing decision or by a rule; None: nobody and nothing approved
    it. `tool`: the name by which whoever performs it knows it."""
    decision, rules = call.decision, call.policy
    allowed = rules is not None and rules.verdict == "allow"
    if (decision is None and not allowed) or (decision is not None and decision.verdict == "reject"):
        return None
    claims: JsonObject = {
        "jti": call_key(call.started_in or run_id, call.id),
        "tool": tool,
        "digest": receipt_digest(tool, call.effective if call.effective is not None else call.effective_text),
        "call": call_id(run_id, call.id),
        "agent": run.response_agent,
    }
    if rules is not None:
        heard = [rule.name for rule in rules.rules if rule.mode == "enforce"]
        claims["policy"] = {"version": rules.version, "verdict": rules.verdict, "rules": heard}
    if decision is None:
        return ReceiptClaims(claims)
    claims["decision"] = _decision(run_id, decision, run.ledger.entry(call.id))
    return ReceiptClaims(claims, None if valid_for is None else decision.at + valid_for)


def _decision(run_id: str, made: DecisionMade, entry: Entry | None) -> JsonObject:
    told: JsonObject = {
        "verdict": made.verdict,
        "by": made.by,
        "at": made.at,
        "via": made.via,
        "assurance": made.assurance,
        "request": request_id(run_id, made.call, made.request),
    }
    if made.grant is not None:
        told["grant"] = made.grant
    ballot = entry.open_ballot if entry is not None else None
    votes = ballot.newest() if ballot is not None else ()
    if votes:
        told["votes"] = [
            {"by": vote.by, "for": vote.on_behalf_of, "via": vote.via, "assurance": vote.assurance}
            for vote in votes
            if vote.verdict != "reject" and vote.digest == made.digest
        ]
    return told
