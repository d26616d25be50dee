"""AssignReplicasToDirs (73)."""

from __future__ import annotations

from typing import Any

from kraft import Uuid
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from quorate.records import FeatureLevelRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

Directory = AssignReplicasToDirsRequest.DirectoryData
Topic = Directory.TopicData
Partition = Topic.PartitionData
Answer = AssignReplicasToDirsResponse.DirectoryData
ToldTopic = Answer.TopicData
Told = ToldTopic.PartitionData
GOOD, OTHER, BAD = uuid(901), uuid(902), uuid(903)
"""Two directories that broker 1 has, and one that it has not."""
T, U, V, NOBODY = uuid(1000), uuid(1001), uuid(1002), uuid(99)
SECOND = directory(2)


def two_directories(level: int = 25, *, elr: bool = False, **configs: str) -> Cluster:
    """Broker 1 has two log directories, 2 one. Topic t: three partitions on 1, 2, led by 1. u-0 is on 1, v-0 on 2."""
    cluster = Cluster(level, elr=elr)
    cluster.register(1, log_dirs=(GOOD, OTHER))
    cluster.unfence(1)
    cluster.brokers(2)
    cluster.topic("t", [1, 2], [1, 2], [1, 2], **configs)
    cluster.topic("u", [1])
    cluster.topic("v", [2])
    return cluster


def before_directories() -> Cluster:
    """The same at 3.7-IV1."""
    return two_directories(16)


def at_3_7_iv2() -> Cluster:
    """The same at 3.7-IV2."""
    return two_directories(17)


def with_elr() -> Cluster:
    """The same with ELR."""
    return two_directories(elr=True)


def none_are_known() -> Cluster:
    """The same at 4.0, but the brokers registered at 3.7-IV1, without log directories."""
    cluster = two_directories(16)
    cluster.apply([FeatureLevelRecord(METADATA_VERSION, 25)])
    return cluster


def t_in_good() -> Cluster:
    """The same, t-0 of broker 1 lies in its first directory."""
    return changed(directories=(GOOD, SECOND))


def second_leads() -> Cluster:
    """The same, 2 leads t-0."""
    return changed(leader=2)


def first_behind() -> Cluster:
    """The same, 2 leads t-0 and is in sync alone."""
    return changed(leader=2, isr=(2,))


def second_behind() -> Cluster:
    """The same, 1 leads t-0 and is in sync alone."""
    return changed(isr=(1,))


def second_behind_and_losses_allowed() -> Cluster:
    """The same, 1 leads t-0 and is in sync alone. The topic allows unclean elections."""
    return changed(isr=(1,), unclean_leader_election_enable="true")


def changed(unclean_leader_election_enable: str = "false", **fields: Any) -> Cluster:
    cluster = two_directories(unclean_leader_election_enable=unclean_leader_election_enable)
    cluster.apply([PartitionChangeRecord(0, T, **fields)])
    return cluster


EPOCHS = {broker.id: broker.epoch for broker in two_directories().state.brokers}
ELR_EPOCH = EPOCHS[1] + 1
"""There a record comes before."""


def lies(in_directory: Uuid, *partitions: int, topic_id: Uuid = T) -> Directory:
    return Directory(in_directory, (Topic(topic_id, tuple(map(Partition, partitions))),))


def asked(*directories: Directory, by: int = 1, epoch: int = EPOCHS[1]) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(by, epoch, directories)


def told(*directories: Answer) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(directories=directories)


def of(in_directory: Uuid, *topics: ToldTopic) -> Answer:
    return Answer(in_directory, topics)


def topic(*codes: ErrorCode, topic_id: Uuid = T) -> ToldTopic:
    """Of the partitions 0, 1, …."""
    return ToldTopic(topic_id, tuple(Told(number, int(code)) for number, code in enumerate(codes)))


def placed(first: Uuid, second: Uuid = SECOND, *, number: int = 0) -> PartitionChangeRecord:
    return PartitionChangeRecord(number, T, directories=(first, second))


