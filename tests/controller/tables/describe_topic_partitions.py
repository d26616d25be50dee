"""DescribeTopicPartitions (75)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.partitions import NO_LEADER
from quorate.nouns import LOST_DIRECTORY
from quorate.records import PartitionChangeRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

Named = DescribeTopicPartitionsRequest.TopicRequest
Cursor = DescribeTopicPartitionsRequest.Cursor
Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = Topic.DescribeTopicPartitionsResponsePartition
Following = DescribeTopicPartitionsResponse.Cursor


def three_topics(*, elr: bool = False, settings: ControllerSettings | None = None, **configs: str) -> Cluster:
    """Topics a, b, c with 3, 1, 2 partitions, each on 1, 2, led by 1."""
    cluster = Cluster(25, elr=elr, settings=settings).brokers(1, 2)
    for name, count in (("b", 1), ("c", 2), ("a", 3)):
        cluster.topic(name, *[[1, 2]] * count, **configs)
    return cluster


def one_a_page() -> Cluster:
    """The same; `max.request.partition.size.limit` is 1."""
    return three_topics(settings=ControllerSettings(partitions_per_page=1))


def offsets_too() -> Cluster:
    """The same, and __consumer_offsets with one partition."""
    cluster = three_topics()
    cluster.topic("__consumer_offsets", [1, 2])
    return cluster


def second_fenced() -> Cluster:
    """The same, 2 is fenced."""
    cluster = three_topics()
    cluster.change(2, ControlState.FENCED)
    return cluster


def all_fenced() -> Cluster:
    """The same with ELR, `min.insync.replicas` is 2; 2 was fenced first, and then 1."""
    cluster = three_topics(elr=True, min_insync_replicas="2")
    for broker_id in (2, 1):
        cluster.change(broker_id, ControlState.FENCED)
    return cluster


def second_lost() -> Cluster:
    """The same, the log directory of 2's replica of b-0 is lost."""
    cluster = three_topics()
    cluster.apply([PartitionChangeRecord(0, B, isr=(1,), directories=(directory(1), LOST_DIRECTORY))])
    return cluster


def on_its_way() -> Cluster:
    """The same, b-0 is on its way to 2, 1, 3, and 3 is not there yet."""
    cluster = three_topics()
    cluster.register(3)
    directories = tuple(map(directory, (2, 1, 3)))
    cluster.apply([PartitionChangeRecord(0, B, replicas=(2, 1, 3), adding_replicas=(3,), directories=directories)])
    return cluster


ALL_OF_A_TOPIC = 0b1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: bits 3 to 8, 10 and 11."""
ONLY_SEEN = 1 << 8
A, B, C = uuid(1002), uuid(1000), uuid(1001)
IDS = {"a": A, "b": B, "c": C, "__consumer_offsets": uuid(1003)}


def asked(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(tuple(map(Named, names)), limit, None if cursor is None else Cursor(*cursor))


def told(*topics: Topic, following: tuple[str, int] | None = None) -> DescribeTopicPartitionsResponse:
    cursor = None if following is None else Following(*following)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def topic(name: str, *partitions: Partition | int, internal: bool = False, may: int = ALL_OF_A_TOPIC) -> Topic:
    """Partitions by number are as they were made."""
    described = tuple(partition(each) if isinstance(each, int) else each for each in partitions)
    return Topic(
        name=name,
        topic_id=IDS[name],
        is_internal=internal,
        partitions=described,
        topic_authorized_operations=may,
    )


def partition(
    number: int,
    *,
    leader: int = 1,
    epoch: int = 0,
    replicas: Sequence[int] = (1, 2),
    isr: Sequence[int] = (1, 2),
    offline: Sequence[int] = (),
    **others: Any,
) -> Partition:
    fields = {"eligible_leader_replicas": (), "last_known_elr": ()} | others
    return Partition(
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=tuple(replicas),
        isr_nodes=tuple(isr),
        offline_replicas=tuple(offline),
        **fields,
    )


def refused(name: str, code: ErrorCode, *, internal: bool = False, may: int = ALL_OF_A_TOPIC) -> Topic:
    return Topic(error_code=int(code), name=name, is_internal=internal, topic_authorized_operations=may)


def denied(name: str) -> Topic:
    """The caller's operations on it are not listed."""
    return Topic(error_code=int(NOT_ALLOWED), name=name)


def leaderless(number: int) -> Partition:
    """Both are eligible, 1 led last."""
    return partition(
        number,
        leader=NO_LEADER,
        epoch=1,
        isr=(),
        offline=(1, 2),
        eligible_leader_replicas=(1, 2),
        last_known_elr=(1,),
    )


