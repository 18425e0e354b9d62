"""The audit of what stores keep beside the logs: it is made of the logs, so it can be compared with them.

Not compared is what no log tells: who drives a run, since when it has news, how often it was taken over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from placet.core.index import RequestRecord, rebuilt
from placet.core.log import Log, read_lines
from placet.core.operators import Operators
from placet.core.state import RunFold
from placet.facts.errors import PlacetError
from placet.facts.events import (
    GrantMade,
    HoldKind,
    HoldPlaced,
    PasskeyChanged,
    Pattern,
    Record,
    RunErased,
    TokenChanged,
    UserChanged,
)
from placet.facts.voting_settings import VotingSettings
from placet.ports import DeskStore, Hold, IndexedRun
from placet.stores.sql.forgetting import is_blank
from placet.stores.sql.rows import read_grant, read_request, run_columns

V = TypeVar("V")

PAGE = 1000


async def index_problem(store: DeskStore, log: Log, erasure: RunErased | None) -> str | None:
    """What the store lists of a run and its whole log does not say; None where they agree."""
    indexed = await store.indexed(log.run_id)
    if indexed is None:
        return "no list shows it"
    if log.is_erased:
        return next(_of_erased(log.run_id, indexed, erasure), None)
    run = RunFold()
    records = read_lines(log.lines)
    questions = rebuilt(log.run_id, records, run)
    return next(_of_run(indexed.run, records, run), None) or next(_of_requests(indexed.requests, questions), None)


def _of_run(columns: Mapping[str, object], records: Sequence[Record], run: RunFold) -> Iterator[str]:
    logged: dict[str, object] = msgspec.structs.asdict(run_columns(run, records[-1].at)) | {"erased_at": None}
    session = logged.pop("session")
    for name, value in logged.items():
        if not _is_same(columns[name], value):
            yield f"the list says otherwise about its {name} than its log"
    if columns["created_at"] not in {record.at for record in records}:  # of a state that was taken over: a later one's
        yield "the list says otherwise about its created_at than its log"
    if columns["session"] not in (run.session, session):  # older code kept the bare id
        yield "the list says otherwise about its session than its log"


def _is_same(column: object, value: object) -> bool:
    """PostgreSQL cannot hold NUL characters: what is searched stands there without them."""
    return column == value or (isinstance(value, str) and column == value.replace("\0", "\N{SYMBOL FOR NULL}"))


def _of_erased(run_id: str, indexed: IndexedRun, erasure: RunErased | None) -> Iterator[str]:
    for name in ("final_output", "stopped", "started_by", "session"):
        if indexed.run[name] is not None:
            yield f"it was erased, and the list shows its {name}"
    if erasure is not None and indexed.run["erased_at"] != erasure.at:
        yield "the list says otherwise than the operators' log about when it was erased"
    for columns in indexed.requests:
        row = _row(columns)
        if row is None or not is_blank(row) or row.run_id != run_id:
            yield f"it was erased, and its request {columns['id']} says something"


def _of_requests(indexed: Sequence[Mapping[str, object]], asked: Mapping[str, RequestRecord]) -> Iterator[str]:
    by_key = {row.key: row for row in asked.values()}
    for columns in indexed:
        truth = by_key.get(str(columns["id"]))
        if truth is None:
            yield f"its log asks no request {columns['id']}, which is listed"
        elif _row(columns) != truth:
            yield f"request {truth.id} is listed otherwise than its log asks it"
        elif any(not _is_same(columns[name], getattr(truth, name)) for name in ("call", "number", "agent", "tool")):
            yield f"request {truth.id} is listed under another call, agent or tool than its log says"
    listed = {columns["id"] for columns in indexed}
    for key, row in by_key.items():
        if key not in listed:
            yield f"its log asks request {row.id}, and no list shows it"


def _row(columns: Mapping[str, object]) -> RequestRecord | None:
    data, status, closing, escalated_at, ballot = (
        columns[name] for name in ("data", "status", "closing", "escalated_at", "ballot")
    )
    try:
        return read_request(data, status, closing, escalated_at, ballot)  # type: ignore[arg-type]  # whatever stands there
    except (PlacetError, TypeError):
        return None


# -- beside the operators' log ----------------------------------------------------------------------------------------


async def operators_problem(store: DeskStore, logged: Operators) -> str | None:
    """What stands beside the operators' log, which says this, and is not recorded there; None where they agree."""
    beside = await store.indexed_operators()
    if beside.strays:
        return f"lines or requests of {beside.strays[0]} are there, and no list shows that run"
    return (
        next(_of_grants(beside.grants, logged), None)
        or next(_of_holds(await store.holds(), logged.holds), None)
        or next(_of_users(await _records(store, "user", _Person), logged.users), None)
        or next(_of_tokens(await _records(store, "token", _Person), logged.tokens), None)
        or next(_of_passkeys(await _records(store, "passkey", _Key), logged.passkeys), None)
        or _of_four_eyes(await store.four_eyes(), logged.four_eyes)
        or _of_voting(await store.voting_settings(), logged)
    )


