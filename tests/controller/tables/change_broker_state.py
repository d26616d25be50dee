"""ChangeBrokerState: what a Kafka controller decides in BrokerHeartbeat (63)."""

from __future__ import annotations

from typing import Any

from kraft import Message, Uuid
from quorate.controller.commands.change_broker_state import BrokerStateChanged, change_broker_state
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

FENCED, UNFENCED = ControlState.FENCED, ControlState.UNFENCED
LEAVING, GONE = ControlState.CONTROLLED_SHUTDOWN, ControlState.SHUTDOWN_NOW
T, ALONE = uuid(1000), uuid(1001)
GOOD, BAD, ELSEWHERE = uuid(901), uuid(902), uuid(903)
FIRST, THIRD = 1, 5
"""The broker epochs of 1 and 3."""


class Asked(Message, frozen=True, kw_only=True):
    """What the heartbeat service proposes of a broker."""

    broker_id: int = 1
    broker_epoch: int = FIRST
    target: ControlState
    offline: tuple[Uuid, ...] = ()
    cordoned: tuple[Uuid, ...] | None = None


def three_brokers(level: int = 25) -> Cluster:
    """Brokers 1, 2, 3; topic t: on 1, 2, 3 and on 2, 1, 3; topic alone: on 1; topic others: on 2."""
    cluster = Cluster(level).brokers(1, 2, 3)
    cluster.topic("t", [1, 2, 3], [2, 1, 3])
    cluster.topic("alone", [1])
    cluster.topic("others", [2])
    return cluster


def oldest() -> Cluster:
    """The same at metadata.version 3.3-IV3."""
    return three_brokers(7)


def first(*targets: ControlState) -> Cluster:
    cluster = three_brokers()
    for target in targets:
        cluster.change(1, target)
    return cluster


def first_fenced() -> Cluster:
    """The same at 4.0-IV3, broker 1 is fenced."""
    return first(FENCED)


def first_leaving() -> Cluster:
    """The same, broker 1 is in controlled shutdown."""
    return first(LEAVING)


def first_fenced_on_its_way() -> Cluster:
    """The same, broker 1 was fenced in controlled shutdown."""
    return first(LEAVING, FENCED)


def follower() -> Cluster:
    """Brokers 1 and 2; topic t: one partition on 2, 1."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [2, 1])
    return cluster


def registered() -> Cluster:
    """Broker 1 has registered, and is fenced; no topic."""
    cluster = Cluster(25)
    cluster.register(1)
    return cluster


def uncleanly() -> Cluster:
    """Brokers 1 and 2; topic t: one partition on 1, 2, of which 1 is in the ISR; unclean elections are allowed."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2], unclean_leader_election_enable="true")
    cluster.alter_isr("t", (1,))
    return cluster


