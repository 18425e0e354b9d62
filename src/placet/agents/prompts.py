"""Prompts that the provider keeps."""

from __future__ import annotations

from placet.declare.prompts import DynamicPromptFunction, GenerateDynamicPromptData, Prompt

__all__ = ["DynamicPromptFunction", "GenerateDynamicPromptData", "Prompt"]
