"""One call of a server's tool, and what happened to it: done, failed, not taken, asking for input, or unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from placet.declare.tool import Failed, NeedsInput
from placet.facts.codec import JsonObject
from placet.facts.errors import ToolError, ToolOutcomeUnknown, ToolOutputError, ToolTimeoutError
from placet.mcp.connection import Connection
from placet.mcp.results import as_response, links_of, output_of, questions_of

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError
    from mcp.types import CallToolResult, InputRequiredResult

NOT_SENT = -32090
"""Our own code for a request that did not leave this machine: see `placet.mcp.http`."""

_MAX_WAITS = 10
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 0.25
"""Of a server that wants to be asked again without anybody's input."""


class NotTaken(ToolError):
    """The server certainly did not take the call: it can be made again."""


@dataclass(frozen=True, slots=True)
class Calling:
    """What is called, with what."""

    server: str
    tool: str
    arguments: JsonObject
    meta: dict[str, Any] | None = None
    timeout: float | None = None
    use_structured_content: bool = False

    async def ask(self, connection: Connection, answers: Mapping[str, JsonObject] | None, state: str | None) -> object:
        """What the runtime takes from a tool function: an output, `Failed`, or `NeedsInput`."""
        from mcp.types import InputRequiredResult

        if answers is not None and not connection.is_stateless:
            refusal = self._without_answers(answers, state)
            if refusal is not None:
                return refusal
            answers = None  # they were about pages that a person went to: the call is simply made again
        result = await self._sent(connection, answers, state)
        waits, pause = 0, _FIRST_WAIT
        while isinstance(result, InputRequiredResult) and not result.input_requests:
            waits += 1
            if waits > _MAX_WAITS:
                return Failed(f"The server '{self.server}' kept asking to be asked again: the call was broken off.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_WAIT)
            result = await self._sent(connection, None, result.request_state)
        if isinstance(result, InputRequiredResult):
            return NeedsInput(questions_of(result.input_requests or {}), result.request_state)
        if isinstance(result, NeedsInput):
            return result
        return output_of(result, use_structured_content=self.use_structured_content)

    async def ask_plainly(self, connection: Connection) -> CallToolResult:
        """The server's own answer, for callers outside of any run."""
        from mcp.types import CallToolResult

        result = await self._sent(connection, None, None)
        if not isinstance(result, CallToolResult):
            raise ToolError(f"Tool '{self.tool}' of MCP server '{self.server}' asks for input: call it in a run.")
        return result

    def _without_answers(self, answers: Mapping[str, JsonObject], state: str | None) -> Failed | None:
        if state is not None:
            raise ToolOutcomeUnknown(
                f"MCP server '{self.server}' asked for input and now speaks an older protocol: it cannot get the answer"
            )
        declined = [key for key, answer in answers.items() if answer.get("action") != "accept"]
        return Failed("A person declined what the server asked for: the call was not made.") if declined else None

    async def _sent(
        self, connection: Connection, answers: Mapping[str, JsonObject] | None, state: str | None
    ) -> CallToolResult | InputRequiredResult | NeedsInput:
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        try:
            return await self._send(connection, answers, state)
        except MCPError as error:
            return self._understood(connection, error)
        except (RuntimeError, ValidationError) as error:  # the SDK's words for an answer that cannot be used
            raise ToolOutputError(
                f"Tool '{self.tool}' of MCP server '{self.server}' answered, and the answer cannot be used: "
                f"{str(error)[:500]}"
            ) from error

    async def _send(
        self, connection: Connection, answers: Mapping[str, JsonObject] | None, state: str | None
    ) -> CallToolResult | InputRequiredResult:
        from mcp.shared.exceptions import MCPError
        from mcp.types import HEADER_MISMATCH, RequestParamsMeta

        session = connection.client.session
        responses: Any = {key: as_response(answer) for key, answer in answers.items()} if answers is not None else None
        meta: RequestParamsMeta | None = self.meta  # type: ignore[assignment]  # any keys are allowed there
        for is_last in (False, True):
            try:
                with connection.asking():
                    return await session.call_tool(
                        self.tool,
                        self.arguments,
                        self.timeout,
                        input_responses=responses,
                        request_state=state,
                        meta=meta,
                        allow_input_required=True,
                    )
            except MCPError as error:
                if is_last or error.code != HEADER_MISMATCH:
                    raise
            await session.list_tools()  # the server refused the call because this session has not seen its schema
        raise AssertionError("the second attempt returns or raises")

    def _understood(self, connection: Connection, error: MCPError) -> NeedsInput:
        """What an error of the protocol means for the call: raises, unless the server sends a person to a page."""
        from mcp.shared.exceptions import UrlElicitationRequiredError
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT, URL_ELICITATION_REQUIRED

        what = f"Tool '{self.tool}' of MCP server '{self.server}'"
        if error.code == NOT_SENT or _is_of_a_lost_session(error):
            raise NotTaken(f"{what} was not run: {error.message}") from error
        if error.code == REQUEST_TIMEOUT:
            raise ToolTimeoutError(f"{what} timed out. It may or may not have taken effect.") from error
        if error.code == CONNECTION_CLOSED or _is_of_a_gateway(error):
            raise ToolOutcomeUnknown(
                f"the connection to MCP server '{self.server}' broke while it ran, and it is unknown whether "
                "it happened"
            ) from error
        if error.code == URL_ELICITATION_REQUIRED and not connection.is_stateless:
            return NeedsInput(links_of(UrlElicitationRequiredError.from_error(error.error).elicitations))
        raise ToolError(f"{what} was refused by the server: {error.message} (code {error.code})") from error


def fate_of(error: MCPError) -> Literal["not_taken", "unknown", "refused"]:
    """What an error says of the request: it certainly did not arrive, nobody knows, or the server refused it."""
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    if error.code == NOT_SENT or _is_of_a_lost_session(error):
        return "not_taken"
    if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT) or _is_of_a_gateway(error):
        return "unknown"
    return "refused"


def is_of_a_dead_connection(error: Exception) -> bool:
    """Whether a new connection may do what this one could not."""
    from mcp.shared.exceptions import MCPError
    from mcp.types import CONNECTION_CLOSED

    if not isinstance(error, MCPError):
        return False
    return error.code in (NOT_SENT, CONNECTION_CLOSED) or _is_of_a_lost_session(error)


def _is_of_a_lost_session(error: MCPError) -> bool:
    """The SDK's stand-in for «404»: a server that was restarted does not know the session, and took nothing."""
    from mcp.types import INVALID_REQUEST

    return error.code == INVALID_REQUEST and error.message == "Session terminated"


def _is_of_a_gateway(error: MCPError) -> bool:
    """The SDK's stand-in for an HTTP error without an answer of the server in it."""
    from mcp.types import INTERNAL_ERROR

    return error.code == INTERNAL_ERROR and error.message == "Server returned an error response"
