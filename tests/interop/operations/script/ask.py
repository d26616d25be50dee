"""How the script words its requests: one short function for each API, with what most requests have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from kraft import Message, Uuid
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft.api.update_features import UpdateFeaturesRequest
from kraft.errors import ErrorCode
from quorate.metadata.features import supported_features
from quorate.nouns import NodeId
from tests.interop.operations.names import CLUSTER_ID, RACKS, directory, incarnation
from tests.interop.operations.step import Ask, View

Topic = CreateTopicsRequest.CreatableTopic
Ids: TypeAlias = Sequence[int]

TIMEOUT_MS = 10_000
PREFERRED, UNCLEAN = 0, 1
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def ask(
    name: str,
    request: Message | Callable[[View], Message],
    *errors: ErrorCode,
    masks: Collection[str] = (),
    version: int | None = None,
) -> Ask:
    """A step whose request needs nothing of the target, or is built from what it says."""
    build = request if callable(request) else lambda _: request
    return Ask(name=name, request=build, errors=frozenset(errors), masks=frozenset(masks), version=version)


def but_ours(step: Ask, *errors: ErrorCode) -> Ask:
    """The same step, which we answer with other errors than Kafka, by intent."""
    return replace(step, differs=frozenset(errors))


def is_so(step: Ask) -> Ask:
    """The same step, which asks for what is so already: Kafka writes it once more."""
    return replace(step, is_so_already=True)


# Brokers.


def register(name: str, broker_id: NodeId, *errors: ErrorCode, process: int = 0, **other: Any) -> Ask:
    """BrokerRegistration; `other` fields instead of those of a broker as it should be."""
    ranges: Mapping[str, tuple[int, int]] = other.pop("features", supported_features())
    listener = BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id % 1000)
    fields = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": incarnation(broker_id, process),
        "listeners": (listener,),
        "features": tuple(BrokerRegistrationRequest.Feature(each, *ranges[each]) for each in ranges),
        "rack": RACKS.get(broker_id),
        "log_dirs": (directory(broker_id), directory(broker_id, 1)),
    }
    return ask(name, BrokerRegistrationRequest(**{**fields, **other}), *errors)


def come_back(name: str, broker_id: NodeId, *, process: int, clean: bool) -> Ask:
    """BrokerRegistration of another process, once the session of the one before is over.

    After a `clean` stop it knows the broker epoch of the one before (KIP-966).
    """
    first = register(name, broker_id, process=process)

    def request(view: View) -> Message:
        return msgspec.structs.replace(
            first.request(view), previous_broker_epoch=view.broker_epoch(broker_id) if clean else -1
        )

    return replace(first, request=request, again_while=ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def beat(name: str, broker_id: NodeId, *errors: ErrorCode, masks: Collection[str] = (), **fields: Any) -> Ask:
    """BrokerHeartbeat of a broker that has applied all there is."""

    def request(view: View) -> BrokerHeartbeatRequest:
        usual = {
            "broker_id": broker_id,
            "broker_epoch": view.broker_epoch(broker_id),
            "current_metadata_offset": view.offset - 1,
        }
        return BrokerHeartbeatRequest(**{**usual, **fields})

    return ask(name, request, *errors, masks=masks)


# Topics.


def laid_out(name: str, *partitions: Ids, **configs: str | None) -> Topic:
    """A topic whose replicas the sender places."""
    assignments = (Topic.CreatableReplicaAssignment(number, tuple(each)) for number, each in enumerate(partitions))
    return topic(name, partitions=-1, factor=-1, assignments=tuple(assignments), **configs)


def topic(name: str, *, partitions: int = 1, factor: int = 1, assignments: Any = (), **configs: str | None) -> Topic:
    """A topic whose replicas the controller places; `_` in a config's name stands for a dot."""
    return Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=assignments,
        configs=tuple(Topic.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()),
    )


def create(name: str, *topics: Topic, errors: Collection[ErrorCode] = (), validate_only: bool = False) -> Ask:
    """CreateTopics; the id of a topic that is only tried is chance."""
    masks = ("topicId",) if validate_only else ()
    return ask(name, CreateTopicsRequest(topics=topics, validate_only=validate_only), *errors, masks=masks)


def delete(name: str, *names: str, errors: Collection[ErrorCode] = ()) -> Ask:
    """DeleteTopics by name."""
    states = tuple(DeleteTopicsRequest.DeleteTopicState(name=each) for each in names)
    return ask(name, DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS), *errors)


def delete_by_id(name: str, *names: str, errors: Collection[ErrorCode] = ()) -> Ask:
    """DeleteTopics by id."""

    def request(view: View) -> DeleteTopicsRequest:
        states = (DeleteTopicsRequest.DeleteTopicState(topic_id=view.topic_id(each)) for each in names)
        return DeleteTopicsRequest(topics=tuple(states), timeout_ms=TIMEOUT_MS)

    return ask(name, request, *errors)


