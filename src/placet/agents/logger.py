"""Placet's logger."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("placet")


def enable_verbose_stdout_logging() -> None:
    """Print what Placet logs, all of it."""
    logger.setLevel(logging.DEBUG)
    logger.addHandler(logging.StreamHandler(sys.stdout))


__all__ = ["enable_verbose_stdout_logging", "logger"]
