"""The SDK's own example programs, run on both libraries: `python3 dev.py peer-examples`.

Each program is copied, moved in by `placet port --write`, and run with a model service on this machine that answers
whatever it is asked: a structured answer where a schema demands one, one call of the first function tool where there
are tools, a sentence otherwise. A program counts that ends well on the SDK; of these, it is shown which end well here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placet.testing import FakeProvider, assistant_message, function_call
from placet.testing.provider.recording import ProviderRequest

LEFT_OUT = {"realtime", "voice", "sandbox", "live"}
"""Folders about what is left out on purpose, and programs that need a browser or a microphone."""
SECONDS = 60
ANSWERS = 60
"""Requests that one program may make."""
TYPED = "Hello\nyes\nMunich\nquit\nexit\n"


@dataclass(frozen=True)
class Ran:
    code: int | None
    """None: it did not end in time."""
    out: str
    err: str

    @property
    def is_well(self) -> bool:
        return self.code == 0

    @property
    def why(self) -> str:
        lines = [line for line in self.err.strip().splitlines() if line.strip()]
        return lines[-1][:160] if lines else "no answer in time" if self.code is None else f"exit code {self.code}"


# -- the service -------------------------------------------------------------------------------------------------------


def answer(request: ProviderRequest) -> list[dict[str, Any]]:
    body = request.body
    assert isinstance(body, dict)
    schema = schema_asked(body)
    tools = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    has_output = any(item.get("role") == "tool" or "output" in str(item.get("type")) for item in items(body))
    if tools and not has_output and "previous_response_id" not in body:
        first = tools[0].get("function", tools[0])
        return [function_call(first["name"], instance(first.get("parameters") or {}, {}))]
    text = json.dumps(instance(schema, schema)) if schema is not None else "All is done. It is sunny."
    return [assistant_message(text)]


def items(body: dict[str, Any]) -> list[dict[str, Any]]:
    found = body.get("input", body.get("messages"))
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def schema_asked(body: dict[str, Any]) -> dict[str, Any] | None:
    asked = (body.get("text") or {}).get("format") or (body.get("response_format") or {}).get("json_schema")
    found = (asked or {}).get("schema")
    return found if isinstance(found, dict) else None


def instance(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Something that fits the schema."""
    root = root or schema
    if "$ref" in schema:
        place: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        return instance(place, root)
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word):
            return instance(schema[word][0], root)
    if "const" in schema or "enum" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: instance(each, root) for name, each in (schema.get("properties") or {}).items()}
        case "array":
            return [instance(schema.get("items") or {}, root) for _ in range(max(1, schema.get("minItems", 1)))]
        case "integer" | "number":
            return schema.get("minimum", 7)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "pass"


# -- the programs ------------------------------------------------------------------------------------------------------


def programs(root: Path) -> list[Path]:
    """Programs that can be started: those with a main part, and no server of their own."""
    found = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        is_ours = path.relative_to(root).parts[0] not in LEFT_OUT
        if is_ours and "__main__" in text and ("from agents" in text or "import agents" in text):
            found.append(path.relative_to(root.parent))
    return found


def run(python: Path, folder: Path, program: Path, extra: dict[str, str]) -> Ran:
    provider = FakeProvider([answer] * ANSWERS)
    with provider.serve() as url:
        env = os.environ | extra
        env |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "any", "EXAMPLES_INTERACTIVE_MODE": "auto"}
        env |= {"PYTHONPATH": str(folder), "OPENAI_AGENTS_DISABLE_TRACING": "1", "EXAMPLE_BASE_URL": f"{url}/v1"}
        env |= {"EXAMPLE_API_KEY": "any", "EXAMPLE_MODEL_NAME": "gpt-5"}
        module = ".".join(program.with_suffix("").parts)
        command = [str(python), "-W", "ignore", "-m", module]
        try:
            done = subprocess.run(  # noqa: S603  # our own command
                command,
                cwd=folder,
                env=env,
                input=TYPED,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            return Ran(None, _text(late.stdout), _text(late.stderr))
    return Ran(done.returncode, done.stdout, done.stderr)


def _text(given: bytes | str | None) -> str:
    return given.decode(errors="replace") if isinstance(given, bytes) else given or ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--sdk", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("only", nargs="*")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        theirs, ours = Path(place) / "theirs", Path(place) / "ours"
        for folder in (theirs, ours):
            shutil.copytree(given.peer / "examples", folder / "examples")
        moved = subprocess.run(  # noqa: S603  # our own command
            [sys.executable, "-m", "placet.cli.main", "port", "--write", str(ours)],
            capture_output=True,
            text=True,
            check=False,
        )
        if moved.returncode not in (0, 1):
            print(moved.stderr, file=sys.stderr)
            return 2
        found = [
            each
            for each in programs(theirs / "examples")
            if not given.only or any(word in str(each) for word in given.only)
        ]

        def both(program: Path) -> tuple[Path, Ran, Ran | None]:
            there = run(given.sdk, theirs, program, {})
            return program, there, run(Path(sys.executable), ours, program, {}) if there.is_well or given.only else None

        with ThreadPoolExecutor(given.jobs) as pool:
            results = list(pool.map(both, found))
    well = [(program, here) for program, there, here in results if there.is_well and here is not None]
    for program, there, _ in results:
        if not there.is_well:
            print(f"  not on the SDK either  {program}: {there.why}")
    for program, here in well:
        if not here.is_well:
            print(f"✗ {program}: {here.why}")
            if given.only:
                print(here.err)
    print(f"{sum(here.is_well for _, here in well)} of {len(well)} programs that end well on the SDK end well here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
