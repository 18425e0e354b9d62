"""Errors of the providers' clients, translated once for all adapters: was the request taken, and may it be sent again?

Both official clients (`openai`, `anthropic`) are made alike, so one look at the error's shape serves both: the HTTP
status, the headers, and what broke below. Nothing here imports a client.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from placet.facts.errors import ModelTimeoutError, ProviderError, RequestNotTaken, ServerHistoryNotFound

_NEVER_LEFT = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "LocalProtocolError"}
)
"""What the HTTP client raises before a byte of the request has reached anybody who could act on it."""

_CLIENTS = ("openai", "anthropic", "litellm", "httpx", "httpx2", "httpcore")
_LOCKED = "conversation_locked"
_RESPONSE_GONE = "previous_response_not_found"
_CONVERSATION_GONE = re.compile(r"Conversation with id \S+ not found")
_PAID_UP = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
"""Rate limits that no waiting lifts."""
_TRANSIENT_EVENTS = frozenset(
    {"server_error", "rate_limit_exceeded", "rate_limit_error", "overloaded_error", "api_error", "timeout_error"}
)
"""What providers name in the middle of a stream when trying again may help."""


@contextlib.contextmanager
def provider_errors(provider: str) -> Iterator[None]:
    """Whatever the provider's client raises in here comes out as a ProviderError or a RequestNotTaken."""
    try:
        yield
    except Exception as error:
        if not is_of_a_client(error):
            raise
        raise translated(error, provider) from error


def is_of_a_client(error: Exception) -> bool:
    """Whether a provider's client raised this (or the JSON reader in it): our own errors pass as they are."""
    root = type(error).__module__.partition(".")[0]
    return root in _CLIENTS or type(error).__name__ == "JSONDecodeError" or isinstance(error, UnicodeDecodeError)


def translated(error: Exception, provider: str) -> ProviderError:
    """What an error of a client means for the request: certainly not taken, or unknown; for good, or for now."""
    status = getattr(error, "status_code", None)
    response: Any = getattr(error, "response", None)  # Any: an HTTP response of one of several client libraries
    if isinstance(status, int) and response is not None and not _is_success(status):
        return _of_status(error, status, response, provider)
    if type(error).__name__ == "JSONDecodeError" or "Validation" in type(error).__name__ or _is_success(status):
        return ProviderError(f"{provider} answered something that is not JSON of the API: {_brief(error)}.")
    return _of_connection(error, provider)


def _is_success(status: object) -> bool:
    return isinstance(status, int) and 200 <= status < 300


def _of_status(error: Exception, status: int, response: Any, provider: str) -> ProviderError:
    code = code_of(error)
    headers: Mapping[str, str] = response.headers
    locked = code == _LOCKED
    transient = locked or status in (408, 409, 425, 429) or status >= 500
    advice = headers.get("x-should-retry")
    if advice in ("true", "false"):
        transient = advice == "true"
    if code in _PAID_UP:
        transient = False
    was_refused = 400 <= status < 500 and status != 408  # a server that answers 5xx may have done the work before
    kind = RequestNotTaken if was_refused else ProviderError
    hint = _hint(status, provider)
    if was_refused and _is_unknown_to_server(code, _brief(error)):
        kind, hint = ServerHistoryNotFound, _OWN_HISTORY
    return kind(
        f"{provider} answered {status}: {_brief(error)}{hint}",
        is_transient=transient,
        status=status,
        retry_after=retry_after(headers),
        request_id=headers.get("x-request-id") or headers.get("request-id"),
        is_locked=locked or (status == 409 and was_refused),
    )


_OWN_HISTORY = (
    " If it was deleted, resume the run with own_history=True: then the run sends all that it has itself. What the "
    "server had before the run began is not in that."
)


def _is_unknown_to_server(code: str | None, message: str) -> bool:
    """Whether the response, or the conversation, that the request was to follow is not there. For the latter OpenAI
    has no code, but a sentence."""
    return code == _RESPONSE_GONE or _CONVERSATION_GONE.match(message) is not None


def _of_connection(error: Exception, provider: str) -> ProviderError:
    below = {each.__name__ for cause in _causes(error) for each in type(cause).__mro__}
    if below & _NEVER_LEFT:
        return RequestNotTaken(f"{provider} could not be reached: {_brief(_last_cause(error))}.", is_transient=True)
    if "Timeout" in type(error).__name__ or "TimeoutException" in below:
        return ModelTimeoutError(f"{provider} did not answer in time.", is_transient=True)
    if _is_network(below):
        return ProviderError(
            f"The connection to {provider} broke before the answer was complete: {_brief(_last_cause(error))}.",
            is_transient=True,
        )
    code = code_of(error)
    return ProviderError(
        f"{provider} failed while it answered: {_brief(error)}", is_transient=code is None or code in _TRANSIENT_EVENTS
    )


def _is_network(below: set[str]) -> bool:
    return bool(below & {"APIConnectionError", "TransportError", "NetworkError", "StreamError", "OSError"})


def refuse_what_is_no_stream(provider: str, headers: Mapping[str, str], *, said: bool) -> None:
    """A page, or a whole answer, in the place of a stream is read as a stream that says nothing: name it."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if not said and kind != "text/event-stream":
        raise ProviderError(
            f"{provider} answered something that is no stream of the API: its content-type is '{kind or 'missing'}'.",
            request_id=headers.get("x-request-id") or headers.get("request-id"),
        )


def code_of(error: Exception) -> str | None:
    """The provider's own word for what is wrong, wherever it stands."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    found = [inner.get("code"), inner.get("type")] if isinstance(inner, dict) else []
    found += [getattr(error, "code", None), getattr(error, "type", None)]
    return next((each for each in found if isinstance(each, str)), None)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the provider asks to wait: in milliseconds, in seconds, or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            return max(float(headers[name]) * unit, 0.0)
    with contextlib.suppress(KeyError, ValueError, TypeError):
        when = parsedate_to_datetime(headers["retry-after"])
        return max((when - (now or datetime.now(UTC))).total_seconds(), 0.0)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _last_cause(error: BaseException) -> BaseException:
    return next((each for each in (error.__cause__, error.__context__) if each is not None), error)


def _brief(error: BaseException) -> str:
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    said = inner.get("message") if isinstance(inner, dict) else None
    text = str(said or getattr(error, "message", None) or error) or type(error).__name__
    return text if len(text) <= 500 else text[:499] + "…"


def _hint(status: int, provider: str) -> str:
    if status == 401:
        return f" Check the key for {provider}."
    if status == 404:
        return " Check the name of the model and the ids that were given."
    return ""
