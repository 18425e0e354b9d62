"""Permits: who holds the claim of a guest's call, and until when.

A permit's id stands in the log, with the claim. Its token is kept as a digest, and its lease beside it, in records of
the store: leases are not facts of a run. Both are written before the claim, so that a claim without a lease cannot be;
a lease without a claim does no harm.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Literal

import msgspec

from placet.clock import Clock
from placet.facts.codec import encode
from placet.facts.errors import PermitRefused
from placet.facts.events import ReportedAfterEnd
from placet.facts.ids import mint
from placet.ports import DeskStore, RecordStep, StoredRecord

PERMIT, LEASE, REPORT = "permit", "permit_lease", "permit_report"
PERMIT_KEPT = 100 * 86_400.0
"""For how long a late report is still recognized."""
NOT_VALID = "This token is not one of this call's permits: claim the call, or look what became of it."


class KeptPermit(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a permit."""

    call: str
    guest: str
    digest: str


class PermitLease(msgspec.Struct, frozen=True, kw_only=True):
    """How long a permit's holder has to report."""

    call: str
    until: float
    asks_at: float
    """When a person is asked: at its end, or later where the guest may find out by itself."""


class Permits:
    def __init__(self, store: DeskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def prepare(
        self, call: str, guest: str, until: float, asks_at: float, key: str | None = None
    ) -> tuple[str, str]:
        """A new permit and its lease, before the claim: its id, and its token. `key`: the secret part of the token, as
        code that claims has chosen it."""
        permit, secret = mint("permit"), key or _new_secret()
        kept = KeptPermit(call=call, guest=guest, digest=_digest(secret))
        await self._store.add_record(self._kept(permit, kept))
        lease = PermitLease(call=call, until=until, asks_at=asks_at)
        await self._store.add_record(StoredRecord(kind=LEASE, id=permit, data=encode(lease).decode(), owner=guest))
        return permit, f"{permit}.{secret}"

    async def hand_out_again(self, permit: str, call: str, guest: str, until: float, asks_at: float) -> str:
        """Another token for the same permit; the one before does not count any more."""
        secret = _new_secret()
        kept = self._kept(permit, KeptPermit(call=call, guest=guest, digest=_digest(secret)))
        if not await self._store.replace_record(kept):
            await self._store.add_record(kept)
        await self._set_lease(permit, guest, PermitLease(call=call, until=until, asks_at=asks_at))
        return f"{permit}.{secret}"

    async def check(self, token: str, call: str, guest: str) -> str:
        """The id of the permit whose token this is; PermitRefused where it is none of this call and this guest."""
        permit, _, secret = token.partition(".")
        record = await self._store.record(PERMIT, permit)
        kept = msgspec.json.decode(record.data, type=KeptPermit) if record is not None else None
        if kept is None or (kept.call, kept.guest) != (call, guest):
            raise PermitRefused(NOT_VALID)
        if not hmac.compare_digest(_digest(secret), kept.digest):
            raise PermitRefused(NOT_VALID)
        return permit

    async def token_of(self, permit: str | None, key: str | None) -> str | None:
        """The token of a permit that was given out under this key: the same claim was asked for before."""
        record = await self._store.record(PERMIT, permit) if permit is not None and key is not None else None
        kept = msgspec.json.decode(record.data, type=KeptPermit) if record is not None else None
        is_same = kept is not None and key is not None and hmac.compare_digest(_digest(key), kept.digest)
        return f"{permit}.{key}" if is_same else None

    async def lease(self, permit: str) -> PermitLease | None:
        record = await self._store.record(LEASE, permit)
        return None if record is None else msgspec.json.decode(record.data, type=PermitLease)

    async def renew(self, permit: str, until: float, asks_at: float) -> bool:
        """Whether the lease goes on until then: one that has ended does not."""
        record = await self._store.record(LEASE, permit)
        lease = msgspec.json.decode(record.data, type=PermitLease) if record is not None else None
        if record is None or lease is None or lease.until <= self._clock.now():
            return False
        longer = PermitLease(call=lease.call, until=max(until, lease.until), asks_at=max(asks_at, lease.asks_at))
        changed = msgspec.structs.replace(record, data=encode(longer).decode())
        return await self._store.replace_record(changed, was=record.data)

    async def end(self, permit: str) -> None:
        """The call has ended, or a person is asked about it: there is nothing left to wait for."""
        await self._store.take_record(LEASE, permit)

    async def keep_report(self, permit: str, call: str, guest: str, outcome: Literal["finished", "failed"]) -> None:
        """Write down, once, what was reported about a call whose session is over: nothing follows in its own log."""
        now, name = round(self._clock.now(), 3), f"{permit}.{outcome}"
        kept = StoredRecord(kind=REPORT, id=name, data="{}", owner=call, expires_at=now + PERMIT_KEPT)
        step = RecordStep(kind=REPORT, id=name, was=None, now=kept)
        await self._store.change_records([step], [ReportedAfterEnd(call, guest, outcome, now)], at=now)

    async def over(self, now: float) -> list[tuple[str, PermitLease]]:
        """The leases that ended without a report, about which people are to be asked now."""
        found: list[tuple[str, PermitLease]] = []
        after = ""
        while page := await self._store.records(LEASE, after=after):
            leases = [(each.id, msgspec.json.decode(each.data, type=PermitLease)) for each in page]
            found += [(permit, lease) for permit, lease in leases if lease.asks_at <= now]
            after = page[-1].id
        return found

    async def _set_lease(self, permit: str, guest: str, lease: PermitLease) -> None:
        record = StoredRecord(kind=LEASE, id=permit, data=encode(lease).decode(), owner=guest)
        if not await self._store.replace_record(record):
            await self._store.add_record(record)

    def _kept(self, permit: str, kept: KeptPermit) -> StoredRecord:
        until = self._clock.now() + PERMIT_KEPT
        return StoredRecord(kind=PERMIT, id=permit, data=encode(kept).decode(), owner=kept.call, expires_at=until)


def _new_secret() -> str:
    return os.urandom(32).hex()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
