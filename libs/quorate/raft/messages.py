"""What quorum nodes say to each other: Kafka's requests and responses, flat and frozen.

`reply_to` is opaque. On a request that comes in it is the driver's way to the asker, and the answer carries it
back. On a request that goes out it is the core's own number, and the driver puts it on the answer that comes in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.log import Batch
from quorate.raft.voters import SUPPORTED, VersionRange, Voter

EPOCH_UNKNOWN = -1
"""The epoch of an answer that has none on the wire."""
HIGH_WATERMARK_UNKNOWN = -1
HIGH_WATERMARK_UNSUPPORTED = (1 << 63) - 1
"""What a fetch older than v18 says of its high watermark: it is not to be woken by ours. KIP-1166."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Asks for a vote in `epoch`, or with `pre_vote`, whether one would be given in the next. KIP-595, KIP-996."""

    epoch: Epoch
    replica: ReplicaKey
    last: OffsetAndEpoch
    """How far the asker's log goes."""
    pre_vote: bool = False
    voter: ReplicaKey | None = None
    """Whom the asker believes to ask."""
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    """Whether the vote is granted, and the leader and epoch that the voter knows."""

    epoch: Epoch
    leader_id: NodeId | None = None
    granted: bool = False
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """Tells a voter who leads `epoch`, so that it fetches there. KIP-595."""

    epoch: Epoch
    leader_id: NodeId
    voter: ReplicaKey | None = None
    cluster_id: str | None = None
    reply_to: object = None
    probe: int = 0
    """The sender's own: the round of `confirming` in which it asks; 0 for news. It is not on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    """The voter has taken note."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """Tells a voter that the leader of `epoch` leaves, and who should follow it, best first. KIP-595."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: tuple[ReplicaKey, ...] = ()
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse:
    """The voter has taken note."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Asks for records from `fetch_offset` on; says that everything below is on the asker's disk. KIP-595."""

    epoch: Epoch
    """CurrentLeaderEpoch in Kafka's fetch."""
    replica: ReplicaKey
    """An id of -1 is nobody: served, but not listed."""
    fetch_offset: Offset
    last_fetched_epoch: Epoch
    max_bytes: int
    max_wait_ms: int
    high_watermark: Offset = HIGH_WATERMARK_UNSUPPORTED
    """The high watermark that the asker knows: a higher one is news. KIP-1166."""
    from_any: bool = False
    """May a node that does not lead answer, with what it knows to be committed? Not in Kafka."""
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Whole batches from `offset` on: at least one, and no more than `max_bytes` beyond it."""

    offset: Offset
    max_bytes: int
    below: Offset | None = None
    """Nothing from here on, where a batch begins; None: to the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Records, or where the logs part, or the snapshot to fetch instead. KIP-595, KIP-630.

    Going out it says what to `read`; coming in it holds the `batches` that were read.
    """

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = HIGH_WATERMARK_UNKNOWN
    log_start_offset: Offset = -1
    diverging: OffsetAndEpoch | None = None
    """The largest epoch of the leader not above the asker's, and where it ends there."""
    snapshot_id: OffsetAndEpoch | None = None
    silent_ms: int = 0
    """For how long whoever answers has not heard the leader; 0 from the leader. Not in Kafka."""
    read: Read | None = None
    batches: tuple[Batch, ...] = ()
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """Asks for the bytes of a snapshot from `position` on. KIP-630."""

    epoch: Epoch
    replica: ReplicaKey
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int
    from_any: bool = False
    """May a node that does not lead answer? Not in Kafka."""
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRead:
    """Up to `max_bytes` of a snapshot from `position` on."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse:
    """A piece of a snapshot of `size` bytes. Going out it says what to `read`; coming in it holds the `data`."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    snapshot_id: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    silent_ms: int = 0
    """As in the FetchResponse."""
    read: SnapshotRead | None = None
    data: bytes = b""
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """Asks a node that is to vote with which levels of kraft.version it can work. KIP-853."""

    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """With which levels of kraft.version the node can work."""

    kraft_versions: VersionRange = SUPPORTED
    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRaftVoterRequest:
    """Asks that a replica which follows the log already be given a vote. KIP-853."""

    voter: Voter
    """`kraft_versions` is not read: the leader asks the node itself."""
    timeout_ms: int
    ack_when_committed: bool = True
    """False: the answer comes as soon as the leader has the new voter set in its log."""
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRaftVoterResponse:
    """Whether the voter was added; `message` says why not. Kafka's has no epoch and no leader."""

    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoterRequest:
    """Asks that the voter with exactly this key lose its vote. KIP-853."""

    voter: ReplicaKey
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRaftVoterResponse:
    """Whether the voter set without it is committed; `message` says why not. Kafka's has no epoch and no leader."""

    epoch: Epoch = EPOCH_UNKNOWN
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRaftVoterRequest:
    """Tells the leader of `epoch` what the voter set should say of the sender. KIP-853."""

    epoch: Epoch
    voter: Voter
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRaftVoterResponse:
    """Whether the leader took it; it does not wait for the commit. Kafka's has no message."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLeadershipRequest:
    """Asks the leader to hand over to the voter `to`; None for the one that has come furthest. Not in Kafka."""

    to: NodeId | None = None
    epoch: Epoch = EPOCH_UNKNOWN
    """The epoch that is to end; EPOCH_UNKNOWN for whichever it is."""
    timeout_ms: int
    """How long the voter may take to catch up, and then how long to take over. No writes are taken meanwhile."""
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLeadershipResponse:
    """NONE once the voter leads; else `message` says why it does not, and who leads as far as it is known."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmLeadershipRequest:
    """Asks the leader of `epoch` whether it led at some moment after this was asked. Not in Kafka."""

    epoch: Epoch
    cluster_id: str | None = None
    reply_to: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmLeadershipResponse:
    """NONE if it did: what is committed in its log by then is all that was acknowledged before it was asked."""

    epoch: Epoch
    leader_id: NodeId | None = None
    error: ErrorCode = ErrorCode.NONE
    reply_to: object = None


