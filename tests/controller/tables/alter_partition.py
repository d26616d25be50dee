"""AlterPartition (56)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kraft import Uuid
from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.nouns import UNASSIGNED_DIRECTORY
from quorate.records import FeatureLevelRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

Topic = AlterPartitionRequest.TopicData
Asked = Topic.PartitionData
Member = Asked.BrokerState
Answer = AlterPartitionResponse.TopicData
Told = Answer.PartitionData
T, NOBODY = uuid(1000), uuid(99)
ANY, LATER, EARLIER = -1, 99, -1


def third_back(level: int = 25, *, elr: int = 0) -> Cluster:
    """Brokers 1 to 4; topic t: one partition on 1, 2, 3, led by 1; 3 was away, and is not in sync."""
    cluster = Cluster(level).brokers(1, 2, 3, 4)
    cluster.apply([FeatureLevelRecord(ELR_VERSION, elr)])
    cluster.topic("t", [1, 2, 3], min_insync_replicas="2")
    cluster.change(3, ControlState.FENCED)
    cluster.change(3, ControlState.UNFENCED)
    return cluster


def before_3_6() -> Cluster:
    """The same at 3.5-IV2, where 3's leaving has raised the leader epoch to 1."""
    return third_back(11)


def with_elr() -> Cluster:
    """The same with ELR, and `min.insync.replicas` of 2."""
    return third_back(elr=1)


def with_one_eligible() -> Cluster:
    """The same with ELR, and `min.insync.replicas` of 2; 1 is in sync alone, 2 is eligible."""
    cluster = third_back(elr=1)
    cluster.alter_isr("t", (1,))
    return cluster


def third_fenced() -> Cluster:
    """The same, 3 is fenced."""
    cluster = third_back()
    cluster.change(3, ControlState.FENCED)
    return cluster


def third_leaves() -> Cluster:
    """The same, 3 is in controlled shutdown."""
    cluster = third_back()
    cluster.topic("u", [3])
    cluster.change(3, ControlState.CONTROLLED_SHUTDOWN)
    return cluster


def third_unregistered() -> Cluster:
    """The same, 3 is not registered any more."""
    cluster = third_back()
    cluster.write(unregister_broker(UnregisterBrokerRequest(3), settings=cluster.settings))
    return cluster


def first_recovers() -> Cluster:
    """The same, 1 was elected uncleanly, is in sync alone and recovers."""
    return changed(PartitionChangeRecord(0, T, isr=(1,), leader=1, leader_recovery_state=RECOVERING))


def fourth_comes() -> Cluster:
    """The same, t is on its way to 1, 2, 3, 4, and 3 is in sync."""
    return moving(replicas=(1, 2, 3, 4), isr=(1, 2, 3), adding_replicas=(4,))


def fourth_for_the_first() -> Cluster:
    """The same, t is on its way to 2, 3, 4."""
    return moving(replicas=(2, 3, 4, 1), adding_replicas=(4,), removing_replicas=(1,))


def moving(*, replicas: Sequence[int], **others: Any) -> Cluster:
    directories = tuple(UNASSIGNED_DIRECTORY if each == 4 else directory(each) for each in replicas)
    return changed(PartitionChangeRecord(0, T, replicas=tuple(replicas), directories=directories, **others))


def changed(record: PartitionChangeRecord) -> Cluster:
    cluster = third_back()
    cluster.apply([record])
    return cluster


def two_topics() -> Cluster:
    """The same, and topic u: one partition on 1, 2."""
    cluster = third_back()
    cluster.topic("u", [1, 2])
    return cluster


EPOCHS = {broker.id: broker.epoch for broker in third_back().state.brokers}


def isr(*members: int, leader: int = 0, partition: int = 1, stale: Sequence[int] = (), **others: Any) -> Asked:
    """Of t-0, and the leader and partition epoch. The stale ones are in a broker epoch of before."""
    asked = Asked(
        leader_epoch=leader,
        new_isr_with_epochs=tuple(Member(each, 0 if each in stale else EPOCHS[each]) for each in members),
        leader_recovery_state=RECOVERED,
        partition_epoch=partition,
    )
    return msgspec.structs.replace(asked, **others)


def asked(*partitions: Asked, topic_id: Uuid = T, by: int = 1, epoch: int | None = None) -> AlterPartitionRequest:
    """By a broker, in its epoch if not said otherwise."""
    return AlterPartitionRequest(by, EPOCHS[by] if epoch is None else epoch, (Topic(topic_id, partitions),))


def told(*partitions: Told, topic_id: Uuid = T) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=(Answer(topic_id, partitions),))


