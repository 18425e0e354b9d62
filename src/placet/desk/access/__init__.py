"""Who may use a desk: users, roles, tokens, sessions, invitations. No HTTP in here."""
