"""What every adapter does with a call of its host: propose it, wait, claim it; or have words for the model instead.

Whatever goes wrong on the way becomes words, never a permit: the host executes nothing without one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import msgspec

from placet.core.guest import GateCall, Permit
from placet.core.json_schema import with_defaults
from placet.facts.codec import Json, JsonObject, fresh
from placet.facts.errors import (
    CallClaimed,
    CallNotClaimable,
    GateError,
    GateTimeout,
    InvalidProposal,
    LimitExceeded,
    TooManyWaiting,
    UserError,
)
from placet.gate.port import Gate, plain_output

Asks: TypeAlias = bool | Callable[[str, JsonObject], bool]
"""True, False, or a function of the tool's name and its arguments. Whatever it answers but `False` asks a person."""


class Words(msgspec.Struct, frozen=True):
    """There is nothing to execute: the model reads this."""

    output: Json
    is_refusal: bool = True
    """False: it came of the call, or a reviewer answered in its place."""

    @property
    def text(self) -> str:
        return self.output if isinstance(self.output, str) else msgspec.json.encode(self.output).decode()


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host's calls at a gate: what is asked about, and how long an answer and the execution may take."""

    gate: Gate
    needs_approval: Asks = True
    timeout: float | None = None
    """Seconds until a call that nobody decides is taken back and refused. None: as long as it takes."""
    lease: float | None = None

    async def ask(self, tool: str, arguments: Mapping[str, object], **more: Any) -> Permit | Words:
        """Propose, wait, claim. Whatever hinders it is told to the model, and the call does not run."""
        try:
            return await self.permit(await self.propose(tool, arguments, **more))
        except (GateError, TooManyWaiting) as error:
            return refusal(tool, error)

    async def propose(self, tool: str, arguments: Mapping[str, object], **more: Any) -> GateCall | Words:
        """The call of this identity as it stands; words for what can be no call, whoever asks again. GateError when the
        gate does not answer. Any: the other keywords of `Gate.propose`."""
        try:
            asks = _asks(self.needs_approval, tool, arguments, more.get("schema"))
            return await self.gate.propose(tool, arguments, needs_approval=asks, **more)
        except TooManyWaiting:
            raise
        except (InvalidProposal, LimitExceeded) as error:
            return refusal(tool, error)

    async def permit(self, call: GateCall | Words) -> Permit | Words:
        """Wait until the call may run, and claim it. A call that was executed before is read, not executed again."""
        if isinstance(call, Words):
            return call
        try:
            while True:
                call = await self.gate.wait(call, self.timeout)
                if call.status != "claimable":
                    return words_for(call)
                try:
                    return await self.gate.claim(call, lease=self.lease)
                except (CallClaimed, CallNotClaimable):  # somebody was first, or it was held back: see how it stands
                    call = await self.gate.look(call)
        except GateTimeout:
            with contextlib.suppress(GateError):  # its model goes on without it: nobody would come back for a yes
                await self.gate.withdraw(call)
            raise

    async def verdicts(self, calls: Sequence[GateCall | Words], timeout: float | None) -> list[Words | None]:  # noqa: ASYNC109
        """For a host that pauses: of each call None if it may be executed, else words. GateTimeout while one waits."""
        until = None if timeout is None else time.monotonic() + timeout
        found: list[Words | None] = []
        for each in calls:
            if isinstance(each, Words):
                found.append(each)
                continue
            left = None if until is None else max(0.0, until - time.monotonic())
            call = await self.gate.wait(each, left)
            found.append(None if call.status == "claimable" else words_for(call))
        return found


class Bubbled(BaseException):
    """A host's own signal came out of a tool (the graph pauses, the call is deferred). The tool may have begun: leaving
    `executing` with this reports the outcome as unknown, and a person is asked."""

    def __init__(self, signal: Exception) -> None:
        super().__init__()
        self.signal = signal


@contextlib.contextmanager
def bubbling(*signals: type[Exception]) -> Iterator[None]:
    """Inside of `executing`: a signal of the host is no failure of the tool."""
    try:
        yield
    except signals as error:
        raise Bubbled(error) from error


@contextlib.contextmanager
def bubbled() -> Iterator[None]:
    """Outside of `executing`: the host gets its own signal."""
    try:
        yield
    except Bubbled as error:
        raise error.signal from None


class Underway:
    """The permits of a host that tells one hook that a call begins and another how it ended. Leases are renewed in
    between; whatever the host does not end, it ends as unknown, and a person is asked."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._open: dict[Hashable, tuple[Permit, AbstractAsyncContextManager[Permit]]] = {}

    async def begin(self, key: Hashable, permit: Permit) -> None:
        """`key`: by which the end is told. A call that never ended under the same one is given up."""
        await self.lost(lambda other: other == key)
        executing = self._gate.executing(permit)
        await executing.__aenter__()
        self._open[key] = (permit, executing)

    def permit(self, key: Hashable) -> Permit | None:
        return self._open[key][0] if key in self._open else None

    async def ended(self, key: Hashable, output: object = None, error: BaseException | None = None) -> None:
        """Report it. A call that is not open (it passed, or was not let) has nothing to report."""
        if key not in self._open:
            return
        permit, executing = self._open.pop(key)
        permit.output = plain_output(output)
        kind = None if error is None else type(error)
        with contextlib.suppress(type(error) if error is not None else GateError):
            await executing.__aexit__(kind, error, None if error is None else error.__traceback__)

    async def lost(self, which: Callable[[Any], bool] = lambda key: True) -> None:
        """The host will not tell how these ended."""
        for key in [each for each in self._open if which(each)]:
            await self.ended(key, error=Bubbled(RuntimeError("the host did not tell how the call ended")))


def words_for(call: GateCall) -> Words:
    """What the model reads about a call that is not to be executed now."""
    match call.status:
        case "finished" | "answered":
            return Words(call.output, is_refusal=False)
        case "failed":
            return Words(f"'{call.tool}' failed when it ran: {call.output}")
        case _:
            return Words(call.message or f"'{call.tool}' was not run: the call is {call.status}.")


def check_host(name: str, gate: object) -> None:
    if not isinstance(gate, Gate):
        raise UserError(f"{name} works with a Gate, not with a {type(gate).__name__}.")


def slips_past(what: str, found: list[str]) -> UserError:
    """An adapter is not installed where calls would pass it by."""
    return UserError(
        f"{what} would execute calls that the gate does not see: {'; '.join(found)}. Take them out, gate them where "
        "they are made, or let them pass by name: passes=(…)."
    )


def refusal(tool: str, error: Exception) -> Words:
    return Words(f"'{tool}' was not run: {error}")


def _asks(rule: Asks, tool: str, arguments: Mapping[str, object], schema: JsonObject | None) -> bool:
    """Only an explicit «no approval needed» lets a call pass; a rule that fails asks. It sees what people would."""
    if isinstance(rule, bool):
        return rule
    try:
        return rule(tool, fresh(with_defaults(schema or {}, dict(arguments)))) is not False
    except Exception:  # noqa: BLE001  # a rule that fails asks a person
        return True