def now(*members: int, leader: int = 0, partition: int = 2, state: int = RECOVERED) -> Told:
    """Of t-0, led by 1: the ISR, the leader and partition epoch."""
    return Told(0, int(NONE), 1, leader, members, state, partition)


def refused(code: ErrorCode, partition_id: int = 0) -> Told:
    return Told(partition_id, int(code))


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, T, **fields)


def command(cluster: Cluster, request: AlterPartitionRequest) -> Command[Any]:
    return alter_partition(request, settings=cluster.settings)


NONE, INVALID, INELIGIBLE = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INELIGIBLE_REPLICA
NOT_CONTROLLER, FENCED = ErrorCode.NOT_CONTROLLER, ErrorCode.FENCED_LEADER_EPOCH
UNKNOWN, VERSION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_UPDATE_VERSION
ALTER = "ReplicationControlManager.alterPartition"
DATA = "ReplicationControlManager.validateAlterPartitionData"
ORDER = f"{DATA}: in this order."
ISR = "Replicas.validateIsr"
FOR_ISR = "ReplicationControlManager.ineligibleReplicasForIsr"
EPOCH = "ClusterControlManager.checkBrokerEpoch"
STATE = f"{DATA}: a leader that recovers is alone, and does not fall back (KIP-704)."
ALL_WRONG: dict[str, Any] = {"new_isr_with_epochs": (Member(4, 0), Member(1, 0)), "leader_recovery_state": RECOVERING}
"""One that is no replica, in a wrong epoch, and a leader that has recovered and falls back."""

