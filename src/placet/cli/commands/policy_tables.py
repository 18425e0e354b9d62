"""What `placet policy` prints for people: tables of rules, of decisions, and of calls behind a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from placet.cli.output import Screen, shown, value_text
from placet.cli.tables import Row, print_table, styled
from placet.core.policy import Policy, RuleVerdict, Subject
from placet.policy.backtest import FILE_SAYS, LET_THROUGH, SAID, SPARED, Backtest, Difference, Said, Tried
from placet.policy.explaining import Explanation
from placet.policy.suggest import Suggested

_VERDICTS = {"allow": "green", "ask": "yellow", "deny": "red"}
_PEOPLE = {"yes": "yes", "no": "no", "edited": "edited it", "answered": "answered"}


def print_rules(screen: Screen, policy: Policy, examples: Mapping[str, tuple[int, int]]) -> None:
    rows: list[Row] = []
    for rule in policy.rules:
        match, unless = map(str, examples[rule.name])
        verdict = styled(rule.verdict, _VERDICTS[rule.verdict])
        rows.append([str(rule.line), rule.name, verdict, rule.mode, match, unless])
    print_table(screen, ["line", "rule", "says", "rollout", "match", "unless"], rows)


def print_explanation(screen: Screen, subject: Subject, found: Explanation) -> None:
    rows: list[Row] = [
        [
            str(rule.line),
            styled(rule.name, "bold" if rule.decided else None),
            styled(rule.verdict, _VERDICTS[rule.verdict]),
            rule.mode if rule.mode != "enforce" else "",
            styled(rule.outcome, "dim" if rule.outcome in ("another tool", "does not match") else None),
            rule.why or "",
        ]
        for rule in found.rules
    ]
    screen.show(Text.assemble((shown(subject.tool), "bold"), f" {value_text(subject.arguments)}"), soft=True)
    if rows:
        print_table(screen, ["line", "rule", "says", "rollout", "outcome", "why"], rows)
    screen.show(Text(shown(found.why, keep_lines=True)), soft=True)


def print_backtest(screen: Screen, table: Backtest, most: int) -> None:
    if table.let_through:
        count = table.let_through
        words = "call that people rejected" if count == 1 else "calls that people rejected"
        screen.show(Text(f"{screen.signs.refused} It would have let through {count} {words}:", "bold red"), soft=True)
        _print_calls(screen, table.calls[LET_THROUGH], max(most, 20), "red")
        screen.show("")
    screen.show(_table_of(table))
    for cell, count in table.cells():
        if cell != LET_THROUGH and most:
            said, verdict = cell
            screen.show("", Text(f"People said {_PEOPLE[said]}, the policy says {verdict}: {count}", "bold"), soft=True)
            _print_calls(screen, table.calls[cell], most, None)
    screen.show("", Text(summary(table)), soft=True)


def summary(table: Backtest) -> str:
    """What the table amounts to, in two sentences."""
    share = f" ({table.spared / table.replayed:.0%})" if table.replayed else ""
    said = f"It would have spared {table.spared} of {table.replayed} questions{share}"
    said += f" and contradicted {table.let_through} rejections."
    if table.cannot:
        parts = ", ".join(f"{count} {why}" for why, count in table.cannot.items())
        said += f" {table.cannot.total() / table.seen:.0%} cannot be replayed: {parts}."
    return said


def _table_of(table: Backtest) -> Table:
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    drawn.add_column("people said")
    for verdict in FILE_SAYS:
        drawn.add_column(f"policy: {verdict}", justify="right", no_wrap=True)
    for said in SAID:
        cells = [Text(str(table.counts[said, verdict]), _style(table, said, verdict)) for verdict in FILE_SAYS]
        drawn.add_row(Text(_PEOPLE[said]), *cells)
    return drawn


def _style(table: Backtest, said: Said, verdict: RuleVerdict) -> str:
    if not table.counts[said, verdict]:
        return "dim"
    return {LET_THROUGH: "bold red", SPARED: "green"}.get((said, verdict), "")


def _print_calls(screen: Screen, calls: Sequence[Tried], most: int, style: str | None) -> None:
    rows: list[Row] = [
        [
            styled(_when(each.case.at), style),
            styled(each.case.request_id, style),
            each.case.by or "",
            each.case.subject.tool,
            ", ".join(each.rules),
            value_text(each.case.subject.arguments),
        ]
        for each in calls[:most]
    ]
    if rows:
        print_table(screen, ["asked", "request", "by", "tool", "rules", "arguments"], rows)


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def print_difference(screen: Screen, found: Difference, most: int) -> None:
    for (before, after), changes in sorted(found.changes.items(), key=lambda item: item[0]):
        if before == after or not changes:
            continue
        style = "bold red" if after == "allow" else "bold"
        count = found.counts[before, after]
        screen.show(Text(f"{before} {screen.signs.arrow} {after}: {count}", style), soft=True)
        _print_calls(screen, [each.after for each in changes], most, None)
        screen.show("")
    skipped = f" {found.cannot.total()} cannot be replayed." if found.cannot else ""
    screen.show(
        Text(f"{found.changed} of {found.counts.total()} recorded calls change their verdict.{skipped}"), soft=True
    )


def print_suggestions(screen: Screen, found: Sequence[Suggested], seen: int) -> None:
    if not found:
        screen.show(
            Text(f"Nothing is suggested: of {seen} decisions no narrow rule would have spared enough."), soft=True
        )
        return
    for number, each in enumerate(found):
        people = f"{len(each.people)} {'person' if len(each.people) == 1 else 'people'}"
        words = f"# Would have spared {each.spares} of {each.asked} questions, approved by {people}; "
        words += "contradicts no rejection."
        near = [f"# Nearest call that was not approved: {each.nearest}"] if each.nearest is not None else []
        calls = f"# Such as {', '.join(each.calls[:3])}"
        lines = [*([""] if number else []), words, calls, *near, *each.text.rstrip().splitlines()]
        screen.show(*(Text(shown(line), "dim" if line.startswith("#") else "") for line in lines), soft=True)
    names = ", ".join(f'"{each.name}" = "shadow"' for each in found)
    screen.show("", Text(f"# First in shadow:  [rollout]  {names}", "dim"), soft=True)
