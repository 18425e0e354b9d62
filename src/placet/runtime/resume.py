"""Where a drive begins: a new run, or one that a state and a store know. The store's log is the truth.

(1) The store does not know the run: the state's log is taken over. (2) The state's log is a prefix: the run goes on
from the store's end. (3) The state knows more: the store takes it over. (4) The logs differ: RunConflict. (5) Another
process drives the run: RunConflict, from the store's lease. (6) The run has ended: its recorded result is given back.
In all cases the state's new decisions are appended, an equal one is ignored, and a contradicting one raises before
anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placet.core.approvals import Said
from placet.core.casting import is_new_vote
from placet.core.deciding import facts_to_append
from placet.core.log import Log, read_line
from placet.core.state import RunFold
from placet.declare.context import RunContextWrapper
from placet.declare.decisions import BY_HAND
from placet.declare.run_config import RunConfig
from placet.facts.errors import RunConflict, RunFinished
from placet.facts.events import DecisionMade, Erased, InputAdded, RunCancelled, RunEnded, RunStarted, VoteCast
from placet.ports import Lease, Store, StoredRun
from placet.runtime.casting import facts_said
from placet.runtime.gating import refuse_own_yes
from placet.runtime.journal import Journal, fold_log
from placet.states.run_state import RunState


def begin(store: Store, lease: Lease, log: Log, started: RunStarted, config: RunConfig) -> Journal:
    journal = Journal(log, RunFold(), store, lease, config.clock, config.limits.log)
    journal.note("", started)
    return journal


async def resume(
    store: Store, lease: Lease, stored: StoredRun | None, state: RunState[Any], config: RunConfig
) -> Journal:
    """A journal at the end of what the store and the state know together."""
    known = stored.log if stored is not None else Log(state.run_id, state._log.key)
    assert known is not None, "a run without a log has ended, and is not resumed"
    missing, run = _joined(known, state)
    journal = Journal(known, run, store, lease, config.clock, config.limits.log)
    if missing:
        await _hand_over(journal, missing, state._log.head)
    words = new_decisions(state)
    context = state._context or RunContextWrapper(None)
    decisions = await facts_said(store, run, words, state._graph, context)
    await refuse_own_yes(store, run, decisions)
    journal.note_words(words, decisions)
    journal.note_all(_new_input(run, state))
    return journal


def _new_input(run: RunFold, state: RunState[Any]) -> list[InputAdded]:
    """What was added on the state and is not in the log: by id, so that two copies of one state add it once."""
    found = [added for added in state._added if added.id not in run.input_ids]
    if found and run.has_ended:
        raise RunFinished("The run has ended: give the message to a new run.")
    return found


def _joined(known: Log, state: RunState[Any]) -> tuple[Sequence[bytes], RunFold]:
    """The lines that only the state knows, if one log begins with the other, and the fold of the longer one."""
    if state._log.starts_with(known):  # where both write the same facts differently, the store's writing stays
        missing = state._log.lines[len(known.lines) :]
        return missing, state._run.copy(state._run.ledger.copy(staged=False))
    if not known.starts_with(state._log):
        raise RunConflict(
            f"Run {state.run_id}: the store's log and the state's differ. One of them is of another history: fork() it."
        )
    return (), fold_log(known)


async def _hand_over(journal: Journal, missing: Sequence[bytes], head: bytes) -> None:
    """Give the store the lines that only the state knows, whose chain ends with this head."""
    ahead = journal.log.copy()
    lines = [ahead.adopt(text) for text in missing]
    if ahead.head != head and not len(journal.log):  # it may be a chain that older code began: it stays as it is
        older = journal.log.copy()
        older.is_bound = False
        its_lines = [older.adopt(text) for text in missing]
        ahead, lines = (older, its_lines) if older.head == head else (ahead, lines)
    await journal.store.append(journal.lease, journal.log, lines, journal.run)
    journal.log = ahead


def new_decisions(state: RunState[Any]) -> tuple[Said, ...]:
    """The decisions of the state that are about calls of this run; those by label wait for their call to come."""
    if state._context is None:
        return ()
    staged = state._context._ledger.staged()
    if not state._made_by_hand:
        return staged
    return tuple(fact for fact in staged if isinstance(fact, DecisionMade) and not fact.call.startswith(BY_HAND))


def _stands_where(stored: StoredRun, state: RunState[Any]) -> bool:
    """Whether the store's run is the state's, which has not ended: then its log need not be read."""
    return stored.head == state._log.head and not state.has_ended


def _ends(log: Log) -> bool:
    """Whether the log's last line ends the run: nothing can follow that, so no other line has to be read."""
    last = read_line(log.lines[-1]).facts if log.lines else ()
    return any(isinstance(fact, RunEnded | RunCancelled | Erased) for fact in last)  # only ended runs are erased


def ended_run(stored: StoredRun, state: RunState[Any]) -> RunFold | None:
    """The recorded end of the run, if it has one; new decisions raise RunFinished, equal ones do not."""
    if stored.log is not None and (_stands_where(stored, state) or not _ends(stored.log)):
        return None
    run = fold_log(stored.log) if stored.log is not None else stored.outline
    if run is None:
        return None
    if len(state._log) > stored.length or (len(state._log) == stored.length and state._log.head != stored.head):
        raise RunConflict(f"Run {state.run_id} has ended in the store, and the state knows another history.")
    words = new_decisions(state)
    facts_to_append(run, words)
    for vote in words:
        if isinstance(vote, VoteCast):
            is_new_vote(run.ledger, vote, has_ended=True)
    _new_input(run, state)
    return run
