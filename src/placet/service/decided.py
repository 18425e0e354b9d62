"""What people decided, as cases that a policy can be tried on: out of a store's list of questions, newest first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from placet.core.index import RequestRecord
from placet.core.json_schema import problems
from placet.core.log import read_lines
from placet.core.policy import OWN_SOURCE, Policy, Subject
from placet.facts.codec import JsonObject
from placet.facts.events import CallHeld, InChild
from placet.facts.requirements import ANYBODY
from placet.policy.backtest import Case, Said, Unreplayable
from placet.ports import DeskStore, RequestQuery, RunQuery
from placet.runtime.policing import server_of
from placet.stores.sql.forgetting import is_blank

PAGE = 1000
SAID: Mapping[str, Said] = {"approved": "yes", "rejected": "no", "edited": "edited", "answered": "answered"}
BY_A_RULE = "rule «"
"""How the reason of a question begins that a policy asked, and not the tool."""


async def cases(
    store: DeskStore,
    *,
    since: float = 0.0,
    tools: Mapping[str, Sequence[JsonObject]] | None = None,
    policies: Sequence[Policy] = (),
) -> AsyncIterator[Case]:
    """The calls that people were asked about since then, and decided. `tools`: the schemas of today's tools: a call
    whose arguments fit none of them cannot be replayed. `policies`: those that are tried; what none of them looks at is
    not read."""
    starters = await _starters(store) if _look_at(policies, "started_by") else {}
    servers = _Servers(store) if _look_at(policies, "server") else None
    cursor: str | None = None
    while True:
        query = RequestQuery(status=None, newest_first=True, cursor=cursor, limit=PAGE)
        page = await store.requests(query)
        for row in page.rows:
            if row.created_at < since:
                return
            if row.kind == "approval" and row.grant is None and row.status in SAID:
                server = await servers.of(row) if servers is not None else None
                yield case_of(row, tools, starters.get(row.run_id), server)
        cursor = page.cursor
        if cursor is None:
            return


async def collected(store: DeskStore, since: float, policies: Sequence[Policy], most: int) -> list[Case]:
    """The newest of them, at most so many."""
    found: list[Case] = []
    async for case in cases(store, since=since, policies=policies):
        found.append(case)
        if len(found) >= most:
            break
    return found


def case_of(
    row: RequestRecord,
    tools: Mapping[str, Sequence[JsonObject]] | None = None,
    started_by: str | None = None,
    server: str | None = None,
) -> Case:
    """A question and its answer, as far as the list of questions knows them."""
    subject = subject_of(row, started_by, server)
    said = SAID.get(row.status, "no")
    ballot = row.ballot
    if said == "yes" and ballot is not None and ballot.arguments is not None:
        said = "edited"  # what others approved is what a reviewer had made of it
    return Case(
        request_id=row.id,
        run_id=row.run_id,
        subject=subject,
        said=said,
        by=row.decided_by,
        at=row.created_at,
        is_lifted=row.why is None or row.why.startswith(BY_A_RULE),
        is_special=row.irreversible or (ballot is not None and ballot.requirement != ANYBODY),
        cannot=_why_not(row, subject, tools),
    )


def subject_of(row: RequestRecord, started_by: str | None = None, server: str | None = None) -> Subject:
    """The call that a question is about, as rules see it: with the arguments that were asked about."""
    arguments = row.proposed_arguments if row.ballot is not None and row.ballot.arguments is not None else row.arguments
    return Subject(
        tool=row.tool,
        agent=row.agent,
        source=source_of(row.agent),
        server=server,
        started_by=started_by,
        arguments=arguments if isinstance(arguments, dict) else None,
        now=row.created_at,
    )


def source_of(agent: str) -> str:
    """Where a call comes from, by its agent's path: a guest's is `source/guest`, and an agent behind a tool has its
    own name in brackets."""
    source, slash, rest = agent.partition("/")
    return source if slash and "(" not in rest else OWN_SOURCE


def _why_not(
    row: RequestRecord, subject: Subject, tools: Mapping[str, Sequence[JsonObject]] | None
) -> Unreplayable | None:
    if is_blank(row):
        return "erased"
    schemas = (tools or {}).get(row.tool, ()) if subject.source == OWN_SOURCE else ()
    arguments = subject.arguments
    if schemas and arguments is not None and all(problems(schema, arguments) for schema in schemas):
        return "other schema"
    return None


def _look_at(policies: Sequence[Policy], word: str) -> bool:
    return any(word in condition.text for policy in policies for rule in policy.rules for condition in rule.conditions)


async def _starters(store: DeskStore) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    cursor: str | None = None
    while True:
        page = await store.runs(RunQuery(cursor=cursor, limit=PAGE))
        found.update((row.id, row.started_by) for row in page.rows)
        cursor = page.cursor
        if cursor is None:
            return found


class _Servers:
    """The servers of calls, out of the logs: the list of questions does not have them."""

    def __init__(self, store: DeskStore) -> None:
        self._store = store
        self._run = ""
        self._found: dict[str, str | None] = {}

    async def of(self, row: RequestRecord) -> str | None:
        if row.run_id != self._run:
            self._run, self._found = row.run_id, await self._read(row.run_id)
        return self._found.get(row.call)

    async def _read(self, run_id: str) -> dict[str, str | None]:
        stored = await self._store.load(run_id)
        if stored is None or stored.log is None:
            return {}
        facts = [fact for record in read_lines(stored.log.lines) for fact in record.facts]
        bare = [fact.fact if isinstance(fact, InChild) else fact for fact in facts]
        return {fact.call: server_of(fact.tool) for fact in bare if isinstance(fact, CallHeld)}
