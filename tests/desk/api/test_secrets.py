"""No secret stands in the store: neither as text nor as base64, in no table, no free page and no write-ahead log."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from placet.desk.access.secrets import new_secret
from placet.ports import StoredRecord
from placet.stores.opening import open_store
from placet.stores.postgres import PostgresStore
from placet.stores.sql.statements import migrations
from placet.stores.sqlite import SQLiteStore
from tests.desk.api.scenes import problem
from tests.support.desk_server import PASSWORD, RunningDesk, running_desk

WITH_KEY = {"Idempotency-Key": "k"}


def key_in(link: str) -> str:
    return parse_qs(urlsplit(link).query)["key"][0].partition(".")[2]


def forms_of(secret: str) -> list[bytes]:
    """How a text can stand in bytes that one can read: itself, and in the middle of something in base64."""
    plain = secret.encode()
    found = [plain, base64.b16encode(plain).lower()]
    for shift in range(3):
        encoded = base64.b64encode(b"-" * shift + plain)
        found.append(encoded[4:-4])
    return found


def files_of(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.glob("placet.db*"))


async def whole_store(server: RunningDesk, folder: Path, url: str | None) -> bytes:
    """All that somebody can read who has the database."""
    if url is None:
        return files_of(folder)
    found = []
    async with await psycopg.AsyncConnection.connect(url) as db:
        tables = await (await db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).fetchall()
        for (table,) in tables:
            rows = await (await db.execute(f'TABLE "{table}"'.encode())).fetchall()
            found += [value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row]
    return b"\n".join(found)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_nothing_that_opens_the_desk_can_be_read_in_its_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres").store_database() if kind == "postgresql" else None
    async with running_desk(tmp_path, url=url) as server:
        first = await server.web.accounts.first_admin_key()
        assert first is not None
        root = await server.person("root", "admin", can_log_in=True)
        token = (await root.post("/v1/tokens", json={"name": "ci"}, headers=WITH_KEY)).json()["token"]
        made = (await root.post("/v1/users", json={"name": "ben", "role": "admin"}, headers=WITH_KEY)).json()["link"]
        link = (await root.post("/v1/users/ben/invitation", json={}, headers=WITH_KEY)).json()["link"]
        followed = await server.client().post(
            "/invitation", data={"key": parse_qs(urlsplit(link).query)["key"][0], "password": "ben's own sentence",
                                 "again": "ben's own sentence"}
        )  # fmt: skip
        cookie = followed.cookies["placet_session"]
        word = (await server.web.accounts.actor_of_cookie(cookie)).csrf  # type: ignore[union-attr]  # it is Ben's
        kept = await whole_store(server, tmp_path, url)

    secrets = {
        "a token": token.split("_", 2)[2],
        "a new user's link": key_in(made),
        "a link for a password": key_in(link),
        "the first admin's link": first.partition(".")[2],
        "a password": PASSWORD,
        "another password": "ben's own sentence",
        "a session": cookie.partition(".")[2],
        "a session's word": word,
    }
    assert b"root" in kept
    assert [name for name, secret in secrets.items() for form in forms_of(secret) if form in kept] == []


async def test_a_secret_that_was_shown_is_not_shown_again_and_nothing_is_made_twice(any_server: RunningDesk) -> None:
    root = await any_server.person("root", "admin")
    given = {"name": "ci", "role": "viewer"}
    first = await root.post("/v1/tokens", json=given, headers=WITH_KEY)
    again = await root.post("/v1/tokens", json=given, headers=WITH_KEY)
    other = await root.post("/v1/tokens", json={"name": "other"}, headers=WITH_KEY)
    tokens = (await root.get("/v1/tokens")).json()["data"]

    assert first.status_code == 201
    problem(again, 409, "answer_not_kept")
    assert again.headers["location"] == first.headers["location"]
    problem(other, 422, "idempotency_key_reused")
    assert [each["name"] for each in tokens] == ["tests", "ci"]


async def test_a_token_whose_maker_died_is_made_once(any_server: RunningDesk) -> None:
    accounts = any_server.web.accounts
    await accounts.add_user("ana", "reviewer")
    unseen, _ = await accounts.add_token("ana", "ci", token_id="tok-mine")
    text, token = await accounts.add_token("ana", "ci", token_id="tok-mine")

    assert [each.id for each in await accounts.tokens("ana")] == ["tok-mine"] == [token.id]
    assert await accounts.actor_of_token(unseen) is None
    assert await accounts.actor_of_token(text) is not None


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_what_older_versions_kept_readable_is_gone_after_the_migration(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    secret = new_secret()
    older = StoredRecord(kind="answer", id="x", data=f'{{"body": "{secret}"}}')
    link = StoredRecord(kind="invitation", id="inv-x", data="{}")
    if kind == "sqlite":
        path = tmp_path / "placet.db"
        url = f"sqlite:///{path}"
        old: SQLiteStore | PostgresStore = SQLiteStore(path, migrations=migrations("sqlite")[:6])
    else:
        url = request.getfixturevalue("postgres").new_database()
        old = PostgresStore(url, migrations=migrations("postgres")[:6])
    async with old:
        await old.add_record(older)
        await old.add_record(link)
    async with open_store(url) as store:
        found = [await store.record("answer", "x"), await store.record("invitation", "inv-x")]

    assert found == [None, None]
    assert secret.encode() not in files_of(tmp_path)
