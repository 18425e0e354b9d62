"""What users write down: agents, tools, guardrails, handoffs, configuration. Declarations hold no run."""
