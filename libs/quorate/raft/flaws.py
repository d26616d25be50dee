"""Validation of requests: rules for the numbers in them that hold on every node, in every role and epoch."""

from __future__ import annotations

from quorate.nouns import NodeId
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AlterQuorumRequest,
    BeginQuorumEpochRequest,
    ConfirmLeadershipRequest,
    ControllerPresenceRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    Request,
    TransferLeadershipRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from quorate.raft.voters import Voter, VoterSet


def flaw(request: Request) -> str | None:
    """Returns the rule that `request` breaks, as text; None if it breaks none. It is answered with INVALID_REQUEST.

    Only responses to administrators can carry the text.
    """
    match request:
        case (
            UpdateRaftVoterRequest(voter=Voter(key=key))
            | AddRaftVoterRequest(voter=Voter(key=key))
            | RemoveRaftVoterRequest(voter=key)
            | ControllerPresenceRequest(replica=key)
        ):
            return _id_flaw(key.id)
        case AlterQuorumRequest(target=VoterSet() as target):
            return _id_flaw(min(target.ids, default=0))
        case TransferLeadershipRequest(timeout_ms=timeout_ms):
            return f"the timeout is {timeout_ms} ms; it must be at least 1 ms" if timeout_ms < 1 else None
        case _:
            return f"{type(request).__name__} with a number out of range" if _is_out_of_range(request) else None


def _id_flaw(node_id: NodeId) -> str | None:
    """Returns a text for a negative voter id."""
    return f"voter id {node_id} is not possible: an id is a number from 0 on" if node_id < 0 else None


def _is_out_of_range(request: Request) -> bool:
    """Returns whether a number in a peer's request is impossible, by Kafka's checks of the same requests."""
    match request:
        case VoteRequest(epoch=epoch, last=last, pre_vote=pre_vote):
            # A candidate has just started `epoch`, so its log cannot have records of it; for a pre-vote, `epoch` is not
            # started anew.
            ceiling = epoch if pre_vote else epoch - 1
            return last.offset < 0 or not 0 <= last.epoch <= ceiling or not request.replica.has_id
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return request.leader_id < 0 or request.epoch < 0
        case FetchRequest():
            is_epoch = 0 <= request.last_fetched_epoch <= request.epoch
            return request.max_wait_ms < 0 or request.fetch_offset < 0 or request.max_bytes < 0 or not is_epoch
        case FetchSnapshotRequest(snapshot_id=snapshot_id):
            return request.max_bytes < 0 or snapshot_id.offset < 0 or snapshot_id.epoch < 0
        case ConfirmLeadershipRequest():
            return request.epoch < 0
        case _:
            return False
