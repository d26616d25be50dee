"""After any command that follows any other, partitions, ids and feature levels are what they may be (I-44 to I-53)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.metadata.partitions import NO_LEADER, RECOVERING, Partition
from quorate.metadata.state import ClusterState
from quorate.records import ProducerIdsRecord, RegisterBrokerRecord
from tests.controller.stories import SETTINGS, Step, Story, steps

BEGINNINGS = st.builds(lambda level, elr: Story(level, elr=elr).begin(), st.sampled_from([25, 30, 33]), st.booleans())
A_FEW = settings(max_examples=40, deadline=None)

Key = tuple[bytes, int]


@given(BEGINNINGS, steps())
@A_FEW
def test_partitions_are_what_they_may_be(story: Story, taken: list[Step]) -> None:
    before = partitions(story.state)
    for step in taken:
        story.take(step)
        after = partitions(story.state)
        for key, partition in after.items():
            check(story.state, key, partition)
            check_change(before.get(key, partition), partition)
        before = after


def partitions(state: ClusterState) -> dict[Key, Partition]:
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


@given(BEGINNINGS, steps())
@A_FEW
def test_ids_and_epochs_are_given_once(story: Story, taken: list[Step]) -> None:
    """I-44; topic ids are random.

    A broker's epoch is where the batch begins that registers it; asked twice in one life, it keeps it.
    """
    records = [(batch, record) for batch in story.tell(taken).batches for record in batch.records]
    producer_ids = [record.next_producer_id for _, record in records if isinstance(record, ProducerIdsRecord)]
    lives: dict[tuple[int, bytes], int] = {}
    epochs: dict[int, int] = {}
    for batch, record in records:
        if isinstance(record, RegisterBrokerRecord):
            life = record.broker_id, record.incarnation_id

            assert record.broker_epoch in (batch.base_offset, lives.get(life)), (batch.base_offset, record)
            assert record.broker_epoch >= epochs.get(record.broker_id, 0), (epochs, record)
            lives[life] = epochs[record.broker_id] = record.broker_epoch

    assert sorted(set(producer_ids)) == producer_ids


@given(BEGINNINGS, steps())
@A_FEW
def test_everybody_who_is_registered_supports_every_level(story: Story, taken: list[Step]) -> None:
    """I-45."""
    state = story.tell(taken).state
    for name, level in state.features.finalized().items():
        for broker in state.brokers:
            assert broker.supports(name, level), (broker, name, level)
