"""After any command that follows any other, partitions, ids and feature levels are what they may be (I-44 to I-53)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.records import ProducerIdsRecord, RegisterBrokerRecord
from tests.controller.rules import check, check_change, partitions
from tests.controller.stories import Step, Story, steps

BEGINNINGS = st.builds(lambda level, elr: Story(level, elr=elr).begin(), st.sampled_from([25, 30, 33]), st.booleans())
A_FEW = settings(max_examples=40, deadline=None)


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
