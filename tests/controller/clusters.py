"""A cluster to decide on: a state, brokers and topics in it, and commands run as the engine would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

from kraft import Message, Uuid
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.partitions.broker_changes import rules_for
from quorate.controller.partitions.new_partitions import usable_brokers
from quorate.controller.partitions.partition_change import PartitionTarget, partition_change
from quorate.errors import ApiError
from quorate.liveness import ControlState
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION, record_version
from quorate.placement import Racks, Random, place
from quorate.records import FeatureLevelRecord, decode_record, encode_record

T = TypeVar("T")

CLUSTER_ID = "v9qk2TIBRMqdAJaTG7SBSQ"
Topic = CreateTopicsRequest.CreatableTopic
Config = Topic.CreatableTopicConfig
Assignment = Topic.CreatableReplicaAssignment


def uuid(number: int) -> Uuid:
    """An id that is not reserved."""
    return Uuid((1 << 64 | abs(number)).to_bytes(16, "big"))


def directory(broker_id: int) -> Uuid:
    """The only log directory of a broker that is registered here."""
    return uuid(broker_id * 100 + 50)


class Cluster:
    """A state and the next offset. What is written here is applied at once: there is no log."""

    def __init__(self, level: int = 25, *, elr: bool = False, settings: ControllerSettings | None = None) -> None:
        self.state = ClusterState()
        self.settings = settings or ControllerSettings()
        self.next_offset = 0
        self._ids = count(1_000)
        features = [FeatureLevelRecord(METADATA_VERSION, level)]
        if elr:
            features.append(FeatureLevelRecord(ELR_VERSION, 1))
        self.apply(features)

    def apply(self, records: Iterable[Message]) -> None:
        """As they come off the log: written at the state's level, and read back."""
        level = self.state.features.record_level
        for record in records:
            value = encode_record(record, record_version(record, level))
            self.state.apply(decode_record(value), self.next_offset)
            self.next_offset += 1

    def decide(self, command: Command[T], now_ms: int = 0) -> Decision[T]:
        """What the command answers now."""
        return command(self.state, Moment(next_offset=self.next_offset, now_ms=now_ms))

    def write(self, command: Command[T]) -> T:
        """Decide and apply."""
        decision = self.decide(command)
        self.apply(decision.records)
        return decision.response

    def refusal(self, command: Command[Any]) -> ApiError:
        """The error that the command is refused with as a whole."""
        try:
            decision = self.decide(command)
        except ApiError as refused:
            return refused
        raise AssertionError(f"not refused: {decision}")

    def register(self, broker_id: int, **changes: Any) -> int:
        """Register a broker, fenced; its broker epoch."""
        request = registration(broker_id, **changes)
        response = self.write(
            register_broker(request, cluster_id=CLUSTER_ID, session_epoch=None, kraft_version=1, settings=self.settings)
        )
        return response.broker_epoch

    def change(self, broker_id: int, target: ControlState) -> ControlState:
        """Change a broker's state; the state it reaches."""
        broker = self.state.brokers.get(broker_id)
        assert broker is not None, broker_id
        command = change_broker_state(
            broker_id=broker_id, broker_epoch=broker.epoch, target=target, settings=self.settings
        )
        return self.write(command).state

    def brokers(self, *broker_ids: int) -> Cluster:
        """Register and unfence."""
        for broker_id in broker_ids:
            self.register(broker_id)
            self.unfence(broker_id)
        return self

    def unfence(self, broker_id: int) -> None:
        """It has caught up."""
        self.change(broker_id, ControlState.UNFENCED)

    def topic(self, name: str, *replicas: Sequence[int], **configs: str) -> Uuid:
        """Create a topic with these replicas, one list a partition; its id."""
        assignments = tuple(Assignment(i, tuple(brokers)) for i, brokers in enumerate(replicas))
        given = tuple(Config(config.replace("_", "."), value) for config, value in configs.items())
        response = self.create(Topic(name, -1, -1, assignments, given))
        assert response.topics[0].error_code == 0, response.topics[0]
        return response.topics[0].topic_id

    def create(self, *topics: Topic, random: Random | None = None, **changes: Any) -> CreateTopicsResponse:
        """Create topics, placed where need be."""
        request = CreateTopicsRequest(topics=topics, **changes)
        return self.write(self.creating(request, random))

    def creating(self, request: CreateTopicsRequest, random: Random | None = None) -> Command[CreateTopicsResponse]:
        """The command, with the placements that a driver would have got."""
        placements: dict[str, Any] = {}
        for name, spec in wanted_placements(self.state, request, self.settings):
            assert random is not None, f"{name} has to be placed"
            try:
                placements[name] = tuple(place(spec, Racks.of(usable_brokers(self.state)), random))
            except ApiError as refused:
                placements[name] = refused
        return create_topics(
            request, placements=placements, new_topic_id=lambda: uuid(next(self._ids)), settings=self.settings
        )

    def rejoin(self, name: str, partition_id: int, broker_id: int) -> None:
        """The leader says that this broker is in sync again."""
        partition = self.partition(name, partition_id)
        isr = tuple(replica for replica in partition.replicas if replica in (*partition.isr, broker_id))
        self.alter_isr(name, isr, partition_id)

    def alter_isr(self, name: str, isr: tuple[int, ...], partition_id: int = 0) -> None:
        """The leader says who is in sync, and that it has recovered."""
        topic, partition = self.state.topics.by_name(name), self.partition(name, partition_id)
        assert topic is not None, name
        rules = rules_for(self.state, name, partition, self.settings)
        change = partition_change(partition, topic.id, partition_id, PartitionTarget(isr=isr, recovered=True), rules)
        assert change is not None, (name, isr)
        self.apply([change])

    def partition(self, name: str, partition_id: int = 0) -> Partition:
        """A partition that exists."""
        topic = self.state.topics.by_name(name)
        assert topic is not None, name
        return topic.partitions[partition_id]


def registration(broker_id: int, *, incarnation: int = 0, **changes: Any) -> BrokerRegistrationRequest:
    """A request that a healthy broker of this schema sends."""
    feature = BrokerRegistrationRequest.Feature
    return BrokerRegistrationRequest(
        **{
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": uuid(broker_id * 100 + incarnation),
            "listeners": (BrokerRegistrationRequest.Listener("PLAINTEXT", f"broker-{broker_id}", 9092, 0),),
            "features": (
                feature(ELR_VERSION, 0, 1),
                feature("kraft.version", 0, 1),
                feature(METADATA_VERSION, 7, 33),
            ),
            "rack": None,
            "log_dirs": (directory(broker_id),),
            **changes,
        }
    )
