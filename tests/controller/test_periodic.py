"""Chores: what an active controller does by itself."""

from __future__ import annotations

import pytest

from kraft import Message
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Moment, steps_of
from quorate.controller.periodic import AGAIN_MS, CHORES, LOOKED_AT_PER_STEP, PeriodicTask
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER
from quorate.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord, NoOpRecord, PartitionChangeRecord
from tests.controller.clusters import Cluster, directory


def chore(name: str) -> PeriodicTask:
    return next(chore for chore in CHORES if chore.name == name)


def leaderless() -> Cluster:
    """Broker 1 alone is in sync, and gone; 2 is there."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2])
    cluster.change(2, ControlState.FENCED)
    cluster.change(1, ControlState.FENCED)
    cluster.change(2, ControlState.UNFENCED)
    assert cluster.partition("t").leader == NO_LEADER
    return cluster


def test_a_no_op_every_half_second_is_a_sign_of_life() -> None:
    """KIP-835; also while the cluster is busy, as Kafka's registerWriteNoOpRecord."""
    no_op = chore("write a no-op")
    cluster = Cluster(25)

    assert no_op.interval_ms == 500
    assert no_op.is_due(cluster.state)
    cluster.apply([ConfigRecord(2, "t", "retention.ms", "1")])
    assert no_op.is_due(cluster.state)
    assert cluster.decide(no_op.command(cluster.settings)).records == (NoOpRecord(),)


def test_elects_uncleanly_once_the_topic_allows_it() -> None:
    cluster, elects = leaderless(), chore("elect leaders uncleanly")

    assert elects.is_due(cluster.state)
    assert cluster.write(elects.command(cluster.settings)) == 0
    cluster.apply([ConfigRecord(2, "t", "unclean.leader.election.enable", "true")])
    assert cluster.write(elects.command(cluster.settings)) == 1
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)
    assert not elects.is_due(cluster.state)


def test_the_operator_may_allow_it_for_all_topics() -> None:
    cluster = leaderless()
    settings = ControllerSettings(static_configs={"unclean.leader.election.enable": "true"})

    assert cluster.write(chore("elect leaders uncleanly").command(settings)) == 1


def test_the_preferred_leader_leads_again_once_it_is_in_sync() -> None:
    cluster, elects = Cluster(25).brokers(1, 2), chore("elect preferred leaders")
    topic_id = cluster.topic("t", [1, 2])
    assert not elects.is_due(cluster.state)
    cluster.change(1, ControlState.FENCED)
    cluster.change(1, ControlState.UNFENCED)

    assert elects.is_due(cluster.state)
    assert cluster.write(elects.command(cluster.settings)) == 0  # not in sync
    cluster.apply([PartitionChangeRecord(0, topic_id, isr=(2, 1))])
    assert cluster.write(elects.command(cluster.settings)) == 1
    assert cluster.partition("t").leader == 1


def test_a_bite_at_a_time() -> None:
    """So that others need not wait for a million elections."""
    cluster = Cluster(25).brokers(1, 2)
    topic_id = cluster.topic("t", *[[1, 2]] * 1_200)
    cluster.change(1, ControlState.FENCED)
    cluster.change(1, ControlState.UNFENCED)
    cluster.apply(PartitionChangeRecord(number, topic_id, isr=(2, 1)) for number in range(1_200))
    command = chore("elect preferred leaders").decide(cluster.settings)

    assert [cluster.write(command) for _ in range(3)] == [1_000, 200, 0]


def test_partitions_that_cannot_be_helped_are_looked_at_in_steps() -> None:
    """While a broker is away, all that it should lead are imbalanced."""
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", *[[1, 2]] * (2 * LOOKED_AT_PER_STEP))
    cluster.change(1, ControlState.FENCED)
    for name in ("elect preferred leaders", "elect leaders uncleanly"):
        decided = chore(name).decide(cluster.settings)
        steps = steps_of(decided, cluster.state, Moment(next_offset=cluster.next_offset, now_ms=0))

        assert [None, None] == list(steps)


