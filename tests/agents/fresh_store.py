"""What the SDK's own tests need when they run on `placet.agents`: each finds a process in which no run waits.

The SDK keeps no runs between runs; Placet's default store does, and all those tests call their session «test».
"""

from __future__ import annotations

import placet

NAMES: dict[str, object] = {}


def before_each() -> None:
    placet.set_default_store(placet.MemoryStore())
