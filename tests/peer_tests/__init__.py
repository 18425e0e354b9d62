"""The Agents SDK's own tests about runs that wait, out of its source distribution, on `placet.agents`."""
