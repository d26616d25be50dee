"""BrokerRegistration (62)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft import Uuid
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.records import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord
from tests.controller.clusters import CLUSTER_ID, Cluster, directory, registration, uuid
from tests.controller.tables.table import Row, Table

Feature = BrokerRegistrationRequest.Feature
Listener = BrokerRegistrationRequest.Listener
Level = RegisterBrokerRecord.BrokerFeature
EndPoint = RegisterBrokerRecord.BrokerEndpoint

T = uuid(1000)
MV, KRAFT, ELR, GROUP = "metadata.version", "kraft.version", "eligible.leader.replicas.version", "group.version"
RESERVED = Uuid(bytes(15) + b"\x63")
GIVEN_OUT = 1
"""The broker epoch of broker 1 where it is the first that has registered."""


def nobody() -> Cluster:
    """No broker; metadata.version 4.0-IV3."""
    return Cluster(25)


def before_directories() -> Cluster:
    """No broker; metadata.version 3.7-IV1."""
    return Cluster(16)


def oldest() -> Cluster:
    """No broker; metadata.version 3.3-IV3."""
    return Cluster(7)


def with_groups() -> Cluster:
    """No broker; group.version is at 1."""
    cluster = nobody()
    cluster.apply([FeatureLevelRecord(GROUP, 1)])
    return cluster


def one() -> Cluster:
    """Broker 1, in broker epoch 1."""
    return nobody().brokers(1)


def leaving() -> Cluster:
    """Broker 1, in controlled shutdown, as it leads t alone; broker 2."""
    cluster = two()
    cluster.change(1, ControlState.CONTROLLED_SHUTDOWN)
    return cluster


def two() -> Cluster:
    """Brokers 1 and 2; topic t: one partition on 1, 2."""
    cluster = nobody().brokers(1, 2)
    cluster.topic("t", [1, 2])
    return cluster


def two_with_elr() -> Cluster:
    """Brokers 1 (epoch 2) and 2; ELR is on; topic t: one partition on 1, 2, of which two have to be in sync."""
    cluster = Cluster(25, elr=True).brokers(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    return cluster


def eligible() -> Cluster:
    """The same, broker 1 is fenced: 2 leads, and 1 is eligible."""
    cluster = two_with_elr()
    cluster.change(1, ControlState.FENCED)
    return cluster


def alone_and_fenced() -> Cluster:
    """Broker 1 is fenced, and the last in the ISR of topic t; nobody leads."""
    cluster = one()
    cluster.topic("t", [1])
    cluster.change(1, ControlState.FENCED)
    return cluster


def registered(
    broker_id: int, epoch: int, *, incarnation: int = 0, listeners: Sequence[EndPoint] = (), **changes: Any
) -> RegisterBrokerRecord:
    """What the log has of a `registration`."""
    return RegisterBrokerRecord(
        **{
            "broker_id": broker_id,
            "incarnation_id": uuid(broker_id * 100 + incarnation),
            "broker_epoch": epoch,
            "end_points": tuple(listeners) or (EndPoint("PLAINTEXT", f"broker-{broker_id}", 9092, 0),),
            "features": (Level(ELR, 0, 1), Level(KRAFT, 0, 1), Level(MV, 7, 33)),
            "rack": None,
            "fenced": True,
            "in_controlled_shutdown": False,
            "log_dirs": (directory(broker_id),),
            **changes,
        }
    )


def supports(**ranges: tuple[int, int]) -> tuple[Feature, ...]:
    return tuple(Feature(name.replace("_", "."), *levels) for name, levels in ranges.items())


def epoch(broker_epoch: int) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)


def command(cluster: Cluster, request: BrokerRegistrationRequest, **changes: Any) -> Command[Any]:
    given = {"cluster_id": CLUSTER_ID, "session_epoch": None, "kraft_version": 1, "settings": cluster.settings}
    return register_broker(request, **{**given, **changes})


INVALID, UNSUPPORTED = ErrorCode.INVALID_REGISTRATION, ErrorCode.UNSUPPORTED_VERSION
REGISTER = "ClusterControlManager.registerBroker"
RANGES = "ClusterControlManager.processRegistrationFeature"
SHUTDOWN = "ReplicationControlManager.handleBrokerShutdown"

TABLE = Table(
    api="BrokerRegistration",
    kafka="ClusterControlManager.registerBroker (KIP-631, KIP-858, KIP-966)",
    command=command,
    given=nobody,
    rows=(
        Row(
            case="for the first time",
            rule=f"{REGISTER}: fenced until it has caught up; its epoch is the next offset (KIP-631).",
            request=registration(1),
            records=(registered(1, 1),),
            answer=epoch(1),
        ),
        Row(
            case="with a rack and two listeners",
            rule=f"{REGISTER}: as it says of itself, in its order.",
            request=registration(
                7, rack="b", listeners=(Listener("TLS", "seven", 9093, 1), Listener("PLAINTEXT", "seven", 9092, 0))
            ),
            records=(
                registered(
                    7,
                    1,
                    rack="b",
                    listeners=(EndPoint("TLS", "seven", 9093, 1), EndPoint("PLAINTEXT", "seven", 9092, 0)),
                ),
            ),
            answer=epoch(1),
        ),
        Row(
            case="before directories had ids",
            rule=f"{REGISTER}: they are neither checked nor written below 3.7-IV2 (KIP-858).",
            given=before_directories,
            request=registration(1, log_dirs=(RESERVED, RESERVED)),
            records=(registered(1, 1, log_dirs=()),),
            answer=epoch(1),
        ),
        Row(
            case="at the oldest level",
            rule=f"{REGISTER}: no directories there (KIP-858).",
            given=oldest,
            request=registration(1, log_dirs=()),
            records=(registered(1, 1, log_dirs=()),),
            answer=epoch(1),
        ),
        Row(
            case="the same process again",
            rule=f"{REGISTER}: its registration is amended, it keeps its epoch and stays unfenced.",
            given=two,
            request=registration(1, rack="b"),
            records=(registered(1, GIVEN_OUT, rack="b", fenced=False),),
            answer=epoch(GIVEN_OUT),
        ),
        Row(
            case="the same process again, with its session",
            rule=f"{REGISTER}: only another process is refused while the session is valid.",
            given=one,
            request=registration(1),
            beside={"session_epoch": GIVEN_OUT},
            records=(registered(1, GIVEN_OUT, fenced=False),),
            answer=epoch(GIVEN_OUT),
        ),
        Row(
            case="the same process again, on its way out",
            rule=f"{REGISTER}: its controlled shutdown goes on.",
            given=leaving,
            request=registration(1),
            records=(registered(1, GIVEN_OUT, fenced=False, in_controlled_shutdown=True),),
            answer=epoch(GIVEN_OUT),
        ),
        Row(
            case="another process, the last one's session is valid",
            rule=f"{REGISTER}: DuplicateBrokerRegistrationException (KIP-631).",
            given=one,
            request=registration(1, incarnation=1),
            beside={"session_epoch": GIVEN_OUT},
            answer=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ),
        Row(
            case="another process, and a session of an earlier epoch",
            rule="BrokerHeartbeatManager.hasValidSession: a session is that of one id and one epoch.",
            given=one,
            request=registration(1, incarnation=1),
            beside={"session_epoch": GIVEN_OUT - 1},
            records=(registered(1, 3, incarnation=1),),
            answer=epoch(3),
        ),
        Row(
            case="another process, the last one was in an ISR",
            rule=f"{SHUTDOWN}: first out of every ISR; the epoch is the offset of the first record.",
            given=two,
            request=registration(1, incarnation=1),
            records=(PartitionChangeRecord(0, T, isr=(2,), leader=2), registered(1, 7, incarnation=1)),
            answer=epoch(7),
        ),
        Row(
            case="another process, the last one is the last in the ISR",
            rule=f"{SHUTDOWN}: without ELR it stays in the ISR, and nobody leads as before.",
            given=alone_and_fenced,
            request=registration(1, incarnation=1),
            records=(registered(1, 7, incarnation=1),),
            answer=epoch(7),
        ),
        Row(
            case="another process after a clean stop, with ELR",
            rule=f"{SHUTDOWN}: it names the epoch that ended in order, so its log is whole: eligible (KIP-966).",
            given=two_with_elr,
            request=registration(1, incarnation=1, previous_broker_epoch=2),
            records=(
                PartitionChangeRecord(0, T, isr=(2,), leader=2, eligible_leader_replicas=(1,)),
                registered(1, 10, incarnation=1),
            ),
            answer=epoch(10),
        ),
        Row(
            case="another process after an unclean stop, with ELR",
            rule=f"{SHUTDOWN}: its log may have lost its end, it is not eligible (KIP-966).",
            given=two_with_elr,
            request=registration(1, incarnation=1, previous_broker_epoch=-1),
            records=(PartitionChangeRecord(0, T, isr=(2,), leader=2), registered(1, 10, incarnation=1)),
            answer=epoch(10),
        ),
        Row(
            case="another process that names another epoch than the last, with ELR",
            rule=f"{REGISTER}: clean is only the end of the epoch that is registered (KIP-966).",
            given=two_with_elr,
            request=registration(1, incarnation=1, previous_broker_epoch=1),
            records=(PartitionChangeRecord(0, T, isr=(2,), leader=2), registered(1, 10, incarnation=1)),
            answer=epoch(10),
        ),
        Row(
            case="another process after an unclean stop, in an ELR",
            rule=f"{SHUTDOWN}: out of every ELR, too (KIP-966).",
            given=eligible,
            request=registration(1, incarnation=1, previous_broker_epoch=-1),
            records=(PartitionChangeRecord(0, T, eligible_leader_replicas=()), registered(1, 12, incarnation=1)),
            answer=epoch(12),
        ),
        Row(
            case="another process after a clean stop, in an ELR",
            rule=f"{SHUTDOWN}: there it stays (KIP-966).",
            given=eligible,
            request=registration(1, incarnation=1, previous_broker_epoch=2),
            records=(registered(1, 12, incarnation=1),),
            answer=epoch(12),
        ),
        Row(
            case="of another cluster, and another process with a valid session",
            rule=f"{REGISTER}: the cluster is looked at first.",
            given=one,
            request=registration(1, incarnation=1, cluster_id="other"),
            beside={"session_epoch": GIVEN_OUT},
            answer=ErrorCode.INCONSISTENT_CLUSTER_ID,
        ),
        Row(
            case="a negative id",
            rule="KIP-631: ids are 0 or above; Kafka's controller takes any, its brokers start with no other.",
            request=registration(-1),
            answer=INVALID,
        ),
        Row(
            case="on ZooKeeper, another process with a valid session",
            rule=f"{REGISTER}: the session before ZooKeeper.",
            given=one,
            request=registration(1, incarnation=1, is_migrating_zk_broker=True),
            beside={"session_epoch": GIVEN_OUT},
            answer=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ),
        Row(
            case="on ZooKeeper, without a directory",
            rule=f"{REGISTER}: ZooKeeper before directories; the odd code is Kafka's.",
            request=registration(1, is_migrating_zk_broker=True, log_dirs=()),
            answer=ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        Row(
            case="no directory, and no feature",
            rule=f"{REGISTER}: directories before features; from 3.7-IV2 on there is one (KIP-858).",
            request=registration(1, log_dirs=(), features=supports(metadata_version=(26, 33))),
            answer=INVALID,
        ),
        Row(
            case="a reserved directory",
            rule=f"{REGISTER}: DirectoryId.reserved, the first hundred ids (KIP-858).",
            request=registration(1, log_dirs=(uuid(9), RESERVED)),
            answer=INVALID,
        ),
        Row(
            case="a directory twice",
            rule=f"{REGISTER}: no directory twice (KIP-858).",
            request=registration(1, log_dirs=(uuid(9), uuid(9))),
            answer=INVALID,
        ),
        Row(
            case="a directory of another broker",
            rule=f"{REGISTER}: a directory has one broker (KIP-858).",
            given=one,
            request=registration(2, log_dirs=(directory(2), directory(1))),
            answer=INVALID,
        ),
        Row(
            case="a directory that its last process had",
            rule=f"{REGISTER}: its own it may name again (KIP-858).",
            given=one,
            request=registration(1, incarnation=1, log_dirs=(directory(1), uuid(9))),
            records=(registered(1, 3, incarnation=1, log_dirs=(directory(1), uuid(9))),),
            answer=epoch(3),
        ),
        Row(
            case="no listener",
            rule="ListenerInfo.fromBrokerRegistrationRequest: Kafka takes none; here there has to be one.",
            request=registration(1, listeners=()),
            answer=INVALID,
        ),
        Row(
            case="a listener twice",
            rule="ListenerInfo.fromBrokerRegistrationRequest: by name; Kafka keeps the last, none is lost here.",
            request=registration(1, listeners=(Listener("A", "h", 1), Listener("A", "h", 2))),
            answer=INVALID,
        ),
        Row(
            case="a listener without a name",
            rule="ListenerInfo.fromBrokerRegistrationRequest: known by name; Kafka takes an empty one.",
            request=registration(1, listeners=(Listener("", "h", 1),)),
            answer=INVALID,
        ),
        Row(
            case="it supports only newer levels",
            rule=f"{RANGES}: the finalized level is in its range (KIP-584).",
            request=registration(1, features=supports(metadata_version=(26, 33), kraft_version=(0, 1))),
            answer=UNSUPPORTED,
        ),
        Row(
            case="it supports only older levels",
            rule=f"{RANGES}: the finalized level is in its range (KIP-584).",
            request=registration(1, features=supports(metadata_version=(7, 24), kraft_version=(0, 1))),
            answer=UNSUPPORTED,
        ),
        Row(
            case="it does not name kraft.version, which is at 1",
            rule=f"{REGISTER}: what it does not name it supports at 0 only (KIP-853).",
            request=registration(1, features=supports(metadata_version=(7, 33))),
            answer=UNSUPPORTED,
        ),
        Row(
            case="it does not name kraft.version, which is at 0",
            rule=f"{REGISTER}: what it does not name it supports at 0 only (KIP-853).",
            request=registration(1, features=supports(metadata_version=(7, 33))),
            beside={"kraft_version": 0},
            records=(registered(1, 1, features=(Level(MV, 7, 33),)),),
            answer=epoch(1),
        ),
        Row(
            case="it does not name a feature that is on",
            rule=f"{REGISTER}: every finalized feature is looked at, named or not (KIP-584).",
            given=with_groups,
            request=registration(1),
            answer=UNSUPPORTED,
        ),
        Row(
            case="a feature that is off, and it supports only when it is on",
            rule=f"{RANGES}: what is not finalized is at 0 (KIP-584).",
            request=registration(
                1, features=supports(metadata_version=(7, 33), kraft_version=(0, 1), share_version=(1, 2))
            ),
            answer=UNSUPPORTED,
        ),
        Row(
            case="it does not say which metadata.version, nor a feature that is on",
            rule=f"{REGISTER}: that it has to name metadata.version comes before what else it does not name.",
            given=with_groups,
            request=registration(1, features=supports(kraft_version=(0, 1))),
            answer=INVALID,
        ),
        Row(
            case="it does not say which metadata.version, and names too little of another",
            rule=f"{REGISTER}: what it names comes before what it does not.",
            request=registration(1, features=supports(kraft_version=(0, 0))),
            answer=UNSUPPORTED,
        ),
    ),
)
