"""Which voters of the quorum can be restarted one after the other, by DescribeQuorum's answer (KIP-595, KIP-836).

The log does not tell which voters keep up; the leader does. A restart is safe if those that keep up without it are a
majority of all: then what is written meanwhile is committed, and they elect another leader if it was the leader.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft.api.describe_quorum import DescribeQuorumResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId, Offset

__all__ = ["KEEPS_UP_MS", "Quorum", "VoterRestart", "VoterState", "leader_clock_ms", "plan_voter_restarts", "quorum_of"]

View: TypeAlias = DescribeQuorumResponse.TopicData.PartitionData
UNKNOWN: Final = -1
KEEPS_UP_MS: Final = 2_000
"""A voter that has had all of the leader's log within this time (ms) keeps up: the default of
`controller.quorum.fetch.timeout.ms`, within which a leader hears of a majority or resigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterState:
    """A voter as the leader sees it. The times are in ms before the answer; None if it never was."""

    id: NodeId
    log_end_offset: Offset | None
    fetched_ms: int | None
    """When it fetched last."""
    caught_up_ms: int | None
    """When it last had all that the leader had then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The quorum of controllers as its leader sees it."""

    leader_id: NodeId
    voters: Sequence[VoterState]

    @property
    def majority(self) -> int:
        """How many voters must have a record so that it is committed: more than half of them."""
        return len(self.voters) // 2 + 1

    def trouble(self, voter: VoterState) -> str | None:
        """Says why a voter does not keep up; None if it does.

        It does if it has fetched within KEEPS_UP_MS, and has all of the leader's log, or had within this time; or if it
        is the leader.
        """
        if voter.id == self.leader_id:
            return None
        if voter.fetched_ms is None:
            return "has not fetched from this leader"
        if voter.fetched_ms > KEEPS_UP_MS:
            return f"has not fetched for {voter.fetched_ms} ms"
        if voter.log_end_offset == self._end or (voter.caught_up_ms is not None and voter.caught_up_ms <= KEEPS_UP_MS):
            return None
        return f"lags: its log ends at {voter.log_end_offset}, the leader's at {self._end}"

    @property
    def _end(self) -> Offset | None:
        return next((each.log_end_offset for each in self.voters if each.id == self.leader_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRestart:
    """One voter's restart. It is safe now if `others`, which keep up without it, are at least `majority`."""

    voter_id: NodeId
    is_leader: bool
    """Its restart costs an election, so it comes last."""
    others: Sequence[NodeId]
    """Those that keep up now."""
    majority: int
    after: Sequence[NodeId] = ()
    """The voters before it in the order that have to keep up first; none if it is safe now."""

    @property
    def is_safe_now(self) -> bool:
        """Whether the others commit without it as they are now."""
        return len(self.others) >= self.majority

    @property
    def has_place(self) -> bool:
        """Whether it is safe in its place of the order: now, or once those of `after` keep up."""
        return self.is_safe_now or bool(self.after)


def plan_voter_restarts(quorum: Quorum, voters: Collection[NodeId] = ()) -> list[VoterRestart]:
    """Returns the restarts in an order in which they are safe, then the others; of all voters if none is named.

    A voter is restarted once those before it are back and keep up. Those that do not keep up come first: their restart
    takes nothing away. The leader comes last. Raises ApiError(VOTER_NOT_FOUND).
    """
    there = [each.id for each in quorum.voters]
    for voter_id in voters:
        if voter_id not in there:
            known = ", ".join(map(str, sorted(there)))
            raise ApiError(ErrorCode.VOTER_NOT_FOUND, f"node {voter_id} is no voter; the voters are: {known}")
    keep_up = {each.id for each in quorum.voters if quorum.trouble(each) is None}
    asked = sorted(voters or there, key=lambda each: (each == quorum.leader_id, each in keep_up, each))
    safe, unsafe, back = list[VoterRestart](), list[VoterRestart](), list[NodeId]()
    for voter_id in dict.fromkeys(asked):
        others = sorted(keep_up - {voter_id})
        lacking = max(0, quorum.majority - len(others))
        restart = VoterRestart(
            voter_id=voter_id,
            is_leader=voter_id == quorum.leader_id,
            others=others,
            majority=quorum.majority,
            after=back[:lacking] if lacking <= len(back) else (),
        )
        if not restart.has_place:
            unsafe.append(restart)
            continue
        safe.append(restart)
        if voter_id not in keep_up:
            back.append(voter_id)
    return [*safe, *unsafe]


def leader_clock_ms(view: View) -> int:
    """Returns when the leader has answered, in ms since 1970 by its own clock; else when a voter fetched last."""
    own = next((each for each in view.current_voters if each.replica_id == view.leader_id), None)
    latest = [each.last_fetch_timestamp for each in view.current_voters]
    return own.last_fetch_timestamp if own is not None and own.last_fetch_timestamp != UNKNOWN else max(latest)


def quorum_of(view: View) -> Quorum:
    """Returns the quorum by DescribeQuorum's answer. Its times are counted back from `leader_clock_ms`."""
    now_ms = leader_clock_ms(view)

    def ago(timestamp_ms: int) -> int | None:
        return None if timestamp_ms == UNKNOWN else max(0, now_ms - timestamp_ms)

    return Quorum(
        leader_id=view.leader_id,
        voters=[
            VoterState(
                id=each.replica_id,
                log_end_offset=None if each.log_end_offset == UNKNOWN else each.log_end_offset,
                fetched_ms=ago(each.last_fetch_timestamp),
                caught_up_ms=ago(each.last_caught_up_timestamp),
            )
            for each in view.current_voters
        ],
    )
