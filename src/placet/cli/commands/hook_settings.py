"""`placet hook install | uninstall | doctor`: the hook in an assistant's settings, shown before it is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import click
from click import UsageError

from placet.cli.exit_codes import FAILED, OK
from placet.cli.options import Above, Decorated, StoreUrl, command
from placet.cli.output import shown
from placet.cli.settings_files import confirm, kept_place, show_diff, text_of, write_whole, yes_option
from placet.facts.codec import JsonObject
from placet.facts.errors import UserError
from placet.facts.ids import mint
from placet.gate.assistant_settings import (
    FILES,
    HookAnswersWhere,
    entries,
    entry_of,
    is_ours,
    is_the_same,
    weaknesses,
    with_hook,
    without_hook,
)
from placet.gate.assistants import ASSISTANTS, BLOCKED, Assistant

PATIENCE_VARIABLE = "PLACET_HOOK_TIMEOUT"
"""Seconds; only makes a hook's wait shorter."""
PROBE_SECONDS = 2.0
PROBE_TOOL = "placet-doctor"

assistant_argument = click.argument(
    "assistant", type=click.Choice(get_args(Assistant)), metavar="ASSISTANT", help="claude-code, codex or cursor"
)
project_option = click.option(
    "--project", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="the settings of this project (default: the user's, which count in all of them)",
)  # fmt: skip


def settings_file(assistant: Assistant, project: Path | None) -> Path:
    home = os.environ.get("CODEX_HOME") if assistant == "codex" and project is None else None
    if home:
        return Path(home) / Path(FILES[assistant]).name
    return (project or Path.home()) / FILES[assistant]


def _where_options(function: Decorated) -> Decorated:
    for option in reversed(
        (
            click.option("--desk", metavar="URL", help="the desk that is asked (default: $PLACET_DESK)"),
            click.option("--token-file", metavar="FILE", help="a file that holds the token, instead of $PLACET_TOKEN"),
            click.option("--store", type=StoreUrl(), metavar="URL", help="a store instead of a desk"),
            click.option("--guest", metavar="NAME", help="on a store: who executes the calls"),
            click.option("--pass", "passes", multiple=True, metavar="TOOL", help="tools about which nobody is asked"),
            click.option(
                "--timeout", type=Above(0), default=540.0, metavar="SECONDS", help="how long a decision is waited for"
            ),
            click.option(
                "--http", "over_http", is_flag=True, help="claude-code: asked over HTTP, without a process per call"
            ),
        )
    ):
        function = option(function)
    return function


@command("install")
@assistant_argument
@_where_options
@project_option
@yes_option
def install(assistant: Assistant, project: Path | None, *, yes: bool, **given: Any) -> int:
    """Write the hook into an assistant's settings, so that its calls are asked about and every failure stops them.

    What changes is shown first. `placet hook uninstall` takes it back, to the byte if nothing else was changed since.
    """
    file = settings_file(assistant, project)
    text = text_of(file)
    wanted = with_hook(assistant, text, entry_of(assistant, _where(assistant, **given)))
    _refuse_switched_off(assistant, file, text)
    if wanted == text:
        print(f"{shown(str(file))} has this hook already.")
        return OK
    show_diff(file, text, wanted)
    confirm("Write this?", yes=yes)
    _keep_as_it_was(assistant, file, text)
    write_whole(file, wanted)
    print(f"Written. Start the assistant anew, then try it: placet hook doctor {assistant}")
    for each in weaknesses(assistant, wanted):
        print(f"Note: {shown(each)}.")
    if assistant == "codex":
        print("Note: Codex skips a hook that nobody has reviewed: open /hooks in it and trust this one.")
    return OK


@command("uninstall")
@assistant_argument
@project_option
@yes_option
def uninstall(assistant: Assistant, project: Path | None, *, yes: bool) -> int:
    """Take the hook out of an assistant's settings. Its calls run without a question then."""
    file = settings_file(assistant, project)
    text = text_of(file)
    if text is None or not any(map(is_ours, entries(assistant, text))):
        print(f"{shown(str(file))} has no hook of Placet.")
        return OK
    wanted = without_hook(assistant, text)
    before = text_of(kept_place(file))
    original: str | None = wanted
    if before is not None and is_the_same(wanted, before or None):
        original = before or None  # an empty one: there were no settings
    show_diff(file, text, original)
    confirm("Write this?", yes=yes)
    if original is None:
        file.unlink()
    else:
        write_whole(file, original)
    kept_place(file).unlink(missing_ok=True)
    exact = (before is not None and original != wanted) or original == before
    print("As it was before." if exact else "Taken out. Other things were changed since it was installed: they stay.")
    return OK


