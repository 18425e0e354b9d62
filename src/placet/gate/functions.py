"""`@gated`: any function, in any program, that runs only when it was approved.

Its parameters become a schema and a card, as a tool's do. The function gets the arguments that were decided about, made
again from what people saw: what changes in the caller's objects meanwhile does not reach it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, get_type_hints

import msgspec

from placet.core.guest import GateCall, Permit
from placet.declare.tool import DidNotHappen, Found, Happened
from placet.declare.tool_schema import FunctionSchema, function_schema
from placet.declare.tool_values import InvalidArguments
from placet.facts.checks import SECONDS, TEXT, check, optional
from placet.facts.codec import MAX_DEPTH, Json, JsonObject, fresh
from placet.facts.errors import CallClaimed, CallNotClaimable, GateTimeout, InvalidProposal, ToolError, UserError
from placet.facts.ids import mint
from placet.gate.port import Gate
from placet.gate.sync import SyncGate
from placet.service.guest_answers import why_not_run
from placet.states.secrets import is_secret

P = ParamSpec("P")
R = TypeVar("R")

Rule: TypeAlias = bool | Callable[[JsonObject], bool | Awaitable[bool]]
"""True, False, or a predicate over the arguments. Whatever it answers but `False` asks a person."""
Recovery: TypeAlias = Literal["ask", "retry"] | Callable[[JsonObject], Found | Awaitable[Found]]


class _Done(msgspec.Struct, frozen=True):
    """There is nothing to execute: this came of it, or was said in its place."""

    output: Json


class Gated(Generic[P, R]):
    """A function behind a gate. Each call of it asks; `keyed` asks once for one key."""

    def __init__(
        self,
        gate: Gate | SyncGate,
        function: Callable[P, R],
        *,
        name: str | None,
        needs_approval: Rule,
        recovery: Recovery,
        session: str | None,
        timeout: float | None,
        lease: float | None,
        declared: JsonObject,
    ) -> None:
        self._gate = gate
        self._function = function
        self._schema: FunctionSchema = function_schema(
            function, name_override=name, strict_json_schema=False, is_context_type=_is_no_context
        )
        if self._schema.is_async != isinstance(gate, Gate):
            kind, needed = ("An async", "Gate") if self._schema.is_async else ("A plain", "SyncGate")
            raise UserError(f"{kind} function is gated by a {needed}: '{self._schema.name}' was given the other one.")
        self._rule = needs_approval
        self._recovery = recovery
        self._session = session
        self._timeout = timeout
        self._lease = lease
        self._declared = declared
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._begin(None, args, kwargs)

    def keyed(self, key: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same call however often it is made under this key, by any process: asked about once, executed once. Who
        comes later gets what came of it."""
        check("", key=(key, TEXT))
        return self._begin(key, args, kwargs)

    def _begin(self, key: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        arguments = self._arguments(args, kwargs)
        if isinstance(self._gate, Gate):
            return self._run(self._gate, key, arguments)  # type: ignore[return-value]  # of an async function R is a coroutine
        found: R = self._run_plainly(self._gate, key, arguments)
        return found

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JsonObject:
        """What the caller gave, as the JSON that people see and that the function gets."""
        import pydantic_core

        bound = inspect.signature(self._function).bind(*args, **kwargs)
        given: dict[str, object] = {}
        for name, value in bound.arguments.items():
            if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                given |= value
            else:
                given[name] = value
        hidden = sorted({name for name, value in given.items() if _holds_secret(value)})
        if hidden:
            raise InvalidProposal(
                f"'{self._schema.name}' was not called: {', '.join(hidden)} holds a secret, which no reviewer may see. "
                "Let the function get it by itself."
            )
        try:
            found = self._schema.validate(pydantic_core.to_jsonable_python(given, by_alias=True))
        except (InvalidArguments, ValueError) as error:
            raise InvalidProposal(f"'{self._schema.name}' was not called: {error}") from error
        if found.opaque:
            raise InvalidProposal(
                f"'{self._schema.name}' was not called: JSON cannot show {', '.join(found.opaque)}, so a person "
                "could not know what they approve."
            )
        return found.values

    def _proposal(self, key: str | None, arguments: JsonObject, *, asks: bool) -> JsonObject:
        session = self._session or (f"keyed:{self._schema.name}"[:200] if key is not None else "calls")
        recovery = self._recovery if isinstance(self._recovery, str) else "function"
        return {
            "session": session,
            "call_id": mint("call") if key is None else key,
            "schema": self._schema.params_json_schema,
            "description": self._schema.description,
            "needs_approval": asks,
            "recovery": recovery,
            **self._declared,
        }

    # -- an async function --------------------------------------------------------------------------------------------

    async def _run(self, gate: Gate, key: str | None, arguments: JsonObject) -> Any:
        given: Any = self._proposal(key, arguments, asks=await self._asks(arguments))
        call = await gate.propose(self._schema.name, arguments, **given)
        while True:
            step = await self._next(gate, call, is_fresh=key is None)
            if isinstance(step, _Done):
                return self._as_returned(step.output)
            if step.is_again:
                found = await _found(self._recovery, step.arguments)
                if isinstance(found, Happened):
                    await gate.report(step, "finished", found.output)
                    return found.output
                if not isinstance(found, DidNotHappen):
                    call = await gate.report(step, "unknown")
                    continue
            async with gate.executing(step):
                positional, named = self._schema.bind(step.arguments)
                function: Any = self._function
                step.output = await function(*positional, **named)
            return step.output

    async def _asks(self, arguments: JsonObject) -> bool:
        """Only an explicit «no approval needed» lets a call pass; a rule that fails asks."""
        if isinstance(self._rule, bool):
            return self._rule
        try:
            answer = self._rule(fresh(arguments))
            return (await answer if inspect.isawaitable(answer) else answer) is not False
        except Exception:  # noqa: BLE001  # a rule that fails asks a person
            return True

    # -- a plain function ---------------------------------------------------------------------------------------------

    def _run_plainly(self, gate: SyncGate, key: str | None, arguments: JsonObject) -> Any:
        given: Any = self._proposal(key, arguments, asks=self._asks_plainly(arguments))
        call = gate.propose(self._schema.name, arguments, **given)
        while True:
            step = gate.run(self._next(gate.gate, call, is_fresh=key is None))
            if isinstance(step, _Done):
                return self._as_returned(step.output)
            if step.is_again:
                found = _found_plainly(self._recovery, step.arguments)
                if isinstance(found, Happened):
                    gate.report(step, "finished", found.output)
                    return found.output
                if not isinstance(found, DidNotHappen):
                    call = gate.report(step, "unknown")
                    continue
            with gate.executing(step):
                positional, named = self._schema.bind(step.arguments)
                function: Any = self._function
                step.output = function(*positional, **named)
            return step.output

    def _asks_plainly(self, arguments: JsonObject) -> bool:
        if isinstance(self._rule, bool):
            return self._rule
        try:
            return self._rule(fresh(arguments)) is not False
        except Exception:  # noqa: BLE001  # a rule that fails asks a person
            return True

    # -- both ---------------------------------------------------------------------------------------------------------

    async def _next(self, gate: Gate, call: GateCall, *, is_fresh: bool) -> Permit | _Done:
        """Wait until there is something to do about the call, and be the one to do it."""
        while True:
            try:
                call = await gate.wait(call, self._timeout)
            except GateTimeout:
                if is_fresh:  # nobody could find it again
                    await gate.withdraw(call)
                raise
            if call.status in ("finished", "answered"):
                return _Done(call.output)
            if call.status == "failed":
                raise ToolError(f"'{self._schema.name}' failed when it ran: {call.output}")
            is_left = call.status == "left"
            if call.status != "claimable" and not is_left:
                raise why_not_run(call)
            try:
                return await gate.claim(call, lease=self._lease, again=is_left)
            except (CallClaimed, CallNotClaimable):  # another process was first, or it was asked about again
                call = await gate.look(call)

    def _as_returned(self, output: Json) -> Any:
        """What was recorded, as the function would give it: the log keeps texts, and what is no text as JSON."""
        if not isinstance(output, str):
            return output
        try:
            hint = get_type_hints(self._function).get("return")
        except (NameError, TypeError):
            hint = None
        if hint is str:
            return output
        try:
            return msgspec.json.decode(output)
        except msgspec.DecodeError:
            return output


def _holds_secret(value: object, depth: int = 0) -> bool:
    if is_secret(value):
        return True
    if isinstance(value, str | bytes | int | float | None) or depth > MAX_DEPTH:
        return False
    if isinstance(value, Mapping):
        parts: Iterable[object] = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    else:
        parts = getattr(value, "__dict__", {}).values()
    return any(_holds_secret(each, depth + 1) for each in parts)


def _is_no_context(_annotation: object) -> bool:
    return False


async def _found(recovery: Recovery, arguments: JsonObject) -> object:
    """What the recovery function says; one that fails cannot tell."""
    if isinstance(recovery, str):
        return None
    try:
        found = recovery(fresh(arguments))
        return await found if inspect.isawaitable(found) else found
    except Exception:  # noqa: BLE001  # a function that cannot find out leaves it to a person
        return None


def _found_plainly(recovery: Recovery, arguments: JsonObject) -> object:
    if isinstance(recovery, str):
        return None
    try:
        return recovery(fresh(arguments))
    except Exception:  # noqa: BLE001  # a function that cannot find out leaves it to a person
        return None


def gated(
    gate: Gate | SyncGate,
    *,
    needs_approval: Rule = True,
    recovery: Recovery = "ask",
    name: str | None = None,
    session: str | None = None,
    timeout: float | None = None,
    lease: float | None = None,
    version: str | None = None,
    decide_within: float | None = None,
    at_deadline: Literal["reject", "escalate"] = "reject",
    approval_valid_for: float | None = None,
    context: str | None = None,
) -> Callable[[Callable[P, R]], Gated[P, R]]:
    """Have a person asked before this function runs: `@gated(gate)` on an async function, with a `SyncGate` on a plain
    one. A rejection raises `CallRejected`, an edit runs with what was decided, an answer is returned in its place.

    `recovery`: what becomes of a call whose process died while it ran: "ask" a person, "retry" it, or a function of the
    arguments that finds out (`Happened`, `DidNotHappen`, `CannotTell`). `timeout`: seconds to wait for a decision.
    """
    check("gated: ", timeout=(timeout, optional(SECONDS)), lease=(lease, optional(SECONDS)))
    if recovery not in ("ask", "retry") and not callable(recovery):
        raise UserError(f"gated: recovery is 'ask', 'retry' or a function, not {recovery!r}.")
    if not isinstance(needs_approval, bool) and not callable(needs_approval):
        raise UserError(f"gated: needs_approval is True, False or a function of the arguments, not {needs_approval!r}.")
    declared: JsonObject = {
        "version": version,
        "decide_within": decide_within,
        "at_deadline": at_deadline,
        "approval_valid_for": approval_valid_for,
        "context": context,
    }

    def make(function: Callable[P, R]) -> Gated[P, R]:
        return Gated(
            gate,
            function,
            name=name,
            needs_approval=needs_approval,
            recovery=recovery,
            session=session,
            timeout=timeout,
            lease=lease,
            declared=declared,
        )

    return make
