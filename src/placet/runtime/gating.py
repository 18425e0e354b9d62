"""The gate at work: asks each tool's rule about its call, and each standing decision about what must wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from placet.core.approvals import Entry, Ledger, is_hosted, name_of
from placet.core.approver_rules import rules_for, with_deadline, with_rules
from placet.core.calls import hosted_identity
from placet.core.casting import as_vote
from placet.core.deciding import is_about
from placet.core.four_eyes import has_approval, parties_of, why_decisions_do_not_count
from placet.core.gate import (
    Ask,
    Free,
    Unfit,
    Verdict,
    digest_of,
    digest_of_questions,
    is_first_version,
    judge_answer,
    may_be_granted,
)
from placet.core.policy import Question, all_needed, first_deadline
from placet.core.state import Call, RunFold
from placet.core.transitions import Status
from placet.declare.decisions import label_key
from placet.declare.description import summary_of
from placet.declare.hosted_tools import (
    HostedMCPCallable,
    MCPApprovalRequest,
    MCPToolApprovalFunction,
    MCPToolApprovalRequest,
)
from placet.declare.tool import Tool
from placet.facts.codec import JsonObject, parse_arguments, size_of, writable
from placet.facts.errors import AccessDenied, ModelBehaviorError
from placet.facts.events import (
    AnyFact,
    CallEnded,
    CallHeld,
    CallsAllowed,
    CallsDeferred,
    DecisionMade,
    GrantMade,
    Pattern,
    QuestionEscalated,
    RungClimbed,
)
from placet.facts.requirements import Requirement
from placet.facts.voting_settings import NO_SETTINGS, VotingSettings
from placet.ports import Store
from placet.runtime.casting import cast_in_code, facts_said, note_ladder, note_requirement, requirements_of
from placet.runtime.frame import Frame, Job, awaited, tool_context
from placet.runtime.granting import decision_by_grant
from placet.runtime.guardrails import judge_call
from placet.runtime.handoffs import ONLY_ONE, settle_handoff
from placet.runtime.on_approval import decide_in_code
from placet.runtime.output import failure_text, formatted
from placet.runtime.policing import judge_proposed
from placet.runtime.validating import opaque_in, validate_calls


async def gate_calls(frame: Frame, calls: list[Call]) -> None:
    """Judge calls that are not judged yet. Only an explicit «no approval needed» lets one run."""
    if frame.agent.handoffs:
        calls = await _set_handoffs_aside(frame, calls)
    tools = [frame.agent.tool_of(call) for call in calls]
    if frame.agent.mcp_servers or any(map(_is_switched, tools)):
        tools = await _tools_that_are_on(frame, calls)
    # Before any rule: a rule that judged what the model wrote, and not what the function gets, could be passed by
    # with a default, or with a number as a text.
    invalid = validate_calls(frame, calls, tools)
    verdicts = await _verdicts(frame, calls, tools, invalid)
    allowed = [call.id for call, verdict in zip(calls, verdicts, strict=True) if type(verdict) is Free]
    if allowed:
        frame.note(CallsAllowed(allowed))
        frame.judged.update(allowed)
    if len(allowed) < len(calls):
        await _hold_or_deny(frame, calls, tools, verdicts, invalid)


async def _tools_that_are_on(frame: Frame, calls: Sequence[Call]) -> list[Tool | None]:
    """The tools of these calls, where servers or user code say which there are. None: a tool that is switched off is
    one that does not exist, also for a model that remembers it from an earlier turn."""
    enabled = {tool.name: tool for tool in await frame.enabled_tools()}
    return [enabled.get(call.name) if call.server is None else frame.tool_of(call) for call in calls]


async def _verdicts(
    frame: Frame, calls: Sequence[Call], tools: Sequence[Tool | None], invalid: Mapping[str, Exception]
) -> Sequence[Verdict]:
    if any(map(_asks_code, tools)):
        await frame.journal.commit()  # rules are user code: the response is safe before they are asked
        judging = (_judge(frame, call, tool, invalid) for call, tool in zip(calls, tools, strict=True))
        verdicts: Sequence[Verdict] = await asyncio.gather(*judging)
    else:
        verdicts = [_judge_plainly(frame, call, tool, invalid) for call, tool in zip(calls, tools, strict=True)]
    if frame.config.policy is not None:
        verdicts = await judge_proposed(frame, frame.config.policy, calls, tools, verdicts)
    if any(map(_has_rules, tools)):
        verdicts = [await _by_rules(frame, *each) for each in zip(calls, tools, verdicts, strict=True)]
    return verdicts


async def _hold_or_deny(
    frame: Frame,
    calls: Sequence[Call],
    tools: Sequence[Tool | None],
    verdicts: Sequence[Verdict],
    invalid: Mapping[str, Exception],
) -> None:
    """Note what may not simply run. Only then is it asked who has answered already: a decision is about a question that
    stands in the log, with its number and its digest."""
    held: list[tuple[Call, Tool]] = []
    asked = [(call, tool) for call, tool, verdict in zip(calls, tools, verdicts, strict=True) if type(verdict) is Ask]
    needed = await requirements_of(frame, asked)
    settings = await frame.journal.store.voting_settings() if asked else NO_SETTINGS
    for call, tool, verdict in zip(calls, tools, verdicts, strict=True):
        if isinstance(verdict, Ask):
            assert tool is not None, "no person is asked about a tool that does not exist"
            _ask(frame, call, tool, verdict, needed.get(call.id), settings)
            held.append((call, tool))
        elif isinstance(verdict, str):
            text = verdict if tool is not None else await formatted(frame, "tool_not_found", call, verdict)
            frame.note(CallEnded(call.id, "denied", text))
    if invalid:
        await _answer_invalid(frame, calls, tools, invalid)
    if held:
        await _apply_decisions_by_hand(frame, [call for call, _ in held])
        await decide_by_grants(frame)
        await decide_in_code(frame, held)


def _ask(frame: Frame, call: Call, tool: Tool, verdict: Ask, own: Requirement | None, settings: VotingSettings) -> None:
    """Put a call before people: what is asked, what it needs by the tool, the policy and the desk, who is told."""
    rules = rules_for(settings, frame.run.response_agent, call.name) if settings.rules else []
    frame.note(hold(frame, call, tool, verdict.why, with_deadline(verdict.question, rules)))
    note_requirement(frame, call, with_rules(all_needed(own, verdict.question), rules))
    note_ladder(frame, call, rules)


async def judge_again(frame: Frame, calls: list[Call]) -> list[Call]:
    """Calls that an earlier drive let pass and did not start: the code may have changed since, so its rules are asked
    again. Those that still may run.
    """
    fresh: list[Call] = []
    await frame.look_for_tools()
    for call in calls:
        tool = frame.tool_of(call)
        invalid = validate_calls(frame, [call], [tool])
        verdict = await _judge(frame, call, tool, invalid)
        if frame.config.policy is not None:
            (verdict,) = await judge_proposed(frame, frame.config.policy, [call], [tool], [verdict])
        if isinstance(verdict, Free) or tool is None:
            frame.judged.add(call.id)
            fresh.append(call)
        elif isinstance(verdict, Ask):
            needed = await requirements_of(frame, [(call, tool)])
            settings = await frame.journal.store.voting_settings()
            _ask(frame, call, tool, verdict, needed.get(call.id), settings)
        elif isinstance(verdict, str):
            frame.note(CallEnded(call.id, "denied", verdict))
        else:
            await _answer_invalid(frame, [call], [tool], invalid)
    if len(fresh) < len(calls):
        await decide_by_grants(frame)
    return fresh


async def _answer_invalid(
    frame: Frame, calls: Sequence[Call], tools: Sequence[Tool | None], invalid: Mapping[str, Exception]
) -> None:
    """Arguments that do not fit are answered to the model that wrote them: neither a rule nor a person judges them."""
    for call, tool in zip(calls, tools, strict=True):
        if tool is None or call.id not in invalid or call.status not in (Status.PROPOSED, Status.ALLOWED):
            continue
        if call.id in frame.judged:
            continue  # no person has to be asked: the call fails where it would run
        job = Job(call, tool, call.effective_text)
        text, failure = await failure_text(job, tool_context(frame, job), invalid[call.id])
        frame.note(CallEnded(call.id, "denied", text))
        if failure is not None:
            frame.failures += (failure,)


async def _by_rules(frame: Frame, call: Call, tool: Tool | None, verdict: Verdict) -> Verdict:
    """Before a person is asked, the tool's input guardrails are: what they deny needs nobody's attention."""
    if tool is None or not isinstance(verdict, Ask) or not tool.tool_input_guardrails:
        return verdict
    job = Job(call, tool, call.effective_text)
    message = await judge_call(frame, job, tool_context(frame, job))
    return verdict if message is None else message


async def _set_handoffs_aside(frame: Frame, calls: list[Call]) -> list[Call]:
    """Defer the turn's first handoff until everything else has ended; the calls that are none."""
    asked = [
        call
        for call in calls
        if call.server is None
        and (found := frame.agent.handoff_named(call.name))
        and await found.is_on(frame.context, frame.agent)
    ]
    if asked:
        settle_handoff(frame, asked[0])
        frame.note(CallsDeferred([asked[0].id]))
        for call in asked[1:]:
            frame.note(CallEnded(call.id, "denied", ONLY_ONE))
    return [call for call in calls if call not in asked]


