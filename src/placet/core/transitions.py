"""The life of a call, as one table. Every transition lives in this file; a move that is not here does not exist.

    proposed ──allow──▸ allowed ──────────────start──▸ started ──end──▸ ended
        │                                     ▴   │ ▴
        ├──defer─▸ deferred ──────────────────start──▸ (a handoff: when all other calls of the turn have ended)
        ├──hold──▸ held ──approve──▸ approved ┘   │ └─start (run again)
        │           │ ▴                  │        └─doubt─▸ in_doubt ──approve──▸ cleared ──start──▸ started
        │           │ └─revoke, hold anew┘                     │
        │           ├──reject──▸ rejected ──end──▸ ended       ├──reject──▸ given_up ──end──▸ ended
        │           ├──respond─▸ answered ──end──▸ ended       └──respond─▸ answered ──end──▸ ended
        │           └──end (expired, superseded, cancelled)
        └──end (denied)

    started ──elicit──▸ elicited ──approve, reject, respond──▸ supplied ──start──▸ started (it asked for input)

`held`, `in_doubt`, `elicited` wait for a person. `approved`, `rejected`, `answered`, `cleared`, `given_up`, `supplied`
are decided and wait for the driver of the run.
"""

from __future__ import annotations

from enum import Enum

from placet.facts.errors import IllegalTransition


class Status(Enum):
    __hash__ = (
        object.__hash__
    )  # members are singletons; Enum's own hash is Python code, and these are looked up all day

    PROPOSED = "proposed"
    ALLOWED = "allowed"
    DEFERRED = "deferred"
    """A handoff: it waits for the other calls of the turn, not for a person."""
    HELD = "held"
    APPROVED = "approved"
    REJECTED = "rejected"
    ANSWERED = "answered"
    STARTED = "started"
    IN_DOUBT = "in_doubt"
    CLEARED = "cleared"
    """In doubt, and a person said: run it again."""
    GIVEN_UP = "given_up"
    """In doubt, and a person said: let it be."""
    ELICITED = "elicited"
    """Its tool function asked for a person's input and ended for now."""
    SUPPLIED = "supplied"
    """The input is there, or a person declined to give it: either way the tool function continues with that."""
    ENDED = "ended"


class Move(Enum):
    __hash__ = object.__hash__

    ALLOW = "allow"
    DEFER = "defer"
    HOLD = "hold"
    APPROVE = "approve"
    REJECT = "reject"
    RESPOND = "respond"
    REVOKE = "revoke"
    START = "start"
    DOUBT = "doubt"
    ELICIT = "elicit"
    FINISH = "finish"
    """End with what the tool function returned or raised."""
    REFUSE = "refuse"
    """End without running: rejected, answered, denied, given up."""
    CLOSE = "close"
    """End a question that was not answered: expired, superseded, cancelled."""


WAITING = frozenset({Status.HELD, Status.IN_DOUBT, Status.ELICITED})
DECIDED = frozenset(
    {Status.APPROVED, Status.REJECTED, Status.ANSWERED, Status.CLEARED, Status.GIVEN_UP, Status.SUPPLIED}
)
RUNNABLE = frozenset({Status.ALLOWED, Status.APPROVED, Status.CLEARED, Status.SUPPLIED})
CONCLUDABLE = frozenset({Status.REJECTED, Status.ANSWERED, Status.GIVEN_UP})

TABLE: dict[Status, dict[Move, Status]] = {
    Status.PROPOSED: {
        Move.ALLOW: Status.ALLOWED,
        Move.DEFER: Status.DEFERRED,
        Move.HOLD: Status.HELD,
        Move.REFUSE: Status.ENDED,
        Move.CLOSE: Status.ENDED,
    },
    Status.ALLOWED: {
        Move.START: Status.STARTED,
        Move.HOLD: Status.HELD,  # the tool changed between the verdict and the claim
        Move.REFUSE: Status.ENDED,
        Move.CLOSE: Status.ENDED,
    },
    Status.DEFERRED: {Move.START: Status.STARTED, Move.REFUSE: Status.ENDED, Move.CLOSE: Status.ENDED},
    Status.HELD: {
        Move.HOLD: Status.HELD,  # what waits has changed: a new question takes the place of the old one
        Move.APPROVE: Status.APPROVED,
        Move.REJECT: Status.REJECTED,
        Move.RESPOND: Status.ANSWERED,
        Move.CLOSE: Status.ENDED,
    },
    Status.APPROVED: {
        Move.START: Status.STARTED,
        Move.REVOKE: Status.HELD,
        Move.HOLD: Status.HELD,  # what was approved is not what would run
        Move.REFUSE: Status.ENDED,
        Move.CLOSE: Status.ENDED,
    },
    Status.REJECTED: {Move.REFUSE: Status.ENDED},
    Status.ANSWERED: {Move.REFUSE: Status.ENDED},
    Status.STARTED: {
        Move.FINISH: Status.ENDED,
        Move.DOUBT: Status.IN_DOUBT,
        Move.START: Status.STARTED,  # its contract says that it may be repeated
        Move.ELICIT: Status.ELICITED,
        Move.CLOSE: Status.ENDED,  # the call of an agent tool in whose nested run nobody decided
    },
    Status.IN_DOUBT: {
        Move.APPROVE: Status.CLEARED,
        Move.REJECT: Status.GIVEN_UP,
        Move.RESPOND: Status.ANSWERED,
        Move.DOUBT: Status.IN_DOUBT,
        Move.FINISH: Status.ENDED,  # whoever executed it reports late
        Move.CLOSE: Status.ENDED,
    },
    Status.CLEARED: {
        Move.START: Status.STARTED,
        Move.FINISH: Status.ENDED,  # the same, before it was begun again
        Move.DOUBT: Status.IN_DOUBT,
        Move.REVOKE: Status.IN_DOUBT,
        Move.CLOSE: Status.ENDED,
    },
    Status.GIVEN_UP: {Move.REFUSE: Status.ENDED},
    Status.ELICITED: {
        Move.ELICIT: Status.ELICITED,  # an answer was taken back: it is asked again, under a new number
        Move.APPROVE: Status.SUPPLIED,
        Move.REJECT: Status.SUPPLIED,  # the tool function reads that it gets no input
        Move.RESPOND: Status.SUPPLIED,
        Move.CLOSE: Status.ENDED,
    },
    Status.SUPPLIED: {
        Move.START: Status.STARTED,
        Move.DOUBT: Status.IN_DOUBT,  # the tool is another one than the one that asked
        Move.REVOKE: Status.ELICITED,
        Move.CLOSE: Status.ENDED,
    },
    Status.ENDED: {},
}


def after(status: Status, move: Move, call: str) -> Status:
    """The status after the move, or IllegalTransition: then nothing has changed."""
    try:
        return TABLE[status][move]
    except KeyError:
        raise IllegalTransition(f"Call {call} is {status.value}: it cannot {move.value}.") from None
