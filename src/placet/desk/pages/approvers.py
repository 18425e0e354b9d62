"""The page about who approves: reviews that are owed, rules per tool, delegations, and who is on call when."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from placet.core.rotations import on_call, shifts
from placet.desk.access.people import Actor
from placet.desk.pages.form_data import Form, form_of
from placet.desk.pages.rendering import show
from placet.desk.web.context import Web, actor_of, require, web_of
from placet.desk.web.problems import Problem
from placet.facts.errors import PlacetError, UserError
from placet.facts.voting_settings import Rotation, rotation_text, rule_text

DAY = 86400.0
WEEKS = 6
DELEGATE_DAYS = (("1", "a day"), ("7", "a week"), ("14", "two weeks"), ("30", "30 days"))


class CalendarDay(NamedTuple):
    day: date
    people: list[str]
    """Who is on call on this day, in order: two on the day of a handover."""
    is_today: bool


def calendar_of(rotation: Rotation, now: float) -> list[list[CalendarDay]]:
    """Six weeks from Monday of this one, by the clocks of the rotation's zone."""
    zone = ZoneInfo(rotation.zone)
    today = datetime.fromtimestamp(now, zone).date()
    monday = today - timedelta(days=today.weekday())
    return [
        [_day(rotation, monday + timedelta(days=7 * week + day), today) for day in range(7)] for week in range(WEEKS)
    ]


def _day(rotation: Rotation, day: date, today: date) -> CalendarDay:
    zone = ZoneInfo(rotation.zone)
    begins, ends = (
        datetime(each.year, each.month, each.day, tzinfo=zone).astimezone(UTC).timestamp()
        for each in (day, day + timedelta(days=1))
    )
    names = [each.person for each in shifts(rotation, begins, ends) if each.until > begins]
    return CalendarDay(day, list(dict.fromkeys(names)), day == today)


async def approvers(request: Request) -> Response:
    return await _approvers(request, actor_of(request))


async def _approvers(request: Request, actor: Actor, status: int = 200, problem: str = "") -> Response:
    web = web_of(request)
    settings, now = await web.desk.voting_settings(), web.clock.now()
    context: dict[str, Any] = {
        "page": "approvers",
        "problem": problem,
        "rules": list(map(rule_text, settings.rules)),
        "delegations": await web.desk.delegations(),
        "rotations": [
            (name, on_call(each, now), rotation_text(each), calendar_of(each, now))
            for name, each in sorted(settings.rotations.items())
        ],
        "reviews": await web.desk.reviews_owed(),
        "others": [user.name for user in await web.accounts.users() if user.name != actor.name and user.is_active],
        "spans": DELEGATE_DAYS,
        "me": actor.name,
    }
    return show(request, "approvers.html", context, status)


async def change_approvers(request: Request) -> Response:
    """Delegate, end a delegation, or give a review; what was wrong comes back on the page."""
    actor, form = require(request, "reviewer"), await form_of(request)
    try:
        await _change(web_of(request), actor, form)
    except (UserError, Problem) as error:
        message = error.detail if isinstance(error, Problem) else error.message
        return await _approvers(request, actor, 422, message)
    except PlacetError as error:
        return await _approvers(request, actor, 409, error.message)
    return RedirectResponse("/approvers", 303)


async def _change(web: Web, actor: Actor, form: Form) -> None:
    match form.text("action"):
        case "delegate":
            if form.text("days") not in dict(DELEGATE_DAYS):
                raise UserError("Choose for how long.")
            until = web.clock.now() + float(form.text("days")) * DAY
            reason = form.text("reason") or None
            await web.desk.delegate(actor.name, form.text("to"), until=until, by=actor.name, reason=reason)
        case "end":
            await _end(web, actor, form.text("id"))
        case "right" | "wrong" as found:
            await _review(web, actor, form, was_right=found == "right")
        case _:
            raise UserError("Choose something to do.")


async def _end(web: Web, actor: Actor, wanted: str) -> None:
    found = next((each for each in await web.desk.delegations() if each.id == wanted), None)
    if found is not None and not (actor.may("admin") or actor.name in (found.principal, found.delegate)):
        raise Problem(403, "access_denied", "A delegation is ended by the two whom it is about, or by an admin.")
    await web.desk.end_delegation(wanted, by=actor.name)


async def _review(web: Web, actor: Actor, form: Form, *, was_right: bool) -> None:
    wanted = form.text("id")
    owed = next((each for each in await web.desk.reviews_owed() if each.request_id == wanted), None)
    if owed is not None and not actor.may_decide(owed.agent, owed.tool):
        raise Problem(403, "access_denied", f"{actor.name} may not decide calls of {owed.tool} by {owed.agent}.")
    await web.desk.review(wanted, was_right=was_right, by=actor.name, reason=form.text("reason") or None)