def _judge_plainly(frame: Frame, call: Call, tool: Tool | None, invalid: Mapping[str, Exception]) -> Verdict:
    """The verdict where no predicate has to be asked; a text is a denial that the model reads."""
    if tool is None:
        message = f"Tool '{call.name}' not found."
        if call.server is not None:
            message = f"No MCP server '{call.server}' is known here, so its tool '{call.name}' was not approved."
        if frame.config.tool_not_found_behavior == "raise_error":
            raise ModelBehaviorError(message)
        return message
    if call.server is not None:
        return _too_large(frame, call) or Ask(f"the model's provider would call it on the MCP server '{call.server}'")
    verdict = _too_large(frame, call) or judge_answer(tool.needs_approval)
    return Unfit() if type(verdict) is Ask and call.id in invalid else verdict


def _asks_code(tool: Tool | None) -> bool:
    """Whether code of the user's has to be asked about a call of this tool."""
    if tool is None:
        return False
    return callable(tool.needs_approval) or (isinstance(tool, HostedMCPCallable) and tool.decide is not None)


def _is_switched(tool: Tool | None) -> bool:
    """Whether the tool is not simply there: a rule or a server has to be asked whether it is."""
    return tool is not None and tool.is_enabled is not True


def _has_rules(tool: Tool | None) -> bool:
    return tool is not None and bool(tool.tool_input_guardrails)


