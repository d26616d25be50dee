"""Simulated brokers: they register, send heartbeats, replay the log, lead, shrink and widen ISRs, go and come back."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from kraft import Message, Uuid
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.register_broker import register_ahead, register_unless_alive
from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import QueueLimit
from quorate.errors import ApiError
from quorate.metadata.features import supported_features
from quorate.nouns import LOST_DIRECTORY, NodeId, Offset
from tests.sim.node import CLUSTER_ID
from tests.sim_controller.calls import CHUNK_LIMITS, OK, Call
from tests.sim_controller.controller import Controller
from tests.sim_controller.model import RECOVERING, Key, Model, Part
from tests.sim_controller.replica import Replica

if TYPE_CHECKING:
    from tests.sim_controller.world import ControllerWorld

FETCH_MS = 60
REGISTER_MS = 200
UNKNOWN_EPOCH = -1
RECOVERED = 0
PartitionData = AlterPartitionRequest.TopicData.PartitionData
Directory = AssignReplicasToDirsRequest.DirectoryData


class Broker:
    """One machine with its directories; its processes come and go."""

    def __init__(self, world: ControllerWorld, id: NodeId) -> None:
        self.world = world
        self.id = id
        self.random: Random = world.stream(f"broker {id}")
        self.rack = None if world.cluster_plan.racks == 1 else f"rack{id % world.cluster_plan.racks}"
        self.directories = tuple(Uuid(self.random.randbytes(16)) for _ in range(self.random.choice([1, 2, 2])))
        self.clean_epoch = UNKNOWN_EPOCH
        """The epoch that ended in order; this is on disk."""
        self.process: Process | None = None
        self._orphans: list[Process] = []

    def start(self) -> None:
        """Another process, unless one is there."""
        if self.process is None:
            self.process = Process(self)

    def stop(self, *, clean: bool) -> None:
        """The process is gone; somebody starts another."""
        process, world = self.process, self.world
        if process is None:
            return
        process.is_gone, self.process = True, None
        self.clean_epoch = process.epoch if clean else UNKNOWN_EPOCH
        world.note(0, "broker", self.id, "has stopped" if clean else "has died")
        world.at(1 + self.random.randrange(world.cluster_plan.session_ms * 2), self.start)

    def begin_shutdown(self) -> None:
        if self.process is not None and self.process.epoch != UNKNOWN_EPOCH:
            self.process.wants_shutdown = True
            self.world.fired("C-03 controlled shutdown")

    def begin_twin(self) -> None:
        """Another process under the same id, while the first still runs: only one of them may be in."""
        if self.process is not None:
            self.world.fired("C-05 new incarnation while the old one lives")
            self.clean_epoch = UNKNOWN_EPOCH
            self.process.is_orphan = True
            self._orphans.append(self.process)
            self.process = Process(self)

    def heal(self) -> None:
        """One process, and that awake."""
        for orphan in self._orphans:
            orphan.is_gone = True
        self.start()
        assert self.process is not None
        self.process.paused_until = 0

    def lose_directory(self) -> None:
        if self.process is not None:
            self.process.lose_directory()


class Process:
    """One incarnation."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.world = broker.world
        self.random = broker.random
        self.incarnation = Uuid(self.random.randbytes(16))
        self.epoch = UNKNOWN_EPOCH
        self.is_gone = False
        self.is_orphan = False
        """Another process has taken its place; it does not know yet."""
        self.wants_shutdown = False
        self.is_registering = False
        self.paused_until = 0
        self.offline: tuple[Uuid, ...] = ()
        """Its directories that have failed; the next process finds them mended."""
        self.view = Model()
        self.replica = Replica(self.world, replay=self._replay, load=self._load)
        self.ranges = self._drawn_ranges()
        world = self.world
        world.again(FETCH_MS, self._when_awake(self.replica.fetch), until=lambda: self.is_gone)
        world.again(REGISTER_MS, self._when_awake(self._register), until=lambda: self.is_gone)
        heartbeat_ms = world.cluster_plan.session_ms // 6
        world.again(heartbeat_ms, self._when_awake(self._heartbeat), until=lambda: self.is_gone)
        world.again(world.cluster_plan.isr_every_ms, self._when_awake(self._lead), until=lambda: self.is_gone)

    @property
    def is_in(self) -> bool:
        """Is it, as far as it knows, registered in its epoch and not fenced?"""
        member = self.view.members.get(self.broker.id)
        return member is not None and member.epoch == self.epoch and not member.fenced

    def may_register(self) -> bool:
        """Does it support every level of the cluster?"""
        levels = self.world.history.model.levels
        return all(low <= levels.get(name, 0) <= high for name, (low, high) in self.ranges.items())

    def _when_awake(self, deed: Any) -> Any:
        return lambda: None if self.world.timeline.now_ms < self.paused_until else deed()

    def _drawn_ranges(self) -> dict[str, tuple[int, int]]:
        """What it supports; some are older than others."""
        ranges = dict(supported_features())
        if self.random.random() < 0.15 and not self.world.is_healed:
            ranges["metadata.version"] = (7, self.random.choice([25, 30]))
        return ranges

    # Registration and heartbeats.

    def _register(self) -> None:
        if self.epoch != UNKNOWN_EPOCH or self.is_registering:
            return
        self.is_registering = True
        request = self._registration()

        def chunks(controller: Controller) -> Iterator[Command[Any]]:
            state, raft, settings = controller.engine.state, controller.node.raft, self.world.controller_settings
            assert raft is not None
            last = state.brokers.get(request.broker_id)
            yield from register_ahead(
                state,
                request,
                cluster_id=CLUSTER_ID,
                kraft_version=raft.log.kraft_version,
                settings=settings,
                limits=CHUNK_LIMITS[0 if last is None else last.epoch % len(CHUNK_LIMITS)],
            )
            yield register_unless_alive(
                request, cluster_id=CLUSTER_ID, kraft_version=raft.log.kraft_version, settings=settings
            )

        def ended(call: Call) -> None:
            self.is_registering = False
            if call.outcome == OK and not self.is_gone:
                self.epoch = call.response.broker_epoch

        call = Call(
            what=f"BrokerRegistration {request.broker_id}",
            request=request,
            chunks=chunks,
            ended=ended,
            lane=QueueLimit.CLUSTER,
        )
        self.world.at(0, lambda: self.world.oracle.ask(call))

    def _registration(self) -> BrokerRegistrationRequest:
        feature = BrokerRegistrationRequest.Feature
        broker = self.broker
        return BrokerRegistrationRequest(
            broker_id=broker.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnation,
            listeners=(BrokerRegistrationRequest.Listener("PLAINTEXT", f"broker{broker.id}", 9092, 0),),
            features=tuple(feature(name, low, high) for name, (low, high) in sorted(self.ranges.items())),
            rack=broker.rack,
            log_dirs=broker.directories,
            previous_broker_epoch=broker.clean_epoch,
        )

    def _heartbeat(self) -> None:
        if self.epoch == UNKNOWN_EPOCH or self.world.happens(self.world.cluster_plan.missed, "C-01 heartbeats missed"):
            return
        request = BrokerHeartbeatRequest(
            broker_id=self.broker.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.replica.next - 1,
            want_shut_down=self.wants_shutdown,
            offline_log_dirs=self.offline,
        )
        self.world.carry(lambda: self.world.tracker.heartbeat(self, request))

    def hear(self, response: BrokerHeartbeatResponse) -> None:
        """The heartbeat was answered."""
        if not self.is_gone and response.should_shut_down and self.wants_shutdown:
            if self.is_orphan:
                self.is_gone = True
            else:
                self.broker.stop(clean=True)

    def hear_refusal(self, refused: ApiError) -> None:
        """Its epoch is over: another process is there, or it was unregistered."""
        if self.is_gone:
            return
        if self.is_orphan:
            self.is_gone = True
        else:
            self.world.tally["brokers told that they are stale"] += 1
            self.broker.stop(clean=False)

    # As a leader.

    def _lead(self) -> None:
        if not self.is_in or self.wants_shutdown:
            return
        led = sorted(self.view.led_by(self.broker.id), key=lambda found: found[0])
        if led:
            key, part = self.random.choice(led)
            asked = self._alteration(key, part)
            if asked is not None:
                self._alter(key, asked)
        if self.random.random() < 0.2:
            self._assign(self.random.choice([each for each in self.broker.directories if each not in self.offline]))

    def _alteration(self, key: Key, part: Part) -> PartitionData | None:
        """A replica that has fallen behind leaves; who has caught up comes; who recovers says when it has."""
        outside = [id for id in part.replicas if id not in part.isr and self._seems_there(id)]
        isr = list(part.isr)
        if part.recovery == RECOVERING:
            pass
        elif outside and self.random.random() < 0.7:
            isr.append(self.random.choice(outside))
        elif len(isr) > 1 and self.random.random() < 0.3:
            isr.remove(self.random.choice([id for id in isr if id != part.leader]))
        else:
            return None
        leader_epoch, partition_epoch = part.leader_epoch, part.partition_epoch
        if self.world.happens(self.world.cluster_plan.stale, "C-12 stale AlterPartition"):
            partition_epoch -= self.random.choice([0, 0, 1])
            leader_epoch -= self.random.choice([0, 0, 1])
        member = PartitionData.BrokerState
        return PartitionData(
            partition_index=key[1],
            leader_epoch=leader_epoch,
            new_isr_with_epochs=tuple(member(id, self._seen_epoch(id)) for id in isr),
            leader_recovery_state=RECOVERED,
            partition_epoch=partition_epoch,
        )

    def _seems_there(self, id: NodeId) -> bool:
        return self.view.is_active(id) or self.random.random() < self.world.cluster_plan.stale

    def _seen_epoch(self, id: NodeId) -> int:
        member = self.view.members.get(id)
        epoch = self.epoch if id == self.broker.id else UNKNOWN_EPOCH if member is None else member.epoch
        is_wrong = id != self.broker.id and self.world.happens(
            self.world.cluster_plan.stale * 0.2, "C-12 stale AlterPartition"
        )
        return max(0, epoch - 1) if is_wrong else epoch

    def _alter(self, key: Key, asked: PartitionData) -> None:
        topic = AlterPartitionRequest.TopicData(topic_id=key[0], partitions=(asked,))
        request = AlterPartitionRequest(broker_id=self.broker.id, broker_epoch=self.epoch, topics=(topic,))

        def command(controller: Controller, _: Any) -> Command[Any]:
            return alter_partition(request, settings=self.world.controller_settings)

        self._ask("AlterPartition", request, command, late=self.world.cluster_plan.stale)

    def lose_directory(self) -> None:
        """C-04: what lies in one of its directories cannot be reached. It says so, or of replicas that had no place."""
        if not self.is_in:
            return
        if len(self.broker.directories) > 1 and not self.offline:
            self.offline = (max(self.broker.directories, key=self._led_from),)
            self.world.fired("C-04 directory offline")
        elif self._assign(LOST_DIRECTORY):
            self.world.fired("C-04 replica without a directory")

    def _led_from(self, directory: Uuid) -> int:
        led = (part for _, part in self.view.led_by(self.broker.id))
        return sum(part.directories[part.replicas.index(self.broker.id)] == directory for part in led)

    def _assign(self, directory: Uuid) -> bool:
        own = sorted(key for key, part in self.view.parts.items() if self.broker.id in part.replicas)
        if not own:
            return False
        chosen = sorted(self.random.sample(own, min(len(own), 2)))
        topics = tuple(
            Directory.TopicData(topic_id, (Directory.TopicData.PartitionData(number),)) for topic_id, number in chosen
        )
        request = AssignReplicasToDirsRequest(
            broker_id=self.broker.id, broker_epoch=self.epoch, directories=(Directory(directory, topics),)
        )

        def command(controller: Controller, _: Any) -> Command[Any]:
            return assign_replicas_to_dirs(request, settings=self.world.controller_settings)

        self._ask("AssignReplicasToDirs", request, command)
        return True

    def _ask(self, what: str, request: Any, command: Any, late: float = 0.0) -> None:
        call = Call(what=what, request=request, command=command, lane=QueueLimit.CLUSTER)
        is_late = late > 0 and self.random.random() < late * 0.3 and not self.world.is_healed
        self.world.at(self.random.randrange(1, 3_000) if is_late else 0, lambda: self.world.oracle.ask(call))

    # Its replica.

    def _replay(self, records: list[Message], base: Offset, end: Offset) -> None:
        for offset, record in enumerate(records, base):
            self.view.apply(record, offset)

    def _load(self, records: list[Message], base: Offset, end: Offset) -> None:
        """I-40: what a broker reads grows along one history, over checkpoints too."""
        self.view = self.world.history.judge_checkpoint(records, end)
