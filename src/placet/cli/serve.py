"""`placet serve`: the desk on the web: an API, the inbox where people decide, and the engine that drives the runs."""

from __future__ import annotations

import argparse
import asyncio
import os

from placet.cli.exit_codes import UsageError
from placet.cli.loading import add_store, agents_of, this_user
from placet.cli.number_options import whole_number
from placet.cli.people import pattern_of
from placet.cli.serving import (
    DEFAULT_PORT,
    Serving,
    log_to_stderr,
    refuse_if_public_and_open,
    serve_until_stopped,
    warn_if_open,
)
from placet.cli.terminal import complain

DESCRIPTION = """\
Serves a desk: an HTTP API and the pages where people see and decide what waits.
It also drives the runs, unless told otherwise. It listens on this machine alone
unless told otherwise.

At the first start it prints a link that works once and makes the first admin.
"""
EPILOG = """\
behind a proxy:
  --public-url https://desk.example.com --trusted-proxy 127.0.0.1
  The proxy ends TLS; headers that say who the client is are believed only from
  the addresses that are named. See docs/deployment.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "agents",
        nargs="?",
        metavar="MODULE:NAME",
        help="where the agents are: an Agent or a list (see --no-run)",
    )
    add_store(parser)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=whole_number(0, 65535),
        default=DEFAULT_PORT,
        help="the port (default: %(default)s; 0: a free one)",
    )
    parser.add_argument(
        "--host-name", action="append", default=[], metavar="NAME", help="a name under which browsers reach it"
    )
    parser.add_argument("--public-url", metavar="URL", help="where people reach it, if a proxy stands before it")
    parser.add_argument(
        "--trusted-proxy", action="append", default=[], metavar="IP", help="believe this proxy's X-Forwarded-… headers"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="serve TLS with this certificate (and --tls-key)")
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's key")
    parser.add_argument(
        "--four-eyes",
        action="append",
        nargs="?",
        const="*",
        default=[],
        metavar="AGENT[:TOOL]",
        help="from now on whoever started a run cannot approve its calls, at any desk on this store: everywhere, or "
        "where these patterns fit («placet four-eyes» shows and changes where)",
    )
    parser.add_argument(
        "--no-auth", action="store_true", help="ask nobody who they are; only on an address of this machine"
    )
    parser.add_argument("--no-run", action="store_true", help="only show and decide: others drive the runs")
    parser.add_argument(
        "--max-concurrent",
        type=whole_number(1),
        default=16,
        metavar="N",
        help="runs to drive at once (default: %(default)s)",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="what calls that have begun get to end when the desk is stopped; a second signal ends it at once "
        "(default: 30)",
    )
    parser.add_argument("--open", action="store_true", help="open the inbox in a browser")


def run(options: argparse.Namespace) -> int:
    given = _serving(options)
    refuse_if_public_and_open(given)
    log_to_stderr()
    warn_if_open(given)
    if not given.agents:
        complain(
            "without MODULE:NAME this desk shows and decides, and cannot start runs or check edited arguments: "
            "«placet serve MODULE:NAME --no-run» can."
        )
    return asyncio.run(serve_until_stopped(given, _announce))


def _serving(options: argparse.Namespace) -> Serving:
    if options.agents is None and not options.no_run:
        raise UsageError("say where the agents are, as in «placet serve shop.agents:all_agents», or give --no-run.")
    if "@" in (options.public_url or ""):
        raise UsageError("--public-url is what people are sent to: it holds no name and no password.")
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together.")
    for name, file in (("--tls-cert", options.tls_cert), ("--tls-key", options.tls_key)):
        if file is not None and not os.access(file, os.R_OK):
            raise UsageError(f"the file of {name}, {file}, is not there, or cannot be read.")
    return Serving(
        store=str(options.store),
        agents=[] if options.agents is None else agents_of(options.agents),
        host=options.host,
        port=options.port,
        host_names=tuple(options.host_name),
        public_url=options.public_url,
        is_open=options.no_auth,
        open_name=this_user(),
        four_eyes=tuple(pattern_of(text) for text in options.four_eyes),
        trusted_proxies=tuple(options.trusted_proxy),
        tls=None if options.tls_cert is None else (options.tls_cert, options.tls_key),
        drives=not options.no_run,
        max_concurrent=options.max_concurrent,
        grace=options.grace,
        opens_browser=options.open,
    )


def _announce(url: str, key: str | None) -> None:
    print(f"The desk is at {url}")
    if key is not None:
        print(f"There is nobody yet. This link works once and makes the first admin:\n\n  {url}/invitation?key={key}\n")
    print("Ctrl-C ends it; runs that wait go on waiting.", flush=True)
