"""The book of leases: renewed while their drivers live, dead when somebody else has them."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Sequence

import pytest

from placet.ports import Lease
from placet.stores.sql.leases import LeaseBook
from placet.testing import ManualClock
from placet.testing.desk_contracts import Driver

TTL = 30.0


class Database:
    """The database's side, as a test wants it."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self.renewed: list[list[str]] = []
        self.expired: list[str] = []
        self.connections = 0
        self.is_away = False
        self.was_asked = threading.Event()

    def connect(self) -> Database:
        self.connections += 1
        return self

    def renew(self, held: Sequence[Lease], ttl: float) -> Sequence[bool]:
        self.was_asked.set()
        if self.is_away:
            raise ConnectionError("the database is away")
        self.renewed.append([lease.run_id for lease in held])
        return [lease.run_id not in self.lost for lease in held]

    def expire(self, gone: Sequence[Lease]) -> None:
        self.expired += [lease.run_id for lease in gone]

    def close(self) -> None:
        pass


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_the_end_of_a_lease_moves_with_every_renewal(database: Database, clock: ManualClock) -> None:
    book, driver = LeaseBook(database.connect, TTL, clock), Driver()
    lease = book.add("run_a", 1, driver, book.now())
    granted = lease.live_until
    clock.advance(10.0)
    book.renew_all()
    book.close()

    assert granted == pytest.approx(clock.monotonic() - 10.0 + TTL)
    assert lease.live_until == pytest.approx(clock.monotonic() + TTL)


def test_a_lease_that_somebody_else_has_is_dead_at_once_and_not_renewed_again(
    database: Database, clock: ManualClock
) -> None:
    book, driver = LeaseBook(database.connect, TTL, clock), Driver()
    lost, kept = (book.add(run_id, 1, driver, book.now()) for run_id in ("run_a", "run_b"))
    database.lost.add("run_a")
    book.renew_all()
    book.renew_all()
    book.close()

    assert lost.live_until == 0
    assert kept.live_until > clock.monotonic()
    assert database.renewed == [["run_a", "run_b"], ["run_b"]]


def test_a_lease_that_was_given_back_is_not_renewed(database: Database, clock: ManualClock) -> None:
    book, driver = LeaseBook(database.connect, TTL, clock), Driver()
    first = book.add("run_a", 1, driver, book.now())
    second = book.add("run_a", 2, driver, book.now())
    book.remove(first)
    book.renew_all()
    book.remove(second)
    book.renew_all()
    book.close()

    assert database.renewed == [["run_a"]]


def test_the_lease_of_a_driver_that_is_gone_ends_instead_of_being_renewed(
    database: Database, clock: ManualClock
) -> None:
    book, driver = LeaseBook(database.connect, TTL, clock), Driver()
    book.add("run_a", 7, driver, book.now())
    alive = book.epoch_of_dead_driver("run_a")
    del driver
    gc.collect()
    gone = book.epoch_of_dead_driver("run_a")
    book.renew_all()
    book.close()

    assert (alive, gone) == (None, 7)
    assert (database.renewed, database.expired) == ([], ["run_a"])


def test_a_database_that_is_away_is_asked_again_on_a_new_connection(database: Database, clock: ManualClock) -> None:
    database.is_away = True
    book, driver = LeaseBook(database.connect, 0.09, clock), Driver()
    lease = book.add("run_a", 1, driver, book.now())
    granted = lease.live_until
    assert database.was_asked.wait(5.0)
    clock.advance(1.0)
    database.is_away = False
    give_up = threading.Event()
    for _ in range(500):
        if lease.live_until > granted or give_up.wait(0.01):
            break
    book.close()

    assert lease.live_until > granted
    assert database.connections >= 2


def test_an_outage_is_told_once_and_once_when_it_is_over(
    database: Database, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    database.is_away = True
    book, driver = LeaseBook(database.connect, 0.06, clock), Driver()
    with caplog.at_level(logging.INFO, "placet.stores"):
        lease = book.add("run_a", 1, driver, book.now())
        while database.connections < 4:  # it was tried several times
            assert database.was_asked.wait(30.0)
            database.was_asked.clear()
        clock.advance(1.0)
        database.is_away = False
        while lease.live_until < clock.monotonic():
            assert database.was_asked.wait(30.0)
            database.was_asked.clear()
        book.close()

    assert [vars(record)["action"] for record in caplog.records] == ["renewal_failed", "renewal_resumed"]
