"""What a policy's text may hold: the words of its tables, and the same as a JSON Schema for editors."""

from __future__ import annotations

from placet.core.policy import Mode
from placet.declare.terms_shape import EVERY
from placet.facts.codec import JsonObject
from placet.facts.requirements import ASSURANCES, PARTS
from placet.policy.matchers import TESTS

MODES: tuple[Mode, ...] = ("enforce", "warn", "shadow")
WORD_FIELDS = ("agent", "source", "server", "started_by")
VERDICTS = ("allow", "deny", "ask")

_TEXTS: JsonObject = {
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
_DURATION: JsonObject = {
    "type": "string",
    "pattern": "^[0-9]+ *(s|m|h|d|w)$",
    "description": "A number and s, m, h, d or w: 90s, 30m, 4h, 7d.",
}
_STEP: dict[str, JsonObject] = {
    "approve": {"type": "integer", "minimum": 1, "description": "So many people have to approve."},
    "deny": {"type": "integer", "minimum": 1, "description": "So many denials end the question."},
    "from": {**_TEXTS, "description": "Members of these groups."},
    "distinct_from": {
        "anyOf": [{"enum": list(PARTS)}, {"type": "array", "items": {"enum": list(PARTS)}}],
        "description": "They must not be the one who plays this part.",
    },
    "assurance": {"enum": list(ASSURANCES), "description": "How sure it has to be that it was this person."},
}
_NEED: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **_STEP,
        "then": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": False, "properties": {**_STEP}},
            "description": "Further steps, in this order.",
        },
    },
}
_ASK: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **_STEP,
        "needs": {"type": "array", "items": _NEED, "minItems": 1, "description": "Any one of these decides."},
        "within": {**_DURATION, "description": "How long the question waits."},
        "at_deadline": {"enum": ["reject", "escalate"]},
        "because": {"type": "string", "description": "What the reviewer reads."},
        "break_glass": {"anyOf": [{"type": "boolean"}, _TEXTS]},
    },
}
_TEST: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        **{name: {"type": "number"} for name in ("at_most", "at_least", "above", "below")},
        **{name: {"type": "array", "minItems": 1} for name in ("one_of", "not_one_of")},
        **{name: {"type": "string", "minLength": 1} for name in ("prefix", "like", "pattern")},
        "words": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "equals": {},
        "present": {"type": "boolean"},
    },
}
_LIMIT: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "oneOf": [{"required": ["uses"]}, {"required": ["sum", "most"]}],
    "properties": {
        "uses": {"type": "integer", "minimum": 1, "description": "So many calls."},
        "sum": {"type": "string", "minLength": 1, "description": "The argument that is added up."},
        "most": {
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+([.][0-9]{1,6})?$"}],
            "description": "How much the sum may be: a whole number, or a decimal as a text.",
        },
        "by": {**_TEXTS, "description": "The arguments by whose values it is counted apart."},
        "every": {"enum": list(EVERY), "description": "It begins anew with every hour, day, ..."},
        "within": {**_DURATION, "description": "Or it looks back for so long."},
        "zone": {"type": "string", "description": "The time zone in which a day begins: Europe/Berlin."},
    },
}
_EXAMPLES: JsonObject = {"type": "array", "items": {"type": "object"}}
_RULE: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "oneOf": [{"required": [verdict]} for verdict in VERDICTS],
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "Unique. Logs and cards name the rule by it."},
        "tool": {**_TEXTS, "description": "Tools, by name or with * and ?. Without: all."},
        "agent": {**_TEXTS, "description": "Agents, by their address."},
        "source": {**_TEXTS, "description": "placet for runs of its own; of a guest what it comes through."},
        "server": {**_TEXTS, "description": "MCP servers."},
        "started_by": {**_TEXTS, "description": "Who started the run."},
        "args": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": ["string", "number", "boolean", "array"]}, _TEST]},
            "description": "Arguments, by name: a value, or tests. A dot leads inside: 'order.id'.",
        },
        "if": {"type": "string", "description": "An expression in CEL, such as args.cents <= 5000."},
        "allow": {"const": True},
        "deny": {"anyOf": [{"const": True}, {"type": "string", "description": "What the model reads."}]},
        "ask": {"anyOf": [{"const": True}, _ASK]},
        "relax": {"type": "boolean", "description": "Whether an allow lifts what the tool itself asks."},
        "budget": {
            "anyOf": [_LIMIT, {"type": "array", "items": _LIMIT, "minItems": 1}],
            "description": "How much an allow may let through. What that does not cover is asked about.",
        },
        "over": {
            "anyOf": [_LIMIT, {"type": "array", "items": _LIMIT, "minItems": 1}],
            "description": "It matches calls that go beyond one of these counts or sums of calls that began.",
        },
        "match": {**_EXAMPLES, "description": "Calls that the rule has to match."},
        "unless": {**_EXAMPLES, "description": "Calls that the rule must not match."},
    },
}
SCHEMA: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A policy of Placet",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "rule": {"type": "array", "items": _RULE},
        "rollout": {
            "type": "object",
            "additionalProperties": {"enum": list(MODES)},
            "description": "Per rule, by its name: enforce, warn or shadow. 'default' is for all others.",
        },
        "change": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **_STEP,
                "needs": {"type": "array", "items": _NEED, "minItems": 1, "description": "Any one of these decides."},
            },
            "description": "Of a policy that people vote on: who has to approve the next version.",
        },
    },
}


def keys_of(schema: JsonObject) -> tuple[str, ...]:
    found = schema["properties"]
    assert isinstance(found, dict)
    return tuple(found)


TOP_KEYS = keys_of(SCHEMA)
RULE_KEYS = keys_of(_RULE)
ASK_KEYS = keys_of(_ASK)
NEED_KEYS = keys_of(_NEED)
CHANGE_KEYS = (*_STEP, "needs")
STEP_KEYS = tuple(_STEP)
TEST_KEYS = (*TESTS, "present")
