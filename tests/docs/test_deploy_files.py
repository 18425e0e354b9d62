"""The files for deploying a desk are what the page shows, and the command takes what they give it."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from types import SimpleNamespace

import pytest

from placet.cli.commands.serve import serve
from placet.desk.api.v1 import OPERATIONS
from placet.desk.server import check_bind
from placet.desk.web.settings import WebSettings, is_loopback
from tests.docs.pages import DOCS, ROOT, prose_of

DEPLOY = ROOT / "deploy"


def options_of(command: list[str]) -> SimpleNamespace:
    """The command as `placet serve` understands it; wrong options end the test."""
    assert command[0].endswith("/placet")
    assert command[1] == "serve"
    return SimpleNamespace(**serve.make_context("placet serve", command[2:]).params)


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]  # the names keep their capitals
    found.read(DEPLOY / "placet.service")
    return found


def container() -> dict[str, str]:
    """The last word of each instruction of the last stage."""
    text = (DEPLOY / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}


def test_the_service_starts_a_desk_that_is_behind_a_proxy_and_asks_who_people_are() -> None:
    service = unit()["Service"]
    given = options_of(shlex.split(service["ExecStart"]))

    assert is_loopback(given.host)
    assert not given.no_auth
    assert given.public_url.startswith("https://")
    assert given.trusted_proxy == ("127.0.0.1",)
    assert service["User"] not in ("", "root")
    assert service["NoNewPrivileges"] == "yes"
    assert service["KillSignal"] == "SIGTERM"


def test_the_container_runs_as_nobody_special_and_its_health_is_asked_for_where_it_is() -> None:
    found = container()
    given = options_of(json.loads(found["CMD"]))
    check_bind(given.host, WebSettings(is_open=given.no_auth))
    health = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])

    assert found["USER"] == "placet"
    assert not is_loopback(given.host)
    assert not given.no_auth
    assert f"127.0.0.1:{given.port}/readyz" in health[-1]
    assert str(given.port) == found["EXPOSE"]
    assert "/readyz" in {operation.path for operation in OPERATIONS}


def test_the_proxy_replaces_what_clients_say_of_themselves_and_holds_no_events_back() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    places = dict(re.findall(r"location (?:= )?(\S+) \{(.*?)\n    \}", text, re.DOTALL))

    for place in ("/", "/v1/events"):
        assert "proxy_set_header X-Forwarded-For $remote_addr;" in places[place]
        assert "proxy_set_header X-Forwarded-Proto $scheme;" in places[place]
        assert "proxy_set_header Host $host;" in places[place]
    assert "proxy_buffering off;" in places["/v1/events"]
    assert "return 404;" in places["/metrics"]
    assert text.count("{") == text.count("}")
    assert "client_max_body_size 1m;" in text
    assert WebSettings().max_body == 2**20


@pytest.mark.parametrize("name", sorted(path.name for path in DEPLOY.iterdir()))
def test_every_file_is_named_on_the_page(name: str) -> None:
    assert f"](../deploy/{name})" in prose_of(DOCS / "deployment.md")
