"""What `placet audit` says about signatures: the trust file it writes, and what of the logs was signed."""

from __future__ import annotations

import importlib.util
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from click import ClickException, UsageError

from placet.cli.loading import store_of
from placet.cli.output import Screen, shown
from placet.core.log import read_lines
from placet.facts.errors import UserError
from placet.ports import DeskStore

if TYPE_CHECKING:
    from placet.passkeys.trust import Trust

NOT_INSTALLED = "signatures need an extra that is not installed: pip install 'placet[passkeys]'."


def refuse_without_extra() -> None:
    if importlib.util.find_spec("webauthn") is None:
        raise ClickException(NOT_INSTALLED)


async def print_trust(url: str, signed: tuple[str, ...]) -> None:
    from placet.passkeys.trust import Place, write_trust

    store = store_of(url)
    try:
        log = await store.operators_log()
        facts = chain.from_iterable(record.facts for record in read_lines(log.lines))
        place = Place(length=len(log), digest=log.head.hex()) if len(log) else None
        trust = write_trust(facts, place, signed)
    finally:
        await store.close()
    print(msgspec.json.format(msgspec.json.encode(trust), indent=2).decode())


def trust_in(file: str) -> Trust:
    from placet.passkeys.trust import read_trust

    try:
        return read_trust(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the trust file {file!r} cannot be read: {error}.") from error
    except UserError as error:
        raise UsageError(error.message) from error


async def verify_signatures(store: DeskStore, trust: Trust, *, as_json: bool) -> bool:
    """Print what was signed and what was not; whether nothing is wrong."""
    from placet.service.signed import verify_signed

    signs, found, wrong = Screen().signs, Counter[str](), 0
    async for each in verify_signed(store, trust):
        found[each.verdict] += bool(each.what)
        wrong += each.is_wrong
        if as_json:
            print(msgspec.json.encode(each).decode())
        elif each.is_wrong or each.verdict != "signed":
            sign = signs.refused if each.is_wrong else signs.dot
            who = f" by {each.by}" if each.by and each.what else ""
            why = f": {each.message}" if each.message else ""
            print(f"{sign} {each.subject}  {each.verdict}  {shown(f'{each.what}{who}{why}')}")
    if not as_json:
        order = ("signed", "not signed", "erased", "does not verify", "unanchored")
        told = ", ".join(f"{found[verdict]} {verdict}" for verdict in order if found[verdict]) or "nothing was decided"
        print(f"Decisions and votes: {told}. {wrong or 'Nothing'} to look at.")
    return not wrong
