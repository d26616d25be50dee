"""What happens to a cluster in its life: what brokers, leaders and people ask of its controller, one after the other.

Only requests are made up here, and chance says which come when. Every record is what our controller decides on the
state that there is, so whatever was asked, the log is one that could be. Most records come of brokers that go and come
back, as in real clusters: the controller decides for a thousand partitions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from random import Random
from typing import Final

from kraft import Uuid
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.activation import activate
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.partitions.new_partitions import Placements, usable_brokers
from quorate.controller.periodic import CHORES, ELECTIONS_PER_WRITE_MAX
from quorate.liveness import ControlState
from quorate.metadata.configs import TOPIC
from quorate.metadata.features import default_levels, supported_features
from quorate.metadata.topics import Topic, TopicPartition
from quorate.metadata.versions import LATEST, METADATA_VERSION
from quorate.nouns import NodeId
from quorate.placement import PlacementSpec, Racks, place
from quorate.records import FeatureLevelRecord
from tests.bench.synthetic import REPLICATION_FACTOR, Shape
from tests.bench.synthetic_node import CONTROLLERS, KRAFT_VERSION, Node, named_uuid

__all__ = ["Life"]

PER_ALTER_PARTITION_MAX: Final = 500
"""Partitions that a leader tells of in one request."""
SETTINGS: Final = ControllerSettings(num_partitions=1, default_replication_factor=REPLICATION_FACTOR)
CONFIGS: Final = {
    "retention.ms": ("3600000", "86400000", "604800000"),
    "min.insync.replicas": ("1", "2"),
    "cleanup.policy": ("delete", "compact"),
    "unclean.leader.election.enable": ("true", "false"),
    "max.message.bytes": ("1048588", "2097164"),
}
"""What is set on topics, and to what."""

_Asked = AlterPartitionRequest.TopicData.PartitionData
_CHORES: Final = {chore.name: chore for chore in CHORES}
_FEATURES: Final = tuple(
    BrokerRegistrationRequest.Feature(name, low, high)
    for name, (low, high) in sorted({**supported_features(), "kraft.version": (0, KRAFT_VERSION)}.items())
)


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that may happen: `weight` says how often, beside the others."""

    happen: Callable[[], None]
    weight: int


