"""The fake provider: three APIs behind one door, a script, and a memory of what came in."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from placet.clock import SYSTEM_CLOCK
from placet.facts.errors import UserError
from placet.testing.provider.chat import ChatService
from placet.testing.provider.ids import Mint
from placet.testing.provider.messages import MessagesService
from placet.testing.provider.recording import ProviderRequest, recorded
from placet.testing.provider.refusal import Refused, anthropic_error, openai_error
from placet.testing.provider.reply import Reply, json_reply
from placet.testing.provider.responses import Prepared, ResponsesService
from placet.testing.provider.server import Served
from placet.testing.provider.steps import Answer, Fault, ProviderStep, Raw, Step, as_step
from placet.testing.provider.travel import faulty_reply, sent_on

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    from placet.testing.provider.transport import ProviderTransport

P = TypeVar("P")
BASE_URL = "http://provider.test/v1"
SCRIPT_ERROR = 418
"""The status of an answer that says that the script itself is wrong: no client sends such a request again."""


class Now(Protocol):
    def now(self) -> float: ...


class Service(Protocol[P]):
    """One API: it checks a request, and answers it if it may."""

    def check(self, request: ProviderRequest) -> P: ...

    def respond(self, prepared: P, answer: Answer | Raw, *, kept: bool, now: float) -> Reply: ...

    def error_event(self, message: str, code: str | None, number: int) -> bytes: ...


class FakeProvider:
    """Answers requests of the official clients from a script, and refuses what the real services refuse.

    Each request that asks a model takes one step. A request that breaks a rule is refused and takes none.
    """

    def __init__(self, steps: Sequence[Step] = (), *, clock: Now = SYSTEM_CLOCK) -> None:
        self._steps: list[Step] = list(steps)
        self._next = 0
        self._clock = clock
        self._lock = threading.RLock()
        self._mint = Mint()
        self._responses = ResponsesService(self._mint)
        self._chat = ChatService(self._mint)
        self._messages = MessagesService(self._mint)
        self._interruptions: list[tuple[str, str, ProviderStep]] = []
        self._script_errors: list[str] = []
        self.requests: list[ProviderRequest] = []
        """Everything that arrived, in order, with what it was answered."""

    # -- the script ---------------------------------------------------------------------------------------------------

    def add(self, *steps: Step) -> None:
        with self._lock:
            self._steps.extend(steps)

    def interrupt(self, method: str, path: str, fault: Step, *, times: int = 1) -> None:
        """The next requests to a path (`*` stands for anything) fail so; for those that ask no model."""
        given = ProviderRequest(method, path)
        with self._lock:
            self._interruptions += [(method, path, as_step(fault, given))] * times

    def assert_complete(self) -> None:
        """All steps were used, and the script had an answer to everything."""
        assert not self._script_errors, "; ".join(self._script_errors)
        left = len(self._steps) - self._next
        assert left == 0, f"{left} of {len(self._steps)} scripted steps were not used"

    @property
    def refusals(self) -> list[str]:
        """What was refused because it breaks a rule of the service, and why."""
        return [f"{request.method} {request.path}: {request.refusal}" for request in self.requests if request.refusal]

    @property
    def model_requests(self) -> list[ProviderRequest]:
        """The requests that asked a model."""
        return [request for request in self.requests if _asks_a_model(request)]

    # -- what the service holds ---------------------------------------------------------------------------------------

    def delete_response(self, response_id: str) -> None:
        """Somebody deletes a stored response, or its time is over: no request can follow it any more."""
        with self._lock:
            self._responses.forget(response_id)

    def create_conversation(self, items: Sequence[Any] = ()) -> str:
        """A conversation that exists before the test begins; its id."""
        with self._lock:
            return self._responses.conversations.create(items, now=self._clock.now()).id

    def conversation_items(self, conversation_id: str) -> list[dict[str, Any]]:
        """What a conversation holds, oldest first."""
        with self._lock:
            return list(self._responses.conversations.find(conversation_id).items)

    # -- ways in ------------------------------------------------------------------------------------------------------

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> Served:
        """Serve over HTTP: `async with provider.serve() as url`, or `with …` from a thread of its own."""
        return Served(self.answer, host, port)

    def transport(self) -> ProviderTransport:
        """A transport for the clients' own HTTP library: no socket, the same bytes."""
        from placet.testing.provider.transport import ProviderTransport

        return ProviderTransport(self.answer)

    def openai_client(self, **options: Any) -> AsyncOpenAI:
        """The official client, with this provider behind it in the same process."""
        import httpx2
        from openai import AsyncOpenAI

        http_client = httpx2.AsyncClient(transport=self.transport())
        return AsyncOpenAI(**{"base_url": BASE_URL, "api_key": "test", "http_client": http_client, **options})

    def anthropic_client(self, **options: Any) -> AsyncAnthropic:
        """The official client, with this provider behind it in the same process."""
        import httpx2
        from anthropic import AsyncAnthropic

        http_client = httpx2.AsyncClient(transport=self.transport())
        url = BASE_URL.removesuffix("/v1")
        return AsyncAnthropic(**{"base_url": url, "api_key": "test", "http_client": http_client, **options})

    # -- answering ----------------------------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """One request, from any thread."""
        with self._lock:
            request = recorded(method, target, headers, _parsed(body))
            if request.path == "/provider":
                return json_reply(self._requests())
            self.requests.append(request)
            reply = self._answer(request)
            reply.headers.setdefault(
                "request-id" if request.api == "messages" else "x-request-id", self._mint.short("req")
            )
            request.status = reply.status if reply.has_head else None
            return reply

    def _requests(self) -> dict[str, Any]:
        """What a test in another process wants to know: `GET /provider`."""
        return {
            "requests": [dataclasses.asdict(request) for request in self.requests],
            "refusals": self.refusals,
            "script_errors": list(self._script_errors),
            "steps_left": len(self._steps) - self._next,
        }

    def _answer(self, request: ProviderRequest) -> Reply:
        try:
            _check_request(request)
            return self._routed(request)
        except Refused as refused:
            request.refusal = refused.message
            return self._error(request, refused)
        except Exception as problem:  # noqa: BLE001  # a bug in a script is told to whoever runs it, over the wire too
            self._script_errors.append(f"{request.method} {request.path}: {problem}")
            return self._error(request, Refused(str(problem), status=SCRIPT_ERROR, kind="script_error"))

    def _error(self, request: ProviderRequest, refused: Refused) -> Reply:
        if request.api == "messages":
            return anthropic_error(refused, self._mint.short("req"))
        return openai_error(refused)

    def _routed(self, request: ProviderRequest) -> Reply:
        if _asks_a_model(request):
            return self._ask_model(request)
        interruption = self._interruption(request)
        if interruption is not None:
            return faulty_reply(interruption, lambda refused: self._error(request, refused))
        if request.api == "responses":
            return self._responses.carry_out(request)
        if request.api == "conversations":
            return json_reply(self._responses.conversations.carry_out(request, self._clock.now()))
        raise Refused(f"Invalid URL ({request.method} {request.path})", status=404)

    def _interruption(self, request: ProviderRequest) -> Fault | None:
        for index, (method, path, step) in enumerate(self._interruptions):
            if method == request.method and fnmatch.fnmatch(request.path, path):
                del self._interruptions[index]
                return step.fault
        return None

    def _ask_model(self, request: ProviderRequest) -> Reply:
        match request.api:
            case "chat":
                return self._asked(request, self._chat)
            case "messages":
                return self._asked(request, self._messages)
            case _:
                return self._asked(request, self._responses)

    def _asked(self, request: ProviderRequest, service: Service[P]) -> Reply:
        """The rules first, then the script: a request that breaks one is refused whatever the script has planned."""
        prepared = service.check(request)
        step = self._take(request)
        reply: Reply | None = None
        if step.answer is not None:
            reply = service.respond(prepared, step.answer, kept=step.kept, now=self._clock.now())
        if step.fault is not None:
            reply = faulty_reply(step.fault, lambda refused: self._error(request, refused))
        if reply is None:
            raise UserError("A step of the provider's script neither answers nor fails.")
        reply = sent_on(step, reply, service.error_event)
        if isinstance(prepared, Prepared):
            _lock_until_over(prepared, reply)
        return reply

    def _take(self, request: ProviderRequest) -> ProviderStep:
        if self._next >= len(self._steps):
            raise UserError(
                f"The script has {len(self._steps)} steps, and the model was asked once more, "
                f"with {json.dumps(request.input)[-400:]}"
            )
        step = as_step(self._steps[self._next], request)
        self._next += 1
        return step


def _parsed(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body


def _asks_a_model(request: ProviderRequest) -> bool:
    return request.method == "POST" and request.path in ("/responses", "/chat/completions", "/messages")


def _check_request(request: ProviderRequest) -> None:
    """What is wrong whatever the path: no key, no JSON."""
    if not {"authorization", "x-api-key", "api-key"} & request.headers.keys():
        raise Refused("There is no API key in the request.", status=401, code="invalid_api_key")
    if isinstance(request.body, bytes):
        raise Refused("The body of the request is not JSON.")
    is_needless = request.body is None and (request.method != "POST" or request.path == "/conversations")
    if not is_needless and not isinstance(request.body, dict):
        raise Refused("The body of the request is not a JSON object.")


def _lock_until_over(prepared: Prepared, reply: Reply) -> None:
    """A conversation is locked while a response in it is under way."""
    conversation = prepared.conversation
    if conversation is None:
        return
    conversation.is_locked = True

    def unlock() -> None:
        conversation.is_locked = False

    reply.ended = unlock
