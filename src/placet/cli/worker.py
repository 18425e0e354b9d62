"""`placet worker`: drive runs out of a PostgreSQL that many workers and desks share."""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import sys
from contextlib import AsyncExitStack
from typing import Any

from placet.cli.exit_codes import OK, UsageError
from placet.cli.loading import add_store, agents_of, object_of, warn_if_pooled
from placet.declare.run_config import RunConfig
from placet.service.driving import MAX_TAKEOVERS
from placet.stores.opening import open_store
from placet.stores.sql.leases import DEFAULT_TTL
from placet.stores.sqlite import SQLiteStore

DESCRIPTION = """\
Starts a worker: it drives runs of these agents out of a PostgreSQL that any
number of workers and desks share. SIGTERM (or Ctrl-C) stops it: runs come to
the next good place and are handed to other workers; what is not there when the
grace time is over is broken off. A second signal ends it at once.
"""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIELDS = ("run_id", "outcome", "takeovers", "error")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("agents", metavar="MODULE:NAME", help="where the agents are: an Agent or a list")
    add_store(parser)
    parser.add_argument("--concurrency", type=int, default=16, metavar="N", help="runs at once (default: 16)")
    parser.add_argument("--queues", metavar="A,B", help="only runs of these agents (default: all of them)")
    parser.add_argument("--name", help="what others call it (default: host:process)")
    parser.add_argument("--grace", type=float, default=30.0, metavar="SECONDS", help="see above (default: 30)")
    parser.add_argument(
        "--lease",
        type=float,
        default=DEFAULT_TTL,
        metavar="SECONDS",
        help="after so long without a sign of life others take\nover (default: 30)",
    )
    parser.add_argument(
        "--max-takeovers",
        type=int,
        default=MAX_TAKEOVERS,
        metavar="N",
        help="a run that took so many workers down one after\nanother is parked (default: 10)",
    )
    parser.add_argument("--polling", action="store_true", help="for poolers that forbid LISTEN")
    parser.add_argument("--context-factory", metavar="MODULE:NAME", help="makes the context of a run when it is driven")
    parser.add_argument("--session-factory", metavar="MODULE:NAME", help="opens the session with an id")
    parser.add_argument("--run-config", metavar="MODULE:NAME", help="a RunConfig for all runs")
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="numbers for Prometheus, on loopback")
    parser.add_argument("--metrics-host", default="127.0.0.1", metavar="HOST", help="… on this address instead")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what happens, not only what goes wrong")


class _NamedEvents(logging.Formatter):
    """Our log records are events with fields: shown behind the message, where there are some."""

    def format(self, record: logging.LogRecord) -> str:
        found = [f"{name}={vars(record)[name]}" for name in FIELDS if name in vars(record)]
        return " ".join([super().format(record), *found])


def run(options: argparse.Namespace) -> int:
    if options.concurrency < 1:
        raise UsageError("a worker drives at least one run at once.")
    if not options.lease > 0 or options.grace < 0 or options.max_takeovers < 1:
        raise UsageError("a lease lasts some time, a grace is not negative, and one take-over at least is allowed.")
    return asyncio.run(_run(options))


def _set_up_logging(*, is_verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_NamedEvents(FORMAT))
    logging.basicConfig(level=logging.INFO if is_verbose else logging.WARNING, handlers=[handler])
    if not is_verbose:  # it says twice what we say once
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)


async def _run(options: argparse.Namespace) -> int:
    agents = agents_of(options.agents)
    store = open_store(str(options.store), lease_ttl=options.lease, listen=not options.polling)
    if isinstance(store, SQLiteStore):
        raise UsageError("workers share a PostgreSQL (--store postgresql://…); on SQLite, «placet serve» drives runs.")
    from placet.fleet.figures import fleet_numbers
    from placet.fleet.metrics import metrics_server
    from placet.fleet.schema import migrate
    from placet.fleet.worker import Worker

    worker = Worker(
        store,
        agents,
        concurrency=options.concurrency,
        queues=[name.strip() for name in options.queues.split(",")] if options.queues else None,
        name=options.name,
        grace=options.grace,
        max_takeovers=options.max_takeovers,
        run_config=_run_config(options.run_config),
        context_factory=_function(options.context_factory),
        session_factory=_function(options.session_factory),
    )
    _set_up_logging(is_verbose=options.verbose)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store)
        await migrate(store)  # what is wrong with the database is said here, and not in a log
        warn_if_pooled(store)
        worker.stop_by_signals()
        stack.push_async_callback(_print_stopped)
        if options.metrics_port is not None:
            numbers = functools.partial(fleet_numbers, store)
            await stack.enter_async_context(metrics_server(options.metrics_host, options.metrics_port, numbers))
        announcing = asyncio.create_task(_announce(worker.engine.is_ready, worker.agents))
        stack.callback(announcing.cancel)
        await worker.run()
    return OK


async def _announce(is_ready: asyncio.Event, names: list[str]) -> None:
    await is_ready.wait()
    print(f"placet worker: ready for runs of {', '.join(names)}.", file=sys.stderr, flush=True)


async def _print_stopped() -> None:
    print("placet worker: stopped.", file=sys.stderr, flush=True)


def _run_config(place: str | None) -> RunConfig | None:
    if place is None:
        return None
    found = object_of(place)
    if not isinstance(found, RunConfig):
        raise UsageError(f"{place} is a {type(found).__name__}, not a RunConfig.")
    return found


def _function(place: str | None) -> Any:  # Any: a function of the user's
    if place is None:
        return None
    found = object_of(place)
    if not callable(found):
        raise UsageError(f"{place} is not a function.")
    return found
