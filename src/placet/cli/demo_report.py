"""The demo's report for programs: what waits, what was decided, what came of it."""

from __future__ import annotations

from placet.cli.cards import Card
from placet.cli.demo_session import DemoSession
from placet.core.story import CallStory
from placet.facts.codec import JsonObject, parse_arguments
from placet.facts.events import DecisionMade


def report_of(session: DemoSession) -> JsonObject:
    story = session.story()
    return {
        "run": session.result.run_id,
        "agent": story.agent,
        "status": "ended" if session.has_ended else "waiting",
        "turns": len(story.turns),
        "waiting": [_waiting(card) for card in session.waiting()],
        "calls": [_call(call) for call in story.calls()],
        "final_output": session.result.final_output,
        "refunds": session.shop.refunds(),
    }


def _waiting(card: Card) -> JsonObject:
    item = card.item
    return {
        "number": card.number,
        "id": item.id,
        "kind": item.kind,
        "agent": item.agent_path,
        "tool": item.name,
        "arguments": card.arguments,
        "digest": item.digest,
        "why": item.why,
        "stakes": card.stakes,
    }


def _call(call: CallStory) -> JsonObject:
    arguments = parse_arguments(call.arguments)
    return {
        "id": call.id,
        "tool": call.name,
        "arguments": call.arguments if arguments is None else arguments,
        "decisions": [_decision(decision) for decision in call.decisions],
        "outcome": call.outcome,
        "output": call.output,
    }


def _decision(decision: DecisionMade) -> JsonObject:
    return {
        "verdict": decision.verdict,
        "by": decision.by,
        "at": decision.at,
        "message": decision.message,
        "arguments": decision.arguments,
        "output": decision.output,
    }
