"""Any message of the core's, and how it goes onto the wire and comes back."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase
from typing import Any, Final

from hypothesis import strategies as st

from kraft import Uuid
from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.voters import ListenerEndpoint, VersionRange, Voter
from quorate.records import LeaderChangeMessage, VotersRecord
from quorate.wire.batch import ControlType, control_batch, data_batch
from quorate.wire.codec import encode
from services.quorum import translate
from services.quorum.translate import Address
from services.quorum.translate.membership import SEQUENCE_MAX

REPLY_TO: Final = object()
ENDPOINTS: Final = {node_id: Address(f"node-{node_id}", 9090 + node_id) for node_id in range(4)}

epochs = st.integers(0, (1 << 31) - 1)
offsets = st.integers(0, (1 << 63) - 1)
node_ids = st.integers(0, (1 << 31) - 1)
sizes = st.integers(0, (1 << 31) - 1)
leaders = st.none() | node_ids
clusters = st.none() | st.text(max_size=22)
keys = st.builds(ReplicaKey, node_ids, st.binary(min_size=16, max_size=16))
voters = st.none() | keys
ends = st.builds(OffsetAndEpoch, epoch=epochs, offset=offsets)
errors = st.sampled_from(ErrorCode)
replies = st.just(REPLY_TO)


def batches_of(epoch: int, base_offset: int, values: list[bytes], *, is_control: bool) -> bytes:
    if not is_control:
        return data_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=0, values=values or [b"value"])
    voter = VotersRecord.Voter(voter_id=3, voter_directory_id=Uuid(bytes(range(16))))
    records = [
        (ControlType.LEADER_CHANGE, encode(LeaderChangeMessage(leader_id=1), 0)),
        (ControlType.KRAFT_VOTERS, encode(VotersRecord(voters=(voter,)), 0)),
    ]
    return control_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=0, records=records)


batches = st.builds(
    batches_of,
    epochs,
    st.integers(0, 1 << 40),
    st.lists(st.binary(min_size=1, max_size=20), max_size=4),
    is_control=st.booleans(),
)
records = st.lists(batches, max_size=3).map(b"".join)

names = st.text(min_size=1, max_size=12)
hosts = st.text(ascii_lowercase + "-", min_size=1, max_size=12) | st.sampled_from(
    ["::1", "10.0.0.1", "bücher.example."]
)
endpoints = st.lists(
    st.builds(ListenerEndpoint, names, hosts, st.integers(1, 65535)), max_size=3, unique_by=lambda each: each.name
).map(tuple)
levels = st.integers(0, (1 << 15) - 1)
newcomers = st.builds(Voter, key=keys, endpoints=endpoints)
ranges = st.lists(levels, min_size=2, max_size=2).map(lambda ends: VersionRange(*sorted(ends)))
joined = st.builds(Voter, key=keys, endpoints=endpoints, kraft_versions=ranges)

REQUESTS: Final[dict[type[Any], tuple[st.SearchStrategy[Any], Callable[..., Any], Callable[..., Any]]]] = {
    raft.VoteRequest: (
        st.builds(
            raft.VoteRequest,
            epoch=epochs,
            replica=keys,
            last=ends,
            pre_vote=st.booleans(),
            voter=voters,
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_vote,
        translate.vote_request,
    ),
    raft.BeginQuorumEpochRequest: (
        st.builds(
            raft.BeginQuorumEpochRequest,
            epoch=epochs,
            leader_id=node_ids,
            voter=voters,
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_begin,
        translate.begin_request,
    ),
    raft.EndQuorumEpochRequest: (
        st.builds(
            raft.EndQuorumEpochRequest,
            epoch=epochs,
            leader_id=node_ids,
            preferred_successors=st.lists(keys, max_size=3).map(tuple),
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_end,
        translate.end_request,
    ),
    raft.FetchRequest: (
        st.builds(
            raft.FetchRequest,
            epoch=epochs,
            replica=keys | st.just(ReplicaKey(-1)),
            fetch_offset=offsets,
            last_fetched_epoch=epochs,
            max_bytes=sizes,
            max_wait_ms=sizes,
            high_watermark=offsets | st.just(raft.HIGH_WATERMARK_UNKNOWN),
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_fetch,
        translate.fetch_request,
    ),
    raft.FetchSnapshotRequest: (
        st.builds(
            raft.FetchSnapshotRequest,
            epoch=epochs,
            replica=keys,
            snapshot_id=ends,
            position=offsets,
            max_bytes=sizes,
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_fetch_snapshot,
        translate.fetch_snapshot_request,
    ),
    raft.ApiVersionsRequest: (
        st.builds(raft.ApiVersionsRequest, cluster_id=clusters, reply_to=replies),
        translate.to_api_versions,
        translate.api_versions_request,
    ),
    raft.AddRaftVoterRequest: (
        st.builds(
            raft.AddRaftVoterRequest,
            voter=newcomers,
            timeout_ms=sizes,
            ack_when_committed=st.booleans(),
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_add,
        translate.add_request,
    ),
    raft.RemoveRaftVoterRequest: (
        st.builds(raft.RemoveRaftVoterRequest, voter=keys, cluster_id=clusters, reply_to=replies),
        translate.to_remove,
        translate.remove_request,
    ),
    raft.UpdateRaftVoterRequest: (
        st.builds(raft.UpdateRaftVoterRequest, epoch=epochs, voter=joined, cluster_id=clusters, reply_to=replies),
        translate.to_update,
        translate.update_request,
    ),
    raft.ControllerPresenceRequest: (
        st.builds(
            raft.ControllerPresenceRequest,
            epoch=epochs,
            replica=keys,
            is_present=st.booleans(),
            sequence=st.integers(1, SEQUENCE_MAX),
            cluster_id=clusters,
            reply_to=replies,
        ),
        translate.to_presence,
        translate.presence_request,
    ),
}
"""By class: any such request, the way out, the way in."""


def told(message: type[Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any answer of this class; all of them tell an epoch, a leader and an error."""
    return st.builds(message, epoch=epochs, leader_id=leaders, error=errors, reply_to=replies, **more)


