"""What commands over a store share: which agents, which store, and how to say so."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from click import UsageError

from placet.cli.output import complain
from placet.declare.agent import Agent
from placet.ports import DeskStore
from placet.stores.opening import open_store


def store_of(url: str) -> DeskStore:
    """The store that is to be looked into. One that is not there is not made: a typing error must not look whole."""
    refuse_if_missing(url)
    return open_store(url, create=False)


def refuse_if_missing(url: str) -> None:
    if url.startswith("sqlite:///") and not Path(unquote(url.removeprefix("sqlite:///"))).exists():
        raise UsageError(f"there is no store {url}: check its address. «placet serve» and «placet run» make one.")


def warn_if_pooled(store: DeskStore) -> None:
    """At the start of what goes on for long: why others' news may take a moment."""
    if find_spec("psycopg") is None:
        return
    from placet.stores.postgres import PostgresStore

    if isinstance(store, PostgresStore) and store.is_pooled:
        complain(
            "A pooler stands before PostgreSQL. One cannot listen through it, so news from other processes is looked "
            "for four times a second."
        )


def agents_of(place: str) -> list[Agent[Any]]:
    """The agents behind `module:name`: an Agent, or a list of them."""
    found = object_of(place)
    agents = [found] if isinstance(found, Agent) else list(found) if isinstance(found, Iterable) else []
    if not agents or not all(isinstance(agent, Agent) for agent in agents):
        raise UsageError(f"{place} is of type {type(found).__name__}, and neither an Agent nor a list of Agents.")
    return agents


def object_of(place: str) -> Any:  # Any: whatever the user's module holds
    """What is behind `module:name`. The current directory is looked at first."""
    module_name, colon, attribute = place.partition(":")
    if not colon or not attribute:
        raise UsageError(f"{place!r} is not module:name, such as shop.agents:all_agents.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"there is no module {error.name!r} here: run this where the code is.") from error
    except Exception as error:  # whatever the user's code raises while it is imported
        raise UsageError(f"module {module_name!r} cannot be imported: {_error_text(error)}.") from error
    if not hasattr(module, attribute):
        raise UsageError(f"module {module_name!r} has no {attribute!r}.")
    return getattr(module, attribute)


def _error_text(error: Exception) -> str:
    """What is wrong with somebody's code, and where."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}, line {error.lineno})"
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"
