"""The six roles of a node in an epoch, as data: `matrix.py` has their behaviour, `core.py` changes them.

                                  higher epoch seen, from any role
                                            │
      ┌────────── its leader is known ◄─────┴────► it is not ────────┐
      ▼                                                              ▼
  Follower ──leader silent──► Prospective ◄──election timeout── Unattached ◄─┐
      ▲                         │       │                            ▲       │
      └── lost, leader known ◄──┤       └──► lost, no leader ────────┘       │ next epoch
                                ▼ pre-votes of a majority                    │
                            Candidate ── lost, after a pause ─► Prospective  │
                                ▼ votes of a majority                        │
                             Leader ──resigns, or no majority fetches──► Resigned

KIP-595 has these roles but Prospective, which KIP-996 added. A node that does not vote is only ever Unattached or
Follower. A field that ends in `_at_ms` or `deadline_ms` is a moment of the core's clock in ms; other `_ms` are spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.messages import (
    AddRaftVoterRequest,
    ConfirmLeadershipRequest,
    FetchRequest,
    PendingRequest,
    UpdateRaftVoterRequest,
)
from quorate.raft.target_voters import Step
from quorate.raft.voters import VoterSet


class ElectionState(msgspec.Struct, frozen=True, kw_only=True):
    """The durable election state: Kafka's `quorum-state` file. It is fsynced before a message shows it (I-03, I-04).

    `voted` is the replica that got this node's vote in `epoch`; None if it has not voted.
    """

    epoch: Epoch = 0
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


@dataclass(slots=True, kw_only=True)
class Unattached:
    """The role of a node that knows no leader of its epoch; it may have voted in it."""

    epoch: Epoch
    voted: ReplicaKey | None
    election_deadline_ms: int
    """When a voter starts pre-votes."""
    leader_id: None = None

    def __post_init__(self) -> None:
        assert self.epoch >= 0, self


@dataclass(slots=True, kw_only=True)
class Prospective:
    """The role of a voter that asks for pre-votes: would it win an election of the next epoch? KIP-996.

    Epoch, leader and vote stay as they are, so a node that was cut off does no harm when it comes back (I-72).
    """

    epoch: Epoch
    leader_id: NodeId | None
    voted: ReplicaKey | None
    election_deadline_ms: int
    """When this round of pre-votes is lost if there is no majority."""
    granted: set[NodeId]
    """Voters that have granted the pre-vote, this node included if it votes."""
    rejected: set[NodeId] = field(default_factory=set)
    retries: int = 1
    """The number of this election in a row of lost ones, from 1: the pause after a lost vote grows with it."""
    lost_rounds: int | None = None
    """How many rounds of pre-votes were lost since the leader was; None if the leader may be alive."""

    def __post_init__(self) -> None:
        assert self.retries >= 1, self
        assert self.lost_rounds is None or self.leader_id is not None, self


@dataclass(slots=True, kw_only=True)
class Candidate:
    """The role of a voter that asks for votes, after won pre-votes, or after a restart in an epoch of its own vote."""

    epoch: Epoch
    voted: ReplicaKey
    """This node itself: a candidate votes for itself (I-82)."""
    election_deadline_ms: int
    """When the election is lost if there is no majority."""
    granted: set[NodeId]
    """Voters that have granted the vote, this node included if it votes."""
    rejected: set[NodeId] = field(default_factory=set)
    retries: int
    """The number of this election in a row of lost ones, from 1."""
    retry_at_ms: int | None = None
    """When it starts pre-votes again; None while the election is not lost."""
    leader_id: None = None

    def __post_init__(self) -> None:
        assert self.retries >= 1, self
        assert self.granted <= {self.voted.id}, self  # I-06: no vote of another epoch is counted


@dataclass(slots=True, kw_only=True)
class Progress:
    """The leader's knowledge of one replica, from its requests in this epoch. Raft's matchIndex, by pull."""

    leo: Offset | None = None
    """The end (exclusive) of what the replica has flushed and what equals the leader's log; None before a valid
    fetch."""
    last_fetch_at_ms: int | None = None
    """When its last valid Fetch arrived; None before the first."""
    last_caught_up_at_ms: int | None = None
    """The last moment at which the replica had all that the leader had then. KIP-836."""
    leader_leo: Offset = 0
    """The leader's log end (exclusive) at the replica's last valid fetch."""
    last_contact_at_ms: int | None = None
    """When its last Fetch, FetchSnapshot or answer to BeginQuorumEpoch arrived."""
    is_absent: bool = False
    """Whether it has reported that its controller is absent."""
    report_sequence: int = 0
    """The sequence of that report; 0 before the first."""


@dataclass(slots=True, kw_only=True)
class Parked:
    """A fetch that is held until there is news or its deadline: a long poll (KIP-595, KIP-1166)."""

    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class PendingChange:
    """The change of the voter set or its target that is under way: one at a time (I-31). KIP-853."""

    request: PendingRequest
    deadline_ms: int
    """When it is answered with REQUEST_TIMED_OUT; a record that is in the log by then stays there."""
    end_offset: Offset | None = None
    """The end (exclusive) of the batch with the new voter set; None while the voter's ApiVersions is awaited."""
    is_answered: bool = False
    is_of_walk: bool = False
    """Whether the leader itself began it, as a step to the target voter set: then there is no request to answer."""

    def __post_init__(self) -> None:
        assert self.end_offset is not None or isinstance(self.request, AddRaftVoterRequest | UpdateRaftVoterRequest), (
            self
        )


