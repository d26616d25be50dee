"""Partitions arrive, or go back to nobody. What is decided: `tables/alter_partition_reassignments.py`. KIP-455."""

from __future__ import annotations

import pytest

from quorate.liveness import ControlState
from quorate.records import PartitionChangeRecord
from tests.controller.clusters import Cluster
from tests.controller.tables.alter_partition_reassignments import T, asked, back, command, six_brokers, to

Shape = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def shape(cluster: Cluster) -> Shape:
    partition = cluster.partition("t")
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def in_sync(cluster: Cluster, *isr: int) -> None:
    """The leader has said so: through the same rules as AlterPartition."""
    for replica in isr:
        if replica not in cluster.partition("t").isr:
            cluster.alter_isr("t", (*cluster.partition("t").isr, replica))


def test_a_partition_is_on_its_way_until_the_new_replicas_are_in_sync() -> None:
    cluster = six_brokers()
    cluster.write(command(cluster, asked(to(4, 5, 6))))

    in_sync(cluster, 4, 5)
    assert ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)) == shape(cluster)

    in_sync(cluster, 6)
    assert ((4, 5, 6), (), ()) == shape(cluster)
    assert 4 == cluster.partition("t").leader


@pytest.mark.parametrize(("elr", "isr"), [(True, ()), (False, (1,))])
def test_going_back_to_nobody_leaves_the_isr_empty_where_it_may_be(elr: bool, isr: tuple[int, ...]) -> None:
    """The first to come is elected uncleanly, and recovers. Without an ELR the first replica stands for the ISR."""
    cluster = six_brokers(elr=elr, unclean_leader_election_enable="true")
    cluster.write(command(cluster, asked(to(4, 5, 6))))
    in_sync(cluster, 4)
    cluster.apply([PartitionChangeRecord(0, T, isr=(4,), leader=4)])
    for broker_id in (1, 2, 3):
        cluster.change(broker_id, ControlState.FENCED)
    cluster.write(command(cluster, asked(back())))

    partition = cluster.partition("t")
    assert ((1, 2, 3), isr, -1) == (partition.replicas, partition.isr, partition.leader)
