"""Receipts of calls that are about to begin. They are signed before the last look, since a key service may take its
time, and given out only if the look finds what was signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from placet.core.receipt import ReceiptClaims, receipt_claims
from placet.core.state import Call
from placet.declare.tool import Tool
from placet.facts.errors import PlacetError, ReceiptNotSigned
from placet.ports import ReceiptIssuer
from placet.runtime.frame import Frame, Job

Signed: TypeAlias = tuple[ReceiptClaims, str]


async def sign_receipts(frame: Frame, issuer: ReceiptIssuer, calls: Sequence[Call]) -> Mapping[str, Signed]:
    """By call. ReceiptNotSigned where the key cannot be used: then nothing of these begins."""
    found: dict[str, Signed] = {}
    for call in calls:
        tool = frame.tool_of(call) if call.server is None else None
        claims = claims_now(frame, call, tool) if tool is not None else None
        if claims is not None:
            found[call.id] = claims, await signed(issuer, claims, frame.journal.now())
    return found


def claims_now(frame: Frame, call: Call, tool: Tool) -> ReceiptClaims | None:
    return receipt_claims(frame.run_id, frame.run, call, tool.name_at_home, tool.approval_valid_for)


def with_receipt(frame: Frame, job: Job, receipts: Mapping[str, Signed]) -> Job | None:
    """The job with its receipt; None: what was signed is not what would run now."""
    if job.call.server is not None:
        return job
    claims, receipt = receipts.get(job.call.id, (None, None))
    if claims_now(frame, job.call, job.tool) != claims:
        return None
    return msgspec.structs.replace(job, receipt=receipt)


async def signed(issuer: ReceiptIssuer, claims: ReceiptClaims, now: float) -> str:
    try:
        return await issuer.issue(claims.claims, now, claims.until)
    except PlacetError:
        raise
    except Exception as error:  # a key service's client may raise anything: nothing begins without its receipt
        raise ReceiptNotSigned(
            f"The receipt of call {claims.claims['call']} could not be signed ({type(error).__name__}: {error}): "
            "nothing was begun. See to the key and resume the run."
        ) from error
