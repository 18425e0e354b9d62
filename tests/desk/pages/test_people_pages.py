"""The pages about people, asked over HTTP: links, what somebody may decide, guesses of a password, the audit."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.desk.access.people import EVERYTHING, DecisionScope
from placet.desk.web import limits
from placet.desk.web.limits import FORGOTTEN_SECONDS, LONGEST_PAUSE, Guesses, neighbourhood
from placet.desk.web.settings import WebSettings
from placet.testing import ManualClock
from tests.desk.pages.test_deciding_pages import browser, post
from tests.support.desk_server import FAST, PASSWORD, RunningDesk, running_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path) as running:
        yield running


# -- links and users --------------------------------------------------------------------------------------------------


async def test_a_link_is_made_listed_and_revoked_on_the_page(desk: RunningDesk) -> None:
    root = await browser(desk, "root", "admin")
    made = await post(root, "/people", action="invite", name="ben", role="admin", decides="")
    found = re.search(r"/invitation\?key=([\w.-]+)", made.text)
    assert found is not None
    (link,) = await desk.web.accounts.invitations()
    page = await root.get("/people")
    usable = await desk.web.accounts.invitation(found[1])
    revoked = await post(root, "/people", action="revoke-link", id=link.id)

    assert usable == link
    assert link.id in page.text
    assert found[1] not in page.text
    assert revoked.status_code == 303
    assert await desk.web.accounts.invitation(found[1]) is None
    assert (await desk.client().get(f"/invitation?key={found[1]}")).status_code == 404


async def test_inviting_a_name_that_is_taken_is_refused_and_a_link_for_them_is_another_button(
    desk: RunningDesk,
) -> None:
    root = await browser(desk, "root", "admin")
    await desk.web.accounts.add_user("ben", "viewer", decides=())
    taken = await post(root, "/people", action="invite", name="ben", role="admin", decides="")
    link = await post(root, "/people", action="link", name="ben")
    ben = await desk.web.accounts.user("ben")

    assert taken.status_code == 422
    assert "There is a user ben already" in taken.text
    assert "/invitation?key=inv-" in link.text
    assert ben is not None
    assert (ben.role, ben.decides) == ("viewer", ())


async def test_saving_the_form_of_somebody_who_may_decide_nothing_leaves_it_at_that(desk: RunningDesk) -> None:
    root = await browser(desk, "root", "admin")
    await desk.web.accounts.add_user("form", "reviewer", decides=())
    page = await root.get("/people")
    shown = re.findall(r'<textarea name="decides"[^>]*>([^<]*)</textarea>', page.text)
    await post(root, "/people", action="change", name="form", role="viewer", decides=shown[0])
    found = await desk.web.accounts.user("form")

    assert found is not None
    assert (found.role, found.decides) == ("viewer", ())
    everything = await desk.web.accounts.user("root")
    assert everything is not None
    assert everything.decides == EVERYTHING


async def test_the_audit_shows_admins_what_operators_did_and_others_not(desk: RunningDesk) -> None:
    root, vic = await browser(desk, "root", "admin"), await browser(desk, "vic", "viewer")
    await post(root, "/people", action="change", name="vic", role="reviewer", decides="Support refund")
    seen, others = (await root.get("/audit")).text, (await vic.get("/audit")).text

    assert "What operators did" in seen
    assert "user changed" in seen
    assert "decides Support:refund" in seen
    assert "What operators did" not in others
    found = await desk.web.accounts.user("vic")
    assert found is not None
    assert found.decides == (DecisionScope(agent="Support", tool="refund"),)


# -- guesses ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a slow machine does not pass for a patient guesser."""
    monkeypatch.setattr(limits, "FIRST_PAUSE", 600.0)


@pytest.mark.usefixtures("long_pauses")
async def test_guesses_of_the_old_password_on_the_account_page_are_slowed_down(tmp_path: Path) -> None:
    settings = WebSettings(requests_per_second=1e6, burst=10**6, free_guesses=3, logins_per_minute=10**6)
    async with running_desk(tmp_path, settings=settings) as desk:
        await desk.web.accounts.add_user("ana", "reviewer", password=PASSWORD)
        ana = await browser(desk)
        new = {"action": "password", "password": "another sentence", "again": "another sentence"}
        wrong = [await post(ana, "/account", old=f"wrong guess {number}", **new) for number in range(3)]
        right = await post(ana, "/account", old=PASSWORD, **new)
        sessions = await desk.web.accounts.sessions("ana")

    assert [answer.status_code for answer in wrong] == [403, 403, 403]
    assert "nothing was changed" in wrong[0].text
    assert right.status_code == 429
    assert len(sessions) == 1


