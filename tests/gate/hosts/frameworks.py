"""The frameworks with an adapter, and where their packages, checks and pages are. It imports none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PLACES = ROOT / ".dev" / "hosts"
QUIET = {
    "OPENAI_API_KEY": "",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
"""So that no framework calls home."""


@dataclass(frozen=True)
class Framework:
    host: str
    """Its name: of the lock, the environment and the page."""
    title: str
    package: str
    ways: tuple[str, ...]
    """How its calls wait: classes of its check file."""
    is_quick: bool = False
    """Small and fast enough for every change; the others run with `dev.py adapters` and `test --all`."""

    @property
    def lock(self) -> Path:
        return HERE / f"{self.host}.lock"

    @property
    def checks(self) -> Path:
        return HERE / f"check_{self.host.replace('-', '_')}.py"

    @property
    def page(self) -> Path:
        return ROOT / "docs" / f"gate-{self.host}.md"

    @property
    def version(self) -> str:
        """As its lock pins it."""
        found = re.search(rf"^{re.escape(self.package)}==(\S+)", self.lock.read_text(), re.MULTILINE)
        assert found is not None
        return found[1]


FRAMEWORKS = {
    each.host: each
    for each in (
        Framework("openai-agents", "OpenAI Agents SDK", "openai-agents", ("TestInline", "TestPaused"), is_quick=True),
        Framework("langchain", "LangChain", "langchain", ("TestInline", "TestPaused", "TestPlain"), is_quick=True),
        Framework("pydantic-ai", "Pydantic AI", "pydantic-ai-slim", ("TestInline", "TestPaused"), is_quick=True),
        Framework(
            "agent-framework", "Microsoft Agent Framework", "agent-framework-core", ("TestInline",), is_quick=True
        ),
        Framework("google-adk", "Google ADK", "google-adk", ("TestInline", "TestPaused")),
        Framework("claude-agent-sdk", "Claude Agent SDK", "claude-agent-sdk", ("TestInline", "TestPermission")),
        Framework("crewai", "CrewAI", "crewai", ("TestInline",)),
    )
}


def python_of(host: str) -> Path:
    return PLACES / host / "bin" / "python"
