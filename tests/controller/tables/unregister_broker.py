"""UnregisterBroker (64)."""

from __future__ import annotations

from typing import Any

from kraft.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.records import PartitionChangeRecord, UnregisterBrokerRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

T, ALONE = uuid(1000), uuid(1001)
FIRST, THIRD = 1, 5
"""The broker epochs of 1 and 3, where three brokers have registered one after the other."""


def three_brokers(level: int = 25) -> Cluster:
    """Brokers 1, 2, 3; topic t: one partition on 1, 2, one on 2, 1."""
    cluster = Cluster(level).brokers(1, 2, 3)
    cluster.topic("t", [1, 2], [2, 1])
    return cluster


def oldest() -> Cluster:
    """The same at metadata.version 3.3-IV3."""
    return three_brokers(7)


def first_fenced() -> Cluster:
    """The same at 4.0-IV3, broker 1 is fenced."""
    cluster = three_brokers()
    cluster.change(1, ControlState.FENCED)
    return cluster


def first_leaving() -> Cluster:
    """The same, broker 1 is in controlled shutdown."""
    cluster = three_brokers()
    cluster.change(1, ControlState.CONTROLLED_SHUTDOWN)
    return cluster


def first_gone() -> Cluster:
    """The same, broker 1 is unregistered."""
    cluster = three_brokers()
    cluster.write(unregister_broker(UnregisterBrokerRequest(1), settings=cluster.settings))
    return cluster


def first_alone() -> Cluster:
    """The same, and topic alone: one partition on 1, 2, of which 1 is in the ISR."""
    cluster = three_brokers()
    cluster.topic("alone", [1, 2])
    cluster.alter_isr("alone", (1,))
    return cluster


def first_alone_and_fenced() -> Cluster:
    """The same, broker 1 is fenced, and nobody leads topic alone."""
    cluster = first_alone()
    cluster.change(1, ControlState.FENCED)
    return cluster


def uncleanly() -> Cluster:
    """Brokers 1, 2, 3; topic t: one partition on 1, 2, of which 1 is in the ISR; unclean elections are allowed."""
    cluster = Cluster(25).brokers(1, 2, 3)
    cluster.topic("t", [1, 2], unclean_leader_election_enable="true")
    cluster.alter_isr("t", (1,))
    return cluster


def moving() -> Cluster:
    """Brokers 1, 2, 3; topic t: one partition on 3, 1, 2, from which 1 and 2 are to go, as soon as 3 is in sync."""
    cluster = Cluster(25).brokers(1, 2, 3)
    cluster.topic("t", [1, 2])
    moved: dict[str, Any] = {"replicas": (3, 1, 2), "directories": tuple(map(directory, (3, 1, 2)))}
    cluster.apply([PartitionChangeRecord(0, T, adding_replicas=(3,), removing_replicas=(1, 2), **moved)])
    return cluster


def with_elr() -> Cluster:
    """Brokers 1 (epoch 2), 2, 3; ELR is on; topic t: one partition on 1, 2, of which two have to be in sync."""
    cluster = Cluster(25, elr=True).brokers(1, 2, 3)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    return cluster


def eligible() -> Cluster:
    """The same, broker 1 is fenced: 2 leads, and 1 is eligible."""
    cluster = with_elr()
    cluster.change(1, ControlState.FENCED)
    return cluster


def asked(broker_id: int) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id)


def command(cluster: Cluster, request: UnregisterBrokerRequest) -> Command[Any]:
    return unregister_broker(request, settings=cluster.settings)


DONE = UnregisterBrokerResponse(error_message="")
OUT = "ReplicationControlManager.handleBrokerUnregistered"
ISRS = f"{OUT}: out of every ISR, and struck off then"
LAST = "PartitionChangeBuilder.tryElection: without ELR the last one stays in the ISR, and nobody leads."

TABLE = Table(
    api="UnregisterBroker",
    kafka="ReplicationControlManager.unregisterBroker (KIP-631)",
    command=command,
    given=three_brokers,
    rows=(
        Row(
            case="one without replicas",
            rule=f"{OUT}: the record names its epoch.",
            request=asked(3),
            records=(UnregisterBrokerRecord(3, THIRD),),
            answer=DONE,
        ),
        Row(
            case="one that leads and follows",
            rule=f"{ISRS}; where it follows, the leader and its epoch stay (KAFKA-15021).",
            request=asked(1),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,)),
                UnregisterBrokerRecord(1, FIRST),
            ),
            answer=DONE,
        ),
        Row(
            case="one that leads and follows, at the oldest level",
            rule="PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded: below 3.6-IV0 (KAFKA-15021).",
            given=oldest,
            request=asked(1),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,), leader=2),
                UnregisterBrokerRecord(1, FIRST),
            ),
            answer=DONE,
        ),
        Row(
            case="one that is fenced",
            rule=f"{OUT}: it is in no ISR any more.",
            given=first_fenced,
            request=asked(1),
            records=(UnregisterBrokerRecord(1, FIRST),),
            answer=DONE,
        ),
        Row(
            case="one in controlled shutdown",
            rule=f"{OUT}: whatever its state.",
            given=first_leaving,
            request=asked(1),
            records=(UnregisterBrokerRecord(1, FIRST),),
            answer=DONE,
        ),
        Row(
            case="the last one in sync",
            rule=LAST,
            given=first_alone,
            request=asked(1),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,)),
                PartitionChangeRecord(0, ALONE, leader=NO_LEADER),
                UnregisterBrokerRecord(1, FIRST),
            ),
            answer=DONE,
        ),
        Row(
            case="the last one in sync, which was fenced",
            rule=LAST,
            given=first_alone_and_fenced,
            request=asked(1),
            records=(UnregisterBrokerRecord(1, FIRST),),
            answer=DONE,
        ),
        Row(
            case="the last one in sync, where unclean elections are allowed",
            rule="ReplicationControlManager.generateLeaderAndIsrUpdates: uncleanly, if the topic wants it (KIP-704).",
            given=uncleanly,
            request=asked(1),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2, leader_recovery_state=RECOVERING),
                UnregisterBrokerRecord(1, FIRST),
            ),
            answer=DONE,
        ),
        Row(
            case="one that is to go from a partition",
            rule="PartitionChangeBuilder.completeReassignmentIfNeeded: not before those to come are in sync (KIP-455).",
            given=moving,
            request=asked(1),
            records=(PartitionChangeRecord(0, T, isr=(2,), leader=2), UnregisterBrokerRecord(1, FIRST)),
            answer=DONE,
        ),
        Row(
            case="one that leads, with ELR",
            rule="PartitionChangeBuilder.maybePopulateTargetElr: too few are in sync, so it is eligible (KIP-966).",
            given=with_elr,
            request=asked(1),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2, eligible_leader_replicas=(1,)),
                UnregisterBrokerRecord(1, 2),
            ),
            answer=DONE,
        ),
        Row(
            case="one in an ELR",
            rule=f"{OUT}: there it stays, until a process of its id registers that cannot say it ended well (KIP-966).",
            given=eligible,
            request=asked(1),
            records=(UnregisterBrokerRecord(1, 2),),
            answer=DONE,
        ),
        Row(
            case="one that never was",
            rule="ReplicationControlManager.unregisterBroker: BrokerIdNotRegisteredException.",
            request=asked(9),
            answer=ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        Row(
            case="one that has been struck off",
            rule="ReplicationControlManager.unregisterBroker: BrokerIdNotRegisteredException.",
            given=first_gone,
            request=asked(1),
            answer=ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
    ),
)
