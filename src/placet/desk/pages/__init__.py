"""The pages for people: inbox, runs, audit, signing in; server-rendered, and usable without a script."""