def command(
    cluster: Cluster,
    request: DescribeTopicPartitionsRequest,
    *,
    may_see: Sequence[str] | None = None,
    may: Sequence[AclOperation] | None = None,
) -> Command[Any]:
    """`may_see` are the topics that the caller may see, and nothing else; `may` is what it may do to any topic.

    Without them it may do everything.
    """

    def would_allow(operation: AclOperation, resource: ResourceType, name: str) -> bool:
        assert ResourceType.TOPIC == resource
        if may_see is not None:
            return operation is AclOperation.DESCRIBE and name in may_see
        return may is None or operation in may

    def allows(operation: AclOperation, resource: ResourceType, name: str) -> bool:
        assert AclOperation.DESCRIBE == operation
        return would_allow(operation, resource, name)

    return describe_topic_partitions(
        request, partitions_per_page=cluster.settings.partitions_per_page, allows=allows, would_allow=would_allow
    )


UNKNOWN, INVALID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
NOT_ALLOWED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
HANDLE = "DescribeTopicPartitionsRequestHandler.handleDescribeTopicPartitionsRequest"
PAGE = "KRaftMetadataCache.describeTopicResponse"
PART = "KRaftMetadataCache.partitionMetadataForDescribeTopicResponse"
MAY = "AuthHelper.authorizedOperations"
OFFLINE = "KRaftMetadataCache.getOfflineReplicas"
ALL = (topic("a", 0, 1, 2), topic("b", 0), topic("c", 0, 1))

