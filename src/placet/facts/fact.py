"""What facts are made of: their base, the verdicts, and the figures of what models used."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

FORMAT = 1
"""The version of the log's format. It changes when old code could no longer read new logs."""

Verdict: TypeAlias = Literal["approve", "reject", "edit", "respond"]


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base of all facts. They hold no cycles, so the garbage collector need not look at them."""


class RequestUsage(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one request."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens_details: OutputTokensDetails


class InputTokensDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: int = 0


class Usage(msgspec.Struct, array_like=True, dict=True):
    """Tokens and requests, summed over a run."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def input_tokens_details(self) -> InputTokensDetails:
        return InputTokensDetails(self.cached_tokens, self.cache_write_tokens)

    @property
    def output_tokens_details(self) -> OutputTokensDetails:
        return OutputTokensDetails(self.reasoning_tokens)

    @property
    def request_usage_entries(self) -> list[RequestUsage]:
        """The requests that these figures are the sum of, as far as this process saw them: they stand beside the
        figures, and are not written into a log, which has each response's own."""
        found: list[Usage] = self.__dict__.get("parts") or ([self] if self.requests == 1 else [])
        return [
            RequestUsage(
                each.input_tokens,
                each.output_tokens,
                each.total_tokens,
                each.input_tokens_details,
                each.output_tokens_details,
            )
            for each in found
        ]

    def add(self, other: Usage) -> None:
        own, theirs = self.__dict__, other.__dict__  # no call here: a log of a thousand answers adds a thousand times
        more: list[Usage] = [other] if other.requests == 1 else []
        if "parts" in theirs:  # and never an empty list
            more = theirs["parts"]
        if more:
            if "parts" not in own:
                own["parts"] = []
            own["parts"] += more
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        if other.cached_tokens or other.reasoning_tokens or other.cache_write_tokens:  # most answers have none
            self.cached_tokens += other.cached_tokens
            self.reasoning_tokens += other.reasoning_tokens
            self.cache_write_tokens += other.cache_write_tokens

    def copy(self) -> Usage:
        found = msgspec.structs.replace(self)
        if "parts" in self.__dict__:
            found.__dict__["parts"] = list(self.__dict__["parts"])
        return found

    def become(self, other: Usage) -> None:
        """Take over the other's figures."""
        self.__dict__.pop("parts", None)
        self.requests = self.input_tokens = self.output_tokens = 0
        self.total_tokens = self.cached_tokens = self.reasoning_tokens = self.cache_write_tokens = 0
        self.add(other)
