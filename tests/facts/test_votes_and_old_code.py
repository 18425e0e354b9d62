"""Code that does not know votes refuses a log that holds them, in words, and never misreads it."""

from __future__ import annotations

import functools
import operator
from typing import Any, get_args

import msgspec
import pytest

from placet import Needs, Runner, RunState
from placet.facts import events as e
from placet.states import state_codec
from tests.runtime.scenes import OwnStore, Tools, call, done, scripted

NEW = (e.ApproversRequired, e.VoteCast, e.VoteTakenBack, e.LadderSet, e.RungClimbed)


def old_decoder() -> msgspec.json.Decoder[Any]:
    """What the version before votes could read: all facts but those."""
    kinds = functools.reduce(operator.or_, [kind for kind in get_args(e.PlainFact) if kind not in NEW])
    return msgspec.json.Decoder(tuple[float, list[kinds]])  # type: ignore[valid-type]


@pytest.mark.promise("P14")
async def test_code_before_votes_refuses_a_log_with_a_requirement_or_a_vote_and_reads_all_others() -> None:
    agent = scripted([[call("pay", 5, "c1")], done()], Tools().gated(approvers=Needs(2)))
    store = OwnStore()
    state = (await Runner.run(agent, "go", store=store)).to_state()
    state.approve("c1", by="ana")
    state = (await Runner.run(agent, state, store=store)).to_state()
    plain = scripted([[call("pay", 5, "c1")], done()], Tools().gated())
    other = (await Runner.run(plain, "go", store=OwnStore())).to_state()
    old = old_decoder()

    refused = []
    for line in state._log.lines:
        try:
            old.decode(line)
        except msgspec.ValidationError as error:
            refused.append(str(error))

    assert [("needs" in each, "vote" in each) for each in refused] == [(True, False), (False, True)]
    for line in other._log.lines:
        old.decode(line)


@pytest.mark.promise("P14")
async def test_a_state_with_a_staged_vote_is_refused_by_code_before_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = scripted([[call("pay", 5, "c1")], done()], Tools().gated(approvers=Needs(2)))
    state = (await Runner.run(agent, "go", store=OwnStore())).to_state()
    state.approve("c1", by="ana")
    text = state.to_string()

    class Old(state_codec._Wire):
        staged: list[e.DecisionMade | e.GrantMade] = msgspec.field(default_factory=list)  # type: ignore[assignment]

    monkeypatch.setattr(state_codec, "_decoder", lambda: msgspec.json.Decoder(Old))
    with pytest.raises(state_codec.StateRefused, match="vote"):
        await RunState.from_string(agent, text)
