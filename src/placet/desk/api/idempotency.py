"""Asking twice: a POST with an `Idempotency-Key` has one effect, and its answer is given again, by any process.

The key is kept with the answer in the desk's store. What is done under it bears being done again (a run that is started
under a key has an id that follows from it), so that a process that died in between leaves nothing that is stuck.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from placet.desk.web.context import Web, actor_of
from placet.desk.web.problems import Problem
from placet.facts.codec import encode
from placet.ports import Record

KIND = "answer"
MAX_KEY = 255
STUCK_SECONDS = 60.0
"""An attempt that has not ended after this time died: the next one takes over."""
MAX_KEPT = 512 * 1024
"""Bytes of an answer that are kept."""
_KEPT_HEADERS = ("content-type", "location")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, and its answer when it has one."""

    asked: str
    """A digest of what was asked: the same key for something else is a mistake."""
    since: float
    status: int | None = None
    headers: dict[str, str] = {}
    body: str = ""


async def once(web: Web, request: Request, key: str, raw: bytes, run: Callable[[], Awaitable[Response]]) -> Response:
    """Do it, unless it was done under this key: then give the answer of that time."""
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise Problem(422, "invalid_request", f"An Idempotency-Key has 1 to {MAX_KEY} printable characters.")
    record_id, now = record_id_of(request, key), web.clock.now()
    attempt = Kept(asked=hashlib.sha256(raw).hexdigest(), since=now)
    record = _record(web, record_id, attempt, now)
    if not await web.desk.store.add_record(record):
        known = await web.desk.store.record(KIND, record_id)
        if known is not None and (answer := _known_answer(known, attempt)) is not None:
            return answer
        if known is not None and not await web.desk.store.replace_record(record, was=known.data):
            raise _in_progress()
    return await _do(web, record, attempt, run)


def record_id_of(request: Request, key: str) -> str:
    """One person's key for one address is not another's."""
    said = f"{actor_of(request).name}\n{request.method}\n{request.url.path}\n{key}"
    return hashlib.sha256(said.encode()).hexdigest()


def run_id_of(request: Request) -> str | None:
    """The id of the run that this request starts, if it has an Idempotency-Key."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    return f"run_{hashlib.sha256(record_id_of(request, key).encode()).hexdigest()[:26]}"


def _record(web: Web, record_id: str, kept: Kept, now: float) -> Record:
    until = now + web.settings.idempotency_seconds
    return Record(kind=KIND, id=record_id, data=encode(kept).decode(), expires_at=until)


def _known_answer(record: Record, attempt: Kept) -> Response | None:
    """The answer of an earlier attempt; None when that died, so that this one goes on in its place."""
    kept = msgspec.json.decode(record.data, type=Kept)
    if kept.asked != attempt.asked:
        raise Problem(
            422, "idempotency_key_reused", "This Idempotency-Key was used for something else: make a new one."
        )
    if kept.status is not None:
        body = base64.b64decode(kept.body)
        return Response(body or None, kept.status, kept.headers | {"Idempotency-Replayed": "true"})
    if attempt.since - kept.since < STUCK_SECONDS:
        raise _in_progress()
    return None


def _in_progress() -> Problem:
    words = "The first request with this Idempotency-Key is still being worked on: ask again in a moment."
    return Problem(409, "idempotency_in_progress", words, headers={"Retry-After": "1"})


async def _do(web: Web, record: Record, attempt: Kept, run: Callable[[], Awaitable[Response]]) -> Response:
    store = web.desk.store
    try:
        answer = await run()
    except BaseException:  # nothing was done, or it bears being done again: the key is free
        await store.take_record(KIND, record.id)
        raise
    body = bytes(answer.body)
    if len(body) > MAX_KEPT:
        await store.take_record(KIND, record.id)
        return answer
    kept = msgspec.structs.replace(
        attempt,
        status=answer.status_code,
        headers={name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
        body=base64.b64encode(body).decode(),
    )
    await store.replace_record(msgspec.structs.replace(record, data=encode(kept).decode()))
    return answer
