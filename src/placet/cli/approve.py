"""`placet approve ID …`: say yes; what runs is exactly what was shown."""

from __future__ import annotations

import argparse

from placet.cli.deciding import add_always, add_request, send_decisions

DESCRIPTION = """\
Approves requests: what runs is what «placet show» shows. Of a call that is in
doubt it means: run it again.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    add_request(parser, several=True)
    add_always(parser)


def run(options: argparse.Namespace) -> int:
    return send_decisions(options, lambda _request: {"decision": "approve"}, "Approve this?")
