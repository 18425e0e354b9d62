"""How people write terms down: matchers and budgets as JSON or TOML has them, with words for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from placet.clock import zone_of
from placet.core import shell_words
from placet.core.amounts import Uncountable, amount_of
from placet.core.terms import number_of, problem_with_pattern
from placet.facts.budgets import Every, Limit, Matcher, MatchKind
from placet.facts.codec import Json, NotPlain, plain

EVERY: tuple[str, ...] = get_args(Every)
MAX_LIMITS = 10
MAX_MATCHERS = 50
MAX_VALUES = 1000
MAX_WINDOW = 400 * 86_400.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BUDGET_KEYS = frozenset({"uses", "sum", "most", "by", "every", "within", "zone"})


class BadTerms(ValueError):
    """Terms that mean nothing. The text says where and why."""


# -- budgets ----------------------------------------------------------------------------------------------------------


def limits_of(value: object, where: str = "budget") -> tuple[Limit, ...]:
    """A budget: one limit, or a list of them. `{"sum": "cents", "most": 50000, "by": "customer", "every": "day",
    "zone": "Europe/Berlin"}`, `{"uses": 10}`."""
    if isinstance(value, Limit):
        return (value,)
    given = list(value) if isinstance(value, list | tuple) else [value]
    if not given or len(given) > MAX_LIMITS:
        raise BadTerms(f"{where} is one limit, or a list of 1 to {MAX_LIMITS}.")
    limits = tuple(
        each if isinstance(each, Limit) else _limit(each, where if len(given) == 1 else f"{where}[{number}]")
        for number, each in enumerate(given)
    )
    kinds = {(limit.sum, limit.by, limit.every, limit.within, limit.zone) for limit in limits}
    if len(kinds) < len(limits):
        raise BadTerms(f"{where} has two limits that count the same: keep the smaller one.")
    return limits


def _limit(value: object, where: str) -> Limit:
    if not isinstance(value, Mapping):
        raise BadTerms(f'{where} is a table such as {{ uses = 10 }} or {{ sum = "cents", most = 50000 }}.')
    unknown = [str(key) for key in value if key not in _BUDGET_KEYS]
    if unknown:
        raise BadTerms(f"{where} has no «{unknown[0]}»: it knows {', '.join(sorted(_BUDGET_KEYS))}.")
    most, argument = _size(value, where)
    every, seconds, zone = _period(value, where)
    return Limit(most, argument, _names(value.get("by", ()), f"{where}.by"), every, seconds, zone)


def _size(value: Mapping[object, object], where: str) -> tuple[str, str | None]:
    """How much, and of which argument; None: of calls."""
    if ("uses" in value) == ("sum" in value):
        raise BadTerms(f"{where} has either `uses`, or `sum` with `most`.")
    if "sum" in value:
        argument = _name(value["sum"], f"{where}.sum")
        if "most" not in value:
            raise BadTerms(f"{where}.most says how much the sum of «{argument}» may be.")
        return _amount(value["most"], f"{where}.most"), argument
    if "most" in value:
        raise BadTerms(f"{where}.most goes with `sum`: `uses` is itself the most.")
    most = _amount(value["uses"], f"{where}.uses")
    if "." in most or most == "0":
        raise BadTerms(f"{where}.uses is a whole number, 1 or more.")
    return most, None


def _period(value: Mapping[object, object], where: str) -> tuple[Every | None, float | None, str]:
    """The calendar's period in which it counts, or the seconds for which it looks back, and the zone of the former."""
    given, within = value.get("every"), value.get("within")
    every = next((each for each in get_args(Every) if each == given), None)
    if given is not None and every is None:
        raise BadTerms(f"{where}.every is one of {', '.join(EVERY)}, not {given!r}.")
    if every is not None and within is not None:
        raise BadTerms(f"{where} has either `every` (a calendar's day) or `within` (the last 24 hours).")
    seconds = None if within is None else _seconds(within, f"{where}.within")
    return every, seconds, _zone(value, every, f"{where}.zone")


def _zone(value: Mapping[object, object], every: Every | None, where: str) -> str:
    zone = value.get("zone", "UTC")
    if not isinstance(zone, str) or not zone or len(zone) > 100:
        raise BadTerms(f"{where} is the name of a time zone, such as Europe/Berlin.")
    if "zone" in value and every is None:
        raise BadTerms(f"{where} says where a day begins: it goes with `every`.")
    if every is not None:
        check_zone(zone, where)
    return zone