class Life:
    """One cluster of this shape. It is founded at once; `go_on` lets one thing happen."""

    def __init__(self, node: Node, shape: Shape, chance: Random) -> None:
        self._node = node
        self._shape = shape
        self._chance = chance
        self._incarnations = dict.fromkeys(range(shape.brokers), 0)
        self._topics_made = 0
        self._names: list[str] = []
        self._begin()
        found = self._events()
        self._happenings = [each.happen for each in found]
        self._weights = [each.weight for each in found]

    def go_on(self) -> None:
        """Something happens."""
        (happen,) = self._chance.choices(self._happenings, self._weights)
        happen()

    def _events(self) -> Sequence[_Event]:
        return (
            _Event(self._restart, 20),
            _Event(self._crash, 12),
            _Event(self._crash_of_several, 2),
            _Event(self._lag, 400),
            _Event(self._create_or_delete_topic, 30),
            _Event(self._grow_topic, 8),
            _Event(self._configure, 40),
            _Event(self._reassign, 20),
            _Event(self._allocate_producer_ids, 40),
            _Event(self._idle, 300),
            _Event(self._node.lead, 3),
        )

    # -- the beginning ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        levels = {METADATA_VERSION: LATEST, **default_levels(LATEST)}
        self._node.lead()
        first = tuple(FeatureLevelRecord(name, level) for name, level in levels.items())
        self._node.write(activate(first, SETTINGS), is_traced=False)
        for controller_id in CONTROLLERS:
            self._node.write(register_controller(_controller(self._node.cluster_id, controller_id)))
        for broker_id in range(self._shape.brokers):
            self._register(broker_id)
            self._change(broker_id, ControlState.UNFENCED)
        while self._node.state.topics.partition_count < self._shape.partitions:
            self._create_topic()

    # -- brokers ---------------------------------------------------------------------------------------

    def _restart(self) -> None:
        """A broker goes in order, and comes back: what a rolling upgrade does to each."""
        broker_id = self._chance.choice(self._active())
        self._change(broker_id, ControlState.CONTROLLED_SHUTDOWN)
        self._change(broker_id, ControlState.SHUTDOWN_NOW)
        self._come_back(broker_id, in_order=True)
        self._elect_preferred()

    def _crash(self) -> None:
        """A broker falls silent, and comes back."""
        broker_id = self._chance.choice(self._active())
        self._change(broker_id, ControlState.FENCED)
        self._come_back(broker_id, in_order=False)
        self._elect_preferred()

    def _crash_of_several(self) -> None:
        """As many as there are replicas: some partitions lose their last leader."""
        down = self._chance.sample(self._active(), REPLICATION_FACTOR)
        for broker_id in down:
            self._change(broker_id, ControlState.FENCED)
        self._chance.shuffle(down)
        for broker_id in down:
            self._come_back(broker_id, in_order=False)
        self._write_chore("elect leaders uncleanly")
        self._elect_preferred()

    def _come_back(self, broker_id: NodeId, *, in_order: bool) -> None:
        self._register(broker_id, in_order=in_order)
        self._change(broker_id, ControlState.UNFENCED)
        missing = [each for each in self._node.state.topics.with_replica(broker_id) if _lacks(each, broker_id)]
        self._tell(missing, lambda isr: (*isr, broker_id))

    def _register(self, broker_id: NodeId, *, in_order: bool = True) -> None:
        before = self._node.state.brokers.get(broker_id)
        self._incarnations[broker_id] += 1
        listener = BrokerRegistrationRequest.Listener("PLAINTEXT", f"broker-{broker_id}.example", 9092, 0)
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self._node.cluster_id,
            incarnation_id=named_uuid(self._node.cluster_id, broker_id, self._incarnations[broker_id]),
            listeners=(listener,),
            features=_FEATURES,
            rack=f"rack-{broker_id % self._shape.racks}",
            log_dirs=(named_uuid(self._node.cluster_id, broker_id, "directory"),),
            previous_broker_epoch=before.epoch if before is not None and in_order else -1,
        )
        self._node.write(
            register_broker(
                request,
                cluster_id=self._node.cluster_id,
                session_epoch=None,
                kraft_version=KRAFT_VERSION,
                settings=SETTINGS,
            )
        )

    def _change(self, broker_id: NodeId, target: ControlState) -> None:
        epoch = self._epoch(broker_id)
        self._node.write(change_broker_state(broker_id=broker_id, broker_epoch=epoch, target=target, settings=SETTINGS))

    def _active(self) -> list[NodeId]:
        return [broker.id for broker in self._node.state.brokers.active()]

    def _epoch(self, broker_id: NodeId) -> int:
        broker = self._node.state.brokers.get(broker_id)
        assert broker is not None, broker_id
        return broker.epoch

    # -- leaders ---------------------------------------------------------------------------------------

    def _lag(self) -> None:
        """A follower falls behind in some partitions of a topic, and catches up."""
        topic = self._topic()
        partitions = list(topic.partitions.items())
        broker_id = self._chance.choice(partitions[0][1].replicas)
        concerned = [
            partition_id
            for partition_id, partition in partitions
            if broker_id in partition.isr and partition.leader not in (broker_id, -1)
        ]
        self._tell(self._found(topic.id, concerned), lambda isr: tuple(each for each in isr if each != broker_id))
        self._tell(self._found(topic.id, concerned), lambda isr: (*isr, broker_id))

    def _tell(
        self, found: Iterable[TopicPartition], new_isr: Callable[[tuple[NodeId, ...]], tuple[NodeId, ...]]
    ) -> None:
        """Each leader tells of its partitions' ISRs, some hundreds in a request."""
        led = sorted(found, key=lambda each: each.partition.leader)
        for leader, of_leader in groupby(led, key=lambda each: each.partition.leader):
            every = list(of_leader)
            for start in range(0, len(every), PER_ALTER_PARTITION_MAX):
                self._alter(leader, every[start : start + PER_ALTER_PARTITION_MAX], new_isr)

    def _alter(
        self,
        leader: NodeId,
        found: Sequence[TopicPartition],
        new_isr: Callable[[tuple[NodeId, ...]], tuple[NodeId, ...]],
    ) -> None:
        member = AlterPartitionRequest.TopicData.PartitionData.BrokerState
        topics = tuple(
            AlterPartitionRequest.TopicData(
                topic_id,
                tuple(
                    _Asked(
                        partition_index=each.partition_id,
                        leader_epoch=each.partition.leader_epoch,
                        new_isr_with_epochs=tuple(
                            member(broker_id, self._epoch(broker_id)) for broker_id in new_isr(each.partition.isr)
                        ),
                        partition_epoch=each.partition.partition_epoch,
                    )
                    for each in of_topic
                ),
            )
            for topic_id, of_topic in groupby(found, key=lambda each: each.topic.id)
        )
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=self._epoch(leader), topics=topics)
        self._node.write(alter_partition(request, settings=SETTINGS))

    def _found(self, topic_id: Uuid, partition_ids: Iterable[int]) -> list[TopicPartition]:
        topic = self._node.state.topics.by_id(topic_id)
        assert topic is not None, topic_id
        return [TopicPartition(topic, partition_id, topic.partitions[partition_id]) for partition_id in partition_ids]

    # -- people ----------------------------------------------------------------------------------------

    def _create_or_delete_topic(self) -> None:
        if self._node.state.topics.partition_count > self._shape.partitions:
            name = self._names.pop(self._chance.randrange(len(self._names)))
            state = DeleteTopicsRequest.DeleteTopicState(name=name)
            self._node.write(delete_topics(DeleteTopicsRequest(topics=(state,)), settings=SETTINGS))
        else:
            self._create_topic()

    def _create_topic(self) -> None:
        self._topics_made += 1
        name = f"topic-{self._topics_made:06}"
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=self._chance.randint(1, 2 * self._shape.partitions_per_topic),
            replication_factor=REPLICATION_FACTOR,
        )
        request = CreateTopicsRequest(topics=(topic,))
        placements = self._placed(wanted_placements(self._node.state, request, SETTINGS))
        new_topic_id = partial(named_uuid, self._node.cluster_id, name)
        self._node.write(create_topics(request, placements=placements, new_topic_id=new_topic_id, settings=SETTINGS))
        self._names.append(name)

    def _grow_topic(self) -> None:
        topic = self._topic()
        asked = CreatePartitionsRequest.CreatePartitionsTopic(
            name=topic.name, count=len(topic.partitions) + self._chance.randint(1, 10), assignments=None
        )
        request = CreatePartitionsRequest(topics=(asked,))
        placements = self._placed(wanted_more(self._node.state, request))
        self._node.write(create_partitions(request, placements=placements))

    def _placed(self, wanted: Iterable[tuple[str, PlacementSpec]]) -> Placements:
        racks = Racks.of(usable_brokers(self._node.state))
        return {name: place(spec, racks, self._chance) for name, spec in wanted}

    def _configure(self) -> None:
        name = self._chance.choice(sorted(CONFIGS))
        change = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig(
            name, self._chance.choice((0, 0, 0, 1)), self._chance.choice(CONFIGS[name])
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, self._topic().name, (change,))
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        self._node.write(incremental_alter_configs(request, settings=SETTINGS))

    def _reassign(self) -> None:
        """Some partitions of a topic get another last replica; when it is in sync, the move ends."""
        topic = self._topic()
        ids = self._chance.sample(sorted(topic.partitions), min(10, len(topic.partitions)))
        goals = {found.partition_id: self._goal(found.partition.replicas) for found in self._found(topic.id, ids)}
        asked = AlterPartitionReassignmentsRequest.ReassignableTopic(
            topic.name,
            tuple(
                AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition(partition_id, goal)
                for partition_id, goal in goals.items()
            ),
        )
        request = AlterPartitionReassignmentsRequest(topics=(asked,))
        self._node.write(alter_partition_reassignments(request, settings=SETTINGS))
        for found in self._found(topic.id, goals):
            if found.partition.has_leader:
                self._tell([found], partial(_with, added=goals[found.partition_id][-1]))

    def _goal(self, replicas: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        others = [broker_id for broker_id in self._active() if broker_id not in replicas]
        return (*replicas[:-1], self._chance.choice(others))

    def _topic(self) -> Topic:
        topic = self._node.state.topics.by_name(self._chance.choice(self._names))
        assert topic is not None, self._names
        return topic

    # -- the rest --------------------------------------------------------------------------------------

    def _allocate_producer_ids(self) -> None:
        broker_id = self._chance.choice(self._active())
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=self._epoch(broker_id))
        self._node.write(allocate_producer_ids(request))

    def _idle(self) -> None:
        self._write_chore("write a no-op")

    def _elect_preferred(self) -> None:
        while self._write_chore("elect preferred leaders") == ELECTIONS_PER_WRITE_MAX:
            pass

    def _write_chore(self, name: str) -> int:
        return self._node.write(_CHORES[name].command(SETTINGS), is_traced=False)


def _lacks(found: TopicPartition, broker_id: NodeId) -> bool:
    """Is the broker out of sync, and is there a leader to say that it is back?"""
    return broker_id not in found.partition.isr and found.partition.has_leader


def _with(isr: tuple[NodeId, ...], *, added: NodeId) -> tuple[NodeId, ...]:
    return isr if added in isr else (*isr, added)


def _controller(cluster_id: str, controller_id: NodeId) -> ControllerRegistrationRequest:
    listener = ControllerRegistrationRequest.Listener("CONTROLLER", f"controller-{controller_id}.example", 9093, 0)
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=named_uuid(cluster_id, "controller", controller_id),
        listeners=(listener,),
        features=tuple(
            ControllerRegistrationRequest.Feature(each.name, each.min_supported_version, each.max_supported_version)
            for each in _FEATURES
        ),
    )
