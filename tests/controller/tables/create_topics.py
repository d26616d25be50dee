"""CreateTopics (19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from kraft import Message, Uuid
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorate.controller.commands.create_topics import create_topics
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.policies import ConfigChange, NewTopic, PolicyViolation
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.configs import BROKER, TOPIC, ConfigResource
from quorate.metadata.state import ClusterState
from quorate.nouns import UNASSIGNED_DIRECTORY
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.controller.clusters import Assignment, Cluster, Config, Topic, directory, uuid
from tests.controller.tables.table import Row, Table

Result = CreateTopicsResponse.CreatableTopicResult
Told = Result.CreatableTopicConfigs
FIRST, SECOND = uuid(2000), uuid(2001)
"""The ids of new topics, as they come."""
OF_TOPIC, OF_CLUSTER, OF_FILE, OF_KAFKA = 1, 3, 4, 5
"""Who has set a config: Kafka's ConfigSource."""
MIN_ISR = "min.insync.replicas"


class NoCats:
    """A policy."""

    def validate(self, request: NewTopic) -> None:
        if "cat" in request.topic:
            raise PolicyViolation(f"{request.topic} is about cats")


class NoPreallocation:
    """A policy."""

    def validate(self, request: ConfigChange) -> None:
        assert request.configs, request
        if request.resource == ConfigResource(TOPIC, request.resource.name) and "preallocate" in request.configs:
            raise PolicyViolation(f"{request.resource.name} takes room that it may never need")


def three_of_four(level: int = 25, *, elr: bool = False, settings: ControllerSettings | None = None) -> Cluster:
    """Brokers 1, 2, 3; 4 is fenced. Topic a.b is there."""
    cluster = Cluster(level, elr=elr, settings=settings).brokers(1, 2, 3)
    cluster.register(4)
    cluster.topic("a.b", [1, 2])
    return cluster


def before_directories() -> Cluster:
    """The same at 3.7-IV1."""
    return three_of_four(16)


def at_3_7_iv2() -> Cluster:
    """The same at 3.7-IV2."""
    return three_of_four(17)


def with_elr() -> Cluster:
    """The same with ELR."""
    return three_of_four(elr=True)


def fifth_with_two_directories() -> Cluster:
    """The same, and broker 5, which has two log directories."""
    cluster = three_of_four()
    cluster.register(5, log_dirs=(uuid(51), uuid(52)))
    cluster.unfence(5)
    return cluster


def third_leaves() -> Cluster:
    """The same, 3 leads topic u, and is in controlled shutdown."""
    cluster = three_of_four()
    cluster.topic("u", [3, 1])
    cluster.change(3, ControlState.CONTROLLED_SHUTDOWN)
    return cluster


def third_cordoned() -> Cluster:
    """The same at 4.4, and all log directories of broker 3 are cordoned."""
    cluster = three_of_four(33)
    third = cluster.state.brokers.get(3)
    assert third is not None
    cluster.apply([BrokerRegistrationChangeRecord(3, third.epoch, cordoned_log_dirs=third.log_dirs)])
    return cluster


def set_elsewhere() -> Cluster:
    """The same; `min.insync.replicas` is 2 for all brokers, and in the file `log.cleanup.policy` is compact."""
    cluster = three_of_four(settings=ControllerSettings(static_configs={"log.cleanup.policy": "compact"}))
    cluster.apply([ConfigRecord(BROKER, "", MIN_ISR, "2")])
    return cluster


def two_by_default() -> Cluster:
    """The same; `num.partitions` and `default.replication.factor` are 2."""
    return three_of_four(settings=ControllerSettings(num_partitions=2, default_replication_factor=2))


def very_many_by_default() -> Cluster:
    """The same; `num.partitions` is 5,001."""
    return three_of_four(settings=ControllerSettings(num_partitions=5_001))


def no_cats() -> Cluster:
    """The same; a policy is against topics about cats."""
    return three_of_four(settings=ControllerSettings(create_topic_policy=NoCats()))


def no_preallocation() -> Cluster:
    """The same; a policy is against configs that have `preallocate`."""
    return three_of_four(settings=ControllerSettings(alter_config_policy=NoPreallocation()))


