"""A log that another program wrote, or a person edited, may have any partitions: no decision fails on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kraft import Uuid
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.engine.decision import Command
from quorate.controller.periodic import CHORES
from quorate.errors import ApiError
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER
from quorate.records import ConfigRecord, PartitionRecord, TopicRecord
from tests.controller.clusters import CLUSTER_ID, Cluster, directory, registration, uuid

TOPIC = uuid(7)
NAME = "foreign"
BROKERS = (1, 2, 3)
MEMBERS = st.integers(0, 4)
"""Two of them are not registered."""
LISTS = st.lists(MEMBERS, max_size=4).map(tuple)
ANYTHING: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    replicas=st.lists(MEMBERS, min_size=1, max_size=4).map(tuple),
    isr=LISTS,
    removing_replicas=LISTS,
    adding_replicas=LISTS,
    eligible_leader_replicas=LISTS,
    last_known_elr=LISTS,
    leader=st.integers(NO_LEADER, 4),
    leader_recovery_state=st.integers(0, 1),
)
"""The lists of a partition: with members twice, members that are no replicas, a leader that is not in sync."""


def cluster_with(partitions: list[dict[str, Any]], *, elr: bool, unclean: bool, min_isr: int) -> Cluster:
    cluster = Cluster(25, elr=elr).brokers(*BROKERS)
    cluster.apply([TopicRecord(NAME, TOPIC), ConfigRecord(2, NAME, "min.insync.replicas", str(min_isr))])
    cluster.apply([ConfigRecord(2, NAME, "unclean.leader.election.enable", str(unclean).lower())])
    for number, fields in enumerate(partitions):
        directories = tuple(directory(broker) for broker in fields["replicas"])
        cluster.apply([PartitionRecord(number, TOPIC, directories=directories, **fields)])
    return cluster


def commands(cluster: Cluster, broker_id: int, replicas: tuple[int, ...], lost: Uuid) -> Iterator[Command[Any]]:
    """What brokers, operators and chores may ask of the partitions, one after the other: each as the last left them."""
    settings = cluster.settings
    numbers = tuple(cluster.state.topics.by_id(TOPIC).partitions)  # type: ignore[union-attr]  # it is there
    yield alter_partition(in_sync(cluster, broker_id, replicas), settings=settings)
    move = AlterPartitionReassignmentsRequest.ReassignableTopic
    for wanted in (replicas, None):
        moves = tuple(move.ReassignablePartition(number, wanted) for number in numbers)
        yield alter_partition_reassignments(
            AlterPartitionReassignmentsRequest(topics=(move(NAME, moves),)), settings=settings
        )
    in_directory = AssignReplicasToDirsRequest.DirectoryData
    there = in_directory.TopicData(TOPIC, tuple(map(in_directory.TopicData.PartitionData, numbers)))
    yield assign_replicas_to_dirs(
        AssignReplicasToDirsRequest(broker_id, epoch_of(cluster, broker_id), (in_directory(lost, (there,)),)),
        settings=settings,
    )
    for election in (0, 1):
        yield elect_leaders(ElectLeadersRequest(election_type=election, topic_partitions=None), settings=settings)
    for chore in CHORES:
        yield chore.command(settings)
    for target in ControlState:
        yield change_broker_state(
            broker_id=broker_id,
            broker_epoch=epoch_of(cluster, broker_id),
            target=target,
            settings=settings,
            offline_log_dirs=(directory(broker_id),),
        )
    yield register_broker(
        registration(broker_id, incarnation=9),
        cluster_id=CLUSTER_ID,
        session_epoch=None,
        kraft_version=1,
        settings=settings,
    )
    yield unregister_broker(UnregisterBrokerRequest(broker_id), settings=settings)


def epoch_of(cluster: Cluster, broker_id: int) -> int:
    """The broker epoch of the present registration."""
    broker = cluster.state.brokers.get(broker_id)
    assert broker is not None, broker_id
    return broker.epoch


def in_sync(cluster: Cluster, broker_id: int, isr: tuple[int, ...]) -> AlterPartitionRequest:
    """The broker reports this ISR of each partition, in its present epochs."""
    topic = AlterPartitionRequest.TopicData
    partitions = cluster.state.topics.by_id(TOPIC).partitions  # type: ignore[union-attr]  # it is there
    asked = tuple(
        topic.PartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr=isr,
            leader_recovery_state=partition.leader_recovery_state if len(isr) == 1 else 0,
            partition_epoch=partition.partition_epoch,
        )
        for number, partition in partitions.items()
    )
    return AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=epoch_of(cluster, broker_id), topics=(topic(TOPIC, asked),)
    )


@given(
    partitions=st.lists(ANYTHING, min_size=1, max_size=4),
    elr=st.booleans(),
    unclean=st.booleans(),
    min_isr=st.integers(1, 3),
    broker_id=st.sampled_from(BROKERS),
    fenced=st.sampled_from((None, *BROKERS)),
    isr=st.lists(MEMBERS, min_size=1, max_size=3).map(tuple),
    lost=st.sampled_from((directory(1), uuid(1))),
)
def test_any_partition_is_decided_on_and_stays_replayable(
    partitions: list[dict[str, Any]],
    elr: bool,
    unclean: bool,
    min_isr: int,
    broker_id: int,
    fenced: int | None,
    isr: tuple[int, ...],
    lost: Uuid,
) -> None:
    cluster = cluster_with(partitions, elr=elr, unclean=unclean, min_isr=min_isr)
    if fenced is not None:
        cluster.change(fenced, ControlState.FENCED)

    for command in commands(cluster, broker_id, isr, lost):
        try:
            cluster.write(command)
        except ApiError:
            continue

    assert broker_id not in cluster.state.brokers  # the last command was decided, on what the others have left
