"""The real controller engine in the abstract controller's place: brokers get its metadata records.

Every write is decided, appended and committed at once, but for those that a failover loses: they are applied
provisionally, and taken back when another controller begins. The record's offset is the brokers' applied offset.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from kraft import Uuid
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.configs import TOPIC as TOPIC_CONFIGS
from quorate.metadata.features import supported_features
from quorate.metadata.partitions import RECOVERED, RECOVERING, Partition
from quorate.metadata.state import ClusterState
from quorate.records import ConfigRecord, FeatureLevelRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from quorate.replication import Altered, BrokerStanding, PartitionRegistration, Proposal
from services.broker.partitions import registration_of
from tests.sim.invariants.base import Violation
from tests.sim_replication.controller import Entry, Standing

T = TypeVar("T")

CLUSTER: Final = "simulated-cluster-idAA"
TOPIC: Final = Uuid(bytes(range(16)))
LEVEL: Final = 29
"""4.2-IV1."""
SETTINGS: Final = ControllerSettings()
LOST_SHARE: Final = 0.08
"""Of the writes: so many end with their controller."""

_Topic = AlterPartitionRequest.TopicData
_Partition = _Topic.PartitionData
_Reassigned = AlterPartitionReassignmentsRequest.ReassignableTopic


class Elections(NamedTuple):
    """Whether the ELR is on (KIP-966), and the topic's unclean.leader.election.enable."""

    has_elr: bool = True
    are_unclean: bool = False


CLEAN: Final = Elections()


