"""Expressions in CEL: what the matchers cannot say. Checked when the policy is loaded, bounded when they are judged.

The library evaluates and does not check types. So names and fields are checked here, on the text, against what the
tool takes; and what an evaluation could cost is worked out before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from placet.core.policy import Facts, Subject, Unjudged
from placet.facts.codec import Json, JsonObject
from placet.facts.errors import UserError
from placet.policy.matchers import Malformed, linear_pattern
from placet.policy.source_map import did_you_mean

if TYPE_CHECKING:
    import cel

NAMES = ("agent", "args", "hour", "minute", "server", "source", "started_by", "tool", "weekday")
"""What an expression can speak of. Hours and days are those of UTC."""
FUNCTIONS = frozenset(
    [
        "all",
        "bool",
        "bytes",
        "contains",
        "double",
        "duration",
        "endsWith",
        "exists",
        "exists_one",
        "filter",
        "has",
        "int",
        "map",
        "matches",
        "max",
        "min",
        "size",
        "startsWith",
        "string",
        "timestamp",
        "type",
        "uint",
        "lowerAscii",
        "upperAscii",
        "trim",
        "split",
        "join",
        "replace",
    ]
)
_MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})
_WORDS = frozenset({"true", "false", "null", "in"})
MOST_TEXT = 2000
MOST_SAID = 200
"""So many characters are said of what the library says about a fault."""
MOST_STEPS = 100_000
"""So many elements may be looked at in one evaluation: about a tenth of a second."""
_MOST_INTEGER = 1 << 63

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)|(?P<text>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|\"(?:\\.|[^"\\\n])*\"|'(?:\\.|[^'\\\n])*'))|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?)|(?P<sign>&&|\|\||[<>=!]=|[^\s\w])""",
    re.DOTALL,
)


class Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    at: int


def tokens_of(source: str) -> list[Token]:
    found: list[Token] = []
    place = 0
    while place < len(source):
        match = _TOKEN.match(source, place)
        if match is None or match.lastgroup is None:
            raise Malformed(f"{source[place]!r} cannot stand there")
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), place))
        place = match.end()
    return found


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with an expression, and where in its text."""

    at: int
    message: str
    suggestion: str | None = None


class Expression:
    """One expression, compiled."""

    def __init__(self, source: str) -> None:
        if len(source) > MOST_TEXT:
            raise Malformed(f"it is longer than {MOST_TEXT} characters")
        self.source = source
        self._tokens = tokens_of(source)
        self._program = _compiled(source)
        self._depth = max((depth for depth in _depths(self._tokens)), default=0)
        for fault in self._unknown_names():
            raise Malformed(" ".join(filter(None, (fault.message, fault.suggestion))))
        self._check_patterns()

    @property
    def text(self) -> str:
        return self.source

    @property
    def is_constant(self) -> bool:
        return not any(token.kind == "name" and token.text not in _WORDS for token in self._tokens)

    def constant(self) -> bool:
        """What an expression without names always gives."""
        return self._program.execute({}) is True

    def _unknown_names(self) -> Iterator[Fault]:
        bound = set(_bound(self._tokens))
        tokens = self._tokens
        for place, token in enumerate(tokens):
            if token.kind != "name" or token.text in _WORDS:
                continue
            is_call = place + 1 < len(tokens) and tokens[place + 1].text == "("
            is_member = place > 0 and tokens[place - 1].text == "."
            if is_call and token.text not in FUNCTIONS:
                message = f"there is no function '{token.text}'."
                yield Fault(token.at, message, did_you_mean(token.text, FUNCTIONS))
            elif not is_call and not is_member and token.text not in bound and token.text not in NAMES:
                yield Fault(token.at, f"'{token.text}' is unknown here.", did_you_mean(token.text, NAMES))

    def _check_patterns(self) -> None:
        """A pattern is written in the policy: one that a model writes could take any time to compile."""
        tokens = self._tokens
        for place, token in enumerate(tokens):
            if token.text != "matches" or token.kind != "name":
                continue
            given = [each for each in tokens[place + 2 : place + 4] if each.text != ","]
            literal = given[0] if given and given[0].kind == "text" else None
            if literal is None or given[1:2] == [] or given[1].text != ")":
                raise Malformed("the pattern of matches(…) has to be written out: text.matches('…')")
            linear_pattern(str(_compiled(literal.text).execute({})))

    def fields(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The arguments that it speaks of: where, and which."""
        tokens = self._tokens
        for place, token in enumerate(tokens):
            is_member = place > 0 and tokens[place - 1].text == "."
            if token.text == "args" and token.kind == "name" and not is_member:
                path = tuple(_path_after(tokens, place + 1))
                if path:
                    yield token.at, path

    def faults(self, schema: JsonObject) -> Iterator[Fault]:
        """The fields that the tool does not have."""
        for at, path in self.fields():
            wrong = unknown_field(schema, path)
            if wrong is not None:
                yield Fault(at, f"there is no argument '{wrong.name}'.", did_you_mean(wrong.name, wrong.known))

    def holds(self, facts: Facts) -> bool:
        facts.subject.readable()
        schema = facts.subject.schema
        fault = next(self.faults(schema), None) if schema is not None else None
        if fault is not None:
            raise Unjudged(f"its expression is about another tool: {fault.message}")
        view = _view_of(facts)
        if view.size**self._depth > MOST_STEPS:
            raise Unjudged("its expression would take too long for arguments of this size")
        try:
            answer = self._program.execute(view.context)
        except KeyError as error:
            raise Unjudged(f"its expression needs {error}, which is not there") from None
        except Exception as error:  # noqa: BLE001  # whatever goes wrong inside, a person is asked
            raise Unjudged(f"its expression failed: {_at_a_word(str(error))}") from None
        if answer is True or answer is False:
            return bool(answer)
        raise Unjudged(f"its expression gave {type(answer).__name__}, not true or false")


