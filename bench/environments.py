"""The environments of the peers: each in .dev/bench, made of its lock in bench/peers when it is first needed, and made
anew when the lock or Python changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import dev
from bench.work import ROOT, Contender

PLACES = ROOT / ".dev" / "bench"
LOCKS = ROOT / "bench" / "peers"


class NoEnvironment(Exception):
    """A peer has no place to run in; the message says what to do."""


def set_up(peers: Iterable[Contender], places: Path = PLACES, locks: Path = LOCKS) -> None:
    for peer in peers:
        assert peer.lock is not None
        lock_file = locks / f"{peer.lock}.lock"
        try:
            dev.set_up_apart(places / peer.lock, lock_file, f"{peer.lock}, for the benchmark")
        except (dev.Stop, OSError) as error:
            raise NoEnvironment(
                f"the environment of {peer.name} could not be made of {lock_file.name}: {error} "
                f"`--without-peers` measures without it."
            ) from error
