"""What partitions may be, and become, whatever is written (I-44 to I-53): asserted of a state, and of two."""

from __future__ import annotations

from quorate.metadata.partitions import NO_LEADER, RECOVERING, Partition
from quorate.metadata.state import ClusterState
from tests.controller.stories import SETTINGS

Key = tuple[bytes, int]


def partitions(state: ClusterState) -> dict[Key, Partition]:
    """All of them, by topic id and number."""
    return {(found.topic.id, found.partition_id): found.partition for found in state.topics.all()}


def check(state: ClusterState, key: Key, partition: Partition) -> None:
    """One partition as it is."""
    isr, elr, last_known = set(partition.isr), set(partition.elr), set(partition.last_known_elr)
    replicas = set(partition.replicas)

    assert isr | elr | last_known <= replicas, partition  # I-46
    assert set(partition.adding_replicas) | set(partition.removing_replicas) <= replicas, partition  # I-46
    assert not set(partition.adding_replicas) & set(partition.removing_replicas), partition  # I-46
    assert partition.leader in (NO_LEADER, *isr), partition  # I-47
    assert isr.isdisjoint(elr | last_known), partition  # I-48
    assert partition.leader == NO_LEADER or state.brokers.is_active(partition.leader), partition  # I-53
    if state.features.elr_enabled and len(isr) >= min_isr(state, key):
        assert not elr, partition  # I-49
        # An ISR whose directories are all offline has no leader, and the last one is remembered, as in Kafka.
        assert not last_known or partition.leader == NO_LEADER, partition  # I-49
    if len(isr) > 1:
        assert partition.leader_recovery_state != RECOVERING, partition  # I-55
        assert all(state.brokers.is_active(broker) for broker in isr), partition  # I-53


def min_isr(state: ClusterState, key: Key) -> int:
    topic = state.topics.by_id(key[0])  # type: ignore[arg-type]
    assert topic is not None, key
    return min(SETTINGS.min_insync_replicas(state, topic.name), len(topic.partitions[key[1]].replicas))


def check_change(before: Partition, after: Partition) -> None:
    """One partition before a step and after it."""
    assert after.partition_epoch >= before.partition_epoch, (before, after)  # I-50
    assert (after.partition_epoch == before.partition_epoch) == (after == before), (before, after)  # I-50
    assert after.leader_epoch >= before.leader_epoch, (before, after)  # I-51
    assert after.leader == before.leader or after.leader_epoch > before.leader_epoch, (before, after)  # I-51
