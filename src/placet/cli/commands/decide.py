"""`placet approve`, `reject`, `edit`, `respond` and `revoke`: decide about what waits."""

from __future__ import annotations

import functools
import json
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from click import ClickException, UsageError
from rich.padding import Padding

from placet.cli.cards import request_card
from placet.cli.client import Client, Refused, all_pages, client_of, part, warn
from placet.cli.completing import ApprovedRequest, Id, WaitingRequest
from placet.cli.exit_codes import FAILED, OK
from placet.cli.grant_terms import confirm_option, confirmed, read_json
from placet.cli.naming import Found, decided_request_named, request_named
from placet.cli.options import (
    Decorated,
    Decorator,
    Place,
    agents_option,
    command,
    desk_options,
    reason_option,
)
from placet.cli.output import (
    UNBOUNDED,
    Screen,
    Whole,
    complain,
    echo_json,
    is_interactive,
    print_result,
    read_all,
    sentence,
    shown,
    two_columns,
    value_text,
)
from placet.cli.picture import argument_text
from placet.cli.run_sentences import drivers_of
from placet.facts.codec import Json, JsonObject
from placet.facts.verdict_words import verdict_label

MAX_LISTED = 20
TAKEN_WITHIN = 1.5
"""Seconds within which a process that drives the runs of a store takes what was decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """Which requests, and with what: the options that these commands share."""

    place: Place
    ids: Sequence[str]
    reason: str | None
    digest: str | None
    as_json: bool
    always: str | None = None
    bounds: JsonObject = field(default_factory=dict)
    """Of a standing decision: what arguments have to be, and how much it may let through."""
    confirm: str | None = None
    on_behalf_of: str | None = None
    break_glass: bool = False

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there who can look at a card and confirm it; a program that reads JSON is nobody."""
        return is_interactive() and not self.as_json

    def failed(self, name: str, words: str, problem: JsonObject | None = None) -> None:
        """Say why nothing was done about this one."""
        if self.as_json:
            echo_json({"id": name, "problem": problem or {"detail": words}})
        complain(f"{name}: {words}")


