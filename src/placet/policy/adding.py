"""A rule is put into a policy's text, with its place in `[rollout]`; everything else stays as it was written."""

from __future__ import annotations

import json
import re
import tomllib

from placet.core.policy import Mode
from placet.facts.errors import UserError

_HEAD = re.compile(r"^[ \t]*\[rollout\][ \t]*(#.*)?$", re.MULTILINE)


def with_rule(text: str, rule: str, name: str, mode: Mode) -> str:
    """The text with one more rule; UserError where its name is taken."""
    document = tomllib.loads(text)
    known = document.get("rule", [])
    if any(isinstance(each, dict) and each.get("name") == name for each in (known if isinstance(known, list) else ())):
        raise UserError(f"There is a rule '{name}' already: give the new one another name.")
    line = f"{json.dumps(name)} = {json.dumps(mode)}"
    found = _HEAD.search(text)
    if found is not None:
        text = f"{text[: found.end()]}\n{line}{text[found.end() :]}"
        return f"{text.rstrip()}\n\n{rule.strip()}\n" if "rollout" in document else text
    if "rollout" in document:
        raise UserError("Its [rollout] is written in another way than as a table of its own: add the rule by hand.")
    return f"{text.rstrip()}\n\n{rule.strip()}\n\n[rollout]\n{line}\n".lstrip()
