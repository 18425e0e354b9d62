"""Asking a person about one card: approve, reject, edit, respond, or leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from placet.cli.cards import Card, value_text
from placet.cli.terminal import Terminal, ask, shown
from placet.cli.verdicts import Approve, Decision, Edit, Reject, Respond, typed_value
from placet.facts.codec import JsonObject

Check: TypeAlias = Callable[[Decision], str | None]
"""What is wrong with a decision, or None."""

_MENU = (("a", "pprove"), ("r", "eject"), ("e", "dit"), ("s", "ay the result yourself"), ("q", "uit"))
_MENU_IN_DOUBT = (("a", "gain: run it"), ("r", "eject: give up"), ("s", "ay the result yourself"), ("q", "uit"))


def ask_decision(card: Card, terminal: Terminal, check: Check) -> Decision | None:
    """What the person decides; None when they leave."""
    menu = _MENU_IN_DOUBT if card.item.kind == "in_doubt" else _MENU
    choices = [key for key, _ in menu]
    listed = "   ".join(terminal.paint(f"[{key}]", "bold", "cyan") + rest for key, rest in menu)
    terminal.print_line(listed)
    while True:
        typed = ask(terminal.glyphs.prompt)
        choice = "q" if typed is None else typed.strip().lower()[:1]
        if choice == "q":
            return None
        decision = _follow_up(choice, card, terminal, check) if choice in choices else None
        if decision is not None:
            return decision
        terminal.print_line(f"Type one of {', '.join(choices)} and Enter.")


def _follow_up(choice: str, card: Card, terminal: Terminal, check: Check) -> Decision | None:
    """The decision, with what it needs; None when the person thinks better of it."""
    sign = terminal.glyphs.prompt
    if choice == "a":
        return Approve()
    if choice == "r":
        message = ask(f"What should the model read? (Enter: only that it was not approved) {sign}")
        return None if message is None else Reject(message.strip() or None)
    if choice == "s":
        answer = ask(f"The result that the model reads in the tool's place {sign}")
        return Respond(answer.strip()) if answer and answer.strip() else None
    return _ask_edit(card, terminal, check)


def _ask_edit(card: Card, terminal: Terminal, check: Check) -> Decision | None:
    """Ask argument by argument, until the tool's schema agrees. What was typed before is kept."""
    original: JsonObject = card.arguments or {}
    entered: JsonObject = {}
    terminal.print_line(terminal.paint("Enter keeps what stands in brackets; Ctrl-D leaves the call as it is.", "dim"))
    while True:
        for name, value in original.items():
            present = entered.get(name, value)
            typed = ask(f"  {shown(name)} [{value_text(present)}] {terminal.glyphs.prompt}")
            if typed is None:
                terminal.print_line()
                return None
            if typed.strip():
                entered[name] = typed_value(typed.strip(), value)
        changes = {name: value for name, value in entered.items() if value != original[name]}
        if not changes:
            terminal.print_line("Nothing was changed.")
            return None
        problem = check(Edit(changes))
        if problem is None:
            return Edit(changes)
        terminal.print_line(terminal.paint(shown(problem, keep_lines=True), "red"))
