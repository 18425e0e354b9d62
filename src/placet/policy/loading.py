"""From a policy's text to rules. All faults are found at once, with their places; with one fault nothing is loaded."""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import TypeVar

import msgspec

from placet.core.budget import rule_count
from placet.core.policy import (
    OWN_SOURCE,
    Condition,
    Mode,
    Policy,
    Question,
    Rule,
    RuleVerdict,
    Subject,
    is_pattern,
    matches,
)
from placet.declare.terms_shape import BadTerms, limits_of
from placet.facts.budgets import Limit
from placet.facts.codec import JsonObject
from placet.facts.errors import PolicyRefused, UserError
from placet.facts.requirements import ANYBODY, Needs, Requirement
from placet.policy.budget_fields import budget_faults
from placet.policy.expressions import CallFacts, Expression, unknown_field
from placet.policy.matchers import ArgumentMatcher, Malformed, WordMatcher, argument_matcher, word_matcher
from placet.policy.shape import (
    ASK_KEYS,
    CHANGE_KEYS,
    MODES,
    NEED_KEYS,
    RULE_KEYS,
    STEP_KEYS,
    TEST_KEYS,
    TOP_KEYS,
    VERDICTS,
    WORD_FIELDS,
)
from placet.policy.source_map import Path, Problem, SourceMap, did_you_mean
from placet.policy.unreachable import why_never

MOST_RULES = 10_000
MOST_BYTES = 8_000_000
MOST_SHOWN = 20
_TABLES = {name: "[[rule]]" if name == "rule" else f"[{name}]" for name in TOP_KEYS}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AT_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
V = TypeVar("V")


