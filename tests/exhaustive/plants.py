"""Bugs to be planted in the core, each of which a walk must find. The M-numbers are those of `tests/sim/mutants`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import getattr_static
from typing import TypeAlias

import msgspec

from quorate.nouns import OffsetAndEpoch
from quorate.raft import (
    ElectionState,
    LogView,
    VoterSet,
    following,
    matrix,
    membership,
    membership_faults,
    progress,
    quorum,
    role_entry,
    serving,
    voting,
)
from quorate.raft.history import History
from quorate.raft.messages import FetchRequest, VoteRequest
from quorate.raft.roles import Candidate, Leader, Resigned, Role
from quorate.raft.step_context import StepContext
from tests.exhaustive.bounds import Bounds
from tests.exhaustive.node import Node

SMALL = Bounds(voters=3, epochs=2, appends=1, crashes=0, resigns=0, stale=0, is_pre_vote_free=True, is_lean=True)
WITH_CRASH = replace(SMALL, crashes=1)
THREE_EPOCHS = replace(SMALL, epochs=3)
ADD_AND_REMOVE = replace(SMALL, voters=2, epochs=1, appends=0, adds=1, removes=1)
REMOVE = replace(SMALL, appends=0, removes=1)

Patch: TypeAlias = tuple[object, str, object]
"""Where, under which name, what instead."""


@dataclass(frozen=True)
class Plant:
    """A few names of the core in a wrong form, and the walk that finds it."""

    bounds: Bounds
    patches: tuple[Patch, ...]


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The core is wrong for a while."""
    before = [(place, name, getattr_static(place, name)) for place, name, _ in plant.patches]
    for place, name, wrong in plant.patches:
        setattr(place, name, wrong)
    try:
        yield
    finally:
        for place, name, right in before:
            setattr(place, name, right)


def forget_vote(node: Node, state: ElectionState) -> None:
    """M3: a vote for another is not persisted."""
    PERSIST(node, msgspec.structs.replace(state, voted=None) if state.leader_id is None else state)


PERSIST = Node.persist


def lead_again(context: StepContext, state: ElectionState) -> Role:
    """M5: a leader goes on where it was before the crash."""
    role = FIRST_ROLE(context, state)
    if not isinstance(role, Resigned):
        return role
    return Candidate(
        epoch=role.epoch,
        voted=context.node,
        election_deadline_ms=context.draw_election_deadline_ms(),
        granted=set(context.voters.ids),
        retries=1,
    )


FIRST_ROLE = role_entry.first_role


def fork_by_offset(log: LogView, diverging: OffsetAndEpoch) -> int:
    """M7: truncates by the leader's offset alone."""
    return min(log.leo, diverging.offset)


def grant_any_log(context: StepContext, role: Role, request: VoteRequest) -> Role | None:
    """A vote is granted to a log that is behind."""
    return voting.answer_vote(context, role, msgspec.structs.replace(request, last=max(request.last, context.log.last)))


def count_any_offset(context: StepContext, role: Leader, request: FetchRequest) -> None:
    """A fetch counts although its log is not ours."""
    key = progress.tracked_key(context, request.replica)
    progress.take_fetch_offset(context, role, key, min(request.fetch_offset, context.log.leo))
    serving.serve_fetch(context, role, request)


def count_self(context: StepContext, role: Leader) -> None:
    """M11: a leader counts itself although it is removing itself."""
    voters = {key.id: key for key in (*context.voters.keys, context.node)}
    end = quorum.agreed_end([progress.voter_end(context, role, key) for key in voters.values()])
    if end is not None and progress.may_commit(role, end) and end > (role.high_watermark or 0):
        role.high_watermark = end
        context.commit(end)


def voters_when_committed(context: StepContext) -> VoterSet:
    """M14: a voter set is in force only once it is committed."""
    return context.log.voters.before(context.log.high_watermark)


def with_row(message: type, right: object, wrong: object) -> Mapping[object, object]:
    return {key: wrong if key[1] is message and how is right else how for key, how in matrix.ROWS.items()}


def with_pursuit(right: object, wrong: object) -> Mapping[object, object]:
    return {role: tuple(wrong if how is right else how for how in hows) for role, hows in matrix.PURSUITS.items()}


def no_fault(*_: object) -> None:
    return None


def keep_all(history: object, *, to: int) -> None:
    """M15: a voter set stays in force when its record is truncated."""


PLANTS: dict[str, Plant] = {
    "M1 high watermark from leo": Plant(WITH_CRASH, ((progress, "own_end", lambda log: log.leo),)),
    "M2 no own-epoch rule": Plant(SMALL, ((progress, "may_commit", lambda role, end: True),)),
    "M3 vote not on disk": Plant(WITH_CRASH, ((Node, "persist", forget_vote),)),
    "M5 leads an epoch again": Plant(WITH_CRASH, ((role_entry, "first_role", lead_again),)),
    "M7 truncates by offset alone": Plant(THREE_EPOCHS, ((following, "fork", fork_by_offset),)),
    "M8 majority of n/2": Plant(SMALL, ((quorum, "majority", lambda count: max(1, count // 2)),)),
    "M11 leader counts itself while it leaves": Plant(
        REMOVE,
        ((progress, "advance", count_self), (matrix, "PURSUITS", with_pursuit(progress.advance, count_self))),
    ),
    "M12 second change before the first commits": Plant(
        ADD_AND_REMOVE,
        ((membership_faults, "_uncommitted_fault", no_fault), (membership_faults, "_pending_fault", no_fault)),
    ),
    "M13 change before a commit of its own": Plant(
        REMOVE, ((membership_faults, "commit_fault", no_fault), (membership, "commit_fault", no_fault))
    ),
    "M14 voters in force on commit only": Plant(REMOVE, ((StepContext, "voters", property(voters_when_committed)),)),
    "M15 voters stay when truncated": Plant(REMOVE, ((History, "truncate", keep_all),)),
    "votes twice": Plant(SMALL, ((voting, "_may_vote", lambda role, request: role.leader_id is None),)),
    "votes for a shorter log": Plant(
        SMALL, ((matrix, "ROWS", with_row(VoteRequest, voting.answer_vote, grant_any_log)),)
    ),
    "counts foreign logs": Plant(
        SMALL, ((matrix, "ROWS", with_row(FetchRequest, serving.serve_fetch, count_any_offset)),)
    ),
}
