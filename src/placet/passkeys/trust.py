"""The trust file: what an auditor keeps where nobody who can write to the desk's store can write.

It names the passkeys that are known to be people's own, who may vouch for new ones, where the operators' log stood, and
which calls have to be signed. Rule of this file: a key that the file does not name is anchored only by a chain of
signatures that begins with one that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from placet.core.signing import challenge_of_key
from placet.facts.errors import PlacetError, UserError
from placet.facts.events import AnyFact, PasskeyChanged, UserChanged
from placet.passkeys.checking import check_assertion

VOUCHERS = 2
"""So many people vouch for a key of somebody else."""


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    person: str
    public_key: str
    rp_id: str
    vouches: bool = False
    """Its person was an admin when the file was made: they may sign for others' keys."""
    until: float | None = None
    """When it was removed; None: it counts."""


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the operators' log stood."""

    length: int
    digest: str


class Trust(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file says."""

    placet_trust: int = 1
    keys: tuple[TrustedKey, ...] = ()
    operators: Place | None = None
    signed: tuple[str, ...] = ()
    """Calls that nobody may begin without a signed yes: patterns `AGENT:TOOL` with `*` and `?`."""

    def demands(self, agent: str, tool: str) -> bool:
        for pattern in self.signed:
            path, _, name = pattern.partition(":")
            if fnmatchcase(agent, path) and fnmatchcase(tool, name or "*"):
                return True
        return False


def read_trust(text: str) -> Trust:
    try:
        found = msgspec.json.decode(text, type=Trust)
    except msgspec.DecodeError as error:
        raise UserError(f"This is no trust file: {error}. «placet audit trust» writes one.") from error
    if found.placet_trust != 1:
        raise UserError(f"This trust file is of version {found.placet_trust}, and this Placet reads 1.")
    return found


def write_trust(facts: Iterable[AnyFact], operators: Place | None, signed: Sequence[str] = ()) -> Trust:
    """All keys that were ever registered, as the operators' log has them. Whoever keeps the file looks at them once."""
    kept: dict[str, TrustedKey] = {}
    admins: set[str] = set()
    for fact in facts:
        if isinstance(fact, UserChanged):
            is_admin = fact.role == "admin" and fact.change != "removed"
            (admins.add if is_admin else admins.discard)(fact.name)
        kept |= {key.id: key for key in _changed(fact, kept)}
        if isinstance(fact, PasskeyChanged) and fact.change == "registered":
            kept[fact.id] = TrustedKey(id=fact.id, person=fact.person, public_key=fact.public_key, rp_id=fact.rp_id)
    keys = tuple(msgspec.structs.replace(key, vouches=key.person in admins) for key in kept.values())
    return Trust(keys=keys, operators=operators, signed=tuple(signed))


def _changed(fact: AnyFact, kept: dict[str, TrustedKey]) -> Iterator[TrustedKey]:
    """The keys that end with this fact."""
    if not isinstance(fact, PasskeyChanged | UserChanged) or fact.change != "removed":
        return
    for key in kept.values():
        ends = fact.id == key.id if isinstance(fact, PasskeyChanged) else fact.name == key.person
        if ends and key.until is None:
            yield msgspec.structs.replace(key, until=fact.at)


class Keyring:
    """Every key that may have signed, and whether it is anchored in the trust file."""

    def __init__(self, trust: Trust | None, facts: Iterable[AnyFact]) -> None:
        self._kept: dict[str, TrustedKey] = {key.id: key for key in trust.keys} if trust is not None else {}
        self._anchored = set(self._kept)
        self._named = dict(self._kept)
        self.problems: list[str] = []
        """What the operators' log says about keys, and cannot be so."""
        for fact in facts:
            self._kept |= {key.id: key for key in _changed(fact, self._kept)}
            if isinstance(fact, PasskeyChanged) and fact.change == "registered":
                self._register(fact)

    def key(self, key_id: str) -> TrustedKey | None:
        return self._kept.get(key_id)

    def is_anchored(self, key_id: str) -> bool:
        return key_id in self._anchored

    def unanchored(self) -> list[TrustedKey]:
        return [key for key in self._kept.values() if key.id not in self._anchored]

    def _register(self, fact: PasskeyChanged) -> None:
        named = self._named.get(fact.id)
        if named is None:
            made = TrustedKey(id=fact.id, person=fact.person, public_key=fact.public_key, rp_id=fact.rp_id)
            if self._is_vouched(fact):
                self._anchored.add(fact.id)
            elif fact.id in self._anchored:
                return
            self._kept[fact.id] = made
        elif (named.person, named.public_key, named.rp_id) != (fact.person, fact.public_key, fact.rp_id):
            self.problems.append(f"passkey {fact.id} of {fact.person} is not the one that the trust file names")

    def _is_vouched(self, fact: PasskeyChanged) -> bool:
        """Signed by an anchored key of the same person, or by those of two who may vouch."""
        vouchers = set()
        for signature in fact.signatures:
            key = self._kept.get(signature.assertion.key)
            is_over = key is not None and key.until is not None and key.until <= fact.at
            if key is None or is_over or key.id not in self._anchored or key.person != signature.by:
                continue
            nonce = signature.assertion.nonce
            challenge = challenge_of_key("registered", fact.person, fact.id, fact.public_key, fact.rp_id, nonce)
            try:
                check_assertion(signature.assertion, challenge, public_key=key.public_key, rp_id=key.rp_id)
            except PlacetError:
                continue
            if key.person == fact.person:
                return True
            vouchers |= {key.person} if key.vouches else set()
        return len(vouchers) >= VOUCHERS