def load_policy(path: str | FilePath, *, tools: Mapping[str, Sequence[JsonObject]] | None = None) -> Policy:
    """The policy in this file; PolicyRefused with every fault. `tools`: the schemas of the tools that are known, by
    name, so that a misspelt argument is found."""
    file = FilePath(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise _refused([Problem(file.name, 1, 1, f"the file is larger than {MOST_BYTES} bytes.")])
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyRefused(f"The policy {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _refused([Problem(file.name, 1, 1, "the file is not UTF-8.")]) from None
    return parse_policy(text, name=file.name, tools=tools)


def parse_policy(
    text: str, *, name: str = "policy.toml", tools: Mapping[str, Sequence[JsonObject]] | None = None
) -> Policy:
    """The policy that this text is."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refused([_toml_problem(error, text, name)]) from None
    return _Loader(text, name, tools).load(document)


def digest_of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _toml_problem(error: tomllib.TOMLDecodeError, text: str, name: str) -> Problem:
    found = _AT_PLACE.search(str(error))
    line, column = (int(found.group(1)), int(found.group(2))) if found and found.group(1) else (text.count("\n") + 1, 1)
    return Problem(name, line, column, f"this is no TOML: {_AT_PLACE.sub('', str(error)).strip()}.")


def _refused(problems: Sequence[Problem]) -> PolicyRefused:
    shown = "\n".join(map(str, problems[:MOST_SHOWN]))
    more = f"\n… and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
    return PolicyRefused(f"The policy was not loaded:\n{shown}{more}", problems)


class _Loader:
    def __init__(self, text: str, name: str, tools: Mapping[str, Sequence[JsonObject]] | None) -> None:
        self._map = SourceMap(text, name)
        self._name = name
        self._text = text
        self._version = digest_of_text(text)
        self._tools = tools
        self._problems: list[Problem] = []
        self._warnings: list[str] = []
        self._names: dict[str, int] = {}

    def load(self, document: Mapping[str, object]) -> Policy:
        self._only_tables(document)
        written = document.get("rule", [])
        if not isinstance(written, list):
            self._fault(("rule",), "rules are written as [[rule]].")
            written = []
        if len(written) > MOST_RULES:
            self._fault(("rule",), f"there are {len(written)} rules: {MOST_RULES} is the limit.")
            written = []
        change = self._change(document.get("change", {}))
        modes = self._rollout(document.get("rollout", {}), written)
        rules = [rule for number, each in enumerate(written) if (rule := self._rule(number, each, modes)) is not None]
        if self._problems:
            raise _refused(sorted(self._problems, key=lambda each: (each.line, each.column)))
        return Policy(
            rules,
            version=self._version,
            origin=self._name,
            warnings=self._warnings,
            facts=CallFacts,
            text=self._text,
            change=change,
        )

    def _change(self, given: object) -> Requirement | None:
        if not isinstance(given, Mapping):
            self._fault(("change",), "[change] is a table: who has to approve the next version.")
            return None
        self._only(given, CHANGE_KEYS, ("change",))
        return self._requirement(given, ("change",))

    # -- one rule -----------------------------------------------------------------------------------------------------

    def _rule(self, number: int, written: object, modes: Mapping[str, Mode]) -> Rule | None:
        here: Path = ("rule", number)
        if not isinstance(written, Mapping):
            self._fault(here, "a rule is a table: [[rule]].")
            return None
        before = len(self._problems)
        self._only(written, RULE_KEYS, here)
        name = self._rule_name(written, here)
        tools = self._texts(written, "tool", here)
        conditions: list[Condition] = [
            word_matcher(field, given) for field in WORD_FIELDS if (given := self._texts(written, field, here))
        ]
        checked = tools if _may_be_own(conditions) else ()  # a guest's tool of the same name takes what its guest says
        conditions += self._arguments(written, checked, here)
        if "if" in written:
            conditions += self._expression(written["if"], checked, (*here, "if"))
        verdict, message, question = self._verdict(written, here)
        relax = written.get("relax", False)
        if not isinstance(relax, bool) or (relax and verdict != "allow"):
            self._fault((*here, "relax"), "relax is true or false, and belongs to an allow.")
        budget = self._budget(written, verdict, checked, here)
        over = self._limits(written, "over", checked, here)
        if len(self._problems) > before or verdict is None:
            return None
        rule = Rule(
            name=name,
            line=self._map.place(here)[0],
            verdict=verdict,
            tools=tools,
            conditions=tuple(conditions),
            message=message,
            question=question,
            relax=bool(relax),
            budget=budget,
            over=over,
            mode=modes.get(name, modes.get("", "enforce")),
        )
        self._check(rule, written, here)
        return rule

    def _rule_name(self, written: Mapping[str, object], here: Path) -> str:
        name = written.get("name")
        if not isinstance(name, str) or not name.strip():
            self._fault((*here, "name"), "a rule needs a name: logs and cards call it by that.")
            return ""
        if name == "default" or any(sign in name for sign in "\n\r«»"):
            self._fault((*here, "name"), f"a rule cannot be called {name!r}.")
        first = self._names.setdefault(name, self._map.place(here)[0])
        if first != self._map.place(here)[0]:
            self._fault((*here, "name"), f"there is a rule '{name}' already, in line {first}.")
        return name

    def _arguments(self, written: Mapping[str, object], tools: Sequence[str], here: Path) -> list[Condition]:
        given = written.get("args", {})
        if not isinstance(given, Mapping):
            self._fault((*here, "args"), "args is a table of arguments: args.cents = { at_most = 5000 }.")
            return []
        found: list[Condition] = []
        for name, wanted in given.items():
            place = (*here, "args", name)
            if isinstance(wanted, Mapping):
                unknown = [key for key in wanted if key not in TEST_KEYS]
                if unknown:
                    hint = did_you_mean(unknown[0], TEST_KEYS)
                    self._fault((*place, unknown[0]), f"there is no test '{unknown[0]}'.", hint)
                    continue
            made = self._tried(place, f"args.{name}", partial(argument_matcher, name, wanted))
            if made is not None:
                self._check_field(made, tools, place)
                found.append(made)
        return found

    def _check_field(self, made: ArgumentMatcher, tools: Sequence[str], place: Path) -> None:
        for tool, schema in self._schemas(tools):
            wrong = unknown_field(schema, made.path)
            if wrong is not None:
                hint = did_you_mean(wrong.name, wrong.known)
                self._fault(place, f"tool '{tool}' has no argument '{wrong.name}'.", hint)
                return

    def _expression(self, given: object, tools: Sequence[str], place: Path) -> list[Condition]:
        if not isinstance(given, str) or not given.strip():
            self._fault(place, "if takes an expression in quotes.")
            return []
        made = self._tried(place, "if", partial(Expression, given))
        if made is None:
            return []
        for tool, schema in self._schemas(tools):
            fault = next(made.faults(schema), None)
            if fault is not None:
                self._fault(place, f"if: tool '{tool}': {fault.message}", fault.suggestion)
                break
        return [made]

    def _schemas(self, tools: Sequence[str]) -> Iterable[tuple[str, JsonObject]]:
        """Of the tools that the rule names: a rule for many tools may speak of what only some of them have."""
        if self._tools is None or len(tools) != 1 or is_pattern(tools[0]):
            return
        for schema in self._tools.get(tools[0], ()):
            yield tools[0], schema

    def _tried(self, place: Path, what: str, make: Callable[[], V]) -> V | None:
        try:
            return make()
        except Malformed as error:
            self._fault(place, f"{what}: {error}.".replace("..", "."))
        except UserError as error:
            self._fault(place, error.message)
        return None

    # -- verdicts -----------------------------------------------------------------------------------------------------

    def _verdict(self, written: Mapping[str, object], here: Path) -> tuple[RuleVerdict | None, str | None, Question]:
        given = [word for word in VERDICTS if word in written]
        if len(given) != 1:
            said = f"has {' and '.join(given)}" if given else "says nothing"
            self._fault(here, f"a rule says one of allow, deny and ask; this one {said}.")
            return None, None, Question()
        word = given[0]
        value, place = written[word], (*here, word)
        if word == "ask":
            return "ask", None, self._question(value, place)
        if word == "deny":
            if value is not True and (not isinstance(value, str) or not value.strip()):
                self._fault(place, "deny takes true, or the text that the model reads.")
            return "deny", value if isinstance(value, str) else None, Question()
        if value is not True:
            self._fault(place, "allow takes true; leave it out otherwise.")
        return "allow", None, Question()

    def _question(self, value: object, place: Path) -> Question:
        if value is True:
            return Question()
        if not isinstance(value, Mapping):
            self._fault(place, "ask takes true, or a table: ask = { approve = 2, from = 'finance' }.")
            return Question()
        self._only(value, ASK_KEYS, place)
        because = value.get("because")
        if because is not None and not isinstance(because, str):
            self._fault((*place, "because"), "because is a text.")
            because = None
        at_deadline = value.get("at_deadline", "reject")
        if at_deadline not in ("reject", "escalate"):
            self._fault((*place, "at_deadline"), "at_deadline is 'reject' or 'escalate'.")
        return Question(
            requirement=self._requirement(value, place),
            within=self._duration(value.get("within"), (*place, "within")),
            at_deadline="escalate" if at_deadline == "escalate" else "reject",
            because=because,
        )

    def _requirement(self, value: Mapping[str, object], place: Path) -> Requirement | None:
        plain = {key: each for key, each in value.items() if key in STEP_KEYS}
        needs = value.get("needs")
        if needs is None:
            needs = [plain]
        elif plain:
            self._fault((*place, "needs"), f"needs and {next(iter(plain))} cannot stand beside each other.")
        if not isinstance(needs, list) or not needs or not all(isinstance(each, Mapping) for each in needs):
            self._fault((*place, "needs"), "needs is a list of tables, any one of which decides.")
            return None
        made: Needs | None = None
        for each in needs:
            one = self._need(each, place, value.get("break_glass", False))
            made = one if made is None or one is None else made | one
        return None if made is None or made.requirement == ANYBODY else made.requirement

    def _need(self, value: Mapping[str, object], place: Path, break_glass: object) -> Needs | None:
        self._only(value, NEED_KEYS, place)
        steps = value.get("then", [])
        if not isinstance(steps, list) or not all(isinstance(each, Mapping) for each in steps):
            self._fault((*place, "then"), "then is a list of steps.")
            return None
        try:
            made = Needs(**_step(value), break_glass=break_glass)  # type: ignore[arg-type]  # Needs checks what it is given
            for each in steps:
                self._only(each, STEP_KEYS, place)
                made = made.then(**_step(each))  # type: ignore[arg-type]
        except UserError as error:
            self._fault(place, error.message.replace("Needs(", "ask(").replace("group=", "from="))
            return None
        except TypeError:
            self._fault(place, "ask: approve, from, distinct_from and assurance are what a question can need.")
            return None
        return made

    def _duration(self, given: object, place: Path) -> float | None:
        if given is None:
            return None
        found = re.fullmatch(r"([0-9]{1,9}) *([smhdw])", given) if isinstance(given, str) else None
        if found is None or int(found.group(1)) == 0:
            self._fault(place, "a time is a number and s, m, h, d or w: '90s', '4h'.")
            return None
        return float(int(found.group(1)) * _UNITS[found.group(2)])

    def _budget(
        self, written: Mapping[str, object], verdict: RuleVerdict | None, tools: Sequence[str], here: Path
    ) -> tuple[Limit, ...]:
        if "budget" not in written:
            return ()
        if verdict not in ("allow", None):
            self._fault((*here, "budget"), "a budget says how much an allow may let through: it belongs to an allow.")
            return ()
        return self._limits(written, "budget", tools, here)

    def _limits(self, written: Mapping[str, object], word: str, tools: Sequence[str], here: Path) -> tuple[Limit, ...]:
        """Counts and sums, as a budget or as what a rule has to be over."""
        if word not in written:
            return ()
        place = (*here, word)
        try:
            limits = limits_of(written[word], word)
        except BadTerms as error:
            self._fault(place, str(error))
            return ()
        for tool, schema in self._schemas(tools):
            for fault in budget_faults(tool, schema, limits):
                self._fault(place, fault.message, did_you_mean(fault.name, fault.known) if fault.known else None)
        return limits

    # -- what a rule does ---------------------------------------------------------------------------------------------

    def _check(self, rule: Rule, written: Mapping[str, object], here: Path) -> None:
        never = why_never(rule)
        if never is not None:
            self._fault(here, f"no call can match rule '{rule.name}': {never}.")
        if rule.verdict == "allow" and not rule.relax and not rule.budget:
            self._warnings.append(
                f"{self._name}:{rule.line}: rule '{rule.name}' allows without relax: what a tool itself asks is still "
                "asked. Write relax = true to lift it."
            )
        self._check_names(rule)
        for word, wanted in (("match", True), ("unless", False)):
            examples = written.get(word, [])
            if not isinstance(examples, list):
                self._fault((*here, word), f"{word} is a list of examples: {word} = [{{ cents = 100 }}].")
                continue
            for number, example in enumerate(examples, 1):
                self._check_example(rule, example, (*here, word), f"example {number} of {word}", wanted=wanted)

    def _check_names(self, rule: Rule) -> None:
        if self._tools is None:
            return
        for tool in rule.tools:
            if not is_pattern(tool) and tool not in self._tools:
                hint = did_you_mean(tool, self._tools)
                said = f"{self._name}:{rule.line}: rule '{rule.name}': no tool '{tool}' is known here."
                self._warnings.append(" ".join(filter(None, (said, hint))))

    def _check_example(self, rule: Rule, example: object, place: Path, what: str, *, wanted: bool) -> None:
        subject = _subject_of(rule, example)
        if subject is None:
            self._fault(place, f"{what} is a table of arguments, or {{ args = {{…}}, agent = '…' }}.")
            return
        if rule.over:  # an example is about a call that goes beyond
            subject = msgspec.structs.replace(subject, over={rule_count(rule.name): True})
        does, why = matches(rule, CallFacts(subject))
        if not Policy([rule], version="").rules_for(subject.tool):  # the example names another tool
            does, why = False, None
        if why is not None:
            self._fault(place, f"{what} cannot be judged: {why}.")
        elif does is not wanted:
            said = "does not match, and has to" if wanted else "matches, and must not"
            failing = next((each.text for each in rule.conditions if wanted and not _holds(each, subject)), None)
            self._fault(place, f"{what} {said}" + (f": not so: {failing}." if failing else "."))

    # -- small things -------------------------------------------------------------------------------------------------

    def _rollout(self, given: object, written: Sequence[object]) -> dict[str, Mode]:
        if not isinstance(given, Mapping):
            self._fault(("rollout",), "[rollout] is a table of rules and modes.")
            return {}
        names = {each.get("name") for each in written if isinstance(each, Mapping)}
        found: dict[str, Mode] = {}
        for name, mode in given.items():
            if mode not in MODES:
                self._fault(("rollout", name), f"a mode is one of {', '.join(MODES)}, not {mode!r}.")
            elif name != "default" and name not in names:
                hint = did_you_mean(name, [each for each in names if isinstance(each, str)])
                self._fault(("rollout", name), f"there is no rule '{name}'.", hint)
            else:
                found["" if name == "default" else name] = mode
        return found

    def _texts(self, written: Mapping[str, object], key: str, here: Path) -> tuple[str, ...]:
        given = written.get(key)
        if given is None:
            return ()
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
            self._fault((*here, key), f"{key} takes a text or a list of texts.")
            return ()
        return tuple(listed)

    def _only(self, given: Mapping[str, object], known: Sequence[str], here: Path) -> None:
        for key in given:
            if key not in known:
                self._fault((*here, key), f"'{key}' is unknown here.", did_you_mean(key, known))

    def _only_tables(self, document: Mapping[str, object]) -> None:
        """Whoever writes another name at the top meant one of few tables, with their brackets."""
        for name in document:
            if name not in TOP_KEYS:
                near = difflib.get_close_matches(name, TOP_KEYS, n=1, cutoff=0.6)
                hint = f"Did you mean {_TABLES[near[0]]}?" if near else f"There are: {', '.join(_TABLES.values())}."
                self._fault((name,), f"'{name}' is unknown here.", hint)

    def _fault(self, path: Path, message: str, suggestion: str | None = None) -> None:
        self._problems.append(self._map.problem(path, message, suggestion))


def _step(value: Mapping[str, object]) -> dict[str, object]:
    names = {"from": "group"}
    return {names.get(key, key): each for key, each in value.items() if key in STEP_KEYS}


def _may_be_own(conditions: Sequence[Condition]) -> bool:
    """Whether a rule with these words can be about calls of runs that Placet drives, whose tools are known."""
    sources = [each for each in conditions if isinstance(each, WordMatcher) and each.field == "source"]
    return all(any(pattern.match(OWN_SOURCE) for pattern in each.compiled) for each in sources)


def _holds(condition: Condition, subject: Subject) -> bool:
    return condition.holds(CallFacts(subject))


def _subject_of(rule: Rule, example: object) -> Subject | None:
    if not isinstance(example, Mapping):
        return None
    given: Mapping[str, object] = example if isinstance(example.get("args"), Mapping) else {"args": example}
    arguments = given["args"]
    words = {key: each for key, each in given.items() if key != "args"}
    if not isinstance(arguments, Mapping) or not all(
        key in ("tool", *WORD_FIELDS) and isinstance(each, str) for key, each in words.items()
    ):
        return None
    first = {each.field: each.patterns[0] for each in rule.conditions if isinstance(each, WordMatcher)}
    filled = {"tool": rule.tools[0] if rule.tools else "any", "agent": "any", **first, **words}
    return msgspec.convert({"arguments": arguments, **filled}, Subject)
