"""Policies: rules in a file that decide, ask or deny before anybody is asked. See docs/policy.md."""

from __future__ import annotations

from placet.core.policy import Policy, Rule, Ruling, Subject
from placet.facts.errors import PolicyRefused
from placet.policy.loading import load_policy, parse_policy
from placet.policy.source_map import Problem
from placet.policy.watching import PolicyFile

__all__ = [
    "Policy",
    "PolicyFile",
    "PolicyRefused",
    "Problem",
    "Rule",
    "Ruling",
    "Subject",
    "load_policy",
    "parse_policy",
]
