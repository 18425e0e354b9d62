"""People whom an identity provider vouches for: known by issuer and subject alone, and never found by an address.

Rule of this file: an identity is tied to a user once, by the person who holds an invitation, or by a new user that is
made for it. A user who is here already is never taken over, whatever name or address the provider says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from placet.desk.access.accounts import NOT_USABLE, Accounts
from placet.desk.access.people import ROLES, Role, User, checked_groups
from placet.desk.access.records import decoded, read, record_of, unchanged
from placet.facts.errors import AccessDenied, UserError
from placet.facts.events import AnyFact, IdentityTied, InvitationChanged
from placet.ports import RecordStep
from placet.sso.oidc import Identity, Provider

_UNFIT = re.compile(r"[^a-z0-9._@+-]+")


class TiedIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose an identity is."""

    owner: str
    issuer: str
    subject: str
    at: float


class Identities(Accounts):
    """The same book of people, for those whom a provider vouches for."""

    async def of(self, identity: Identity) -> User | None:
        tied = read(await self._found("identity", identity.key), TiedIdentity)
        return None if tied is None else await self.user(tied.owner)

    async def admit(self, identity: Identity, provider: Provider) -> User:
        """A new user, for somebody with a verified address of a domain that may come. AccessDenied for others."""
        name, _, domain = identity.email.lower().rpartition("@")
        is_ours = identity.is_verified and name and domain in provider.domains
        if not is_ours:
            raise AccessDenied(
                f"{provider.shown} vouches for you, and this desk does not know you: ask an admin for a link."
            )
        wanted = _UNFIT.sub("-", (identity.name or name).lower()).strip("-.@+_")[:64] or name[:64]
        if await self.user(wanted) is not None:
            raise AccessDenied(f"There is a user {wanted} already. If that is you, ask an admin for a link.")
        user = await self.add_user(wanted, _role(provider.role), by=f"sso:{provider.name}")
        await self._tie(identity, user.name, [], [])
        return user

    async def accept_as(self, key: str, identity: Identity) -> User:
        """Use an invitation up: this identity is its user's from now on. AccessDenied where it cannot be."""
        invitation = await self.invitation(key)
        if invitation is None or invitation.name is None:
            raise AccessDenied(NOT_USABLE)
        link, record = await self._found("invitation", invitation.id), await self._found("user", invitation.name)
        if link is None or record is None:
            raise AccessDenied(NOT_USABLE)
        used = RecordStep(kind="invitation", id=invitation.id, was=link.data, now=None)
        user = decoded(record, User)
        fact = InvitationChanged(invitation.id, "used", user.name, user.role, user.name, self._now())
        await self._tie(identity, user.name, [unchanged(record), used], [fact])
        return user

    async def _tie(self, identity: Identity, owner: str, steps: Sequence[RecordStep], facts: Sequence[AnyFact]) -> None:
        now = self._now()
        tied = TiedIdentity(owner=owner, issuer=identity.issuer, subject=identity.subject, at=now)
        kept = record_of("identity", identity.key, tied, owner)
        made = RecordStep(kind="identity", id=identity.key, was=None, now=kept)
        fact = IdentityTied(owner, identity.issuer, identity.subject, owner, now)
        if not await self._change([*steps, made], [*facts, fact]):
            raise AccessDenied("This identity is somebody's at this desk already, or the link was used: ask an admin.")

    async def follow_groups(self, user: User, identity: Identity, provider: Provider) -> User:
        """The groups and the role that the provider's groups mean here. Groups that it does not manage stay."""
        if identity.groups is None or not provider.groups:
            return user
        managed = {group for mapped in provider.groups.values() for group in mapped.groups}
        found = [provider.groups[each] for each in identity.groups if each in provider.groups]
        groups = (set(user.groups) - managed) | {group for mapped in found for group in mapped.groups}
        roles = [_role(mapped.role) for mapped in found if mapped.role is not None]
        manages_roles = any(mapped.role is not None for mapped in provider.groups.values())
        role = max(roles, key=ROLES.index) if roles else _role(provider.role) if manages_roles else user.role
        by = f"sso:{provider.name}"
        try:
            return await self.change_user(user.name, groups=checked_groups(groups), role=role, by=by)
        except UserError:  # the last admin stays one
            return await self.change_user(user.name, groups=checked_groups(groups), by=by)


def _role(text: str) -> Role:
    found = next((each for each in ROLES if each == text and each != "guest"), None)
    if found is None:
        raise UserError(f"A provider's role is viewer, reviewer or admin, not {text!r}.")
    return found
