"""Names of runs, calls and requests: minted by us, at birth, from where a thing stands.

A call's *local* id says where it stands in its run: `turn.index`, prefixed by the local id of the agent-tool call in
whose nested run it was made: `2.0` is the first call of turn 2, `2.0/1.3` the fourth call of turn 1 of the run nested
in it. Facts and folds speak of calls so. The provider's `call_id` is a label and never used as identity.

Everybody else reads its public id, the run and the place: `run_x_t2c0_t1c3`; the n-th question about it has `_q1`
behind that. Only letters, digits and underscores, so that an id survives addresses, shells and a double click. A number
of two digits has its letter twice (`tt12`): then ids sort as the calls stand. One place has one id, and one id one
place.

Ids of the first form, `run_x:2.0/1.3` and `run_x:2.0/1.3#1`, are read wherever one is given, forever: they stand in
links and in programs of users. They are also still the *keys* by which stores and receiving services know a call: a key
that changed with a new version would be another key, and the effect that it guards would happen twice.
"""

from __future__ import annotations

import functools
import os
import re
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


def path_of(local: str) -> str:
    """The path of the nested run in which a call was made: all of its local id but the last step."""
    return local.rpartition("/")[0]


# -- the ids that people and programs see -----------------------------------------------------------------------------

_STEP = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_PLACED = re.compile(r"(?P<run>run_.+?)(?P<place>(?:_t+\d+c+\d+)+)(?:_q+(?P<number>\d+))?", re.ASCII)
_PLACED_STEP = re.compile(r"t+(\d+)c+(\d+)", re.ASCII)
_LONGEST = 2_000
"""Characters of a text that can be an id: longer ones are not looked at."""


def call_id(run_id: str, local: str) -> str:
    return f"{run_id}_{place_of(local)}"


def request_id(run_id: str, local: str, number: int) -> str:
    """The id of the n-th question about one call: a changed or in-doubt call is asked about again, under a new id."""
    asked = f"q{number}" if number < 10 else _counted("q", str(number))
    return f"{run_id}_{place_of(local)}_{asked}"


@functools.lru_cache(maxsize=4096)
def place_of(local: str) -> str:
    """Where a call stands, as public ids say it: `t2c0_t1c3` for `2.0/1.3`."""
    steps = list(map(_STEP.fullmatch, local.split("/")))
    if None in steps:
        return local  # of a log that nobody of us wrote
    return "_".join(_counted("t", step[1]) + _counted("c", step[2]) for step in steps if step is not None)


def _counted(letter: str, digits: str) -> str:
    return letter * len(digits) + digits


def split_call_id(public: str) -> tuple[str, str]:
    """The run and the local part of a public call id, of either form; a text that is none gives ('', text)."""
    found = _split(public)
    if found is not None:
        return found[:2] if found[2] is None else ("", public)
    run, colon, local = public.partition(":")
    return (run, local) if colon and run.startswith("run_") else ("", public)


def split_request_id(public: str) -> tuple[str, str, int] | None:
    """The run, the local id of the call and the number of the question, of either form; None for any other text."""
    if len(public) > _LONGEST or "\0" in public:  # which PostgreSQL could not even be asked about
        return None
    found = _split(public)
    if found is not None:
        return None if found[2] is None else (found[0], found[1], found[2])
    call, _, number = public.rpartition("#")
    run, colon, local = call.partition(":")
    is_one = colon and run.startswith("run_") and number.isascii() and number.isdigit()
    return (run, local, int(number)) if is_one and all(map(_STEP.fullmatch, local.split("/"))) else None


def _split(public: str) -> tuple[str, str, int | None] | None:
    """The parts of an id of today's form. Only the very text that would be minted for them is one."""
    found = _PLACED.fullmatch(public) if len(public) <= _LONGEST else None
    local = None if found is None else _local_at(found["place"])
    if found is None or local is None:
        return None
    if found["number"] is None:
        return found["run"], local, None
    number = int(found["number"])
    return (found["run"], local, number) if request_id(found["run"], local, number) == public else None


@functools.lru_cache(maxsize=4096)
def _local_at(place: str) -> str | None:
    """The local id of the call at `_t2c0_t1c3`."""
    local = "/".join(f"{turn}.{index}" for turn, index in _PLACED_STEP.findall(place))
    return local if f"_{place_of(local)}" == place else None


def local_of(place: str) -> str | None:
    """The local id of the call at this place, the end of its public id: `2.0/1.3` for `t2c0_t1c3`."""
    found = _split(f"run_x_{place}")
    return None if found is None or found[2] is not None else found[1]


def can_be_run_id(text: str) -> bool:
    """Whether a run may be called so: it must be clear where the run's id ends and a call's place begins."""
    return text.startswith("run_") and _PLACED.fullmatch(text) is None


# -- the keys by which stores and receiving services know them --------------------------------------------------------


def call_key(run_id: str, local: str) -> str:
    """By this a tool's receiver knows a call that comes twice, and a store the use of a grant. It never changes."""
    return f"{run_id}:{local}"


def request_key(run_id: str, local: str, number: int) -> str:
    """By this a store knows a question. Workers of older versions, on the same store, know it so too."""
    return f"{run_id}:{local}#{number}"


def key_of_request(public: str) -> str:
    """The key of the question with this id, of either form; a text that is no id is its own key, and finds nothing."""
    found = split_request_id(public)
    return public if found is None else request_key(*found)
