"""Registers the marker with which a test says which promise it keeps; `tests/promises` checks the marks."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(*ids): the promises of tests/promises/promises.toml that this keeps")