def waiting(*, elr: bool) -> Cluster:
    """Partition 0 moves from 2 and 1 to 2 and 3; 2 is lost. 3 is in sync, but without 1 there is one copy fewer."""
    cluster = Cluster(25, elr=elr).brokers(1, 2, 3)
    cluster.apply([ConfigRecord(4, "", "min.insync.replicas", "2")])
    topic_id = cluster.topic("t", [2, 1])
    cluster.change(2, ControlState.FENCED)
    cluster.register(2, incarnation=1)  # after an unclean stop: it is in no ELR
    directories = tuple(map(directory, (2, 3, 1)))
    move = PartitionChangeRecord(
        0, topic_id, replicas=(2, 3, 1), adding_replicas=(3,), removing_replicas=(1,), directories=directories
    )
    cluster.apply([move])
    cluster.alter_isr("t", (1, 3))
    return cluster


@pytest.mark.parametrize(
    ("elr", "deed"),
    [
        pytest.param(False, ConfigRecord(4, "", "min.insync.replicas", "1"), id="lower min.insync.replicas"),
        pytest.param(True, ClearElrRecord("t"), id="a cleared ELR"),
        pytest.param(True, FeatureLevelRecord("eligible.leader.replicas.version", 0), id="no ELR"),
    ],
)
def test_a_reassignment_that_waits_for_copies_ends_once_fewer_are_enough(elr: bool, deed: Message) -> None:
    """None of these changes the partition."""
    cluster, completes = waiting(elr=elr), chore("complete reassignments")
    if elr:
        cluster.change(1, ControlState.FENCED)  # which is then in the ELR, and has what 3 has

    assert (completes.is_due(cluster.state), cluster.write(completes.command(cluster.settings))) == (True, 0)
    cluster.apply([deed])
    assert cluster.write(completes.command(cluster.settings)) == 1
    partition = cluster.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (3,), 3)
    assert (False, False) == (partition.is_reassigning, completes.is_due(cluster.state))


@pytest.mark.parametrize(
    ("name", "written", "again"),
    [
        ("elect preferred leaders", 1_000, True),
        ("elect preferred leaders", 999, False),
        ("elect preferred leaders", 0, False),
        ("elect leaders uncleanly", 1_000, True),
        ("elect leaders uncleanly", 1, False),
        ("expire tokens", 1_000, True),
        ("expire tokens", 999, False),
        # It is never at an end, and not behind with anything.
        ("write a no-op", 1, False),
    ],
)
def test_goes_on_at_once_after_a_whole_bite_and_else_after_its_interval(name: str, written: int, again: bool) -> None:
    """Kafka's tasks answer whether they took as much as they may, and then are run again after 10 ms."""
    assert chore(name).pause_ms(interval_ms=300_000, written=written) == (AGAIN_MS if again else 300_000)
    assert AGAIN_MS == 10


def test_only_what_is_not_led_as_it_should_be_is_looked_at() -> None:
    """Kafka's imbalancedPartitions: those of brokers that are away too, until these are back."""
    cluster, elects = Cluster(25).brokers(1, 2, 3), chore("elect preferred leaders")
    cluster.topic("t", [1, 2], [2, 3], [3, 1])
    assert not elects.is_due(cluster.state)
    cluster.change(1, ControlState.FENCED)

    assert elects.is_due(cluster.state)
    assert [("t", 0)] == [(found.topic.name, found.partition_id) for found in cluster.state.topics.imbalanced()]
    assert cluster.write(elects.command(cluster.settings)) == 0
    cluster.change(1, ControlState.UNFENCED)
    cluster.rejoin("t", 0, 1)
    assert cluster.write(elects.command(cluster.settings)) == 1
    assert not elects.is_due(cluster.state)
