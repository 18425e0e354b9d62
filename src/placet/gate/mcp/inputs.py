"""What a server asks in the middle of a call, kept until somebody answers: whichever request of the client is open.

A server of the older protocol sends a request of its own and waits; one of today's answers that input is required, and
is asked again. Clients differ likewise, and may have gone before the question came. Here all of them meet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from mcp import types
from mcp.shared.exceptions import MCPError

from placet.gate.mcp.raw import Params

MAX_ROUNDS = 20
"""How often one call may say that it needs input."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared before it is asked."""

Ask = Callable[[str, Params | None], Awaitable[dict[str, Any]]]


class Present(Protocol):
    """A request of the client that is being answered: through it the client hears and can be asked."""

    @property
    def is_modern(self) -> bool: ...

    @property
    def capabilities(self) -> Mapping[str, Any]: ...

    @property
    def progress_token(self) -> str | int | None: ...

    async def notify(self, method: str, params: Params | None) -> None: ...

    async def ask(self, method: str, params: Params | None) -> dict[str, Any]: ...


class Question(msgspec.Struct, eq=False):
    key: str
    """Of this call, and never used again: an answer that comes late fits no other question."""
    method: str
    params: Params | None
    answer: asyncio.Future[dict[str, Any]]
    is_being_asked: bool = False

    def as_request(self) -> dict[str, Any]:
        return {"method": self.method, "params": dict(self.params or {})}


class Inputs:
    """Of one call: the questions that its server has asked, and the requests of the client that wait for it."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._questions: dict[str, Question] = {}
        self._present: list[Present] = []
        self._number = 0
        self._news: asyncio.Future[None] | None = None

    # -- for the server ----------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Params | None) -> None:
        """To whoever waits now; nobody, perhaps."""
        for present in self._present[-1:]:
            if method != "notifications/progress":
                await present.notify(method, params)
            elif present.progress_token is not None:
                await present.notify(method, {**(params or {}), "progressToken": present.progress_token})

    async def ask(self, method: str, params: Params | None) -> dict[str, Any]:
        """The client's answer, as soon as it has been asked. An error where it cannot be, or nobody answers."""
        self._number += 1
        question = Question(
            key=f"{NEEDS.get(method, 'input')}-{self._number}",
            method=method,
            params=params,
            answer=asyncio.get_running_loop().create_future(),
        )
        self._questions[question.key] = question
        self._tell()
        try:
            async with asyncio.timeout(self._patience):
                return await question.answer
        except TimeoutError:
            raise MCPError(types.REQUEST_TIMEOUT, f"Nobody answered {method} in time.") from None
        finally:
            self._questions.pop(question.key, None)

    # -- for the client ----------------------------------------------------------------------------------------------

    @property
    def open(self) -> dict[str, dict[str, Any]]:
        """The questions that nobody has answered, for clients that come back with answers."""
        return {key: each.as_request() for key, each in self._questions.items() if not each.answer.done()}

    def give(self, responses: object) -> None:
        """Answers by their questions' keys. What answers nothing that is open is left alone."""
        for key, response in responses.items() if isinstance(responses, Mapping) else ():
            question = self._questions.get(key)
            if question is not None and isinstance(response, Mapping) and not question.answer.done():
                question.answer.set_result(dict(response))

    def refuse_what(self, present: Present) -> None:
        """Questions that this client has not said that it can be asked: an error for the server, as without us."""
        for question in self._questions.values():
            needed = NEEDS.get(question.method)
            if needed is not None and needed not in present.capabilities and not question.answer.done():
                words = f"The client cannot be asked: it did not declare «{needed}»."
                question.answer.set_exception(MCPError(types.METHOD_NOT_FOUND, words, question.method))

    @contextlib.contextmanager
    def heard_by(self, present: Present) -> Iterator[None]:
        self._present.append(present)
        try:
            yield
        finally:
            self._present.remove(present)

    async def next_of(
        self, done: asyncio.Future[dict[str, Any]], present: Present, seconds: float | None
    ) -> dict[str, Any] | None:
        """Wait until the call is done, and ask the client meanwhile what the server asks. None: the time is over, or
        a client of today's protocol has to come back with answers first (`open` has the questions)."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        asking: list[asyncio.Task[None]] = []
        try:
            with self.heard_by(present):
                while not done.done():
                    self.refuse_what(present)
                    if present.is_modern and self.open:
                        return None
                    asking += self._asked_through(present)
                    left = None if until is None else max(0.0, until - loop.time())
                    if left == 0.0:
                        return None
                    either: list[asyncio.Future[Any]] = [done, self._changed()]
                    await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                return done.result()
        finally:
            for task in asking:
                task.cancel()

    def _asked_through(self, present: Present) -> list[asyncio.Task[None]]:
        if present.is_modern:
            return []
        new = [each for each in self._questions.values() if not each.is_being_asked and not each.answer.done()]
        return [asyncio.create_task(self._ask_it(each, present)) for each in new]

    async def _ask_it(self, question: Question, present: Present) -> None:
        question.is_being_asked = True
        try:
            found = await present.ask(question.method, question.params)
        except MCPError as error:
            if not question.answer.done():
                question.answer.set_exception(error)
        else:
            if not question.answer.done():
                question.answer.set_result(found)
        finally:
            question.is_being_asked = False  # who asked may be gone: then the next one asks

    def _changed(self) -> asyncio.Future[None]:
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


async def through_rounds(send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], ask: Ask) -> dict[str, Any]:
    """A result, where a server of today's protocol first says what it needs: it is asked again with the answers."""
    more: dict[str, Any] = {}
    pause = _FIRST_PAUSE
    for _ in range(MAX_ROUNDS):
        result = await send(more)
        if result.get("resultType") != "input_required":
            return result
        wanted = {key: each for key, each in (result.get("inputRequests") or {}).items() if isinstance(each, Mapping)}
        if not wanted:  # it only wants to be asked again, later
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        found = await asyncio.gather(*(ask(str(each.get("method")), each.get("params")) for each in wanted.values()))
        more = {"inputResponses": dict(zip(wanted, found, strict=True))} if wanted else {}
        if isinstance(result.get("requestState"), str):
            more["requestState"] = result["requestState"]
    raise MCPError(types.INTERNAL_ERROR, "The server asked for input again and again: the call was broken off.")