def _compiled(source: str) -> cel.Program:
    try:
        import cel  # heavy, and an extra: policies without expressions do without it
    except ImportError:
        raise UserError("Expressions in a policy need the extra 'policy': pip install 'placet[policy]'.") from None
    try:
        return cel.compile(source)
    except ValueError as error:
        lines = str(error).split("ERROR: ", 2)
        message = lines[1].splitlines()[0] if len(lines) > 1 else str(error)
        raise Malformed(f"it is no expression: {_at_a_word(message.replace('<input>:', 'at '))}") from None


def _at_a_word(text: str) -> str:
    """In one line of at most so many characters, which says where it was cut, and never cuts a word."""
    words = " ".join(text.split())
    if len(words) <= MOST_SAID:
        return words
    kept, space, _ = words[:MOST_SAID].rpartition(" ")
    return f"{kept} …" if space else f"{words[: MOST_SAID - 1]}…"


def _bound(tokens: list[Token]) -> Iterator[str]:
    """The names that macros such as `all(x, …)` bind."""
    for place, token in enumerate(tokens[:-3]):
        if token.text in _MACROS and tokens[place + 1].text == "(" and tokens[place + 3].text == ",":
            yield tokens[place + 2].text


def _depths(tokens: list[Token]) -> Iterator[int]:
    """How deep macros that look at every element stand in each other, at each of them."""
    brackets: list[bool] = []
    for place, token in enumerate(tokens):
        if token.text == "(":
            brackets.append(place > 0 and tokens[place - 1].text in _MACROS)
            yield sum(brackets)
        elif token.text == ")" and brackets:
            brackets.pop()


def _path_after(tokens: list[Token], place: int) -> Iterator[str]:
    """The fields behind `args`: `.order.id`, `["order"]`, up to a function or an index."""
    while place + 1 < len(tokens):
        sign, name = tokens[place], tokens[place + 1]
        if sign.text == "." and name.kind == "name":
            if place + 2 < len(tokens) and tokens[place + 2].text == "(":
                return
            yield name.text
            place += 2
        elif sign.text == "[" and name.kind == "text" and place + 2 < len(tokens) and tokens[place + 2].text == "]":
            yield name.text.strip("\"'")
            place += 3
        else:
            return


