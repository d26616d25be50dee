"""Partitions that are alike are decided once: what is known of them holds as long as the brokers and the level do."""

from __future__ import annotations

from quorate.controller.partitions.broker_changes import leaving
from quorate.controller.partitions.partition_change import AlikePartitions
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER
from quorate.records import PartitionChangeRecord
from tests.controller.clusters import Cluster


def cluster_of_three() -> Cluster:
    cluster = Cluster(25).brokers(1, 2, 3)
    cluster.topic("alike", [1, 2, 3], [1, 2, 3], [3, 1, 2])
    cluster.topic("strict", [1, 2, 3], min_insync_replicas="3")
    return cluster


def leaves(cluster: Cluster, broker_id: int, alike: AlikePartitions | None = None) -> list[PartitionChangeRecord]:
    return list(leaving(cluster.state, broker_id, cluster.settings, None, alike))


def test_what_is_known_says_the_same_as_deciding_anew() -> None:
    cluster, alike = cluster_of_three(), AlikePartitions()

    for _ in range(2):
        assert leaves(cluster, 1) == leaves(cluster, 1, alike)


def test_a_broker_that_is_gone_in_between_is_elected_no_more() -> None:
    """It is in no ISR, so that the partitions look as they did before."""
    cluster, alike = Cluster(25).brokers(1, 2), AlikePartitions()
    cluster.topic("at-any-price", [1, 2], unclean_leader_election_enable="true")
    cluster.alter_isr("at-any-price", (1,))
    assert [2] == [change.leader for change in leaves(cluster, 1, alike)]

    cluster.change(2, ControlState.FENCED)
    assert [NO_LEADER] == [change.leader for change in leaves(cluster, 1, alike)]


def test_another_broker_that_leaves_knows_nothing_of_the_first() -> None:
    cluster, alike = cluster_of_three(), AlikePartitions()

    assert leaves(cluster, 1) == leaves(cluster, 1, alike)
    assert leaves(cluster, 2) == leaves(cluster, 2, alike)


def test_a_setting_that_is_changed_in_between_counts() -> None:
    cluster, alike = Cluster(25, elr=True).brokers(1, 2, 3), AlikePartitions()
    cluster.topic("one", [1, 2, 3])
    cluster.topic("two", [1, 2, 3], min_insync_replicas="3")

    first, second = leaves(cluster, 1, alike)
    assert (None, (1,)) == (first.eligible_leader_replicas, second.eligible_leader_replicas)
