"""The quorum protocol on the wire: every message of the core's comes back as it was, and nothing else comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import METADATA_TOPIC_ID, OffsetAndEpoch, ReplicaKey, uuid_text
from quorate.raft import messages as raft
from quorate.raft.messages import RESPONSES
from services.quorum import translate
from services.quorum.batches import parse_batches
from services.quorum.translate import Address
from tests.services.quorum.core_messages import ANSWERS, ENDPOINTS, REPLY_TO, REQUESTS, batches_of, named, records, sent


def test_every_message_of_the_core_is_translated() -> None:
    """Nodes do not ask each other for a transfer or a target, people do; nor whether one leads: its controller does."""
    asked = {raft.TransferLeadershipRequest, raft.AlterQuorumRequest, raft.ConfirmLeadershipRequest}

    assert set(RESPONSES) - asked == set(REQUESTS)
    assert set(RESPONSES.values()) - {RESPONSES[each] for each in asked} == set(ANSWERS)


@pytest.mark.parametrize("message", REQUESTS, ids=named)
@given(data=st.data())
def test_a_request_arrives_as_it_was(message: type[Any], data: st.DataObject) -> None:
    any_request, out, back = REQUESTS[message]
    request = data.draw(any_request)

    assert request == back(sent(out(request)), REPLY_TO)


@pytest.mark.parametrize("message", ANSWERS, ids=named)
@given(data=st.data())
def test_an_answer_arrives_as_it_was(message: type[Any], data: st.DataObject) -> None:
    any_answer, out, back = ANSWERS[message]
    answer = data.draw(any_answer)

    assert answer == back(sent(out(answer)), REPLY_TO)


@given(ANSWERS[raft.FetchResponse][0], records)
def test_an_answer_to_a_fetch_arrives_with_its_batches(answer: raft.FetchResponse, data: bytes) -> None:
    arrived = translate.from_fetch(sent(translate.fetch_answer(answer, data, ENDPOINTS)), REPLY_TO)

    assert replace(answer, batches=tuple(parse_batches(data))) == arrived
    assert data == b"".join(batch.data for batch in arrived.batches)  # type: ignore[misc]  # bytes, of this driver


@given(ANSWERS[raft.FetchSnapshotResponse][0], st.binary(max_size=50))
def test_a_piece_of_a_snapshot_arrives_with_its_bytes(answer: raft.FetchSnapshotResponse, data: bytes) -> None:
    arrived = translate.from_fetch_snapshot(sent(translate.fetch_snapshot_answer(answer, data, ENDPOINTS)), REPLY_TO)

    assert replace(answer, data=data) == arrived


@given(ANSWERS[raft.FetchResponse][0])
def test_an_answer_to_a_fetch_says_where_the_leader_is_without_an_error_too(answer: raft.FetchResponse) -> None:
    (found,) = translate.fetch_answer(answer, b"", ENDPOINTS).node_endpoints or (None,)
    known = ENDPOINTS.get(answer.leader_id) if answer.leader_id is not None else None

    assert known == (found and Address(found.host, found.port))


@given(ANSWERS[raft.VoteResponse][0])
def test_an_answer_says_where_the_leader_is_if_that_is_known(answer: raft.VoteResponse) -> None:
    (found,) = translate.vote_answer(answer, ENDPOINTS).node_endpoints or (None,)
    known = ENDPOINTS.get(answer.leader_id) if answer.leader_id is not None else None

    assert known == (found and Address(found.host, found.port))


# -- what is refused -----------------------------------------------------------------------------------

SAMPLES: Final[dict[type[Any], Any]] = {
    raft.VoteRequest: raft.VoteRequest(epoch=3, replica=ReplicaKey(1), last=OffsetAndEpoch(epoch=2, offset=9)),
    raft.BeginQuorumEpochRequest: raft.BeginQuorumEpochRequest(epoch=3, leader_id=1),
    raft.EndQuorumEpochRequest: raft.EndQuorumEpochRequest(epoch=3, leader_id=1),
    raft.FetchRequest: raft.FetchRequest(
        epoch=3, replica=ReplicaKey(1), fetch_offset=9, last_fetched_epoch=2, max_bytes=1, max_wait_ms=0
    ),
    raft.FetchSnapshotRequest: raft.FetchSnapshotRequest(
        epoch=3, replica=ReplicaKey(1), snapshot_id=OffsetAndEpoch(epoch=2, offset=9), position=0, max_bytes=1
    ),
}


def no_topic(request: Any) -> None:
    del request.topics[:]


def two_topics(request: Any) -> None:
    request.topics.add().CopyFrom(request.topics[0])


def no_partition(request: Any) -> None:
    del request.topics[0].partitions[:]


def two_partitions(request: Any) -> None:
    request.topics[0].partitions.add().CopyFrom(request.topics[0].partitions[0])


def another_partition(request: Any) -> None:
    partition = request.topics[0].partitions[0]
    setattr(partition, "partition" if hasattr(partition, "partition") else "partition_index", 1)


def another_topic(request: Any) -> None:
    topic = request.topics[0]
    (field,) = {"topic_id", "topic_name", "name"} & {field.name for field in topic.DESCRIPTOR.fields}
    setattr(topic, field, uuid_text(bytes(16)) if field == "topic_id" else "orders")


@pytest.mark.parametrize(
    "break_it", [no_topic, two_topics, no_partition, two_partitions, another_partition, another_topic], ids=named
)
@pytest.mark.parametrize("message", SAMPLES, ids=named)
def test_a_request_names_the_metadata_partition_and_nothing_else(
    message: type[Any], break_it: Callable[[Any], None]
) -> None:
    _, out, back = REQUESTS[message]
    request = out(SAMPLES[message])
    break_it(request)

    with pytest.raises(ApiError, match=r"must name __cluster_metadata .* and nothing else") as refusal:
        back(sent(request), REPLY_TO)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("text", ["AAAA", "!" * 22, "A" * 23])
def test_an_id_that_is_none_is_refused(text: str) -> None:
    request = translate.to_vote(
        raft.VoteRequest(epoch=3, replica=ReplicaKey(1), last=OffsetAndEpoch(epoch=2, offset=9))
    )
    request.topics[0].partitions[0].replica_directory_id = text

    with pytest.raises(ApiError, match=text) as refusal:
        translate.vote_request(request, REPLY_TO)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


def test_a_request_without_a_cluster_id_is_not_one_with_an_empty_one() -> None:
    asked = raft.BeginQuorumEpochRequest(epoch=3, leader_id=1)

    assert translate.begin_request(sent(translate.to_begin(asked)), None).cluster_id is None
    assert translate.begin_request(sent(translate.to_begin(replace(asked, cluster_id=""))), None).cluster_id == ""


def test_a_fetch_names_the_topic_by_its_id() -> None:
    fetch = translate.to_fetch(SAMPLES[raft.FetchRequest])

    assert (uuid_text(METADATA_TOPIC_ID), "") == (fetch.topics[0].topic_id, fetch.topics[0].topic)


def test_an_error_of_the_whole_answer_counts_more_than_one_of_its_partition() -> None:
    answer = translate.vote_answer(raft.VoteResponse(epoch=3), ENDPOINTS)
    answer.error_code = ErrorCode.INCONSISTENT_CLUSTER_ID  # type: ignore[assignment]  # the stubs do not know ours

    assert ErrorCode.INCONSISTENT_CLUSTER_ID is translate.from_vote(answer, REPLY_TO).error


def test_damaged_batches_are_not_taken() -> None:
    data = bytearray(batches_of(1, 0, [b"value"], is_control=False))
    data[-3] ^= 1

    with pytest.raises(Corrupt, match="checksum"):
        translate.from_fetch(translate.fetch_answer(raft.FetchResponse(epoch=1), bytes(data), ENDPOINTS), REPLY_TO)


@pytest.mark.parametrize(
    ("answer", "back"),
    [
        pytest.param(VoteResponse(), translate.from_vote, id="VoteResponse"),
        pytest.param(FetchResponse(), translate.from_fetch, id="FetchResponse"),
        pytest.param(FetchSnapshotResponse(), translate.from_fetch_snapshot, id="FetchSnapshotResponse"),
    ],
)
def test_an_answer_without_the_partition_is_refused(answer: Any, back: Callable[..., Any]) -> None:
    """Kafka answers so to a wrong cluster id. What peers send must not stop this node: ApiError is caught, no other."""
    with pytest.raises(ApiError):
        back(answer, REPLY_TO)


def test_an_answer_with_an_error_of_a_later_kafka_is_refused() -> None:
    answer = translate.vote_answer(raft.VoteResponse(epoch=3), ENDPOINTS)
    answer.error_code = 9999  # type: ignore[assignment]

    with pytest.raises(ApiError):
        translate.from_vote(answer, REPLY_TO)


def test_a_vote_asks_by_name() -> None:
    vote = translate.to_vote(SAMPLES[raft.VoteRequest])

    assert isinstance(vote, VoteRequest)
    assert "__cluster_metadata" == vote.topics[0].topic_name
