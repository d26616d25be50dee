"""The envelope of all admin APIs: a dry run that shows its records, a retry that is done once, many at once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable

import pytest

from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.metadata.partition_record_pb2 import PartitionRecord
from kraft.metadata.topic_record_pb2 import TopicRecord
from kraft.service.admin_pb2 import AdminRequest, AdminRequests, AdminResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import uuid_text
from services.controller.pages import Cursor, Page
from tests.e2e.calls import WITHIN_S, call_with_retries
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT


def create(*names: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[topic(name=name, num_partitions=1, replication_factor=3) for name in names], timeout_ms=30_000
    )


async def submit(cluster: Cluster, request: AdminRequest, *, at: int) -> AdminResponse:
    answer: AdminResponse = (await call_with_retries(cluster.controller_stub(at).Submit, request)).response
    return answer


async def streamed(cluster: Cluster, requests: Iterable[AdminRequest], *, at: int) -> dict[int, AdminResponse]:
    """The answers of one stream by correlation id; the requests go out in one message."""
    call = cluster.controller_stub(at).AdminStream(timeout=WITHIN_S)
    await call.write(AdminRequests(requests=requests))
    await call.done_writing()
    return {answer.correlation_id: answer async for message in call for answer in message.responses}


@pytest.mark.parametrize("door", VOTERS)
async def test_a_dry_run_shows_the_records_and_writes_nothing(cluster: Cluster, door: int) -> None:
    answer = await submit(cluster, AdminRequest(create_topics=create("dry"), validate_only=True), at=door)

    assert [("dry", 0)] == [(each.name, each.error_code) for each in answer.create_topics.topics]

    topic, partition = TopicRecord(), PartitionRecord()
    assert 2 == len(answer.records)
    assert answer.records[0].record.Unpack(topic)
    assert answer.records[1].record.Unpack(partition)
    assert ("dry", 0) == (topic.name, partition.partition_id)
    assert {3} == {len(set(partition.replicas))}
    assert answer.leader_id in VOTERS
    assert answer.leader_epoch > 0
    assert answer.offset > 0
    assert "dry" not in await cluster.topics(at=door)


async def test_a_request_that_is_sent_again_is_done_once_and_answered_alike(cluster: Cluster) -> None:
    """Also by another leader, in another process: what was answered stands in the log."""
    request = AdminRequest(create_topics=create("once"), request_id=secrets.token_bytes(16))
    first, second = await asyncio.gather(submit(cluster, request, at=1), submit(cluster, request, at=2))

    assert [("once", 0)] == [(each.name, each.error_code) for each in first.create_topics.topics]
    assert first.create_topics == second.create_topics

    leader = first.leader_id
    await cluster.kill(cluster.controller(leader))
    await cluster.kill(cluster.quorum(leader))
    after = await submit(cluster, request, at=leader % 3 + 1)
    await cluster.heal()

    assert after.leader_id != leader
    assert first.create_topics == after.create_topics


async def test_without_an_id_each_sending_is_meant(cluster: Cluster) -> None:
    request = AdminRequest(create_topics=create("twice"))
    await submit(cluster, request, at=1)
    again = await submit(cluster, request, at=1)

    assert [int(ErrorCode.TOPIC_ALREADY_EXISTS)] == [each.error_code for each in again.create_topics.topics]


async def test_an_id_belongs_to_one_request(cluster: Cluster) -> None:
    request_id = secrets.token_bytes(16)
    first = AdminRequest(create_topics=create("kind"), request_id=request_id)
    made = await submit(cluster, first, at=1)
    name = DeleteTopicsRequest.DeleteTopicState(name="kind")
    for other in (
        AdminRequest(delete_topics=DeleteTopicsRequest(topics=[name]), request_id=request_id),
        AdminRequest(create_topics=create("another"), request_id=request_id),
    ):
        with pytest.raises(ApiError, match="needs an id of its own") as refused:
            await submit(cluster, other, at=1)

        assert ErrorCode.INVALID_REQUEST == refused.value.code
    less_time = AdminRequest(create_topics=create("kind"), request_id=request_id)
    less_time.create_topics.timeout_ms -= 1
    dry = AdminRequest(create_topics=create("kind"), request_id=request_id, validate_only=True)

    assert made.create_topics == (await submit(cluster, less_time, at=2)).create_topics
    assert [int(ErrorCode.TOPIC_ALREADY_EXISTS)] == [
        each.error_code for each in (await submit(cluster, dry, at=1)).create_topics.topics
    ]
    topics = await cluster.topics(at=1)
    assert "kind" in topics
    assert "another" not in topics


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (AdminRequest(), "request: one of the admin APIs must be asked for"),
        (
            AdminRequest(describe_cluster=DescribeClusterRequest(), request_id=b"short"),
            "request_id: it has 5 bytes, and must have 16",
        ),
        (
            AdminRequest(describe_cluster=DescribeClusterRequest(), page_token="any"),
            "page_token: DescribeCluster answers in one piece",
        ),
    ],
    ids=["nothing asked", "short id", "no pages"],
)
async def test_a_bad_envelope_is_named(cluster: Cluster, request_: AdminRequest, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        await submit(cluster, request_, at=1)

    assert ErrorCode.INVALID_REQUEST == refused.value.code


@pytest.mark.parametrize("door", VOTERS)
async def test_all_pages_of_a_list_are_of_one_moment(cluster: Cluster, door: int) -> None:
    await submit(cluster, AdminRequest(create_topics=create(*(f"page-{door}-{name}" for name in "abcd"))), at=door)
    asked = DescribeTopicPartitionsRequest(response_partition_limit=3)
    page = await submit(cluster, AdminRequest(describe_topic_partitions=asked), at=door)
    offset, told = page.offset, list(page.describe_topic_partitions.topics)
    await submit(cluster, AdminRequest(create_topics=create(f"page-{door}-e")), at=door)
    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=f"page-{door}-d")])
    await submit(cluster, AdminRequest(delete_topics=gone), at=door)
    while page.next_page_token:
        request = AdminRequest(describe_topic_partitions=asked, page_token=page.next_page_token)
        page = await submit(cluster, request, at=door)
        told += page.describe_topic_partitions.topics

        assert offset == page.offset

    names = [topic.name for topic in told if topic.name.startswith(f"page-{door}-")]
    assert [f"page-{door}-{name}" for name in "abcd"] == names
    assert {f"page-{door}-{name}" for name in "abce"} <= (await cluster.topics(at=door)).keys()


@pytest.mark.parametrize(
    ("token", "code"),
    [("?", ErrorCode.INVALID_REQUEST), (Page(1, Cursor("t", 0)).token(), ErrorCode.SNAPSHOT_NOT_FOUND)],
    ids=["none of ours", "a state that is not held"],
)
async def test_a_page_that_cannot_be_had_is_refused(cluster: Cluster, token: str, code: ErrorCode) -> None:
    request = AdminRequest(describe_topic_partitions=DescribeTopicPartitionsRequest(), page_token=token)
    with pytest.raises(ApiError) as refused:
        await submit(cluster, request, at=1)

    assert code == refused.value.code


@pytest.mark.parametrize("door", VOTERS)
async def test_many_at_once_are_all_answered_and_each_fails_by_itself(cluster: Cluster, door: int) -> None:
    names = [f"many-{door}-{number}" for number in range(40)]
    requests = [AdminRequest(correlation_id=number, create_topics=create(name)) for number, name in enumerate(names)]
    # In no oneof arm, and one that cannot be done: their errors stand in their answers.
    unanswerable = AdminRequest(correlation_id=100)
    elect = ElectLeadersRequest(election_type=7)
    answers = await streamed(
        cluster, [*requests, unanswerable, AdminRequest(correlation_id=101, elect_leaders=elect)], at=door
    )

    assert {*range(40), 100, 101} == answers.keys()
    assert int(ErrorCode.INVALID_REQUEST) == answers[100].error.error_code == answers[101].error.error_code
    # What was refused unread speaks of no state.
    assert (-1, -1, -1) == (answers[100].leader_id, answers[100].leader_epoch, answers[100].offset)
    assert (answers[0].leader_id, answers[0].leader_epoch) == (answers[101].leader_id, answers[101].leader_epoch)
    assert answers[101].offset > 0
    created = [answers[number].create_topics.topics[0] for number in range(40)]
    assert [(name, 0) for name in names] == [(each.name, each.error_code) for each in created]
    assert 40 == len({each.topic_id for each in created} - {uuid_text(bytes(16))})
    assert set(names) <= (await cluster.topics(at=door)).keys()