def _too_large(frame: Frame, call: Call) -> str | None:
    limit = frame.config.limits.argument
    if size_of(call.arguments) > limit:
        return f"The arguments of tool '{call.name}' are larger than the limit of {limit} bytes."
    return None


async def _judge(frame: Frame, call: Call, tool: Tool | None, invalid: Mapping[str, Exception]) -> Verdict:
    if isinstance(tool, HostedMCPCallable) and tool.decide is not None:
        return _too_large(frame, call) or await _judge_hosted(frame, call, tool.decide)
    if tool is None or isinstance(tool.needs_approval, bool):
        return _judge_plainly(frame, call, tool, invalid)
    denial = _too_large(frame, call)
    if denial is not None:
        return denial
    if call.id in invalid:
        return Unfit()
    arguments = parse_arguments(call.effective_text)  # a copy of its own: a rule may change what it is given
    if arguments is None:
        return Ask("its arguments are not one JSON object, so its rule could not judge them")
    opaque = opaque_in(frame, call)
    if opaque:
        return Ask(f"validation makes something of {', '.join(opaque)} that JSON cannot show, so its rule cannot judge")
    rule = tool.needs_approval

    async def judged() -> Verdict:
        return judge_answer(await awaited(rule(frame.context, arguments, call.label or call.id)))

    return await _or_ask(judged())


async def _judge_hosted(frame: Frame, call: Call, decide: MCPToolApprovalFunction) -> Verdict:
    """What the callback of a hosted MCP server says: yes, no with a reason, or nothing clear, which asks a person."""
    assert call.server is not None
    request = MCPApprovalRequest(call.label, call.server, call.name, call.arguments)

    async def judged() -> Verdict:
        answer: object = await awaited(decide(MCPToolApprovalRequest(frame.context, request)))
        approve = answer.get("approve") if isinstance(answer, dict) else None
        if approve is True:
            return Free()
        if approve is False and isinstance(answer, dict):
            reason = answer.get("reason")
            return writable(reason) if isinstance(reason, str) else DENIED_BY_CODE
        return Ask(f"its on_approval_request answered {answer!r} and not {{'approve': True or False}}"[:200])

    return await _or_ask(judged())


DENIED_BY_CODE = "The call was not approved."


