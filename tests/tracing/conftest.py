"""Spans as a processor collects them."""

from __future__ import annotations

import pytest

from tests.tracing.scenes import Traces


@pytest.fixture
def traces() -> Traces:
    return Traces()