@command("doctor")
@click.argument("assistants", nargs=-1, type=click.Choice(get_args(Assistant)), metavar="[ASSISTANT]…")
@project_option
def doctor(assistants: tuple[Assistant, ...], project: Path | None) -> int:
    """Make a harmless call through the installed hook, and say whether it was stopped.

    The call is proposed, nobody decides about it for two seconds, and it is taken back. The doctor ends with 1 when it
    was not stopped, or when there is no hook.
    """
    wanted = assistants or tuple(each for each in ASSISTANTS if _ours(each, project))
    if not wanted:
        print("No assistant has a hook of Placet here: placet hook install ASSISTANT")
        return FAILED
    is_well = [_examined(each, project) for each in wanted]
    return OK if all(is_well) else FAILED


# -- the doctor -------------------------------------------------------------------------------------------------------


def _examined(assistant: Assistant, project: Path | None) -> bool:
    file = settings_file(assistant, project)
    ours = _ours(assistant, project)
    print(f"{assistant}: {shown(str(file))}")
    if not ours:
        print("  no hook of Placet: its calls run without a question.")
        return False
    found = weaknesses(assistant, text_of(file) or "")
    found += [f"{name}: {each}" for name, text in _others(assistant, file) for each in _switched_off(assistant, text)]
    for each in found:
        print(f"  ! {shown(each)}.")
    stopped = [_probed(assistant, entry) for entry in ours]
    return all(stopped) and not any("runs when" in each or "no hook is called" in each for each in found)


def _ours(assistant: Assistant, project: Path | None) -> list[JsonObject]:
    text = text_of(settings_file(assistant, project))
    return [each for each in entries(assistant, text) if is_ours(each)] if text is not None else []


def _probed(assistant: Assistant, entry: JsonObject) -> bool:
    """What became of a harmless call, in words. Only what stops it for certain counts."""
    call: JsonObject = {"tool_name": PROBE_TOOL, "tool_input": {"note": "A harmless call of the doctor."}}
    names = ("preToolUse", "conversation_id") if assistant == "cursor" else ("PreToolUse", "session_id")
    text = json.dumps({"hook_event_name": names[0], names[1]: mint("doctor"), "tool_use_id": mint("call"), **call})
    try:
        code, out, err = _posted(entry, text) if entry.get("type") == "http" else _started(entry, text)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"  ! the hook could not be called: {shown(str(error))}.")
        return False
    reason = _refusal(out) or (err.strip() if code == BLOCKED else "")
    if reason:
        print(f"  stopped: {shown(reason.splitlines()[0])}")
        return True
    print(f"  ! NOT stopped: the hook ended with {code} and said {shown((out or err or 'nothing').strip()[:200])}")
    return False


