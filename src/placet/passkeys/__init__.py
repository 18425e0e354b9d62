"""Passkeys: what authenticators say is checked here, for a desk at the moment and for an auditor years later."""
