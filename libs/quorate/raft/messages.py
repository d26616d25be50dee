"""The requests and responses between quorum nodes: Kafka's, and a few of our own, as flat immutable structs.

`reply_to` is opaque. On an incoming request it is the driver's handle on the sender, and the response carries it back.
On an outgoing request it is the core's own number, and the driver puts it on the response that comes in. `cluster_id`
None is accepted by every node, as in Kafka. A response's `epoch` and `leader_id` are those that its sender knows.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.log import BatchInfo, Read, SnapshotRead
from quorate.raft.voters import SUPPORTED, VersionRange, Voter, VoterSet

EPOCH_UNKNOWN = -1
"""The epoch of a response that carries none on the wire."""
HIGH_WATERMARK_UNKNOWN = -1
"""The high watermark in a Fetch answer of a leader that has committed nothing in its epoch yet."""
HIGH_WATERMARK_UNSUPPORTED = (1 << 63) - 1
"""The high watermark of a Fetch older than v18: a higher one is never news for its sender. KIP-1166."""


class VoteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a vote in `epoch`; with `pre_vote`, whether it would be granted in the next epoch. KIP-595, KIP-996."""

    epoch: Epoch
    replica: ReplicaKey
    """The replica that asks for the vote."""
    last: OffsetAndEpoch
    """The end of its flushed log: last epoch and end offset (exclusive). Voters compare it with theirs (Raft 5.4.1)."""
    pre_vote: bool = False
    voter: ReplicaKey | None = None
    """The replica that is asked; one on another disk answers INVALID_VOTER_KEY. KIP-853."""
    cluster_id: str | None = None
    reply_to: object = None


class VoteResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The vote: `granted` or not, with the epoch and leader that the voter knows."""

    epoch: Epoch
    leader_id: NodeId | None = None
    granted: bool = False
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


class BeginQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Announces the leader of `epoch` to a voter, which then fetches from it. KIP-595."""

    epoch: Epoch
    leader_id: NodeId
    voter: ReplicaKey | None = None
    """The replica that is asked; one on another disk answers INVALID_VOTER_KEY. KIP-853."""
    cluster_id: str | None = None
    reply_to: object = None
    probe: int = 0
    """The number of the ReadIndex round in which it is sent; 0 outside of one. Not on the wire: the sender keeps it."""


class BeginQuorumEpochResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The voter's acknowledgement that it follows this leader in this epoch, or an error."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


class EndQuorumEpochRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Announces to a voter that the leader of `epoch` resigned, and the preferred successors, best first. KIP-595."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: tuple[ReplicaKey, ...] = ()
    cluster_id: str | None = None
    reply_to: object = None


class EndQuorumEpochResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The voter's acknowledgement, or an error."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for records from `fetch_offset` on, and acknowledges all records below it as flushed. KIP-595."""

    epoch: Epoch
    """The leader epoch that the sender knows: CurrentLeaderEpoch of Kafka's Fetch."""
    replica: ReplicaKey
    """The sender. Id -1 is a reader without identity: it is served, but not tracked."""
    fetch_offset: Offset
    last_fetched_epoch: Epoch
    """The epoch of the record before `fetch_offset`, by which the leader detects a log divergence."""
    max_bytes: int
    max_wait_ms: int
    """How long the fetch may be held if there is no news."""
    high_watermark: Offset = HIGH_WATERMARK_UNSUPPORTED
    """The high watermark that the sender knows (exclusive): a higher one is news. KIP-1166."""
    from_any: bool = False
    """Whether a follower may answer, with committed records. Not in Kafka."""
    cluster_id: str | None = None
    reply_to: object = None


class FetchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Records, or the point of log divergence, or the snapshot to download. KIP-595, KIP-630.

    In an outgoing answer, `read` tells the driver which batches to put in; an incoming one has the `batches`.
    """

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = HIGH_WATERMARK_UNKNOWN
    """The high watermark (exclusive) that the sender knows."""
    log_start_offset: Offset = -1
    """The first offset of the sender's log; -1 if not given."""
    diverging: OffsetAndEpoch | None = None
    """The leader's largest epoch not above the follower's last one, with its end offset (exclusive). KIP-320."""
    snapshot_id: OffsetAndEpoch | None = None
    """The snapshot to download in place of records. KIP-630."""
    silent_ms: int = 0
    """How many ms ago the sender was in contact with the leader; 0 from the leader itself. Not in Kafka."""
    read: Read | None = None
    batches: tuple[BatchInfo, ...] = ()
    reply_to: object = None


class FetchSnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the bytes of a snapshot from `position` on. KIP-630."""

    epoch: Epoch
    replica: ReplicaKey
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int
    from_any: bool = False
    """Whether a follower may answer. Not in Kafka."""
    cluster_id: str | None = None
    reply_to: object = None


class FetchSnapshotResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of a snapshot of `size` bytes, from byte `position` on. KIP-630.

    In an outgoing answer, `read` tells the driver which bytes to put in; an incoming one has the `data`.
    """

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    snapshot_id: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    silent_ms: int = 0
    """How many ms ago the sender was in contact with the leader; 0 from the leader itself. Not in Kafka."""
    read: SnapshotRead | None = None
    data: bytes = b""
    reply_to: object = None


class ApiVersionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a node that is being added or updated as a voter for its range of kraft.version. KIP-853."""

    cluster_id: str | None = None
    reply_to: object = None


class ApiVersionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The range of kraft.version that the node supports."""

    kraft_versions: VersionRange = SUPPORTED
    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


class AddRaftVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the leader to add a voter, which must have caught up as an observer. KIP-853."""

    voter: Voter
    """The new voter. Its `kraft_versions` are ignored: the leader asks the node itself by ApiVersions."""
    timeout_ms: int
    ack_when_committed: bool = True
    """False: the answer comes once the new voter set is in the leader's log; True: once it is committed."""
    cluster_id: str | None = None
    reply_to: object = None


class AddRaftVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the voter was added; `message` has the reason if not. Kafka's has no epoch and no leader."""

    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


class RemoveRaftVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the leader to remove the voter with exactly this key: id and directory id. KIP-853."""

    voter: ReplicaKey
    cluster_id: str | None = None
    reply_to: object = None


class RemoveRaftVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the voter set without that voter is committed; `message` has the reason if not. Kafka's has no leader."""

    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


class AlterQuorumRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the leader to change the voters to those of `target`, one at a time; None cancels the target. Not in Kafka.

    KIP-595 had such a request in its first form, where a second target and null meant the same.
    """

    target: VoterSet | None
    validate_only: bool = False
    cluster_id: str | None = None
    reply_to: object = None


class AlterQuorumResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the target is committed; if not, `message` has the reason. It does not wait for the target's voters."""

    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    offset: Offset | None = None
    """The offset of a record after which the voter set in force has the target, or is it; None with `validate_only`."""
    reply_to: object = None


class UpdateRaftVoterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Announces the sender's listeners and kraft.version range to the leader of `epoch`, for the voter set. KIP-853."""

    epoch: Epoch
    voter: Voter
    cluster_id: str | None = None
    reply_to: object = None


class UpdateRaftVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the leader has accepted the update; it does not wait for the commit. Kafka's has no message."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


class ControllerPresenceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Reports to the leader of `epoch` whether the controller beside a voter is present. Not in Kafka."""

    epoch: Epoch
    replica: ReplicaKey
    is_present: bool
    sequence: int
    """Grows with each report of this voter, so that the leader knows a late one. From 1 on."""
    cluster_id: str | None = None
    reply_to: object = None


class ControllerPresenceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The newest report that the leader has of the voter, or an error."""

    epoch: Epoch
    leader_id: NodeId | None = None
    sequence: int = 0
    is_present: bool = False
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


class TransferLeadershipRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the leader to transfer leadership to voter `to`; None: to the most caught-up one. Raft thesis 3.10.

    Not in Kafka.
    """

    to: NodeId | None = None
    epoch: Epoch = EPOCH_UNKNOWN
    """The epoch that is to end; EPOCH_UNKNOWN for the present one, whichever it is."""
    timeout_ms: int
    """How long the voter may take to catch up, and after that again to be elected. No appends are accepted
    meanwhile."""
    cluster_id: str | None = None
    reply_to: object = None


class TransferLeadershipResponse(msgspec.Struct, frozen=True, kw_only=True):
    """NONE once the voter leads; else an error, and `message` with the reason."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


class ConfirmLeadershipRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the leader of `epoch` to confirm that it still leads: ReadIndex, Raft thesis 6.4. Not in Kafka."""

    epoch: Epoch
    cluster_id: str | None = None
    reply_to: object = None


class ConfirmLeadershipResponse(msgspec.Struct, frozen=True, kw_only=True):
    """NONE if a majority has confirmed the leader after the request arrived.

    Then its committed log has all that was acknowledged to clients before the request, so a read of it is linearizable.
    """

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


Worded: TypeAlias = AddRaftVoterResponse | RemoveRaftVoterResponse | AlterQuorumResponse | TransferLeadershipResponse
"""Responses that can carry the reason of a refusal as text."""

LeaderRequest: TypeAlias = FetchRequest | FetchSnapshotRequest | UpdateRaftVoterRequest | ControllerPresenceRequest
"""Requests that carry the sender's epoch and are served by the leader of that epoch."""

NewsOfLeader: TypeAlias = BeginQuorumEpochRequest | EndQuorumEpochRequest
"""Requests that a leader sends about its own epoch."""

VoterChange: TypeAlias = AddRaftVoterRequest | RemoveRaftVoterRequest | AlterQuorumRequest
"""Requests to change the voter set, by an administrator or a node that joins."""
PendingRequest: TypeAlias = VoterChange | UpdateRaftVoterRequest
"""Requests that wait for more than the leader's own log: for a commit, or for the answer of a voter."""

EpochlessRequest: TypeAlias = VoterChange | ApiVersionsRequest | TransferLeadershipRequest | ConfirmLeadershipRequest
EpochlessResponse: TypeAlias = (
    AddRaftVoterResponse
    | RemoveRaftVoterResponse
    | AlterQuorumResponse
    | ApiVersionsResponse
    | TransferLeadershipResponse
    | ConfirmLeadershipResponse
)
"""Messages without an epoch that the receiver would enter or compare."""

Request: TypeAlias = VoteRequest | NewsOfLeader | LeaderRequest | EpochlessRequest
Response: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateRaftVoterResponse
    | ControllerPresenceResponse
    | EpochlessResponse
)

Message: TypeAlias = Request | Response

RESPONSES: dict[type[Request], type[Response]] = {
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    FetchRequest: FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
    UpdateRaftVoterRequest: UpdateRaftVoterResponse,
    ControllerPresenceRequest: ControllerPresenceResponse,
    AddRaftVoterRequest: AddRaftVoterResponse,
    RemoveRaftVoterRequest: RemoveRaftVoterResponse,
    AlterQuorumRequest: AlterQuorumResponse,
    ApiVersionsRequest: ApiVersionsResponse,
    TransferLeadershipRequest: TransferLeadershipResponse,
    ConfirmLeadershipRequest: ConfirmLeadershipResponse,
}
"""The response type of each request type."""
