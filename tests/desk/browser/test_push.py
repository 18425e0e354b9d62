"""The worker that shows notifications, in a real browser: what the desk tells is shown, the newer in place of the
older."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.desk.browser.scenes import PATIENCE, Reviewer, sit_down
from tests.support.desk_server import RunningDesk

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("P25")]

SHOWN = """async () => {
  const worker = await navigator.serviceWorker.ready
  const shown = await worker.getNotifications()
  return shown.map((each) => [each.title, each.body, each.tag, each.data.url])
}"""


async def test_the_worker_shows_what_the_desk_tells_and_the_newer_in_place_of_the_older(
    desk: RunningDesk, arrive: Reviewer
) -> None:
    page = await arrive("ana")
    await page.context.grant_permissions(["notifications"], origin=desk.url)
    await sit_down(page)
    registered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    devtools = await page.context.new_cdp_session(page)

    def note(event: dict[str, list[dict[str, str]]]) -> None:
        for each in event["registrations"]:
            if not registered.done():
                registered.set_result(each["registrationId"])

    devtools.on("ServiceWorker.workerRegistrationUpdated", note)
    await devtools.send("ServiceWorker.enable")
    await page.evaluate("navigator.serviceWorker.register('/push-worker.js', { scope: '/' }).then(() => null)")
    await page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    worker = await asyncio.wait_for(registered, PATIENCE / 1000)

    async def tell(**told: object) -> None:
        message = {"origin": desk.url, "registrationId": worker, "data": json.dumps(told)}
        await devtools.send("ServiceWorker.deliverPushMessage", message)

    async def shown(wanted: list[list[str]]) -> list[list[str]]:
        async with asyncio.timeout(PATIENCE / 1000):
            while (found := await page.evaluate(SHOWN)) != wanted:  # noqa: ASYNC110  # no event tells of it
                await asyncio.sleep(0.05)
        return list(found)

    await tell(title="refund waits for a yes", body="Agent: Support", tag="q1", url=f"{desk.url}/inbox?open=q1")
    first = await shown([["refund waits for a yes", "Agent: Support", "q1", f"{desk.url}/inbox?open=q1"]])
    await tell(title="refund: approved by ben", body="", tag="q1", url=f"{desk.url}/inbox?open=q1", silent=True)
    second = await shown([["refund: approved by ben", "", "q1", f"{desk.url}/inbox?open=q1"]])

    assert (len(first), len(second)) == (1, 1)
