"""The settings of coding assistants: a hook of ours put in, found again and taken out. Pure: text in, text out.

Rule of this file: settings that are not understood are left as they are, and said so.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.gate.assistants import Assistant

FILES: dict[Assistant, str] = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "cursor": ".cursor/hooks.json",
}
"""Below the user's home, or a project's folder."""
EVENTS: dict[Assistant, str] = {"claude-code": "PreToolUse", "codex": "PreToolUse", "cursor": "preToolUse"}
SLACK = 60
"""Seconds by which the assistant's own patience is longer than the hook's: the hook must answer first."""
OURS = (" -m placet.cli.main hook ", "placet hook ", "/v1/gate/hooks/")


class HookAnswersWhere(msgspec.Struct, frozen=True, kw_only=True):
    """How the hook is called: a command, or an address."""

    words: Sequence[str] = ()
    url: str | None = None
    passes: Sequence[str] = ()
    timeout: float = 540.0


def entry_of(assistant: Assistant, where: HookAnswersWhere) -> JsonObject:
    """The hook as the assistant's settings say it. Whatever goes wrong with it stops the call."""
    patience = int(where.timeout) + SLACK
    if where.url is not None:
        if assistant != "claude-code":
            raise UserError(f"{assistant} has no hooks over HTTP: install it without --http.")
        passes = {"passes": ",".join(where.passes)} if where.passes else {}
        query = urlencode({"timeout": f"{where.timeout:g}", **passes})
        return {
            "type": "http",
            "url": f"{where.url.rstrip('/')}/v1/gate/hooks/claude-code?{query}",
            "headers": {"Authorization": "Bearer $PLACET_TOKEN"},
            "allowedEnvVars": ["PLACET_TOKEN"],
            "timeout": patience,
            "onFailure": "block",
        }
    command = shlex.join(where.words)
    if assistant == "cursor":
        return {"command": command, "timeout": patience, "failClosed": True}
    if assistant == "codex":  # it lets a call run when a hook fails in any way but this
        command = f"{command} || {{ echo 'stopped: the hook failed' >&2; exit 2; }}"
        return {"type": "command", "command": command, "timeout": patience}
    return {"type": "command", "command": command, "timeout": patience, "onFailure": "block"}


def with_hook(assistant: Assistant, text: str | None, entry: JsonObject) -> str:
    """The settings with this hook, and without an older one of ours."""
    settings = _without(assistant, _read(text)) if text is not None else {}
    if assistant == "cursor":
        settings.setdefault("version", 1)
    hooks = settings.setdefault("hooks", {})
    groups = hooks.setdefault(EVENTS[assistant], [])
    groups.append(entry if assistant == "cursor" else {"matcher": "*", "hooks": [entry]})
    return written(settings, text)


def without_hook(assistant: Assistant, text: str) -> str:
    return written(_without(assistant, _read(text)), text)


def is_the_same(text: str, other: str | None) -> bool:
    """Whether two texts say the same settings; None: there were none."""
    return _bare(_read(text)) == _bare(_read(other or ""))


def _bare(settings: dict[str, Any]) -> dict[str, Any]:
    """Without what Cursor wants said in any case."""
    return {name: value for name, value in settings.items() if (name, value) != ("version", 1)}


def entries(assistant: Assistant, text: str) -> list[JsonObject]:
    """The hooks before a call, those of others too."""
    return list(_entries(assistant, _read(text)))


def is_ours(entry: JsonObject) -> bool:
    said = f"{entry.get('command') or ''} {entry.get('url') or ''} "
    return any(each in said for each in OURS)


def weaknesses(assistant: Assistant, text: str) -> list[str]:
    """What these settings do that lets calls past the hook, in words."""
    settings = _read(text)
    found = []
    if assistant == "claude-code" and settings.get("disableAllHooks"):
        found.append("«disableAllHooks» is set: no hook is called at all")
    for entry in _entries(assistant, settings):
        if not is_ours(entry):
            what = str(entry.get("command") or entry.get("url") or entry.get("type") or "?")
            found.append(f"another hook, «{what[:60]}», may change the arguments after a person has seen them")
        elif assistant == "claude-code" and entry.get("onFailure") != "block":
            found.append('our hook has no «onFailure»: "block", so a call runs when the hook fails')
        elif assistant == "cursor" and entry.get("failClosed") is not True:
            found.append("our hook has no «failClosed»: true, so a call runs when the hook fails")
        elif assistant == "codex" and "exit 2" not in str(entry.get("command")):
            found.append("our hook does not end with 2 when it fails, so a call runs then")
    return found


# Any: settings of others, of whatever shape they are
def _read(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UserError(f"The settings are no JSON ({error}): nothing was changed.") from error
    hooks = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(hooks, dict) or not all(_is_list_of_objects(each) for each in hooks.values()):
        raise UserError("The settings hold hooks in a form that is not known here: nothing was changed.")
    assert isinstance(found, dict)
    return found


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and isinstance(each.get("hooks", []), list) for each in value
    )


def _entries(assistant: Assistant, settings: dict[str, Any]) -> Iterator[JsonObject]:
    for group in settings.get("hooks", {}).get(EVENTS[assistant], []):
        yield from (
            [group] if assistant == "cursor" else [each for each in group.get("hooks", []) if isinstance(each, dict)]
        )


def _without(assistant: Assistant, settings: dict[str, Any]) -> dict[str, Any]:
    """Without our hook, and without what was there for it alone."""
    event = EVENTS[assistant]
    groups = settings.get("hooks", {}).get(event, [])
    kept = []
    for group in groups:
        if assistant == "cursor":
            kept += [] if is_ours(group) else [group]
            continue
        others = [each for each in group.get("hooks", []) if not (isinstance(each, dict) and is_ours(each))]
        if others or not group.get("hooks"):
            kept.append(group if len(others) == len(group.get("hooks", [])) else {**group, "hooks": others})
    if kept:
        settings["hooks"][event] = kept
    elif groups:
        del settings["hooks"][event]
        if not settings["hooks"]:
            del settings["hooks"]
    return settings


def written(settings: JsonObject, like: str | None) -> str:
    """As JSON that is indented as it was."""
    indent: int | str = 2
    for line in (like or "").splitlines()[1:2]:
        lead = line[: len(line) - len(line.lstrip())]
        indent = lead if "\t" in lead else len(lead) or 2
    end = "" if like is not None and like.strip() and not like.endswith("\n") else "\n"
    return json.dumps(settings, indent=indent, ensure_ascii=False) + end
