"""A broker process around the core: it carries out effects, fetches, proposes, and applies the metadata log late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.errors import ApiError, ErrorCode
from quorate.replication import (
    ACKS_ALL,
    Alterations,
    AskRange,
    BrokerStanding,
    Diverged,
    Effect,
    EndWaits,
    FetchAt,
    Fetched,
    FetchPosition,
    FollowerFetch,
    Following,
    HighWatermarkRaised,
    Isolation,
    Leading,
    Partition,
    PartitionRegistration,
    ProduceDone,
    ProduceWait,
    Propose,
    Range,
    Refused,
    Waits,
    admission,
    admit_consumer,
    admit_follower,
    admit_produce,
    invariants,
)
from tests.replication.memory_log import MemoryLog
from tests.sim_replication.controller import Standing
from tests.sim_replication.stored_log import StoredLog

if TYPE_CHECKING:
    from tests.sim_replication.world import World

PRODUCE_TIMEOUT_MS = 2_000
REQUEST_TIMEOUT_MS = 400
IDLE_FETCH_MS = 25


@dataclass
class Broker:
    """What outlives a process is the log and the checkpoint of the high watermark."""

    id: int
    world: World
    log: MemoryLog | StoredLog
    checkpoint: int = 0
    is_up: bool = True
    resumes_at_ms: int = 0
    """Paused until then."""
    process: int = 0
    """Counts the starts: what an earlier process has sent is of no use to a later one."""
    epoch: int = 0

    def start(self, epoch: int) -> None:
        """A process begins; it has caught up with the metadata log before it serves."""
        self.is_up, self.epoch = True, epoch
        self.log.reopen()
        self.brokers: dict[int, BrokerStanding] = {}
        self.applied = 0
        self.open()
        self.apply_to(len(self.world.controller.log))

    def open(self) -> None:
        """The partition begins with what the log and the checkpoint have."""
        self.process += 1
        self.partition = Partition(
            broker_id=self.id,
            log=self.log,
            checkpoint=self.checkpoint,
            brokers=self.brokers,
            settings=self.world.settings,
            min_insync_replicas=self.world.controller.min_isr,
        )
        self.opened()
        self.waits: Waits[str] = Waits(lambda key: self.partition)
        self.alterations: Alterations[str] = Alterations(self.world.settings)
        self.fetch_number = 0
        self.is_fetching = False
        self.checked_at_ms = self.world.now_ms

    def opened(self) -> None:
        """The log was opened, and the high watermark is the checkpoint's."""

    @property
    def leading(self) -> Leading | None:
        role = self.partition.role
        return role if isinstance(role, Leading) else None

    # The metadata log

    def apply_to(self, end: int) -> None:
        """Applies the log up to `end`; of several registrations in between only the last is seen, as in a delta."""
        registration: PartitionRegistration | None = None
        for entry in self.world.controller.log[self.applied : end]:
            if isinstance(entry, Standing):
                self.brokers[entry.broker] = entry.standing
            elif entry is not None:
                registration = entry
        self.applied = end
        if registration is not None and self.id not in registration.replicas:
            self.gave_up()
        elif registration is not None:
            if registration.leader == self.id and registration.leader_epoch > self.partition.leader_epoch:
                self.world.oracle.elected(self, registration.leader_epoch)
            self.carry_out(self.partition.apply(registration, now_ms=self.world.now_ms))
            if self.leading is not None:
                self.world.oracle.leads(self)

    def gave_up(self) -> None:
        """The partition has moved to other brokers (R17)."""
        raise AssertionError(f"broker {self.id} is no replica any more, and nobody reassigns here")

    # Effects

    def carry_out(self, effects: list[Effect]) -> None:
        """In their order; the waits last, since no lock is held then."""
        touches = False
        for effect in effects:
            self.world.oracle.before(self, effect)
            self.log.carry_out(effect)
            if isinstance(effect, Propose):
                self.alterations.submit("p", effect.proposal)
            touches |= isinstance(effect, HighWatermarkRaised | EndWaits)
        invariants.check(self.partition)
        self.world.oracle.after(self)
        if touches:
            self.answer(self.waits.touch("p"))

    def answer(self, answers: list[object]) -> None:
        for done in answers:
            assert isinstance(done, ProduceDone), done
            if done.outcomes["p"] is ErrorCode.NONE:
                offset, value = done.wait.reply_to  # type: ignore[misc]  # an object to the core; `produce` has put the pair there
                self.world.oracle.acknowledged(offset, value, self.partition.leader_epoch)

    # What others ask

    def produce(self, acks: int, value: int) -> None:
        """A client writes one record."""
        try:
            role = admit_produce(self.partition, acks)
        except ApiError:
            return
        leo = self.log.write(value, epoch=role.leader_epoch)
        self.carry_out(role.advance(self.world.now_ms))
        if acks == ACKS_ALL:
            deadline_ms = self.world.now_ms + PRODUCE_TIMEOUT_MS
            wait = ProduceWait(required={"p": leo}, deadline_ms=deadline_ms, reply_to=(leo - 1, value))
            done = self.waits.hold(wait, now_ms=self.world.now_ms)
            if done is not None:
                self.answer([done])

    def consume(self, offset: int) -> None:
        """A client reads all that it may have from `offset` on."""
        try:
            grant = admit_consumer(self.partition, FetchPosition(offset=offset))
        except ApiError:
            return
        for batch in self.log.read(offset, grant.end):
            self.world.oracle.read(batch.base_offset, batch.data, self.partition.leader_epoch)

    def serve(self, request: FetchAt | AskRange, sender: int, epoch: int) -> Fetched | Diverged | Range | Refused:
        """A follower asks."""
        try:
            if isinstance(request, AskRange):
                admission.leader_of(self.partition, request.leader_epoch)
                return Range(start=self.log.start, leo=self.log.leo)
            return self._serve_fetch(request, sender, epoch)
        except ApiError as refused:
            return Refused(refused.code)

    def _serve_fetch(self, request: FetchAt, sender: int, epoch: int) -> Fetched | Diverged:
        position = FetchPosition(
            offset=request.offset,
            leader_epoch=request.leader_epoch,
            last_fetched_epoch=request.last_fetched_epoch,
            isolation=Isolation.LOG_END,
        )
        follower = FollowerFetch(replica_id=sender, broker_epoch=epoch, log_start=request.log_start)
        grant, effects = admit_follower(self.partition, position, follower, now_ms=self.world.now_ms)
        self.carry_out(effects)
        if grant.diverging is not None:
            return Diverged(end=grant.diverging, log_start=grant.log_start)
        batches = self.log.read(request.offset, grant.end)[: self.world.batches_max]
        return Fetched(batches=batches, high_watermark=grant.high_watermark, log_start=grant.log_start)

    # What it does by itself

    def tick(self) -> None:
        """Every few ms: heartbeat, metadata, ISR check, AlterPartition, fetch, time-outs."""
        world = self.world
        world.send(self.id, 0, lambda: world.controller_hears(self.id, self.epoch, self.applied))
        behind = len(world.controller.log) - self.applied
        if behind and world.is_reachable(self.id, 0) and world.chance.random() < world.apply_share:
            self.apply_to(self.applied + 1 + world.chance.randrange(behind))
        if self.leading is not None and world.now_ms - self.checked_at_ms >= world.settings.isr_check_interval_ms:
            self.checked_at_ms = world.now_ms
            self.carry_out(self.leading.check_isr(world.now_ms))
        self._alter()
        self._fetch()
        self.answer(list(self.waits.expire(world.now_ms)))
        if world.chance.random() < 0.05:
            self.log.flushed = self.log.leo
            self.checkpoint = self.partition.local.high_watermark

    def _alter(self) -> None:
        world, epoch = self.world, self.epoch
        request = self.alterations.next_request(broker_epoch=epoch, now_ms=world.now_ms)
        if request is None:
            return

        def at_controller() -> object:
            answer = world.controller.alter(self.id, epoch, request.proposals["p"])
            return answer if answer is ErrorCode.STALE_BROKER_EPOCH else {"p": answer}

        def answered(answer: object) -> None:
            for each in self.alterations.take_answer(request.number, answer, now_ms=world.now_ms):  # type: ignore[arg-type]
                if self.leading is not None:
                    self.carry_out(self.leading.take_altered(each.proposal, each.answer, now_ms=world.now_ms))

        world.call(self, 0, at_controller, answered, lost=ErrorCode.NETWORK_EXCEPTION)

    def _fetch(self) -> None:
        role, world, epoch = self.partition.role, self.world, self.epoch
        if self.is_fetching or not isinstance(role, Following):
            return
        request = role.next_request(world.now_ms)
        if request is None:
            return
        self.is_fetching = True
        leader = world.brokers[role.leader_id]

        def answered(answer: object) -> None:
            assert isinstance(answer, Fetched | Diverged | Range | Refused), answer
            self.is_fetching = False
            if self.partition.role is role:
                self.carry_out(role.take(request, answer, now_ms=world.now_ms))

        lost = Refused(ErrorCode.NETWORK_EXCEPTION)
        world.call(self, leader.id, lambda: leader.serve(request, self.id, epoch), answered, lost=lost)