def with_elr() -> Cluster:
    """Brokers 1 (epoch 2) and 2; ELR is on; topic t: one partition on 1, 2, of which two have to be in sync."""
    cluster = Cluster(25, elr=True).brokers(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    return cluster


def both_eligible() -> Cluster:
    """The same, brokers 2 and 1 were fenced in that order: nobody leads, both are eligible."""
    cluster = with_elr()
    cluster.change(2, FENCED)
    cluster.change(1, FENCED)
    return cluster


def two_directories(level: int = 33) -> Cluster:
    """Broker 1 leads t-0 in directory GOOD, t-1 in BAD, and t-2, nobody knows where; broker 2 follows; 4.4-IV2."""
    cluster = Cluster(level)
    cluster.register(1, log_dirs=(GOOD, BAD))
    cluster.unfence(1)
    cluster.brokers(2)
    cluster.topic("t", [1, 2], [1, 2], [1, 2])
    for each, lies_in in enumerate((GOOD, BAD)):
        cluster.apply([PartitionChangeRecord(each, T, directories=(lies_in, directory(2)))])
    return cluster


def good_is_left() -> Cluster:
    """The same, BAD has failed, and broker 2 leads t-1."""
    cluster = two_directories()
    cluster.write(command(cluster, to(UNFENCED, offline=(BAD,))))
    return cluster


def both_cordoned() -> Cluster:
    """The same with both directories, which are cordoned."""
    cluster = two_directories()
    cluster.apply([change(cordoned_log_dirs=(GOOD, BAD))])
    return cluster


def without_the_second() -> Cluster:
    """The same, nothing is cordoned; broker 2 and then 1 were fenced, so that nobody leads."""
    cluster = two_directories()
    cluster.change(2, FENCED)
    cluster.change(1, FENCED)
    return cluster


def before_cordoning() -> Cluster:
    """The same with both brokers, at metadata.version 4.2-IV1."""
    return two_directories(29)


def before_directories() -> Cluster:
    """Broker 1 at metadata.version 3.7-IV1."""
    return Cluster(16).brokers(1)


def to(target: ControlState, **changes: Any) -> Asked:
    return Asked(**{"target": target, **changes})


def reached(state: ControlState) -> BrokerStateChanged:
    return BrokerStateChanged(state=state)


def change(epoch: int = FIRST, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(**{"broker_id": 1, "broker_epoch": epoch, **changes})


def command(cluster: Cluster, request: Asked, **beside: Any) -> Command[Any]:
    return change_broker_state(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        target=request.target,
        settings=cluster.settings,
        offline_log_dirs=request.offline,
        cordoned_log_dirs=request.cordoned,
        **beside,
    )


FENCE, UNFENCE = change(fenced=1), change(fenced=-1)
NEXT = "BrokerHeartbeatManager.calculateNextBrokerState"
OUT, IN = "ReplicationControlManager.handleBrokerFenced", "ReplicationControlManager.handleBrokerUnfenced"
SHUTDOWN = "ReplicationControlManager.handleBrokerInControlledShutdown"
OFFLINE = "ReplicationControlManager.handleDirectoriesOffline"
CORDONED = "ReplicationControlManager.handleDirectoriesCordoned"
WITHOUT_FIRST = (
    PartitionChangeRecord(0, T, isr=(2, 3), leader=2),
    PartitionChangeRecord(1, T, isr=(2, 3)),
    PartitionChangeRecord(0, ALONE, leader=NO_LEADER),
)

TABLE = Table(
    api="ChangeBrokerState",
    kafka="ReplicationControlManager.processBrokerHeartbeat, BrokerHeartbeatManager (KIP-631, KIP-858, KIP-1066)",
    command=command,
    given=three_brokers,
    rows=(
        Row(
            case="unfenced, to be fenced",
            rule=f"{OUT}: first out of every ISR; the last one stays in it; a leader that stays keeps its epoch.",
            request=to(FENCED),
            records=(*WITHOUT_FIRST, FENCE),
            answer=reached(FENCED),
        ),
        Row(
            case="unfenced, to be fenced, at the oldest level",
            rule="PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded: below 3.6-IV0 (KAFKA-15021).",
            given=oldest,
            request=to(FENCED),
            records=(
                PartitionChangeRecord(0, T, isr=(2, 3), leader=2),
                PartitionChangeRecord(1, T, isr=(2, 3), leader=2),
                PartitionChangeRecord(0, ALONE, leader=NO_LEADER),
                FENCE,
            ),
            answer=reached(FENCED),
        ),
        Row(
            case="a follower, to be fenced",
            rule=f"{OUT}: where it does not lead, only the ISR changes.",
            request=to(FENCED, broker_id=3, broker_epoch=THIRD),
            records=(
                PartitionChangeRecord(0, T, isr=(1, 2)),
                PartitionChangeRecord(1, T, isr=(2, 1)),
                BrokerRegistrationChangeRecord(3, THIRD, fenced=1),
            ),
            answer=reached(FENCED),
        ),
        Row(
            case="unfenced, to be unfenced",
            rule=f"{NEXT}: it is so already.",
            request=to(UNFENCED),
            answer=reached(UNFENCED),
        ),
        Row(
            case="registered, to be unfenced",
            rule=f"{IN} (KIP-631).",
            given=registered,
            request=to(UNFENCED),
            records=(UNFENCE,),
            answer=reached(UNFENCED),
        ),
        Row(
            case="fenced, to be unfenced",
            rule=f"{IN}: then it leads what nobody leads, if it is in sync; into the other ISRs its leaders let it.",
            given=first_fenced,
            request=to(UNFENCED),
            records=(UNFENCE, PartitionChangeRecord(0, ALONE, leader=1)),
            answer=reached(UNFENCED),
        ),
        Row(
            case="fenced, to be fenced",
            rule=f"{NEXT}: it is so already.",
            given=first_fenced,
            request=to(FENCED),
            answer=reached(FENCED),
        ),
        Row(
            case="it leads, and wants to go",
            rule=f"{SHUTDOWN}: noted first; then leaders change and ISRs shrink; it waits (KIP-631).",
            request=to(LEAVING),
            records=(change(in_controlled_shutdown=1), *WITHOUT_FIRST),
            answer=reached(LEAVING),
        ),
        Row(
            case="it leads nothing, and wants to go",
            rule=f"{NEXT}: no need to wait: fenced at once.",
            given=follower,
            request=to(LEAVING),
            records=(PartitionChangeRecord(0, T, isr=(2,)), FENCE),
            answer=reached(GONE),
        ),
        Row(
            case="its partitions went just before in other writes, and it wants to go",
            rule=f"{NEXT}: who led waits until the others know its successors.",
            given=follower,
            request=to(LEAVING),
            beside={"has_led": True},
            records=(change(in_controlled_shutdown=1), PartitionChangeRecord(0, T, isr=(2,))),
            answer=reached(LEAVING),
        ),
        Row(
            case="it leads, and does not want to wait",
            rule=f"{NEXT}: who wants to be fenced and to go is fenced at once.",
            request=to(GONE),
            records=(*WITHOUT_FIRST, FENCE),
            answer=reached(GONE),
        ),
        Row(
            case="fenced, and wants to go",
            rule=f"{NEXT}: it may go at once; Kafka writes a second time that it is fenced.",
            given=first_fenced,
            request=to(LEAVING),
            answer=reached(GONE),
        ),
        Row(
            case="fenced, and does not want to wait",
            rule=f"{NEXT}: it may go at once; Kafka writes a second time that it is fenced.",
            given=first_fenced,
            request=to(GONE),
            answer=reached(GONE),
        ),
        Row(
            case="on its way out, still waiting",
            rule=f"{NEXT}: it waits; whether the others know by now is the heartbeat service's to see.",
            given=first_leaving,
            request=to(LEAVING),
            answer=reached(LEAVING),
        ),
        Row(
            case="on its way out, the others know",
            rule=f"{NEXT}: it is fenced, and may go.",
            given=first_leaving,
            request=to(GONE),
            records=(FENCE,),
            answer=reached(GONE),
        ),
        Row(
            case="on its way out, not heard of any more",
            rule="ReplicationControlManager.maybeFenceOneStaleBroker: fenced like any other.",
            given=first_leaving,
            request=to(FENCED),
            records=(FENCE,),
            answer=reached(FENCED),
        ),
        Row(
            case="on its way out, to be unfenced",
            rule=f"{NEXT}: there is no way back but a new registration.",
            given=first_leaving,
            request=to(UNFENCED),
            answer=reached(LEAVING),
        ),
        Row(
            case="fenced on its way out, to be unfenced",
            rule=f"{NEXT}: Kafka unfences it, and it leads nothing all the same; here it stays fenced.",
            given=first_fenced_on_its_way,
            request=to(UNFENCED),
            answer=reached(FENCED),
        ),
        Row(
            case="to be fenced, where unclean elections are allowed",
            rule="ReplicationControlManager.generateLeaderAndIsrUpdates: uncleanly, if the topic wants it (KIP-704).",
            given=uncleanly,
            request=to(FENCED),
            records=(PartitionChangeRecord(0, T, isr=(2,), leader=2, leader_recovery_state=RECOVERING), FENCE),
            answer=reached(FENCED),
        ),
        Row(
            case="to be fenced, with ELR",
            rule="PartitionChangeBuilder.maybePopulateTargetElr: too few are in sync, so it is eligible (KIP-966).",
            given=with_elr,
            request=to(FENCED, broker_epoch=2),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2, eligible_leader_replicas=(1,)),
                change(2, fenced=1),
            ),
            answer=reached(FENCED),
        ),
        Row(
            case="to be unfenced, with ELR",
            rule="PartitionChangeBuilder.electAnyLeader: from the ELR, where the ISR is empty (KIP-966).",
            given=both_eligible,
            request=to(UNFENCED, broker_epoch=2),
            records=(
                change(2, fenced=-1),
                PartitionChangeRecord(0, T, isr=(1,), leader=1, eligible_leader_replicas=(2,), last_known_elr=()),
            ),
            answer=reached(UNFENCED),
        ),
        Row(
            case="a directory has failed",
            rule=f"{OFFLINE}: its replicas there lead nothing and are in no ISR; then it is struck off (KIP-858).",
            given=two_directories,
            request=to(UNFENCED, offline=(BAD,)),
            records=(PartitionChangeRecord(1, T, isr=(2,), leader=2), change(log_dirs=(GOOD,))),
            answer=reached(UNFENCED),
        ),
        Row(
            case="a directory that is struck off has failed",
            rule=f"{OFFLINE}: BrokerRegistration.directoryIntersection: it is news once (KIP-858).",
            given=good_is_left,
            request=to(UNFENCED, offline=(BAD,)),
            answer=reached(UNFENCED),
        ),
        Row(
            case="a directory that is none of its own has failed",
            rule=f"{OFFLINE}: BrokerRegistration.directoryIntersection (KIP-858).",
            given=two_directories,
            request=to(UNFENCED, offline=(ELSEWHERE,)),
            answer=reached(UNFENCED),
        ),
        Row(
            case="a directory has failed, and it is to be fenced",
            rule=f"{OFFLINE}: after its state; Kafka changes what lay there twice, here once (KIP-858).",
            given=two_directories,
            request=to(FENCED, offline=(BAD,)),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,), leader=2),
                PartitionChangeRecord(2, T, isr=(2,), leader=2),
                FENCE,
                change(log_dirs=(GOOD,)),
            ),
            answer=reached(FENCED),
        ),
        Row(
            case="a directory has failed, and it does not want to wait",
            rule=f"{OFFLINE}: after its state; Kafka changes what lay there twice, here once (KIP-858).",
            given=two_directories,
            request=to(GONE, offline=(BAD,)),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,), leader=2),
                PartitionChangeRecord(2, T, isr=(2,), leader=2),
                FENCE,
                change(log_dirs=(GOOD,)),
            ),
            answer=reached(GONE),
        ),
        Row(
            case="a directory has failed, and it wants to go",
            rule=f"{SHUTDOWN}, then {OFFLINE} (KIP-858).",
            given=two_directories,
            request=to(LEAVING, offline=(BAD,)),
            records=(
                change(in_controlled_shutdown=1),
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,), leader=2),
                PartitionChangeRecord(2, T, isr=(2,), leader=2),
                change(log_dirs=(GOOD,)),
            ),
            answer=reached(LEAVING),
        ),
        Row(
            case="a directory has failed, and it is to be unfenced",
            rule=f"{OFFLINE}: what lies in it, it does not lead (KIP-858).",
            given=without_the_second,
            request=to(UNFENCED, offline=(BAD,)),
            records=(
                UNFENCE,
                PartitionChangeRecord(0, T, leader=1),
                PartitionChangeRecord(2, T, leader=1),
                change(log_dirs=(GOOD,)),
            ),
            answer=reached(UNFENCED),
        ),
        Row(
            case="all directories have failed",
            rule=f"{OFFLINE}: an empty list is none in this record, so nothing is struck off (KIP-858).",
            given=before_cordoning,
            request=to(UNFENCED, offline=(GOOD, BAD)),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,), leader=2),
                change(log_dirs=()),
            ),
            answer=reached(UNFENCED),
        ),
        Row(
            case="before directories had ids",
            rule="ReplicationControlManager.processBrokerHeartbeat: from 3.7-IV2 on (KIP-858).",
            given=before_directories,
            request=to(UNFENCED, offline=(BAD,), cordoned=(GOOD,)),
            answer=reached(UNFENCED),
        ),
        Row(
            case="none is cordoned, said for the first time",
            rule="BrokerRegistration.cordonedDirChanged: nothing known is other than none (KIP-1066).",
            given=two_directories,
            request=to(UNFENCED, cordoned=()),
            records=(change(cordoned_log_dirs=()),),
            answer=reached(UNFENCED),
        ),
        Row(
            case="a directory is cordoned",
            rule=f"{CORDONED} (KIP-1066).",
            given=two_directories,
            request=to(UNFENCED, cordoned=(BAD,)),
            records=(change(cordoned_log_dirs=(BAD,)),),
            answer=reached(UNFENCED),
        ),
        Row(
            case="cordoned as it was",
            rule="BrokerRegistration.cordonedDirChanged: as sets (KIP-1066).",
            given=both_cordoned,
            request=to(UNFENCED, cordoned=(BAD, GOOD)),
            answer=reached(UNFENCED),
        ),
        Row(
            case="no longer cordoned",
            rule=f"{CORDONED} (KIP-1066).",
            given=both_cordoned,
            request=to(UNFENCED, cordoned=()),
            records=(change(cordoned_log_dirs=()),),
            answer=reached(UNFENCED),
        ),
        Row(
            case="nothing is said of what is cordoned",
            rule=f"{CORDONED}: an older broker says nothing, and nothing changes (KIP-1066).",
            given=both_cordoned,
            request=to(UNFENCED),
            answer=reached(UNFENCED),
        ),
        Row(
            case="one has failed, one is cordoned, and it is to be fenced",
            rule="ReplicationControlManager.processBrokerHeartbeat: the state, what failed, what is cordoned.",
            given=two_directories,
            request=to(FENCED, offline=(BAD,), cordoned=(GOOD,)),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2),
                PartitionChangeRecord(1, T, isr=(2,), leader=2),
                PartitionChangeRecord(2, T, isr=(2,), leader=2),
                FENCE,
                change(log_dirs=(GOOD,)),
                change(cordoned_log_dirs=(GOOD,)),
            ),
            answer=reached(FENCED),
        ),
        Row(
            case="a directory is cordoned, below 4.3-IV0",
            rule="ReplicationControlManager.processBrokerHeartbeat: from 4.3-IV0 on (KIP-1066).",
            given=before_cordoning,
            request=to(UNFENCED, cordoned=(BAD,)),
            answer=reached(UNFENCED),
        ),
        Row(
            case="of an earlier epoch",
            rule="ClusterControlManager.checkBrokerEpoch (KIP-631).",
            request=to(FENCED, broker_epoch=FIRST - 1),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
        Row(
            case="of an epoch to come",
            rule="ClusterControlManager.checkBrokerEpoch (KIP-631).",
            request=to(FENCED, broker_epoch=FIRST + 1),
            answer=ErrorCode.STALE_BROKER_EPOCH,
        ),
        Row(
            case="of nobody",
            rule="ClusterControlManager.checkBrokerEpoch: STALE_BROKER_EPOCH, which here the heartbeat service says.",
            request=to(FENCED, broker_id=9),
            answer=ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
    ),
)