# -- what a tool takes ------------------------------------------------------------------------------------------------


class UnknownField(msgspec.Struct, frozen=True):
    name: str
    known: tuple[str, ...]


def unknown_field(schema: JsonObject, path: Iterable[str]) -> UnknownField | None:
    """The first step of a path that arguments of this schema never have; None: they may have it."""
    here: Json = schema
    done: list[str] = []
    for name in path:
        properties, is_open = _properties(schema, here, 0)
        done.append(name)
        if name in properties:
            here = properties[name]
        elif is_open:
            return None
        else:
            return UnknownField(".".join(done), tuple(".".join([*done[:-1], known]) for known in properties))
    return None


def field_schema(schema: JsonObject, path: Iterable[str]) -> JsonObject | None:
    """What the schema says of one argument, if it says it in one place."""
    here: Json = schema
    for name in path:
        found = _properties(schema, here, 0)[0].get(name)
        if found is None:
            return None
        here = found
    resolved = _resolved(schema, here)
    return resolved if isinstance(resolved, dict) else None


_WAYS = ("anyOf", "oneOf", "allOf")
_PLAIN_TYPES = ("null", "string", "integer", "number", "boolean")


def _properties(root: JsonObject, schema: Json, depth: int) -> tuple[dict[str, Json], bool]:
    """The fields that an object of this schema may have; and whether it may have others, too."""
    here = _resolved(root, schema)
    if not isinstance(here, dict) or depth > 8:
        return {}, True
    own, extra = here.get("properties"), here.get("additionalProperties")
    found: dict[str, Json] = dict(own) if isinstance(own, dict) else {}
    is_open = extra not in (None, False) or "patternProperties" in here
    for word in _WAYS:
        ways = here.get(word)
        for each in ways if isinstance(ways, list) else ():
            resolved = _resolved(root, each)
            if isinstance(resolved, dict) and resolved.get("type") in _PLAIN_TYPES:
                continue
            more, is_open_there = _properties(root, each, depth + 1)
            found = {**more, **found}
            is_open = is_open or is_open_there
    return found, is_open or (not found and extra is None)


def _resolved(root: JsonObject, schema: Json) -> Json:
    for _ in range(16):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        schema = root
        for part in reference[2:].split("/"):
            schema = schema.get(part) if isinstance(schema, dict) else None
    return None


# -- one call, as expressions see it ----------------------------------------------------------------------------------


class View(msgspec.Struct, frozen=True):
    context: cel.Context
    size: int
    """How many values there are in the arguments."""


class CallFacts:
    """One call, for all rules: what an expression sees of it is made when the first one asks."""

    __slots__ = ("_view", "subject")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._view: View | Unjudged | None = None

    def view(self) -> View:
        if self._view is None:
            try:
                self._view = _made_view(self.subject)
            except Unjudged as error:
                self._view = error
        if isinstance(self._view, Unjudged):
            raise self._view
        return self._view


def _view_of(facts: Facts) -> View:
    return facts.view() if isinstance(facts, CallFacts) else _made_view(facts.subject)


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _made_view(subject: Subject) -> View:
    import cel  # an expression was compiled before: it is there

    arguments = subject.arguments or {}
    at = datetime.fromtimestamp(subject.now, UTC)
    seen: Mapping[str, object] = {
        "args": arguments,
        "agent": subject.agent,
        "tool": subject.tool,
        "source": subject.source,
        "server": subject.server,
        "started_by": subject.started_by,
        "hour": at.hour,
        "minute": at.minute,
        "weekday": _DAYS[at.weekday()],
    }
    return View(cel.Context(dict(seen)), _size(arguments))


def _size(arguments: JsonObject) -> int:
    """How many values there are. Unjudged for an integer that the library would round."""
    count = 0
    todo: list[Json] = [arguments]
    while todo:
        value = todo.pop()
        count += 1
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, int) and not -_MOST_INTEGER <= value < _MOST_INTEGER:
            raise Unjudged("one of its numbers is too large to be compared exactly")
    return count
