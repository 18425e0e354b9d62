"""A rule of a service, as a pair of stories: one that breaks it, and one just inside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from placet.testing import assistant_message

HI = [assistant_message("hi")]
Story = Callable[[Any], Awaitable[Any]]  # Any: an official client


@dataclass(frozen=True)
class Rule:
    name: str
    """As in the table of docs/fake-provider.md."""
    breaks: Story
    keeps: Story
    words: str
    """What the refusal says, as a pattern."""
    code: str | None = None
    param: str | None = None
    status: int = 400
    steps: Sequence[Any] = (HI,) * 4

    def __str__(self) -> str:
        return self.name
