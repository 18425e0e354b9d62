"""Slack's side of a desk: clicks and dialogues of people whose accounts are linked."""
