"""Who may: strangers, roles, patterns, four eyes, tokens, sessions, invitations; what is revoked is refused at once."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from placet.desk.access.accounts import Accounts
from placet.desk.access.people import Actor, DecisionScope, checked_name, why_not
from placet.desk.access.secrets import hash_password, is_password
from placet.desk.api.aap_shapes import AapError
from placet.desk.api.v1 import OPERATIONS
from placet.desk.server import check_bind
from placet.desk.web.settings import WebSettings, is_loopback
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import Verdict
from placet.stores.sqlite import SQLiteStore
from placet.testing import ManualClock
from tests.desk.api.scenes import at, decide, problem, two_refunds
from tests.support.desk_server import FAST, PASSWORD, RunningDesk, running_desk

OPEN = [operation for operation in OPERATIONS if operation.role is None]
KEYS = "/.well-known/jwks.json"  # public keys, for the services that verify receipts
CLOSED = [operation for operation in OPERATIONS if operation.role is not None]


def address_of(path: str) -> str:
    return path.replace("{request_id:path}", "run_x_t1c1_q1").replace("{run_id}", "run_x").replace("{name}", "ana")


# -- strangers --------------------------------------------------------------------------------------------------------


async def test_a_stranger_is_refused_everywhere_but_where_nothing_is_told(server: RunningDesk) -> None:
    stranger = server.client()

    for operation in CLOSED:
        answer = await stranger.request(operation.method, address_of(operation.path))
        if operation.error is AapError:  # in the words of its protocol
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "not_authenticated"
        else:
            problem(answer, 401, "not_authenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for operation in OPEN:
        status = (await stranger.request(operation.method, operation.path)).status_code
        assert status == (404 if operation.path == KEYS else 200)  # this desk signs no receipts
    assert {operation.path for operation in OPEN} == {"/healthz", "/readyz", KEYS}


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer x", "Bearer placet_", "Bearer placet_tok-x_y", "Basic YTpi", "Bearer \u00e9", "placet_x"],
)
async def test_a_credential_that_is_none_is_refused_whatever_it_looks_like(server: RunningDesk, header: str) -> None:
    answer = await server.client().get("/v1/me", headers={"Authorization": header.encode()})

    problem(answer, 401, "not_authenticated")


async def test_every_operation_wants_at_least_its_role(server: RunningDesk) -> None:
    viewer, reviewer = await server.person("vic", "viewer"), await server.person("rob", "reviewer")
    for_reviewers = [each for each in CLOSED if each.role == "reviewer"]
    for_admins = [each for each in CLOSED if each.role == "admin"]

    assert len(for_reviewers) >= 7
    assert len(for_admins) >= 6
    for operation in (*for_reviewers, *for_admins):
        problem(await viewer.request(operation.method, address_of(operation.path)), 403, "access_denied")
    for operation in for_admins:
        problem(await reviewer.request(operation.method, address_of(operation.path)), 403, "access_denied")


async def test_a_viewer_sees_and_does_not_decide(server: RunningDesk) -> None:
    vic = await server.person("vic", "viewer")
    _, (first, _) = await two_refunds(server)
    seen = await vic.get(at(first.id))
    refused = await decide(vic, first.id, "reject")

    assert seen.status_code == 200
    problem(refused, 403, "access_denied")
    assert (await server.desk.request(first.id)).status == "pending"


# -- who may decide what ----------------------------------------------------------------------------------------------


async def test_a_reviewer_decides_only_what_their_patterns_cover(server: RunningDesk) -> None:
    ana = await server.person("ana", decides=(DecisionScope(agent="Supp*", tool="refund"),))
    _, (first, _) = await two_refunds(server)
    await server.waiting_run("Hostile")
    (mail,) = await server.desk.pending(agent="Hostile")

    assert (await decide(ana, first.id, "approve")).status_code == 200
    assert (
        "may not decide calls of send_mail"
        in problem(await decide(ana, mail.id, "reject"), 403, "access_denied")["detail"]
    )


async def test_nobody_decides_by_an_empty_list_of_patterns(server: RunningDesk) -> None:
    form = await server.person("web-form", decides=())
    started = await form.post("/v1/runs", json={"agent": "Support", "input": "hi"})
    _, (first, _) = await two_refunds(server)

    assert started.status_code == 201
    problem(await decide(form, first.id, "approve"), 403, "access_denied")


async def test_a_grant_is_made_and_ended_only_within_ones_patterns(server: RunningDesk) -> None:
    ana, root = (
        await server.person("ana", decides=(DecisionScope(tool="send_*"),)),
        await server.person("root", "admin"),
    )
    given = {"agent": "Support", "tool": "refund", "decision": "approve", "uses": 3, "confirm": "refund"}
    refused = await ana.post("/v1/grants", json=given)
    made = await root.post("/v1/grants", json=given)
    grant_id = made.json()["id"]

    problem(refused, 403, "access_denied")
    assert made.status_code == 201
    problem(await ana.delete(f"/v1/grants/{grant_id}"), 403, "access_denied")
    assert (await root.delete(f"/v1/grants/{grant_id}")).status_code == 204
    problem(await root.delete(f"/v1/grants/{grant_id}"), 404, "not_found")


async def test_with_four_eyes_whoever_started_a_run_may_only_say_no(tmp_path: Path) -> None:
    async with running_desk(tmp_path) as server:
        await server.desk.set_four_eyes([("*", "refund")], by="root")
        ana, ben = await server.person("ana"), await server.person("ben")
        run_id = (await ana.post("/v1/runs", json={"agent": "Support", "input": "mine"})).json()["id"]
        await server.desk.wait(run_id, until="paused", timeout=120)
        first, second = await server.desk.pending(run_id=run_id)
        own = [
            await decide(ana, first.id, "approve"),
            await decide(ana, first.id, "edit", arguments={"order_id": "1", "cents": 1, "reason": ""}),
            await decide(ana, first.id, "respond", output="done"),
        ]
        shown = (await ana.get(at(first.id))).json()
        no, others = await decide(ana, second.id, "reject"), await decide(ben, first.id, "approve")

    for answer in own:
        assert "four eyes" in problem(answer, 403, "access_denied")["detail"]
    assert "four eyes" in shown["you_may_not"]
    assert (no.status_code, others.status_code) == (200, 200)


def test_four_eyes_hold_where_they_are_switched_on_and_nowhere_else() -> None:
    ana = Actor(name="ana", role="reviewer", via="token")

    def refused(agent: str, started_by: str | None, verdict: Verdict = "approve") -> bool:
        four_eyes = [("Pay*", "*")]
        return why_not(ana, verdict, agent=agent, tool="t", started_by=started_by, four_eyes=four_eyes) is not None

    assert refused("Payroll", "ana")
    assert refused("Payroll", None)
    assert not refused("Payroll", "ben")
    assert not refused("Payroll", "ana", "reject")
    assert not refused("Support", "ana")


async def test_no_token_session_or_standing_decision_is_a_second_pair_of_eyes(any_server: RunningDesk) -> None:
    await any_server.desk.set_four_eyes([("*", "*")], by="root")
    ana, ben = await any_server.person("ana"), await any_server.person("ben")
    given = {"agent": "Support", "tool": "refund", "decision": "approve", "confirm": "refund"}
    grant = await ana.post("/v1/grants", json=given)
    run_id = (await ana.post("/v1/runs", json={"agent": "Support", "input": "mine"})).json()["id"]
    await any_server.desk.wait(run_id, until="paused", timeout=120)
    first, second = await any_server.desk.pending(run_id=run_id)
    other_token, _ = await any_server.web.accounts.add_token("ana", "another")
    browser = any_server.client()
    browser.cookies.set(*await any_server.session("ana"))
    actor = await any_server.web.accounts.actor_of_cookie(browser.cookies["placet_session"])
    assert actor is not None
    browser.headers["X-CSRF-Token"] = actor.csrf
    many = {"decisions": [{"id": each.id, "decision": "approve"} for each in (first, second)]}
    own = [
        await decide(any_server.client(other_token), first.id, "approve"),
        await decide(browser, first.id, "approve"),
        await decide(ana, first.id, "approve", always={"scope": "agent", "confirm": "refund"}),
    ]
    at_once = (await ana.post("/v1/decisions", json=many)).json()
    waiting = [each.status for each in (await any_server.desk.requests(run_id=run_id, status=None)).rows]
    bens = await ben.post("/v1/grants", json=given)
    await any_server.desk.resume(run_id)
    ended = await any_server.desk.wait(run_id, timeout=120)

    assert "runs that ana started" in str(grant.json()["warnings"])
    for answer in own:
        assert "four eyes" in problem(answer, 403, "access_denied")["detail"]
    assert "access_denied" in str(at_once)
    assert waiting == ["pending", "pending"]
    assert bens.status_code == 201
    assert ended.status == "ended"


async def test_only_an_admin_says_where_four_eyes_are_demanded_and_it_is_written_down(any_server: RunningDesk) -> None:
    root, ana = await any_server.person("root", "admin"), await any_server.person("ana")
    given = {"patterns": [{"agent": "Pay*"}], "reason": "audit"}
    refused = await ana.put("/v1/four-eyes", json=given)
    done = await root.put("/v1/four-eyes", json=given)
    seen = await ana.get("/v1/four-eyes")
    off = await root.put("/v1/four-eyes", json={"patterns": []})
    newest = (await root.get("/v1/operators", params={"limit": 2})).json()["data"]

    problem(refused, 403, "access_denied")
    assert done.json() == seen.json() == {"patterns": [{"agent": "Pay*", "tool": "*"}]}
    assert off.json() == {"patterns": []}
    assert [(each["what"], each["subject"], each["by"], each["why"]) for each in newest] == [
        ("four eyes set", "nowhere", "root", None),
        ("four eyes set", "Pay*:*", "root", "audit"),
    ]


# -- holding and ending ------------------------------------------------------------------------------------------------


async def test_whoever_may_decide_nothing_holds_nothing_and_ends_only_their_own_runs(server: RunningDesk) -> None:
    form = await server.person("form", decides=())
    run_id, _ = await two_refunds(server)
    own = (await form.post("/v1/runs", json={"agent": "Support", "input": "mine"})).json()["id"]
    everything = [("tool", "refund"), ("tool", "Support.refund"), ("agent", "Support"), ("run", run_id), ("run", own)]
    refused = [await form.post("/v1/holds", json={"kind": kind, "name": name}) for kind, name in everything]

    for answer in refused:
        assert "may not decide" in problem(answer, 403, "access_denied")["detail"]
    assert await server.desk.holds() == []
    problem(await form.post(f"/v1/runs/{run_id}/cancel", json={}), 403, "access_denied")
    assert (await form.post(f"/v1/runs/{own}/cancel", json={})).status_code == 200


async def test_a_hold_takes_somebody_who_may_decide_all_that_it_covers(server: RunningDesk) -> None:
    scopes = (DecisionScope(agent="Support", tool="refund"), DecisionScope(agent="Arch*"))
    ana, run_id = await server.person("ana", decides=scopes), (await two_refunds(server))[0]
    archived = (await server.waiting_run("Archivist")).id
    tries = {
        ("tool", "Support.refund"): 201,
        ("agent", "Archivist"): 201,
        ("run", archived): 201,
        ("tool", "refund"): 403,
        ("agent", "Support"): 403,
        ("run", run_id): 403,
        ("run", "run_nope"): 403,
    }
    answers = {
        each: (await ana.post("/v1/holds", json={"kind": each[0], "name": each[1]})).status_code for each in tries
    }

    assert answers == tries


async def test_a_hold_is_released_by_whoever_placed_it_or_by_an_admin_and_not_taken_over(
    any_server: RunningDesk,
) -> None:
    ana, ben, root = [await any_server.person(*each) for each in (("ana",), ("ben",), ("root", "admin"))]
    which = {"kind": "tool", "name": "refund"}
    await root.post("/v1/holds", json=which)
    taken_over = await ana.post("/v1/holds", json=which)
    not_hers = await ana.delete("/v1/holds", params=which)
    by_root = [hold.by for hold in await any_server.desk.holds()]
    released = await root.delete("/v1/holds", params=which)
    placed = await ana.post("/v1/holds", json=which)
    again = await ana.post("/v1/holds", json={**which, "reason": "still"})
    not_his = await ben.delete("/v1/holds", params=which)
    own = await ana.delete("/v1/holds", params=which)

    assert "held by root" in problem(taken_over, 409, "held_by_another")["detail"]
    assert "held by root" in problem(not_hers, 403, "access_denied")["detail"]
    assert by_root == ["root"]
    assert [each.status_code for each in (released, placed, again, own)] == [204, 201, 201, 204]
    problem(not_his, 403, "access_denied")
    assert await any_server.desk.holds() == []
    problem(await ana.delete("/v1/holds", params=which), 404, "not_found")


# -- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_revoked_token_is_refused_at_the_next_request(any_server: RunningDesk) -> None:
    root = await any_server.person("root", "admin")
    made = (await root.post("/v1/tokens", json={"name": "ci", "role": "viewer", "days": 30})).json()
    ci = any_server.client(made["token"])
    before = await ci.get("/v1/me")
    revoked = await root.delete(f"/v1/tokens/{made['id']}")
    after = await ci.get("/v1/me")

    assert before.json()["role"] == "viewer"
    assert revoked.status_code == 204
    problem(after, 401, "not_authenticated")


async def test_a_user_who_is_removed_or_switched_off_or_demoted_loses_it_at_once(server: RunningDesk) -> None:
    root, ana, ben = await server.person("root", "admin"), await server.person("ana"), await server.person("ben")
    await root.patch("/v1/users/ana", json={"role": "viewer"})
    demoted = (await ana.get("/v1/me")).json()
    await root.patch("/v1/users/ana", json={"is_active": False})
    off = await ana.get("/v1/me")
    await root.delete("/v1/users/ben")
    gone = await ben.get("/v1/me")

    assert demoted["role"] == "viewer"
    problem(off, 401, "not_authenticated")
    problem(gone, 401, "not_authenticated")


async def test_a_token_can_do_less_than_its_owner_and_never_more(server: RunningDesk) -> None:
    ana = await server.person("ana", decides=(DecisionScope(tool="refund"),))
    text, token = await server.web.accounts.add_token(
        "ana", "all", role="admin", decides=(DecisionScope(agent="Archiv*"),)
    )
    _, (first, _) = await two_refunds(server)
    narrowed = server.client(text)

    assert token.role == "reviewer"
    assert (await narrowed.get("/v1/users")).status_code == 403
    problem(await decide(narrowed, first.id, "approve"), 403, "access_denied")
    assert (await decide(ana, first.id, "approve")).status_code == 200


async def test_tokens_of_others_are_an_admins_business(server: RunningDesk) -> None:
    root, ana = await server.person("root", "admin"), await server.person("ana")
    (roots,) = (await root.get("/v1/tokens", params={"owner": "root"})).json()["data"]
    mine = (await ana.get("/v1/tokens", params={"owner": "root"})).json()["data"]

    assert {each["owner"] for each in mine} == {"ana"}
    problem(await ana.delete(f"/v1/tokens/{roots['id']}"), 404, "not_found")
    problem(await ana.post("/v1/tokens", json={"name": "x", "owner": "root"}), 403, "access_denied")
    problem(await ana.post("/v1/tokens", json={"name": "x"}), 403, "access_denied")
    assert "token" not in roots


async def test_an_expired_token_and_session_are_none(tmp_path: Path) -> None:
    clock = ManualClock()
    async with SQLiteStore(tmp_path / "placet.db") as store:
        accounts = Accounts(store, clock)
        user = await accounts.add_user("ana", "reviewer")
        text, _ = await accounts.add_token("ana", "short", seconds=60)
        cookie, _ = await accounts.open_session(user)
        fresh = (await accounts.actor_of_token(text), await accounts.actor_of_cookie(cookie))
        clock.advance(61)
        token_later = await accounts.actor_of_token(text)
        clock.advance(13 * 3600)
        cookie_later = await accounts.actor_of_cookie(cookie)

    assert all(fresh)
    assert token_later is None
    assert cookie_later is None


async def test_no_secret_is_in_the_store(tmp_path: Path) -> None:
    path = tmp_path / "placet.db"
    async with SQLiteStore(path) as store:
        accounts = Accounts(store)
        user = await accounts.add_user("ana", "reviewer", password=PASSWORD)
        await accounts.add_user("ben", "viewer")
        token, _ = await accounts.add_token("ana", "ci")
        cookie, _ = await accounts.open_session(user)
        key = await accounts.invite("ben")
    with sqlite3.connect(path) as db:
        kept = json.dumps(db.execute("SELECT * FROM placet_records").fetchall())
    db.close()

    for secret in (PASSWORD, token.split("_", 2)[2], cookie.partition(".")[2], key.partition(".")[2]):
        assert secret not in kept
    assert "scrypt$" in kept


# -- users ------------------------------------------------------------------------------------------------------------


async def test_the_last_admin_stays_one(server: RunningDesk) -> None:
    root = await server.person("root", "admin")

    for answer in (
        await root.patch("/v1/users/root", json={"role": "viewer"}),
        await root.patch("/v1/users/root", json={"is_active": False}),
        await root.delete("/v1/users/root"),
    ):
        assert "only admin" in problem(answer, 422, "user_error")["detail"]
    await server.person("other", "admin")
    assert (await root.patch("/v1/users/root", json={"role": "viewer"})).status_code == 200


@pytest.mark.parametrize("name", ["", "A B", "a/b", "-a", "a" * 65, "a\x00", "<script>", "ünal"])
def test_a_name_that_would_be_trouble_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        checked_name(name)


async def test_a_user_is_added_once_and_changed_field_by_field(server: RunningDesk) -> None:
    root = await server.person("root", "admin")
    made = await root.post("/v1/users", json={"name": "Ana", "role": "reviewer", "decides": [{"agent": "S*"}]})
    again = await root.post("/v1/users", json={"name": "ana", "role": "viewer"})
    changed = await root.patch("/v1/users/ana", json={"decides": []})
    listed = (await root.get("/v1/users")).json()["data"]

    assert made.json()["user"]["name"] == "ana"
    assert "/invitation?key=inv-" in made.json()["link"]
    problem(again, 422, "user_error")
    assert (changed.json()["role"], changed.json()["decides"]) == ("reviewer", [])
    assert [each["name"] for each in listed] == ["ana", "root"]
    assert "password" not in listed[0]
    problem(await root.patch("/v1/users/nobody", json={}), 404, "not_found")


# -- invitations ------------------------------------------------------------------------------------------------------


async def test_the_first_link_makes_one_admin_and_works_once(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "placet.db") as store:
        accounts = Accounts(store)
        old = await accounts.first_admin_key()
        key = await accounts.first_admin_key()
        assert old is not None
        assert key is not None
        with pytest.raises(AccessDenied):
            await accounts.accept(old, PASSWORD, name="mallory")
        with pytest.raises(UserError):
            await accounts.accept(key, "short", name="ana")
        user = await accounts.accept(key, PASSWORD, name="ana")
        with pytest.raises(AccessDenied):
            await accounts.accept(key, PASSWORD, name="mallory")
        later = await accounts.first_admin_key()
        _, session = await accounts.log_in("ANA ", PASSWORD)

    assert (user.name, user.role) == ("ana", "admin")
    assert later is None
    assert session.owner == "ana"


async def test_an_invitation_is_for_its_user_ends_their_sessions_and_grows_old(tmp_path: Path) -> None:
    clock = ManualClock()
    async with SQLiteStore(tmp_path / "placet.db") as store:
        accounts = Accounts(store, clock)
        user = await accounts.add_user("ben", "viewer")
        cookie, _ = await accounts.open_session(user)
        key = await accounts.invite("ben", by="root")
        await accounts.accept(key, PASSWORD, name="mallory")
        late = await accounts.invite("ben")
        clock.advance(80 * 3600)
        with pytest.raises(AccessDenied):
            await accounts.accept(late, PASSWORD)

        assert await accounts.user("mallory") is None
        assert await accounts.actor_of_cookie(cookie) is None
        with pytest.raises(AccessDenied):
            await accounts.log_in("ben", "wrong password")


def test_a_password_is_kept_salted_and_checked_whole() -> None:
    one, other = hash_password(PASSWORD), hash_password(PASSWORD)

    assert one != other
    assert is_password(PASSWORD, one)
    assert not is_password(PASSWORD + " ", one)
    assert not is_password("", one)


# -- where it may listen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "desk.example.com", "[::]"])  # noqa: S104
def test_a_desk_that_asks_nobody_is_refused_on_a_public_address(host: str) -> None:
    with pytest.raises(UserError, match="without authentication"):
        check_bind(host, WebSettings(is_open=True))
    check_bind(host, WebSettings())


def test_this_machine_is_known_by_its_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "[::1]", "localhost", "127.9.9.9")] == [True] * 5
    assert not is_loopback("localhost.example.com")
    with pytest.raises(UserError, match="names of this machine"):
        check_bind("127.0.0.1", WebSettings(is_open=True, hosts=("*",)))


async def test_an_open_desk_knows_one_admin_and_still_refuses_other_sites(tmp_path: Path) -> None:
    settings = WebSettings(is_open=True, open_name="mia", requests_per_second=1e6, burst=10**6)
    async with running_desk(tmp_path, settings=settings) as server:
        me = server.client()
        _, (first, _) = await two_refunds(server)
        foreign = {"Origin": "https://evil.example"}
        refused = await me.post(at(first.id, "/decisions"), json={"decision": "approve"}, headers=foreign)
        site = await me.post(
            at(first.id, "/decisions"), json={"decision": "approve"}, headers={"Sec-Fetch-Site": "cross-site"}
        )
        unsaid = await me.post(
            at(first.id, "/decisions"), json={"decision": "approve"}, headers={"Sec-Fetch-Site": "same-origin"}
        )
        done = await decide(me, first.id, "approve")

    problem(refused, 403, "foreign_origin")
    problem(site, 403, "foreign_origin")
    problem(unsaid, 403, "csrf")
    assert done.json()["decided_by"] == "mia"


def test_limits_of_the_tests_are_not_those_of_the_product() -> None:
    assert FAST.requests_per_second > WebSettings().requests_per_second
