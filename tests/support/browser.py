"""A real Chromium for tests: the one on this machine, or the one that Playwright installed.

`python3 dev.py test` sees to it that there is one. Without one the tests fail and say so; they are never skipped.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.async_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable(playwright: Playwright) -> str:
    own = Path(playwright.chromium.executable_path)
    found = next(filter(None, map(shutil.which, NAMES)), None) or (str(own) if own.exists() else None)
    assert found is not None, (
        "There is no Chromium: run `python3 dev.py test`, which installs one, or `playwright install chromium`."
    )
    return found


async def launch(playwright: Playwright) -> Browser:
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work for root
    arguments = ["--no-sandbox"] if is_root else []
    return await playwright.chromium.launch(
        executable_path=executable(playwright),
        args=[*arguments, "--disable-dev-shm-usage", "--force-color-profile=srgb"],
    )
