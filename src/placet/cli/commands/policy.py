"""`placet policy`: rules in a file are checked, tried on what people decided, compared, explained and suggested."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from click import UsageError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from placet.cli.client import client_of, warn
from placet.cli.commands.policy_tables import (
    print_backtest,
    print_difference,
    print_explanation,
    print_rules,
    print_suggestions,
)
from placet.cli.exit_codes import FAILED, OK
from placet.cli.loading import agents_of, store_of
from placet.cli.options import (
    Actions,
    Decorated,
    Place,
    StoreUrl,
    actions,
    desk_options,
    json_option,
    reason_option,
    store_option,
)
from placet.cli.options import agents_option as agents_of_place
from placet.cli.output import Screen, complain, echo_json, print_result
from placet.core.policy import OWN_SOURCE, Policy, Subject
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.errors import NotPending, PolicyRefused
from placet.facts.ids import split_request_id
from placet.policy.backtest import Backtest, Case, Difference, as_enforced
from placet.policy.explaining import explain
from placet.policy.loading import load_policy
from placet.policy.shape import SCHEMA
from placet.policy.source_map import Problem
from placet.policy.suggest import MIN_SPARED, suggest
from placet.ports import DeskStore, RequestQuery
from placet.service.decided import PAGE, cases, subject_of
from placet.service.known_groups import groups_without_people, known_groups
from placet.service.policies import known_tools
from placet.service.questions import true_request

DEFAULT_FILE = "policy.toml"
_SPAN = re.compile(r"([0-9]{1,6})(h|d|w)")
_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}
Tools = Mapping[str, Sequence[JsonObject]] | None


class Since(click.ParamType[float]):
    """How far back: `30d`, `12h`, `8w`, or a date."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):  # the default
            return value
        found = _SPAN.fullmatch(str(value))
        if found is not None:
            return time.time() - int(found.group(1)) * _UNITS[found.group(2)]
        try:
            return time.mktime(time.strptime(str(value), "%Y-%m-%d"))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a span (30d, 12h, 8w) nor a date (2026-01-31).", param, ctx)


def file_argument(function: Decorated) -> Decorated:
    return click.argument("file", metavar="[FILE]", envvar="PLACET_POLICY", default=DEFAULT_FILE)(function)


def agents_option(function: Decorated) -> Decorated:
    return click.option(
        "--agents", metavar="MODULE:NAME", help="today's agents: their tools say which names and arguments there are"
    )(function)


def since_option(function: Decorated) -> Decorated:
    return click.option(
        "--since", type=Since(), default=0.0, metavar="TIME", help="asked since: 30d, 12h, 8w or a date (default: all)"
    )(function)


def rollout_option(function: Decorated) -> Decorated:
    return click.option(
        "--as-rolled-out", is_flag=True, help="let only those rules count that [rollout] enforces (default: all)"
    )(function)


@actions("policy")
def policy() -> None:
    """Rules that allow, deny or ask about calls, in a file: checked, explained, and tried on what people decided.

    FILE is policy.toml where none is named ($PLACET_POLICY names another). Only «apply» changes a store.
    """


assert isinstance(policy, Actions)
policy.default = "check"


@policy.command("check", epilog="It ends with 1 when the file does not load.")
@file_argument
@agents_option
@click.option(
    "--store",
    type=StoreUrl(),
    envvar="PLACET_STORE",
    metavar="URL",
    help="its people say which groups there are (default: $PLACET_STORE, or none)",
)
@json_option
def check(file: str, agents: str | None, store: str | None, *, as_json: bool) -> int:
    """Load a policy, with its examples, and say everything that is wrong with it, with line and column."""
    try:
        loaded = load_policy(file, tools=_tools(agents))
    except PolicyRefused as error:
        return _refused(error, as_json=as_json)
    warnings = [*loaded.warnings, *(asyncio.run(_groups_warned_of(store, loaded)) if store is not None else ())]
    if as_json:
        found = {"file": file, "version": loaded.version, "rules": len(loaded.rules), "warnings": warnings}
        echo_json({**found, "problems": []})
        return OK
    for warning in warnings:
        complain(warning)
    rules = "1 rule" if len(loaded.rules) == 1 else f"{len(loaded.rules)} rules"
    print(f"{file}: {rules}, version {loaded.version}.")
    return OK