def _started(entry: JsonObject, text: str) -> tuple[int, str, str]:
    """As the assistant does: through a shell."""
    done = subprocess.run(  # noqa: S602  # the user's own settings, as the assistant would start them
        str(entry["command"]), shell=True, input=text, capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {PATIENCE_VARIABLE: str(PROBE_SECONDS)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def _posted(entry: JsonObject, text: str) -> tuple[int, str, str]:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    said = entry.get("headers")
    headers = {name: os.path.expandvars(str(value)) for name, value in said.items()} if isinstance(said, dict) else {}
    url = str(entry["url"])
    if not url.startswith(("http://", "https://")):
        raise OSError(f"{url} is no address of a desk")
    asked = Request(  # noqa: S310  # its scheme was looked at
        url, text.encode(), {"Content-Type": "application/json", "Placet-Hook-Timeout": str(PROBE_SECONDS), **headers}
    )
    try:
        with urlopen(asked, timeout=120) as answer:  # noqa: S310
            return 0, answer.read().decode(), ""
    except HTTPError as error:  # with «onFailure» that stops the call; what it says is the reason
        return BLOCKED, "", f"the desk answers {error.code}: {error.read().decode()[:300]}"


def _refusal(out: str) -> str:
    try:
        said = json.loads(out)
        specific = said.get("hookSpecificOutput", {})
        if specific.get("permissionDecision") == "deny":
            return str(specific.get("permissionDecisionReason") or "denied")
        return str(said.get("user_message") or "denied") if said.get("permission") == "deny" else ""
    except (ValueError, AttributeError):
        return ""


# -- what switches hooks off ------------------------------------------------------------------------------------------


def _refuse_switched_off(assistant: Assistant, file: Path, text: str | None) -> None:
    found = [*_switched_off(assistant, text or "")]
    found += [f"{name}: {each}" for name, other in _others(assistant, file) for each in _switched_off(assistant, other)]
    if found:
        raise UserError(f"A hook would never be called. {'; '.join(found)}. Take that out first: nothing was changed.")


def _switched_off(assistant: Assistant, text: str) -> list[str]:
    if assistant == "codex":
        return _codex_switched_off(text)
    return [each for each in weaknesses(assistant, text) if "no hook is called" in each]


def _codex_switched_off(text: str) -> list[str]:
    import tomllib

    try:
        features = tomllib.loads(text).get("features", {})
    except tomllib.TOMLDecodeError:
        return []  # its hooks, which are JSON
    is_off = isinstance(features, dict) and (features.get("hooks") is False or features.get("codex_hooks") is False)
    return ["«hooks = false» under [features]: no hook is called at all"] if is_off else []


def _others(assistant: Assistant, file: Path) -> list[tuple[str, str]]:
    """Files beside the settings that count too."""
    names = {"claude-code": ["settings.local.json"], "codex": ["config.toml"], "cursor": []}[assistant]
    texts = [(name, text_of(file.parent / name)) for name in names]
    return [(name, text) for name, text in texts if text is not None]


# -- files ------------------------------------------------------------------------------------------------------------


def _where(
    assistant: Assistant,
    desk: str | None,
    token_file: str | None,
    store: str | None,
    guest: str | None,
    passes: tuple[str, ...],
    timeout: float,
    *,
    over_http: bool,
) -> HookAnswersWhere:
    desk, store = _desk_or_store(desk, store)
    if over_http:
        if not desk or token_file or guest:
            raise UsageError("--http needs --desk, and the token in $PLACET_TOKEN of the assistant's environment.")
        return HookAnswersWhere(url=desk, passes=passes, timeout=timeout)
    if not (desk or store):
        raise UsageError("say which desk is asked (--desk, or $PLACET_DESK), or on which store (--store).")
    place = ["--desk", desk] if desk else ["--store", _absolute_store(store or "")]
    # Isolated: neither the folder in which the assistant works nor its environment puts other code in the hook's place.
    words = [sys.executable, "-I", "-m", "placet.cli.main", "hook", assistant, *place]
    words += _option("--token-file", str(Path(token_file).absolute()) if token_file else None)
    words += _option("--guest", guest)
    words += [word for each in passes for word in ("--pass", each)]
    words += _option("--timeout", f"{timeout:g}" if timeout != 540.0 else None)
    return HookAnswersWhere(words=words, timeout=timeout)


def _desk_or_store(desk: str | None, store: str | None) -> tuple[str | None, str | None]:
    """What an option says counts more than the environment, also about the other one."""
    desk = desk or (None if store else os.environ.get("PLACET_DESK"))
    store = store or (None if desk else os.environ.get("PLACET_STORE"))
    if desk and store:
        raise UsageError("--desk asks a desk and --store goes straight to a store: write one of them.")
    return desk, store


def _option(name: str, value: str | None) -> list[str]:
    return [name, value] if value else []


def _absolute_store(url: str) -> str:
    """The hook is started in whatever folder the assistant works in."""
    file = url.removeprefix("sqlite:///")
    return url if file == url else f"sqlite:///{Path(file).absolute()}"


def _keep_as_it_was(assistant: Assistant, file: Path, text: str | None) -> None:
    """As they were without any hook of ours; an empty file: there were none."""
    has_hook = text is not None and any(map(is_ours, entries(assistant, text)))
    if not has_hook or not kept_place(file).exists():
        write_whole(kept_place(file), text or "")