TABLE = Table(
    api="DescribeTopicPartitions",
    kafka="DescribeTopicPartitionsRequestHandler.handleDescribeTopicPartitionsRequest (KIP-966)",
    command=command,
    given=three_topics,
    rows=(
        Row(
            case="all",
            rule=f"{HANDLE}: no names are all topics, by name.",
            request=asked(),
            answer=told(*ALL),
        ),
        Row(
            case="all that fit exactly",
            rule=f"{PAGE}: no cursor where nothing follows.",
            request=asked(limit=6),
            answer=told(*ALL),
        ),
        Row(
            case="a page that ends inside a topic",
            rule=f"{PART}: the cursor is at the first partition that is left out.",
            request=asked(limit=2),
            answer=told(topic("a", 0, 1), following=("a", 2)),
        ),
        Row(
            case="a page that ends with a topic",
            rule=f"{PAGE}: the cursor is at the next topic's partition 0.",
            request=asked(limit=3),
            answer=told(topic("a", 0, 1, 2), following=("b", 0)),
        ),
        Row(
            case="from a cursor",
            rule=f"{HANDLE}: from that topic on, from that partition of it on.",
            request=asked(limit=2, cursor=("a", 2)),
            answer=told(topic("a", 2), topic("b", 0), following=("c", 0)),
        ),
        Row(
            case="from a cursor at a topic that has gone",
            rule=f"{HANDLE}: of all, those whose names come after it.",
            request=asked(limit=9, cursor=("aa", 5)),
            answer=told(topic("b", 0), topic("c", 0, 1)),
        ),
        Row(
            case="from a cursor beyond the partitions",
            rule=f"{PART}: the topic without partitions.",
            request=asked(limit=9, cursor=("c", 7)),
            answer=told(topic("c")),
        ),
        Row(
            case="no room",
            rule=f"{HANDLE}: there is room for one at least.",
            request=asked(limit=0),
            answer=told(topic("a", 0), following=("a", 1)),
        ),
        Row(
            case="less than no room",
            rule=f"{HANDLE}: there is room for one at least.",
            request=asked(limit=-5),
            answer=told(topic("a", 0), following=("a", 1)),
        ),
        Row(
            case="more than the server allows",
            rule=f"{HANDLE}: max.request.partition.size.limit.",
            given=one_a_page,
            request=asked(),
            answer=told(topic("a", 0), following=("a", 1)),
        ),
        Row(
            case="by name",
            rule=f"{HANDLE}: in the order of names, each once.",
            request=asked("c", "b", "c"),
            answer=told(topic("b", 0), topic("c", 0, 1)),
        ),
        Row(
            case="by name, from a cursor",
            rule=f"{HANDLE}: names before the cursor's have been told.",
            request=asked("a", "b", "c", cursor=("b", 0)),
            answer=told(topic("b", 0), topic("c", 0, 1)),
        ),
        Row(
            case="by name, and the cursor's topic is not named",
            rule=f"{HANDLE}: the names of the first page are those of all pages.",
            request=asked("a", "c", cursor=("b", 0)),
            answer=ErrorCode.INVALID_REQUEST,
        ),
        Row(
            case="by name, from a cursor at one that there is not",
            rule=f"{PAGE}: it is named, and that is enough.",
            request=asked("aa", "b", cursor=("aa", 3)),
            answer=told(refused("aa", UNKNOWN), topic("b", 0)),
        ),
        Row(
            case="no such topic, after a full page",
            rule=f"{PAGE}: where there is no room the cursor is at the next name, be there such a topic or not.",
            request=asked("b", "bb", "c", limit=1),
            answer=told(topic("b", 0), following=("bb", 0)),
        ),
        Row(
            case="no such topic",
            rule=f"{PAGE}: an item with an error, which takes no room.",
            request=asked("b", "aa", "c", limit=3),
            answer=told(refused("aa", UNKNOWN), topic("b", 0), topic("c", 0, 1)),
        ),
        Row(
            case="no such topic, and no topic could have that name",
            rule=f"{PAGE}: Topic.validate.",
            request=asked("b", "/", ""),
            answer=told(refused("", INVALID), refused("/", INVALID), topic("b", 0)),
        ),
        Row(
            case="a topic that brokers have made for themselves",
            rule="Topic.isInternal",
            given=offsets_too,
            request=asked("__consumer_offsets", "__transaction_state"),
            answer=told(
                topic("__consumer_offsets", 0, internal=True),
                refused("__transaction_state", UNKNOWN, internal=True),
            ),
        ),
        Row(
            case="all that the caller may see",
            rule=f"{HANDLE}: of the others nothing is told.",
            request=asked(),
            beside={"may_see": ("a", "c")},
            answer=told(topic("a", 0, 1, 2, may=ONLY_SEEN), topic("c", 0, 1, may=ONLY_SEEN)),
        ),
        Row(
            case="a page of what the caller may see",
            rule=f"{PAGE}: the cursor is at a topic that may be seen.",
            request=asked(limit=3),
            beside={"may_see": ("a", "c")},
            answer=told(topic("a", 0, 1, 2, may=ONLY_SEEN), following=("c", 0)),
        ),
        Row(
            case="by name what the caller may not see",
            rule=f"{HANDLE}: an error at the end, without an id, be there such a topic or not.",
            request=asked("nobody", "b", "a"),
            beside={"may_see": ("b",)},
            answer=told(topic("b", 0, may=ONLY_SEEN), denied("a"), denied("nobody")),
        ),
        Row(
            case="by name what the caller may not see, page by page",
            rule=f"{HANDLE}: names before the cursor's have been told; those after it are on every page.",
            request=asked("a", "b", "c", "d", cursor=("b", 0), limit=1),
            beside={"may_see": ("b", "c")},
            answer=told(topic("b", 0, may=ONLY_SEEN), denied("d"), following=("c", 0)),
        ),
        Row(
            case="all that the caller may do",
            rule=f"{MAY}: bit n is the operation of that number, of those that topics have (KIP-430).",
            request=asked("aa", "b"),
            beside={"may": (AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.CLUSTER_ACTION)},
            answer=told(refused("aa", UNKNOWN, may=1 << 8 | 1 << 7), topic("b", 0, may=1 << 8 | 1 << 7)),
        ),
        Row(
            case="one that follows is fenced",
            rule=f"{OFFLINE}: who is fenced is offline.",
            given=second_fenced,
            request=asked("b"),
            answer=told(topic("b", partition(0, isr=(1,), offline=(2,)))),
        ),
        Row(
            case="one whose log directory is lost",
            rule="KRaftMetadataCache.isReplicaInOfflineDir (KIP-858)",
            given=second_lost,
            request=asked("b"),
            answer=told(topic("b", partition(0, isr=(1,), offline=(2,)))),
        ),
        Row(
            case="one that is moved",
            rule=f"{PART}: those that are to come are replicas already; who leads and the order stay.",
            given=on_its_way,
            request=asked("b"),
            answer=told(topic("b", partition(0, replicas=(2, 1, 3), offline=(3,)))),
        ),
        Row(
            case="led by nobody, with ELR",
            rule=f"{PART}: the leader is -1, which is no error, and who is eligible is told (KIP-966).",
            given=all_fenced,
            request=asked("b", "c", limit=2),
            answer=told(topic("b", leaderless(0)), topic("c", leaderless(0)), following=("c", 1)),
        ),
        Row(
            case="from a cursor at a negative partition",
            rule=HANDLE,
            request=asked(cursor=("a", -1)),
            answer=ErrorCode.INVALID_REQUEST,
        ),
    ),
)
