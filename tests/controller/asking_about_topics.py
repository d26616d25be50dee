"""Requests about topics and partitions as they might come, most of them such as the state can grant."""

from __future__ import annotations

from random import Random
from typing import Any

from kraft import Uuid
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.controller.partitions.new_partitions import Placements, usable_brokers
from quorate.errors import ApiError
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.placement import PlacementSpec, Racks, place

NAMES = ("a", "b", "a.b", "a_b", "orders")
Creation = CreateTopicsRequest.CreatableTopic
Config = Creation.CreatableTopicConfig
Altered = AlterPartitionRequest.TopicData


def new_id(chance: Random) -> Uuid:
    """An id that is not reserved."""
    return Uuid(b"\x01" + chance.randbytes(15))


def some_partition(chance: Random, state: ClusterState) -> TopicPartition | None:
    """One of those that there are."""
    found = sorted(state.topics.all(), key=lambda each: (each.topic.name, each.partition_id))
    return chance.choice(found) if found else None


def some_name(chance: Random, state: ClusterState) -> str:
    """Mostly of a topic that there is."""
    present = sorted(topic.name for topic in state.topics)
    return chance.choice(present) if present and chance.random() < 0.9 else chance.choice(NAMES)


def placed(chance: Random, state: ClusterState, wanted: tuple[tuple[str, PlacementSpec], ...]) -> Placements:
    """What a placer answers."""
    placements: dict[str, tuple[tuple[int, ...], ...] | ApiError] = {}
    for name, spec in wanted:
        try:
            placements[name] = tuple(place(spec, Racks.of(usable_brokers(state)), chance))
        except ApiError as refused:
            placements[name] = refused
    return placements


def ask_create_topics(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    topics = []
    for name in chance.sample(NAMES, chance.randrange(1, 4)):
        configs = [
            Config("min.insync.replicas", chance.choice(["1", "2"])),
            Config("unclean.leader.election.enable", chance.choice(["false", "true"])),
            Config("retention.ms", chance.choice(["-1", "1000", "soon"])),
        ]
        given = tuple(chance.sample(configs, chance.randrange(3)))
        topics.append(Creation(name, chance.randrange(1, 4), chance.randrange(1, 4), (), given))
    request = CreateTopicsRequest(topics=tuple(topics))
    return create_topics(
        request,
        placements=placed(chance, state, wanted_placements(state, request, settings)),
        new_topic_id=lambda: new_id(chance),
        settings=settings,
    )


def ask_create_partitions(chance: Random, state: ClusterState, _: ControllerSettings) -> Command[Any]:
    asked = CreatePartitionsRequest.CreatePartitionsTopic
    names = {some_name(chance, state) for _ in range(chance.randrange(1, 3))}
    request = CreatePartitionsRequest(topics=tuple(asked(name, chance.randrange(2, 7), None) for name in sorted(names)))
    return create_partitions(request, placements=placed(chance, state, wanted_more(state, request)))


def ask_delete_topics(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    names = [some_name(chance, state) for _ in range(chance.randrange(1, 3))]
    asked = DeleteTopicsRequest.DeleteTopicState
    by_id = [asked(None, topic_id) for name in names if (topic_id := state.topics.id_of(name)) is not None]
    topics = by_id if chance.random() < 0.5 else [asked(name) for name in names]
    return delete_topics(DeleteTopicsRequest(topics=tuple(topics)), settings=settings)


def ask_alter_partition(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    """As a leader asks: replicas have caught up, or fallen behind."""
    leaders = [found for found in state.topics.all() if found.partition.leader != NO_LEADER]
    if not leaders:
        return alter_partition(AlterPartitionRequest(1, 0), settings=settings)
    topic, partition_id, partition = chance.choice(sorted(leaders, key=lambda f: (f.topic.name, f.partition_id)))
    leader = state.brokers.get(partition.leader)
    assert leader is not None, partition
    isr = {partition.leader, *chance.sample(partition.replicas, chance.randrange(len(partition.replicas) + 1))}
    epochs = {broker: known.epoch for broker in isr if (known := state.brokers.get(broker)) is not None}
    data = Altered.PartitionData(
        partition_index=partition_id,
        leader_epoch=partition.leader_epoch,
        new_isr_with_epochs=tuple(
            Altered.PartitionData.BrokerState(broker, epochs.get(broker, -1))
            for broker in partition.replicas
            if broker in isr
        ),
        partition_epoch=partition.partition_epoch - (chance.random() < 0.1),
    )
    return alter_partition(
        AlterPartitionRequest(leader.id, leader.epoch, (Altered(topic.id, (data,)),)), settings=settings
    )


def ask_alter_partition_reassignments(
    chance: Random, state: ClusterState, settings: ControllerSettings
) -> Command[Any]:
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = []
    for _ in range(chance.randrange(1, 4)):
        found = some_partition(chance, state)
        if found is None or found.topic.name in {topic.name for topic in topics}:
            continue
        moves = found.partition.is_reassigning and chance.random() < 0.5
        replicas = None if moves else tuple(chance.sample(range(1, 5), chance.randrange(1, 4)))
        moved = AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition(found.partition_id, replicas)
        topics.append(AlterPartitionReassignmentsRequest.ReassignableTopic(found.topic.name, (moved,)))
    request = AlterPartitionReassignmentsRequest(topics=tuple(topics))
    return alter_partition_reassignments(request, settings=settings)


def ask_list_partition_reassignments(chance: Random, state: ClusterState, _: ControllerSettings) -> Command[Any]:
    asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = chance.choice([None, (asked(some_name(chance, state), (0, 1)),)])
    return list_partition_reassignments(ListPartitionReassignmentsRequest(topics=topics))


def ask_elect_leaders(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    asked = ElectLeadersRequest.TopicPartitions
    named = tuple(asked(name, (0, 1)) for name in sorted({some_name(chance, state), some_name(chance, state)}))
    request = ElectLeadersRequest(chance.randrange(2), chance.choice([None, named]))
    return elect_leaders(request, settings=settings)


def ask_assign_replicas_to_dirs(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    directory = AssignReplicasToDirsRequest.DirectoryData
    found = some_partition(chance, state)
    broker = state.brokers.get(chance.choice(found.partition.replicas)) if found else None
    if found is None or broker is None:
        return assign_replicas_to_dirs(AssignReplicasToDirsRequest(1, 0), settings=settings)
    moved = directory.TopicData(found.topic.id, (directory.TopicData.PartitionData(found.partition_id),))
    directories = (directory(chance.choice([*broker.log_dirs, new_id(chance)]), (moved,)),)
    return assign_replicas_to_dirs(AssignReplicasToDirsRequest(broker.id, broker.epoch, directories), settings=settings)


def ask_describe_topic_partitions(chance: Random, state: ClusterState, _: ControllerSettings) -> Command[Any]:
    asked = DescribeTopicPartitionsRequest
    topics = chance.choice([(), (asked.TopicRequest(some_name(chance, state)), asked.TopicRequest("a"))])
    cursor = chance.choice([None, asked.Cursor(some_name(chance, state), 1)])
    return describe_topic_partitions(asked(topics, chance.randrange(1, 5), cursor))