async def test_the_right_old_password_changes_it(desk: RunningDesk) -> None:
    await desk.web.accounts.add_user("ana", "reviewer", password=PASSWORD)
    ana = await browser(desk)
    done = await post(
        ana, "/account", action="password", old=PASSWORD, password="another sentence", again="another sentence"
    )

    assert done.status_code == 200
    assert (await desk.web.accounts.check_password("ana", "another sentence")).name == "ana"


@pytest.mark.usefixtures("long_pauses")
async def test_wrong_guesses_from_one_address_do_not_keep_the_name_out_from_another(tmp_path: Path) -> None:
    settings = WebSettings(requests_per_second=1e6, burst=10**6, free_guesses=3, logins_per_minute=20)
    proxy = {"trusted_proxies": ("127.0.0.1",)}
    async with running_desk(tmp_path, settings=settings, **proxy) as desk:
        await desk.web.accounts.add_user("ana", "reviewer", password=PASSWORD)

        async def log_in(address: str, password: str) -> int:
            form = {"name": "ana", "password": password, "next": "/"}
            answer = await desk.client().post("/login", data=form, headers={"X-Forwarded-For": address})
            return answer.status_code

        stranger = [await log_in("203.0.113.7", "wrong guess") for _ in range(5)]
        stranger_right = await log_in("203.0.113.7", PASSWORD)
        owner = await log_in("198.51.100.2", PASSWORD)

    assert stranger == [403, 403, 403, 429, 429]
    assert stranger_right == 429
    assert owner == 303


def test_guesses_cost_more_and_more_time_until_one_is_right_or_time_has_passed() -> None:
    clock = ManualClock()
    guesses = Guesses(2, clock)
    waits = []
    for _ in range(5):
        waits.append(guesses.wait("k"))
        clock.advance(guesses.wait("k"))
        guesses.failed("k")
    for _ in range(40):
        guesses.failed("k")
    longest = guesses.wait("k")
    clock.advance(FORGOTTEN_SECONDS + 1)
    free = guesses.wait("k")
    guesses.failed("k")
    after = guesses.wait("k")
    guesses.failed("k")
    guesses.succeeded("k")

    assert waits == [0, 0, 1, 2, 4]
    assert longest == LONGEST_PAUSE
    assert (free, after, guesses.wait("k"), guesses.wait("other")) == (0, 0, 0, 0)


def test_an_address_counts_with_its_network_where_one_client_has_many() -> None:
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:2") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("203.0.113.7") == "203.0.113.7" != neighbourhood("203.0.113.8")
    assert neighbourhood("unknown") == "unknown"


def test_the_limits_of_the_product_are_on() -> None:
    assert WebSettings().free_guesses <= 10
    assert FAST.logins_per_minute > 1000


async def test_groups_owners_and_second_accounts_are_set_on_the_page(desk: RunningDesk) -> None:
    root = await browser(desk, "root", "admin")
    await post(root, "/people", action="invite", name="ana", role="reviewer", decides="", groups="finance board")
    await post(root, "/people", action="invite", name="ana2", role="reviewer", decides="", groups="")
    await post(root, "/people", action="invite", name="jobs", role="guest", decides="")
    await post(root, "/people", action="change", name="ana", role="reviewer", decides="", groups="Board, legal")
    await post(root, "/people", action="change", name="ana2", role="reviewer", decides="", same_as="ana")
    await post(root, "/people", action="change", name="jobs", role="guest", decides="", groups="", owner="ana")
    wrong = await post(root, "/people", action="change", name="ana", role="reviewer", decides="", same_as="jobs")
    page = (await root.get("/people")).text
    users = {user.name: user for user in await desk.web.accounts.users()}

    assert users["ana"].groups == ("board", "legal")
    assert (users["ana2"].same_as, users["jobs"].owner) == ("ana", "ana")
    assert wrong.status_code == 422
    assert "board, legal" in page
    assert "the same person as" in page
