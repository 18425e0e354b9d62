"""A context made by hand on its way through pydantic, as a workflow engine sends it: the user's own context, and what
was decided on the wrapper. Of a context that belongs to a run only the first travels: the run's log has the second."""

from __future__ import annotations

from typing import Any

import msgspec

from placet.core.approvals import Entry, Ledger
from placet.facts.errors import UserError
from placet.facts.events import BoundedGrantMade, DecisionMade, GrantMade


class Said(msgspec.Struct, omit_defaults=True):
    """What was decided by hand."""

    entries: list[Entry] = []
    words: list[DecisionMade | GrantMade | BoundedGrantMade] = []


def pack(ledger: Ledger) -> str:
    """By hand nobody votes: a requirement is known where a run is."""
    words = [word for word in ledger.staged() if isinstance(word, DecisionMade | GrantMade)]
    return msgspec.json.encode(Said(ledger.entries_by_hand(), words)).decode()


def unpack(text: str) -> Ledger:
    ledger = Ledger()
    try:
        said = msgspec.json.decode(text, type=Said)
    except msgspec.DecodeError as error:
        raise UserError(f"The decisions of this context cannot be read: {error}.") from error
    decisions = [word for word in said.words if isinstance(word, DecisionMade)]
    grants = [word for word in said.words if isinstance(word, GrantMade)]
    ledger.stage(decisions, grants, said.entries)
    return ledger


def schema(wrapper: type[Any], inner: Any, make: Any, take_apart: Any) -> Any:  # Any: pydantic's own schemas
    """A wrapper that is given stays what it is. An object with `context` and `decisions` becomes a new one."""
    from pydantic_core import core_schema

    fields = core_schema.typed_dict_schema(
        {
            "context": core_schema.typed_dict_field(inner, required=True),
            "decisions": core_schema.typed_dict_field(core_schema.str_schema(), required=False),
        }
    )
    made = core_schema.no_info_after_validator_function(make, fields)
    return core_schema.json_or_python_schema(
        made,
        core_schema.union_schema([core_schema.is_instance_schema(wrapper), made], mode="left_to_right"),
        serialization=core_schema.plain_serializer_function_ser_schema(take_apart, return_schema=fields),
    )