Worded: TypeAlias = AddRaftVoterResponse | RemoveRaftVoterResponse | TransferLeadershipResponse
"""Answers that have room for a refusal's words on the wire."""

LeaderRequest: TypeAlias = FetchRequest | FetchSnapshotRequest | UpdateRaftVoterRequest
"""Requests that only a leader serves, in the epoch that the asker names."""

NewsOfLeader: TypeAlias = BeginQuorumEpochRequest | EndQuorumEpochRequest
"""Requests by which a leader speaks of itself."""

VoterChange: TypeAlias = AddRaftVoterRequest | RemoveRaftVoterRequest
"""Requests by which an administrator, or a node for itself, changes who votes."""

EpochlessRequest: TypeAlias = VoterChange | ApiVersionsRequest | TransferLeadershipRequest | ConfirmLeadershipRequest
EpochlessResponse: TypeAlias = (
    AddRaftVoterResponse
    | RemoveRaftVoterResponse
    | ApiVersionsResponse
    | TransferLeadershipResponse
    | ConfirmLeadershipResponse
)
"""Messages that speak of no epoch, so that nothing follows from them about ours."""

Request: TypeAlias = VoteRequest | NewsOfLeader | LeaderRequest | EpochlessRequest

Response: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateRaftVoterResponse
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
    AddRaftVoterRequest: AddRaftVoterResponse,
    RemoveRaftVoterRequest: RemoveRaftVoterResponse,
    ApiVersionsRequest: ApiVersionsResponse,
    TransferLeadershipRequest: TransferLeadershipResponse,
    ConfirmLeadershipRequest: ConfirmLeadershipResponse,
}
"""What each request is answered with."""


def flaw(request: Request) -> str | None:
    """The rule that `request` breaks, whoever is asked; None for none. Only an administrator's answers have words."""
    match request:
        case (
            UpdateRaftVoterRequest(voter=Voter(key=key))
            | AddRaftVoterRequest(voter=Voter(key=key))
            | RemoveRaftVoterRequest(voter=key)
        ):
            return f"voter id {key.id} is not possible: an id is a number from 0 on" if key.id < 0 else None
        case TransferLeadershipRequest(timeout_ms=timeout_ms):
            return f"the timeout is {timeout_ms} ms; it must be at least 1 ms" if timeout_ms < 1 else None
        case _:
            return f"{type(request).__name__} with a number out of range" if _is_out_of_range(request) else None


def _is_out_of_range(
    request: VoteRequest
    | NewsOfLeader
    | FetchRequest
    | FetchSnapshotRequest
    | ApiVersionsRequest
    | ConfirmLeadershipRequest,
) -> bool:
    match request:
        case VoteRequest(epoch=epoch, last=last, pre_vote=pre_vote):
            # A candidate has just begun `epoch`, so its log cannot reach into it; one that only asks has not.
            ceiling = epoch if pre_vote else epoch - 1
            return last.offset < 0 or not 0 <= last.epoch <= ceiling or request.replica.id < 0
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return request.leader_id < 0 or request.epoch < 0
        case FetchRequest():
            is_epoch = 0 <= request.last_fetched_epoch <= request.epoch
            return request.max_wait_ms < 0 or request.fetch_offset < 0 or request.max_bytes < 0 or not is_epoch
        case FetchSnapshotRequest(snapshot_id=snapshot_id):
            return request.max_bytes < 0 or snapshot_id.offset < 0 or snapshot_id.epoch < 0
        case ConfirmLeadershipRequest():
            return request.epoch < 0
        case ApiVersionsRequest():
            return False