def check_zone(name: str, where: str) -> None:
    try:
        zone_of(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadTerms(f"{where}: there is no time zone {name!r} on this machine.") from error


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise BadTerms(f"{where} is the name of an argument.")
    return value


def _names(value: object, where: str) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or len(given) > MAX_LIMITS:
        raise BadTerms(f"{where} is the name of an argument, or a list of names.")
    names = tuple(_name(each, where) for each in given)
    if len(set(names)) < len(names):
        raise BadTerms(f"{where} names an argument twice.")
    return names


def _amount(value: object, where: str) -> str:
    try:
        amount_of(value)
    except Uncountable as error:
        raise BadTerms(f"{where} {error}.") from error
    return str(value)


def _seconds(value: object, where: str) -> float:
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and value[-1:] in _UNITS and value[:-1].isdecimal() and value.isascii():
        seconds = float(int(value[:-1][:9]) * _UNITS[value[-1]])
    if seconds is None or not 1 <= seconds <= MAX_WINDOW:
        raise BadTerms(f"{where} is a time such as 30m, 24h or 7d, up to 400 days.")
    return seconds


# -- matchers ---------------------------------------------------------------------------------------------------------


def matchers_of(value: object, where: str = "matching") -> list[Matcher]:
    """By argument, what it has to be: `{"cents": {"max": 5000}, "path": {"prefix": "/srv/"}}`."""
    if not isinstance(value, Mapping) or len(value) > MAX_MATCHERS:
        raise BadTerms(f"{where} names up to {MAX_MATCHERS} arguments, each with what it has to be.")
    found: list[Matcher] = []
    for argument, wanted in value.items():
        name = _name(argument, where)
        found += _matchers(name, wanted, f"{where}.{name}")
    return found


def _matchers(argument: str, wanted: object, where: str) -> list[Matcher]:
    if not isinstance(wanted, Mapping) or not wanted:
        raise BadTerms(f"{where} is a table: {{ min, max }}, {{ prefix }}, {{ one_of }}, {{ pattern }} or {{ shell }}.")
    unknown = [str(key) for key in wanted if key not in ("min", "max", "prefix", "one_of", "pattern", "shell")]
    if unknown:
        raise BadTerms(f"{where} has no «{unknown[0]}»: it knows min, max, prefix, one_of, pattern and shell.")
    found: list[Matcher] = []
    if "min" in wanted or "max" in wanted:
        found.append(Matcher(argument, "range", _range(wanted, where)))
    texts: tuple[MatchKind, ...] = ("prefix", "one_of", "pattern", "shell")
    given = [kind for kind in texts if kind in wanted]
    return found + [Matcher(argument, kind, _values(kind, wanted[kind], f"{where}.{kind}")) for kind in given]


def _range(wanted: Mapping[object, object], where: str) -> list[Json]:
    bounds = [wanted.get("min"), wanted.get("max")]
    numbers = [None if each is None else number_of(each) for each in bounds]
    for name, bound, number in zip(("min", "max"), bounds, numbers, strict=True):
        if bound is not None and number is None:
            raise BadTerms(f"{where}.{name} is a number, not {bound!r}.")
    least, most = numbers
    if least is None and most is None:
        raise BadTerms(f"{where} needs a min or a max.")
    if least is not None and most is not None and least > most:
        raise BadTerms(f"{where}: no number is {bounds[0]} or more, and {bounds[1]} or less.")
    return bounds


def _values(kind: MatchKind, value: object, where: str) -> list[Json]:
    given: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    if not given or len(given) > MAX_VALUES:
        raise BadTerms(f"{where} is a value, or a list of 1 to {MAX_VALUES}.")
    if kind == "one_of":
        try:
            return [plain(each, where) for each in given]
        except NotPlain as error:
            raise BadTerms(f"{error}.") from error
    texts: list[Json] = []
    for each in given:
        if not isinstance(each, str) or not each:
            raise BadTerms(f"{where} is a text, or a list of texts, not {each!r}.")
        problem = _problem(kind, each)
        if problem is not None:
            raise BadTerms(f"{where}: {each!r} {problem}.")
        texts.append(each)
    return texts


def _problem(kind: MatchKind, text: str) -> str | None:
    match kind:
        case "pattern":
            return problem_with_pattern(text)
        case "shell":
            return shell_words.problem_with(text)
        case _:
            return None


# -- the way back -----------------------------------------------------------------------------------------------------


def matching_shape(matchers: Sequence[Matcher]) -> dict[str, Json]:
    """Matchers as `matchers_of` takes them."""
    found: dict[str, dict[str, Json]] = {}
    for each in matchers:
        wanted = found.setdefault(each.argument, {})
        if each.kind == "range":
            wanted |= {
                name: bound for name, bound in zip(("min", "max"), each.values, strict=True) if bound is not None
            }
        else:
            wanted[each.kind] = list(each.values)
    return dict(found)


def budget_shape(limits: Sequence[Limit]) -> list[Json]:
    """Limits as `limits_of` takes them."""
    return [_limit_shape(each) for each in limits]


def _limit_shape(limit: Limit) -> dict[str, Json]:
    found: dict[str, Json] = {"uses": int(limit.most)} if limit.sum is None else {"sum": limit.sum, "most": limit.most}
    if limit.by:
        found["by"] = list(limit.by)
    if limit.every is not None:
        found |= {"every": limit.every} | ({"zone": limit.zone} if limit.zone != "UTC" else {})
    if limit.within is not None:
        found["within"] = limit.within
    return found