async def _or_ask(judging: Coroutine[Any, Any, Verdict]) -> Verdict:
    """What the user's rule says; one that fails asks a person."""
    try:
        return await judging
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # it is the run that was cancelled
        return Ask(f"its rule raised {type(error).__name__}")
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a rule that fails asks a person
        return Ask(f"its rule raised {type(error).__name__}: {error}")


def hold(frame: Frame, call: Call, tool: Tool, why: str | None, question: Question | None = None) -> CallHeld:
    within, at_deadline = first_deadline(tool.decide_within, tool.at_deadline, question)
    until = None if within is None else frame.journal.now() + within
    digest = digest_now(frame.run, call, tool, as_asked=True)
    outcome = at_deadline if until else None
    said = (summary_of(tool.name, tool.describe, _shown(call, as_asked=True)), tool.irreversible, tool.undo_window)
    rules = call.policy.rules if call.policy is not None else None
    return CallHeld(call.id, digest, tool.identity, tool.fingerprint, why, until, outcome, *said, rules)


def digest_now(run: RunFold, call: Call, tool: Tool, *, as_asked: bool = False, like: str | None = None) -> str:
    """The digest of what would run now: today's tool, the arguments in the log (or in the edit, unless `as_asked`), in
    the version of `like`."""
    is_old = like is not None and is_first_version(like)
    fingerprint = tool.first_fingerprint if is_old else tool.fingerprint
    shown = _shown(call, as_asked=as_asked, as_written=is_old)
    return digest_of(run.path, run.response_agent, tool.identity, fingerprint, shown, first_version=is_old)


def digest_of_asking(
    run: RunFold, call: Call, tool: Tool, questions: dict[str, JsonObject], *, like: str | None = None
) -> str:
    """The digest of what a person answers when the tool function of a call asks for input, with today's tool."""
    is_old = like is not None and is_first_version(like)
    fingerprint = tool.first_fingerprint if is_old else tool.fingerprint
    shown = _shown(call, as_written=is_old)
    return digest_of_questions(
        run.path, run.response_agent, tool.identity, fingerprint, shown, questions, first_version=is_old
    )


def _shown(call: Call, *, as_asked: bool = False, as_written: bool = False) -> JsonObject | str:
    """What a person saw of the arguments: the edit, or the values, or (as the first version had it) the model's own."""
    if call.edited is not None and not as_asked:
        return call.edited
    if call.values is not None and not as_written:
        return call.values
    arguments = parse_arguments(call.arguments)
    return call.arguments if arguments is None else arguments


async def decide_by_grants(frame: Frame) -> None:
    """Let standing decisions decide what waits, here and in nested runs.

    Each use is a decision of its own in the log. A call whose approval a person took back is left to people.
    """
    root, now = frame.journal.run, frame.journal.now()
    for run in list(root.family()):
        waiting = [call for call in run.calls.values() if may_be_granted(call, now)]
        if not waiting:
            continue
        grants = list(await frame.journal.store.standing_grants(run.response_agent))
        if not grants and not root.ledger.grants():
            continue
        four_eyes = await frame.journal.store.four_eyes()
        for call in waiting:
            await _decide_by_grant(frame, run, call, grants, four_eyes)


async def _decide_by_grant(
    frame: Frame, run: RunFold, call: Call, grants: list[GrantMade], four_eyes: Sequence[Pattern]
) -> None:
    journal = frame.journal
    found = await decision_by_grant(
        journal.store, frame.run_id, journal.run, run, call, grants, four_eyes, journal.now()
    )
    if found is not None:
        journal.note(run.path, found)


EXPIRED = "This call was not carried out: it was not decided in time."
NOT_ANSWERED = "This call was stopped: it asked for input, and no answer came in time. Parts of it may have been done."


def expire_questions(frame: Frame) -> None:
    """End or escalate what was not decided in time, if that was asked for: mere waiting decides nothing."""
    for path, fact in ends_by_time(frame.run, frame.journal.now()):
        frame.journal.note(path, fact)


def ends_by_time(root: RunFold, now: float) -> list[tuple[str, CallEnded | QuestionEscalated | RungClimbed]]:
    """What becomes of the questions whose time is over, by the path of their run. It needs no code of the run's."""
    found: list[tuple[str, CallEnded | QuestionEscalated | RungClimbed]] = []
    for run, call in root.waiting():
        if call.due_at is None or call.due_at > now:
            continue
        found += [(run.path, fact) for fact in _rungs_due(call, now)]
        if call.expires_at is None or call.expires_at > now:
            continue
        text = EXPIRED if call.status is Status.HELD else NOT_ANSWERED
        escalates = call.at_expiry == "escalate"
        found.append((run.path, QuestionEscalated(call.id) if escalates else CallEnded(call.id, "expired", text)))
    return found


