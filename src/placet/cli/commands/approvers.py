"""`placet approvers`, `delegate`, `oncall` and `reviews`: who has to approve, who votes for whom, who is on call."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click
from click import ClickException, UsageError

from placet.cli.client import client_of, part, show_rows
from placet.cli.commands.people import pattern_of
from placet.cli.naming import the_one
from placet.cli.options import Place, actions, desk_options, reason_option
from placet.cli.output import Screen, print_result
from placet.cli.tables import Row, ago
from placet.facts.codec import JsonObject
from placet.facts.requirements import ASSURANCES, PARTS
from placet.facts.voting_settings import Rung, duration_text, rung_text

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = duration_of(str(value))
        if found is None:
            self.fail(f"{value!r} is no time: write a number and s, m, h, d or w, as in 20m.", param, ctx)
        return found


def duration_of(text: str) -> float | None:
    """`20m` in seconds; None: it says no time."""
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip())
    if found is None or int(found[1]) == 0:
        return None
    return int(found[1]) * _UNITS[found[2]]


class _Told(click.ParamType[tuple[str, float]]):
    """`payments@20m`"""

    name = "who@when"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        who, at, when = str(value).rpartition("@")
        seconds = duration_of(when)
        if not at or not who or seconds is None:
            self.fail(f"{value!r}: write who is told, and after what time, as in payments@20m.", param, ctx)
        return who, seconds


# -- who has to approve -----------------------------------------------------------------------------------------------


@actions("approvers")
def approvers() -> None:
    """Say who has to approve at which tools, and who is told when nobody does.

    It holds for every desk, worker and command on the store, besides what a tool and the policy say, for questions from
    now on and once more before a call begins. Changes are recorded; at a desk they take an admin.
    """


@approvers.command("list")
@desk_options
def list_approvers(place: Place, *, as_json: bool) -> None:
    """List the rules. It is what «placet approvers» does."""
    with client_of(place) as client:
        rows = client.ask("GET", "/v1/approvers")["data"]
    show_rows(rows, ["agent", "tool", "needs", "ladder"], _rule_row, "No rules: a tool says itself.", as_json=as_json)


@approvers.command("set")
@click.argument("pattern", metavar="AGENT[:TOOL]", help="which calls, by patterns with * and ?")
@click.option("--approve", type=click.IntRange(min=1), metavar="N", help="so many people (default: 1)")
@click.option("--deny", type=click.IntRange(min=1), metavar="N", help="so many rejections reject (default: 1)")
@click.option("--from", "groups", multiple=True, metavar="GROUP", help="of this group (repeatable: any of them)")
@click.option("--then", "then", multiple=True, metavar="[N:]GROUP", help="and then so many of this group (repeatable)")
@click.option("--distinct-from", multiple=True, type=click.Choice(PARTS), help="not this person (repeatable)")
@click.option("--assurance", type=click.Choice(ASSURANCES), help="how sure it has to be who votes")
@click.option("--where", "predicate", metavar="CEL", help="a condition on reviewer, args and reason")
@click.option(
    "--break-glass", multiple=True, metavar="GROUP", help="one of this group may go ahead alone; * is anybody"
)
@click.option("--remind", multiple=True, type=Duration(), metavar="TIME", help="tell them again after it (repeatable)")
@click.option("--on-call", multiple=True, type=_Told(), metavar="ROTATION@TIME", help="then tell who is on call")
@click.option("--escalate", multiple=True, type=_Told(), metavar="GROUP@TIME", help="then tell this group")
@click.option("--reject-after", type=Duration(), metavar="TIME", help="reject it then")
@reason_option
@desk_options
def set_approvers(
    place: Place,
    pattern: str,
    approve: int | None,
    deny: int | None,
    groups: tuple[str, ...],
    then: tuple[str, ...],
    distinct_from: tuple[str, ...],
    assurance: str | None,
    predicate: str | None,
    break_glass: tuple[str, ...],
    remind: tuple[float, ...],
    on_call: tuple[tuple[str, float], ...],
    escalate: tuple[tuple[str, float], ...],
    reject_after: float | None,
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    """Say what calls need, in the place of a rule with the same patterns. A time is a number and s, m, h, d or w."""
    agent, tool = pattern_of(pattern)
    step: JsonObject = {
        "approve": approve,
        "deny": deny,
        "from": list(groups) or None,
        "distinct_from": list(distinct_from) or None,
        "assurance": assurance,
        "predicate": predicate,
    }
    need: JsonObject = {name: value for name, value in step.items() if value is not None}
    if then:
        need["then"] = [_then(text) for text in then]
    ladder: list[JsonObject] = [{"kind": "remind", "after": after} for after in remind]
    ladder += [{"kind": "on_call", "to": who, "after": after} for who, after in on_call]
    ladder += [{"kind": "escalate", "to": who, "after": after} for who, after in escalate]
    body: JsonObject = {"agent": agent, "tool": tool, "ladder": ladder, "reject_after": reject_after, "reason": reason}
    body["needs"] = [need] if need or break_glass else []
    if break_glass:
        body["break_glass"] = [] if "*" in break_glass else list(break_glass)
    with client_of(place, begins=True) as client:
        found = client.ask("PUT", "/v1/approvers", None, body)
    if _is_asked(found, as_json=as_json):
        return
    rule = next(each for each in found["data"] if (each["agent"], each["tool"]) == (agent, tool))
    print_result(found, f"{agent}:{tool}: {_says(rule)}.", as_json=as_json)


def _is_asked(found: JsonObject, *, as_json: bool) -> bool:
    """Whether people are asked about the change; that is said then."""
    if found["asked"]:
        print_result(
            found, f"People are asked about this: {found['asked']}. It is done when they approved.", as_json=as_json
        )
    return bool(found["asked"])


def _then(text: str) -> JsonObject:
    count, colon, group = text.rpartition(":")
    if colon and not (count.isdecimal() and int(count) >= 1):
        raise UsageError(f"--then {text}: write so many people of a group, as in 1:directors.")
    return {"approve": int(count) if colon else 1, "from": [group]}


@approvers.command("remove")
@click.argument("pattern", metavar="AGENT[:TOOL]", help="of the rule, as it is listed")
@desk_options
def remove_approvers(place: Place, pattern: str, *, as_json: bool) -> None:
    """Remove a rule: the tool and the policy say from then on."""
    agent, tool = pattern_of(pattern)
    with client_of(place) as client:
        found = client.ask("DELETE", "/v1/approvers", {"agent": agent, "tool": tool})
    if _is_asked(found, as_json=as_json):
        return
    print_result({"agent": agent, "tool": tool}, f"There is no rule for {agent}:{tool} any more.", as_json=as_json)


def _says(rule: JsonObject) -> str:
    parts = [str(rule["needs_text"] or "one word of anybody"), _ladder_text(rule)]
    return "; ".join(filter(None, parts))


def _ladder_text(rule: JsonObject) -> str:
    ladder = rule["ladder"]
    assert isinstance(ladder, list)
    parts = [rung_text(Rung(each["kind"], float(each["after"]), each.get("to"))) for each in ladder]
    if rule["reject_after"] is not None:
        parts.append(f"rejected after {duration_text(float(str(rule['reject_after'])))}")
    return ", ".join(parts)


def _rule_row(rule: JsonObject, _screen: Screen) -> Row:
    return [str(rule["agent"]), str(rule["tool"]), str(rule["needs_text"] or ""), _ladder_text(rule)]


# -- who votes for whom -----------------------------------------------------------------------------------------------


@actions("delegate")
def delegate() -> None:
    """Let somebody vote for you, for a time. All see it, and the log names both."""


@delegate.command("list")
@desk_options
def list_delegations(place: Place, *, as_json: bool) -> None:
    """List who votes for whom. It is what «placet delegate» does."""
    with client_of(place) as client:
        rows = client.ask("GET", "/v1/delegations")["data"]
    head = ["delegation", "whose vote", "cast by", "begins", "until", "why"]
    show_rows(rows, head, _delegation_row, "Nobody votes for anybody else.", as_json=as_json)


@delegate.command("to")
@click.argument("name", metavar="NAME", help="who votes for you")
@click.option("--for", "duration", type=Duration(), metavar="TIME", help="for so long, as in 5d")
@click.option("--until", metavar="TIME", help="until then, as in 2030-01-31T18:00 (this machine's time zone)")
@click.option("--from", "begins", metavar="TIME", help="from then on (default: now)")
@click.option("--vote-of", "principal", metavar="USER", help="whose vote (default: yours; others' takes an admin)")
@reason_option
@desk_options
def delegate_to(
    place: Place,
    name: str,
    duration: float | None,
    until: str | None,
    begins: str | None,
    principal: str | None,
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    """Delegate a vote: it has an end, always."""
    if (duration is None) == (until is None):
        raise UsageError("say how long: --for 5d, or --until 2030-01-31T18:00.")
    if principal is None and not place.desk:
        raise UsageError("straight on a store there is nobody logged in to the desk: say whose vote with --vote-of.")
    start = _moment(begins) if begins is not None else datetime.now(UTC)
    end = start + timedelta(seconds=duration) if duration is not None else _moment(until or "")
    body: JsonObject = {"delegate": name, "until": end.isoformat(), "principal": principal, "reason": reason}
    if begins is not None:
        body["begins"] = start.isoformat()
    with client_of(place) as client:
        found = client.ask("POST", "/v1/delegations", None, body)
    words = f"{found['delegate']} votes for {found['principal']} until {found['until']} ({found['id']})."
    print_result(found, words, as_json=as_json)


@delegate.command("end")
@click.argument("delegation", metavar="ID", help="of a delegation, or a beginning or end of it")
@desk_options
def end_delegation(place: Place, delegation: str, *, as_json: bool) -> None:
    """End a delegation before its time."""
    with client_of(place) as client:
        ids = [str(each["id"]) for each in client.ask("GET", "/v1/delegations")["data"]]
        whole = the_one(ids, delegation, "delegation", ": «placet delegate» lists them")
        client.ask("DELETE", f"/v1/delegations/{part(whole)}")
    print_result({"id": whole}, f"Delegation {whole} is ended.", as_json=as_json)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ClickException(f"{text!r} is no time: write it as 2030-01-31T18:00.") from None
    return found.astimezone(UTC)


def _delegation_row(found: JsonObject, _screen: Screen) -> Row:
    names = [str(found[name]) for name in ("id", "principal", "delegate")]
    return [*names, ago(found["begins"]), ago(found["until"]), str(found["reason"] or "")]


# -- who is on call ---------------------------------------------------------------------------------------------------


@actions("oncall")
def oncall() -> None:
    """Say who is on call, and when. Whoever is, is in the group on-call.NAME, which requirements can ask for."""


@oncall.command("list")
@desk_options
def list_rotations(place: Place, *, as_json: bool) -> None:
    """List the rotations, and who is on call now. It is what «placet oncall» does."""
    with client_of(place) as client:
        rows = client.ask("GET", "/v1/rotations")["data"]
    head = ["rotation", "now", "next", "people", "zone"]
    show_rows(rows, head, _rotation_row, "There is no rotation yet.", as_json=as_json)


@oncall.command("show")
@click.argument("name", metavar="NAME", help="of the rotation")
@desk_options
def show_rotation(place: Place, name: str, *, as_json: bool) -> None:
    """Show the shifts of the next six weeks."""
    with client_of(place) as client:
        rows = client.ask("GET", "/v1/rotations")["data"]
    found = next((each for each in rows if each["name"] == name), None)
    if found is None:
        raise ClickException(f"there is no rotation {name!r}: «placet oncall» lists them.")
    show_rows(found["shifts"], ["person", "begins", "until"], _shift_row, "No shifts.", as_json=as_json)


@oncall.command("set")
@click.argument("name", metavar="NAME", help="of the rotation, as in payments")
@click.argument("people", nargs=-1, required=True, metavar="PERSON…", help="one after the other")
@click.option("--since", required=True, metavar="TIME", help="the first handover, as in 2026-01-05T09:00")
@click.option("--zone", metavar="ZONE", help="by the clocks there, as in Europe/Berlin (default: UTC)")
@click.option("--days", type=click.IntRange(min=1), metavar="N", help="from one handover to the next (default: 7)")
@click.option("--hours", metavar="FROM-TO", help="only then each day, as in 18:00-08:00")
@reason_option
@desk_options
def set_rotation(
    place: Place,
    name: str,
    people: tuple[str, ...],
    since: str,
    zone: str | None,
    days: int | None,
    hours: str | None,
    reason: str | None,
    *,
    as_json: bool,
) -> None:
    """Say who is on call, in the place of what was said before. A handover stays at its hour when the clocks change."""
    body: JsonObject = {"people": list(people), "since": since, "zone": zone or "UTC", "days": days or 7}
    body["reason"] = reason
    if hours is not None:
        begins, _, ends = hours.partition("-")
        body["hours"] = [begins.strip(), ends.strip()]
    with client_of(place) as client:
        found = client.ask("PUT", f"/v1/rotations/{part(name)}", None, body)
    if _is_asked(found, as_json=as_json):
        return
    now = f"On call in {found['name']} now: {found['on_call'] or 'nobody'}."
    print_result(found, now, as_json=as_json)


@oncall.command("remove")
@click.argument("name", metavar="NAME", help="of the rotation")
@desk_options
def remove_rotation(place: Place, name: str, *, as_json: bool) -> None:
    """Remove a rotation."""
    with client_of(place) as client:
        found = client.ask("DELETE", f"/v1/rotations/{part(name)}")
    if _is_asked(found, as_json=as_json):
        return
    print_result({"name": name}, f"Rotation {name} is removed.", as_json=as_json)


def _rotation_row(found: JsonObject, _screen: Screen) -> Row:
    shifts, people = found["shifts"], found["people"]
    assert isinstance(shifts, list)
    assert isinstance(people, list)
    following = f"{shifts[1]['person']} {ago(shifts[1]['begins'])}" if len(shifts) > 1 else ""
    return [str(found["name"]), str(found["on_call"] or "nobody"), following, ", ".join(people), str(found["zone"])]


def _shift_row(found: JsonObject, _screen: Screen) -> Row:
    return [str(found["person"]), str(found["begins"]), str(found["until"])]


# -- reviews of what was done alone -----------------------------------------------------------------------------------


@actions("reviews")
def reviews() -> None:
    """Review what somebody did who went ahead alone (break-glass). It is owed until another person has."""


@reviews.command("list")
@desk_options
def list_reviews(place: Place, *, as_json: bool) -> None:
    """List the reviews that are owed. It is what «placet reviews» does."""
    with client_of(place) as client:
        rows = client.ask("GET", "/v1/reviews")["data"]
    head = ["request", "tool", "agent", "who", "when", "why"]
    show_rows(rows, head, _review_row, "No review is owed.", as_json=as_json)


@reviews.command("give")
@click.argument("request_id", metavar="ID", help="of the request, or a beginning or end of it")
@click.option("--right", "is_right", is_flag=True, help="it was right to go ahead")
@click.option("--wrong", "is_wrong", is_flag=True, help="it was not")
@reason_option
@desk_options
def give_review(
    place: Place, request_id: str, reason: str | None, *, is_right: bool, is_wrong: bool, as_json: bool
) -> None:
    """Say what you found. Not by the person who went ahead."""
    if is_right == is_wrong:
        raise UsageError("say what you found: --right or --wrong.")
    with client_of(place) as client:
        ids = [str(each["request_id"]) for each in client.ask("GET", "/v1/reviews")["data"]]
        whole = the_one(ids, request_id, "review", ": «placet reviews» lists them")
        body: JsonObject = {"was_right": is_right, "reason": reason}
        found = client.ask("POST", f"/v1/reviews/{part(whole)}", None, body)
    print_result(found, f"The review of {whole} is given: {'right' if is_right else 'wrong'}.", as_json=as_json)


def _review_row(found: JsonObject, _screen: Screen) -> Row:
    names = [str(found[name]) for name in ("request_id", "tool", "agent", "by")]
    return [*names, ago(found["at"]), str(found["reason"] or "")]