def deciding_options(ids: str, *, several: bool = True, kind: Id | None = None) -> Decorator:
    """The ids and the options that these commands share: the command gets a `deciding`."""

    def add(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def with_deciding(
            *, place: Place, ids: Any, reason: str | None, digest: str | None, as_json: bool, always: str | None = None,
            matching: str | None = None, budget: str | None = None, confirm: str | None = None,
            on_behalf_of: str | None = None, break_glass: bool = False, **given: Any,
        ) -> Any:  # fmt: skip
            names = ids if several else [ids]
            deciding = Deciding(
                place=place, ids=names, reason=reason, digest=digest, as_json=as_json, always=always,
                bounds=_bounds(always, matching, budget), confirm=confirm,
                on_behalf_of=on_behalf_of, break_glass=break_glass,
            )  # fmt: skip
            return function(deciding, **given)

        decorated = desk_options(with_deciding)
        for option in (
            click.option("--digest", metavar="DIGEST", help="decide only about what had this digest when it was shown"),
            reason_option,
            click.argument(
                "ids", nargs=-1 if several else 1, required=True, type=kind or WaitingRequest(),
                metavar="ID…" if several else "ID", help=ids,
            ),
        ):  # fmt: skip
            decorated = option(decorated)
        return decorated

    return add


_SHORT = "of a request; in a terminal a short form does too, after its card was shown and confirmed"


class _Scope(click.ParamType[str]):
    name = "scope"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ("run", "agent"):
            words = f"{value!r} is no scope: write --always, --always=run or --always=agent behind the ids."
            self.fail(words, param, ctx)
        return str(value)


def always_option(function: Decorated) -> Decorated:
    """«Always», and its bounds."""
    for option in (
        confirm_option,
        click.option("--budget", metavar="JSON", help='of --always: {"sum": "cents", "most": 50000, "every": "day"}'),
        click.option("--match", "matching", metavar="JSON", help='of --always: {"cents": {"max": 5000}}'),
        click.option(
            "--always",
            is_flag=False,
            flag_value="run",
            type=_Scope(),
            metavar="[run|agent]",
            help="also for later calls of this tool by this agent: in this run, or («agent») in all its runs",
        ),
    ):
        function = option(function)
    return function


def _bounds(always: str | None, matching: str | None, budget: str | None) -> JsonObject:
    found = read_json({"matching": matching, "budget": budget})
    if found and always is None:
        raise UsageError("--match and --budget bound a standing decision: they go with --always.")
    return found


vote_of_option = click.option(
    "--vote-of", "on_behalf_of", metavar="USER", help="it is the vote of this person, who delegated theirs to you"
)
break_glass_option = click.option(
    "--break-glass", is_flag=True, help="go ahead alone, where that is allowed; needs --reason, and a review is owed"
)


# -- the commands -----------------------------------------------------------------------------------------------------


@command("approve")
@deciding_options(_SHORT)
@agents_option
@always_option
@vote_of_option
@break_glass_option
def approve(deciding: Deciding) -> int:
    """Approve requests: what runs is what «placet show» shows. Of a call that is in doubt it means: run it again."""
    return decide(deciding, lambda _request: {"decision": "approve"}, "Approve this?")


@command("reject")
@click.option("--message", metavar="TEXT", help="what the model reads")
@deciding_options(_SHORT)
@agents_option
@always_option
@vote_of_option
def reject(deciding: Deciding, message: str | None) -> int:
    """Reject requests: the calls never run, and the model reads the message. Of a call that is in doubt it means: give
    it up."""
    decision: JsonObject = {"decision": "reject"}
    if message is not None:
        decision["message"] = message
    return decide(deciding, lambda _request: decision, "Reject this?")


@command("edit")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="change this one (repeatable)")
@click.option("--arguments", metavar="JSON", help="all of them, as a JSON object")
@deciding_options(_SHORT, several=False)
@agents_option
def edit(deciding: Deciding, changes: tuple[str, ...], arguments: str | None) -> int:
    """Approve a request with other arguments.

    They are opened in your editor ($VISUAL, $EDITOR) as JSON; saving them unchanged decides nothing. --set changes
    single ones without an editor. The arguments are checked against the tool before anything is decided, where the
    agents' code is at hand (at the desk, or with --agents).
    """
    if changes and arguments is not None:
        raise UsageError("--set changes some arguments and --arguments gives all: write one of them.")

    def decision(request: JsonObject) -> JsonObject:
        return {"decision": "edit", "arguments": _edited(request["arguments"], changes, arguments)}

    return decide(deciding, decision, "Edit this?")


@command("respond")
@click.option("--output", metavar="TEXT", help="the answer; without it, standard input is read")
@click.option("--as-json", "is_json", is_flag=True, help="the answer is JSON, not a text")
@deciding_options(_SHORT, several=False)
@agents_option
@click.argument("words", nargs=-1, metavar="")  # an answer that stands where it does not belong
def respond(deciding: Deciding, output: str | None, words: tuple[str, ...], *, is_json: bool) -> int:
    """Answer in the tool's place: the call does not run, and the model reads the answer.

    Of a call that is in doubt it means: it happened, this is what came of it. Of a call that asks for input it is the
    input.
    """
    if words:
        written = shlex.quote(" ".join(words))
        raise UsageError(f"the answer is an option: placet respond {deciding.ids[0]} --output {written}.")
    if output is not None:
        _answer(output, is_json=is_json)  # what cannot be read is refused before anybody is asked anything

    def decision(_request: JsonObject) -> JsonObject:
        return {"decision": "respond", "output": _answer(output, is_json=is_json)}

    return decide(deciding, decision, "Answer this?")