def deleted() -> Cluster:
    """The same, but topic a.b has been deleted."""
    cluster = three_of_four()
    cluster.apply([RemoveTopicRecord(uuid(1000))])
    return cluster


def asked(*topics: Topic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=topics, validate_only=validate_only)


def by_count(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> Topic:
    return Topic(name, partitions, factor, (), tuple(_configs(configs)))


def by_hand(name: str, *replicas: Sequence[int], partitions: int = -1, factor: int = -1, **configs: str) -> Topic:
    return numbered(name, dict(enumerate(replicas)), partitions, factor, **configs)


def numbered(
    name: str, replicas: dict[int, Sequence[int]], partitions: int = -1, factor: int = -1, **configs: str
) -> Topic:
    assignments = tuple(Assignment(number, tuple(brokers)) for number, brokers in replicas.items())
    return Topic(name, partitions, factor, assignments, tuple(_configs(configs)))


def _configs(configs: dict[str, Any]) -> Iterator[Config]:
    for name, value in configs.items():
        yield Config(name.replace("_", "."), value)


def told(*results: Result) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=results)


def created(name: str, partitions: int, factor: int, *configs: Told, topic_id: Uuid = FIRST) -> Result:
    return Result(name, topic_id, int(NONE), None, 0, partitions, factor, configs)


def refused(name: str, code: ErrorCode) -> Result:
    return Result(name, error_code=int(code), error_message=None)


def is_set(name: str, value: str, source: int = OF_TOPIC) -> Told:
    return Told(name, value, config_source=source)


def partition(
    number: int, *replicas: int, isr: Sequence[int] = (), topic_id: Uuid = FIRST, **others: Any
) -> PartitionRecord:
    members = tuple(isr) or replicas
    fields = {"directories": tuple(map(directory, replicas))} | others
    return PartitionRecord(
        *(number, topic_id, replicas, members), leader=members[0], leader_epoch=0, partition_epoch=0, **fields
    )


def one(name: str, topic_id: Uuid = FIRST) -> tuple[Message, ...]:
    """A topic of one partition on 1."""
    return TopicRecord(name, topic_id), partition(0, 1, topic_id=topic_id)


def command(
    cluster: Cluster, request: CreateTopicsRequest, **placements: tuple[tuple[int, ...], ...] | ApiError
) -> Command[CreateTopicsResponse]:
    """With ids from FIRST on. Of the configs in the answer only those that somebody has set: all are a page long."""
    ids = map(uuid, count(2000))
    by_name = {name.replace("_", "."): chosen for name, chosen in placements.items()}
    decide = create_topics(request, placements=by_name, new_topic_id=lambda: next(ids), settings=cluster.settings)

    def brief(state: ClusterState, moment: Moment) -> Decision[CreateTopicsResponse]:
        decision = decide(state, moment)
        topics = tuple(map(_brief, decision.response.topics))
        return replace(decision, response=replace(decision.response, topics=topics))

    return brief


def _brief(result: Result) -> Result:
    configs = tuple(each for each in result.configs or () if each.config_source != OF_KAFKA)
    return replace(result, configs=configs)


NONE, EXISTS, NAME = ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION
REQUEST, CONFIG, PARTITIONS = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_PARTITIONS
FACTOR, ASSIGNMENT = ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICA_ASSIGNMENT
POLICY = ErrorCode.POLICY_VIOLATION
ALL, ONE = "ReplicationControlManager.createTopics", "ReplicationControlManager.createTopic"
API = "ControllerApis.createTopics"
NAMES = "ReplicationControlManager.validateNewTopicNames"
LISTED = "ReplicationControlManager.validateManualPartitionAssignment"
BUILD = "ReplicationControlManager.buildPartitionRegistration"
TOTAL = "ReplicationControlManager.validateTotalNumberOfPartitions (KAFKA-17870): 10,000 in a request."
POLICED = "ConfigurationControlManager.validateAlterConfig"
CONFIGS = "ControllerConfigurationValidator.validate"
VALID = "Topic.validate"

