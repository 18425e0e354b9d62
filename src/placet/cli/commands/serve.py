"""`placet serve`: the desk on the web: an API, the inbox where people decide, and the engine that drives the runs."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click
from click import UsageError

from placet.cli.commands.people import pattern_of
from placet.cli.loading import agents_of
from placet.cli.options import agents_argument, command, store_option
from placet.cli.output import complain, this_user
from placet.cli.serving import (
    DEFAULT_PORT,
    Serving,
    log_to_stderr,
    refuse_if_public_and_open,
    serve_until_stopped,
    warn_if_open,
)

PROXY = """\
Behind a proxy: --public-url https://desk.example.com --trusted-proxy 127.0.0.1. The proxy ends TLS; headers that say
who the client is are believed only from the addresses that are named. See docs/deployment.md.
"""


@command("serve", epilog=PROXY)
@agents_argument(required=False)
@store_option
@click.option("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    metavar="PORT",
    help=f"the port (default: {DEFAULT_PORT}; 0: a free one)",
)
@click.option("--host-name", multiple=True, metavar="NAME", help="a name under which browsers reach it")
@click.option("--public-url", metavar="URL", help="where people reach it, if a proxy stands before it")
@click.option("--trusted-proxy", multiple=True, metavar="IP", help="believe this proxy's X-Forwarded-… headers")
@click.option("--tls-cert", metavar="FILE", help="serve TLS with this certificate (and --tls-key)")
@click.option("--tls-key", metavar="FILE", help="the certificate's key")
@click.option(
    "--four-eyes",
    multiple=True,
    is_flag=False,
    flag_value="*",
    metavar="[AGENT[:TOOL]]",
    help="from now on the person who started a run cannot approve its calls, at any desk on this store: everywhere, or "
    "where these patterns fit («placet four-eyes» shows and changes where)",
)
@click.option(
    "--policy",
    metavar="FILE",
    help="rules about every call, followed when they change (managed: those that people voted on)",
)
@click.option(
    "--pass-through",
    multiple=True,
    metavar="SOURCE/GUEST[:TOOL]",
    help="nobody is asked about these calls of guests, patterns of agent and tool such as '*:read_*'; what the policy "
    "denies or asks about is denied or asked about all the same",
)
@click.option("--no-auth", is_flag=True, help="ask nobody who they are; only on an address of this machine")
@click.option("--no-run", is_flag=True, help="only show and decide: others drive the runs")
@click.option(
    "--max-concurrent", type=click.IntRange(min=1), default=16, metavar="N", help="runs to drive at once (default: 16)"
)
@click.option(
    "--grace",
    type=float,
    default=30.0,
    metavar="SECONDS",
    help="what calls that have begun get to end when the desk is stopped; a second signal ends it at once "
    "(default: 30)",
)
@click.option("--sso", metavar="FILE", help="identity providers by which people log in (docs/single-sign-on.md)")
@click.option(
    "--receipt-keys",
    metavar="FILE",
    help="sign a receipt for each approved call with the keys in this file (default: $PLACET_RECEIPT_KEYS_FILE)",
)
@click.option("--open", "opens", is_flag=True, help="open the inbox in a browser")
def serve(**options: Any) -> int:  # Any: one keyword for each option above
    """Serve a desk: an HTTP API and the pages where people see and decide what waits.

    It also drives the runs, unless told otherwise. It listens on this machine alone unless told otherwise. At the
    first start it prints a link that works once and makes the first admin.
    """
    given = serving_of(**options)
    refuse_if_public_and_open(given)
    log_to_stderr()
    warn_if_open(given)
    if not given.agents:
        complain(
            "without MODULE:NAME this desk shows and decides, and cannot start runs or check edited arguments: "
            "«placet serve MODULE:NAME --no-run» can."
        )
    return asyncio.run(serve_until_stopped(given, _announce))


def serving_of(
    *,
    agents: str | None,
    store: str,
    host: str,
    port: int,
    host_name: tuple[str, ...],
    public_url: str | None,
    trusted_proxy: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    four_eyes: tuple[str, ...],
    policy: str | None,
    pass_through: tuple[str, ...],
    no_auth: bool,
    no_run: bool,
    max_concurrent: int,
    grace: float,
    opens: bool,
    receipt_keys: str | None,
    sso: str | None,
) -> Serving:
    """What the options mean; what cannot be meant is wrong usage."""
    if agents is None and not no_run:
        raise UsageError("say where the agents are, as in «placet serve shop.agents:all_agents», or give --no-run.")
    if "@" in (public_url or ""):
        raise UsageError("--public-url is what people are sent to: it holds no name and no password.")
    return Serving(
        store=store,
        agents=[] if agents is None else agents_of(agents),
        host=host,
        port=port,
        host_names=host_name,
        public_url=public_url,
        is_open=no_auth,
        open_name=this_user(),
        four_eyes=tuple(pattern_of(text) for text in four_eyes),
        policy=policy,
        pass_through=tuple(pattern_of(text) for text in pass_through),
        trusted_proxies=trusted_proxy,
        tls=_tls_of(tls_cert, tls_key),
        drives=not no_run,
        max_concurrent=max_concurrent,
        grace=grace,
        opens_browser=opens,
        receipt_keys=receipt_keys,
        sso=sso,
    )


def _tls_of(cert: str | None, key: str | None) -> tuple[str, str] | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise UsageError("--tls-cert and --tls-key belong together.")
    for name, file in (("--tls-cert", cert), ("--tls-key", key)):
        if not os.access(file, os.R_OK):
            raise UsageError(f"the file of {name}, {file}, is not there, or cannot be read.")
    return cert, key


def _announce(url: str, key: str | None) -> None:
    print(f"The desk is at {url}")
    if key is not None:
        print(f"There is nobody yet. This link works once and makes the first admin:\n\n  {url}/invitation?key={key}\n")
    print("Ctrl-C ends it; runs that wait go on waiting.", flush=True)
