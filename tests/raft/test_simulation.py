"""Random clusters under faults keep every invariant; planted bugs break one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.raft import Ready, enter, fencing, following, holding, matrix, progress, quorum, serving, voting
from quorate.raft.log import LogView
from quorate.raft.messages import FetchRequest, FetchResponse, VoteRequest, VoteResponse
from quorate.raft.roles import Candidate, ElectionState, Leader, Resigned, Role
from quorate.raft.turn import Turn
from tests.raft.cluster import Node
from tests.raft.simulator import Simulation

SEED_COUNT = 200
SEEDS_A_TEST = 40
SEEDS_TO_KILL = 60
"""The slowest mutant took 33 seeds when this was written."""


@pytest.mark.parametrize("first", range(0, SEED_COUNT, SEEDS_A_TEST))
def test_every_seed_keeps_the_invariants(first: int) -> None:
    simulations = [Simulation(seed) for seed in range(first, first + SEEDS_A_TEST)]
    for simulation in simulations:
        try:
            simulation.run()
        except AssertionError as broken:
            raise AssertionError(f"seed {simulation.seed} at {simulation.now_ms} ms: {broken}") from broken

    checkers = [simulation.checker for simulation in simulations]
    # A run in which nothing happens shows nothing.
    assert sum(len(checker.leaders) for checker in checkers) > 100
    assert sum(len(checker.committed) for checker in checkers) > 2_000
    assert sum(checker.truncation_count for checker in checkers) > 10
    assert sum(checker.install_count for checker in checkers) > 5
    assert sum(simulation.crash_count for simulation in simulations) > 100


def test_one_seed_is_one_run() -> None:
    runs = [Simulation(4), Simulation(4)]
    for run in runs:
        run.run()

    assert runs[0].checker == runs[1].checker
    assert runs[0].event_count == runs[1].event_count


# Planted bugs. Each is one function of the core, or of the driver, in a wrong form.


def forget_vote(node: Node, ready: Ready) -> Iterator[str]:
    """M3: a vote is not persisted."""
    for step in CARRY_OUT(node, ready):
        if step == "persist" and node.disk.election is not None and node.disk.election.leader_id is None:
            node.disk.election = replace(node.disk.election, voted=None)
        yield step


CARRY_OUT = Node.carry_out


def forget_epoch_led(turn: Turn, state: ElectionState) -> Role:
    """M5: a leader goes on where it was before the crash."""
    role = FIRST_ROLE(turn, state)
    if not isinstance(role, Resigned):
        return role
    granted = set(turn.voters.ids)
    return Candidate(
        epoch=role.epoch, voted=turn.node, election_ms=turn.election_deadline_ms(), granted=granted, retries=1
    )


FIRST_ROLE = enter.first_role


def fork_by_offset(log: LogView, diverging: OffsetAndEpoch) -> int:
    """M7: truncates by the leader's offset alone."""
    return min(log.leo, diverging.offset)


def grant_any_log(turn: Turn, role: Role, request: VoteRequest) -> Role | None:
    """A vote is granted to a log that is behind."""
    return voting.answer_vote(turn, role, replace(request, last=max(request.last, turn.log.last)))


def answer_as_before(turn: Turn, role: Leader, after: Role) -> None:
    """M33: a held fetch is answered as if we still led."""
    for parked in role.parked.values():
        answer = FetchResponse(epoch=role.epoch, leader_id=role.leader_id, high_watermark=turn.log.leo)
        turn.answer(parked.request, answer)


def count_any_offset(turn: Turn, role: Leader, request: FetchRequest) -> None:
    """A fetch counts although its log is not ours."""
    progress.take_fetch_offset(
        turn, role, progress.tracked_key(turn, request.replica), min(request.fetch_offset, turn.log.leo)
    )
    serving.serve_fetch(turn, role, request)


def pre_vote_raises_epoch(turn: Turn, role: Role, request: VoteRequest) -> Role | None:
    """M34: a pre-vote is taken for a vote."""
    after = voting.answer_vote(turn, role, request)
    if request.pre_vote and isinstance(turn.effects.answers[-1], VoteResponse) and turn.effects.answers[-1].granted:
        return enter.unattached(turn, epoch=role.epoch, voted=request.replica, reason="mutant")
    return after


def with_row(message: type, right: object, wrong: object) -> Mapping[Any, Any]:
    return {key: wrong if key[1] is message and how is right else how for key, how in matrix.ROWS.items()}


PLANTED: dict[str, tuple[object, str, object]] = {
    "high watermark from leo": (progress, "own_end", lambda log: log.leo),
    "acknowledges unflushed": (LogView, "flushed", property(lambda log: log.leo, lambda log, value: None)),
    "no own-epoch rule": (progress, "may_commit", lambda role, end: True),
    "vote not durable": (Node, "carry_out", forget_vote),
    "majority of n/2": (quorum, "majority", lambda count: max(1, count // 2)),
    "leads an epoch again": (enter, "first_role", forget_epoch_led),
    "believes an older epoch": (fencing, "is_believable", lambda turn, role, response: True),
    "truncates by offset alone": (following, "fork", fork_by_offset),
    "votes for a shorter log": (matrix, "ROWS", with_row(VoteRequest, voting.answer_vote, grant_any_log)),
    "votes twice": (voting, "_may_vote", lambda role, request: role.leader_id is None),
    "counts foreign logs": (matrix, "ROWS", with_row(FetchRequest, serving.serve_fetch, count_any_offset)),
    "stale answer to a held fetch": (holding, "release_parked", answer_as_before),
    "pre-vote casts the vote": (matrix, "ROWS", with_row(VoteRequest, voting.answer_vote, pre_vote_raises_epoch)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, wrong = PLANTED[bug]
    monkeypatch.setattr(place, name, wrong)
    for seed in range(SEEDS_TO_KILL):
        try:
            Simulation(seed).run()
        except AssertionError as broken:
            print(f"{bug}: seed {seed}: {str(broken)[:100]}")
            return
    pytest.fail(f"{bug} survived {SEEDS_TO_KILL} seeds")
