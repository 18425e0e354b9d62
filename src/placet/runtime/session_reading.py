"""What a run reads of its session: all of it, as much as the settings say, or what a function of the user's makes of
it."""

from __future__ import annotations

from collections.abc import Mapping

from placet.declare.run_config import RunConfig, SessionSettings
from placet.facts.codec import JsonObject, NotPlain, plain_item
from placet.facts.errors import UserError
from placet.ports import Session
from placet.runtime.frame import awaited
from placet.runtime.handoffs import paired


async def joined(
    session: Session, before: list[JsonObject], new: list[JsonObject], config: RunConfig
) -> tuple[list[JsonObject], int]:
    """The input of a run on this session, and how many of its items, at the beginning, are in the session already."""
    limit = _limit(session, config)
    if limit is not None:
        before = paired(before[max(0, len(before) - limit) :])
    if config.session_input_callback is None:
        return [*before, *new], len(before)
    made: object = await awaited(config.session_input_callback(list(before), list(new)))
    if not isinstance(made, list):
        raise UserError(f"session_input_callback gives back a list of items, not a {type(made).__name__}.")
    try:
        items = [plain_item(item, f"item {place} of session_input_callback") for place, item in enumerate(made)]
    except (NotPlain, TypeError) as error:
        raise UserError(f"session_input_callback gave back what is no item: {error}.") from error
    return items, _length_of_old(items, before)


def _limit(session: Session, config: RunConfig) -> int | None:
    """The run's settings, or else the session's own."""
    own: object = getattr(session, "session_settings", None)
    found = SessionSettings.of(own) if isinstance(own, SessionSettings | Mapping) else None
    resolved = (found or SessionSettings()).resolve(config.session_settings)
    return resolved.limit


def _length_of_old(items: list[JsonObject], before: list[JsonObject]) -> int:
    """How many items there are up to the last one that came out of the session: what stands behind it is new, and is
    written. What a function put between old items is not: the session has its own order."""
    left = list(before)
    length = 0
    for place, item in enumerate(items):
        if item in left:
            left.remove(item)
            length = place + 1
    return length