class EngineController:
    """The same door as `Controller`; `log` has an entry, or None, for each metadata record."""

    def __init__(
        self,
        *,
        replicas: tuple[int, ...],
        min_isr: int,
        chance: Random,
        elections: Elections,
        first: tuple[int, ...] | None = None,
    ) -> None:
        """`replicas` are the brokers; `first` those that have the partition in the beginning, all if none are given."""
        self.replicas = replicas
        self.min_isr = min_isr
        self._first = first or replicas
        self.log: list[Entry | None] = []
        self.heard_at_ms = dict.fromkeys(replicas, 0)
        self.failovers = 0
        self.unclean_epochs: tuple[int, ...] = ()
        """The leader epochs that began with a leader of neither ISR nor ELR."""
        self._elections = elections
        self._is_asked = False
        self._chance = chance
        self._directories = {broker: _uuid(100 + broker) for broker in replicas}
        self._incarnations = 0
        self._registered_at: dict[int, int] = {}
        self._engine = Engine(ClusterState())
        self._told: dict[int, BrokerStanding] = {}
        self._told_partition: PartitionRegistration | None = None
        records = tuple(self._first_records())
        self._engine.replay(records, base_offset=0, end_offset=len(records))
        self._engine.claim(1, len(records))
        self._tell(len(records))
        self._registered_at = dict.fromkeys(replicas, len(records))

    @property
    def partition(self) -> PartitionRegistration:
        """As the committed state has it."""
        return registration_of(self._partition)

    @property
    def elr(self) -> frozenset[int]:
        return frozenset(self._partition.elr)

    @property
    def is_reassigning(self) -> bool:
        return self._partition.is_reassigning

    @property
    def adding(self) -> frozenset[int]:
        """Those that come."""
        return frozenset(self._partition.adding_replicas)

    @property
    def standings(self) -> dict[int, BrokerStanding]:
        return {
            each.id: BrokerStanding(
                epoch=each.epoch, is_fenced=each.fenced, is_shutting_down=each.in_controlled_shutdown
            )
            for each in self._state.brokers
        }

    def has_applied(self, broker: int, applied: int) -> bool:
        """Whether a broker that has applied so much has applied its own registration."""
        return applied >= self._registered_at[broker]

    # What brokers, operators and time ask

    def register(self, broker: int, *, is_clean: bool, now_ms: int) -> int:
        """Another process of a broker: asked again until it is not lost. Returns its broker epoch."""
        self._incarnations += 1
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=CLUSTER,
            incarnation_id=_uuid(1_000 + self._incarnations),
            listeners=(BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="broker", port=9092),),
            features=tuple(
                BrokerRegistrationRequest.Feature(name, *levels) for name, levels in supported_features().items()
            ),
            log_dirs=(self._directories[broker],),
            previous_broker_epoch=self.standings[broker].epoch if is_clean else -1,
        )
        command = register_broker(request, cluster_id=CLUSTER, session_epoch=None, kraft_version=1, settings=SETTINGS)
        while (answer := self._write(command, unclean=None if is_clean else broker)) is None:
            pass
        self._registered_at[broker] = len(self.log)
        self.heard_at_ms[broker] = now_ms
        return int(answer.broker_epoch)

    def unfence(self, broker: int, epoch: int) -> None:
        """The broker has applied its own registration."""
        standing = self.standings[broker]
        if standing.epoch == epoch and standing.is_fenced:
            self._move(broker, epoch, ControlState.UNFENCED)

    def fence_silent(self, now_ms: int, session_ms: int) -> None:
        """Fences the brokers that were not heard for so long."""
        for broker, heard_at_ms in self.heard_at_ms.items():
            standing = self.standings[broker]
            if now_ms - heard_at_ms > session_ms and not standing.is_fenced:
                self._move(broker, standing.epoch, ControlState.FENCED)

    def move_leader(self, broker: int) -> None:
        """An election that an operator asks for: of the preferred leader, for any `broker`."""
        topics = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=(0,))
        self._write(elect_leaders(ElectLeadersRequest(election_type=0, topic_partitions=(topics,)), settings=SETTINGS))

    def elect_uncleanly(self) -> None:
        """What an operator asks for while nobody leads; refused otherwise."""
        topics = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=(0,))
        self._is_asked = True
        self._write(elect_leaders(ElectLeadersRequest(election_type=1, topic_partitions=(topics,)), settings=SETTINGS))
        self._is_asked = False

    def reassign(self, target: tuple[int, ...] | None) -> bool:
        """AlterPartitionReassignments; None cancels. False if it is refused, or its controller fails over meanwhile."""
        partition = _Reassigned.ReassignablePartition(partition_index=0, replicas=target)
        request = AlterPartitionReassignmentsRequest(topics=(_Reassigned(name="orders", partitions=(partition,)),))
        answer = self._write(alter_partition_reassignments(request, settings=SETTINGS))
        return answer is not None and not answer.responses[0].partitions[0].error_code

    def alter(self, sender: int, broker_epoch: int, proposal: Proposal) -> Altered | ErrorCode:
        """AlterPartition; NOT_CONTROLLER if its controller fails over meanwhile."""
        asked = _Partition(
            partition_index=0,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=tuple(_Partition.BrokerState(member, epoch) for member, epoch in proposal.isr),
            leader_recovery_state=RECOVERED,
        )
        request = AlterPartitionRequest(
            broker_id=sender, broker_epoch=broker_epoch, topics=(_Topic(topic_id=TOPIC, partitions=(asked,)),)
        )
        try:
            members = frozenset(member for member, _ in proposal.isr)
            answer = self._write(alter_partition(request, settings=SETTINGS), joining=members)
        except ApiError as refusal:
            return refusal.code
        if answer is None:
            return ErrorCode.NOT_CONTROLLER
        ((found,),) = (topic.partitions for topic in answer.topics)
        if found.error_code:
            return ErrorCode(found.error_code)
        return Altered(
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
            isr=frozenset(found.isr),
            is_recovering=found.leader_recovery_state == RECOVERING,
        )

    # The engine

    @property
    def _partition(self) -> Partition:
        topic = self._state.topics.by_id(TOPIC)
        assert topic is not None  # nobody deletes it
        return topic.partitions[0]

    @property
    def _state(self) -> ClusterState:
        return self._engine.state

    def _move(self, broker: int, epoch: int, target: ControlState) -> None:
        self._write(change_broker_state(broker_id=broker, broker_epoch=epoch, target=target, settings=SETTINGS))

    def _write(
        self, command: Command[Any], *, unclean: int | None = None, joining: frozenset[int] = frozenset()
    ) -> Any:
        """Returns the response once it is committed; None if the controller fails first. Raises ApiError.

        `unclean` is the broker that has lost records, as the command says; `joining` is the ISR that a leader proposes,
        of whom one may lead at once, where a reassignment completes with it.
        """
        engine, before = self._engine, self._partition
        engine.write(None, command, now_ms=0)
        if self._chance.random() < LOST_SHARE:
            self.failovers += 1
            assert engine.epoch is not None
            epoch = engine.epoch + 1
            engine.renounce()
            engine.ready()
            engine.claim(epoch, engine.next_offset)
            return None
        end = engine.next_offset
        engine.note_appended(end)
        engine.commit(end)
        (answer,) = engine.ready().answers
        self._note_election(before, unclean, joining)
        self._tell(end)
        if answer.error is not None:
            raise answer.error
        return answer.response

    def _note_election(self, before: Partition, unclean: int | None, joining: frozenset[int]) -> None:
        after = self._partition
        complete = {*before.isr, *before.elr, *joining} - ({unclean} if self._elections.has_elr else set())
        if after.leader_epoch > before.leader_epoch and after.has_leader and after.leader not in complete:
            is_last_known = self._elections.has_elr and before.last_known_elr == (after.leader,)
            if not (self._elections.are_unclean or self._is_asked or is_last_known):
                raise Violation("R65", f"broker {after.leader} is elected uncleanly, and nobody has allowed it", before)
            self.unclean_epochs = (*self.unclean_epochs, after.leader_epoch)

    def _tell(self, end: int) -> None:
        """Has the log tell, at its last record, what has changed; one record for each change at least."""
        entries: list[Entry] = []
        for broker, standing in self.standings.items():
            if self._told.get(broker) != standing:
                self._told[broker] = standing
                entries.append(Standing(broker, standing))
        if self.partition != self._told_partition:
            self._told_partition = self.partition
            entries.append(self.partition)
        silent = end - len(self.log) - len(entries)
        self.log += [None] * max(silent, 0)
        self.log += entries

    def _first_records(self) -> Any:
        yield FeatureLevelRecord(name="metadata.version", feature_level=LEVEL)
        yield FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=int(self._elections.has_elr))
        for broker in self.replicas:
            yield RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=_uuid(broker),
                broker_epoch=broker,
                fenced=False,
                log_dirs=(self._directories[broker],),
            )
        yield TopicRecord(name="orders", topic_id=TOPIC)
        yield ConfigRecord(
            resource_type=TOPIC_CONFIGS, resource_name="orders", name="min.insync.replicas", value=str(self.min_isr)
        )
        if self._elections.are_unclean:
            yield ConfigRecord(
                resource_type=TOPIC_CONFIGS, resource_name="orders", name="unclean.leader.election.enable", value="true"
            )
        yield PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=self._first,
            isr=self._first,
            leader=self._first[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(self._directories[broker] for broker in self._first),
        )


def _uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))
