"""What the stores on SQL share: statements, and all that is done with them. The dialects stand beside it."""