@command("revoke")
@deciding_options(
    "of a request that was approved; in a terminal a short form does too, after its card was confirmed",
    kind=ApprovedRequest(),
)
def revoke(deciding: Deciding) -> int:
    """Take an approval back, until its call begins.

    The call is asked about anew, and no standing decision decides it. A call that has begun goes on: what has happened
    has happened. Each ID stands on its own: one that cannot be taken back does not keep the others.
    """
    with client_of(deciding.place) as client:
        named = _resolved(deciding, lambda name: decided_request_named(client, name, deciding.digest))
        done = [_revoke(client, deciding, name, found) for name, found in named]
    return OK if all(done) else FAILED


# -- which request, and whether it is meant ---------------------------------------------------------------------------


def _resolved(deciding: Deciding, find: Callable[[str], Found]) -> list[tuple[str, Found | None]]:
    """What each id means, before anything is done. One that means nothing is told, and does not keep the others.

    Where nobody can be asked, a short form could mean what came after somebody looked: then nothing at all is done.
    """
    named: list[tuple[str, Found | None]] = []
    for name in deciding.ids:
        try:
            named.append((name, find(name)))
        except Refused:
            raise
        except ClickException as error:
            deciding.failed(name, str(error))
            named.append((name, None))
    uncertain = [name for name, found in named if found is not None and not found.is_certain]
    if uncertain and not deciding.can_ask:
        words = f"{uncertain[0]!r} is a short form, and nobody is here to confirm what it means"
        raise UsageError(f"{words}: write the whole id («placet pending --json» lists them), or add --digest.")
    return named


def _is_meant(found: Found, question: str) -> bool:
    """Whether the request is the one that was meant: certainly, or because somebody has seen its card and says so."""
    if found.is_certain:
        return True
    screen = Screen()
    screen.show(request_card(found.request, screen))
    return click.confirm(question, prompt_suffix=" ")


# -- deciding ---------------------------------------------------------------------------------------------------------


def decide(deciding: Deciding, decision_for: Callable[[JsonObject], JsonObject], question: str) -> int:
    """Decide each request; one that is refused does not keep the others from being decided."""
    with client_of(deciding.place) as client:
        named = _resolved(deciding, lambda name: request_named(client, name, deciding.digest))
        runs = [_decide_one(client, deciding, name, found, decision_for, question) for name, found in named]
        for run_id in dict.fromkeys(filter(None, runs)):
            _warn_if_not_driven(client, run_id)
    return OK if all(runs) else FAILED


def _decide_one(
    client: Client,
    deciding: Deciding,
    name: str,
    found: Found | None,
    decision_for: Callable[[JsonObject], JsonObject],
    question: str,
) -> str | None:
    """The run in which it was decided; None: it was not."""
    if found is None:
        return None
    if not _is_meant(found, question):
        deciding.failed(name, "nothing was decided.")
        return None
    request = found.request
    decision = {**decision_for(request), **_common(deciding, request)}
    request_id = str(request["id"])
    if deciding.always and not _stands_for_more(client, deciding, request):
        deciding.failed(request_id, "nothing was decided.")
        return None
    address = f"/v1/approvals/{part(request_id)}/decisions"

    def ask(word: JsonObject) -> JsonObject:
        always = decision.get("always")
        given = decision if not word or not isinstance(always, dict) else {**decision, "always": always | word}
        decided: JsonObject = client.ask("POST", address, None, given)
        return decided

    try:
        decided = confirmed(ask, deciding.confirm, can_ask=deciding.can_ask)
    except Refused as error:
        deciding.failed(request_id, str(error), error.problem)
        return None
    warn(decided)
    if deciding.as_json:
        echo_json(decided)
    else:
        _print_decided(decided, decision)
    return str(decided["run_id"])


def _warn_if_not_driven(client: Client, run_id: str) -> None:
    """A decision takes effect when somebody drives the run: where nobody comes, it must not look done."""
    give_up = time.monotonic() + TAKEN_WITHIN
    while True:
        numbers = client.ask("GET", "/v1/numbers")["store"]
        if not numbers["due"] or numbers["driven"]:
            return
        if time.monotonic() > give_up:
            break
        time.sleep(0.1)
    held = client.ask("GET", f"/v1/runs/{part(run_id)}")["held"]
    if held:
        complain(f"{run_id} is held back: {sentence(held)} It goes on when the hold is lifted.")
    else:
        complain(f"recorded, but nobody seems to drive the runs of this store: {drivers_of(run_id)} would.")