async def _groups_warned_of(url: str, policy: Policy) -> list[str]:
    store = store_of(url)
    try:
        return groups_without_people(policy, await known_groups(store))
    finally:
        await store.close()


def _refused(error: PolicyRefused, *, as_json: bool) -> int:
    if as_json:
        shown = [
            {"file": e.file, "line": e.line, "column": e.column, "message": e.message, "suggestion": e.suggestion}
            for e in error.problems
            if isinstance(e, Problem)
        ]
        echo_json({"version": None, "problems": shown or [{"message": error.message}]})
    else:
        complain(error.message)
    return FAILED


@policy.command("test", epilog="It ends with 1 when an example fails; with --strict also when a rule has none.")
@file_argument
@agents_option
@click.option("--strict", is_flag=True, help="every rule needs an example of what it matches and of what it does not")
@json_option
def test(file: str, agents: str | None, *, strict: bool, as_json: bool) -> int:
    """Run the examples of every rule, and say which rules have none."""
    try:
        loaded = load_policy(file, tools=_tools(agents))
    except PolicyRefused as error:
        return _refused(error, as_json=as_json)
    examples = _examples(Path(file).read_text(encoding="utf-8"))
    lacking = [rule.name for rule in loaded.rules if 0 in examples[rule.name]]
    if as_json:
        for rule in loaded.rules:
            match, unless = examples[rule.name]
            echo_json({"rule": rule.name, "line": rule.line, "match": match, "unless": unless, "passed": True})
    else:
        print_rules(Screen(), loaded, examples)
        print(f"{sum(map(sum, examples.values()))} examples, all as they should be.", end=" ")
        print(f"{len(lacking)} of {len(loaded.rules)} rules lack an example of one kind." if lacking else "")
    return FAILED if strict and lacking else OK


def _examples(text: str) -> dict[str, tuple[int, int]]:
    """How many calls are named that each rule has to match, and must not."""
    written = tomllib.loads(text).get("rule", [])
    return {each["name"]: (len(each.get("match", [])), len(each.get("unless", []))) for each in written}


@policy.command("schema")
def schema() -> None:
    """Print the JSON Schema of a policy, for editors: «#:schema policy.schema.json» on the first line of the file."""
    print(json.dumps(SCHEMA, indent=2))


@policy.command("explain")
@click.argument("call")
@click.argument("named", metavar="[FILE]", required=False)
@click.option("--policy", "file", metavar="FILE", help="the same as FILE")
@click.option("--agent", default="any", metavar="PATH", help="the agent of a call that is written out")
@click.option("--source", default=OWN_SOURCE, metavar="NAME", help="… where it comes from (default: placet)")
@click.option("--started-by", metavar="NAME", help="… who started its run")
@agents_option
@store_option
@json_option
def explain_call(
    call: str,
    named: str | None,
    file: str | None,
    agent: str,
    source: str,
    started_by: str | None,
    agents: str | None,
    store: str,
    *,
    as_json: bool,
) -> int:
    """Show every rule, whether it matches a call, why, and what decides.

    CALL is the id of a request in the store, or a call that is written out: 'refund {"cents": 4200}'.
    """
    if named is not None and named.lstrip().startswith("{"):  # the call's arguments, as a word of their own
        call, named = f"{call} {named}", None
    if named is not None and file is not None:
        raise UsageError(f"{named} and --policy {file}: name one file.")
    tools = _tools(agents)
    loaded = load_policy(named or file or os.environ.get("PLACET_POLICY") or DEFAULT_FILE, tools=tools)
    subject = _written(call, agent, source, started_by) or _one_asked(store, call)
    schemas = (tools or {}).get(subject.tool, ())
    if len(schemas) == 1:
        subject = _with_schema(subject, schemas[0])
    found = explain(loaded, subject)
    if as_json:
        echo_json(json.loads(_encoded(found)))
    else:
        print_explanation(Screen(), subject, found)
    return OK


