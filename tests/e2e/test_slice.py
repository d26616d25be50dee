"""One write, from any controller to every replica; and what reads say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from deploy.local.client import Admin
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from quorate.errors import ErrorCode
from quorate.traces import SpanData
from tests.e2e.calls import DEADLINE_MS, attempt, call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, at_one_door

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

BROKERS = 1
CONTROLLERS = 2


async def offset_of_observer(cluster: Cluster) -> int:
    answer = await call_with_retries(
        cluster.observer_stub.DescribeCluster, DescribeClusterRequest(endpoint_type=BROKERS)
    )
    return int(answer.trailing["kraft-offset"])


@pytest.mark.parametrize("door", VOTERS)
async def test_a_topic_is_created_through_any_controller(cluster: Cluster, door: int) -> None:
    name = f"through-{door}"
    created = await cluster.create(name, at=door)

    assert [(name, 0, 1, 3)] == [
        (topic.name, topic.error_code, topic.num_partitions, topic.replication_factor) for topic in created.topics
    ]
    for other in VOTERS:
        described = (await cluster.topics(at=other))[name]

        assert created.topics[0].topic_id == described.topic_id
        assert [101, 102, 103] == sorted(described.partitions[0].replica_nodes)
        assert list(described.partitions[0].replica_nodes) == list(described.partitions[0].isr_nodes)
        assert described.partitions[0].replica_nodes[0] == described.partitions[0].leader_id


@pytest.mark.parametrize("door", VOTERS)
async def test_an_answer_says_of_which_state_it_speaks(cluster: Cluster, door: int) -> None:
    """A client that goes from one replica to another must be able to ask for no less than it has seen."""
    leader = await cluster.active()
    epoch = (await cluster.describe_quorum(leader)).leader_epoch
    await cluster.create(f"spoken-of-{door}", at=door)
    answer = await call_with_retries(
        cluster.controller_stub(door).DescribeTopicPartitions, DescribeTopicPartitionsRequest()
    )
    offset = int(answer.trailing["kraft-offset"])

    assert {"kraft-leader-id": str(leader), "kraft-leader-epoch": str(epoch)} == {
        key: value for key, value in answer.trailing.items() if key.startswith("kraft-leader")
    }

    await eventually(lambda: offset_of_observer(cluster), lambda applied: applied >= offset)

    assert await cluster.topics(at=door) == await cluster.topics()


async def test_pages_go_on_where_the_cursor_says(cluster: Cluster) -> None:
    await cluster.create("page-a", "page-b", "page-c", at=1)
    names = ["page-a", "page-b", "page-c"]
    pages, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
            response_partition_limit=1,
            cursor=cursor,
        )
        page = (await call_with_retries(cluster.controller_stub(2).DescribeTopicPartitions, request)).response
        pages.append([(topic.name, len(topic.partitions)) for topic in page.topics])
        if not page.HasField("next_cursor"):
            break
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
        )

    assert [[("page-a", 1)], [("page-b", 1)], [("page-c", 1)]] == pages


@pytest.mark.parametrize("door", VOTERS)
async def test_the_quorum_is_described_by_its_leader_whoever_is_asked(cluster: Cluster, door: int) -> None:
    leader = await cluster.active()
    observers = {*cluster.plan.brokers, 201}
    described = await eventually(
        lambda: cluster.describe_quorum(door),
        lambda quorum: (
            observers <= {observer.replica_id for observer in quorum.observers}
            and all(
                each.log_end_offset >= quorum.high_watermark for each in (*quorum.current_voters, *quorum.observers)
            )
        ),
    )

    assert leader == described.leader_id
    assert list(VOTERS) == [voter.replica_id for voter in described.current_voters]


async def test_the_cluster_is_described_by_its_brokers_and_its_controllers(cluster: Cluster) -> None:
    leader = await cluster.active()
    for door in VOTERS:
        stub = cluster.controller_stub(door)
        brokers = (
            await call_with_retries(stub.DescribeCluster, DescribeClusterRequest(endpoint_type=BROKERS))
        ).response
        controllers = (
            await call_with_retries(stub.DescribeCluster, DescribeClusterRequest(endpoint_type=CONTROLLERS))
        ).response

        assert (cluster.plan.cluster_id, leader) == (brokers.cluster_id, brokers.controller_id)
        assert [(101, "a"), (102, "b"), (103, "c")] == [(each.broker_id, each.rack) for each in brokers.brokers]
        assert [(each, cluster.controller(each).port) for each in VOTERS] == [
            (each.broker_id, each.port) for each in controllers.brokers
        ]


@pytest.mark.parametrize("through", ["the active controller", "a standby"])
async def test_one_write_is_one_trace(cluster: Cluster, through: str) -> None:
    active = await cluster.active()
    door = active if through == "the active controller" else next(each for each in VOTERS if each != active)
    standbys = [each for each in VOTERS if each != active]
    call = ["create a topic@admin-1", f"CreateTopics@controller-{door}"]
    call.insert(1, "CreateTopics@admin-1")
    if door != active:
        call += [f"CreateTopics@controller-{door}", f"CreateTopics@controller-{active}"]
    below = [
        [f"Place@controller-{active}"],
        [f"Place@controller-{active}", "Place@placer-1"],
        [f"write@controller-{active}"],
        [f"commit@controller-{active}"],
        [f"apply@controller-{active}"],
        *([f"append@quorum-{voter}"] for voter in VOTERS),
        *([f"apply@controller-{standby}"] for standby in standbys),
        ["apply@heartbeat-1"],
        ["apply@observer-201"],
    ]
    expected = Counter(tuple(call[:length]) for length in range(1, len(call) + 1))
    expected.update(tuple(call + each) for each in below)

    admin = Admin(at_one_door(cluster.plan, door))
    try:
        await admin.create_topic(f"traced-{door}-before", partitions=1, replication_factor=3)  # opens connections
        _, trace_id = await admin.create_topic(f"traced-{door}", partitions=1, replication_factor=3)
        spans = await eventually(lambda: admin.trace(trace_id), lambda spans: len(spans) >= expected.total())
    finally:
        await admin.close()

    assert {trace_id} == {span.trace_id for span in spans}
    assert expected == Counter(paths(spans))
    assert not any(span.error for span in spans)


def topic(name: str, partitions: int = 1, replicas: int = 3, **fields: Any) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, **fields
    )


def assigned(name: str, *replicas: Sequence[int], partitions: int = -1) -> CreateTopicsRequest.CreatableTopic:
    """With the replicas of partition 0, 1 and so on."""
    assignment = CreateTopicsRequest.CreatableTopic.CreatableReplicaAssignment
    assignments = [assignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)]
    return topic(name, partitions, -1, assignments=assignments)


REFUSED = {
    "more replicas than brokers": (topic("wide", replicas=4), ErrorCode.INVALID_REPLICATION_FACTOR),
    "no replica": (topic("narrow", replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "no partition": (topic("empty", partitions=0), ErrorCode.INVALID_PARTITIONS),
    "a name that is taken": (topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "a name that collides in metrics": (topic("ta.ken"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name with a slash": (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no name": (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name that a directory cannot have": (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "replicas and a count": (assigned("both", (101, 102), partitions=1), ErrorCode.INVALID_REQUEST),
    "a replica on nobody": (assigned("nobody", (101, 999)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "two replicas on one broker": (assigned("twins", (101, 101)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "replicas of unequal number": (assigned("lame", (101, 102), (103,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a config that does not exist": (
        topic("odd", configs=[CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name="no.such", value="1")]),
        ErrorCode.INVALID_CONFIG,
    ),
}


@pytest.mark.parametrize("door", ["the active controller", "a standby"])
async def test_each_topic_is_refused_for_itself_and_nothing_is_written(cluster: Cluster, door: str) -> None:
    active = await cluster.active()
    asked = active if door == "the active controller" else next(each for each in VOTERS if each != active)
    await attempt(cluster.create("taken", "ta_ken", at=active))
    before = await cluster.settled_records(), await cluster.topics(at=active)

    request = CreateTopicsRequest(topics=[wanted for wanted, _ in REFUSED.values()], timeout_ms=DEADLINE_MS)
    answered = (await call_with_retries(cluster.controller_stub(asked).CreateTopics, request)).response

    assert {wanted.name: code.name for wanted, code in REFUSED.values()} == {
        result.name: ErrorCode(result.error_code).name for result in answered.topics
    }
    assert all(result.error_message for result in answered.topics)
    assert before == (await cluster.settled_records(), await cluster.topics(at=active))


async def test_a_good_topic_is_created_beside_bad_ones(cluster: Cluster) -> None:
    request = CreateTopicsRequest(
        topics=[topic("beside-good"), topic("beside-wide", replicas=4), topic("beside-twice"), topic("beside-twice")],
        timeout_ms=DEADLINE_MS,
    )
    answered = (await call_with_retries(cluster.controller_stub(1).CreateTopics, request)).response

    assert {
        "beside-good": "NONE",
        "beside-wide": "INVALID_REPLICATION_FACTOR",
        "beside-twice": "INVALID_REQUEST",
    } == {result.name: ErrorCode(result.error_code).name for result in answered.topics}
    assert ["beside-good"] == [name for name in await cluster.topics(at=2) if name.startswith("beside")]


async def test_what_is_only_to_be_validated_is_not_written(cluster: Cluster) -> None:
    active = await cluster.active()
    before = await cluster.settled_records()
    request = CreateTopicsRequest(topics=[topic("tried")], timeout_ms=DEADLINE_MS, validate_only=True)
    answered = (await call_with_retries(cluster.controller_stub(active).CreateTopics, request)).response

    assert [("tried", 0, 1, 3)] == [
        (result.name, result.error_code, result.num_partitions, result.replication_factor) for result in answered.topics
    ]
    assert before == await cluster.settled_records()


def paths(spans: Sequence[SpanData]) -> list[tuple[str, ...]]:
    """Each span as the way from the root to it, a step `name@instance`, RPCs by their method alone."""
    by_id = {span.span_id: span for span in spans}

    def path(span: SpanData) -> tuple[str, ...]:
        step = f"{span.name.rpartition('/')[2]}@{span.instance}"
        above = by_id.get(span.parent_span_id)
        assert above is not None or not span.parent_span_id, f"{step} hangs in the air"
        return (step,) if above is None else (*path(above), step)

    return [path(span) for span in spans]
