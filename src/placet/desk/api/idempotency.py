"""An Idempotency-Key: what is asked twice has one effect, and its answer is given again, by any process.

The key is kept with the answer in the desk's store, for a day; after that it is a new key. What is made under it gets
its id from the attempt that the store keeps, so that it bears being done again: a process that died in between leaves
nothing that is stuck, and the process that continues makes nothing twice. An answer that shows a secret is not kept.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from placet.desk.access.secrets import new_secret
from placet.desk.web.context import Web, actor_of
from placet.desk.web.problems import Problem, as_problem
from placet.facts.codec import encode
from placet.facts.errors import PlacetError
from placet.ports import StoredRecord

KIND = "answer"
MAX_KEY = 255
BEAT_SECONDS = 1.5
"""How often the process that works on a request says so."""
STUCK_SECONDS = 6.0
"""An attempt that was silent for so long died: the next one takes over."""
MAX_KEPT = 512 * 1024
"""Bytes of an answer that are kept."""
_KEPT_HEADERS = ("content-type", "location")


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, and its answer when it has one."""

    asked: str
    """A digest of what was asked: the same key for something else is a mistake."""
    since: float
    """When a process was last known to work on it; 0: none does, and it may be done again."""
    attempt: str = ""
    """What is made under the key is named after this. A process that takes over keeps it; a new key has another."""
    status: int | None = None
    headers: dict[str, str] = {}
    body: str = ""
    is_withheld: bool = False
    """The answer showed a secret, and is not here."""


async def once(
    web: Web,
    request: Request,
    key: str,
    raw: bytes,
    run: Callable[[], Awaitable[Response]],
    *,
    keeps_answer: bool = True,
) -> Response:
    """Do it, unless it was done under this key: then give the answer of that time."""
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise Problem(422, "invalid_request", f"An Idempotency-Key has 1 to {MAX_KEY} printable characters.")
    record_id, store = record_id_of(request, key), web.desk.store
    asked = hashlib.sha256(raw).hexdigest()
    while True:
        mine = StoredAnswer(asked=asked, since=web.clock.now(), attempt=new_secret()[:26])
        if await store.add_record(_record(web, record_id, mine)):
            break
        known = await store.record(KIND, record_id)
        if known is None:
            continue  # it has just been given up: the key is free
        kept = msgspec.json.decode(known.data, type=StoredAnswer)
        if (answer := _known_answer(kept, mine)) is not None:
            return answer
        mine = msgspec.structs.replace(kept, since=mine.since)
        if not await store.replace_record(_record(web, record_id, mine), was=known.data):
            raise _in_progress(STUCK_SECONDS)
        break
    request.state.attempt = mine.attempt
    return await _do(web, record_id, mine, run, keeps_answer)


def record_id_of(request: Request, key: str) -> str:
    """One person's key for one address is not another's."""
    text = f"{actor_of(request).name}\n{request.method}\n{request.url.path}\n{key}"
    return hashlib.sha256(text.encode()).hexdigest()


def made_id(request: Request, prefix: str) -> str | None:
    """The id of what this request makes, if it has an Idempotency-Key: the same for all who work on it."""
    attempt: str | None = getattr(request.state, "attempt", None)
    if attempt is None:
        return None
    return f"{prefix}{hashlib.sha256(f'{prefix} {attempt}'.encode()).hexdigest()[:26]}"


def _record(web: Web, record_id: str, kept: StoredAnswer) -> StoredRecord:
    until = web.clock.now() + web.settings.idempotency_seconds
    return StoredRecord(kind=KIND, id=record_id, data=encode(kept).decode(), expires_at=until)


def _known_answer(kept: StoredAnswer, mine: StoredAnswer) -> Response | None:
    """The answer of an earlier attempt; None when that died, so that this one goes on in its place."""
    if kept.asked != mine.asked:
        raise Problem(
            422, "idempotency_key_reused", "This Idempotency-Key was used for something else: make a new one."
        )
    if kept.is_withheld:
        raise _shown_once(kept)
    if kept.status is not None:
        body = base64.b64decode(kept.body)
        return Response(body or None, kept.status, kept.headers | {"Idempotency-Replayed": "true"})
    silent = mine.since - kept.since
    if silent < STUCK_SECONDS:
        raise _in_progress(STUCK_SECONDS - silent)
    return None


def _in_progress(seconds: float) -> Problem:
    wait = max(1, math.ceil(seconds))
    message = (
        "The first request with this Idempotency-Key is still at work, or was interrupted a short time ago: ask "
        f"again in {wait} s. If no process works on it then, it is carried out."
    )
    return Problem(409, "idempotency_in_progress", message, headers={"Retry-After": str(wait)})


def _shown_once(kept: StoredAnswer) -> Problem:
    message = (
        "This was done under this Idempotency-Key, once. Its answer showed a secret, which is shown only once and is "
        "not kept. If that answer was lost, revoke what it made and make another, under a new key."
    )
    return Problem(409, "answer_not_kept", message, headers=kept.headers)


async def _do(
    web: Web, record_id: str, mine: StoredAnswer, run: Callable[[], Awaitable[Response]], keeps_answer: bool
) -> Response:
    store = web.desk.store
    again = msgspec.structs.replace(mine, since=0.0)
    try:
        async with _at_work(web, record_id, mine):
            answer = await run()
    except BaseException as error:
        if _did_nothing(error):
            await store.take_record(KIND, record_id)  # the key is free: mend what was asked, and use it again
        else:
            await store.replace_record(_record(web, record_id, again))
        raise
    body, headers = bytes(answer.body), {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    kept = msgspec.structs.replace(mine, status=answer.status_code)
    if not keeps_answer:
        headers.pop("content-type", None)
        kept = msgspec.structs.replace(kept, headers=headers, is_withheld=True)
    elif len(body) > MAX_KEPT:
        kept = again
    else:
        kept = msgspec.structs.replace(kept, headers=headers, body=base64.b64encode(body).decode())
    await store.replace_record(_record(web, record_id, kept))
    return answer


def _did_nothing(error: BaseException) -> bool:
    """Whether the desk refused. After anything else it is unknown how far it came."""
    problem = as_problem(error) if isinstance(error, PlacetError) else error
    return isinstance(problem, Problem) and problem.status < 500


@contextlib.asynccontextmanager
async def _at_work(web: Web, record_id: str, mine: StoredAnswer) -> AsyncIterator[None]:
    """While this lasts, the store says that a process works on it."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with contextlib.suppress(PlacetError):  # the store is away: the work itself will say so
                now = msgspec.structs.replace(mine, since=web.clock.now())
                await web.desk.store.replace_record(_record(web, record_id, now))

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
