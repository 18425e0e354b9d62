"""Turning a person's decision about an item into a staged decision: on a state, on a running run, or on a wrapper made
by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from placet.clock import Clock
from placet.core.approvals import ANY_AGENT, Asking, Entry, Ledger, is_hosted, time_after
from placet.core.calls import APPROVAL_REQUEST, HOSTED_MCP, hosted_identity
from placet.core.casting import as_vote
from placet.core.deciding import find_by_id, find_by_look, refuse_if_late
from placet.core.elicitation import check_agreement, checked_answers
from placet.core.gate import digest_of, is_first_version
from placet.facts.budgets import GrantTerms
from placet.facts.codec import Json, JsonObject, NotPlain, canonical, encode, plain, plain_str, writable
from placet.facts.errors import ModelBehaviorError, StaleApproval, UserError
from placet.facts.events import Author, BoundedGrantMade, DecisionMade, GrantMade, Verdict
from placet.facts.ids import local_of, mint, path_of, split_call_id, split_request_id
from placet.facts.items import ToolApprovalItem, field_of
from placet.facts.native_items import NATIVE
from placet.facts.requirements import Assurance, without_signature
from placet.facts.signatures import SignedDecision

ItemOrId: TypeAlias = ToolApprovalItem | str
"""A call, named by its item, by our id, or by the provider's label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A standing decision and its bounds: `state.approve(item, always_approve=Grant(arguments={"currency": "EUR"},
    uses=3))`."""

    scope: Literal["run", "agent"] = "run"
    """`run`: this run, this agent, this tool. `agent`: also later runs of this agent on the same store."""
    arguments: Mapping[str, object] | None = None
    """The call must have exactly these values under these names; names that are not mentioned are free."""
    until: datetime | float | None = None
    uses: int | None = None
    matching: Mapping[str, object] | None = None
    """What arguments have to be: `{"cents": {"max": 5000}, "path": {"prefix": "/srv/"}, "currency": {"one_of":
    ["EUR"]}, "order_id": {"pattern": "[A-Z]{2}[0-9]+"}, "command": {"shell": ["git push origin *"]}}`."""
    budget: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    """How much it may spend: `{"sum": "cents", "most": 50000, "by": "customer", "every": "day", "zone":
    "Europe/Berlin"}`, or a list of such limits, which all have to cover a call."""

    def __post_init__(self) -> None:
        if self.scope not in ("run", "agent"):
            raise UserError(f"A grant's scope is 'run' or 'agent', not {self.scope!r}.")
        if self.arguments is not None and not isinstance(self.arguments, Mapping):
            raise UserError(
                f"A grant's arguments are names and the values that a call must have, not {self.arguments!r}."
            )
        uses: object = self.uses
        if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or uses < 1):
            raise UserError(f"A grant's uses is a whole number, 1 or more (or None), not {uses!r}.")
        until: object = self.until
        is_time = isinstance(until, int | float) and not isinstance(until, bool) and math.isfinite(until)
        if until is not None and not is_time and not isinstance(until, datetime):
            raise UserError(f"A grant's until is a datetime, or seconds since the epoch, not {until!r}.")
        if isinstance(self.until, datetime) and self.until.tzinfo is None:
            raise UserError("A grant's `until` needs a time zone: datetime(…, tzinfo=…), or seconds since the epoch.")
        self.terms()

    def terms(self) -> GrantTerms | None:
        """What older code would not know of it; UserError where it means nothing."""
        if self.matching is None and self.budget is None:
            return None
        from placet.declare.terms_shape import BadTerms, limits_of, matchers_of  # as `import placet` stays light

        try:
            matching = [] if self.matching is None else matchers_of(self.matching, "A grant's matching")
            limits = [] if self.budget is None else list(limits_of(self.budget, "A grant's budget"))
            if self.uses is not None:
                limits = [*limits_of([*limits, {"uses": self.uses}], "A grant's budget")]
        except BadTerms as error:
            raise UserError(str(error)) from error
        return GrantTerms(matching, limits)


class DecisionInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided about a call."""

    verdict: Verdict
    always: bool | Grant = False
    by: str | None = None
    reason: str | None = None
    message: str | None = None
    arguments: JsonObject | None = None
    output: Json = None
    via: str | None = None
    """Through which door it came."""
    assurance: Assurance = "none"
    on_behalf_of: str | None = None
    """Whose vote it is, where a delegate casts it."""
    breaks_glass: bool = False
    """They go ahead alone."""
    signed: SignedDecision | None = None


def _check_input(given: DecisionInput) -> None:
    """What cannot be written into the log, or means nothing, is refused where it is said."""
    always: object = given.always
    if not isinstance(always, bool | Grant):
        raise UserError(f"«Always» is True, False or a Grant, not {always!r}.")
    if given.always and given.signed is not None:
        raise UserError("A signature is about one call: it cannot stand for later ones. Sign without «always».")
    if given.always and given.verdict == "respond":
        raise UserError("An answer is given to one call: it cannot stand for later ones. Respond without «always».")
    for name in ("by", "reason", "message"):
        text: object = getattr(given, name)
        if text is not None and not isinstance(text, str):
            raise UserError(f"A decision's {name} is a text, not a {type(text).__name__}.")
        if isinstance(text, str) and writable(text) != text:
            raise UserError(f"A decision's {name} must be valid Unicode: it holds half of a surrogate pair.")


def _with_plain_texts(given: DecisionInput) -> DecisionInput:
    """The same in plain texts, whatever kind of text was given."""
    if {type(given.by), type(given.reason), type(given.message)} <= {str, type(None)}:
        return given
    texts = {"by": given.by, "reason": given.reason, "message": given.message}
    return msgspec.structs.replace(
        given, **{name: None if text is None else plain_str(text) for name, text in texts.items()}
    )


def stage_decision(
    ledger: Ledger, run_ids: Sequence[str], item: ItemOrId, given: DecisionInput, clock: Clock, *, by_hand: bool = False
) -> None:
    """Note the decision in the ledger. By hand (or without a run) any item is taken, by its id or its label."""
    takes_any = by_hand or not run_ids
    if takes_any and isinstance(item, ToolApprovalItem):
        _refuse_if_unknowable(item, given)
    entry = entry_of_item(item, run_ids) if takes_any else find_entry(ledger, run_ids, item)
    refuse_if_late(entry, clock.now())
    decision, grants = facts_of_decision(entry, given, clock.now(), ledger.all_grants())
    ballot = entry.open_ballot
    if ballot is None:
        ledger.stage([decision], grants, [entry] if takes_any else [])
    else:
        said = (*ballot.votes, *ledger.staged_votes(entry.call))
        known = msgspec.structs.replace(ballot, votes=said)
        ledger.stage([], votes=[as_vote(decision, known, grants, via=given.via, assurance=given.assurance)])


def facts_of_decision(
    entry: Entry, given: DecisionInput, now: float, earlier_grants: Iterable[GrantMade] = ()
) -> tuple[DecisionMade, list[GrantMade]]:
    """What a person decided about a call, as facts. `earlier_grants`: the grants that a new one is to come after."""
    _check_input(given)
    given = _with_plain_texts(given)
    refuse_if_hosted(entry, given.verdict)
    if isinstance(entry, Asking):
        given = _as_answer(entry, given)
    elif given.verdict == "respond":
        given = msgspec.structs.replace(given, output=_as_model_reads(given.output))
    digest = entry.digest
    if given.arguments is not None:
        of_first_version = is_first_version(entry.digest)
        digest = digest_of(
            path_of(entry.call),
            entry.agent,
            entry.tool,
            entry.fingerprint,
            given.arguments,
            first_version=of_first_version,
        )
    at = time_after(earlier_grants, entry.agent, entry.tool, now) if given.always else now
    decision = DecisionMade(
        call=entry.call,
        request=entry.request,
        digest=digest,
        verdict=given.verdict,
        by=given.by,
        at=at,
        reason=given.reason,
        message=given.message,
        arguments=given.arguments,
        output=given.output,
        via=given.via,
        assurance=without_signature(given.assurance) if given.signed is None else given.assurance,
        signed=given.signed,
    )
    return decision, [_grant(entry, given, at)] if given.always else []


def refuse_if_hosted(entry: Entry, verdict: Verdict) -> None:
    """A call that the model's provider makes itself can be allowed or not: nobody can change it or answer it."""
    if entry.tool.startswith(f"{HOSTED_MCP}:") and verdict in ("edit", "respond"):
        what = "its arguments cannot be changed" if verdict == "edit" else "it cannot be answered in its place"
        raise UserError(
            f"The tool '{entry.name}' is called by the model's provider, on an MCP server: {what}. "
            "Approve or reject it."
        )


def _as_model_reads(answer: Json) -> Json:
    return answer if isinstance(answer, str | list) else encode(answer).decode()


def _as_answer(entry: Asking, given: DecisionInput) -> DecisionInput:
    """The decision as an answer to what the tool function of a running call asks; UserError where it is none."""
    if given.always:
        raise UserError(f"Call {entry.call} asks for input: what is answered once holds for this question only.")
    match given.verdict:
        case "edit":
            raise UserError(f"Call {entry.call} runs and asks for input: answer with respond(item, …), or reject.")
        case "approve":
            check_agreement(entry.questions)
        case "respond":
            answers: dict[str, Json] = dict(checked_answers(entry.questions, given.output))
            return msgspec.structs.replace(given, output=answers)
        case "reject":
            pass
    return given


def find_entry(ledger: Ledger, run_ids: Sequence[str], item: ItemOrId) -> Entry:
    """The one waiting call that is meant: by our id, or by label, tool and arguments."""
    if isinstance(item, str):
        return _find_by_text(ledger, run_ids, item)
    if not isinstance(item, ToolApprovalItem):
        raise UserError(
            f"A call is named by its ToolApprovalItem, its id or its label, not by a {type(item).__name__}."
        )
    if not item.id:
        return find_by_look(ledger, item.call_id or "", item.name, item.arguments)
    owner, local = split_call_id(item.id)
    if owner not in run_ids:
        raise UserError(f"The item {item.id} is of another run: this is {run_ids[-1]}.")
    entry = find_by_id(ledger, local)
    if item.digest and item.digest != entry.digest:
        raise StaleApproval(f"Call {local} changed since this item was shown, and is asked about anew: look again.")
    return entry


def _find_by_text(ledger: Ledger, run_ids: Sequence[str], text: str) -> Entry:
    if not text:
        raise UserError("An empty text names no call.")
    owner, local = split_call_id(text)
    asked = split_request_id(text)
    if asked is not None:
        owner, local = asked[:2]
    elif not owner:
        local = local_of(text) or text
    is_label = any(entry.label == text for entry in ledger.open_entries())
    is_place = not owner and not is_label and ledger.is_open(local)  # a place alone says nothing of another run
    if owner not in run_ids and not is_place:
        return find_by_look(ledger, text, None, None)
    entry = find_by_id(ledger, local)
    if asked is not None and asked[2] != entry.request:
        raise StaleApproval(f"Call {local} was asked about anew since {text}: look again.")
    return entry


def entry_of_item(item: ItemOrId, run_ids: Sequence[str]) -> Entry:
    """An entry for an item that this ledger has not seen: of this run, by its id, or made by hand, by its label."""
    if not isinstance(item, ToolApprovalItem):
        raise UserError("A wrapper that belongs to no run knows no calls: give the ToolApprovalItem itself.")
    owner, local = split_call_id(item.id)
    if item.id and owner in run_ids:
        asked = split_request_id(item.request_id)
        number = 1 if asked is None else asked[2]
        return Entry(
            call=local, label=item.call_id or "", name=item.name or "", request=number, digest=item.digest,
            tool=identity_of(item), agent=item.agent_path, arguments=item.arguments or "",
        )  # fmt: skip
    label, name, tool = item.call_id or "", item.name or "", identity_of(item)
    return Entry(
        call=label_key(tool if is_hosted(tool) else name, label),
        label=label,
        name=name,
        tool=tool,
        arguments=item.arguments or "",
        owner=str(getattr(item.agent, "name", "")),
    )


def _hosted_request(item: ToolApprovalItem) -> object | None:
    """The provider's request to call a tool itself, where the item is one, or holds one; None: a call of ours."""
    kind = field_of(item.raw_item, "type")
    if kind == "hosted_tool_call":
        return field_of(item.raw_item, "provider_data") or {}
    return item.raw_item if kind == APPROVAL_REQUEST else None


def _refuse_if_unknowable(item: ToolApprovalItem, given: DecisionInput) -> None:
    """A hosted call whose item does not tell server, tool and arguments: a yes to it could mean anything."""
    request = _hosted_request(item)
    if request is None:
        return
    if given.always:
        if field_of(request, "server_label") and item.name:
            return  # it is about all calls of this tool, so that it takes no one of them
        raise UserError(
            "A standing decision about a hosted MCP tool needs an item with a non-empty server_label and tool name."
        )
    if not all(field_of(request, name) for name in ("id", "server_label", "arguments")) or not item.name:
        raise ModelBehaviorError(
            f"This item of type '{field_of(item.raw_item, 'type')}' has no canonical invocation identity (server, "
            "tool, arguments): nobody can tell what a decision about it would allow."
        )


def identity_of(item: ToolApprovalItem) -> str:
    """By what decisions know the tool of an item."""
    kind, request = field_of(item.raw_item, "type"), _hosted_request(item)
    if request is not None:
        return hosted_identity(str(field_of(request, "server_label")), item.name or "")
    native = NATIVE.get(kind) if isinstance(kind, str) else None
    return f"{'function' if native is None else native.tool}:{item.name or ''}"


BY_HAND = "by-hand:"


def label_key(name: str, label: str) -> str:
    return f"{BY_HAND}{name}:{label}"


def _grant(entry: Entry, given: DecisionInput, now: float) -> GrantMade:
    bounds = given.always if isinstance(given.always, Grant) else Grant()
    until = bounds.until.timestamp() if isinstance(bounds.until, datetime) else bounds.until
    terms = bounds.terms()
    if terms is not None and terms.budget and given.verdict == "reject":
        raise UserError("A budget bounds what is approved: a standing no has none. Leave it out.")
    kind = GrantMade if terms is None else BoundedGrantMade
    return kind(
        id=mint("grant"),
        agent=entry.agent,
        tool=entry.tool,
        fingerprint=entry.fingerprint,
        verdict="reject" if given.verdict == "reject" else "approve",
        by=given.by,
        at=now,
        reason=given.reason,
        message=given.message,
        scope=bounds.scope,
        arguments=None if bounds.arguments is None else plain_object(bounds.arguments, "The grant's arguments"),
        until=until,
        uses=bounds.uses if terms is None else None,
        path="" if entry.agent == ANY_AGENT else path_of(entry.call),
        call=entry.call or None,
        authors=None if given.assurance == "none" else [Author(given.by, given.assurance)],
        via=given.via,
        terms=terms,
    )


def plain_answer(output: object) -> Json:
    """An answer that a person gave, as JSON, or UserError naming what cannot be."""
    try:
        return plain(output, "output")
    except NotPlain as error:
        raise UserError(f"The answer cannot be written as JSON: {error}.") from error


def plain_object(value: Mapping[str, object], what: str) -> JsonObject:
    """Arguments that a person gave, as JSON, or UserError naming what cannot be."""
    try:
        found = plain(value, "arguments")
    except NotPlain as error:
        raise UserError(f"{what} cannot be written as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise UserError(f"{what} must be a mapping, not a {type(value).__name__}.")
    return found


def canonical_text(arguments: JsonObject) -> str:
    return canonical(arguments).decode()