@dataclass(slots=True, kw_only=True)
class Walk:
    """The leader's progress with the next step from the voter set to its target (AlterQuorum)."""

    step: Step | None = None
    """The step that was tried last; None before the first, and if no step leads to the target."""
    error: ErrorCode = ErrorCode.NONE
    """Why the step could not be taken at the last try."""
    message: str = ""
    failures: int = 0
    """How many tries of this step have failed."""
    retry_at_ms: int = 0
    """When the step is tried again."""


@dataclass(slots=True, kw_only=True)
class ReadIndexRound:
    """One round of ReadIndex: the reads that wait for it, and the voters that have confirmed the leader since.

    Raft thesis 6.4.
    """

    number: int
    requests: tuple[ConfirmLeadershipRequest, ...]
    acknowledged: set[ReplicaKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        assert self.number > 0, self  # BeginQuorumEpoch has 0 where it belongs to no round
        assert self.requests, self


@dataclass(slots=True, kw_only=True)
class Leader:
    """The role of the one leader of an epoch (I-01)."""

    epoch: Epoch
    leader_id: NodeId
    """This node itself."""
    voted: ReplicaKey
    """This node itself."""
    epoch_start_offset: Offset
    """The log end at the election, which is the offset of the epoch's LeaderChange record."""
    high_watermark: Offset | None = None
    """The high watermark (exclusive); None until a record of this epoch is committed (I-19).

    A follower's high watermark is not taken over: the log's view keeps it, but the leader does not send it."""
    replicas: dict[ReplicaKey, Progress] = field(default_factory=dict)
    """The progress of each other voter and of the observers that fetch; not of the leader itself."""
    parked: dict[ReplicaKey, Parked] = field(default_factory=dict)
    """The held fetches, at most one for a replica. Those of readers without an id have negative ids, each its own."""
    parked_deadline_ms: int | None = None
    """The earliest deadline of the held fetches, or before it; None without any."""
    parked_checked_ends: tuple[Offset, Offset | None] = (-1, None)
    """The log end and high watermark at which the held fetches were last checked for news."""
    fetched: set[ReplicaKey] = field(default_factory=set)
    """The voters that have fetched since check quorum was last restarted."""
    check_quorum_deadline_ms: int
    """When the leader resigns unless a majority of the voters fetches before (I-24)."""
    pending: PendingChange | None = None
    walk: Walk = field(default_factory=Walk)
    """The progress to the target of the voter set, if it has one."""
    elected_at_ms: int = 0
    """The moment of the election."""
    announced_voters: VoterSet | None = None
    """At kraft.version 0, the voter set completed by each voter's UpdateRaftVoter of this epoch. It is kept in
    memory only, and written to the log when kraft.version is raised (KIP-853)."""
    unconfirmed: list[ConfirmLeadershipRequest] = field(default_factory=list)
    """The reads that wait for the next round of ReadIndex."""
    probe: ReadIndexRound | None = None
    """The round of ReadIndex that is under way."""
    probes: int = 0
    """How many rounds of ReadIndex this leader has started."""

    def __post_init__(self) -> None:
        assert self.leader_id == self.voted.id, self
        assert self.check_quorum_deadline_ms > self.elected_at_ms, self
        assert all(progress.leo is None for progress in self.replicas.values()), self  # I-18: earlier fetches are void


@dataclass(slots=True, kw_only=True)
class SnapshotDownload:
    """A snapshot that is being downloaded in chunks. KIP-630."""

    snapshot_id: OffsetAndEpoch
    position: int = 0
    """The number of bytes received, which is the position of the next chunk."""
    size: int | None = None
    """The size of the snapshot in bytes; None before the first chunk."""

    def __post_init__(self) -> None:
        assert self.snapshot_id.offset > 0, self  # (0, 0) is each node's own bootstrap checkpoint

    @property
    def is_whole(self) -> bool:
        """Whether every byte has been received."""
        return self.position == self.size


@dataclass(slots=True, kw_only=True)
class Follower:
    """The role of a node that fetches from the leader of its epoch: a voter or an observer."""

    epoch: Epoch
    leader_id: NodeId
    voted: ReplicaKey | None
    fetch_deadline_ms: int
    """When it gives up the leader: the fetch timeout after the last contact, or sooner if the leader was lost."""
    leader_contact_at_ms: int | None = None
    """When the leader last answered a fetch of this node; None before that."""
    has_fetched: bool = False
    """Whether the leader has answered a fetch and is not lost. Then this node refuses pre-votes. KIP-996."""
    is_lost: bool = False
    """Whether the stream to the leader was reset, or the leader has sent EndQuorumEpoch."""
    lost_rounds: int = 0
    """How many rounds of pre-votes were lost since the leader was lost."""
    download: SnapshotDownload | None = None
    parked: dict[ReplicaKey, Parked] = field(default_factory=dict)
    """The held fetches of observers that fetch from this follower."""
    parked_deadline_ms: int | None = None
    """The earliest deadline of the held fetches, or before it; None without any."""
    parked_checked_ends: tuple[Offset, Offset | None] = (-1, None)
    """The high watermark, twice, at which the held fetches were last checked for news."""
    is_caught_up: bool = False
    """Whether this log had everything that was committed, at the last Fetch answer."""
    next_voter_request_at_ms: int = 0
    """When UpdateRaftVoter, RemoveRaftVoter or AddRaftVoter may next be sent to the leader."""
    has_announced: bool = False
    """Whether this leader has accepted this node's UpdateRaftVoter. At kraft.version 0 each new leader needs one."""


@dataclass(slots=True, kw_only=True)
class Resigned:
    """The role of a leader that has left office: it neither votes nor leads again in this epoch (I-07)."""

    epoch: Epoch
    leader_id: NodeId
    """This node itself."""
    voted: ReplicaKey | None
    election_deadline_ms: int
    """When it enters the next epoch, if no other node has started one."""
    preferred_successors: tuple[ReplicaKey, ...] = ()
    """The voters that should stand for election, the best first."""
    acknowledged: set[NodeId] = field(default_factory=set)
    """The voters that have answered EndQuorumEpoch."""

    def __post_init__(self) -> None:
        assert all(key.id != self.leader_id for key in self.preferred_successors), self


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
"""The state of a node in its epoch; exactly one of six."""


def election_state(role: Role) -> ElectionState:
    """Returns the part of `role` that must be durable before a message of that role is sent."""
    return ElectionState(epoch=role.epoch, leader_id=role.leader_id, voted=role.voted)


def unpersisted(role: Role, persisted: ElectionState) -> ElectionState | None:
    """Returns the election state of `role` if it has to be persisted; None if `persisted` is the same."""
    state = election_state(role)
    return None if state == persisted else state


def known_leader(role: Role) -> NodeId | None:
    """Returns the leader that this node names to others; None if unknown, or if this node itself has resigned."""
    return None if isinstance(role, Resigned) else role.leader_id


def check_change(before: Role, after: Role) -> None:
    """Asserts that a node may become `after` in a running process: the arrows of the diagram in the README."""
    assert after.epoch >= before.epoch, (before, after)  # I-03
    if after.epoch == before.epoch:
        # At kraft.version 0 the stored vote may lack the directory id, so that only the ids are compared.
        assert before.voted is None or after.voted is not None, (before, after)  # I-04
        assert before.voted is None or after.voted is None or after.voted.id == before.voted.id, (before, after)  # I-04
        assert None in (before.leader_id, after.leader_id) or after.leader_id == before.leader_id, (before, after)
        assert not isinstance(before, Resigned), (before, after)  # I-07
        assert not isinstance(before, Leader) or isinstance(after, Resigned), (before, after)  # I-07
    if isinstance(after, Prospective):
        assert isinstance(before, Unattached | Follower | Candidate), (before, after)
        assert after.epoch == before.epoch, (before, after)  # I-72
        assert after.voted == before.voted, (before, after)  # I-04
    if isinstance(after, Candidate):
        assert isinstance(before, Prospective), (before, after)  # only won pre-votes raise the epoch (KIP-996)
        assert after.epoch == before.epoch + 1, (before, after)
    if isinstance(after, Leader):
        assert isinstance(before, Candidate), (before, after)  # I-06
        assert after.epoch == before.epoch, (before, after)
    if isinstance(after, Resigned):
        assert isinstance(before, Leader), (before, after)
        assert after.epoch == before.epoch, (before, after)