def _common(deciding: Deciding, request: JsonObject) -> JsonObject:
    found: JsonObject = {"digest": deciding.digest or request["digest"]}  # what was just looked at is what is meant
    if deciding.reason is not None:
        found["reason"] = deciding.reason
    if deciding.always:
        found["always"] = {"scope": deciding.always, **deciding.bounds}
    if deciding.on_behalf_of is not None:
        found["on_behalf_of"] = deciding.on_behalf_of
    if deciding.break_glass:
        found["break_glass"] = True
    return found


def _stands_for_more(client: Client, deciding: Deciding, request: JsonObject) -> bool:
    """Say, before anything is decided, what waits already and would be decided with it; whether that is meant. In a
    terminal somebody is asked; where nobody is, the one who wrote --always has said so."""
    also = _decided_besides(client, request, in_all_runs=deciding.always == "agent")
    if not also:
        return True
    where = "in all runs of this agent" if deciding.always == "agent" else "in this run"
    count = f"{len(also)} more call{'' if len(also) == 1 else 's'}"
    complain(f"it would stand for {count} that wait {where}, and decide them too: {_listed(also)}.")
    return not deciding.can_ask or click.confirm(f"Decide {len(also) + 1} calls?", prompt_suffix=" ")


def _decided_besides(client: Client, request: JsonObject, *, in_all_runs: bool) -> list[str]:
    """What waits already and a standing decision about this request would decide with it."""
    query = {"status": "pending", "agent": request["agent"], "tool": request["tool"]}
    if not in_all_runs:
        query["run_id"] = request["run_id"]
    rows = all_pages(client, "/v1/approvals", query)
    return [str(row["id"]) for row in rows if row["id"] != request["id"] and row["kind"] == "approval"]


def _listed(ids: list[str]) -> str:
    more = len(ids) - MAX_LISTED
    return ", ".join(ids[:MAX_LISTED]) + (f" and {more} others" if more > 0 else "")


def _print_decided(found: JsonObject, decision: JsonObject) -> None:
    """What was decided, whole: the tool, the arguments that run, whose call it is, and who decided."""
    screen = Screen()
    if screen.is_piped:
        screen = Screen(width=UNBOUNDED)
    rows = [*_argument_rows(found, decision), *_texts_of(decision)]
    rows += [
        (name, shown(str(found[field]))) for name, field in (("agent", "agent"), ("run", "run_id"), ("request", "id"))
    ]
    rows += [("by", shown(_who(found, decision)))]
    missing = found.get("missing")
    voted = "Your vote stood already" if found.get("stood_already") else "Vote counted"
    done = verdict_label(decision["decision"]) if not missing else f"{voted}, {missing} missing"
    head = f"{done}: {shown(str(found['tool']))}  {found['id']}"
    screen.show(Whole(head), Padding(two_columns(rows, screen.width - 2, "dim"), (0, 0, 0, 2)))


def _who(found: JsonObject, decision: JsonObject) -> str:
    """Who decided, or whose vote it is that does not decide yet."""
    voter = found.get("voted_by")
    if voter is None:
        return str(found.get("decided_by") or "somebody")
    principal = decision.get("on_behalf_of")
    return f"{voter}, for {principal}" if principal is not None else str(voter)


def _argument_rows(found: JsonObject, decision: JsonObject) -> list[tuple[str, str]]:
    arguments = decision["arguments"] if decision["decision"] == "edit" else found["arguments"]
    if not isinstance(arguments, dict):
        return [("arguments", shown(str(arguments)))]
    return [(name, value_text(value)) for name, value in arguments.items()] or [("no arguments", "")]