TABLE = Table(
    api="AlterPartition",
    kafka="ReplicationControlManager.alterPartition (KIP-497, KIP-841, KIP-903)",
    command=command,
    given=third_back,
    rows=(
        Row(
            case="one that has caught up",
            rule="KIP-497: the partition epoch rises, the leader epoch does not.",
            request=asked(isr(1, 2, 3)),
            records=(change(isr=(1, 2, 3)),),
            answer=told(now(1, 2, 3)),
        ),
        Row(
            case="one that lags",
            rule="KAFKA-15021: from 3.6 on the leader epoch does not rise when an ISR shrinks.",
            request=asked(isr(1)),
            records=(change(isr=(1,)),),
            answer=told(now(1)),
        ),
        Row(
            case="one that lags, before 3.6",
            rule="PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded: it does then (KAFKA-15021).",
            given=before_3_6,
            request=asked(isr(1, leader=1)),
            records=(change(isr=(1,), leader=1),),
            answer=told(now(1, leader=2)),
        ),
        Row(
            case="one that has caught up, before 3.6",
            rule="PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded: never when an ISR grows.",
            given=before_3_6,
            request=asked(isr(1, 2, 3, leader=1)),
            records=(change(isr=(1, 2, 3)),),
            answer=told(now(1, 2, 3, leader=1)),
        ),
        Row(
            case="the same again",
            rule=f"{ALTER}: no change, no record, and the answer is what is.",
            request=asked(isr(1, 2)),
            answer=told(now(1, 2, partition=1)),
        ),
        Row(
            case="in another order",
            rule=f"{ALTER}: written as it was asked for.",
            request=asked(isr(3, 2, 1)),
            records=(change(isr=(3, 2, 1)),),
            answer=told(now(3, 2, 1)),
        ),
        Row(
            case="without epochs",
            rule="AlterPartitionRequest.newIsrToSimpleNewIsrWithBrokerEpochs: any will do before version 3 (KIP-903).",
            request=asked(Asked(new_isr=(1, 2, 3), partition_epoch=1)),
            records=(change(isr=(1, 2, 3)),),
            answer=told(now(1, 2, 3)),
        ),
        Row(
            case="the leader does not know an epoch",
            rule=f"{FOR_ISR}: -1 is not compared (KIP-903).",
            request=asked(isr(1, 2, new_isr_with_epochs=(Member(1, ANY), Member(3, ANY)))),
            records=(change(isr=(1, 3)),),
            answer=told(now(1, 3)),
        ),
        Row(
            case="fewer than min.insync.replicas, with ELR",
            rule="PartitionChangeBuilder.maybePopulateTargetElr: who leaves lacks nothing that is committed (KIP-966).",
            given=with_elr,
            request=asked(isr(1)),
            records=(change(isr=(1,), eligible_leader_replicas=(2,)),),
            answer=told(now(1)),
        ),
        Row(
            case="as many as min.insync.replicas, with ELR",
            rule="PartitionChangeBuilder.maybePopulateTargetElr: from then on others may lack something (KIP-966).",
            given=with_one_eligible,
            request=asked(isr(1, 3, partition=2)),
            records=(change(isr=(1, 3), eligible_leader_replicas=()),),
            answer=told(now(1, 3, partition=3)),
        ),
        Row(
            case="still recovering",
            rule=STATE,
            given=first_recovers,
            request=asked(isr(1, leader=1, partition=2, leader_recovery_state=RECOVERING)),
            answer=told(now(1, leader=1, partition=2, state=RECOVERING)),
        ),
        Row(
            case="recovered, and one comes back",
            rule="PartitionChangeBuilder.setTargetLeaderRecoveryState: from then on others may (KIP-704).",
            given=first_recovers,
            request=asked(isr(1, 2, leader=1, partition=2)),
            records=(change(isr=(1, 2), leader_recovery_state=RECOVERED),),
            answer=told(now(1, 2, leader=1, partition=3)),
        ),
        Row(
            case="recovered, and nobody comes back yet",
            rule="PartitionChangeBuilder.setTargetLeaderRecoveryState: a change like any other (KIP-704).",
            given=first_recovers,
            request=asked(isr(1, leader=1, partition=2)),
            records=(change(leader_recovery_state=RECOVERED),),
            answer=told(now(1, leader=1, partition=3)),
        ),
        Row(
            case="still recovering, with others",
            rule=STATE,
            given=first_recovers,
            request=asked(isr(1, 2, leader=1, partition=2, leader_recovery_state=RECOVERING)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="all that were to come have come",
            rule="PartitionReassignmentReplicas.maybeCompleteReassignment: the move ends with it (KIP-455).",
            given=fourth_comes,
            request=asked(isr(1, 2, 3, 4, partition=2)),
            records=(change(isr=(1, 2, 3, 4), adding_replicas=()),),
            answer=told(now(1, 2, 3, 4, partition=3)),
        ),
        Row(
            case="not all that were to come have come",
            rule="PartitionReassignmentReplicas.maybeCompleteReassignment: the move goes on (KIP-455).",
            given=fourth_comes,
            request=asked(isr(1, 2, partition=2)),
            records=(change(isr=(1, 2)),),
            answer=told(now(1, 2, partition=3)),
        ),
        Row(
            case="the move ends, and the leader was to go",
            rule=f"{ALTER}: the change is written, and the one that asked is told that another leads (KIP-455).",
            given=fourth_for_the_first,
            request=asked(isr(1, 2, 4, partition=2)),
            records=(
                change(
                    isr=(2, 4),
                    leader=2,
                    replicas=(2, 3, 4),
                    removing_replicas=(),
                    adding_replicas=(),
                    directories=(directory(2), directory(3), UNASSIGNED_DIRECTORY),
                ),
            ),
            answer=told(refused(ErrorCode.NEW_LEADER_ELECTED)),
        ),
        Row(
            case="no such topic",
            rule=f"{ALTER}: of each of its partitions.",
            request=asked(isr(1, 2), isr(1, partition_index=7), topic_id=NOBODY),
            answer=told(refused(ErrorCode.UNKNOWN_TOPIC_ID), refused(ErrorCode.UNKNOWN_TOPIC_ID, 7), topic_id=NOBODY),
        ),
        Row(
            case="no such partition",
            rule=DATA,
            request=asked(isr(1, 2, partition_index=9)),
            answer=told(refused(UNKNOWN, 9)),
        ),
        Row(
            case="a later leader epoch",
            rule=f"{DATA}: the leader has heard of a later controller than this.",
            request=asked(isr(1, 2, leader=LATER)),
            answer=told(refused(NOT_CONTROLLER)),
        ),
        Row(
            case="a later partition epoch",
            rule=f"{DATA}: the leader has heard of a later controller than this.",
            request=asked(isr(1, 2, partition=LATER)),
            answer=told(refused(NOT_CONTROLLER)),
        ),
        Row(
            case="an earlier leader epoch",
            rule=DATA,
            request=asked(isr(1, 2, leader=EARLIER)),
            answer=told(refused(FENCED)),
        ),
        Row(
            case="by one that does not lead",
            rule=DATA,
            request=asked(isr(1, 2), by=2),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="an earlier partition epoch",
            rule=f"{DATA}: it has not seen the last change.",
            request=asked(isr(1, 2, 3, partition=0)),
            answer=told(refused(VERSION)),
        ),
        Row(
            case="a member twice",
            rule=ISR,
            request=asked(isr(1, 2, 2)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="a member twice, without epochs",
            rule=ISR,
            request=asked(Asked(new_isr=(1, 2, 2), partition_epoch=1)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="a member that is no replica",
            rule=ISR,
            request=asked(isr(1, 4)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="without the leader",
            rule=f"{DATA}: the leader is always in sync.",
            request=asked(isr(2)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="nobody",
            rule=f"{DATA}: the leader is always in sync.",
            request=asked(isr()),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="no such recovery state",
            rule="LeaderRecoveryState.of: there are 0 and 1. Kafka fails the request, ours this partition.",
            request=asked(isr(1, leader_recovery_state=7)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="recovered, and falls back",
            rule=STATE,
            request=asked(isr(1, leader_recovery_state=RECOVERING)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="recovered, and falls back with others",
            rule=STATE,
            request=asked(isr(1, 2, leader_recovery_state=RECOVERING)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="a member of another broker epoch",
            rule=f"{FOR_ISR}: it is not the one that the leader has seen (KIP-903).",
            request=asked(isr(1, 2, 3, stale=[3])),
            answer=told(refused(INELIGIBLE)),
        ),
        Row(
            case="a member that is fenced",
            rule=f"{FOR_ISR}: KIP-841.",
            given=third_fenced,
            request=asked(isr(1, 2, 3)),
            answer=told(refused(INELIGIBLE)),
        ),
        Row(
            case="a member in controlled shutdown",
            rule=f"{FOR_ISR}: KIP-841.",
            given=third_leaves,
            request=asked(isr(1, 2, 3)),
            answer=told(refused(INELIGIBLE)),
        ),
        Row(
            case="a member that is not registered",
            rule=FOR_ISR,
            given=third_unregistered,
            request=asked(isr(1, 2, 3)),
            answer=told(refused(INELIGIBLE)),
        ),
        Row(
            case="first no such partition, and all that follows",
            rule=ORDER,
            request=asked(isr(partition_index=9, leader=LATER, partition=LATER, **ALL_WRONG), by=2),
            answer=told(refused(UNKNOWN, 9)),
        ),
        Row(
            case="then a later leader epoch, and all that follows",
            rule=ORDER,
            request=asked(isr(leader=LATER, partition=EARLIER, **ALL_WRONG), by=2),
            answer=told(refused(NOT_CONTROLLER)),
        ),
        Row(
            case="then a later partition epoch, and all that follows",
            rule=ORDER,
            request=asked(isr(leader=EARLIER, partition=LATER, **ALL_WRONG), by=2),
            answer=told(refused(NOT_CONTROLLER)),
        ),
        Row(
            case="then an earlier leader epoch, and all that follows",
            rule=ORDER,
            request=asked(isr(leader=EARLIER, partition=EARLIER, **ALL_WRONG), by=2),
            answer=told(refused(FENCED)),
        ),
        Row(
            case="then one that does not lead, and all that follows",
            rule=ORDER,
            request=asked(isr(partition=EARLIER, **ALL_WRONG), by=2),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="then an earlier partition epoch, and all that follows",
            rule=ORDER,
            request=asked(isr(partition=EARLIER, **ALL_WRONG)),
            answer=told(refused(VERSION)),
        ),
        Row(
            case="then the ISR, and a member of another broker epoch",
            rule=ORDER,
            request=asked(isr(**ALL_WRONG)),
            answer=told(refused(INVALID)),
        ),
        Row(
            case="one that can be, beside others that cannot",
            rule=f"{ALTER}: each succeeds or fails by itself.",
            given=two_topics,
            request=AlterPartitionRequest(
                *(1, EPOCHS[1]),
                topics=(
                    Topic(NOBODY, (isr(1),)),
                    Topic(T, (isr(1, partition_index=1), isr(1, 2, 3))),
                    Topic(uuid(1001), (isr(1, 2, partition=0), isr(1, partition=5))),
                ),
            ),
            records=(change(isr=(1, 2, 3)),),
            answer=AlterPartitionResponse(
                topics=(
                    Answer(NOBODY, (refused(ErrorCode.UNKNOWN_TOPIC_ID),)),
                    Answer(T, (refused(UNKNOWN, 1), now(1, 2, 3))),
                    Answer(uuid(1001), (now(1, 2, partition=0), refused(NOT_CONTROLLER))),
                )
            ),
        ),
        Row(
            case="by a broker of another epoch",
            rule=f"{EPOCH}: all of it.",
            request=asked(isr(1, 2), epoch=999),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
        Row(
            case="by a broker that is not registered",
            rule=f"{EPOCH}: all of it.",
            request=asked(isr(1, 2), by=8, epoch=0),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
        Row(
            case="by a broker of another epoch, of a topic that is not there",
            rule=f"{EPOCH}: before all else.",
            request=asked(isr(1, 2), topic_id=NOBODY, epoch=0),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
    ),
)
