"""`placet channels` over HTTP with a token, and straight on the store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.cli.main import main
from placet.clock import SYSTEM_CLOCK
from placet.service.subscriptions import Filters, Subscriptions, subscription_record
from placet.stores.opening import open_store
from tests.cli.test_desk_commands import Place, Run, place, run

__all__ = ["place", "run"]


def listed(run: Run) -> list[Any]:
    return [json.loads(line) for line in run("webhooks", "--json").splitlines()]


def test_a_webhook_is_added_listed_changed_and_removed(run: Run) -> None:
    added = run("channels", "add", "ops", "https://hooks.example.com/x", "--event", "request.waiting", "--tool", "re*")
    table = run("webhooks")
    (made,) = listed(run)
    run("webhooks", "change", "ops", "--all-events", "--tool", "refund", "--arguments")
    (changed,) = listed(run)
    rotated = run("webhooks", "rotate", "ops")
    suspended = run("webhooks", "suspend", made["id"][-6:], "--reason", "holidays")
    resumed = run("webhooks", "resume", "ops", "--from-now")
    letters = run("webhooks", "letters", "ops")
    sent = run("webhooks", "send", "ops")
    removed = run("webhooks", "remove", "ops")

    assert added.startswith("whsec_")
    assert rotated.startswith("whsec_")
    assert added.split()[0] != rotated.split()[0]
    assert "request.waiting; tools re*" in table
    assert (made["events"], made["tools"], made["shows_arguments"]) == (["request.waiting"], ["re*"], False)
    assert (changed["events"], changed["tools"], changed["shows_arguments"]) == ([], ["refund"], True)
    assert "suspended: holidays" in suspended
    assert "told again" in resumed
    assert "Everything got through" in letters
    assert "0 dead letters" in sent
    assert made["id"] in removed
    assert listed(run) == []


def test_slips_are_told(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run("webhooks", "add", "ops", "http://hooks.example.com/", fails=True)
    unknown = run("webhooks", "add", "ops", "https://hooks.example.com/", "--event", "nothing", fails=True)
    missing = run("webhooks", "remove", "hook_x", fails=True)
    both = run("webhooks", "change", "x", "--all-events", "--event", "run.ended", fails=True)
    unclear = run("webhooks", "add", "tg", "telegram:foo", fails=True)
    run("webhooks", "add", "ops", "https://127.0.0.1:1/")
    tested = run("webhooks", "test", "ops", fails=True)

    assert "https://" in plain
    assert "request.waiting" in unknown
    assert "«placet channels» lists them" in missing
    assert "contradict" in both
    assert "private address" in tested
    assert ".." not in tested
    assert "write https://…, slack:#channel, mailto:… or apprise:NAME" in unclear


def test_a_name_is_one_channels(run: Run) -> None:
    run("channels", "add", "ops", "https://one.example.com/")
    second = run("channels", "add", " ops", "https://two.example.com/", fails=True)
    run("channels", "add", "other", "https://two.example.com/")
    renamed = run("channels", "change", "other", "--name", "ops", fails=True)
    run("channels", "change", "ops", "--name", "ops", "--arguments")

    assert "There is a channel 'ops' already" in second
    assert "There is a channel 'ops' already" in renamed
    assert [each["name"] for each in listed(run)] == ["ops", "other"]


async def test_two_of_one_name_in_an_old_store_are_told_apart_by_their_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    async with open_store(url) as store:
        known = Subscriptions(store, SYSTEM_CLOCK)
        one = await known.add("ops", "https://one.example.com/", Filters())
        two = await known.add("two", "https://two.example.com/", Filters())
        await store.replace_record(subscription_record(msgspec.structs.replace(two, name="ops")))
    code = await asyncio.to_thread(main, ["channels", "remove", "ops", "--store", url])
    words = capsys.readouterr().err
    by_id = await asyncio.to_thread(main, ["channels", "remove", two.id, "--store", url])

    assert (code, by_id) == (2, 0)
    assert "two channels are called 'ops': use the id" in words
    assert one.id in words
    assert two.id in words


def test_a_group_that_nobody_is_in_is_warned_of_by_name(
    place: Place, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("users", "add", "mo", "--group", "finance")

    for words in (
        ("add", "ops", "https://hooks.example.com/x", "--group", "finance"),
        ("add", "other", "https://hooks.example.com/x", "--group", "finanse"),
        ("change", "ops", "--group", "finanse"),
    ):
        assert main(["channels", *words, *place.options]) == 0
        is_misspelt = "finanse" in words
        said = capsys.readouterr().err
        assert ("nobody is in a group 'finanse'. Did you mean 'finance'?" in said) == is_misspelt
