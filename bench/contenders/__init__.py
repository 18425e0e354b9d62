"""Who takes part: one module each, which implements `bench.work.Subject` and runs in an environment of its own."""

from __future__ import annotations

import sys

from bench.work import Contender

PLACET = Contender("placet", sys.executable, "bench.contenders.on_placet")
LIMIT = Contender("limit", sys.executable, "bench.contenders.on_limit")

CONTENDERS = (PLACET, LIMIT)
"""Another runtime joins as `Contender(name, python of its environment, its module here)`."""
