"""Words for the instructions of agents that hand over."""

from __future__ import annotations

RECOMMENDED_PROMPT_PREFIX = (
    "# How you work with others\n"
    "You are one of several agents that share a conversation. Each has its own instructions and tools. Where another "
    "agent is the better one to go on, hand the conversation over to it: call the function for that, usually named "
    "`transfer_to_<agent_name>`. The user notices nothing of it, so do not mention it.\n"
)


def prompt_with_handoff_instructions(prompt: str) -> str:
    """The instructions, with those words before them."""
    return f"{RECOMMENDED_PROMPT_PREFIX}\n\n{prompt}"


__all__ = ["RECOMMENDED_PROMPT_PREFIX", "prompt_with_handoff_instructions"]