def change(topic_id: Uuid = T, *, number: int = 0, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(number, topic_id, **fields)


def command(cluster: Cluster, request: AssignReplicasToDirsRequest) -> Command[Any]:
    return assign_replicas_to_dirs(request, settings=cluster.settings)


NONE, NOT_ITS = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
ASSIGN = "ReplicationControlManager.handleAssignReplicasToDirs"
LOSES = "ReplicationControlManager.generateLeaderAndIsrUpdates"
ONLINE = "BrokerRegistration.hasOnlineDir"
EPOCH = "ClusterControlManager.checkBrokerEpoch"

TABLE = Table(
    api="AssignReplicasToDirs",
    kafka="ReplicationControlManager.handleAssignReplicasToDirs (KIP-858)",
    command=command,
    given=two_directories,
    rows=(
        Row(
            case="in one of its directories",
            rule="PartitionChangeBuilder.setDirectory: those of the other replicas stay as they are (KIP-858).",
            request=asked(lies(GOOD, 0)),
            records=(placed(GOOD),),
            answer=told(of(GOOD, topic(NONE))),
        ),
        Row(
            case="at the first level with directories",
            rule="MetadataVersion.isDirectoryAssignmentSupported: from 3.7-IV2 on (KIP-858).",
            given=at_3_7_iv2,
            request=asked(lies(GOOD, 0)),
            records=(placed(GOOD),),
            answer=told(of(GOOD, topic(NONE))),
        ),
        Row(
            case="where it lay",
            rule=f"{ASSIGN}: no change, no record.",
            given=t_in_good,
            request=asked(lies(GOOD, 0)),
            answer=told(of(GOOD, topic(NONE))),
        ),
        Row(
            case="in another than before",
            rule="PartitionChangeBuilder.setDirectory: it has been moved within the broker (KIP-858).",
            given=t_in_good,
            request=asked(lies(OTHER, 0)),
            records=(placed(OTHER),),
            answer=told(of(OTHER, topic(NONE))),
        ),
        Row(
            case="several in several directories",
            rule=f"{ASSIGN}: in the order of the request.",
            request=asked(lies(OTHER, 0), lies(GOOD, 0, 1, topic_id=T)),
            records=(placed(OTHER), placed(GOOD), placed(GOOD, number=1)),
            answer=told(of(OTHER, topic(NONE)), of(GOOD, topic(NONE, NONE))),
        ),
        Row(
            case="nobody knows where",
            rule=f"{ONLINE}: an id that is reserved is no directory that could fail.",
            given=t_in_good,
            request=asked(lies(UNASSIGNED_DIRECTORY, 0)),
            records=(placed(UNASSIGNED_DIRECTORY),),
            answer=told(of(UNASSIGNED_DIRECTORY, topic(NONE))),
        ),
        Row(
            case="in one that the broker has not told of, as it has told of none",
            rule=f"{ONLINE}: all are online then.",
            given=none_are_known,
            request=asked(lies(BAD, 0)),
            records=(placed(BAD, MIGRATING_DIRECTORY),),
            answer=told(of(BAD, topic(NONE))),
        ),
        Row(
            case="in one that is offline, and it led",
            rule=f"{LOSES}: it leaves the ISR, and another leads.",
            request=asked(lies(BAD, 0)),
            records=(placed(BAD), change(isr=(2,), leader=2)),
            answer=told(of(BAD, topic(NONE))),
        ),
        Row(
            case="several in directories that are offline",
            rule=f"{ASSIGN}: first where all of them lie, then who leaves which ISR; each once.",
            request=asked(lies(BAD, 0, 1), lies(LOST_DIRECTORY, 0)),
            records=(
                placed(BAD),
                placed(BAD, number=1),
                placed(LOST_DIRECTORY),
                change(isr=(2,), leader=2),
                change(number=1, isr=(2,), leader=2),
            ),
            answer=told(of(BAD, topic(NONE, NONE)), of(LOST_DIRECTORY, topic(NONE))),
        ),
        Row(
            case="in one that is lost",
            rule=f"{ONLINE}: the id that stands for a lost directory is offline (DirectoryId).",
            request=asked(lies(LOST_DIRECTORY, 0)),
            records=(placed(LOST_DIRECTORY), change(isr=(2,), leader=2)),
            answer=told(of(LOST_DIRECTORY, topic(NONE))),
        ),
        Row(
            case="in one that is offline, and it followed",
            rule=f"{LOSES}: it leaves the ISR.",
            given=second_leads,
            request=asked(lies(BAD, 0)),
            records=(placed(BAD), change(isr=(2,))),
            answer=told(of(BAD, topic(NONE))),
        ),
        Row(
            case="in one that is offline, and it was not in sync",
            rule=f"{LOSES}: nothing to leave.",
            given=first_behind,
            request=asked(lies(BAD, 0)),
            records=(placed(BAD),),
            answer=told(of(BAD, topic(NONE))),
        ),
        Row(
            case="in one that is offline, and nobody else is in sync",
            rule=f"{LOSES}: nobody leads; without ELR the last one in sync is remembered in the ISR.",
            given=second_behind,
            request=asked(lies(BAD, 0)),
            records=(placed(BAD), change(leader=NO_LEADER)),
            answer=told(of(BAD, topic(NONE))),
        ),
        Row(
            case="in one that is offline, and nobody else is in sync, with ELR",
            rule="PartitionChangeBuilder.maybePopulateTargetElr: it is eligible, and the last known leader (KIP-966).",
            given=with_elr,
            request=asked(lies(BAD, 0, topic_id=U), epoch=ELR_EPOCH),
            records=(
                change(U, directories=(BAD,)),
                change(U, isr=(), leader=NO_LEADER, eligible_leader_replicas=(1,), last_known_elr=(1,)),
            ),
            answer=told(of(BAD, topic(NONE, topic_id=U))),
        ),
        Row(
            case="in one that is offline, nobody else is in sync, and losses are allowed",
            rule=f"{LOSES}: another leads uncleanly, and has to recover (KIP-704).",
            given=second_behind_and_losses_allowed,
            request=asked(lies(BAD, 0)),
            records=(placed(BAD), change(isr=(2,), leader=2, leader_recovery_state=RECOVERING)),
            answer=told(of(BAD, topic(NONE))),
        ),
        Row(
            case="no such topic",
            rule=f"{ASSIGN}: of each of its partitions.",
            request=asked(lies(GOOD, 0, 1, topic_id=NOBODY)),
            answer=told(of(GOOD, topic(UNKNOWN_ID, UNKNOWN_ID, topic_id=NOBODY))),
        ),
        Row(
            case="no such partition",
            rule=ASSIGN,
            request=asked(lies(GOOD, 9)),
            answer=told(of(GOOD, ToldTopic(T, (Told(9, int(UNKNOWN)),)))),
        ),
        Row(
            case="one of which it has no replica",
            rule=f"{ASSIGN}: it may tell of its own only.",
            request=asked(lies(GOOD, 0, topic_id=V)),
            answer=told(of(GOOD, topic(NOT_ITS, topic_id=V))),
        ),
        Row(
            case="one of which it has no replica, in one that is offline",
            rule=f"{ASSIGN}: then nobody leaves an ISR either.",
            request=asked(lies(BAD, 0, topic_id=V)),
            answer=told(of(BAD, topic(NOT_ITS, topic_id=V))),
        ),
        Row(
            case="one that can be, beside others that cannot",
            rule=f"{ASSIGN}: each succeeds or fails by itself.",
            request=asked(
                Directory(
                    GOOD,
                    (
                        Topic(NOBODY, (Partition(0),)),
                        Topic(V, (Partition(0),)),
                        Topic(U, (Partition(0), Partition(1))),
                    ),
                )
            ),
            records=(change(U, directories=(GOOD,)),),
            answer=told(
                of(
                    GOOD,
                    topic(UNKNOWN_ID, topic_id=NOBODY),
                    topic(NOT_ITS, topic_id=V),
                    topic(NONE, UNKNOWN, topic_id=U),
                )
            ),
        ),
        Row(
            case="by a broker of another epoch",
            rule=f"{EPOCH}: all of it.",
            request=asked(lies(GOOD, 0), epoch=999),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
        Row(
            case="by a broker that is not registered",
            rule=f"{EPOCH}: all of it.",
            request=asked(lies(GOOD, 0), by=8),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
        Row(
            case="before 3.7-IV2",
            rule="MetadataVersion.isDirectoryAssignmentSupported: from 3.7-IV2 on (KIP-858).",
            given=before_directories,
            request=asked(lies(GOOD, 0)),
            answer=ErrorCode.UNSUPPORTED_VERSION,
        ),
        Row(
            case="before 3.7-IV2, by a broker of another epoch",
            rule=f"{ASSIGN}: the level is looked at first.",
            given=before_directories,
            request=asked(lies(GOOD, 0), epoch=999),
            answer=ErrorCode.UNSUPPORTED_VERSION,
        ),
        Row(
            case="nothing",
            rule=f"{ASSIGN}: nothing to be told.",
            request=asked(),
            answer=told(),
        ),
    ),
)
