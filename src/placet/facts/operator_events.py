"""The facts of the operators' log: what no single run's log can say."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from placet.facts.decision_events import AnyGrant
from placet.facts.fact import Fact
from placet.facts.signatures import KeyChange, KeySignature
from placet.facts.voting_settings import ApproverRule, Delegation, Rotation

HoldKind: TypeAlias = Literal["run", "agent", "tool"]


class HoldPlaced(Fact, frozen=True, tag="held"):
    """Of the operators' log: nothing that this covers starts from now on, approved or not."""

    kind: HoldKind
    name: str
    by: str | None
    at: float
    reason: str | None = None


class HoldLifted(Fact, frozen=True, tag="lifted"):
    """Of the operators' log: what this covered may start again."""

    kind: HoldKind
    name: str
    by: str | None
    at: float
    reason: str | None = None


class StandingGrantMade(Fact, frozen=True, tag="standing"):
    """Of the operators' log: a decision in some run reaches beyond it."""

    run: str
    """Empty: it was made at a desk, and not in a run."""
    grant: AnyGrant


class RunErased(Fact, frozen=True, tag="forgotten"):
    """Of the operators' log: what the facts of a run that had ended said was taken out of the store for good."""

    run: str
    by: str | None
    at: float
    reason: str | None
    length: int
    head: str
    """Where the run's log stood, and stands: its chain is the same without what was erased."""


class DeletedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that is gone, and where its log stood."""

    run: str
    length: int
    head: str


class RunsDeleted(Fact, frozen=True, tag="deleted"):
    """Of the operators' log: these runs were taken out of the store, logs and all. What stays of each is its place."""

    runs: list[DeletedRun]
    by: str | None
    at: float
    reason: str | None = None
    ended_before: float | None = None
    """Of a purge: it took all that had ended before this time."""


Pattern: TypeAlias = tuple[str, str]
"""Which calls are meant: patterns with `*` and `?` for the agent's path and the tool's name."""


class UserChanged(Fact, frozen=True, tag="user"):
    """Of the operators' log: who may use the desk, and what they may decide, as it is from now on."""

    name: str
    change: Literal["added", "changed", "removed"]
    by: str | None
    at: float
    role: str
    decides: list[Pattern]
    is_active: bool = True
    groups: list[str] = msgspec.field(default_factory=list)
    owner: str | None = None
    """Of a guest: who answers for it."""
    same_as: str | None = None
    """The first account of the same human being."""


class PasswordChanged(Fact, frozen=True, tag="password"):
    """Of the operators' log: a user has a new password. Nothing of it is recorded."""

    name: str
    by: str | None
    at: float
    invitation: str | None = None
    """The link that was followed, if one was."""


class InvitationChanged(Fact, frozen=True, tag="invitation"):
    """Of the operators' log: a link that sets a password was made, followed or revoked. Its key is not recorded."""

    id: str
    change: Literal["made", "used", "revoked"]
    name: str | None
    """Whom it is for; None: the first admin, who chooses a name."""
    role: str
    by: str | None
    at: float
    expires_at: float | None = None


class TokenChanged(Fact, frozen=True, tag="token"):
    """Of the operators' log: a program's key was made or revoked. Its text is not recorded."""

    id: str
    change: Literal["made", "revoked"]
    owner: str
    name: str
    role: str
    decides: list[Pattern]
    by: str | None
    at: float
    expires_at: float | None = None


class PasskeyChanged(Fact, frozen=True, tag="passkey"):
    """Of the operators' log: a person has a passkey from now on, or has it no more; or a copy of it was noticed."""

    id: str
    """Of the credential, in base64url."""
    change: KeyChange
    person: str
    name: str
    """What the person calls it."""
    public_key: str
    """In the encoding of WebAuthn (COSE), in base64url."""
    rp_id: str
    """The name of the site for which it signs."""
    by: str | None
    at: float
    signatures: list[KeySignature] = msgspec.field(default_factory=list)
    """By another key of this person, or by admins. Empty: nobody could sign it yet."""


class IdentityTied(Fact, frozen=True, tag="identity"):
    """Of the operators' log: an identity provider's word for this person opens this user's sessions from now on."""

    name: str
    issuer: str
    subject: str
    by: str | None
    at: float


class FourEyesSet(Fact, frozen=True, tag="four_eyes"):
    """Of the operators' log: from now on the person who started a run may not say yes to its calls where these fit."""

    patterns: list[Pattern]
    """Empty: nowhere."""
    by: str | None
    at: float
    reason: str | None = None


class ApproversSet(Fact, frozen=True, tag="approvers_set"):
    """Of the operators' log: what questions need at these tools from now on, and who is told when they wait."""

    rules: list[ApproverRule]
    """These and no others."""
    by: str | None
    at: float
    reason: str | None = None


class DelegationMade(Fact, frozen=True, tag="delegated"):
    """Of the operators' log: somebody's vote can be cast by somebody else, for a time."""

    delegation: Delegation
    at: float


class DelegationEnded(Fact, frozen=True, tag="undelegated"):
    """Of the operators' log: a delegation ends before its time."""

    id: str
    by: str | None
    at: float
    reason: str | None = None


class RotationSet(Fact, frozen=True, tag="rotation"):
    """Of the operators' log: who is on call from now on."""

    name: str
    rotation: Rotation | None
    """None: there is no such rotation any more."""
    by: str | None
    at: float
    reason: str | None = None


class GlassReviewed(Fact, frozen=True, tag="glass_reviewed"):
    """Of the operators' log: somebody looked at what a person did who went ahead alone."""

    request: str
    was_right: bool
    by: str | None
    at: float
    who: str | None = None
    """Who had gone ahead."""
    reason: str | None = None


PolicyWay: TypeAlias = Literal["file", "managed"]
"""By whom a policy may be changed: by whoever deploys its file, or by those whom its own `[change]` asks."""


class PolicyChanged(Fact, frozen=True, tag="policy_changed"):
    """Of the operators' log: another policy is in force from now on."""

    version: str
    """The digest of its text."""
    before: str | None
    """The version that was in force, as far as this store knows."""
    origin: str
    """The name of its file."""
    way: PolicyWay
    by: str | None
    """Of a managed policy: who proposed it. Who said yes stands in the log of its question."""
    at: float
    request: str | None = None
    """Of a managed policy: the question that people approved."""
    reason: str | None = None


class ReportedAfterEnd(Fact, frozen=True, tag="late_end"):
    """Of the operators' log: a guest told what happened to a call whose session was over. Evidence. What it gave is not
    kept: it would outlive the erasure of its run."""

    call: str
    guest: str
    outcome: Literal["finished", "failed"]
    at: float


SubscriptionChange: TypeAlias = Literal["made", "changed", "secret changed", "suspended", "resumed", "removed"]


class SubscriptionChanged(Fact, frozen=True, tag="subscription"):
    """Who is told of what happens was changed."""

    id: str
    change: SubscriptionChange
    channel: str
    name: str
    target: str
    """Where messages go: a host or a name. The whole address may hold a secret, and is not here."""
    by: str | None
    """None: the desk itself."""
    at: float
    detail: str | None = None


class ChatLinkChanged(Fact, frozen=True, tag="chat_link"):
    """Of the operators' log: an account in a chat was linked to a user of the desk, whose name its clicks count under
    from now on; or it was unlinked."""

    channel: str
    """Which chat: «slack»."""
    change: Literal["made", "removed"]
    account: str
    """The account in the chat: its workspace and its id there."""
    name: str
    """The user of the desk."""
    by: str | None
    at: float