def grow(
    name: str,
    topic_name: str,
    count: int,
    *errors: ErrorCode,
    assignments: Sequence[Ids] | None = None,
    validate_only: bool = False,
) -> Ask:
    """CreatePartitions of one topic."""
    kind = CreatePartitionsRequest.CreatePartitionsTopic
    placed = (
        None if assignments is None else tuple(kind.CreatePartitionsAssignment(tuple(each)) for each in assignments)
    )
    request = CreatePartitionsRequest((kind(topic_name, count, placed),), TIMEOUT_MS, validate_only)
    return ask(name, request, *errors)


# Partitions.


def alter_isr(
    name: str,
    topic_name: str,
    isr: Sequence[NodeId | tuple[NodeId, int]],
    *errors: ErrorCode,
    number: int = 0,
    leader: NodeId | None = None,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    broker_epoch: int | None = None,
    recovery: int = 0,
    version: int | None = None,
) -> Ask:
    """AlterPartition by the partition's leader.

    Epochs are added to what the target has; a member as (id, epoch) is sent with this broker epoch. Version 2 has no
    room for those.
    """
    asked = AlterPartitionRequest.TopicData.PartitionData

    def request(view: View) -> AlterPartitionRequest:
        found = view.state.topics.partition(view.topic_id(topic_name), number)
        sender = leader if leader is not None else (found.leader if found else 101)
        pairs = [each if isinstance(each, tuple) else (each, view.broker_epoch(each)) for each in isr]
        partition = asked(
            partition_index=number,
            leader_epoch=(found.leader_epoch if found else 0) + leader_epoch,
            new_isr=tuple(member for member, _ in pairs) if version == 2 else (),
            new_isr_with_epochs=() if version == 2 else tuple(asked.BrokerState(*pair) for pair in pairs),
            leader_recovery_state=recovery,
            partition_epoch=(found.partition_epoch if found else 0) + partition_epoch,
        )
        return AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=view.broker_epoch(sender) if broker_epoch is None else broker_epoch,
            topics=(AlterPartitionRequest.TopicData(view.topic_id(topic_name), (partition,)),),
        )

    return ask(name, request, *errors, version=version)


def elect(
    name: str,
    election_type: int,
    wanted: Mapping[str, Ids] | None,
    *errors: ErrorCode,
) -> Ask:
    """ElectLeaders; None for all partitions there are."""
    kind = ElectLeadersRequest.TopicPartitions
    which = None if wanted is None else tuple(kind(each, tuple(numbers)) for each, numbers in wanted.items())
    return ask(name, ElectLeadersRequest(election_type=election_type, topic_partitions=which), *errors)


def reassign(
    name: str,
    topic_name: str,
    replicas: Ids | None,
    *errors: ErrorCode,
    number: int = 0,
    may_change: bool = True,
) -> Ask:
    """AlterPartitionReassignments of one partition; None calls it off."""
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    wanted = kind.ReassignablePartition(number, None if replicas is None else tuple(replicas))
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change, topics=(kind(topic_name, (wanted,)),)
    )
    return ask(name, request, *errors)


def list_moves(name: str, wanted: Mapping[str, Ids] | None, *errors: ErrorCode) -> Ask:
    """ListPartitionReassignments; None for all."""
    kind = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = None if wanted is None else tuple(kind(each, tuple(numbers)) for each, numbers in wanted.items())
    return ask(name, ListPartitionReassignmentsRequest(topics=topics), *errors)


def assign_dirs(
    name: str,
    broker_id: NodeId,
    where: Mapping[Uuid, Mapping[str, Ids]],
    *errors: ErrorCode,
    broker_epoch: int | None = None,
) -> Ask:
    """AssignReplicasToDirs: directory → topic → partitions."""
    of_directory = AssignReplicasToDirsRequest.DirectoryData
    of_topic = of_directory.TopicData

    def request(view: View) -> AssignReplicasToDirsRequest:
        directories = tuple(
            of_directory(
                where_id,
                tuple(
                    of_topic(view.topic_id(each), tuple(map(of_topic.PartitionData, numbers)))
                    for each, numbers in topics.items()
                ),
            )
            for where_id, topics in where.items()
        )
        epoch = view.broker_epoch(broker_id) if broker_epoch is None else broker_epoch
        return AssignReplicasToDirsRequest(broker_id, epoch, directories)

    return ask(name, request, *errors)


# The cluster.


def allocate_ids(name: str, broker_id: NodeId, *errors: ErrorCode, broker_epoch: int | None = None) -> Ask:
    """AllocateProducerIds."""

    def request(view: View) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(
            broker_id, view.broker_epoch(broker_id) if broker_epoch is None else broker_epoch
        )

    return ask(name, request, *errors)


def update(name: str, *changes: tuple[str, int, int], errors: Collection[ErrorCode] = (), dry: bool = False) -> Ask:
    """UpdateFeatures: (feature, level, how)."""
    updates = tuple(
        UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=how)
        for feature, level, how in changes
    )
    return ask(name, UpdateFeaturesRequest(feature_updates=updates, validate_only=dry), *errors)
