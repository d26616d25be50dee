"""Who may lead, given brokers and directories; and how many in sync are enough."""

from __future__ import annotations

import pytest

from kraft import Uuid
from quorate.controller.broker_changes import is_online, rules_for
from quorate.liveness import ControlState
from quorate.metadata.features import ELR_VERSION
from quorate.nouns import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from quorate.records import FeatureLevelRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, uuid


@pytest.mark.parametrize(
    ("directory", "log_dirs", "online"),
    [
        (uuid(1), (uuid(1), uuid(2)), True),
        (uuid(3), (uuid(1), uuid(2)), False),
        (LOST_DIRECTORY, (uuid(1),), False),
        (UNASSIGNED_DIRECTORY, (uuid(1),), True),
        (MIGRATING_DIRECTORY, (uuid(1),), True),
        (uuid(3), (), True),
        (LOST_DIRECTORY, (), False),
    ],
    ids=["one of its own", "none of its own", "lost", "unassigned", "migrating", "a broker without", "lost without"],
)
def test_a_directory_is_online(directory: Uuid, log_dirs: tuple[Uuid, ...], online: bool) -> None:
    """KIP-858."""
    cluster = Cluster(16)
    cluster.register(9, log_dirs=())
    broker = cluster.state.brokers.get(9)
    assert broker is not None
    cluster = Cluster(25)
    if log_dirs:
        cluster.register(9, log_dirs=log_dirs)
        broker = cluster.state.brokers.get(9) or broker

    assert online == is_online(directory, broker)


def test_who_has_lost_the_directory_does_not_lead() -> None:
    cluster = Cluster(25).brokers(1, 2, 3)
    topic_id = cluster.topic("t", [1, 2, 3])
    own = cluster.partition("t").directories
    cluster.apply([PartitionChangeRecord(0, topic_id, directories=(own[0], LOST_DIRECTORY, own[2]))])
    cluster.change(1, ControlState.FENCED)

    assert cluster.partition("t").leader == 3


def test_a_broker_that_has_lost_one_directory_still_leads_from_another() -> None:
    """One decision over several partitions, the lost directory neither first nor last."""
    cluster = Cluster(25).brokers(1, 2, 3)
    topic_id = cluster.topic("t", [1, 2, 3], [1, 2, 3], [1, 2, 3])
    own = cluster.partition("t").directories
    cluster.apply([PartitionChangeRecord(1, topic_id, directories=(own[0], LOST_DIRECTORY, own[2]))])
    cluster.change(1, ControlState.FENCED)

    assert [2, 3, 2] == [cluster.partition("t", partition_id).leader for partition_id in range(3)]


def test_no_more_in_sync_are_asked_for_than_there_are_replicas() -> None:
    """min.insync.replicas of 3 with 2 replicas: 2 in sync end an ELR. KIP-966."""
    cluster = Cluster(25, elr=True).brokers(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="3")

    assert rules_for(cluster.state, "t", cluster.partition("t"), cluster.settings).min_isr == 2


def test_an_elr_that_is_left_over_ends_with_an_unclean_stop() -> None:
    """The feature was turned off while broker 3 was eligible; then it lost its log's end. KIP-966.

    In Kafka it stays in that ELR, and is elected from it as if it lacked nothing. Found by tests/sim_controller.
    """
    cluster = Cluster(25, elr=True).brokers(1, 2, 3)
    cluster.topic("t", [1, 2, 3], min_insync_replicas="3")
    cluster.change(3, ControlState.FENCED)
    assert cluster.partition("t").elr == (3,)

    cluster.apply([FeatureLevelRecord(ELR_VERSION, 0)])
    cluster.register(3, incarnation=1, previous_broker_epoch=-1)
    assert cluster.partition("t").elr == ()
