"""AlterPartitionReassignments (45)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import RECOVERING
from quorate.nouns import UNASSIGNED_DIRECTORY
from quorate.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
Asked = Topic.ReassignablePartition
Answer = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
Told = Answer.ReassignablePartitionResponse
T = uuid(1000)


def six_brokers(level: int = 25, *, elr: bool = False, **configs: str) -> Cluster:
    """Brokers 1 to 6; topic t: one partition on 1, 2, 3."""
    cluster = Cluster(level, elr=elr).brokers(1, 2, 3, 4, 5, 6)
    cluster.topic("t", [1, 2, 3], **configs)
    return cluster


def before_directories() -> Cluster:
    """The same at 3.7-IV1."""
    return six_brokers(16)


def third_behind() -> Cluster:
    """The same, 3 is not in sync."""
    cluster = six_brokers()
    cluster.alter_isr("t", (1, 2))
    return cluster


def fourth_fenced() -> Cluster:
    """The same, broker 4 is fenced."""
    cluster = six_brokers()
    cluster.change(4, ControlState.FENCED)
    return cluster


def seventh_with_two_directories() -> Cluster:
    """The same, and broker 7, which has two log directories."""
    cluster = six_brokers()
    cluster.register(7, log_dirs=(uuid(71), uuid(72)))
    cluster.unfence(7)
    return cluster


def fourth_cordoned() -> Cluster:
    """The same at 4.4, and all log directories of broker 4 are cordoned."""
    cluster = six_brokers(33)
    fourth = cluster.state.brokers.get(4)
    assert fourth is not None
    cluster.apply([BrokerRegistrationChangeRecord(4, fourth.epoch, cordoned_log_dirs=fourth.log_dirs)])
    return cluster


def moving(*target: int, in_sync: Sequence[int] = (), unclean: str = "false") -> Cluster:
    """On its way, and these are in sync."""
    cluster = six_brokers(unclean_leader_election_enable=unclean)
    cluster.write(command(cluster, asked(to(*target))))
    if in_sync:
        cluster.apply([PartitionChangeRecord(0, T, isr=tuple(in_sync), leader=in_sync[0])])
    return cluster


def all_change() -> Cluster:
    """The same, on its way to 4, 5, 6; 4 is in sync, and 1, 2, 3."""
    return moving(4, 5, 6, in_sync=(1, 2, 3, 4))


def led_by_the_fourth() -> Cluster:
    """The same, on its way to 4, 5, 6; 4 leads, and 2 is in sync."""
    return moving(4, 5, 6, in_sync=(4, 2))


def led_by_the_fourth_of_two() -> Cluster:
    """The same with min.insync.replicas 2."""
    cluster = six_brokers(min_insync_replicas="2")
    cluster.write(command(cluster, asked(to(4, 5, 6))))
    cluster.apply([PartitionChangeRecord(0, T, isr=(4, 2), leader=4)])
    return cluster


def only_the_fourth() -> Cluster:
    """The same, on its way to 4, 5, 6; only 4 is in sync."""
    return moving(4, 5, 6, in_sync=(4,))


def only_the_fourth_and_losses_allowed() -> Cluster:
    """The same, on its way to 4, 5, 6; only 4 is in sync. The topic allows unclean elections."""
    return moving(4, 5, 6, in_sync=(4,), unclean="true")


def one_changes() -> Cluster:
    """The same, on its way to 1, 2, 4."""
    return moving(1, 2, 4)


def one_comes() -> Cluster:
    """The same, on its way to 1, 2, 3, 4."""
    return moving(1, 2, 3, 4)


def one_goes() -> Cluster:
    """The same, 3 is not in sync; on its way to 1, 3."""
    cluster = third_behind()
    cluster.write(command(cluster, asked(to(1, 3))))
    return cluster


def all_are_to_come() -> Cluster:
    """The same, 1, 2 and 3 are there and count as to come, as no controller writes it."""
    cluster = six_brokers()
    cluster.apply([PartitionChangeRecord(0, T, adding_replicas=(1, 2, 3))])
    return cluster


def to(*replicas: int, partition: int = 0) -> Asked:
    return Asked(partition, replicas)


def back(partition: int = 0) -> Asked:
    return Asked(partition, None)


def asked(*partitions: Asked, name: str = "t", may_change: bool = True) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change, topics=(Topic(name, partitions),)
    )


def told(*codes: ErrorCode, name: str = "t", may_change: bool = True) -> AlterPartitionReassignmentsResponse:
    """Of the partitions 0, 1, …."""
    partitions = tuple(Told(number, int(code), None) for number, code in enumerate(codes))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change, error_message=None, responses=(Answer(name, partitions),)
    )


def changed(*replicas: int, **others: Any) -> PartitionChangeRecord:
    """Of t-0: the replicas and where they lie."""
    return PartitionChangeRecord(
        0, T, **{"replicas": replicas, "directories": tuple(map(directory, replicas)), **others}
    )


def command(cluster: Cluster, request: AlterPartitionReassignmentsRequest) -> Command[Any]:
    return alter_partition_reassignments(request, settings=cluster.settings)


NONE, UNKNOWN, BAD = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT
FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
ALTER = "ReplicationControlManager.alterPartitionReassignment"
CHANGE = "ReplicationControlManager.changePartitionReassignment"
CANCEL = "ReplicationControlManager.cancelPartitionReassignment"
UNCHANGED = "ReplicationControlManager.validatePartitionReplicationFactorUnchanged (KIP-860)"
VALID = "ReplicationControlManager.validateManualPartitionAssignment"
COMPLETE = "PartitionReassignmentReplicas.maybeCompleteReassignment"
BUMP = "PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded"

TABLE = Table(
    api="AlterPartitionReassignments",
    kafka="ReplicationControlManager.alterPartitionReassignments (KIP-455, KIP-860)",
    command=command,
    given=six_brokers,
    rows=(
        Row(
            case="to other brokers",
            rule="KIP-455: the new replicas first, after them those that go, until the new ones are in sync.",
            request=asked(to(6, 4, 5)),
            records=(changed(6, 4, 5, 1, 2, 3, adding_replicas=(4, 5, 6), removing_replicas=(1, 2, 3)),),
            answer=told(NONE),
        ),
        Row(
            case="to one more",
            rule="PartitionReassignmentReplicas.adding: those of the target that are not replicas yet.",
            request=asked(to(4, 1, 2, 3)),
            records=(changed(4, 1, 2, 3, adding_replicas=(4,)),),
            answer=told(NONE),
        ),
        Row(
            case="to fewer",
            rule=f"{COMPLETE}: those that stay are in sync, so it ends at once. {BUMP}: the leader epoch rises.",
            request=asked(to(1, 2)),
            records=(changed(1, 2, isr=(1, 2), leader=1),),
            answer=told(NONE),
        ),
        Row(
            case="to fewer, without the leader",
            rule="PartitionChangeBuilder.tryElection: of those that stay the first that is in sync leads.",
            request=asked(to(3, 2)),
            records=(changed(3, 2, isr=(2, 3), leader=3),),
            answer=told(NONE),
        ),
        Row(
            case="to fewer, of which one is not in sync",
            rule=f"{COMPLETE}: where more go than come, all that stay have to be in sync.",
            given=third_behind,
            request=asked(to(1, 3)),
            records=(changed(1, 3, 2, removing_replicas=(2,)),),
            answer=told(NONE),
        ),
        Row(
            case="in another order",
            rule=f"{CHANGE}: nobody comes or goes. It is led as before; the preferred leader is another.",
            request=asked(to(3, 2, 1)),
            records=(changed(3, 2, 1),),
            answer=told(NONE),
        ),
        Row(
            case="to where it is",
            rule=f"{CHANGE}: no change, no record.",
            request=asked(to(1, 2, 3)),
            answer=told(NONE),
        ),
        Row(
            case="to where it is on its way",
            rule=f"{CHANGE}: no change, no record.",
            given=all_change,
            request=asked(to(4, 5, 6)),
            answer=told(NONE),
        ),
        Row(
            case="to another goal on the way",
            rule="KIP-455: the new goal counts; who was to come goes.",
            given=one_changes,
            request=asked(to(1, 2, 5)),
            records=(changed(1, 2, 5, 3, 4, adding_replicas=(5,), removing_replicas=(3, 4)),),
            answer=told(NONE),
        ),
        Row(
            case="to where it came from",
            rule="KIP-455: the new goal counts. In Kafka who was to come stays among the coming; in ours it only goes.",
            given=one_comes,
            request=asked(to(1, 2, 3)),
            records=(changed(1, 2, 3, adding_replicas=(), leader=1),),
            answer=told(NONE),
        ),
        Row(
            case="to a broker that is fenced",
            rule=f"{VALID}: it has to be registered, not to be there. The move waits for it.",
            given=fourth_fenced,
            request=asked(to(4, 2, 3)),
            records=(changed(4, 2, 3, 1, adding_replicas=(4,), removing_replicas=(1,)),),
            answer=told(NONE),
        ),
        Row(
            case="to a broker with two log directories",
            rule="ClusterControlManager.defaultDir: nobody knows yet in which of them the replica will lie (KIP-858).",
            given=seventh_with_two_directories,
            request=asked(to(1, 2, 7)),
            records=(
                changed(
                    *(1, 2, 7, 3),
                    adding_replicas=(7,),
                    removing_replicas=(3,),
                    directories=(directory(1), directory(2), UNASSIGNED_DIRECTORY, directory(3)),
                ),
            ),
            answer=told(NONE),
        ),
        Row(
            case="before 3.7-IV2",
            rule="PartitionChangeBuilder.setAssignmentChanges: no directories are written (KIP-858).",
            given=before_directories,
            request=asked(to(1, 2, 4)),
            records=(changed(1, 2, 4, 3, adding_replicas=(4,), removing_replicas=(3,), directories=None),),
            answer=told(NONE),
        ),
        Row(
            case="called off",
            rule=f"PartitionReassignmentRevert.replicas: back to those that were not to come. {BUMP}.",
            given=all_change,
            request=asked(back()),
            records=(changed(1, 2, 3, isr=(1, 2, 3), leader=1, adding_replicas=(), removing_replicas=()),),
            answer=told(NONE),
        ),
        Row(
            case="called off, and a new replica leads",
            rule="PartitionReassignmentRevert.isr: without those that were to come; one of the others leads.",
            given=led_by_the_fourth,
            request=asked(back()),
            records=(changed(1, 2, 3, isr=(2,), leader=2, adding_replicas=(), removing_replicas=()),),
            answer=told(NONE),
        ),
        Row(
            case="called off, and too few are in sync",
            rule="KIP-966: min.insync.replicas have what is acknowledged, and go on to have it. Kafka's does not look.",
            given=led_by_the_fourth_of_two,
            request=asked(back()),
            answer=told(BAD),
        ),
        Row(
            case="called off, though the factor must not change",
            rule=f"{ALTER}: whoever calls off goes back to the factor of before; it is not looked at (KIP-860).",
            given=one_comes,
            request=asked(back(), may_change=False),
            records=(changed(1, 2, 3, leader=1, adding_replicas=()),),
            answer=told(NONE, may_change=False),
        ),
        Row(
            case="called off, and only new replicas are in sync",
            rule=f"{CANCEL}: it would take an unclean election, which the topic does not allow.",
            given=only_the_fourth,
            request=asked(back()),
            answer=told(BAD),
        ),
        Row(
            case="called off, only new replicas are in sync, and losses are allowed",
            rule="PartitionReassignmentRevert.unclean: the first replica. In Kafka it lacks nothing; ours recovers.",
            given=only_the_fourth_and_losses_allowed,
            request=asked(back()),
            records=(
                changed(
                    *(1, 2, 3),
                    isr=(1,),
                    leader=1,
                    leader_recovery_state=RECOVERING,
                    adding_replicas=(),
                    removing_replicas=(),
                ),
            ),
            answer=told(NONE),
        ),
        Row(
            case="called off, and nobody would be left",
            rule="PartitionReassignmentRevert.replicas: none are left when all are to come.",
            given=all_are_to_come,
            request=asked(back()),
            answer=told(BAD),
        ),
        Row(
            case="called off, and nothing moves",
            rule=CANCEL,
            request=asked(back()),
            answer=told(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ),
        Row(
            case="no such topic",
            rule=ALTER,
            request=asked(to(1), name="nobody"),
            answer=told(UNKNOWN, name="nobody"),
        ),
        Row(
            case="no such topic, and to nobody",
            rule=f"{ALTER}: the topic and its partition are looked up first.",
            request=asked(to(), back(1), name="nobody"),
            answer=told(UNKNOWN, UNKNOWN, name="nobody"),
        ),
        Row(
            case="to nobody",
            rule=f"{VALID}: at least one replica.",
            request=asked(to()),
            answer=told(BAD),
        ),
        Row(
            case="a broker twice",
            rule=f"{VALID}: no broker twice.",
            request=asked(to(4, 4)),
            answer=told(BAD),
        ),
        Row(
            case="a broker that is not registered",
            rule=f"{VALID}: every broker is registered.",
            request=asked(to(4, 9)),
            answer=told(BAD),
        ),
        Row(
            case="a broker whose log directories are all cordoned",
            rule=f"{VALID}: every broker has room (KIP-1066).",
            given=fourth_cordoned,
            request=asked(to(4, 2, 3)),
            answer=told(BAD),
        ),
        Row(
            case="another factor where it must not change",
            rule=f"{UNCHANGED}: as many as there are.",
            request=asked(to(1, 2), may_change=False),
            answer=told(FACTOR, may_change=False),
        ),
        Row(
            case="the same factor where it must not change",
            rule=f"{UNCHANGED}: as many as there are.",
            request=asked(to(4, 2, 3), may_change=False),
            records=(changed(4, 2, 3, 1, adding_replicas=(4,), removing_replicas=(1,)),),
            answer=told(NONE, may_change=False),
        ),
        Row(
            case="the same factor on the way, where it must not change",
            rule=f"{UNCHANGED}: those that come count, those that go do not.",
            given=one_changes,
            request=asked(to(5, 2, 3), may_change=False),
            records=(changed(5, 2, 3, 1, 4, adding_replicas=(5,), removing_replicas=(1, 4)),),
            answer=told(NONE, may_change=False),
        ),
        Row(
            case="as many as it is on its way to, where the factor must not change",
            rule=f"{UNCHANGED}: those that come count.",
            given=one_comes,
            request=asked(to(1, 2, 3, 5), may_change=False),
            records=(changed(1, 2, 3, 5, 4, adding_replicas=(5,), removing_replicas=(4,)),),
            answer=told(NONE, may_change=False),
        ),
        Row(
            case="as many as it was before it was moved, where the factor must not change",
            rule=f"{UNCHANGED}: those that come count.",
            given=one_comes,
            request=asked(to(1, 2, 3), may_change=False),
            answer=told(FACTOR, may_change=False),
        ),
        Row(
            case="fewer than it was before it was moved, where the factor must not change",
            rule=f"{UNCHANGED}: those that go do not count.",
            given=one_goes,
            request=asked(to(1, 4), may_change=False),
            records=(changed(1, 4, 2, 3, adding_replicas=(4,), removing_replicas=(2, 3)),),
            answer=told(NONE, may_change=False),
        ),
        Row(
            case="another factor on the way",
            rule=f"{ALTER}: by default it may change (KIP-860).",
            given=one_changes,
            request=asked(to(5, 2)),
            records=(changed(5, 2, 1, 3, 4, adding_replicas=(5,), removing_replicas=(1, 3, 4)),),
            answer=told(NONE),
        ),
        Row(
            case="another factor, and a broker that is not registered",
            rule=f"{CHANGE}: the assignment is looked at before the factor.",
            request=asked(to(9), may_change=False),
            answer=told(BAD, may_change=False),
        ),
        Row(
            case="one that can be, beside one that cannot",
            rule="ReplicationControlManager.alterPartitionReassignments: each succeeds or fails by itself.",
            request=asked(to(3, 2, 1), to(3, 2, 1, partition=1)),
            records=(changed(3, 2, 1),),
            answer=told(NONE, UNKNOWN),
        ),
    ),
)
