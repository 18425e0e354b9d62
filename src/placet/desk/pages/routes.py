"""The addresses of the pages, and the page that an error makes."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from placet.desk.pages import (
    always,
    approvers,
    argument_parts,
    audit,
    decisions,
    inbox,
    login,
    numbers,
    passkeys,
    people,
    policy,
    queue_json,
    runs,
    signing,
    sso,
    subscriptions,
    views,
)
from placet.desk.pages.browsers import browsers, change_browsers, push_worker
from placet.desk.pages.chat_account import change_chat_account, chat_account
from placet.desk.pages.rendering import STATIC, Notice, is_partial, render, show
from placet.desk.web.problems import Problem

YEAR = 365 * 86400


class KeptFiles(StaticFiles):
    """Files whose address holds their digest: browsers may keep them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        has_version = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = f"public, max-age={YEAR}, immutable" if has_version else "no-cache"
        return response


async def home(_request: Request) -> Response:
    return RedirectResponse("/inbox", 303)


def get(path: str, view: Any) -> Route:  # Any: a view
    return Route(path, view, methods=["GET"])


def post(path: str, view: Any) -> Route:  # Any: as above
    return Route(path, view, methods=["POST"])


def page_routes() -> list[BaseRoute]:
    return [
        get("/", home),
        *_inbox_routes(),
        get("/runs", runs.runs),
        post("/runs", runs.start_run),
        get("/runs/{run_id}", runs.run_page),
        get("/runs/{run_id}/live", runs.run_live),
        get("/runs/{run_id}/lines/{line:int}", runs.whole_fact),
        post("/runs/{run_id}/cancel", runs.cancel_run),
        post("/runs/{run_id}/resume", runs.resume_run),
        get("/numbers", numbers.numbers),
        get("/numbers.csv", numbers.numbers_csv),
        get("/audit", audit.audit),
        *_people_routes(),
        *_passkey_routes(),
        Mount("/static", KeptFiles(directory=STATIC), name="static"),
    ]


def _inbox_routes() -> list[Route]:
    """What waits, and what decides it."""
    return [
        get("/inbox", inbox.inbox),
        get("/inbox/list", inbox.inbox_list),
        get("/inbox/card", inbox.inbox_card),
        get("/inbox/panel", inbox.inbox_panel),
        get("/inbox/status", inbox.inbox_status),
        get("/inbox/arguments", argument_parts.whole_arguments),
        get("/inbox/arguments.json", argument_parts.arguments_json),
        get("/inbox/part", argument_parts.value_part),
        get("/inbox/lines", argument_parts.more_lines),
        get("/inbox/count.json", queue_json.count),
        get("/inbox/lines.json", queue_json.lines),
        get("/inbox/differs.json", queue_json.differs),
        get("/inbox/deck.json", queue_json.deck),
        post("/inbox/decide.json", queue_json.decide_here),
        post("/inbox/offer.json", queue_json.take_offer),
        post("/inbox/views", views.change_views),
        post("/inbox/decide", decisions.decide_one),
        post("/inbox/revoke", decisions.revoke),
        post("/inbox/offer", decisions.accept_offer),
        get("/inbox/why", policy.why_page),
        get("/inbox/suggested", policy.suggested_card),
        get("/policy", policy.policy_page),
        get("/policy/suggested", policy.suggested_page),
        post("/policy/suggested", policy.propose_suggestion),
        get("/inbox/always", always.always_form),
        post("/inbox/always", always.decide_always),
        post("/inbox/revoke-together", decisions.revoke_together),
        post("/inbox/together", decisions.review_together),
        post("/inbox/decide-together", decisions.decide_together),
        post("/inbox/sign", signing.sign_options),
    ]


def _people_routes() -> list[Route]:
    """Who comes in, who may decide, who is told."""
    return [
        get("/login", login.login_page),
        post("/login", login.login),
        post("/logout", login.logout),
        get("/invitation", login.invitation_page),
        post("/invitation", login.follow_invitation),
        get("/people", people.people),
        post("/people", people.change_people),
        get("/approvers", approvers.approvers),
        post("/approvers", approvers.change_approvers),
        get("/subscriptions", subscriptions.subscriptions),
        post("/subscriptions", subscriptions.change_subscriptions),
        get("/push-worker.js", push_worker),
        get("/account/browsers", browsers),
        post("/account/browsers", change_browsers),
        get("/account/chat", chat_account),
        post("/account/chat", change_chat_account),
        get("/login/sso/{provider}", sso.begin),
        get("/login/sso/{provider}/callback", sso.come_back),
        post("/login/passkey/options", passkeys.login_options),
        post("/login/passkey", passkeys.login),
        get("/account", people.account),
        post("/account", people.change_account),
    ]


def _passkey_routes() -> list[Route]:
    return [
        post("/passkeys/confirm/options", passkeys.step_up_options),
        post("/passkeys/confirm", passkeys.step_up),
        post("/passkeys/register/options", passkeys.register_options),
        post("/passkeys/register", passkeys.register),
        post("/passkeys/remove", passkeys.remove),
        post("/passkeys/sign/options", passkeys.vouch_options),
        post("/passkeys/sign", passkeys.vouch),
        post("/passkeys/withdraw", passkeys.withdraw),
    ]


def error_page(request: Request, problem: Problem) -> Response:
    """An error in words: a page, or a message where a script of ours asked."""
    if is_partial(request):
        body = render(request, "_toast.html", {"notice": Notice(problem.detail, "bad")})
        headers = {"HX-Retarget": "#toasts", "HX-Reswap": "beforeend"}
        return Response(body, problem.status, {**problem.headers, **headers}, "text/html")
    return show(request, "error.html", {"problem": problem}, problem.status, problem.headers)