def _of_grants(indexed: Sequence[Mapping[str, object]], logged: Operators) -> Iterator[str]:
    made = dict(logged.grants)
    for columns in indexed:
        grant = made.pop(str(columns["id"]), None)
        if grant is None:
            yield f"the operators' log knows nothing of grant {columns['id']}"
        elif _grant(columns) != grant or not _is_same(columns["agent"], grant.agent):
            yield f"grant {grant.id} is not what the operators' log says"
        elif columns["revoked"] != (grant.id in logged.revoked):
            yield f"the operators' log says otherwise about whether grant {grant.id} was revoked"
    if made:
        yield f"grant {min(made)} is gone, and the operators' log has it"


def _grant(columns: Mapping[str, object]) -> GrantMade | None:
    try:
        return read_grant(str(columns["data"]))
    except PlacetError:
        return None


def _of_holds(holds: Sequence[Hold], logged: Mapping[tuple[HoldKind, str], HoldPlaced]) -> Iterator[str]:
    placed = dict(logged)
    for hold in holds:
        if placed.pop((hold.kind, hold.name), None) != HoldPlaced(hold.kind, hold.name, hold.by, hold.at, hold.reason):
            yield f"the hold on {hold.kind} {hold.name} is not what the operators' log says"
    for kind, name in placed:
        yield f"the hold on {kind} {name} is gone, and the operators' log has it"


class _Scope(msgspec.Struct, frozen=True):
    agent: str = "*"
    tool: str = "*"


class _Person(msgspec.Struct, frozen=True):
    """What a user's or token's record says about what they may."""

    role: str
    decides: tuple[_Scope, ...] = (_Scope(),)
    is_active: bool = True
    owner: str | None = None
    groups: tuple[str, ...] = ()
    same_as: str | None = None

    @property
    def patterns(self) -> list[Pattern]:
        return [(each.agent, each.tool) for each in self.decides]


class _Key(msgspec.Struct, frozen=True):
    """What a passkey's record says about whose signature it verifies."""

    owner: str
    public_key: str
    rp_id: str


async def _records(store: DeskStore, kind: str, shape: type[V]) -> dict[str, V | None]:
    """By id; None for one that cannot be read."""
    found: dict[str, V | None] = {}
    after = ""
    while page := await store.records(kind, after=after, limit=PAGE):
        for record in page:
            after = record.id
            try:
                found[record.id] = msgspec.json.decode(record.data, type=shape)
            except msgspec.DecodeError:
                found[record.id] = None
    return found


def _of_users(users: Mapping[str, _Person | None], logged: Mapping[str, UserChanged]) -> Iterator[str]:
    for name, user in users.items():
        fact = logged.get(name)
        if fact is None or fact.change == "removed":
            yield f"the operators' log knows of no user {name}: added without Placet, or before it recorded users"
        elif user is None or _rights(user, user.patterns) != _rights(fact, fact.decides):
            yield f"user {name} may do something else than the operators' log says"
    for name, fact in logged.items():
        if fact.change != "removed" and name not in users:
            yield f"user {name} is gone, and the operators' log has no removal"


def _rights(user: _Person | UserChanged, decides: Sequence[Pattern]) -> tuple[object, ...]:
    return user.role, decides, user.is_active, list(user.groups), user.owner, user.same_as


def _of_tokens(tokens: Mapping[str, _Person | None], logged: Mapping[str, TokenChanged]) -> Iterator[str]:
    for token_id, token in tokens.items():
        fact = logged.get(token_id)
        if fact is None or fact.change == "revoked":
            yield f"the operators' log knows of no token {token_id}: made without Placet, or before it recorded tokens"
        elif token is None or (token.role, token.patterns, token.owner) != (fact.role, fact.decides, fact.owner):
            yield f"token {token_id} may do something else than the operators' log says"


def _of_passkeys(keys: Mapping[str, _Key | None], logged: Mapping[str, PasskeyChanged]) -> Iterator[str]:
    for key_id, key in keys.items():
        fact = logged.get(key_id)
        if fact is None:
            yield f"the operators' log knows of no passkey {key_id}: registered without Placet"
        elif key is None or (key.owner, key.public_key, key.rp_id) != (fact.person, fact.public_key, fact.rp_id):
            yield f"passkey {key_id} is not the one that the operators' log says"
    for key_id, fact in logged.items():
        if key_id not in keys:
            yield f"passkey {key_id} of {fact.person} is gone, and the operators' log has no removal"


def _of_four_eyes(patterns: Sequence[Pattern], logged: Sequence[Pattern]) -> str | None:
    return None if list(patterns) == logged else "the rule of four eyes is not what the operators' log says"


def _of_voting(settings: VotingSettings, logged: Operators) -> str | None:
    """Who has to approve, who votes for whom, who is on call."""
    if list(settings.rules) != logged.rules:
        return "the rules about approvers are not what the operators' log says"
    if {each.id: each for each in settings.delegations} != logged.delegations:
        return "the delegations are not what the operators' log says"
    if settings.rotations != logged.rotations:
        return "the rotations are not what the operators' log says"
    return None
