"""What the API takes and gives about the policy."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from placet.desk.api.shapes import Given, Name, Note, Shown


class RuleFiguresShape(Shown, frozen=True, kw_only=True):
    """What one rule said, and what people said about the calls that they were asked about."""

    name: str
    mode: Literal["enforce", "warn", "shadow"]
    verdict: Literal["allow", "ask", "deny"]
    heard: int
    yes: int
    no: int
    edited: int
    answered: int
    contradicted: int
    line: str
    """In one sentence."""


class ProposedPolicy(Shown, frozen=True, kw_only=True):
    """A version that people are asked about."""

    version: str
    request: str | None
    """The question: it is decided like any other."""
    status: str
    warnings: list[str]


class PolicyShape(Shown, frozen=True, kw_only=True):
    """The policy that decides, as far as this store knows."""

    version: str | None
    """A digest of its text; null: none was ever in force."""
    origin: str | None
    way: Literal["file", "managed"] | None
    """Whether whoever deploys its file changes it, or people vote on it."""
    by: str | None
    """Who proposed it, if people voted on it."""
    text: str | None
    refused: list[str]
    """Files that did not load, and why: the version before stays in force."""
    rules: list[RuleFiguresShape]
    proposed: list[ProposedPolicy]


class NewPolicy(Given, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=200_000)]
    name: Name = "policy.toml"
    """The name of its file, for messages."""
    reason: Note | None = None
