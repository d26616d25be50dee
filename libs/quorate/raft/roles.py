"""The six roles a raft node can be in: data only. `matrix.py` says what each does, `core.py` becomes them.

                                  higher epoch seen, from any role
                                            │
      ┌────────── a leader is heard of ◄────┴────► none is ──────────┐
      ▼                                                              ▼
  Follower ──leader silent──► Prospective ◄──election timeout── Unattached ◄─┐
      ▲                         │       │                            ▲       │
      └── lost, leader known ◄──┤       └──► lost, no leader ────────┘       │ next epoch
                                ▼ pre-votes of a majority                    │
                            Candidate ── lost, after a pause ─► Prospective  │
                                ▼ votes of a majority                        │
                             Leader ──resigns, or hears no majority──► Resigned

A node that does not vote is only ever Unattached or Follower. A field that ends in `_ms` is a moment, not a span.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.messages import AddRaftVoterRequest, ConfirmLeadershipRequest, FetchRequest, RemoveRaftVoterRequest
from quorate.raft.voters import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """What a node must not forget: its epoch, whom it voted for in it, and who leads it. Kafka's quorum-state."""

    epoch: Epoch = 0
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Knows no leader of its epoch; may have voted in it."""

    epoch: Epoch
    voted: ReplicaKey | None
    election_ms: int
    """When a voter asks for pre-votes."""
    leader_id: None = None


@dataclass(slots=True, kw_only=True)
class Prospective:
    """Asks whether it would win, without raising the epoch. KIP-996."""

    epoch: Epoch
    leader_id: NodeId | None
    voted: ReplicaKey | None
    election_ms: int
    """When it stops asking."""
    granted: set[NodeId]
    rejected: set[NodeId] = field(default_factory=set)
    retries: int = 1
    lost_rounds: int | None = None
    """How many rounds of pre-votes were lost since the leader was; None if it may be alive."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    """Asks for votes in the epoch that it has begun."""

    epoch: Epoch
    voted: ReplicaKey
    """Itself."""
    election_ms: int
    """When it stops asking."""
    granted: set[NodeId]
    rejected: set[NodeId] = field(default_factory=set)
    retries: int
    backoff_ms: int | None = None
    """Once lost: when it tries again."""
    leader_id: None = None


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far one replica has come, as its leader knows from its fetches in this epoch."""

    leo: Offset | None = None
    """End of what it has flushed; None before its first valid fetch."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    leader_leo: Offset = 0
    """The leader's end at the last fetch."""
    last_contact_ms: int | None = None
    """When it was last heard at all: a fetch, a snapshot fetch or an acknowledgement."""


@dataclass(slots=True, kw_only=True)
class Parked:
    """A fetch that waits for news."""

    request: FetchRequest
    expires_ms: int


@dataclass(slots=True, kw_only=True)
class PendingChange:
    """A voter that is being added or removed: one at a time. KIP-853."""

    request: AddRaftVoterRequest | RemoveRaftVoterRequest
    expires_ms: int
    """When the asker is told that it took too long; a record that is in the log by then stays."""
    end_offset: Offset | None = None
    """End of the batch with the new voter set; None while the new voter's kraft.version range is not known."""
    is_answered: bool = False


