"""`placet receipts`: the keys that sign receipts of approved calls: made, rotated, and their public part shown."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click
from click import ClickException, UsageError

from placet.cli.options import actions
from placet.clock import SYSTEM_CLOCK
from placet.facts.codec import encode
from placet.facts.errors import ReceiptNotSigned

file_argument = click.argument("file", metavar="FILE", help="the file that holds the keys", type=click.Path())
DAY = 86_400.0


@actions("receipts")
def receipts() -> None:
    """The keys that sign receipts: a service that demands one performs nothing that was not approved.

    A desk, worker or gate issues receipts if $PLACET_RECEIPT_KEYS_FILE names such a file, or $PLACET_RECEIPT_KEYS holds
    its text. It is never kept in the store.
    """


@receipts.command("list")
@file_argument
def list_keys(file: str) -> None:
    """Print the public keys of the file, as a desk gives them at /.well-known/jwks.json."""
    need_the_extra()
    from placet.receipts import KeyFile, Receipts

    try:
        print(encode(Receipts(KeyFile(file)).jwks()).decode())
    except ReceiptNotSigned as error:
        raise ClickException(error.message) from error


@receipts.command("new-key")
@file_argument
def new_key_file(file: str) -> None:
    """Make a file with a new key, for its owner alone."""
    need_the_extra()
    from placet.receipts import new_key

    try:
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as made:
            made.write(encode({"keys": [new_key()]}) + b"\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be made: {error.strerror}. «placet receipts rotate» adds a key.") from error
    print(f"{file} has a new key. Keep it where the store is not.")


@receipts.command("rotate")
@file_argument
@click.option(
    "--after",
    type=click.FloatRange(min=0),
    default=3600.0,
    metavar="SECONDS",
    help="the new key is published now and signs after so long, so that receivers know it (default: 3600)",
)
@click.option(
    "--keep",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="DAYS",
    help="keys that stopped signing longer ago are left out (default: 30)",
)
def rotate(file: str, after: float, keep: float) -> None:
    """Add a key. Desks and workers notice it by themselves; the key before signs until the new one's time comes."""
    need_the_extra()
    from placet.receipts.keys import read_keys, rotated

    now, path = SYSTEM_CLOCK.now(), Path(file)
    try:
        text = path.read_text()
        read_keys(text)
        found = rotated(text, signs_from=now + after, drop_before=now - keep * DAY)
        _replace(path, found)
    except OSError as error:
        raise UsageError(f"{file} cannot be used: {error.strerror}. «placet receipts new-key» makes one.") from error
    except ReceiptNotSigned as error:
        raise ClickException(error.message) from error
    print(f"{file} has {len(read_keys(found))} keys; the new one signs in {after:g} s.")


def _replace(path: Path, text: str) -> None:
    """All at once: a desk that looks in between finds the old keys or the new ones, never half of them."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as made:
        made.write(text)
        made.flush()
        os.fsync(made.fileno())
    Path(name).replace(path)


def need_the_extra() -> None:
    from importlib.util import find_spec

    if find_spec("joserfc") is None:
        raise ClickException("receipts need an extra that is not installed: pip install 'placet[receipts]'.")
