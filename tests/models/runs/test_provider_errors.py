"""Errors of the official clients, translated: was the request taken, may it be sent again, after how long?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from placet import ProviderError, RequestNotTaken
from placet.models.provider_errors import is_of_a_client, provider_errors, retry_after, translated

REQUEST = httpx2.Request("POST", "https://api.invalid/v1/responses")


def status_error(status: int, code: str | None = None, *, library: Any = openai, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(status, headers=named, request=REQUEST)
    made: Exception = library.APIStatusError(
        "what went wrong", response=response, body={"code": code, "message": "what went wrong"}
    )
    return made


@pytest.mark.parametrize("library", [openai, anthropic])
@pytest.mark.parametrize(
    ("status", "is_refused", "is_transient"),
    [
        (400, True, False),
        (401, True, False),
        (403, True, False),
        (404, True, False),
        (408, False, True),
        (409, True, True),
        (422, True, False),
        (425, True, True),
        (429, True, True),
        (500, False, True),
        (502, False, True),
        (503, False, True),
        (529, False, True),
    ],
)
def test_a_status_says_whether_it_was_taken_and_may_pass(
    status: int, is_refused: bool, is_transient: bool, library: Any
) -> None:
    found = translated(status_error(status, library=library), "OpenAI")

    assert (isinstance(found, RequestNotTaken), found.is_transient, found.status) == (is_refused, is_transient, status)
    assert f"answered {status}: what went wrong" in str(found)


@pytest.mark.parametrize(("told", "expected"), [("true", True), ("false", False)])
def test_a_provider_that_says_whether_to_try_again_is_believed(told: str, expected: bool) -> None:
    found = translated(status_error(500 if told == "false" else 400, x_should_retry=told), "OpenAI")

    assert found.is_transient is expected


def test_no_waiting_fills_an_account() -> None:
    found = translated(status_error(429, "insufficient_quota"), "OpenAI")

    assert isinstance(found, RequestNotTaken)
    assert not found.is_transient


def test_a_lock_is_known_by_its_code_whatever_the_status() -> None:
    found = translated(status_error(400, "conversation_locked"), "OpenAI")

    assert (isinstance(found, RequestNotTaken), found.is_transient, found.is_locked) == (True, True, True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after-ms": "500", "retry-after": "20"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_told_in_milliseconds_in_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("below", "is_refused"),
    [
        (httpx2.ConnectError("refused"), True),
        (httpx2.ConnectTimeout("slow"), True),
        (httpx2.PoolTimeout("full"), True),
        (httpx2.ReadTimeout("silence"), False),
        (httpx2.WriteTimeout("stuck"), False),
        (httpx2.ReadError("reset"), False),
        (httpx2.WriteError("reset"), False),
        (httpx2.RemoteProtocolError("cut"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_never_left_is_certainly_not_taken(below: Exception, is_refused: bool) -> None:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = below

    found = translated(error, "OpenAI")

    assert (isinstance(found, RequestNotTaken), found.is_transient) == (is_refused, True)


def test_the_request_id_is_kept_for_the_providers_support() -> None:
    assert translated(status_error(500, x_request_id="req_1"), "OpenAI").request_id == "req_1"
    assert translated(status_error(500, library=anthropic, request_id="req_2"), "Anthropic").request_id == "req_2"


def test_a_wrong_key_is_named() -> None:
    assert "Check the key for OpenAI" in str(translated(status_error(401), "OpenAI"))


def test_other_peoples_errors_pass_as_they_are() -> None:
    with pytest.raises(KeyError), provider_errors("OpenAI"):
        raise KeyError("mine")

    assert not is_of_a_client(ValueError("mine"))


def test_the_clients_error_is_the_cause() -> None:
    given = status_error(500)

    with pytest.raises(ProviderError) as caught, provider_errors("OpenAI"):
        raise given

    assert caught.value.__cause__ is given