def _texts_of(decision: JsonObject) -> list[tuple[str, str]]:
    texts = [("the model reads", "message"), ("answer", "output"), ("reason", "reason")]
    given = [(name, decision.get(field)) for name, field in texts]
    return [(name, shown(value) if isinstance(value, str) else value_text(value)) for name, value in given if value]


# -- other arguments, answers, and taking back ------------------------------------------------------------------------


def _edited(present: object, changes: Sequence[str], arguments: str | None) -> JsonObject:
    if arguments is not None:
        return _object(arguments)
    if not isinstance(present, dict):
        raise ClickException("its arguments are not one JSON object: give new ones with --arguments.")
    if changes:
        found = [_change(each, present) for each in changes]
        return {**present, **{name: value for change in found for name, value in change.items()}}
    changed = _object(_in_editor(json.dumps(present, indent=2, ensure_ascii=False)))
    if changed == present:
        raise ClickException("nothing was changed, so nothing was decided. To approve it as it is: placet approve.")
    return changed


def _change(text: str, present: JsonObject) -> JsonObject:
    """`NAME=VALUE`, or a JSON object with some of the arguments."""
    if text.lstrip().startswith("{"):
        return _object(text)
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"«{text}» changes nothing: write NAME=VALUE, or a JSON object.")
    return {name: typed_value(value, present.get(name))}


def typed_value(text: str, present: object) -> object:
    """What was typed, as the kind of value that stands there now: digits in the place of a text stay a text.

    Where that says nothing, JSON is taken as such and anything else as text; the tool's schema has the last word.
    """
    if isinstance(present, str) and not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _object(text: str) -> JsonObject:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ClickException(f"the arguments are not JSON: {error}. Nothing was decided.") from error
    if not isinstance(found, dict):
        raise ClickException("the arguments are one JSON object. Nothing was decided.")
    return found


def _in_editor(text: str) -> str:
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or is_interactive()):
        raise UsageError("there is no editor here: set EDITOR, or write the changes as --set NAME=VALUE.")
    try:
        return click.edit(text, extension=".json", require_save=False) or ""
    except ClickException as error:
        if not isinstance(error.__cause__, OSError):
            raise ClickException(f"{error.message}: nothing was decided.") from error
        raise UsageError(
            f"{error.message}. Set EDITOR to another, or write the changes as --set NAME=VALUE."
        ) from error
    except ValueError as error:
        raise UsageError(f"the editor cannot be taken apart: {error}. Set EDITOR to another.") from error


def _answer(output: str | None, *, is_json: bool) -> Json:
    text = _from_standard_input() if output is None else output
    try:
        found: Json = json.loads(text) if is_json else text
    except ValueError as error:
        raise UsageError(f"the answer is not JSON: {error}.") from error
    return found


def _from_standard_input() -> str:
    """The answer that was piped or typed. Silence is none: a closed input must not answer for people."""
    text = read_all("the answer")
    if not text.strip():
        raise UsageError('standard input is empty: nothing was answered. An empty answer on purpose: --output "".')
    return text


def _revoke(client: Client, deciding: Deciding, name: str, found: Found | None) -> bool:
    if found is None:
        return False
    request = found.request
    reason: JsonObject = {} if deciding.reason is None else {"reason": deciding.reason}
    if deciding.digest not in (None, request["digest"]):
        deciding.failed(name, "what was approved is something else than what was shown: look again.")
        return False
    if not _is_meant(found, "Take this approval back?"):
        deciding.failed(name, "nothing was taken back.")
        return False
    try:
        asked = client.ask("POST", f"/v1/approvals/{part(str(request['id']))}/revocation", None, reason)
    except Refused as error:
        deciding.failed(name, str(error), error.problem)
        return False
    about = f"{shown(str(asked['tool']))} {argument_text(asked['arguments'])}"
    words = f"taken back: {about}  {request['id']}\nasked anew: {asked['id']}"
    print_result(asked, words, as_json=deciding.as_json)
    return True