TABLE = Table(
    api="CreateTopics",
    kafka="ControllerApis.createTopics, ReplicationControlManager.createTopics (KIP-4, KIP-464, KIP-525)",
    command=command,
    given=three_of_four,
    rows=(
        Row(
            case="by hand",
            rule=f"{ONE}: the topic, its configs, its partitions by number.",
            request=asked(numbered("t", {1: [3, 1], 0: [1, 2]}, segment_ms="9", preallocate="true")),
            records=(
                TopicRecord("t", FIRST),
                ConfigRecord(TOPIC, "t", "segment.ms", "9"),
                ConfigRecord(TOPIC, "t", "preallocate", "true"),
                partition(0, 1, 2),
                partition(1, 3, 1),
            ),
            answer=told(created("t", 2, 2, is_set("preallocate", "true"), is_set("segment.ms", "9"))),
        ),
        Row(
            case="by hand, on a broker that is fenced",
            rule=f"{BUILD}: the ISR is of active brokers, the first of them leads.",
            request=asked(by_hand("t", [4, 3])),
            records=(TopicRecord("t", FIRST), partition(0, 4, 3, isr=[3])),
            answer=told(created("t", 1, 2)),
        ),
        Row(
            case="by hand, on a broker in controlled shutdown",
            rule="ClusterControlManager.isActive: who is on the way out counts as away (KIP-841).",
            given=third_leaves,
            request=asked(by_hand("t", [3, 2])),
            records=(TopicRecord("t", FIRST), partition(0, 3, 2, isr=[2])),
            answer=told(created("t", 1, 2)),
        ),
        Row(
            case="by count",
            rule=f"{ONE}: it is placed, and the ISR is of active brokers.",
            request=asked(by_count("t", 2, 3)),
            beside={"t": ((1, 2, 3), (2, 3, 4))},
            records=(TopicRecord("t", FIRST), partition(0, 1, 2, 3), partition(1, 2, 3, 4, isr=[2, 3])),
            answer=told(created("t", 2, 3)),
        ),
        Row(
            case="by the defaults",
            rule="KIP-464: -1 is for num.partitions, and for default.replication.factor.",
            given=two_by_default,
            request=asked(by_count("t", -1, -1)),
            beside={"t": ((1, 2), (2, 3))},
            records=(TopicRecord("t", FIRST), partition(0, 1, 2), partition(1, 2, 3)),
            answer=told(created("t", 2, 2)),
        ),
        Row(
            case="on a broker with two log directories",
            rule="ClusterControlManager.defaultDir: nobody knows yet in which of them the replica will lie (KIP-858).",
            given=fifth_with_two_directories,
            request=asked(by_hand("t", [1, 5])),
            records=(
                TopicRecord("t", FIRST),
                partition(0, 1, 5, directories=(directory(1), UNASSIGNED_DIRECTORY)),
            ),
            answer=told(created("t", 1, 2)),
        ),
        Row(
            case="before 3.7-IV2",
            rule="PartitionRegistration.toRecord: no directories are written (KIP-858).",
            given=before_directories,
            request=asked(by_hand("t", [1, 2])),
            records=(TopicRecord("t", FIRST), partition(0, 1, 2, directories=())),
            answer=told(created("t", 1, 2)),
        ),
        Row(
            case="at 3.7-IV2",
            rule="PartitionRegistration.toRecord: from this level on directories are (KIP-858).",
            given=at_3_7_iv2,
            request=asked(by_hand("t", [1, 2])),
            records=(TopicRecord("t", FIRST), partition(0, 1, 2)),
            answer=told(created("t", 1, 2)),
        ),
        Row(
            case="with its own min.insync.replicas, with ELR",
            rule="ConfigurationControlManager.createClearElrRecordsAsNeeded: a change like any other (KIP-966).",
            given=with_elr,
            request=asked(by_hand("t", [1], min_insync_replicas="1"), by_hand("u", [1], segment_ms="9")),
            records=(
                TopicRecord("t", FIRST),
                ConfigRecord(TOPIC, "t", MIN_ISR, "1"),
                ClearElrRecord("t"),
                partition(0, 1),
                TopicRecord("u", SECOND),
                ConfigRecord(TOPIC, "u", "segment.ms", "9"),
                partition(0, 1, topic_id=SECOND),
            ),
            answer=told(
                created("t", 1, 1, is_set(MIN_ISR, "1")),
                created("u", 1, 1, is_set("segment.ms", "9"), topic_id=SECOND),
            ),
        ),
        Row(
            case="with its own min.insync.replicas, without ELR",
            rule="ConfigurationControlManager.createClearElrRecordsAsNeeded: none is needed.",
            request=asked(by_hand("t", [1], min_insync_replicas="1")),
            records=(TopicRecord("t", FIRST), ConfigRecord(TOPIC, "t", MIN_ISR, "1"), partition(0, 1)),
            answer=told(created("t", 1, 1, is_set(MIN_ISR, "1"))),
        ),
        Row(
            case="where configs are set for all",
            rule="ConfigurationControlManager.computeEffectiveTopicConfigs: by name, with who has set them (KIP-525).",
            given=set_elsewhere,
            request=asked(by_hand("t", [1], segment_ms="9")),
            records=(TopicRecord("t", FIRST), ConfigRecord(TOPIC, "t", "segment.ms", "9"), partition(0, 1)),
            answer=told(
                created(
                    *("t", 1, 1),
                    is_set("cleanup.policy", "compact", OF_FILE),
                    is_set(MIN_ISR, "2", OF_CLUSTER),
                    is_set("segment.ms", "9"),
                )
            ),
        ),
        Row(
            case="where one of that name has been deleted",
            rule="ReplicationControlManager.createTopics: the name is free, the id is another (KIP-516).",
            given=deleted,
            request=asked(by_hand("a.b", [1])),
            records=one("a.b"),
            answer=told(created("a.b", 1, 1)),
        ),
        Row(
            case="only to be validated",
            rule=f"{ALL}: decided alike, down to the id; validateOnly drops the records (KIP-4).",
            request=asked(by_hand("t", [1, 2], segment_ms="9"), by_hand("a.b", [1]), validate_only=True),
            answer=told(created("t", 1, 2, is_set("segment.ms", "9")), refused("a.b", EXISTS)),
        ),
        Row(
            case="one that can be, beside others that cannot",
            rule=f"{ALL}: each succeeds or fails by itself; told in the order of the request.",
            request=asked(by_count("x", 0), by_hand("t", [1]), by_hand("a.b", [1]), by_hand("u", [1])),
            records=one("t") + one("u", SECOND),
            answer=told(
                refused("x", PARTITIONS),
                created("t", 1, 1),
                refused("a.b", EXISTS),
                created("u", 1, 1, topic_id=SECOND),
            ),
        ),
        Row(
            case="none",
            rule=f"{ALL}: nothing is asked for.",
            request=asked(),
            answer=told(),
        ),
        Row(
            case="a name twice, and another",
            rule=f"{API}: what is there twice is refused once, after the others.",
            request=asked(by_hand("t", [1]), by_hand("u", [1]), by_count("t", 0)),
            records=one("u"),
            answer=told(created("u", 1, 1), refused("t", REQUEST)),
        ),
        Row(
            case="a name that is taken, twice",
            rule=f"{API}: doubles come before all else.",
            request=asked(by_hand("a.b", [1]), by_hand("a.b", [1])),
            answer=told(refused("a.b", REQUEST)),
        ),
        Row(
            case="the metadata log",
            rule=f"{API}: __cluster_metadata is none that could be created; told last.",
            request=asked(by_count("__cluster_metadata"), by_hand("t", [1]), by_hand("u", [1]), by_hand("u", [1])),
            records=one("t"),
            answer=told(created("t", 1, 1), refused("u", REQUEST), refused("__cluster_metadata", REQUEST)),
        ),
        Row(
            case="the metadata log, twice",
            rule=f"{API}: what is there twice is refused once.",
            request=asked(by_count("__cluster_metadata"), by_count("__cluster_metadata")),
            answer=told(refused("__cluster_metadata", REQUEST)),
        ),
        Row(
            case="the metadata log, with very many partitions",
            rule=f"{API}: it is out before the controller counts.",
            request=asked(by_count("__cluster_metadata", 10_001), by_hand("t", [1])),
            records=one("t"),
            answer=told(created("t", 1, 1), refused("__cluster_metadata", REQUEST)),
        ),
        Row(
            case="a name that is taken",
            rule=ALL,
            request=asked(by_hand("a.b", [1])),
            answer=told(refused("a.b", EXISTS)),
        ),
        Row(
            case="a name that metrics cannot tell from another",
            rule=f"{NAMES}: '.' and '_' are the same there (Topic.unifyCollisionChars).",
            request=asked(by_hand("a_b", [1])),
            answer=told(refused("a_b", NAME)),
        ),
        Row(
            case="two new names that metrics cannot tell apart",
            rule=f"{NAMES}: only topics that are there already are looked at.",
            request=asked(by_hand("c.d", [1]), by_hand("c_d", [1])),
            records=one("c.d") + one("c_d", SECOND),
            answer=told(created("c.d", 1, 1), created("c_d", 1, 1, topic_id=SECOND)),
        ),
        *(
            Row(case=case, rule=VALID, request=asked(by_hand(name, [1])), answer=told(refused(name, NAME)))
            for case, name in {
                "an empty name": "",
                "a name of one dot": ".",
                "a name of two dots": "..",
                "a name of 250 characters": "x" * 250,
                "a name with a slash": "a/b",
                "a name with an umlaut": "ä",
            }.items()
        ),
        Row(
            case="a name of 249 characters",
            rule=f"{VALID}: so many at most.",
            request=asked(by_hand("x" * 249, [1])),
            records=one("x" * 249),
            answer=told(created("x" * 249, 1, 1)),
        ),
        Row(
            case="a bad name, a bad config and a bad count",
            rule=f"{ALL}: the name first.",
            request=asked(by_count("..", 0, 0, no_such="1")),
            answer=told(refused("..", NAME)),
        ),
        *(
            Row(case=case, rule=rule, request=asked(by_count("t", 0, 0, **configs)), answer=told(refused("t", CONFIG)))
            for case, rule, configs in (
                ("a config that there is not, and a bad count", f"{ALL}: configs before counts.", {"no_such": "1"}),
                ("a config without value", "ReplicationControlManager.computeConfigChanges", {"segment_ms": None}),
                ("a config out of range", f"{CONFIGS}: LogConfig.validate.", {"segment_ms": "0"}),
                ("tiered storage that there is not", f"{CONFIGS}: KIP-405.", {"remote_storage_enable": "true"}),
            )
        ),
        *(
            Row(case=case, rule=rule, request=asked(by_count("t", *counts)), answer=told(refused("t", code)))
            for case, rule, counts, code in (
                ("no partitions", ONE, (0, 1), PARTITIONS),
                ("fewer than no partitions", ONE, (-2, 1), PARTITIONS),
                ("no replicas", ONE, (1, 0), FACTOR),
                ("fewer than no replicas", ONE, (1, -2), FACTOR),
                ("neither partitions nor replicas", f"{ONE}: the factor first.", (0, 0), FACTOR),
            )
        ),
        Row(
            case="the placer refuses",
            rule="StripedReplicaPlacer.place: its error is the topic's.",
            request=asked(by_count("t", 1, 5), by_hand("u", [1])),
            beside={"t": ApiError(FACTOR, "too few brokers")},
            records=one("u"),
            answer=told(refused("t", FACTOR), created("u", 1, 1)),
        ),
        *(
            Row(case=case, rule=rule, request=asked(topic), answer=told(refused("t", code)))
            for case, rule, topic, code in (
                ("by hand, with a count", f"{ONE}: -1.", by_hand("t", [1], partitions=1), REQUEST),
                ("by hand, with a factor", f"{ONE}: -1.", by_hand("t", [1], factor=1), REQUEST),
                ("by hand, with a count, on nobody", f"{ONE}: -1 first.", by_hand("t", [], partitions=1), REQUEST),
                ("by hand, on nobody", f"{LISTED}: at least one replica.", by_hand("t", []), ASSIGNMENT),
                ("by hand, on a broker twice", f"{LISTED}: no broker twice.", by_hand("t", [1, 2, 1]), ASSIGNMENT),
                ("by hand, on a stranger", f"{LISTED}: all are registered.", by_hand("t", [1, 9]), ASSIGNMENT),
                ("by hand, unequally many", f"{LISTED}: equally many.", by_hand("t", [1, 2], [1]), ASSIGNMENT),
                ("by hand, on fenced ones only", f"{ONE}: somebody has to lead.", by_hand("t", [4]), ASSIGNMENT),
                ("by hand, not from 0", f"{ONE}: from 0 without a gap.", numbered("t", {1: [1]}), ASSIGNMENT),
                (
                    "by hand, a partition twice",
                    f"{ONE}: each partition once.",
                    Topic("t", -1, -1, (Assignment(0, (1,)), Assignment(0, (2,)))),
                    ASSIGNMENT,
                ),
            )
        ),
        Row(
            case="by hand, on a broker whose log directories are all cordoned",
            rule=f"{LISTED}: every broker has room (KIP-1066).",
            given=third_cordoned,
            request=asked(by_hand("t", [1, 3])),
            answer=told(refused("t", ASSIGNMENT)),
        ),
        Row(
            case="against a policy",
            rule="ReplicationControlManager.maybeCheckCreateTopicPolicy: its error is the topic's (KIP-108).",
            given=no_cats,
            request=asked(by_hand("cats", [1]), by_hand("t", [1]), by_count("bobcats")),
            beside={"bobcats": ((1,),)},
            records=one("t"),
            answer=told(refused("cats", POLICY), created("t", 1, 1), refused("bobcats", POLICY)),
        ),
        Row(
            case="against a policy, and not possible",
            rule=f"{ONE}: a policy sees what could be.",
            given=no_cats,
            request=asked(by_hand("cats", [9])),
            answer=told(refused("cats", ASSIGNMENT)),
        ),
        Row(
            case="configs against a policy",
            rule=f"{POLICED}: what is set is asked of alter.config.policy as well, and of nothing else (KIP-133).",
            given=no_preallocation,
            request=asked(
                by_hand("t", [1], segment_ms="9", preallocate="true"),
                by_hand("u", [1], segment_ms="9"),
                by_hand("v", [1]),
            ),
            records=(
                TopicRecord("u", FIRST),
                ConfigRecord(TOPIC, "u", "segment.ms", "9"),
                partition(0, 1),
                *one("v", SECOND),
            ),
            answer=told(
                refused("t", POLICY),
                created("u", 1, 1, is_set("segment.ms", "9")),
                created("v", 1, 1, topic_id=SECOND),
            ),
        ),
        Row(
            case="configs against a policy, only to be validated",
            rule=f"{POLICED}: asked all the same.",
            given=no_preallocation,
            request=asked(by_hand("t", [1], preallocate="true"), validate_only=True),
            answer=told(refused("t", POLICY)),
        ),
        *(
            Row(
                case=f"configs against a policy, and {what}",
                rule=rule,
                given=no_preallocation,
                request=asked(topic),
                beside={"t": ((1,),)},
                answer=told(refused(topic.name, code)),
            )
            for what, rule, topic, code in (
                ("it would be placed", POLICED, by_count("t", preallocate="true"), POLICY),
                ("a bad count", f"{ALL}: configs first.", by_count("t", 0, preallocate="true"), POLICY),
                ("a bad assignment", f"{ALL}: configs first.", by_hand("t", [9], preallocate="true"), POLICY),
                ("a name that is taken", f"{ALL}: names first.", by_hand("a.b", [1], preallocate="true"), EXISTS),
                (
                    "out of range",
                    f"{POLICED}: a policy sees what could be.",
                    by_hand("t", [1], preallocate="true", segment_ms="0"),
                    CONFIG,
                ),
            )
        ),
        Row(
            case="too many at once",
            rule=TOTAL,
            request=asked(by_count("x", 9_999), by_hand("y", [1], [1])),
            answer=POLICY,
        ),
        Row(
            case="too many at once, and none of them possible",
            rule=f"{TOTAL} Before all else, and a negative count makes no room.",
            request=asked(by_count("..", -20_000), by_count("a.b", 10_001)),
            answer=POLICY,
        ),
        Row(
            case="too many at once, by default",
            rule=TOTAL,
            given=very_many_by_default,
            request=asked(by_count("x", -1), by_count("y", -1)),
            answer=POLICY,
        ),
    ),
)
