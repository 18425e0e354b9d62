"""Input that a call's tool function asks for in the middle: the questions, and what counts as an answer to them.

A tool function that needs a person's input ends for now: the questions, and whatever the tool function wants back with
the answers, become a fact, and nothing of the call stays in memory. The answers travel with the next attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from placet.core.json_schema import problem_with_schema, problems
from placet.facts.codec import Json, JsonObject, parse_arguments
from placet.facts.errors import UserError
from placet.facts.events import DecisionMade

Questions: TypeAlias = dict[str, JsonObject]
"""By key: `{"mode": "form", "message": …, "requestedSchema": …}` or `{"mode": "url", "message": …, "url": …}`."""

Answers: TypeAlias = dict[str, JsonObject]
"""By the same keys: `{"action": "accept", "content": …}`, or the action «decline» or «cancel»."""

ACTIONS = ("accept", "decline", "cancel")


def answers_of(questions: Questions, decision: DecisionMade) -> Answers:
    """What the tool function reads: a rejection declines, an approval agrees and says nothing more, an answer says
    it."""
    match decision.verdict:
        case "reject":
            return {key: {"action": "decline"} for key in questions}
        case "respond" if isinstance(decision.output, dict):
            return {key: dict(answer) for key, answer in decision.output.items()}
        case _:
            return {key: _agreed(question) for key, question in questions.items()}


def _agreed(question: JsonObject) -> JsonObject:
    return {"action": "accept"} if is_link(question) else {"action": "accept", "content": {}}


def is_link(question: JsonObject) -> bool:
    """Whether the person is sent to a page, and what they do there never passes through here."""
    return question.get("mode") == "url"


def problem_with_questions(questions: Questions) -> str | None:
    """Why no answer could be checked: a form whose schema is none. It is refused before a person sees it."""
    for key, question in questions.items():
        problem = None if is_link(question) else problem_with_schema(_schema(question))
        if problem is not None:
            return f"the question {key!r} has a schema that cannot be used: {problem}"
    return None


def check_agreement(questions: Questions) -> None:
    """UserError when a mere «yes» is no answer: the form wants values."""
    for key, question in questions.items():
        found = [] if is_link(question) else problems(_schema(question), {})
        if found:
            raise UserError(
                f"The question {key!r} asks for values, and an approval gives none: answer it with respond(item, …). "
                f"Missing: {_listed(found)}"
            )


def checked_answers(questions: Questions, output: Json) -> Answers:
    """What a person answered, by key, or UserError saying what does not fit.

    One question is answered by the values themselves, several by a mapping of their keys to the values of each. In the
    place of values may stand the whole answer, `{"action": "cancel"}` or `{"action": "accept", "content": {…}}`. A text
    is taken as the JSON of any of these.
    """
    if isinstance(output, str):
        output = parse_arguments(output) or output
    if not isinstance(output, Mapping):
        raise UserError(f"The call asks for input: an answer is a mapping of names to values, not {output!r}.")
    if len(questions) == 1:
        key, question = next(iter(questions.items()))
        inner = output[key] if set(output) == {key} and _is_by_key(question, key, output) else output
        return {key: _checked(key, question, inner)}
    if set(output) != set(questions):
        raise UserError(
            f"The call asks {len(questions)} questions: answer all of them, by key: {_listed(list(questions))}"
        )
    return {key: _checked(key, question, output[key]) for key, question in questions.items()}


def _is_by_key(question: JsonObject, key: str, output: Mapping[str, Any]) -> bool:
    """Whether the one answer was given under its question's key, and not as values one of which has that name."""
    return key not in _names(question) and isinstance(output[key], Mapping)


def _checked(key: str, question: JsonObject, given: Any) -> JsonObject:
    if _is_whole_answer(question, given):
        action, content = given["action"], given.get("content")
        if action != "accept":
            return {"action": action}
    else:
        content = given
    if is_link(question):
        if content:
            raise UserError(f"The question {key!r} sends a person to a page and takes no values: approve or reject it.")
        return {"action": "accept"}
    found = problems(_schema(question), {} if content is None else content)
    if found:
        raise UserError(f"The answer does not fit what the question {key!r} asks for: {_listed(found)}")
    return {"action": "accept", "content": {} if content is None else dict(content)}


def _is_whole_answer(question: JsonObject, given: Any) -> bool:
    """Whether this is an answer with its action, where no value of the form is called so."""
    if not isinstance(given, Mapping) or "action" in _names(question):
        return False
    return given.get("action") in ACTIONS and set(given) <= {"action", "content"}


def _schema(question: JsonObject) -> JsonObject:
    found = question.get("requestedSchema")
    return found if isinstance(found, dict) else {}


def _names(question: JsonObject) -> dict[str, object]:
    found = _schema(question).get("properties")
    return found if isinstance(found, dict) else {}


def _listed(texts: list[str]) -> str:
    return "; ".join(texts) + "."