def _rungs_due(call: Call, now: float) -> Iterator[RungClimbed]:
    """The rungs whose time has come. Of several that were missed, each is told: others may be told by each."""
    if call.status is Status.IN_DOUBT:
        return
    for place in range(call.climbed, len(call.ladder)):
        rung = call.ladder[place]
        if rung.at > now:
            return
        yield RungClimbed(call.id, place, rung.kind, rung.to)


async def absorb_decisions(frame: Frame) -> None:
    """Append what people said since the last look: on the context of the running run, or by hand before it began. What
    others appended meanwhile may hold a standing decision."""
    root, has_news, frame.has_news = frame.journal.run, frame.has_news, False
    words = root.ledger.staged()
    facts = await facts_said(frame.journal.store, root, words, frame.graph, frame.context)
    await refuse_own_yes(frame.journal.store, root, facts)
    frame.journal.note_words(words, facts)
    if has_news or any(isinstance(fact, GrantMade) for fact in facts):
        await decide_by_grants(frame)


async def refuse_own_yes(store: Store, root: RunFold, facts: Sequence[AnyFact]) -> None:
    """AccessDenied, before anything is written, where four eyes are demanded and one of these says yes to a call of its
    author's own run."""
    if has_approval(facts):
        patterns = await store.four_eyes()
        people = await store.people(parties_of(root, facts)) if patterns else {}
        why = why_decisions_do_not_count(patterns, people, root, facts)
        if why is not None:
            raise AccessDenied(f"Nothing was decided: {why}")


async def _apply_decisions_by_hand(frame: Frame, held: list[Call]) -> None:
    """Decisions that were made before the run, on a wrapper that belonged to none: they name their call by label, tool
    and arguments. A standing one becomes a grant of this run, so that it holds after a pause too.
    """
    if frame.by_hand is None or frame.path:
        return
    for call in held:
        await _decide_by_hand(frame, frame.by_hand, call)
    known = {grant.id for grant in frame.run.ledger.grants()}
    for grant in frame.by_hand.grants_by_hand():
        for call in held:
            entry = frame.run.ledger.entry(call.id)
            if entry is not None and _is_meant(frame, grant, call, entry) and grant.id not in known:
                known.add(grant.id)
                frame.note(_of_this_run(grant, call, entry))


async def _decide_by_hand(frame: Frame, by_hand: Ledger, call: Call) -> None:
    found, entry = by_hand.decision_by_hand(_key_by_hand(call)), frame.run.ledger.entry(call.id)
    if found is None or entry is None or found[0].owner not in ("", frame.agent.name):
        return
    if not is_about(found[0].arguments, entry):
        return
    decision = msgspec.structs.replace(found[1], call=call.id, request=call.request, digest=call.digest)
    if entry.open_ballot is not None:
        await cast_in_code(frame, [as_vote(decision, entry.open_ballot)])
    elif await _may_stand(frame, decision):
        frame.note(decision)


async def _may_stand(frame: Frame, decision: DecisionMade) -> bool:
    try:
        await refuse_own_yes(frame.journal.store, frame.run, [decision])
    except AccessDenied:
        return False
    return True


def _of_this_run(grant: GrantMade, call: Call, entry: Entry) -> GrantMade:
    """A grant made by hand, as one of this run."""
    made_with = call.id if grant.call == _key_by_hand(call) else None
    return msgspec.structs.replace(
        grant, agent=entry.agent, tool=entry.tool, fingerprint=entry.fingerprint, path="", call=made_with
    )


def _key_by_hand(call: Call) -> str:
    """By what a wrapper made by hand knows this call."""
    return label_key(call.name if call.server is None else hosted_identity(call.server, call.name), call.label)


def _is_meant(frame: Frame, grant: GrantMade, call: Call, entry: Entry) -> bool:
    """Whether a grant made by hand is about this call: by its agent's name, by its tool, and if a provider makes the
    call, by its server."""
    made_with = frame.by_hand.entry(grant.call) if frame.by_hand is not None and grant.call is not None else None
    if made_with is not None and made_with.owner not in ("", frame.agent.name):
        return False
    if is_hosted(grant.tool) or call.server is not None:
        return grant.tool == entry.tool
    return name_of(grant.tool) == call.name