@dataclass(slots=True, kw_only=True)
class Probe:
    """One round of questions to the voters whether we still lead, and those who wait for it."""

    number: int
    requests: tuple[ConfirmLeadershipRequest, ...]
    acknowledged: set[ReplicaKey] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Leader:
    """Leads its epoch."""

    epoch: Epoch
    leader_id: NodeId
    """Itself."""
    voted: ReplicaKey
    """Itself."""
    epoch_start_offset: Offset
    """End of the log when elected: the offset of its LeaderChange record."""
    high_watermark: Offset | None = None
    """None until a record of this epoch is committed: no high watermark is inherited."""
    replicas: dict[ReplicaKey, Progress] = field(default_factory=dict)
    """All that fetch, voters and observers, but itself."""
    parked: dict[ReplicaKey, Parked] = field(default_factory=dict)
    parked_ms: int | None = None
    """When the first of them has waited long enough, at the earliest."""
    told: tuple[Offset, Offset | None] = (-1, None)
    """`leo` and high watermark of which all parked fetches know."""
    fetched: set[ReplicaKey] = field(default_factory=set)
    """Voters heard since the quorum was last checked."""
    check_quorum_ms: int
    """When it resigns unless a majority is heard."""
    pending: PendingChange | None = None
    told_voters: VoterSet | None = None
    """At kraft.version 0: the voters with what they have told of themselves in this epoch. Nothing of it is in the
    log until the upgrade."""
    unconfirmed: list[ConfirmLeadershipRequest] = field(default_factory=list)
    """Who waits for the next round of questions whether we still lead."""
    probe: Probe | None = None
    """The round that is under way."""
    probes: int = 0
    """Rounds so far."""


@dataclass(slots=True, kw_only=True)
class Download:
    """A snapshot that comes in pieces. KIP-630."""

    snapshot_id: OffsetAndEpoch
    source: NodeId
    """Who has it: another replica's snapshot of the same end may have other bytes."""
    position: int = 0
    """Bytes received."""
    size: int | None = None

    @property
    def is_whole(self) -> bool:
        """Has every byte been received?"""
        return self.position == self.size


@dataclass(slots=True, kw_only=True)
class Follower:
    """Fetches from the leader of its epoch."""

    epoch: Epoch
    leader_id: NodeId
    voted: ReplicaKey | None
    fetch_ms: int
    """When it gives the leader up."""
    heard_ms: int | None = None
    """When the leader last gave a sign of life, to us or to whoever relays it to us."""
    has_fetched: bool = False
    """Has the leader been heard? Then nobody else needs a pre-vote. KIP-996."""
    is_lost: bool = False
    """Was the stream to the leader reset, or did the leader say that it leaves?"""
    lost_rounds: int = 0
    """How many rounds of pre-votes were lost since then."""
    download: Download | None = None
    parked: dict[ReplicaKey, Parked] = field(default_factory=dict)
    """Observers' fetches that we relay."""
    parked_ms: int | None = None
    """As the leader's."""
    told: tuple[Offset, Offset | None] = (-1, None)
    """The high watermark, twice, of which all parked fetches know."""
    is_caught_up: bool = False
    """Did the last fetch answer leave nothing that is committed?"""
    voters_ms: int = 0
    """When it may next tell the leader of itself, or ask it for a vote."""
    has_told: bool = False
    """Does the leader know our directory, listeners and kraft.version range? At kraft.version 0 each must be told."""


@dataclass(slots=True, kw_only=True)
class Resigned:
    """Led this epoch and does so no more; neither votes nor leads in it again."""

    epoch: Epoch
    leader_id: NodeId
    """Itself."""
    voted: ReplicaKey | None
    election_ms: int
    """When it goes on to the next epoch."""
    preferred_successors: tuple[ReplicaKey, ...] = ()
    acknowledged: set[NodeId] = field(default_factory=set)
    """Voters that need no EndQuorumEpoch any more."""


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
"""What a node is in its epoch."""


def election_state(role: Role) -> ElectionState:
    """What must be on disk before anybody may learn of `role`."""
    return ElectionState(epoch=role.epoch, leader_id=role.leader_id, voted=role.voted)


def unpersisted(role: Role, persisted: ElectionState) -> ElectionState | None:
    """The election state of `role`; None if it is `persisted` already."""
    if (role.epoch, role.leader_id, role.voted) == (persisted.epoch, persisted.leader_id, persisted.voted):
        return None
    return election_state(role)


def known_leader(role: Role) -> NodeId | None:
    """Whom we name to others as the leader of our epoch: not ourselves once we have resigned."""
    return None if isinstance(role, Resigned) else role.leader_id
