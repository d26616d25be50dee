"""Who may lead, given brokers and directories; and how many in sync are enough."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Uuid
from quorate.controller.partitions.broker_changes import Rulebook, is_online, leaving, rules_for
from quorate.controller.partitions.partition_change import PartitionTarget, partition_change
from quorate.liveness import ControlState
from quorate.metadata.features import ELR_VERSION
from quorate.nouns import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from quorate.records import FeatureLevelRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.stories import SETTINGS, Step, Story, steps


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


@given(
    st.builds(lambda level, elr: Story(level, elr=elr).begin(), st.sampled_from([7, 25, 33]), st.booleans()), steps()
)
@settings(max_examples=40, deadline=None)
def test_what_a_broker_leaves_is_decided_partition_by_partition(story: Story, before: list[Step]) -> None:
    """None is passed over that would change: neither where it is the last ISR member of a partition without leader."""
    state = story.tell(before).state
    for broker_id in range(1, 5):
        others = {broker.id for broker in state.brokers.active()} - {broker_id}
        book = Rulebook(state, SETTINGS, others.__contains__)
        expected = []
        for topic, number, row in state.topics.in_isr(broker_id):
            wish = PartitionTarget(
                isr=tuple(id for id in row.isr if id != broker_id), election=book.election(topic.name)
            )
            change = partition_change(row, topic.id, number, wish, book.rules(topic.name, row))
            expected += [] if change is None else [change]

        assert expected == list(leaving(state, broker_id, SETTINGS))


def test_who_is_the_last_of_very_many_is_passed_over() -> None:
    """Without an ELR the last ISR member stays in the ISR when it is fenced: it leaves nothing a second time."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("alone", [1], [1])
    cluster.topic("any", [1, 2], unclean_leader_election_enable="true")
    cluster.alter_isr("any", (1,))
    cluster.change(2, ControlState.FENCED)
    cluster.change(1, ControlState.FENCED)
    waiting = list(leaving(cluster.state, 1, cluster.settings))
    cluster.unfence(2)

    assert ([], (2,)) == (waiting, cluster.partition("any").isr)
    assert [(1,), (1,)] == [cluster.partition("alone", number).isr for number in range(2)]