def _written(call: str, agent: str, source: str, started_by: str | None) -> Subject | None:
    tool, brace, rest = call.partition("{")
    if not brace:
        return None
    arguments = parse_arguments(brace + rest)
    if arguments is None:
        raise UsageError(f"{brace + rest!r} is not one JSON object.")
    return Subject(
        tool=tool.strip(),
        agent=agent,
        source=source,
        started_by=started_by,
        arguments=arguments,
        now=time.time(),
    )


def _with_schema(subject: Subject, schema: JsonObject) -> Subject:
    import msgspec

    return msgspec.structs.replace(subject, schema=schema)


def _encoded(found: object) -> bytes:
    import msgspec

    return msgspec.json.encode(found)


def _one_asked(store: str, call: str) -> Subject:
    try:
        return asyncio.run(_asked(store, call))
    except (UsageError, NotPending) as error:
        if split_request_id(call) is not None or (isinstance(error, NotPending) and error.pending):
            raise
        said = f"A call is written with its arguments: '{call} {{}}' where it has none. As the id of a request: {error}"
        raise UsageError(said) from error


async def _asked(url: str, call: str) -> Subject:
    store = store_of(url)
    try:
        row = await true_request(store, await _meant(store, call))
        run = await store.run(row.run_id)
        return subject_of(row, run.started_by if run is not None else None)
    finally:
        await store.close()


async def _meant(store: DeskStore, typed: str) -> str:
    """The request that somebody means: by its id, or by a part of the id of one that waits."""
    from placet.core.short_ids import find_id

    if split_request_id(typed) is not None:
        return typed
    page = await store.requests(RequestQuery(limit=PAGE))
    return find_id(typed, [row.id for row in page.rows])


# -- on what people decided -------------------------------------------------------------------------------------------


@policy.command("backtest", epilog="It ends with 1 when a call that people rejected would have been let through.")
@file_argument
@since_option
@rollout_option
@click.option(
    "--calls", type=click.IntRange(0, 100), default=5, metavar="N", help="calls to name per cell (default: 5)"
)
@agents_option
@store_option
@json_option
def backtest(
    file: str, since: float, agents: str | None, store: str, *, calls: int, as_rolled_out: bool, as_json: bool
) -> int:
    """Try a policy on what people decided: what it would have spared, and what it would have let through.

    People said yes, no, edited or answered; the policy says allow, ask or deny. Calls that were erased, or whose
    arguments today's tools (--agents) do not take, cannot be replayed, and are counted.
    """
    tools = _tools(agents)
    loaded = _loaded(file, tools, as_rolled_out=as_rolled_out)
    table = Backtest(loaded)
    asyncio.run(_each(store, since, tools, [loaded], table.take))
    if as_json:
        _backtest_as_json(table)
    else:
        print_backtest(Screen(), table, calls)
    return FAILED if table.let_through else OK


def _backtest_as_json(table: Backtest) -> None:
    for (said, verdict), count in table.cells():
        named = [
            {"request": each.case.request_id, "tool": each.case.subject.tool, "rules": each.rules, "by": each.case.by}
            for each in table.calls[said, verdict]
        ]
        echo_json({"people": said, "policy": verdict, "count": count, "calls": named})
    found = {"version": table.policy.version, "replayed": table.replayed, "not_replayed": dict(table.cannot)}
    echo_json({**found, "spared": table.spared, "let_through": table.let_through})


