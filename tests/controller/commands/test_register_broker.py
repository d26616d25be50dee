"""BrokerRegistration: who is let in, under which epoch, and what a restart does to partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kraft import Uuid
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER
from quorate.records import PartitionChangeRecord, RegisterBrokerRecord
from tests.controller.clusters import CLUSTER_ID, Cluster, registration, uuid

Feature = BrokerRegistrationRequest.Feature
Listener = BrokerRegistrationRequest.Listener


def registering(
    cluster: Cluster, request: BrokerRegistrationRequest, **changes: Any
) -> Command[BrokerRegistrationResponse]:
    given = {"cluster_id": CLUSTER_ID, "session_epoch": None, "kraft_version": 1, "settings": cluster.settings}
    return register_broker(request, **{**given, **changes})


REFUSED = {
    "another cluster": ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    "a negative id": ({"broker_id": -1}, ErrorCode.INVALID_REGISTRATION),
    "one on ZooKeeper": ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    "no directory": ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
    "a reserved directory": ({"log_dirs": (Uuid(bytes(15) + b"\x63"),)}, ErrorCode.INVALID_REGISTRATION),
    "a directory twice": ({"log_dirs": (uuid(9), uuid(9))}, ErrorCode.INVALID_REGISTRATION),
    "a directory of broker 1": ({"log_dirs": (uuid(150),)}, ErrorCode.INVALID_REGISTRATION),
    "no listener": ({"listeners": ()}, ErrorCode.INVALID_REGISTRATION),
    "a listener twice": ({"listeners": (Listener("A", "h", 1), Listener("A", "h", 2))}, ErrorCode.INVALID_REGISTRATION),
    "no feature": ({"features": ()}, ErrorCode.INVALID_REGISTRATION),
    "too new for this cluster": (
        {"features": (Feature("metadata.version", 26, 33), Feature("kraft.version", 0, 1))},
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    "too old for this cluster": (
        {"features": (Feature("metadata.version", 7, 24), Feature("kraft.version", 0, 1))},
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    "one without dynamic voters": ({"features": (Feature("metadata.version", 7, 33),)}, ErrorCode.UNSUPPORTED_VERSION),
}


@pytest.mark.parametrize(("changes", "code"), REFUSED.values(), ids=REFUSED)
def test_refuses(changes: dict[str, Any], code: ErrorCode) -> None:
    cluster = Cluster(25).brokers(1)

    assert code == cluster.refusal(registering(cluster, registration(**{"broker_id": 2, **changes}))).code


def test_directories_do_not_count_below_3_7() -> None:
    cluster = Cluster(16)
    cluster.register(1, log_dirs=())

    assert 1 in cluster.state.brokers


def test_the_epoch_is_the_offset_of_the_registration() -> None:
    cluster = Cluster(25)
    offset = cluster.next_offset
    decision = cluster.decide(registering(cluster, registration(3, rack="b")))
    (record,) = decision.records

    assert offset == decision.response.broker_epoch
    assert isinstance(record, RegisterBrokerRecord)
    assert (3, offset, "b", True, False) == (
        record.broker_id,
        record.broker_epoch,
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
    )


def test_the_same_process_keeps_its_epoch_and_stays_unfenced() -> None:
    cluster = Cluster(25).brokers(1)
    before = cluster.state.brokers.get(1)
    epoch = cluster.register(1, rack="new")
    after = cluster.state.brokers.get(1)

    assert before is not None
    assert after is not None
    assert (before.epoch, False, "new") == (epoch, after.fenced, after.rack)


def test_another_process_is_refused_while_the_session_is_valid() -> None:
    cluster = Cluster(25).brokers(1)
    broker = cluster.state.brokers.get(1)
    assert broker is not None
    other = registration(1, incarnation=1)
    refused = cluster.refusal(registering(cluster, other, session_epoch=broker.epoch))

    assert refused.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.decide(registering(cluster, other, session_epoch=broker.epoch - 1)).records


def test_a_new_process_is_in_no_isr() -> None:
    """It registers before its predecessor was fenced: it starts fenced, so others lead."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2])
    epoch = cluster.register(1, incarnation=1)
    broker = cluster.state.brokers.get(1)

    assert broker is not None
    assert broker.epoch == epoch
    assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((2,), 2)


@pytest.mark.parametrize(
    ("tells", "clean", "elr"),
    [(True, True, (1,)), (True, False, ()), (False, False, (1,))],
    ids=["a clean stop keeps the place in the ELR", "an unclean one loses it", "who cannot tell keeps it"],
)
def test_eligible_after(tells: bool, clean: bool, elr: tuple[int, ...]) -> None:
    """KIP-966: the new process names the epoch that its predecessor ended in order."""
    cluster = Cluster(25, elr=True).brokers(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    previous = cluster.state.brokers.get(1)
    assert previous is not None
    request = registration(1, incarnation=1, previous_broker_epoch=previous.epoch if clean else -1)
    decision = cluster.decide(registering(cluster, request, tells_previous_epoch=tells))
    cluster.apply(decision.records)

    assert [PartitionChangeRecord, RegisterBrokerRecord] == [type(record) for record in decision.records]
    assert ((2,), elr) == (cluster.partition("t").isr, cluster.partition("t").elr)


def test_an_unclean_stop_takes_a_fenced_broker_out_of_the_elr() -> None:
    cluster = Cluster(25, elr=True).brokers(1)
    cluster.topic("t", [1])
    cluster.change(1, ControlState.FENCED)
    before = cluster.partition("t")
    cluster.register(1, incarnation=1)
    cluster.change(1, ControlState.UNFENCED)
    after = cluster.partition("t")

    assert (before.isr, before.elr, before.leader) == ((), (1,), NO_LEADER)
    # It leads nevertheless, as the last leader known, and says that it may have lost something.
    assert (after.isr, after.leader, after.leader_recovery_state) == ((1,), 1, 1)
