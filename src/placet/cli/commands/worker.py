"""`placet worker`: drive runs out of a PostgreSQL that many workers and desks share."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import click
from click import UsageError

from placet.cli.loading import agents_of, object_of, warn_if_pooled
from placet.cli.options import Above, agents_argument, command, store_option
from placet.cli.serving import receipts_of
from placet.declare.run_config import RunConfig
from placet.service.driving import MAX_TAKEOVERS
from placet.stores.opening import open_store
from placet.stores.sql.leases import DEFAULT_TTL
from placet.stores.sqlite import SQLiteStore

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIELDS = ("run_id", "outcome", "takeovers", "error")


class _NamedEvents(logging.Formatter):
    """Our log records are events with fields: shown behind the message, where there are some."""

    def format(self, record: logging.LogRecord) -> str:
        found = [f"{name}={vars(record)[name]}" for name in FIELDS if name in vars(record)]
        return " ".join([super().format(record), *found])


@command("worker")
@agents_argument()
@store_option
@click.option("--concurrency", type=click.IntRange(min=1), default=16, metavar="N", help="runs at once (default: 16)")
@click.option("--queues", metavar="A,B", help="only runs of these agents (default: all of them)")
@click.option("--name", metavar="NAME", help="what others call it (default: host:process)")
@click.option("--grace", type=click.FloatRange(min=0), default=30.0, metavar="SECONDS", help="see above (default: 30)")
@click.option(
    "--lease",
    type=Above(0),
    default=DEFAULT_TTL,
    metavar="SECONDS",
    help="after so long without a sign of life others take over (default: 30)",
)
@click.option(
    "--max-takeovers",
    type=click.IntRange(min=1),
    default=MAX_TAKEOVERS,
    metavar="N",
    help="a run that took so many workers down one after another is parked (default: 10)",
)
@click.option("--polling", is_flag=True, help="for poolers that forbid LISTEN")
@click.option("--context-factory", metavar="MODULE:NAME", help="makes the context of a run when it is driven")
@click.option("--session-factory", metavar="MODULE:NAME", help="opens the session with an id")
@click.option("--run-config", metavar="MODULE:NAME", help="a RunConfig for all runs")
@click.option(
    "--policy",
    metavar="FILE",
    help="rules about every call, followed when they change (managed: those that people voted on)",
)
@click.option("--metrics-port", type=int, metavar="PORT", help="numbers for Prometheus, on loopback")
@click.option("--metrics-host", default="127.0.0.1", metavar="HOST", help="… on this address instead")
@click.option("-v", "--verbose", is_flag=True, help="say what happens, not only what goes wrong")
def worker(**options: Any) -> None:  # Any: one keyword for each option above
    """Start a worker: it drives runs of these agents out of a PostgreSQL that any number of workers and desks share.

    SIGTERM (or Ctrl-C) stops it: runs come to the next good place and are handed to other workers; what is not there
    when the grace time is over is broken off. A second signal ends it at once.
    """
    asyncio.run(_work(Options(**options)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a worker is started with."""

    agents: str
    store: str
    concurrency: int
    queues: str | None
    name: str | None
    grace: float
    lease: float
    max_takeovers: int
    polling: bool
    context_factory: str | None
    session_factory: str | None
    run_config: str | None
    policy: str | None
    metrics_port: int | None
    metrics_host: str
    verbose: bool


def _set_up_logging(*, is_verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_NamedEvents(FORMAT))
    logging.basicConfig(level=logging.INFO if is_verbose else logging.WARNING, handlers=[handler])
    if not is_verbose:  # it says twice what we say once
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)


async def _work(options: Options) -> None:
    agents = agents_of(options.agents)
    store = open_store(options.store, lease_ttl=options.lease, listen=not options.polling)
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
        run_config=_with_receipts(_run_config(options.run_config)),
        policy=options.policy,
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


def _with_receipts(config: RunConfig | None) -> RunConfig | None:
    """What the environment says about receipts, where the configuration says nothing."""
    if config is not None and config.receipts is not None:
        return config
    found = receipts_of(None, None)
    return config if found is None else dataclasses.replace(config or RunConfig(), receipts=found)


def _function(place: str | None) -> Any:  # Any: a function of the user's
    if place is None:
        return None
    found = object_of(place)
    if not callable(found):
        raise UsageError(f"{place} is not a function.")
    return found
