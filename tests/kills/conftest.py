"""Every test here runs on each kind of store that survives its process."""

from __future__ import annotations

import pytest


@pytest.fixture
def url(any_url: str) -> str:
    return any_url
