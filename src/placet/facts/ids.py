"""Names of runs, calls and requests: minted by us, at birth, from where a thing stands.

A call's *local* id says where it stands in its run: `turn.index`, prefixed by the local id of the agent-tool call in
whose nested run it was made: `2.0` is the first call of turn 2, `2.0/1.3` the fourth call of turn 1 of the run nested
in it. Its public id puts the run before it: `run_x:2.0/1.3`. The provider's `call_id` is a label and never used as
identity.
"""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u, so that ids can be read aloud

_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_LETTERS = (_ALPHABET * 8).encode()
"""A letter for each byte: of a random one, five bits."""

ROOT = ""
"""The path of a run that is nested in nothing."""


def mint(prefix: str) -> str:
    """A new id, sortable by the time of its birth: 48 bits of milliseconds and 80 random bits."""
    born = int(time.time() * 1000)
    when = "".join([_PAIRS[born >> shift & 1023] for shift in range(40, -1, -10)])
    return f"{prefix}_{when}{os.urandom(16).translate(_LETTERS).decode()}"


OBJECT_PLACE = "object"
"""The prefix of a session's place that is only a name for its object: it does not say where the session is kept."""
_KEY = "\x1f"


def session_key(session: str, place: str | None) -> str:
    """By what stores find the runs of a session: its id and where it is kept, or the id alone where that is not
    known."""
    return session if place is None or place.startswith(f"{OBJECT_PLACE}_") else f"{session}{_KEY}{place}"


def session_of_key(key: str) -> str:
    """The id in such a key."""
    return key.partition(_KEY)[0]


def local_call_id(path: str, turn: int, index: int) -> str:
    return f"{path}/{turn}.{index}" if path else f"{turn}.{index}"


def call_id(run_id: str, local: str) -> str:
    return f"{run_id}:{local}"


def split_call_id(public: str) -> tuple[str, str]:
    """The run and the local part of a public call id; a text that is none gives ('', text)."""
    run, colon, local = public.partition(":")
    return (run, local) if colon and run.startswith("run_") else ("", public)


def path_of(local: str) -> str:
    """The path of the nested run in which a call was made: all of its local id but the last step."""
    return local.rpartition("/")[0]


def request_id(run_id: str, local: str, number: int) -> str:
    """The id of the n-th question about one call: a changed or in-doubt call is asked about again, under a new id."""
    return f"{run_id}:{local}#{number}"
