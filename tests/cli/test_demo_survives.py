"""The demo is killed at every moment at which its file changes, before and after the effects that follow."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from placet.cli.demo_folder import DemoFolder
from placet.cli.demo_session import DemoSession
from placet.cli.verdicts import Approve, Edit

ONE_OF_TWO = Edit({"cents": 12400})


@dataclass(frozen=True)
class Moment:
    """What is on the disk at once: the state file and the shop's receipts."""

    state: str
    receipts: dict[str, str]


class WatchedFolder(DemoFolder):
    """A folder that remembers all that was ever on the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.moments: list[Moment] = []

    def save(self, text: str) -> None:
        super().save(text)
        self.moments.append(Moment(text, self.receipts()))

    def receipts(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.shop / "refunds").glob("*.json")}


def complete(session: DemoSession) -> None:
    """Decide whatever waits: the lamp's refund is corrected, all else is approved."""
    while cards := session.waiting():
        card = cards[-1]
        session.decide([(card, ONE_OF_TWO if card.number == 2 else Approve())])


def watched_run(folder: Path) -> WatchedFolder:
    watched = WatchedFolder(folder)
    with watched.used_alone():
        session = DemoSession(watched, "mia")
        session.begin()
        complete(session)
    return watched


def gone_on_from(folder: Path, state: str, receipts: dict[str, str]) -> tuple[WatchedFolder, DemoSession]:
    """Another process finds this on the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    found = WatchedFolder(folder)
    (found.shop / "refunds").mkdir(parents=True)
    found.state.write_text(state)
    for name, text in receipts.items():
        (found.shop / "refunds" / name).write_text(text)
    session = DemoSession(found, "noah")
    session.begin()
    return found, session


def test_whenever_it_is_killed_each_refund_is_paid_once_and_the_run_ends_alike(tmp_path: Path) -> None:
    watched = watched_run(tmp_path / "first")
    _, first = gone_on_from(tmp_path / "again", watched.moments[-1].state, watched.receipts())
    moments, final = watched.moments, (watched.receipts(), first.result.final_output)
    ends = []
    for now, later in zip(moments, [*moments[1:], moments[-1]], strict=True):
        for receipts in (now.receipts, later.receipts):  # killed before the effect, and after it but before its record
            again, session = gone_on_from(tmp_path / "again", now.state, receipts)
            assert [card.item.kind for card in session.waiting() if card.item.kind != "approval"] == []
            complete(session)
            ends.append((again.receipts(), session.result.final_output))

    assert len(watched.receipts()) == 2
    assert len(moments) > 8
    assert any(now.receipts != later.receipts for now, later in itertools.pairwise(moments))
    assert [end for end in ends if end != final] == []


def test_no_file_that_follows_a_decision_lacks_it(tmp_path: Path) -> None:
    watched = watched_run(tmp_path / "first")
    decided = next(index for index, moment in enumerate(watched.moments) if '"edit"' in moment.state)
    again, session = gone_on_from(tmp_path / "again", watched.moments[decided].state, {})
    complete(session)

    assert all('"edit"' in moment.state for moment in watched.moments[decided:])
    assert again.moments
    assert all('"edit"' in moment.state for moment in again.moments)


def test_a_decision_is_in_the_file_before_the_run_goes_on(tmp_path: Path) -> None:
    watched = watched_run(tmp_path)
    first = next(moment for moment in watched.moments if '"edit"' in moment.state)
    found = json.loads(first.state)

    assert [decision[4] for decision in found["staged"]] == ["edit"]
    assert '"edit"' not in json.dumps(found["log"])


def test_a_claim_is_in_the_file_before_its_refund(tmp_path: Path) -> None:
    watched = watched_run(tmp_path)
    paid = [moment for moment in watched.moments if moment.receipts]
    unpaid = [moment for moment in watched.moments if not moment.receipts]

    assert paid
    assert '["run",["1.2"]]' in unpaid[-1].state


def test_a_run_that_ended_unseen_is_shown_by_the_next_process(tmp_path: Path) -> None:
    watched = watched_run(tmp_path / "first")

    _, session = gone_on_from(tmp_path / "again", watched.moments[-1].state, watched.receipts())

    assert session.has_ended
    assert "Refunded 124.00 EUR for order 1077" in str(session.result.final_output)
    assert session.waiting() == []


def test_begun_anew_the_numbers_of_the_calls_stay(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    with folder.used_alone():
        session = DemoSession(folder, "mia")
        session.begin()
        session.decide([(session.waiting()[0], Approve())])
        again = DemoSession(folder, "noah")
        again.begin()

    assert [(card.number, card.arguments["order_id"]) for card in again.waiting()] == [(2, "1077")]