def with_endpoints(out: Callable[..., Any]) -> Callable[[Any], Any]:
    """The way out where the nodes are at ENDPOINTS."""
    return lambda answer: out(answer, ENDPOINTS)


ANSWERS: Final[dict[type[Any], tuple[st.SearchStrategy[Any], Callable[..., Any], Callable[..., Any]]]] = {
    raft.VoteResponse: (
        told(raft.VoteResponse, granted=st.booleans()),
        with_endpoints(translate.vote_answer),
        translate.from_vote,
    ),
    raft.BeginQuorumEpochResponse: (
        told(raft.BeginQuorumEpochResponse),
        with_endpoints(translate.begin_answer),
        translate.from_begin,
    ),
    raft.EndQuorumEpochResponse: (
        told(raft.EndQuorumEpochResponse),
        with_endpoints(translate.end_answer),
        translate.from_end,
    ),
    raft.FetchResponse: (
        told(
            raft.FetchResponse,
            high_watermark=offsets | st.just(raft.HIGH_WATERMARK_UNKNOWN),
            log_start_offset=offsets | st.just(-1),
            diverging=st.none() | ends,
            snapshot_id=st.none() | ends,
        ),
        lambda answer: translate.fetch_answer(answer, b"", ENDPOINTS),
        translate.from_fetch,
    ),
    raft.FetchSnapshotResponse: (
        told(raft.FetchSnapshotResponse, snapshot_id=ends, size=offsets, position=offsets),
        lambda answer: translate.fetch_snapshot_answer(answer, b"", ENDPOINTS),
        translate.from_fetch_snapshot,
    ),
    raft.ApiVersionsResponse: (
        st.builds(
            raft.ApiVersionsResponse,
            kraft_versions=st.builds(VersionRange, levels, levels),
            error=errors,
            reply_to=replies,
        ),
        translate.api_versions_answer,
        translate.from_api_versions,
    ),
    raft.AddRaftVoterResponse: (
        st.builds(raft.AddRaftVoterResponse, error=errors, message=st.text(max_size=20), reply_to=replies),
        translate.add_answer,
        translate.from_add,
    ),
    raft.RemoveRaftVoterResponse: (
        st.builds(raft.RemoveRaftVoterResponse, error=errors, message=st.text(max_size=20), reply_to=replies),
        translate.remove_answer,
        translate.from_remove,
    ),
    raft.UpdateRaftVoterResponse: (
        st.builds(raft.UpdateRaftVoterResponse, epoch=epochs, leader_id=leaders, error=errors, reply_to=replies),
        with_endpoints(translate.update_answer),
        translate.from_update,
    ),
    raft.ControllerPresenceResponse: (
        st.builds(
            raft.ControllerPresenceResponse,
            epoch=epochs,
            leader_id=leaders,
            sequence=st.integers(0, SEQUENCE_MAX),
            is_present=st.booleans(),
            error=errors,
            reply_to=replies,
        ),
        translate.presence_answer,
        translate.from_presence,
    ),
}
"""By class: any such answer, the way out, the way in. A piece of a snapshot always names it.

Answers with data have none here.
"""


def named(message: Any) -> str:
    return getattr(message, "__name__", "")


def sent(message: Any) -> Any:
    """`message` as it arrives."""
    return type(message).FromString(message.SerializeToString())