@policy.command("diff", epilog="It ends with 1 when a recorded call changes its verdict.")
@click.argument("old")
@click.argument("new")
@since_option
@rollout_option
@click.option("--calls", type=click.IntRange(0, 100), default=5, metavar="N", help="calls to name (default: 5 each)")
@agents_option
@store_option
@json_option
def diff(
    old: str, new: str, since: float, agents: str | None, store: str, *, calls: int, as_rolled_out: bool, as_json: bool
) -> int:
    """Say which recorded calls change their verdict from one policy to another."""
    tools = _tools(agents)
    both = [_loaded(each, tools, as_rolled_out=as_rolled_out) for each in (old, new)]
    found = Difference(*both)
    asyncio.run(_each(store, since, tools, both, found.take))
    if as_json:
        for (before, after), changes in found.changes.items():
            if before != after:
                named = [each.after.case.request_id for each in changes]
                echo_json({"before": before, "after": after, "count": found.counts[before, after], "calls": named})
        echo_json({"changed": found.changed, "seen": found.counts.total(), "not_replayed": dict(found.cannot)})
    else:
        print_difference(Screen(), found, calls)
    return FAILED if found.changed else OK


@policy.command("suggest")
@click.option("--policy", "file", metavar="FILE", envvar="PLACET_POLICY", help="what this one decides is not suggested")
@since_option
@click.option(
    "--least", type=click.IntRange(min=2), default=MIN_SPARED, metavar="N", help="questions to spare (default: 5)"
)
@store_option
@json_option
def suggest_rules(file: str | None, since: float, least: int, store: str, *, as_json: bool) -> int:
    """Suggest the narrowest rules that would have spared most questions, and that contradict no rejection.

    Each comes with its evidence and with examples, as text for the file. It is about calls that people approved as they
    were; a call that somebody rejected, edited or answered is never within a rule, nor is one that cannot be undone.
    """
    loaded = None if file is None else load_policy(file)
    found: list[Case] = []
    asyncio.run(_each(store, since, None, [loaded] if loaded is not None else [], found.append))
    made = suggest(found, loaded, least=least)
    if as_json:
        for each in made:
            echo_json(json.loads(_encoded(each)))
    else:
        print_suggestions(Screen(), made, len(found))
    return OK


@policy.command("apply")
@file_argument
@reason_option
@desk_options
@agents_of_place
def apply(file: str, place: Place, reason: str | None, *, as_json: bool) -> int:
    """Propose a policy: people are asked, as [change] of the version in force says, and then it is in force.

    It is for desks and workers that are served with --policy managed. With a file of their own (--policy FILE) whoever
    deploys the file changes it.
    """
    load_policy(file, tools=_tools(place.agents))  # a fault is told with its line before anybody is asked
    given: JsonObject = {"text": Path(file).read_text(encoding="utf-8"), "name": Path(file).name}
    if reason is not None:
        given["reason"] = reason
    with client_of(place, begins=True) as client:
        found = client.ask("POST", "/v1/policy", None, given)
    warn(found)
    words = f"version {found['version']} is proposed: {found['request']} waits for a decision."
    print_result(found, words, as_json=as_json)
    return OK


def _loaded(file: str, tools: Tools, *, as_rolled_out: bool) -> Policy:
    loaded = load_policy(file, tools=tools)
    return loaded if as_rolled_out else as_enforced(loaded)


def _tools(agents: str | None) -> Tools:
    return None if agents is None else known_tools(agents_of(agents))


async def _each(
    url: str, since: float, tools: Tools, policies: Sequence[Policy], take: Callable[[Case], object]
) -> None:
    """Every recorded decision, once, with a bar for whoever waits."""
    store = store_of(url)
    try:
        with _progress() as went_on:
            async for case in cases(store, since=since, tools=tools, policies=policies):
                take(case)
                went_on()
    finally:
        await store.close()


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[], None]]:
    screen = Screen(is_error=True)
    if screen.is_piped:
        yield lambda: None
        return
    columns = (TextColumn("decisions"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("decisions", total=None)
        yield lambda: bar.advance(task)
