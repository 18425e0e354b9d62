"""A contender that answers at once and does nothing: no figure of it may count."""

from collections.abc import Mapping
from typing import Any

IMPORT = "json"


def versions() -> Mapping[str, str]:
    return {}


def agent(_script: Any, _effects: Any) -> None:
    return None


async def run(_agent: Any, _text: str) -> None:
    return None


def output(_handle: Any) -> str:
    return "All done."
